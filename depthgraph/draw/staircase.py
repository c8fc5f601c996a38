"""The staircase view: the execution's position across, its layer up.

A route with data flow has a column for every state that is computed, and rows for data flow below the layers.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from depthgraph.draw import scene
from depthgraph.draw.labels import Names, clipped, labels, text_width
from depthgraph.draw.palette import INK, fill
from depthgraph.draw.rows import legend, legend_width, rows, rows_height
from depthgraph.draw.scene import Line, Rect, Scene, Text
from depthgraph.draw.structure import Item, Loop, LoopSpan, ends, loop_spans, tree
from depthgraph.draw.summary import facts, refuse_large
from depthgraph.draw.tracks import Score, score_of
from depthgraph.route import Route

#: a row of text needs this height.
TEXT_HEIGHT = 12.0
#: from one level of brackets to the next, and all above and below the cells but the brackets.
LEVEL, ABOVE, BELOW, MARGIN = 18.0, 48.0, 38.0, 14.0
LONGEST_NAME = 28
INSTEAD = 'draw it with view="folded"'
#: a bracket that is narrower would be a dot.
LEAST_BRACKET = 2.0
#: distances of numbers on an axis.
STEPS = tuple(digit * 10**power for power in range(6) for digit in (1, 5) if digit * 10**power > 1)


@dataclass(frozen=True, slots=True)
class Size:
    """How large a staircase may be, in points.

    Attributes:
        across: the room for all cells.
        up: the room for all layers.
        largest: the largest cell.
        least: how wide the picture is at least.
        for_text: with data flow, the picture is as wide as the text of the route, up to this.
    """

    across: float
    up: float
    largest: float
    least: float = 0.0
    for_text: float = 0.0


FULL = Size(760.0, 560.0, 26.0, for_text=480.0)


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the cells are: the corner above the first column's highest layer, a cell's size, N, and the columns.

    Attributes:
        score: the columns, and the rows below the layers.
    """

    left: float
    top: float
    cell: float
    row: float
    depth: int
    score: Score

    def x(self, column: float) -> float:
        """Return where a column begins."""
        return self.left + (column - self.score.first) * self.cell

    def x_at(self, position: int, share: float) -> float:
        """Return where an execution's column is, or a share of its width further right."""
        return self.x(self.score.executed[position - 1] + share)

    def y(self, layer: float) -> float:
        """Return the upper end of a layer's row."""
        return self.top + (self.depth - layer) * self.row

    @property
    def right(self) -> float:
        """Where the last column ends."""
        return self.x(self.score.last + 1)

    @property
    def layers(self) -> Iterable[int]:
        """The layers that the axis names."""
        return ticks(self.depth, self.row, TEXT_HEIGHT)

    @property
    def positions(self) -> Iterable[int]:
        """The positions that the axis names."""
        count = len(self.score.executed)
        return ticks(count, self.cell, text_width(str(count), 10) + 8)

    @property
    def bottom(self) -> float:
        """Where the first layer's row ends."""
        return self.y(0)

    @property
    def floor(self) -> float:
        """Where the last row below the layers ends."""
        return self.bottom + rows_height(self.score)


def staircase_svg(route: Route, names: Names | None = None) -> str:
    """Return the staircase as an SVG document."""
    return scene.svg(staircase(route, names))


def staircase_dot(route: Route, names: Names | None = None) -> str:
    """Return the staircase as DOT text, from which Graphviz makes PNG and PDF."""
    return scene.dot(staircase(route, names))


def staircase(
    route: Route, names: Names | None = None, size: Size = FULL, above: Sequence[Text] = (), spec: str = ""
) -> Scene:
    """Return the staircase as a drawing.

    Args:
        route: the route.
        names: labels for the layers.
        size: how large it may be.
        above: lines of text above it, clipped to its width; the heights of their base lines count from its top.
        spec: how the route is written; its canonical text by default.
    """
    items = tree(route)
    shown = [clipped(name, LONGEST_NAME) for name in labels(route, names)]
    loops = loop_spans(items)
    levels = 1 + max((loop.level for loop in loops), default=-1)
    score = score_of(route, items)
    refuse_large(len(score.tracks), "rows of data flow", "staircase", INSTEAD)
    text, title = spec or route.text, facts(route)
    room = max((line.y for line in above), default=0.0)
    frame = _frame(route, shown, score, size, room + ABOVE + LEVEL * levels + 8)
    width = max(frame.right, MARGIN + text_width(title, 10), frame.left + legend_width(score), size.least) + MARGIN
    if not route.is_chain:
        width = max(width, min(size.for_text, 6.7 * len(text) + 2 * MARGIN))
    shapes = (
        *(_fitted(line, width - 2 * MARGIN) for line in above),
        Text(MARGIN, room + 22, _clipped(text, width), size=11, colour="ink", font="mono"),
        Text(MARGIN, room + 38, title),
        *_bands(items, frame),
        *_grid(route, frame),
        *_axes(route, shown, frame),
        *_cells(route, frame),
        *_numbers(route, frame),
        *_brackets(loops, frame),
        *rows(score, frame.x, frame.left, frame.bottom),
        *legend(score, frame.left, frame.floor + 32),
    )
    caption = ": ".join([*(line.text for line in above[:1]), clipped(text, 200), title])
    return Scene(width, frame.floor + BELOW, caption, shapes)


