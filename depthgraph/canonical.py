"""Route → canonical text: the short spec that its operations alone determine.

A route is cut into layers, ranges, repeats and comprehensions by dynamic programming over its length, so that the
weights below add up to the least: the characters of the text, less what a reader gains by a form. What may repeat at
a place is found by `repeats`; a body is cut in the same way, once for all bodies that are written alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from depthgraph.repeats import Repeat, repeats
from depthgraph.route import Route, ranges
from depthgraph.syntax import (
    Arithmetic,
    Comprehension,
    Drop,
    Element,
    Expression,
    Integer,
    Layer,
    Name,
    Range,
    RouteSpec,
    Sequence,
)
from depthgraph.syntax import Repeat as RepeatNode
from depthgraph.unparse import format_spec

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

INDEX = "i"


def canonical_text(route: Route) -> str:
    """Return the canonical text of a route.

    Examples:
        >>> import depthgraph as dg
        >>> print(dg.route("lft(24)"))
        1..2 (i..i+2 for i in 1..22)
        >>> print(dg.route("1 2 3 3 2 1"))
        1..2 3x2 2 1
    """
    elements = list(_elements(_Cutter().cut(route.path, None)[1], None))
    drops = [Drop(_range_argument(text)) for text in ranges(route.dropped)]
    if len(elements) == 1 and isinstance(elements[0], Layer) and not drops:
        # a lone number would be read as an integer by YAML
        return f"L{route.path[0]}"
    return format_spec(RouteSpec(Sequence((*elements, *drops))))


def _range_argument(text: str) -> Expression | Range:
    first, _, last = text.partition("..")
    return Range(Integer(int(first)), Integer(int(last))) if last else Integer(int(first))


@dataclass(frozen=True, slots=True)
class Piece:
    """One element of a cut: `body` once when `times` is 1, else `times` copies shifted by `shift`.

    Attributes:
        layer: the first layer of it.
        body: the pieces of one copy; none for a layer or a range.
        shift: 0 for a repeat; of a range, 1.
        times: copies; of a range, its length.
    """

    layer: int
    body: tuple["Piece", ...] = ()
    shift: int = 0
    times: int = 1

    def moved(self, by: int) -> "Piece":
        """Return the same piece on other layers."""
        return Piece(self.layer + by, tuple(piece.moved(by) for piece in self.body), self.shift, self.times)


@dataclass(frozen=True, slots=True)
class _Index:
    """How a layer of a comprehension's first iteration is written: `slope` times the index, and the rest."""

    slope: int
    start: int

    def expression(self, layer: int) -> Expression:
        rest = layer - self.slope * self.start
        index: Expression = Name(INDEX)
        if self.slope not in (1, -1):
            index = Arithmetic(Integer(abs(self.slope)), (("*", index),))
        if self.slope < 0:
            return Arithmetic(Integer(rest), (("-", index),))
        if rest == 0:
            return index
        pair = ("+" if rest > 0 else "-", Integer(abs(rest)))
        return Arithmetic(index, (pair,))

    def characters(self, layer: int) -> int:
        """Return how long that expression is."""
        rest = abs(layer - self.slope * self.start)
        index = 1 if self.slope in (1, -1) else len(f"{abs(self.slope)}*i")
        return index + len(f"+{rest}") if rest else index


Layers = tuple[int, ...]
Cut = tuple[int, tuple[Piece, ...]]
Choice = tuple[int, Repeat | None]  # where an element ends, and the repeat that it is, if it has a body to be cut


