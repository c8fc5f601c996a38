"""Lines between nodes that do not stand beside each other: through the gutters between the lines of a picture.

A state leaves its node downwards, runs in the gutter below that line, where its readers are elsewhere along the left
margin to the gutter below theirs, and comes up to them. All readers of one state share its line.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from depthgraph.draw.flow import PlacedLeaf
from depthgraph.draw.geometry import Point
from depthgraph.draw.labels import text_width

#: points: from the floor of a line to its first track, and from a track to the next.
FIRST, TRACK = 14.0, 8.0
#: points: from the left end of all lines to the first way along the margin.
MARGIN = 20.0
LABEL_SIZE = 9.0
#: points: from the border of a node to a line, and between a line and its label.
_PORT, _GAP = 8.0, 3.0


@dataclass(frozen=True, slots=True)
class Wire:
    """A state that a node reads from afar.

    Attributes:
        label: the register through which it is read; nothing for h.
        order: tells apart wires that are alike in all else: one register can be h and the operand.
    """

    tail: str
    head: str
    label: str = ""
    order: int = 0

    @property
    def net(self) -> tuple[str, bool]:
        """Wires of one net share their line."""
        return self.tail, bool(self.label)


def port_room(name: str, wires: Iterable[Wire]) -> float:
    """Return how wide a node has to be for the wires below it."""
    mine = list(wires)
    taps = sum(_tap_width(wire) for wire in mine if wire.head == name)
    return _PORT + taps + _PORT * len({wire.net for wire in mine if wire.tail == name})


def _tap_width(wire: Wire) -> float:
    return _PORT + (_GAP + text_width(wire.label, LABEL_SIZE) if wire.label else 0.0)


@dataclass(frozen=True, slots=True)
class Routed:
    """A wire in its place."""

    wire: Wire
    corners: list[Point]
    label_at: Point


class Router:
    """The ways of wires between placed nodes.

    Attributes:
        tracks: for each line of the picture, how many wires run below it.
    """

    def __init__(self, wires: tuple[Wire, ...], placed: Iterable[PlacedLeaf]) -> None:
        self._wires = wires
        self._leaves: dict[str, PlacedLeaf] = {one.leaf.name: one for one in placed}
        floors = dict.fromkeys(one.floor for one in self._leaves.values())
        self._line: Mapping[float, int] = dict(zip(floors, count()))
        self._ports = dict(self._find_ports())
        self._lines_of = self._find_lines()
        spread = [net for net, lines in self._lines_of.items() if len(lines) > 1]
        self._channel = _packed({net: (min(self._lines_of[net]), max(self._lines_of[net])) for net in spread}, 1)
        self._track = self._find_tracks()
        self.tracks = [
            1 + max((t for (line, _), t in self._track.items() if line == i), default=-1) for i in range(len(floors))
        ]

    @property
    def gutters(self) -> Iterator[float]:
        """The room that each line needs below it."""
        return (TRACK * tracks + (4.0 if tracks else 0.0) for tracks in self.tracks)

    def routed(self) -> Iterator[Routed]:
        """Yield every wire in its place."""
        for wire in self._wires:
            start, end = self._ports[wire.net, None], self._ports[wire.net, wire]
            y1, y2 = (self._gutter(wire.net, name) for name in (wire.tail, wire.head))
            low, high = self._low(wire.tail), self._low(wire.head)
            along = [(start, y1), (end, y1)]
            if y1 != y2:
                x = -MARGIN - TRACK * self._channel[wire.net]
                along = [(start, y1), (x, y1), (x, y2), (end, y2)]
            corners = [(start, low), *along, (end, high)]
            label_at = (end + _GAP + text_width(wire.label, LABEL_SIZE) / 2, high - 7.0)
            yield Routed(wire, corners, label_at)

    def _line_of(self, name: str) -> int:
        return self._line[self._leaves[name].floor]

    def _low(self, name: str) -> float:
        placed = self._leaves[name]
        return -(placed.y + placed.leaf.height / 2)

    def _gutter(self, net: tuple[str, bool], name: str) -> float:
        track = self._track[self._line_of(name), net]
        return -(self._leaves[name].floor + FIRST + TRACK * track)

    def _find_ports(self) -> Iterator[tuple[tuple[tuple[str, bool], Wire | None], float]]:
        """Yield where each wire meets the lower border of its nodes: readers from the left, its source at the right."""
        heads: defaultdict[str, float] = defaultdict(lambda: _PORT)
        tails: defaultdict[str, float] = defaultdict(lambda: _PORT)
        known = set()
        for wire in self._wires:
            yield (wire.net, wire), self._leaves[wire.head].left + heads[wire.head]
            heads[wire.head] += _tap_width(wire)
            if wire.net not in known:
                known.add(wire.net)
                yield (wire.net, None), self._leaves[wire.tail].right - tails[wire.tail]
                tails[wire.tail] += _PORT

    def _find_lines(self) -> dict[tuple[str, bool], set[int]]:
        lines: defaultdict[tuple[str, bool], set[int]] = defaultdict(set)
        for wire in self._wires:
            lines[wire.net] |= {self._line_of(wire.tail), self._line_of(wire.head)}
        return dict(lines)

    def _find_tracks(self) -> dict[tuple[int, tuple[str, bool]], int]:
        """Give each net a track in every line where it has an end, so that no two lie on each other."""
        spans: defaultdict[int, dict[tuple[str, bool], tuple[float, float]]] = defaultdict(dict)
        for (net, wire), x in self._ports.items():
            line = self._line_of(net[0] if wire is None else wire.head)
            far = -MARGIN - TRACK * self._channel[net] if net in self._channel else x
            low, high = spans[line].get(net, (x, x))
            spans[line][net] = min(low, x, far), max(high, x)
        return {(line, net): t for line, inner in spans.items() for net, t in _packed(inner, TRACK).items()}


def _packed(spans: Mapping[tuple[str, bool], tuple[float, float]], apart: float) -> dict[tuple[str, bool], int]:
    """Give each span the first track where it keeps its distance to the others; short ones first."""
    taken: list[list[tuple[float, float]]] = []
    track: dict[tuple[str, bool], int] = {}
    for net, (low, high) in sorted(spans.items(), key=lambda one: (one[1][1] - one[1][0], one)):
        free = (
            i for i, used in enumerate(taken) if all(end + apart <= low or high + apart <= start for start, end in used)
        )
        track[net] = next(free, len(taken))
        if track[net] == len(taken):
            taken.append([])
        taken[track[net]].append((low, high))
    return track
