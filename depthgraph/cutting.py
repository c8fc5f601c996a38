"""Symbols → pieces: the cut of a sequence into layers, ranges, repeats and comprehensions that reads best.

A sequence is cut by dynamic programming over its length, so that the weights below add up to the least: the characters
of the text, less what a reader gains by a form. What may repeat at a place is found by `repeats`; a body and the
branches of a join are cut in the same way, once for all that are written alike.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from depthgraph.repeats import Repeat, repeats
from depthgraph.symbols import BAR, CLOSE, CONSTANT, FLOW, JOINS, Branches, Symbols, joins
from depthgraph.syntax import Arithmetic, Expression, Integer, Name

#: A character, in thousandths so that the number of elements breaks ties.
CHARACTER = 1_000

#: What an element weighs besides its numbers: the blank behind it; of a range, one of its two points too. So `1..2`
#: is no longer than `1 2`, and is chosen.
LAYER, RANGE = CHARACTER + 1, 2 * CHARACTER + 1

#: What a count adds to one layer. Less than nothing: `2x2 3..4` reads better than `2 2..4`, though it is longer.
COUNT = -1

#: What a count adds to a group, besides its digits. One character less than `()x`: `(1 3)x2` is better than `1 3 1 3`.
GROUP = 2 * CHARACTER + 1

#: What `(… for i in ..)` adds to its body and ends.
COMPREHENSION = 14 * CHARACTER + 1

#: What a reader gains by a comprehension: much where three or more copies go up by one layer each, as in lft, little
#: where it takes arithmetic to see what runs. So `4 3 2 1` stays, and a comprehension has to be shorter.
STEADY_GAIN, GAIN = 10 * CHARACTER, 2 * CHARACTER

#: No body with its ends weighs less, and no comprehension.
LEAST_BODY = 4 * CHARACTER
LEAST_COMPREHENSION = LEAST_BODY + COMPREHENSION - STEADY_GAIN


@dataclass(frozen=True, slots=True)
class Piece:
    """One element of a cut: `body` once when `times` is 1, else `times` copies shifted by `shift`.

    Attributes:
        symbol: the first symbol of it.
        body: the pieces of one copy; none for a layer, a range or an operation of data flow.
        shift: 0 for a repeat; of a range, 1.
        times: copies; of a range, its length.
        start: of a comprehension, the first value of its index.
        branches: of a join, the pieces of each branch.
    """

    symbol: int
    body: tuple["Piece", ...] = ()
    shift: int = 0
    times: int = 1
    start: int = 1
    branches: tuple[tuple["Piece", ...], ...] = ()

    def moved(self, by: int) -> "Piece":
        """Return the same piece on other layers."""
        symbol = self.symbol + by if self.symbol < CONSTANT else self.symbol
        body = tuple(piece.moved(by) for piece in self.body)
        branches = tuple(tuple(piece.moved(by) for piece in branch) for branch in self.branches)
        return Piece(symbol, body, self.shift, self.times, self.start, branches)


@dataclass(frozen=True, slots=True)
class Index:
    """How a layer of a comprehension's first iteration is written: `slope` times the index, and the rest."""

    slope: int
    start: int

    def expression(self, symbol: int, name: str) -> Expression:
        """Return how a layer is written with the index of that name."""
        if symbol >= CONSTANT:
            return Integer(symbol - CONSTANT)
        rest = symbol - self.slope * self.start
        index: Expression = Name(name)
        if self.slope not in (1, -1):
            index = Arithmetic(Integer(abs(self.slope)), (("*", index),))
        if self.slope < 0:
            return Arithmetic(Integer(rest), (("-", index),))
        if rest == 0:
            return index
        pair = ("+" if rest > 0 else "-", Integer(abs(rest)))
        return Arithmetic(index, (pair,))

    def characters(self, symbol: int) -> int:
        """Return how long that expression is, with a name of one letter."""
        if symbol >= CONSTANT:
            return len(str(symbol - CONSTANT))
        rest = abs(symbol - self.slope * self.start)
        index = 1 if self.slope in (1, -1) else len(f"{abs(self.slope)}*i")
        return index + len(f"+{rest}") if rest else index


Joins = Mapping[int, tuple[Branches, int]]
Cut = tuple[int, tuple[Piece, ...]]
Choice = tuple[int, Repeat | None]  # where an element ends, and the repeat that it is, if it has a body to be cut


