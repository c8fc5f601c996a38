"""Where the nodes and lines of a column stand, so that no label meets a line or another label."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from depthgraph.draw.geometry import Point
from depthgraph.draw.labels import text_width

#: points between a line and the label beside it, and between two lanes.
_GAP, _LANE_GAP = 6.0, 14.0
#: points between two places where lines meet one side of a node.
_PORT = 10.0
#: the height of a node where few lines meet, and the points between two nodes.
_LEAST_HEIGHT, _PITCH = 28.0, 26.0
_LABEL_SIZE = 10.0
_BACK_LABEL_SIZE = 12.0


@dataclass(frozen=True, slots=True)
class Arc:
    """A line to be drawn between two rows of the column; a row's number is the layer's.

    Attributes:
        order: tells apart lines that are alike in all else.
    """

    order: int
    tail: int
    head: int
    label: str
    is_back: bool

    @property
    def is_straight(self) -> bool:
        """Whether it goes to the next row and is drawn between the two nodes."""
        return self.head == self.tail + 1 and not self.is_back

    @property
    def side(self) -> int:
        """Left (-1) for lines down, right (1) for lines up and those that stay."""
        return -1 if self.head < self.tail else 1

    @property
    def span(self) -> tuple[float, float]:
        """The rows that its lane passes."""
        low, high = sorted((self.tail, self.head))
        return (low - 0.4, high + 0.4) if low == high else (low, high)

    @property
    def width(self) -> float:
        """How wide its label is, in points."""
        return text_width(self.label, _BACK_LABEL_SIZE if self.is_back else _LABEL_SIZE)


#: one end of an arc, and whether it is the tail.
End = tuple[Arc, bool]


@dataclass(frozen=True, slots=True)
class Drawn:
    """An arc in its place."""

    arc: Arc
    corners: list[Point]
    label_at: Point


@dataclass(frozen=True, slots=True)
class Column:
    """The places of everything in a column.

    Attributes:
        width: of every node.
        heights: of each row's node; one where many lines meet is higher.
        middles: how high the middle of each row is.
        drawn: the lines.
    """

    width: float
    heights: tuple[float, ...]
    middles: tuple[float, ...]
    drawn: tuple[Drawn, ...] = ()

    def between(self, row: int) -> float:
        """Return the height halfway between a row's node and the next one."""
        return (self.edge(row, 0.5) + self.edge(row + 1, -0.5)) / 2

    def edge(self, row: int, share: float) -> float:
        """Return a height on a row's node: 0.5 is its upper end, -0.5 its lower one."""
        return self.middles[row] + self.heights[row] * share


def place(arcs: Sequence[Arc], rows: int, width: float) -> Column:
    """Give every arc its lane, its ends and a place for its label.

    Args:
        arcs: the lines of the column, in any order.
        rows: how many nodes it has.
        width: of a node, in points.
    """
    bent = [arc for arc in arcs if not arc.is_straight]
    lanes = {side: _lanes([arc for arc in bent if arc.side == side]) for side in (-1, 1)}
    lane = lanes[-1] | lanes[1]
    ports = _ports(bent, lane)
    column = _empty(ports, rows, width)
    straight = [arc for arc in arcs if arc.is_straight]
    clear = max((_GAP + arc.width for arc in straight), default=0.0)
    start = {-1: width / 2, 1: max(width / 2, clear if lanes[1] else 0.0)}
    xs = {side: _lane_places(lanes[side], side, start[side]) for side in (-1, 1)}
    drawn = [_straight(arc, column) for arc in straight]
    drawn += [_bent(arc, column, xs[arc.side][lane[arc]], ports) for arc in bent]
    return replace(column, drawn=tuple(drawn))


def _empty(ports: dict[End, tuple[int, int]], rows: int, width: float) -> Column:
    """Return the column without its lines, every node as high as the lines that meet it need."""
    heights = [_LEAST_HEIGHT] * rows
    for (arc, is_tail), (_, total) in ports.items():
        row = arc.tail if is_tail else arc.head
        heights[row] = max(heights[row], _PORT * (total + 1))
    lower = accumulate((height + _PITCH for height in heights), initial=0.0)
    middles = tuple(low + height / 2 for low, height in zip(lower, heights, strict=False))
    return Column(width, tuple(heights), middles)


def _lanes(arcs: list[Arc]) -> dict[Arc, int]:
    """Give each arc the innermost lane that is free along it, short ones first."""
    taken: list[list[tuple[float, float]]] = []
    lane: dict[Arc, int] = {}
    for arc in sorted(arcs, key=lambda a: (a.span[1] - a.span[0], a.span, a.is_back, a.order)):
        low, high = arc.span
        free = (i for i, spans in enumerate(taken) if all(end <= low or high <= begin for begin, end in spans))
        lane[arc] = next(free, len(taken))
        if lane[arc] == len(taken):
            taken.append([])
        taken[lane[arc]].append((low, high))
    return lane


def _ports(arcs: list[Arc], lane: dict[Arc, int]) -> dict[End, tuple[int, int]]:
    """Order the ends of arcs at each side of each node, from its top, so that its lines do not cross."""
    at_node: defaultdict[tuple[int, int], list[tuple[tuple[int, ...], End]]] = defaultdict(list)
    for arc in arcs:
        for row, other, is_tail in ((arc.tail, arc.head, True), (arc.head, arc.tail, False)):
            at_node[row, arc.side].append((_port_order(row, other, is_tail, lane[arc]), (arc, is_tail)))
    return {
        end: (index, len(ends))
        for ends in at_node.values()
        for index, (_, end) in enumerate(sorted(ends, key=lambda one: one[0]))
    }


def _port_order(row: int, other: int, is_tail: bool, lane: int) -> tuple[int, ...]:
    """Return where an end stands on its side: lines to above, then loops of this node, then lines to below."""
    if other == row:
        return (0, not is_tail, -lane if is_tail else lane)
    return (-1, lane) if other > row else (1, -lane)


def _lane_places(lane: dict[Arc, int], side: int, start: float) -> list[float]:
    """Return the distance of each lane from the middle, signed."""
    widths: defaultdict[int, float] = defaultdict(float)
    for arc, index in lane.items():
        widths[index] = max(widths[index], arc.width)
    places, edge = [], start
    for index in range(len(widths)):
        places.append(side * (edge + _LANE_GAP))
        edge += _LANE_GAP + _GAP + widths[index]
    return places


def _straight(arc: Arc, column: Column) -> Drawn:
    label_at = (_GAP + arc.width / 2, column.between(arc.tail))
    return Drawn(arc, [(0.0, column.edge(arc.tail, 0.5)), (0.0, column.edge(arc.head, -0.5))], label_at)


def _bent(arc: Arc, column: Column, x: float, ports: dict[End, tuple[int, int]]) -> Drawn:
    border = arc.side * column.width / 2
    start, end = (_port_height(arc, is_tail, column, ports) for is_tail in (True, False))
    # the label stands between two rows, where no line crosses the lane
    middle = (start + end) / 2 if arc.tail == arc.head else column.between((arc.tail + arc.head) // 2)
    label_at = (x + arc.side * (_GAP + arc.width / 2), middle)
    return Drawn(arc, [(border, start), (x, start), (x, end), (border, end)], label_at)


def _port_height(arc: Arc, is_tail: bool, column: Column, ports: dict[End, tuple[int, int]]) -> float:
    index, total = ports[arc, is_tail]
    return column.edge(arc.tail if is_tail else arc.head, 0.5 - (index + 1) / (total + 1))
