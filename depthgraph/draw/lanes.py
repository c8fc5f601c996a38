"""Where the nodes and lines of a column stand, so that no label meets a line or another label."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from depthgraph.draw.geometry import Point
from depthgraph.draw.labels import text_width

#: points between a line and the label beside it, and between two lanes.
_GAP, _LANE_GAP = 6.0, 14.0
#: points between two places where lines meet one side of a node.
_PORT = 10.0
#: the points between two nodes.
_PITCH = 26.0
_LABEL_SIZE = 10.0
_BACK_LABEL_SIZE = 12.0
#: of lines that are as long as one another, which are further in.
_RANKS = {"hop": 0, "wire": 1, "back": 2}


@dataclass(frozen=True, slots=True)
class Arc:
    """A line to be drawn between two rows of the column, which are numbered from the lowest one, 0.

    Attributes:
        order: tells apart lines that are alike in all else.
        kind: `rung` is a straight line up, between nodes that stand side by side with others; `outlet` leaves the
            column at the left.
        x: of a rung, how far it is from the middle.
    """

    order: int
    tail: int
    head: int
    label: str
    kind: Literal["hop", "back", "wire", "rung", "outlet"] = "hop"
    x: float = 0.0

    @property
    def is_back(self) -> bool:
        """Whether it is the way back of a loop."""
        return self.kind == "back"

    @property
    def is_straight(self) -> bool:
        """Whether it is drawn straight from the node up to the other one."""
        return self.kind == "rung" or (self.kind == "hop" and self.head == self.tail + 1)

    @property
    def side(self) -> int:
        """Left (-1) for lines down and out, right (1) for lines up and those that stay."""
        return -1 if self.head < self.tail or self.kind == "outlet" else 1

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
class Row:
    """How large the node of a row is at least."""

    width: float
    height: float = 28.0


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
        widths: of each row's node.
        heights: of each row's node; one where many lines meet is higher.
        middles: how high the middle of each row is.
        drawn: the lines.
    """

    widths: tuple[float, ...]
    heights: tuple[float, ...]
    middles: tuple[float, ...]
    drawn: tuple[Drawn, ...] = ()

    def between(self, row: int) -> float:
        """Return the height halfway between a row's node and the next one."""
        return (self.edge(row, 0.5) + self.edge(row + 1, -0.5)) / 2

    def edge(self, row: int, share: float) -> float:
        """Return a height on a row's node: 0.5 is its upper end, -0.5 its lower one."""
        return self.middles[row] + self.heights[row] * share


def place(arcs: Sequence[Arc], rows: Sequence[Row]) -> Column:
    """Give every arc its lane, its ends and a place for its label.

    Args:
        arcs: the lines of the column, in any order.
        rows: its nodes, the lowest first.
    """
    bent = [arc for arc in arcs if not arc.is_straight and arc.kind != "outlet"]
    outlets = [arc for arc in arcs if arc.kind == "outlet"]
    lanes = {side: _lanes([arc for arc in bent if arc.side == side]) for side in (-1, 1)}
    lane = lanes[-1] | lanes[1]
    ports = _ports([*bent, *outlets], lane)
    column = _empty(ports, rows)
    straight = [arc for arc in arcs if arc.is_straight]
    border = max(row.width for row in rows) / 2
    clear = max((_GAP + arc.x + arc.width for arc in straight), default=0.0)
    start = {-1: border, 1: max(border, clear if lanes[1] else 0.0)}
    xs = {side: _lane_places(lanes[side], side, start[side]) for side in (-1, 1)}
    drawn = [_straight(arc, column) for arc in straight]
    drawn += [_bent(arc, column, xs[arc.side][lane[arc]], ports) for arc in bent]
    out = -_left_end(lanes[-1], xs[-1], border) - _LANE_GAP
    drawn += [_outlet(arc, column, out, ports) for arc in outlets]
    return replace(column, drawn=tuple(drawn))


def _left_end(lane: dict[Arc, int], places: list[float], border: float) -> float:
    """Return how far the lines at the left and their labels reach from the middle."""
    return max((_GAP + arc.width - places[index] for arc, index in lane.items()), default=border)


def _empty(ports: dict[End, tuple[int, int]], rows: Sequence[Row]) -> Column:
    """Return the column without its lines, every node as high as the lines that meet it need."""
    heights = [row.height for row in rows]
    for (arc, is_tail), (_, total) in ports.items():
        row = arc.tail if is_tail else arc.head
        if total > 1:
            heights[row] = max(heights[row], _PORT * (total + 1))
    lower = accumulate((height + _PITCH for height in heights), initial=0.0)
    middles = tuple(low + height / 2 for low, height in zip(lower, heights, strict=False))
    return Column(tuple(row.width for row in rows), tuple(heights), middles)


def _lanes(arcs: list[Arc]) -> dict[Arc, int]:
    """Give each arc the innermost lane that is free along it, short ones first."""
    taken: list[list[tuple[float, float]]] = []
    lane: dict[Arc, int] = {}
    for arc in sorted(arcs, key=lambda a: (a.span[1] - a.span[0], a.span, _RANKS[a.kind], a.order)):
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
            if arc.kind == "outlet" and not is_tail:
                continue
            order = _port_order(row, other, is_tail, lane[arc]) if arc in lane else (-2, arc.order)
            at_node[row, arc.side].append((order, (arc, is_tail)))
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
    label_at = (arc.x + _GAP + arc.width / 2, column.between(arc.tail))
    return Drawn(arc, [(arc.x, column.edge(arc.tail, 0.5)), (arc.x, column.edge(arc.head, -0.5))], label_at)


def _outlet(arc: Arc, column: Column, x: float, ports: dict[End, tuple[int, int]]) -> Drawn:
    y = _port_height(arc, True, column, ports)
    return Drawn(arc, [(-column.widths[arc.tail] / 2, y), (x, y)], (x - _GAP - arc.width / 2, y))


def _bent(arc: Arc, column: Column, x: float, ports: dict[End, tuple[int, int]]) -> Drawn:
    begin, finish = (arc.side * column.widths[row] / 2 for row in (arc.tail, arc.head))
    start, end = (_port_height(arc, is_tail, column, ports) for is_tail in (True, False))
    # the label stands between two rows, where no line crosses the lane
    middle = (start + end) / 2 if arc.tail == arc.head else column.between((arc.tail + arc.head) // 2)
    label_at = (x + arc.side * (_GAP + arc.width / 2), middle)
    return Drawn(arc, [(begin, start), (x, start), (x, end), (finish, end)], label_at)


def _port_height(arc: Arc, is_tail: bool, column: Column, ports: dict[End, tuple[int, int]]) -> float:
    index, total = ports[arc, is_tail]
    return column.edge(arc.tail if is_tail else arc.head, 0.5 - (index + 1) / (total + 1))
