"""Where a sequence of symbols repeats itself: exactly, shifted by a constant, or with some of its layers shifted.

Two kinds of stretches are searched. In an even one, of period p and shift s, the layers differ from those one period
before by s, all of them, and data flow is the same; an exact repeat is one with shift 0. In a mixed one each place of
the body has a slope of its own, 0 or s: x[j+2p] - 2 x[j+p] + x[j] = 0 for every j of three copies or more.

Even stretches are found by the step of each layer from the layer before it, shift or no shift: a stretch is even when
its steps and its data flow are periodic. (Its first layer may come from anywhere.) The number of maximal ones is at
most linear (the runs theorem, Bannai et al., arXiv 1406.0263). Short periods are found by comparing the sequence with
itself, moved, all places at once as the digits of long integers; long ones by the next place at which the same stretch
of steps stands. Of mixed stretches with a long period those are found that have an even part, or are a few ranges.
"""

import itertools
import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from depthgraph.symbols import FLOW

#: Periods up to this one are found by comparison.
SHORT = 32

#: Length of the stretch of steps by which a longer period is found.
ANCHOR = 24

#: How many of the longer periods are tried for mixed stretches: those that are found most often.
LONG = 16

#: Fewer layers than this are not tried as a comprehension of one layer: `(2*i for i in 1..4)` is long for `2 4 6 8`.
FEWEST = 4

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


def stretches(x: Sequence[int], shifts: bool = True) -> Iterator[Stretch]:
    """Yield the maximal stretches that hold two or more periods, mixed ones three; each with its shortest period.

    Args:
        x: symbols of `depthgraph.symbols`.
        shifts: yield also those whose layers are shifted.
    """
    search = _Search(x)
    seen: set[tuple[int, int]] = set()
    for start, end, period in itertools.chain(search.short(), search.long()):
        if (start, end) not in seen:
            seen.add((start, end))
            shift = next((x[at + period] - x[at] for at in range(start, start + period) if x[at] < FLOW), 0)
            if shifts or not shift:
                yield Stretch(start, end, period, shift)
    if shifts:
        yield from _mixed(x, [*range(2, SHORT + 1), *sorted(search.long_periods())])


Even = tuple[int, int, int]  # start, end, period


