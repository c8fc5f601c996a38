"""What commands print: data on standard output, messages on standard error."""

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from depthgraph.errors import DepthGraphError

#: Kinds of error that say how a command was called, not what a route means.
USAGE = {
    "unknown-view",
    "missing-file",
    "missing-package",
    "missing-dot",
    "wrong-usage",
    "unknown-notation",
    "notation-option",
    "invalid-space",
    "invalid-pattern",
    "space-too-large",
    "empty-space",
}
#: Below this many columns a table is stacked.
LEAST_TABLE = 80
#: What stands for a sign where a stream is ASCII; each is as wide as what it stands for, so carets stay in place.
ASCII: Mapping[str, str] = {"×": "x", "…": "~", "·": "-", "–": "-", "—": "-", "→": ">", "≥": ">", "≤": "<"}

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console(*, stderr: bool = False) -> "Console":
    """Return a rich console; like rich itself it keeps `NO_COLOR`, and is plain where no terminal reads it."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 120
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def status(error: DepthGraphError) -> int:
    """Return the exit status of an error: 1 for an invalid route or file, 2 for wrong usage."""
    return 2 if error.code in USAGE else 1


def report(error: DepthGraphError) -> None:
    """Print an error on standard error, in colour on a terminal."""
    if not sys.stderr.isatty():
        note(error.render())
        return
    from rich.text import Text

    text = Text(encodable(error.render(), sys.stderr.encoding))
    text.highlight_regex(r"error\[[a-z-]+\]", "bold red")
    text.highlight_regex(r"(?m)^ +\| [\s]*\^+$", "red")
    text.highlight_regex(r"(?m)^help:", "bold cyan")
    console(stderr=True).print(text, soft_wrap=True)


def note(message: str) -> None:
    """Print a message on standard error."""
    print(encodable(message, sys.stderr.encoding), file=sys.stderr)


def data(text: str) -> None:
    """Print data on standard output."""
    print(encodable(text, sys.stdout.encoding))


def data_json(value: Any) -> None:
    """Print data on standard output as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=True))


def show_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on standard output; where it is narrow, its rows one below the other, so that nothing is cut."""
    screen = console()
    told = [[encodable(cell, sys.stdout.encoding) for cell in row] for row in rows]
    if screen.width < LEAST_TABLE:
        print("\n\n".join(_stacked(titles, row, screen.width) for row in told))
    else:
        screen.print(_table(titles, told))


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> "Table":
    from rich import box
    from rich.table import Table

    # rich's own stand-in for this box is a full frame
    line = box.SIMPLE_HEAD if not plain() else box.Box("\n".join(["    "] * 2 + [" -- "] + ["    "] * 5), ascii=True)
    table = Table(box=line, pad_edge=False, header_style="bold")
    for index, title in enumerate(titles):
        table.add_column(title, overflow="fold", no_wrap=index == 0)
    for row in rows:
        table.add_row(*row)
    return table


def _stacked(titles: Sequence[str], row: Sequence[str], width: int) -> str:
    """Return a row as lines: its first cell, and the others with their titles, wrapped at blanks alone."""
    wrap = partial(textwrap.wrap, width=max(20, width), break_long_words=False, break_on_hyphens=False)
    lines = wrap(row[0], subsequent_indent="  ")
    for title, cell in zip(titles[1:], row[1:], strict=True):
        lines += wrap(f"{title}: {cell}", initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)


def plain() -> bool:
    """Whether standard output takes ASCII alone, or another encoding without the signs of pictures."""
    try:
        "█▌│└─┴╭╮╷⋮×".encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return True
    return False


def encodable(text: str, encoding: str | None) -> str:
    """Return the text as a stream of another encoding takes it: like signs for signs, `?` for the rest."""
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return "".join(_sign(c, encoding or "utf-8") for c in text)
    return text


def _sign(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return ASCII.get(character, "?")
    return character
