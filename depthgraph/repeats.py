"""Where a sequence of layers repeats itself, exactly or shifted by a constant.

x repeats with period p and shift s over a stretch when x[j+p] - x[j] = s for every j of it. That is the same as the
differences of x being periodic with p, shift or no shift; so one search over the differences finds both kinds. The
number of maximal stretches is at most linear (the runs theorem, Bannai et al., arXiv 1406.0263).

Short periods are found by comparing the sequence with itself, moved; long ones by the next place at which the same
stretch of differences stands. Both are linear in the length of the sequence.
"""

import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: Periods up to this one are found by comparison.
SHORT = 32

#: Length of the stretch of differences by which a longer period is found.
ANCHOR = 24

#: Fewer layers than this are not tried as a comprehension of one layer: `(2*i for i in 1..4)` is long for `2 4 6 8`.
FEWEST = 4

#: How many places of a stretch are tried as the begin of a repeat: the first ones, and all together.
FIRST, PLACES = 4, 8


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


def repeats(x: Sequence[int]) -> dict[int, list[Repeat]]:
    """Return, for the places in x, the repeats of two or more copies that may begin there, but for runs and ranges."""
    found: dict[int, list[Repeat]] = {}
    all_stretches = list(stretches(x))
    within = _within_ranges(x)
    begins = {False: _next_begins(within), True: _next_begins(_within_repeats(within, all_stretches))}
    for start, end, period in all_stretches:
        if period == 1 and x[start + 1] - x[start] in (0, 1):
            continue
        last = min(start + max(period, 2), end - 2 * period + 1)
        for place in _places(start, last, begins[period > SHORT]):
            repeat = Repeat(period, x[place + period] - x[place], (end - place) // period)
            found.setdefault(place, []).append(repeat)
    return found


def _within_ranges(x: Sequence[int]) -> bytearray:
    """Say of each place in x whether it goes on with a range or a run."""
    return bytearray([0, *(after - before in (0, 1) for before, after in itertools.pairwise(x))])


def _within_repeats(within: bytearray, all_stretches: list[Stretch]) -> bytearray:
    """Say also of the places in a short repeat of three or more copies that they go on with it."""
    within = within[:]
    for start, end, period in all_stretches:
        if period <= SHORT and end - start >= 3 * period:
            within[start + period : end] = b"\1" * (end - start - period)
    return within


def _next_begins(within: bytearray) -> list[int]:
    """Return, for each place, the next one after it at which something may begin."""
    begins = [len(within)] * len(within)
    for place in range(len(within) - 2, -1, -1):
        begins[place] = begins[place + 1] if within[place + 1] else place + 1
    return begins


def _places(start: int, end: int, begins: list[int]) -> Iterator[int]:
    """Yield where the repeats of one stretch may begin: at its first places, then where other elements do."""
    place = start
    for count in range(1, PLACES + 1):
        if place >= end:
            return
        yield place
        place = place + 1 if count < FIRST else begins[place]


def stretches(x: Sequence[int]) -> Iterator[Stretch]:
    """Yield the maximal stretches that hold two or more periods, each with its shortest period."""
    differences = [after - before for before, after in itertools.pairwise(x)]
    seen: set[tuple[int, int]] = set()
    for stretch in itertools.chain(_all_short(differences), _long(differences)):
        if (stretch.start, stretch.end) not in seen:
            seen.add((stretch.start, stretch.end))
            yield stretch


def _all_short(differences: list[int]) -> Iterator[Stretch]:
    for period in range(1, min(SHORT, (len(differences) + 1) // 2) + 1):
        start, least = 0, period - 1 if period > 1 else FEWEST - 2
        unequal = map(operator.ne, differences, itertools.islice(differences, period, None))
        for end in itertools.chain(itertools.compress(itertools.count(), unequal), (len(differences) - period,)):
            if end - start >= least:
                yield Stretch(start, end + 1 + period, period)
            start = end + 1


def _long(differences: list[int]) -> Iterator[Stretch]:
    last_seen: dict[tuple[int, ...], int] = {}
    known_end: dict[int, int] = {}
    for place in range(len(differences) - ANCHOR + 1 if len(differences) > 2 * SHORT else 0):
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