class _Cutter:
    """Cuts sequences into pieces of the least weight, and remembers what it has cut."""

    def __init__(self) -> None:
        self._known: dict[tuple[Layers, _Index | None], Cut] = {}

    def cut(self, x: Layers, index: _Index | None) -> Cut:
        """Cut x, whose layers are written with the index; in a comprehension no other one stands."""
        known = self._known.get((x, index))
        if known is None:
            known = self._known[x, index] = self._cut(x, index)
        return known

    def _cut(self, x: Layers, index: _Index | None) -> Cut:
        """Find from the end, for each place, the element with which all that follows weighs least."""
        plain, offers = _Plain(x, index), repeats(x)
        weights = plain.weights
        choices: list[Choice] = [(0, None)] * len(x)
        for place in range(len(x) - 1, -1, -1):
            best, end = plain.best(place)
            choice: Choice = end, None
            for repeat in offers.get(place, ()):
                if index and repeat.shift:
                    continue
                for times in (repeat.times, repeat.times - 1):
                    end = place + times * repeat.period
                    if times > 1 and _least(weights, place, repeat, times) + weights[end] < best:
                        weight = self._weight(x, place, repeat, times, index) + weights[end]
                        if weight < best:
                            best, choice = weight, (end, repeat)
            weights[place], choices[place] = best, choice
        return weights[0], tuple(self._pieces(x, choices, index))

    def _weight(self, x: Layers, place: int, repeat: Repeat, times: int, index: _Index | None) -> int:
        """Return what so many copies weigh."""
        start, weight, body = self._body(x, place, repeat, index)
        if repeat.shift:
            digits = len(str(start)) + len(str(start + times - 1))
            return weight + _frame(repeat, times) + digits * CHARACTER
        digits = len(str(times))
        return weight + digits * CHARACTER + (0 if _is_comprehension(body) else GROUP)

    def _body(self, x: Layers, place: int, repeat: Repeat, index: _Index | None) -> tuple[int, int, tuple[Piece, ...]]:
        """Return the first value of the index, and the weight and the pieces of the first copy.

        With a shift of 1 the index begins at the lowest layer, and all bodies of one form are cut as if that were 0.
        """
        copy = x[place : place + repeat.period]
        if repeat.shift != 1:
            return 1, *self.cut(copy, _Index(repeat.shift, 1) if repeat.shift else index)
        start = min(copy)
        return start, *self.cut(tuple(layer - start for layer in copy), _Index(1, 0))

    def _pieces(self, x: Layers, choices: list[Choice], index: _Index | None) -> Iterator[Piece]:
        place = 0
        while place < len(x):
            end, repeat = choices[place]
            if repeat:
                start, _, body = self._body(x, place, repeat, index)
                moved = tuple(piece.moved(start) for piece in body) if repeat.shift == 1 else body
                yield Piece(x[place], moved, repeat.shift, (end - place) // repeat.period)
            elif end > place + 1 and x[place + 1] == x[place]:
                yield Piece(x[place], (Piece(x[place]),), 0, end - place)
            else:
                yield Piece(x[place], (), 1, end - place)
            place = end


class _Plain:
    """The layers, ranges and repeats of one layer of a sequence that is searched from its end.

    Attributes:
        weights: for each place, what all that follows weighs; the search fills it.
    """

    def __init__(self, x: Layers, index: _Index | None) -> None:
        known = {layer: CHARACTER * (index.characters(layer) if index else len(str(layer))) for layer in set(x)}
        self.weights = [0] * (len(x) + 1)
        self._x, self._numbers = x, [known[layer] for layer in x]
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


def _least(weights: list[int], place: int, repeat: Repeat, times: int) -> int:
    """Return what so many copies weigh at least: no cut of the body is better than the best one of the second copy."""
    if repeat.shift:
        return LEAST_BODY + _frame(repeat, times)
    second = place + repeat.period
    body = weights[second] - weights[second + repeat.period]
    return body + (GROUP if body < LEAST_COMPREHENSION else 0)


def _frame(repeat: Repeat, times: int) -> int:
    return COMPREHENSION - (STEADY_GAIN if repeat.shift == 1 and times > 2 else GAIN)


def _is_comprehension(body: tuple[Piece, ...]) -> bool:
    return len(body) == 1 and bool(body[0].body) and body[0].shift != 0


def _elements(pieces: tuple[Piece, ...], index: _Index | None) -> Iterator[Element]:
    for piece in pieces:
        yield _element(piece, index)


def _element(piece: Piece, index: _Index | None) -> Element:
    first = _number(piece.layer, index)
    if piece.times == 1:
        return Layer(first)
    if not piece.body:
        return Range(first, _number(piece.layer + piece.times - 1, index))
    if piece.shift:
        return _comprehension(piece)
    body = tuple(_elements(piece.body, index))
    single = len(body) == 1 and isinstance(body[0], Layer | Comprehension)
    return RepeatNode(body[0] if single else Sequence(body), Integer(piece.times))


def _comprehension(piece: Piece) -> Comprehension:
    start = _lowest(piece.body) if piece.shift == 1 else 1
    index = _Index(piece.shift, start)
    values = Range(Integer(start), Integer(start + piece.times - 1))
    return Comprehension(Sequence(tuple(_elements(piece.body, index))), INDEX, values)


def _lowest(pieces: tuple[Piece, ...]) -> int:
    return min(min(piece.layer, _lowest(piece.body) if piece.body else piece.layer) for piece in pieces)


def _number(layer: int, index: _Index | None) -> Expression:
    return Integer(layer) if index is None else index.expression(layer)
