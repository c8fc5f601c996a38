"""Paths as runs of neighbours, and as ranges that run several times: what notations are made of."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

from depthgraph.formats.given import Given
from depthgraph.formats.values import Item

Way = Callable[[int, int], bool]


def rising(before: int, after: int) -> bool:
    """Whether a layer follows the other one in the model."""
    return after == before + 1


def falling(before: int, after: int) -> bool:
    """Whether a layer precedes the other one in the model."""
    return after == before - 1


def runs(path: Sequence[int], *ways: Way) -> list[tuple[int, int]]:
    """Return a path as the fewest runs, each the first and the last layer of a piece that goes on in one way.

    Every piece of a run is a run, so taking the longest one each time leaves the fewest.

    Examples:
        >>> runs((0, 1, 2, 3, 2, 3, 4), rising)
        [(0, 3), (2, 4)]
        >>> runs((0, 1, 2, 1, 0), rising, falling)
        [(0, 2), (1, 0)]
    """
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(path):
        last = max(_end(path, at, way) for way in ways)
        found.append((path[at], path[last]))
        at = last + 1
    return found


def _end(path: Sequence[int], at: int, way: Way) -> int:
    while at + 1 < len(path) and way(path[at], path[at + 1]):
        at += 1
    return at


@dataclass(frozen=True)
class Block:
    """A range of layers, both ends included, that runs so many times in all."""

    first: int
    last: int
    count: int


class BlocksError(Exception):
    """A path is no `1..N` of which some ranges run several times; the text says where, in layers from 1."""


def blocks(path: tuple[int, ...], depth: int) -> list[Block]:
    """Return the ranges that a path over the layers 0 … depth - 1 runs more than once, from the first layer on.

    There is at most one way: a range that is repeated ends where the path goes back, and begins where it goes
    back to.

    Raises:
        BlocksError: it leaves layers out, or goes back in another way.

    Examples:
        >>> blocks((0, 1, 2, 3, 2, 3, 4), 5)
        [Block(first=2, last=3, count=2)]
    """
    found: list[Block] = []
    at = layer = 0
    while at < len(path):
        if path[at] != layer:
            raise BlocksError(f"execution {at + 1} is layer {path[at] + 1}, where {_expected(layer, depth)}")
        last = path[end := _end(path, at, rising)]
        at = end + 1
        back = path[at] if at < len(path) else depth
        if layer <= back <= last:
            count, at = _count(path, at, back, last)
            found.append(Block(back, last, count))
        layer = last + 1
    if layer != depth:
        raise BlocksError(f"layer {layer + 1} does not run")
    return found


def _expected(layer: int, depth: int) -> str:
    return f"layer {layer + 1} comes next" if layer < depth else "the last layer has run"


def _count(path: tuple[int, ...], at: int, first: int, last: int) -> tuple[int, int]:
    """Return how often a range has run when its repeats, of which the first begins at `at`, are over, and where."""
    size, count = last - first + 1, 1
    block = tuple(range(first, last + 1))
    while path[at : at + size] == block:
        count, at = count + 1, at + size
    if count == 1:
        whole = f"{first + 1}..{last + 1}"
        raise BlocksError(f"execution {at + 1} goes back to layer {first + 1}, and {whole} does not run again")
    return count, at


def repeated(given: Given, parts: Iterable[tuple[range, int, Item]]) -> Iterator[range]:
    """Yield the pieces of `1..N` with some ranges run several times.

    Args:
        given: the value, for N and for errors.
        parts: the ranges in layers from 1, how often each runs in all, and where it is said; in any order.

    Raises:
        FormatError: N is not known; two ranges share a layer.
    """
    depth = given.known_depth("the layers outside its ranges run once, up to the last")
    layer = 1
    for block, count, place in sorted(parts, key=lambda part: part[0].start):
        if block.start < layer:
            shared = block.start - 1 + (given.notation.base or 0)
            raise given.wrong(f"two ranges share layer {shared}", place, "a layer is in one range at most")
        yield range(layer, block.start)
        yield from repeat(block, count)
        layer = block.stop
    yield range(layer, depth + 1)
