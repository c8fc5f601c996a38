"""The staircase for a terminal: a column an execution, a row a layer, the highest on top."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from depthgraph.draw.labels import Names, clipped, labels
from depthgraph.draw.staircase import ticks
from depthgraph.draw.structure import LoopSpan, loop_spans, tree
from depthgraph.draw.summary import facts
from depthgraph.route import Route
from depthgraph.source import cells

LONGEST_NAME = 24
#: more layers than this, and a block shows only those that run in it.
ALL_ROWS = 64
LEAST_ROOM = 10


@dataclass(frozen=True, slots=True)
class Signs:
    """The characters that a staircase is made of."""

    wide: str
    narrow: str
    axis: str
    corner: str
    floor: str
    tick: str
    opening: str
    bar: str
    closing: str
    single: str
    hidden: str
    times: str


UNICODE = Signs("█▌", "█", "│", "└", "─", "┴", "╭", "─", "╮", "╷", "⋮", "×")
ASCII = Signs("# ", "#", "|", "+", "-", "+", "+", "-", "+", "|", ":", "x")


@dataclass(frozen=True, slots=True)
class Grid:
    """How a staircase is laid out.

    Attributes:
        signs: the characters it is made of.
        shown: the label of each layer.
        cell: the width of an execution, in characters.
        room: how many executions stand beside each other.
        margin: the width of the labels.
    """

    signs: Signs
    shown: Sequence[str]
    cell: int
    room: int
    margin: int


def staircase_text(route: Route, width: int = 100, ascii: bool = False, names: Names | None = None) -> str:
    """Return the staircase as lines of text.

    A route that is wider than the terminal goes on in another block below. Over 64 layers, a block shows only
    the layers that run in it, and a mark where others lie between.

    Args:
        route: the route.
        width: of the terminal, in characters.
        ascii: use ASCII characters only; others in names become question marks.
        names: labels for the layers.
    """
    grid = _grid(route, width, ascii, names)
    spans = _by_block(loop_spans(tree(route)), grid.room)
    starts = range(1, route.execution_depth + 1, grid.room)
    head = facts(route).replace(" · ", "  ")
    blocks = ("\n".join(line.rstrip() for line in _block(route, grid, spans[start], start)) for start in starts)
    return "\n\n".join([head, *blocks]) + "\n"


def _grid(route: Route, width: int, ascii: bool, names: Names | None) -> Grid:
    shown = [clipped(label, LONGEST_NAME) for label in labels(route, names)]
    if ascii:
        shown = [label.replace("…", "~").encode("ascii", "replace").decode() for label in shown]
    margin = max(terminal_width(label) for label in shown)
    room = max(LEAST_ROOM, width - margin - 3)
    cell = 2 if 2 * route.execution_depth <= room else 1
    return Grid(ASCII if ascii else UNICODE, shown, cell, room // cell, margin)


def _by_block(spans: Iterable[LoopSpan], room: int) -> defaultdict[int, list[LoopSpan]]:
    """Return, for the first position of each block, the loops that reach into it."""
    blocks: defaultdict[int, list[LoopSpan]] = defaultdict(list)
    for span in spans:
        _, _, first, last = span
        for start in range(first - (first - 1) % room, last + 1, room):
            blocks[start].append(span)
    return blocks


def terminal_width(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    return sum(cells(character) for character in text)


def _block(route: Route, grid: Grid, spans: list[LoopSpan], start: int) -> Iterator[str]:
    """Yield the lines of the positions from `start` on that fit beside each other."""
    path = route.path[start - 1 : start - 1 + grid.room]
    indent, dropped = " " * (grid.margin + 3), frozenset(route.dropped)
    for line in _brackets(grid, spans, start, len(path)):
        yield indent + line
    columns: dict[int, list[int]] = {}
    for column, layer in enumerate(path):
        columns.setdefault(layer, []).append(column)
    for layer in _rows(route.parameter_depth, columns):
        row = _row(grid, layer, columns.get(layer, []), len(path))
        yield row + "dropped" if layer in dropped else row
    yield from _axis(grid, start, len(path), route.execution_depth)


def _rows(depth: int, columns: dict[int, list[int]]) -> Iterator[int]:
    """Yield the layers of a block from the top; 0 stands for layers left out."""
    if depth <= ALL_ROWS:
        yield from range(depth, 0, -1)
        return
    above = depth + 1
    for layer in sorted(columns, reverse=True):
        if layer < above - 1:
            yield 0
        yield layer
        above = layer
    if above > 1:
        yield 0


def _row(grid: Grid, layer: int, columns: list[int], length: int) -> str:
    if not layer:
        return f"{' ' * grid.margin} {grid.signs.hidden}"
    full = grid.signs.wide if grid.cell == 2 else grid.signs.narrow
    line = [" " * grid.cell] * (length if columns else 0)
    for column in columns:
        line[column] = full
    label = grid.shown[layer - 1]
    return f"{' ' * (grid.margin - terminal_width(label))}{label} {grid.signs.axis} {''.join(line)}"


def _brackets(grid: Grid, spans: list[LoopSpan], start: int, length: int) -> Iterator[str]:
    """Yield a line for each level of the loops of a block, the outermost first."""
    end = start + length
    for level in sorted({span[1] for span in spans}, reverse=True):
        line = [" "] * (length * grid.cell)
        for title, _, first, last in (span for span in spans if span[1] == level):
            left = (max(first, start) - start) * grid.cell
            right = (min(last + 1, end) - start) * grid.cell
            line[left:right] = _bracket(grid, title, right - left, first >= start, last < end)
        yield "".join(line)


def _bracket(grid: Grid, title: str, length: int, opens: bool, closes: bool) -> str:
    signs = grid.signs
    if length == 1:
        return signs.single
    title = title.replace("×", signs.times)
    text = next((t for t in (f" {title} ", title) if len(t) <= length - 2), "")
    left, right = (signs.opening if opens else signs.bar), (signs.closing if closes else signs.bar)
    return left + text.center(length - 2, signs.bar) + right


def _axis(grid: Grid, start: int, length: int, last: int) -> Iterator[str]:
    signs = grid.signs
    needed = len(str(last)) + 1
    marks = [p - start for p in ticks(last, grid.cell, needed) if start <= p < start + length]
    floor = [signs.floor] * (length * grid.cell)
    numbers = [" "] * (length * grid.cell + needed)
    for mark in marks:
        floor[mark * grid.cell] = signs.tick
        text = str(mark + start)
        numbers[mark * grid.cell : mark * grid.cell + len(text)] = text
    yield f"{' ' * (grid.margin + 1)}{signs.corner}{signs.floor}{''.join(floor)}"
    yield f"{' ' * (grid.margin + 3)}{''.join(numbers)}"
