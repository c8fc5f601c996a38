"""The progress bar of a run, on stderr."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Report(Protocol):
    """What a bar is told."""

    def __call__(self, step: int, loss: float, tokens_per_second: float) -> None:
        """Show that a step is done."""


@contextmanager
def progress_bar(name: str, step: int, steps: int, *, shown: bool) -> Iterator[Report]:
    """Show a bar while the block runs, and give what moves it.

    Args:
        name: of the run.
        step: done already.
        steps: of the whole run.
        shown: whether there is a bar at all.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}", markup=False),
        TimeRemainingColumn(compact=True),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, expand=True, disable=not shown) as progress:
        task = progress.add_task(name, total=steps, completed=step, figures="")

        def report(step: int, loss: float, tokens_per_second: float) -> None:
            perplexity = math.exp(min(loss, 700.0))
            figures = f"loss {loss:.3f}  ppl {perplexity:,.1f}  {tokens_per_second:,.0f} tok/s"
            progress.update(task, completed=step, figures=figures)

        yield report
