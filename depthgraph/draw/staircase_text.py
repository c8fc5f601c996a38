"""The staircase for a terminal: a column an execution, a row a layer, the highest on top.

A route with data flow has a column for every state that is computed, and rows for data flow below the layers.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from depthgraph.draw.labels import Names, clipped, labels
from depthgraph.draw.rows_text import FLOW_ASCII, FLOW_UNICODE, FlowSigns, legend, track_row
from depthgraph.draw.staircase import INSTEAD, ticks
from depthgraph.draw.structure import LoopSpan, loop_spans, tree
from depthgraph.draw.summary import facts, refuse_large
from depthgraph.draw.tracks import Score, has_registers, score_of
from depthgraph.route import Route
from depthgraph.source import cells

LONGEST_NAME = 24
#: more layers than this, and a block shows only those that run in it.
ALL_ROWS = 64
LEAST_ROOM = 10
#: rows of data flow, of all blocks together.
MOST_ROWS = 50_000


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
    flow: FlowSigns


UNICODE = Signs("█▌", "█", "│", "└", "─", "┴", "╭", "─", "╮", "╷", "⋮", "×", FLOW_UNICODE)
ASCII = Signs("# ", "#", "|", "+", "-", "+", "+", "-", "+", "|", ":", "x", FLOW_ASCII)


@dataclass(frozen=True, slots=True)
class Grid:
    """How a staircase is laid out.

    Attributes:
        signs: the characters it is made of.
        shown: the label of each layer.
        cell: the width of an execution, in characters.
        room: how many columns stand beside each other.
        margin: the width of the labels.
        score: the columns, and the rows of data flow.
        positions: those that the axis names.
    """

    signs: Signs
    shown: Sequence[str]
    cell: int
    room: int
    margin: int
    score: Score
    positions: Sequence[int]


def staircase_text(route: Route, width: int = 100, ascii: bool = False, names: Names | None = None) -> str:
    """Return the staircase as lines of text.

    A route that is wider than the terminal goes on in another block below. Over 64 layers, a block shows only
    the layers that run in it, and a mark where others lie between.

    Args:
        route: the route.
        width: of the terminal, in characters.
        ascii: use ASCII characters only; others in names become question marks.
        names: labels for the layers.

    Raises:
        DrawError: `too-large-to-draw`, for more rows of data flow than can be read.
    """
    items = tree(route)
    grid = _grid(route, score_of(route, items), width, ascii, names)
    starts = range(grid.score.first, grid.score.last + 1, grid.room)
    refuse_large(len(grid.score.tracks) * len(starts), "rows of data flow", "text", INSTEAD, MOST_ROWS)
    spans = _by_block(loop_spans(items), starts)
    head = facts(route).replace(" · ", "  ")
    if ascii:
        head = head.replace("…", "~")
    foot = [legend(grid.score, grid.signs.flow)] if has_registers(grid.score) else []
    columns = _columns(route, grid.score)
    blocks = (_block(route, grid, spans[start], start, columns) for start in starts)
    pieces = ("\n".join(line.rstrip() for line in block) for block in blocks)
    return "\n\n".join([head, *pieces, *foot]) + "\n"


def _columns(route: Route, score: Score) -> list[int]:
    """Return the layer that runs in each column; 0 where none does."""
    layers = [0] * score.length
    for column, layer in zip(score.executed, route.path, strict=True):
        layers[column - score.first] = layer
    return layers


def _grid(route: Route, score: Score, width: int, ascii: bool, names: Names | None) -> Grid:
    shown = [clipped(label, LONGEST_NAME) for label in labels(route, names)]
    if ascii:
        shown = [label.replace("…", "~").encode("ascii", "replace").decode() for label in shown]
    margin = max(map(terminal_width, (*shown, *(track.label for track in score.tracks))))
    room = max(LEAST_ROOM, width - margin - 3)
    # a column of data flow holds what is read and what is saved
    cell = 2 if score.tracks or 2 * score.length <= room else 1
    positions = ticks(route.execution_depth, cell, _number_room(score))
    return Grid(ASCII if ascii else UNICODE, shown, cell, room // cell, margin, score, positions)


def _number_room(score: Score) -> int:
    """Return how many characters a number on the axis needs."""
    return len(str(len(score.executed))) + 1


def _by_block(spans: Iterable[LoopSpan], starts: range) -> defaultdict[int, list[LoopSpan]]:
    """Return, for the first column of each block, the loops that reach into it."""
    blocks: defaultdict[int, list[LoopSpan]] = defaultdict(list)
    for span in spans:
        _, _, first, last = span
        for start in starts[(first - starts.start) // starts.step : (last - starts.start) // starts.step + 1]:
            blocks[start].append(span)
    return blocks


def terminal_width(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    return sum(cells(character) for character in text)


def _block(route: Route, grid: Grid, spans: list[LoopSpan], start: int, layers: list[int]) -> Iterator[str]:
    """Yield the lines of the columns from `start` on that fit beside each other."""
    begin = start - grid.score.first
    path = layers[begin : begin + grid.room]
    indent, dropped = " " * (grid.margin + 3), frozenset(route.dropped)
    for line in _brackets(grid, spans, start, len(path)):
        yield indent + line
    columns: dict[int, list[int]] = {}
    for column, layer in enumerate(path):
        if layer:
            columns.setdefault(layer, []).append(column)
    for layer in _rows(route.parameter_depth, columns):
        row = _row(grid, layer, columns.get(layer, []), len(path))
        yield row + "dropped" if layer in dropped else row
    for track in grid.score.tracks:
        name = track.label.replace("…", "~") if grid.signs is ASCII else track.label
        yield f"{name:>{grid.margin}} {grid.signs.axis} {track_row(track, start, len(path), grid.signs.flow)}"
    yield from _axis(grid, start, len(path))


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


def _axis(grid: Grid, start: int, length: int) -> Iterator[str]:
    signs, executed = grid.signs, grid.score.executed
    needed = _number_room(grid.score)
    floor = [signs.floor] * (length * grid.cell)
    numbers = [" "] * (length * grid.cell + needed)
    here, end = (bisect_left(grid.positions, edge, key=lambda p: executed[p - 1]) for edge in (start, start + length))
    for position in grid.positions[here:end]:
        mark = executed[position - 1] - start
        floor[mark * grid.cell] = signs.tick
        text = str(position)
        numbers[mark * grid.cell : mark * grid.cell + len(text)] = text
    yield f"{' ' * (grid.margin + 1)}{signs.corner}{signs.floor}{''.join(floor)}"
    yield f"{' ' * (grid.margin + 3)}{''.join(numbers)}"
