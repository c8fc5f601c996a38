"""The picture of a difference: two rows, the first route above the second, what is the same below one another."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from depthgraph.draw import scene
from depthgraph.draw.labels import clipped, text_width
from depthgraph.draw.palette import INK, fill
from depthgraph.draw.render import FORMATS, render
from depthgraph.draw.scene import Line, Rect, Scene, Shape, Text
from depthgraph.draw.summary import facts, refuse_large
from depthgraph.errors import DrawError
from depthgraph.symbols import is_flow
from depthgraph.whole_file import check_place, write_whole

if TYPE_CHECKING:
    from depthgraph.explore.difference import Diff

#: points: the room across, the margin, a cell's least width and height, the gap between the rows, a line of both rows.
ROOM, MARGIN, CELL, HEIGHT, GAP = 760.0, 14.0, 22.0, 22.0, 20.0
STRIP, LINE = 4.0, 2 * HEIGHT + GAP + 44.0
#: the heading with both texts, and the legend.
ABOVE, BELOW = 78.0, 30.0
#: the most columns: thirty lines or so.
MOST_COLUMNS = 1_000

#: kind of edit → the colour of its strip, which reads on light and on dark paper, and what the legend says.
MARKS: Mapping[str, tuple[str, str]] = {
    "removed": ("#e5534b", "gone"),
    "added": ("#2da44e", "new"),
    "replaced": ("#bf8700", "another instead"),
    "repeated": ("#1f8fa6", "runs more often"),
    "shortened": ("#b35f00", "runs less often"),
    "moved away": ("loop", "moved"),
    "moved here": ("loop", "moved"),
}


@dataclass(frozen=True)
class Column:
    """One place of the picture.

    Attributes:
        edit: which edit it belongs to.
        places: its place in the first and in the second route; None where that has nothing here.
        line: which line it is on, from 0.
        x: where it begins.
        width: of it.
    """

    edit: int
    places: tuple[int | None, int | None]
    line: int
    x: float
    width: float


def diff_scene(diff: "Diff") -> Scene:
    """Return the difference as a drawing.

    Raises:
        DrawError: `too-large-to-draw`.
    """
    count = sum(max(len(edit.one), len(edit.other)) for edit in diff.edits)
    refuse_large(count, "places", "difference", "print it: its text names what differs", MOST_COLUMNS)
    columns = tuple(_columns(diff))
    lines = columns[-1].line + 1
    headings = tuple(_heading(diff))
    legend = tuple(_legend(diff, ABOVE + lines * LINE))
    written = (text for text in (*headings, *legend) if isinstance(text, Text))
    across = max(*(c.x + c.width for c in columns), *(text.x + text_width(text.text, text.size) for text in written))
    shapes: tuple[Shape, ...] = (
        *headings,
        *(shape for column in columns for shape in _cells(diff, column)),
        *_moves(diff, columns),
        *legend,
    )
    title = f"{clipped(diff.one.text, 100)} and {clipped(diff.other.text, 100)}"
    return Scene(across + MARGIN, ABOVE + lines * LINE + BELOW, title, shapes)


def _columns(diff: "Diff") -> Iterator[Column]:
    line, x = 0, MARGIN
    for number, edit in enumerate(diff.edits):
        for one, other in zip_longest(edit.one, edit.other):
            width = max(CELL, *(text_width(text, 10) + 8 for text in _texts(diff, (one, other)) if text))
            if x + width > MARGIN + ROOM:
                line, x = line + 1, MARGIN
            yield Column(number, (one, other), line, x, width)
            x += width


def _texts(diff: "Diff", places: tuple[int | None, int | None]) -> tuple[str, str]:
    one, other = (
        "" if place is None else diff.wording.word(symbols[place])
        for symbols, place in zip(diff.symbols, places, strict=True)
    )
    return one, other


def _heading(diff: "Diff") -> Iterator[Text]:
    for row, route in enumerate((diff.one, diff.other)):
        y = 22 + 30 * row
        yield Text(MARGIN, y, clipped(route.text, 100), size=11, colour="ink", font="mono")
        yield Text(MARGIN, y + 13, facts(route), size=9)


def _y(line: int, row: int) -> float:
    return ABOVE + line * LINE + 22 + row * (HEIGHT + GAP)


def _cells(diff: "Diff", column: Column) -> Iterator[Shape]:
    edit = diff.edits[column.edit]
    depth = max(diff.one.parameter_depth, diff.other.parameter_depth)
    texts = _texts(diff, column.places)
    middle = column.x + column.width / 2
    if edit.kind == "same":
        top, bottom = _y(column.line, 0) + HEIGHT, _y(column.line, 1)
        yield Line(((middle, top + 2), (middle, bottom - 2)), "grid", 2.0)
    for row, (place, text) in enumerate(zip(column.places, texts, strict=True)):
        y = _y(column.line, row)
        if place is None:
            yield Line(((column.x + 3, y + HEIGHT / 2), (column.x + column.width - 3, y + HEIGHT / 2)), "grid")
            continue
        symbol = diff.symbols[row][place]
        colour = "band" if is_flow(symbol) else fill(symbol, depth)
        yield Rect(column.x + 1, y, column.width - 2, HEIGHT, colour)
        yield Text(middle, y + 15, text, "middle", 10, "ink" if is_flow(symbol) else INK)
        if edit.kind != "same":
            yield Rect(
                column.x, y - STRIP - 2 if row == 0 else y + HEIGHT + 2, column.width, STRIP, MARKS[edit.kind][0]
            )
        if not is_flow(symbol):
            position = sum(not is_flow(each) for each in diff.symbols[row][: place + 1])
            yield Text(middle, y - 9 if row == 0 else y + HEIGHT + 15, str(position), "middle", 8, "faint")


def _moves(diff: "Diff", columns: tuple[Column, ...]) -> Iterator[Line]:
    """Yield a line from where each move begins to where it ends, when both are on one line."""
    for number, edit in enumerate(diff.edits):
        if edit.kind == "moved away":
            away, here = ([c for c in columns if c.edit == at] for at in (number, edit.partner))
            if {c.line for c in away} == {c.line for c in here} == {away[0].line}:
                points = tuple(
                    ((ends[0].x + ends[-1].x + ends[-1].width) / 2, y)
                    for ends, y in ((away, _y(away[0].line, 0) + HEIGHT + 2), (here, _y(away[0].line, 1) - 2))
                )
                yield Line(points, "loop", 1.6)


def _legend(diff: "Diff", y: float) -> Iterator[Rect | Text]:
    x = MARGIN
    for colour, words in dict.fromkeys(MARKS[edit.kind] for edit in diff.changes):
        yield Rect(x, y + 6, 16, STRIP, colour)
        yield Text(x + 21, y + 12, words, size=9)
        x += 21 + text_width(words, 9) + 16
    yield Text(x, y + 12, "numbers outside: the executions of each route", size=9, colour="faint")


def save_diff(diff: "Diff", path: str | os.PathLike[str]) -> Path:
    """Save a difference, in the format that the path's ending names; the file appears whole or not at all.

    Raises:
        DrawError: as `Diff.save`.
    """
    target = Path(path)
    format = target.suffix.lower().removeprefix(".")
    if format not in (*FORMATS, "dot", "txt"):
        message = f"the ending of {target.name} is not that of a picture of a difference"
        raise DrawError("unknown-view", message, help="it can end in .svg, .png, .pdf, .dot or .txt")
    check_place(target, DrawError)
    write_whole(target, _content(diff, format), DrawError)
    return target


def _content(diff: "Diff", format: str) -> bytes:
    match format:
        case "txt":
            return f"{diff.text}\n".encode()
        case "svg":
            return scene.svg(diff_scene(diff)).encode()
        case "dot":
            return scene.dot(diff_scene(diff)).encode()
        case _:
            return render(scene.dot(diff_scene(diff)), format)
