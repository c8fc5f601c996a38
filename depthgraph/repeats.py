"""Where a sequence of symbols repeats itself: exactly, shifted by a constant, or with some of its layers shifted.

Two kinds of stretches are searched. In an even one, of period p and shift s, the layers differ from those one period
before by s, all of them, and data flow is the same; an exact repeat is one with shift 0. In a mixed one each place of
the body has a slope of its own, 0 or s: x[j+2p] - 2 x[j+p] + x[j] = 0 for every j of three copies or more.

Even stretches are found by the step of each layer from the layer before it, shift or no shift: a stretch is even when
its steps and its data flow are periodic. (Its first layer may come from anywhere.) The number of maximal ones is at
most linear (the runs theorem, Bannai et al., arXiv 1406.0263). Short periods are found by comparing the sequence with
itself, moved; long ones by the next place at which the same stretch of steps stands. Both are linear in the length of
the sequence. Mixed stretches are found for short periods alone.
"""

import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from depthgraph.symbols import FLOW, inside

#: Periods up to this one are found by comparison.
SHORT = 32

#: Length of the stretch of steps by which a longer period is found.
ANCHOR = 24

#: Fewer layers than this are not tried as a comprehension of one layer: `(2*i for i in 1..4)` is long for `2 4 6 8`.
FEWEST = 4

#: How many places of a stretch are tried as the begin of a repeat: the first ones, and all together.
FIRST, PLACES = 4, 8

#: A first layer has no step; no difference of layers is that large.
NO_STEP = FLOW // 2


class Stretch(NamedTuple):
    """A maximal stretch from `start` to `end` (excluded) in which the body, `period` symbols, stands again and again.

    Attributes:
        shift: by how much the layers of a copy differ from those of the one before.
        mixed: some of its layers are the same in every copy.
    """

    start: int
    end: int
    period: int
    shift: int
    mixed: bool = False


class Repeat(NamedTuple):
    """`times` copies of the `period` symbols from some start; `shift` and `mixed` are those of its stretch."""

    period: int
    shift: int
    times: int
    mixed: bool = False


