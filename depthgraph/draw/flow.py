"""Boxes laid out like words of a text: left to right, in lines of a given width, groups framed.

A group that fits in one line stays in one; a wider one takes lines of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from depthgraph.draw.labels import text_width

#: points around the content of a group, above that for its title, between boxes, and between lines.
PAD, TITLE, GAP, LINE_GAP = 12.0, 14.0, 22.0, 20.0
TITLE_SIZE = 9.0


@dataclass(frozen=True, slots=True)
class Leaf:
    """A node to be placed: its id and its size."""

    name: str
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Group:
    """Boxes in a frame."""

    title: str
    is_loop: bool
    boxes: "tuple[Leaf | Group, ...]"

    @property
    def title_room(self) -> float:
        """The width that the title needs, with the room at its left where lines come in."""
        return text_width(self.title, TITLE_SIZE) + 2 * PAD


@dataclass(frozen=True, slots=True)
class PlacedLeaf:
    """A node in its place; y grows downwards. `floor` is the lower end of its line."""

    leaf: Leaf
    x: float
    y: float
    floor: float

    @property
    def left(self) -> float:
        """Its left border."""
        return self.x - self.leaf.width / 2

    @property
    def right(self) -> float:
        """Its right border."""
        return self.x + self.leaf.width / 2


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """A frame in its place, with what is in it."""

    group: Group
    left: float
    top: float
    right: float
    bottom: float
    boxes: "tuple[PlacedLeaf | PlacedGroup, ...]"


Box = Leaf | Group
Placed = PlacedLeaf | PlacedGroup


def leaves(placed: Iterable[Placed]) -> Iterator[PlacedLeaf]:
    """Yield the nodes of a layout in order."""
    for one in placed:
        match one:
            case PlacedLeaf():
                yield one
            case PlacedGroup():
                yield from leaves(one.boxes)
            case _:
                assert_never(one)


def flow(boxes: tuple[Box, ...], left: float, top: float, room: float) -> tuple[tuple[Placed, ...], float, float]:
    """Place boxes in lines.

    Returns:
        the placed boxes, and the right and lower end of them all.
    """
    placed: list[Placed] = []
    right = bottom = 0.0
    for line in _lines(boxes, room):
        match line:
            case [Group() as group] if _extent(group)[0] > room:
                done: tuple[Placed, ...] = (_block(group, left, top, room),)
            case _:
                done = _one_line(line, left, top)
        placed += done
        right = max(right, *(_right(one) for one in done))
        bottom = max(_bottom(one) for one in done)
        top = bottom + LINE_GAP
    return tuple(placed), right, bottom


def _lines(boxes: tuple[Box, ...], room: float) -> Iterator[list[Box]]:
    line: list[Box] = []
    used = 0.0
    for box in boxes:
        width = _extent(box)[0]
        if line and used + width > room:
            yield line
            line, used = [], 0.0
        line.append(box)
        used += width + GAP
    if line:
        yield line


def _extent(box: Box) -> tuple[float, float, float]:
    """Return the width of a box in one line, and how far it reaches above and below the middle of its nodes."""
    match box:
        case Leaf():
            return box.width, box.height / 2, box.height / 2
        case Group():
            inner = [_extent(one) for one in box.boxes]
            width = sum(w for w, _, _ in inner) + GAP * (len(inner) - 1) + 2 * PAD
            above, below = max(a for _, a, _ in inner), max(b for _, _, b in inner)
            return max(width, box.title_room), above + TITLE + PAD / 2, below + PAD
        case _:
            assert_never(box)


def _one_line(line: list[Box], left: float, top: float) -> tuple[Placed, ...]:
    extents = [_extent(box) for box in line]
    middle = top + max(above for _, above, _ in extents)
    floor = middle + max(below for _, _, below in extents)
    return _in_line(line, left, middle, floor)


def _in_line(line: Iterable[Box], left: float, middle: float, floor: float) -> tuple[Placed, ...]:
    placed: list[Placed] = []
    for box in line:
        width, above, below = _extent(box)
        match box:
            case Leaf():
                placed.append(PlacedLeaf(box, left + width / 2, middle, floor))
            case Group():
                inner = _in_line(box.boxes, left + PAD, middle, floor)
                placed.append(PlacedGroup(box, left, middle - above, left + width, middle + below, inner))
            case _:
                assert_never(box)
        left += width + GAP
    return tuple(placed)


def _block(group: Group, left: float, top: float, room: float) -> PlacedGroup:
    inner, right, bottom = flow(group.boxes, left + PAD, top + TITLE + PAD / 2, room - 2 * PAD)
    return PlacedGroup(group, left, top, max(right + PAD, left + group.title_room), bottom + PAD, inner)


def _right(placed: Placed) -> float:
    return placed.right


def _bottom(placed: Placed) -> float:
    return placed.floor if isinstance(placed, PlacedLeaf) else placed.bottom
