"""How far a run over routes and windows is: a bar on a terminal, elsewhere a line now and then."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from depthgraph.cli.console import console, note

if TYPE_CHECKING:
    from depthgraph.cli.hf_options import Setting
    from depthgraph.hf.evaluate import Report
    from depthgraph.hf.results import Results

#: Seconds between two lines where no terminal shows a bar; characters of a route beside the bar.
BETWEEN, LONGEST = 60.0, 40


@contextmanager
def progress(done: int, total: int) -> "Iterator[Report]":
    """Show how many windows of all routes are done while the block runs, and give what is told of more.

    Args:
        done: those that an earlier run did.
        total: of all routes.
    """
    if not sys.stderr.isatty():
        yield _Lines(done, total, time.monotonic())
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("windows"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console(stderr=True), expand=True, transient=True) as bar:
        task = bar.add_task("", total=total, completed=done)

        def report(route: str, windows: int) -> None:
            shown = route if len(route) <= LONGEST else f"{route[: LONGEST - 1]}…"
            bar.update(task, advance=windows, description=shown)

        yield report


@dataclass
class _Lines:
    """Says on standard error how far a run is, where no terminal shows a bar."""

    done: int
    total: int
    said: float

    def __call__(self, route: str, windows: int) -> None:
        self.done += windows
        if time.monotonic() - self.said >= BETWEEN:
            self.said = time.monotonic()
            note(f"{self.done:,} of {self.total:,} windows of all routes, at {route}")


def run_missing(
    setting: "Setting",
    results: "Results",
    routes: Iterable[str],
    compute: "Callable[[Any, Report], None]",
) -> None:
    """Load the model and compute what is missing; a model of which nothing is missing is not loaded.

    Args:
        setting: what routes are compared on.
        results: what is done already.
        routes: the canonical text of each.
        compute: is given the model and what it is to tell of its progress.

    Raises:
        typer.Exit: the user has interrupted it.
    """
    count, texts = len(setting.windows), set(routes)
    done, total = sum(min(count, results.count(text)) for text in texts), count * len(texts)
    if done == total:
        return
    try:
        model = setting.load()
        with progress(done, total) as report:
            compute(model, report)
    except KeyboardInterrupt:
        raise _interrupted(results.path and results.path.parent) from None


def _interrupted(out: Path | None) -> typer.Exit:
    kept = f"the same command goes on from {out}" if out else "nothing was kept, as with --out DIR"
    note(f"interrupted; {kept}")
    return typer.Exit(130)