class Cutter:
    """Cuts sequences into pieces of the least weight, and remembers what it has cut.

    Args:
        lengths: how long each operation of data flow is written.
    """

    def __init__(self, lengths: Mapping[int, int]) -> None:
        self._lengths = lengths
        self._known: dict[tuple[Symbols, Index | None], Cut] = {}

    def cut(self, x: Symbols, index: Index | None = None) -> Cut:
        """Return the weight and the pieces of x, whose layers are written with the index.

        In a comprehension, no other one stands.
        """
        known = self._known.get((x, index))
        if known is None:
            known = self._known[x, index] = self._cut(x, index)
        return known

    def _cut(self, x: Symbols, index: Index | None) -> Cut:
        """Find from the end, for each place, the element with which all that follows weighs least.

        What follows ends with the branch in which the place is.
        """
        plain, offers, joined = _Plain(x, index, self._lengths), repeats(x, index is None), joins(x)
        weights = plain.weights
        choices: list[Choice] = [(0, None)] * len(x)
        for place in range(len(x) - 1, -1, -1):
            symbol = x[place]
            if symbol in (BAR, CLOSE):
                continue
            best, end = _join(symbol, *joined[place], weights) if symbol in JOINS else plain.best(place)
            choice: Choice = end, None
            for repeat in offers.get(place, ()):
                for times in (repeat.times, repeat.times - 1):
                    end = place + times * repeat.period
                    if times > 1 and _least(x, weights, place, repeat, times) + weights[end] < best:
                        weight = self._weight(x, place, repeat, times, index) + weights[end]
                        if weight < best:
                            best, choice = weight, (end, repeat)
            weights[place], choices[place] = best, choice
        return weights[0], tuple(self._pieces(x, choices, joined, index, 0, len(x)))

    def _weight(self, x: Symbols, place: int, repeat: Repeat, times: int, index: Index | None) -> int:
        """Return what so many copies weigh."""
        start, weight, body = self._body(x, place, repeat, index)
        if repeat.shift:
            digits = len(str(start)) + len(str(start + times - 1))
            return weight + _frame(repeat, times) + digits * CHARACTER
        digits = len(str(times))
        return weight + digits * CHARACTER + (0 if _stands_alone(body) else GROUP)

    def _body(self, x: Symbols, place: int, repeat: Repeat, index: Index | None) -> tuple[int, int, tuple[Piece, ...]]:
        """Return the first value of the index, and the weight and the pieces of the first copy.

        With a shift of 1 the index begins at the lowest layer, and all bodies of one form are cut as if that were 0.
        """
        copy = x[place : place + repeat.period]
        if not repeat.shift:
            return 1, *self.cut(copy, index)
        moving = [after != before for before, after in zip(copy, x[place + repeat.period :], strict=False)]
        start = min(symbol for symbol, moves in zip(copy, moving, strict=True) if moves) if repeat.shift == 1 else 1
        less = start if repeat.shift == 1 else 0
        body = tuple(
            symbol - less if moves else symbol if symbol >= FLOW else CONSTANT + symbol
            for symbol, moves in zip(copy, moving, strict=True)
        )
        return start, *self.cut(body, Index(repeat.shift, start - less))

    def _pieces(
        self, x: Symbols, choices: list[Choice], joined: Joins, index: Index | None, place: int, stop: int
    ) -> Iterator[Piece]:
        """Yield the pieces of x from a place to another one."""
        while place < stop:
            end, repeat = choices[place]
            if repeat:
                start, _, body = self._body(x, place, repeat, index)
                moved = tuple(piece.moved(start) for piece in body) if repeat.shift == 1 else body
                yield Piece(x[place], moved, repeat.shift, (end - place) // repeat.period, start)
            elif place in joined:
                inner = (tuple(self._pieces(x, choices, joined, index, *branch)) for branch in joined[place][0])
                yield Piece(x[place], branches=tuple(inner))
            elif end > place + 1 and x[place + 1] == x[place]:
                yield Piece(x[place], (Piece(x[place]),), 0, end - place)
            else:
                yield Piece(x[place], (), 1, end - place)
            place = end


def _join(opening: int, branches: Branches, end: int, weights: list[int]) -> tuple[int, int]:
    """Return what all weighs from a join on, and where the join ends."""
    frame = len(JOINS[opening]) + len("()") + len("| ") * (len(branches) - 1)
    return frame * CHARACTER + 1 + sum(weights[start] for start, _ in branches) + weights[end], end


class _Plain:
    """The layers, ranges and repeats of one layer of a sequence that is searched from its end.

    Attributes:
        weights: for each place, what all that follows weighs; the search fills it.
    """

    def __init__(self, x: Symbols, index: Index | None, lengths: Mapping[int, int]) -> None:
        def characters(symbol: int) -> int:
            if symbol >= FLOW:
                return lengths.get(symbol, 0)
            return index.characters(symbol) if index else len(str(symbol))

        known = {symbol: CHARACTER * characters(symbol) for symbol in set(x)}
        self.weights = [0] * (len(x) + 1)
        self._x, self._numbers = x, [known[symbol] for symbol in x]
        self._count = COUNT + (CHARACTER if index else 0)  # `i x2` has a blank
        self._ascent_ends = list(range(1, len(x) + 1))
        self._run_ends = list(range(1, len(x) + 1))

    def best(self, place: int) -> tuple[int, int]:
        """Return what weighs least from here on if that begins with such an element, and where the element ends.

        The best end of a longer element is that of the one a place further on, or here.
        """
        x, number, after = self._x, self._numbers[place], self.weights[place + 1]
        step = x[place + 1] - x[place] if place + 1 < len(x) else -1
        weight, end = number + LAYER + after, place + 1
        if step == 1:
            far = self._ascent_ends[place + 1]
            rest = self._numbers[far - 1] + self.weights[far]
            if rest <= number + after:
                self._ascent_ends[place] = far
            if number + RANGE + rest < weight:
                return number + RANGE + rest, far
        elif step == 0:
            far = self._run_ends[place + 1]
            rest = self.weights[far]
            if rest <= after:
                self._run_ends[place] = far
            if number + LAYER + self._count + rest < weight:
                return number + LAYER + self._count + rest, far
        return weight, end


def _least(x: Symbols, weights: list[int], place: int, repeat: Repeat, times: int) -> int:
    """Return what so many copies weigh at least: no cut of the body is better than the best one of the second copy."""
    if repeat.shift:
        return LEAST_BODY + _frame(repeat, times)
    second = place + repeat.period
    body = weights[second] - weights[second + repeat.period]
    return body + (GROUP if body < LEAST_COMPREHENSION and x[place] not in JOINS else 0)


def _frame(repeat: Repeat, times: int) -> int:
    gain = 0 if repeat.mixed else STEADY_GAIN if repeat.shift == 1 and times > 2 else GAIN
    return COMPREHENSION - gain


def _stands_alone(body: tuple[Piece, ...]) -> bool:
    """Whether a body takes a count without parentheses of its own."""
    return len(body) == 1 and (bool(body[0].body and body[0].shift) or bool(body[0].branches))
