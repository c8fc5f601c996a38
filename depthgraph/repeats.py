"""Which repeats of a sequence are worth a try, and where they may begin: a few of each stretch that repeats itself."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from depthgraph.stretches import SHORT, Stretch, stretches
from depthgraph.symbols import levels

#: How many places of a stretch are tried as the begin of a repeat: the first ones, and all together.
FIRST, PLACES = 4, 8


class Repeat(NamedTuple):
    """`times` copies of the `period` symbols from some start; `shift` and `mixed` are those of its stretch."""

    period: int
    shift: int
    times: int
    mixed: bool = False


def repeats(x: Sequence[int], shifts: bool = True) -> dict[int, list[Repeat]]:
    """Return, for the places in x, the repeats of two or more copies that may begin there, but for runs and ranges.

    A copy is a part of one sequence: of x, or of one branch of a join in it.

    Args:
        x: symbols of `depthgraph.symbols`.
        shifts: find also those whose layers are shifted.
    """
    found: dict[int, list[Repeat]] = {}
    depths = levels(x)
    all_stretches = list(stretches(x, shifts))
    within = bytearray([0, *(after - before in (0, 1) for before, after in itertools.pairwise(x))])
    begins = {False: _next_begins(within), True: _next_begins(_within_repeats(within, all_stretches))}
    for start, end, period, shift, mixed in all_stretches:
        if period == 1 and shift in (0, 1):
            continue
        last = min(start + max(period, 2), end - 2 * period + 1)
        for place in _places(start, last, begins[period > SHORT], depths, min(depths[start : start + period])):
            if depths[place + period] != depths[place]:
                break
            found.setdefault(place, []).append(Repeat(period, shift, (end - place) // period, mixed))
    return found


def _within_repeats(within: bytearray, all_stretches: list[Stretch]) -> bytearray:
    """Say also of the places in a short repeat of three or more copies that they go on with it."""
    within = within[:]
    for start, end, period, _, mixed in all_stretches:
        if not mixed and period <= SHORT and end - start >= 3 * period:
            within[start + period : end] = b"\1" * (end - start - period)
    return within


def _next_begins(within: bytearray) -> list[int]:
    """Return, for each place, the next one after it at which something may begin."""
    begins = [len(within)] * len(within)
    for place in range(len(within) - 2, -1, -1):
        begins[place] = begins[place + 1] if within[place + 1] else place + 1
    return begins


def _places(start: int, end: int, begins: list[int], depths: bytes, depth: int) -> Iterator[int]:
    """Yield where the repeats of one stretch may begin: at its first places, then where other elements do.

    None of its copies is whole if it is deepest where no element begins.
    """
    if depth % 2:
        return
    place = depths.find(depth, start, end)
    for count in range(1, PLACES + 1):
        if place < 0:
            return
        yield place
        place = depths.find(depth, place + 1 if count < FIRST else begins[place], end)
