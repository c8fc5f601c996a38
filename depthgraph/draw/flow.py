"""Boxes laid out like words of a text: left to right, in lines of a given width, groups framed.

A group that fits in one line stays in one; a wider one takes lines of its own. Branches stand above one another.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from math import inf
from typing import assert_never

from depthgraph.draw.labels import text_width

#: points around the content of a group, above that for its title, between boxes, and between lines.
PAD, TITLE, GAP, LINE_GAP = 12.0, 14.0, 22.0, 20.0
TITLE_SIZE = 9.0
#: points between branches, and beside them for the lines that fork and join.
ROW_GAP, FORK = 12.0, 22.0


@dataclass(frozen=True, slots=True)
class Leaf:
    """A node to be placed: its id, its size, and the room that it needs above and below."""

    name: str
    width: float
    height: float
    above: float = 0.0
    below: float = 0.0


@dataclass(frozen=True, slots=True)
class Group:
    """Boxes in a frame; with `breaks`, each of them begins a line."""

    title: str
    is_loop: bool
    boxes: "tuple[Box, ...]"
    breaks: bool = False

    @property
    def title_room(self) -> float:
        """The width that the title needs, with the room at its left where lines come in."""
        return text_width(self.title, TITLE_SIZE) + 2 * PAD


@dataclass(frozen=True, slots=True)
class Stack:
    """Branches above one another, each in one line, and the node that joins them at their right."""

    branches: "tuple[tuple[Box, ...], ...]"
    join: Leaf


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
    boxes: "tuple[Placed, ...]"


@dataclass(frozen=True, slots=True)
class PlacedStack:
    """Branches in their places; the lines that fork and join turn at `fork` and `merge`."""

    branches: "tuple[tuple[Placed, ...], ...]"
    join: PlacedLeaf
    fork: float
    merge: float
    bottom: float

    @property
    def right(self) -> float:
        """Its right border."""
        return self.join.right


Box = Leaf | Group | Stack
Placed = PlacedLeaf | PlacedGroup | PlacedStack


def leaves(placed: Iterable[Placed]) -> Iterator[PlacedLeaf]:
    """Yield the nodes of a layout in order."""
    for one in placed:
        match one:
            case PlacedLeaf():
                yield one
            case PlacedGroup():
                yield from leaves(one.boxes)
            case PlacedStack():
                for branch in one.branches:
                    yield from leaves(branch)
                yield one.join
            case _:
                assert_never(one)


def stacks(placed: Iterable[Placed]) -> Iterator[PlacedStack]:
    """Yield the stacks of a layout in order."""
    for one in placed:
        match one:
            case PlacedLeaf():
                pass
            case PlacedGroup():
                yield from stacks(one.boxes)
            case PlacedStack():
                for branch in one.branches:
                    yield from stacks(branch)
                yield one
            case _:
                assert_never(one)


def flow(
    boxes: tuple[Box, ...], left: float, top: float, room: float, gutters: Iterator[float] | None = None
) -> tuple[tuple[Placed, ...], float, float]:
    """Place boxes in lines.

    Args:
        boxes: what is placed.
        left: where lines begin.
        top: where the first line begins.
        room: how wide a line may be.
        gutters: the room that each line needs below it, from the first one on; none without it.

    Returns:
        the placed boxes, and the right and lower end of them all.
    """
    return _flow(boxes, left, top, room, repeat(0.0) if gutters is None else gutters, False)


def _flow(
    boxes: tuple[Box, ...], left: float, top: float, room: float, gutters: Iterator[float], breaks: bool
) -> tuple[tuple[Placed, ...], float, float]:
    placed: list[Placed] = []
    right = bottom = 0.0
    for line in _lines(boxes, room, breaks):
        match line:
            case [Group() as group] if _extent(group)[0] > room:
                done: tuple[Placed, ...] = (_block(group, left, top, room, gutters),)
                gutter = 0.0
            case _:
                done = _one_line(line, left, top)
                gutter = next(gutters)
        placed += done
        right = max(right, *(one.right for one in done))
        bottom = max(_bottom(one) for one in done) + gutter
        top = bottom + LINE_GAP
    return tuple(placed), right, bottom


def _lines(boxes: tuple[Box, ...], room: float, breaks: bool) -> Iterator[list[Box]]:
    line: list[Box] = []
    used = 0.0
    for box in boxes:
        width = _extent(box)[0]
        if line and (breaks or used + width > room):
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
            return box.width, box.height / 2 + box.above, box.height / 2 + box.below
        case Group():
            width, above, below = _row_extent(box.boxes)
            width = inf if box.breaks else max(width + 2 * PAD, box.title_room)
            return width, above + TITLE + PAD / 2, below + PAD
        case Stack(branches, join):
            rows = [_row_extent(branch) for branch in branches]
            half = (sum(above + below for _, above, below in rows) + ROW_GAP * (len(rows) - 1)) / 2
            _, above, below = _extent(join)
            return max(w for w, _, _ in rows) + 2 * FORK + join.width, max(half, above), max(half, below)
        case _:
            assert_never(box)


def _row_extent(boxes: Iterable[Box]) -> tuple[float, float, float]:
    inner = [_extent(one) for one in boxes]
    width = sum(w for w, _, _ in inner) + GAP * (len(inner) - 1)
    return width, max(a for _, a, _ in inner), max(b for _, _, b in inner)


def _one_line(line: list[Box], left: float, top: float) -> tuple[Placed, ...]:
    _, above, below = _row_extent(line)
    middle = top + above
    return _in_line(line, left, middle, middle + below)


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
            case Stack():
                placed.append(_stack(box, left, middle, floor))
            case _:
                assert_never(box)
        left += width + GAP
    return tuple(placed)


def _stack(stack: Stack, left: float, middle: float, floor: float) -> PlacedStack:
    width, _, reach = _extent(stack)
    extents = [_row_extent(branch) for branch in stack.branches]
    height = sum(above + below for _, above, below in extents) + ROW_GAP * (len(extents) - 1)
    top = middle - height / 2
    rows = []
    for branch, (_, above, below) in zip(stack.branches, extents, strict=True):
        rows.append(_in_line(branch, left + FORK, top + above, floor))
        top += above + below + ROW_GAP
    right = left + width
    join = PlacedLeaf(stack.join, right - stack.join.width / 2, middle, floor)
    return PlacedStack(tuple(rows), join, left + FORK / 2, join.left - FORK / 2, middle + reach)


def _block(group: Group, left: float, top: float, room: float, gutters: Iterator[float]) -> PlacedGroup:
    inner, right, bottom = _flow(group.boxes, left + PAD, top + TITLE + PAD / 2, room - 2 * PAD, gutters, group.breaks)
    return PlacedGroup(group, left, top, max(right + PAD, left + group.title_room), bottom + PAD, inner)


def _bottom(placed: Placed) -> float:
    return placed.floor if isinstance(placed, PlacedLeaf) else placed.bottom
