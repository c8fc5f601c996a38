"""What commands print: data on standard output, messages on standard error."""

import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from depthgraph.errors import DepthGraphError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console(*, stderr: bool = False) -> "Console":
    """Return a rich console; like rich itself it keeps `NO_COLOR`, and is plain where no terminal reads it."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 120
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def report(error: DepthGraphError) -> None:
    """Print an error on standard error, in colour on a terminal."""
    if not sys.stderr.isatty():
        print(_encodable(error.render(), sys.stderr.encoding), file=sys.stderr)
        return
    from rich.text import Text

    text = Text(error.render())
    text.highlight_regex(r"error\[[a-z-]+\]", "bold red")
    text.highlight_regex(r"(?m)^ +\| [\s]*\^+$", "red")
    text.highlight_regex(r"(?m)^help:", "bold cyan")
    console(stderr=True).print(text, soft_wrap=True)


def note(message: str) -> None:
    """Print a message on standard error."""
    print(_encodable(message, sys.stderr.encoding), file=sys.stderr)


def data(text: str) -> None:
    """Print data on standard output."""
    print(_encodable(text, sys.stdout.encoding))


def data_json(value: Any) -> None:
    """Print data on standard output as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=True))


def show_table(table: "Table") -> None:
    """Print a table on standard output."""
    console().print(table)


def plain_table(titles: Iterable[str], right: Iterable[str] = ()) -> "Table":
    """Return an empty table with the look of all tables here; columns in `right` hold numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    numbers = set(right)
    for title in titles:
        table.add_column(title, justify="right" if title in numbers else "left", overflow="fold")
    return table


def _encodable(text: str, encoding: str | None) -> str:
    """Return the text with `?` for what a stream of another encoding could not take."""
    return text.encode(encoding or "utf-8", "replace").decode(encoding or "utf-8")
