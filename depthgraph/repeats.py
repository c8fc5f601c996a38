"""Where a sequence of layers repeats itself, exactly or shifted by a constant.

x repeats with period p and shift s over a stretch when x[j+p] - x[j] = s for every j of it. That is the same as the
differences of x being periodic with p, shift or no shift; so one search over the differences finds both kinds. The
number of maximal stretches is at most linear (the runs theorem, Bannai et al., arXiv 1406.0263).

Short periods are found by comparing the sequence with itself, moved; long ones by the next place at which the same
stretch of differences stands. Both are linear in the length of the sequence.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

#: Periods up to this one are found by comparison.
SHORT = 32

#: Length of the stretch of differences by which a longer period is found.
ANCHOR = 24

#: How many places of a stretch are tried as the begin of a repeat with a long period.
ROTATIONS = 4


class Stretch(NamedTuple):
    """A maximal stretch: from `start` to `end` (excluded), each element is that one period before, plus a shift."""

    start: int
    end: int
    period: int


class Repeat(NamedTuple):
    """`times` copies of the `period` elements from some start, each shifted by `shift` against the one before."""

    period: int
    shift: int
    times: int


def repeats(x: list[int]) -> list[list[Repeat]]:
    """Return, for each place in x, the repeats of two or more copies that may begin there."""
    found: list[list[Repeat]] = [[] for _ in x]
    for start, end, period in stretches(x):
        last = end - 2 * period
        rotations = period if period <= SHORT else ROTATIONS
        for place in range(start, min(start + rotations, last + 1)):
            repeat = Repeat(period, x[place + period] - x[place], (end - place) // period)
            if not any(period % other.period == 0 and _covers(other, repeat) for other in found[place]):
                found[place].append(repeat)
    return found


def _covers(one: Repeat, other: Repeat) -> bool:
    return one.period * one.times >= other.period * other.times


def stretches(x: list[int]) -> Iterator[Stretch]:
    """Yield the maximal stretches that hold two or more periods, those of short periods first."""
    differences = [after - before for before, after in itertools.pairwise(x)]
    for period in range(1, min(SHORT, len(x) // 2) + 1):
        yield from _short(differences, period)
    if len(x) > 2 * SHORT:
        yield from _long(differences)


def _short(differences: list[int], period: int) -> Iterator[Stretch]:
    start = 0
    pairs = zip(differences, differences[period:], strict=False)
    for end in [at for at, (one, other) in enumerate(pairs) if one != other] + [len(differences) - period]:
        if end - start >= period - 1:
            yield Stretch(start, end + 1 + period, period)
        start = end + 1


def _long(differences: list[int]) -> Iterator[Stretch]:
    last_seen: dict[tuple[int, ...], int] = {}
    known_end: dict[int, int] = {}
    for place in range(len(differences) - ANCHOR + 1):
        anchor = tuple(differences[place : place + ANCHOR])
        before = last_seen.get(anchor)
        last_seen[anchor] = place
        if before is None or place - before <= SHORT or known_end.get(place - before, 0) > place:
            continue
        period = place - before
        start = before
        while start and differences[start - 1] == differences[start - 1 + period]:
            start -= 1
        end = place + ANCHOR
        while end < len(differences) and differences[end] == differences[end - period]:
            end += 1
        known_end[period] = end
        if end + 1 - start >= 2 * period:
            yield Stretch(start, end + 1, period)