def _clipped(text: str, width: float) -> str:
    return clipped(text, max(24, int((width - 2 * MARGIN) / 6.7)))


def _fitted(line: Text, room: float) -> Text:
    """Return a line of text that is no wider than the room, which it says when it had to be clipped."""
    text = line.text
    while text_width(text, line.size) > room:
        text = text[:-2].rstrip() + "…"
    return replace(line, text=text)


def _frame(route: Route, shown: list[str], score: Score, size: Size, top: float) -> Frame:
    depth = route.parameter_depth
    cell = min(size.largest, size.across / score.length)
    # no higher than wide cells allow: steps of a stair, not stripes
    row = min(size.largest, size.up / depth, max(1.6 * cell, TEXT_HEIGHT))
    named = (*shown, *(track.label for track in score.tracks))
    left = MARGIN + max(text_width(name, 10) for name in named) + 8
    return Frame(left, top, cell, row, depth, score)


def _cells(route: Route, frame: Frame) -> Iterator[Rect]:
    across, up = (max(1.0, size - min(1.5, size * 0.12)) for size in (frame.cell, frame.row))
    for e in route.executions:
        colour = fill(e.layer, frame.depth)
        yield Rect(frame.x_at(e.position, 0), frame.y(e.layer), across, up, colour)


def _numbers(route: Route, frame: Frame) -> Iterator[Text]:
    """The layer in each cell, where cells are large enough."""
    size = min(10.0, frame.row - 4)
    if frame.cell < text_width(str(frame.depth), size) + 4 or frame.row < TEXT_HEIGHT:
        return
    for e in route.executions:
        x, y = frame.x_at(e.position, 0.47), frame.y(e.layer - 0.47) + size * 0.36
        yield Text(x, y, str(e.layer), "middle", size, INK)


def _bands(items: tuple[Item, ...], frame: Frame) -> Iterator[Rect]:
    """Every other iteration of the outermost loops on a tint."""
    for loop in items:
        if not isinstance(loop, Loop):
            continue
        for body in loop.iterations[::2]:
            first, last = ends(body)
            left, right = frame.x(first), frame.x(last + 1)
            if right - left >= 3:
                yield Rect(left - 1, frame.top - 4, right - left, frame.floor - frame.top + 8, "band")


def _brackets(loops: tuple[LoopSpan, ...], frame: Frame) -> Iterator[Line | Text]:
    for title, level, first, last in loops:
        left, y = frame.x(first), frame.top - 10 - level * LEVEL
        right = frame.x(last + 1) - min(3.0, 0.15 * frame.cell)
        if right - left < LEAST_BRACKET:
            continue
        yield Line(((left, y + 4), (left, y), (right, y), (right, y + 4)), "loop", 1.2)
        if text_width(title, 10) <= right - left:
            yield Text((left + right) / 2, y - 4, title, "middle", 10, "loop")


def _grid(route: Route, frame: Frame) -> Iterator[Line]:
    dropped = frozenset(route.dropped)
    for layer in frame.layers:
        if layer in dropped:
            continue
        y = frame.y(layer - 0.5)
        yield Line(((frame.left - 3, y), (frame.right, y)), "grid")
    for position in frame.positions:
        x = frame.x_at(position, 0.47)
        yield Line(((x, frame.floor + 4), (x, frame.floor + 8)), "faint")


def _axes(route: Route, shown: list[str], frame: Frame) -> Iterator[Text]:
    dropped = frozenset(route.dropped)
    for layer in frame.layers:
        colour = "faint" if layer in dropped else "ink"
        yield Text(frame.left - 7, frame.y(layer - 0.5) + 3.5, shown[layer - 1], "right", 10, colour)
        if layer in dropped:
            yield Text(frame.left + 2, frame.y(layer - 0.5) + 3, "dropped", size=9, colour="faint")
    for position in frame.positions:
        yield Text(frame.x_at(position, 0.47), frame.floor + 19, str(position), "middle", 10)
    yield Text(frame.left, frame.floor + 32, "execution", size=9, colour="faint")


def ticks(count: int, size: float, needed: float) -> Sequence[int]:
    """Return which of the numbers 1 … count are written on an axis.

    Args:
        count: the last number.
        size: of one step, in points.
        needed: by one number, in points.

    Examples:
        >>> list(ticks(12, 30, 30)), list(ticks(23, 8, 30))
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [1, 5, 10, 15, 20])
    """
    if size >= needed:
        return range(1, count + 1)
    step = next((s for s in STEPS if (s - 1) * size >= needed), STEPS[-1])
    return [1, *range(step, count + 1, step)]