def repeats(x: Sequence[int], shifts: bool = True) -> dict[int, list[Repeat]]:
    """Return, for the places in x, the repeats of two or more copies that may begin there, but for runs and ranges.

    Args:
        x: symbols of `depthgraph.symbols`; what is inside a join is no place of x, and no copy begins or ends there.
        shifts: find also those whose layers are shifted.
    """
    found: dict[int, list[Repeat]] = {}
    hidden = inside(x)
    all_stretches = list(stretches(x, shifts))
    within = _within_ranges(x, hidden)
    begins = {False: _next_begins(within), True: _next_begins(_within_repeats(within, all_stretches))}
    for start, end, period, shift, mixed in all_stretches:
        if period == 1 and shift in (0, 1):
            continue
        last = min(start + max(period, 2), end - 2 * period + 1)
        for place in _places(start, last, begins[period > SHORT], hidden):
            if hidden[place + period]:
                break
            found.setdefault(place, []).append(Repeat(period, shift, (end - place) // period, mixed))
    return found


def _within_ranges(x: Sequence[int], hidden: bytearray) -> bytearray:
    """Say of each place in x whether no element begins there, or one that goes on with a range or a run."""
    goes_on = [0, *(after - before in (0, 1) for before, after in itertools.pairwise(x))]
    return bytearray(map(operator.or_, goes_on, hidden))


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


def _places(start: int, end: int, begins: list[int], hidden: bytearray) -> Iterator[int]:
    """Yield where the repeats of one stretch may begin: at its first places, then where other elements do."""
    place = begins[start] if hidden[start] else start
    for count in range(1, PLACES + 1):
        if place >= end:
            return
        yield place
        place = place + 1 if count < FIRST and not hidden[place + 1] else begins[place]


def stretches(x: Sequence[int], shifts: bool = True) -> Iterator[Stretch]:
    """Yield the maximal stretches that hold two or more periods, each with its shortest period."""
    seen: set[tuple[int, int]] = set()
    steps, flow_before = _steps(x), _flow_before(x)
    for start, end, period in itertools.chain(_all_short(x, steps, flow_before), _long(x, steps, flow_before)):
        if (start, end) not in seen:
            seen.add((start, end))
            shift = next((x[at + period] - x[at] for at in range(start, start + period) if x[at] < FLOW), 0)
            if shifts or not shift:
                yield Stretch(start, end, period, shift)
    if shifts:
        yield from _mixed(x)


def _steps(x: Sequence[int]) -> list[int]:
    """Return the difference of each layer from the one before it; data flow stands for itself."""
    if max(x, default=0) < FLOW:
        return [NO_STEP, *map(operator.sub, itertools.islice(x, 1, None), x)]
    steps, before = [], None
    for symbol in x:
        if symbol >= FLOW:
            steps.append(symbol)
        else:
            steps.append(NO_STEP if before is None else symbol - before)
            before = symbol
    return steps


def _flow_before(x: Sequence[int]) -> list[int]:
    """Return, for each place, how many symbols of data flow stand directly before it."""
    counts, count = [], 0
    for symbol in x:
        counts.append(count)
        count = count + 1 if symbol >= FLOW else 0
    counts.append(count)
    return counts


Even = tuple[int, int, int]  # start, end, period


def _all_short(x: Sequence[int], steps: list[int], flow_before: list[int]) -> Iterator[Even]:
    """Find what lies between two places at which the steps differ; at the first one, the layers may."""
    for period in range(1, min(SHORT, len(x) // 2) + 1):
        least = period if period > 1 else FEWEST - 1
        differ = map(operator.ne, steps, itertools.islice(steps, period, None))
        places = [-1, *itertools.compress(itertools.count(), differ), len(x) - period]
        for index, (place, end) in enumerate(itertools.pairwise(places)):
            if end - place + flow_before[place] < least:
                continue
            start = _begin(x, place, period, flow_before, places[index - 1] + 1 if index else 0)
            if end - start >= least:
                yield start, end + period, period


def _begin(x: Sequence[int], place: int, period: int, flow_before: list[int], earliest: int) -> int:
    """Return where a stretch begins whose steps are periodic behind a place, but not at it.

    If layers stand there, they are its first ones, and the data flow before them belongs to it.
    """
    if place < 0 or x[place] >= FLOW or x[place + period] >= FLOW:
        return place + 1
    return max(place - flow_before[place], earliest)


def _long(x: Sequence[int], steps: list[int], flow_before: list[int]) -> Iterator[Even]:
    last_seen: dict[tuple[int, ...], int] = {}
    known_end: dict[int, int] = {}
    for place in range(1, len(steps) - ANCHOR + 1 if len(steps) > 2 * SHORT + 1 else 0):
        anchor = tuple(steps[place : place + ANCHOR])
        before = last_seen.get(anchor)
        last_seen[anchor] = place
        if before is None or place - before <= SHORT or known_end.get(place - before, 0) > place:
            continue
        period = place - before
        start = before - 1
        while start >= 0 and steps[start] == steps[start + period]:
            start -= 1
        end = place + ANCHOR
        while end < len(steps) and steps[end] == steps[end - period]:
            end += 1
        known_end[period] = end
        earliest = start
        while earliest > max(0, start - flow_before[start]) and steps[earliest - 1] == steps[earliest - 1 + period]:
            earliest -= 1
        start = _begin(x, start, period, flow_before, max(earliest, 0))
        if end - start >= 2 * period:
            yield start, end, period


def _mixed(x: Sequence[int]) -> Iterator[Stretch]:
    """Find stretches of three copies or more in which some layers are shifted and others are not."""
    seen: set[tuple[int, int]] = set()
    for period in range(2, min(SHORT, len(x) // 3) + 1):
        slopes = list(map(operator.sub, itertools.islice(x, period, None), x))
        differ = bytes(map(operator.ne, slopes, itertools.islice(slopes, period, None)))
        equal = bytes(period)
        start = differ.find(equal)
        while start >= 0:
            end = differ.find(1, start)
            end = len(differ) if end < 0 else end
            shifts = {slopes[at] for at in range(start, start + period) if x[at] < FLOW or slopes[at]}
            around = start, end + 2 * period
            if len(shifts) == 2 and 0 in shifts and around not in seen:
                shift = sum(shifts)
                if abs(shift) < NO_STEP:
                    seen.add(around)
                    yield Stretch(*around, period, shift, True)
            start = differ.find(equal, end)