class _Search:
    """The search for even stretches."""

    def __init__(self, x: Sequence[int]) -> None:
        self._x, self._steps = x, _steps(x)
        self._flow_before = _flow_before(x)
        self._periods: Counter[int] = Counter()

    def short(self) -> Iterator[Even]:
        """Yield what lies between two places at which the steps differ; at the first one, the layers may."""
        flow_before, planes = self._flow_before, _planes(self._steps)
        most_flow = max(flow_before)
        after_flow = int.from_bytes(bytes(2 if count else 1 for count in flow_before), "little")
        for period in range(1, min(SHORT, len(self._x) // 2) + 1):
            least = period if period > 1 else FEWEST - 1
            differ = b"\1" + _unequal(planes, len(self._x), period, after_flow)
            for found in re.finditer(_EVEN % (least - 1, max(least - most_flow - 1, 0)), differ):
                place, end = found.start() - 1, found.end() - 1
                if end - place + flow_before[place] >= least:
                    start = self._begin(place, period)
                    if end - start >= least:
                        yield start, end + period, period

    def long(self) -> Iterator[Even]:
        """Yield what lies around two places with the same steps."""
        steps = self._steps
        last_seen: dict[tuple[int, ...], int] = {}
        known_end: dict[int, int] = {}
        for place in range(1, len(steps) - ANCHOR + 1 if len(steps) > 2 * SHORT + 1 else 0):
            anchor = tuple(steps[place : place + ANCHOR])
            before = last_seen.get(anchor)
            last_seen[anchor] = place
            if before is None or place - before <= SHORT:
                continue
            period = place - before
            self._periods[period] += 1
            if known_end.get(period, 0) > place:
                continue
            start = before - 1
            while start >= 0 and steps[start] == steps[start + period]:
                start -= 1
            end = place + ANCHOR
            while end < len(steps) and steps[end] == steps[end - period]:
                end += 1
            known_end[period] = end
            start = self._begin(start, period)
            if end - start >= 2 * period:
                yield start, end, period

    def long_periods(self) -> list[int]:
        """Return likely periods of mixed stretches: the distances at which `long` has found the same steps.

        A range has the same step all along, so sequences of ranges are compared by the lengths of these.
        """
        starts = [place for place, step in enumerate(self._steps) if step != 1]
        lengths = [after - before for before, after in itertools.pairwise([*starts, len(self._x)])]
        planes, ones = _planes(lengths), int.from_bytes(b"\1" * len(lengths), "little")
        for ranges in range(1, min(SHORT, len(lengths) // 3) + 1):
            differ = b"\1" + _unequal(planes, len(lengths), ranges, ones)
            for found in re.finditer(_MIXED % ranges, differ):
                period = starts[found.end() - 2 + ranges] - starts[found.end() - 2]
                if period > SHORT:
                    self._periods[period] += found.end() - found.start()
        often = sorted(self._periods.items(), key=lambda item: (-item[1], item[0]))
        return [period for period, _ in often[:LONG]]

    def _begin(self, place: int, period: int) -> int:
        """Return where a stretch begins whose steps are periodic behind a place, but not at it.

        If layers stand there, they are its first ones, and the data flow before them belongs to it.
        """
        x = self._x
        if place < 0 or x[place] >= FLOW or x[place + period] >= FLOW:
            return place + 1
        while place and x[place - 1] >= FLOW and x[place - 1] == x[place - 1 + period]:
            place -= 1
        return place


def _steps(x: Sequence[int]) -> list[int]:
    """Return the difference of each layer from the one before it; data flow stands for itself."""
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
    return [*counts, 0]


#: A place of a 1 at which two sequences differ, and so many or more at which they do not; or that with a place of a 2.
_EVEN = b"\1\0{%d,}|\2\0{%d,}"

#: The same for a place of any mark.
_MIXED = b"[^\0]\0{%d,}"

#: What is not 0 becomes 255.
_ALL = bytes([0, *[255] * 255])


def _planes(steps: Sequence[int]) -> list[int]:
    """Number the steps, and return the numbers as long integers of one byte each: the lowest bytes, and so on."""
    numbers: dict[int, int] = {}
    numbered = [numbers.setdefault(step, len(numbers)) for step in steps]
    planes = []
    for bits in range(0, max(len(numbers) - 1, 1).bit_length(), 8):
        planes.append(int.from_bytes(bytes(number >> bits & 255 for number in numbered), "little"))
    return planes


def _unequal(planes: list[int], length: int, period: int, marks: int) -> bytes:
    """Return the mark of each place at which the step is another one a period later, and 0 for the others.

    Args:
        planes: the steps, from `_planes`.
        length: how many there are.
        period: which step each is compared with.
        marks: a long integer of one byte each.
    """
    kept = length - period
    mask = (1 << 8 * kept) - 1
    differ = 0
    for plane in planes:
        differ |= (plane >> 8 * period) ^ (plane & mask)
    everywhere = int.from_bytes(differ.to_bytes(kept, "little").translate(_ALL), "little")
    return (everywhere & marks).to_bytes(kept, "little")


def _mixed(x: Sequence[int], periods: list[int]) -> Iterator[Stretch]:
    """Find stretches of three copies or more in which some layers are shifted and others are not."""
    seen: set[tuple[int, int]] = set()
    whole = int.from_bytes(struct.pack(f"<{len(x)}Q", *x), "little")
    for period in periods:
        if 3 * period > len(x):
            return
        for found in re.finditer(_MIXED % period, b"\1" + _bent(whole, len(x), period)):
            start, end = found.start(), found.end() - 1 + 2 * period
            body = range(start, start + period)
            slopes = {x[at + period] - x[at] for at in body if x[at] < FLOW or x[at + period] != x[at]}
            if len(slopes) == 2 and 0 in slopes and abs(sum(slopes)) < NO_STEP and (start, end) not in seen:
                seen.add((start, end))
                yield Stretch(start, end, period, sum(slopes), True)


def _bent(whole: int, length: int, period: int) -> bytes:
    """Return 0 for each place whose symbol and those one and two periods later are evenly apart.

    Args:
        whole: the symbols as one long integer of eight bytes each, so that twice a symbol is less than that.
        length: how many there are.
        period: how far apart those are that are compared.
    """
    kept = length - 2 * period
    mask = (1 << 64 * kept) - 1
    ends = (whole >> 128 * period) + (whole & mask)
    differ = ends ^ (whole >> 64 * period & mask) << 1
    for bits in (32, 16, 8):
        differ |= differ >> bits  # the lowest of the eight bytes is any of them
    return differ.to_bytes(8 * kept, "little")[::8]
