"""Route → canonical text: the short spec that its operations alone determine.

A route is cut into layers, ranges, repeats and comprehensions by dynamic programming over its length, so that the
weights below add up to the least. What may repeat at a place is found by `repeats`; a body is cut in the same way,
once for all bodies that are equal up to a shift.
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
    format_spec,
)
from depthgraph.syntax import Repeat as RepeatNode

#: What the forms weigh for a reader, in thousandths so that the number of elements breaks ties.
LAYER, RANGE, COMPREHENSION = 2001, 3001, 6000

#: What a count adds: to one layer, and to a group. (`2x2 3..4` reads better than `2 2..4`.)
COUNT, GROUP_COUNT = -100, 2000

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
    elements = list(_elements(_Cutter().cut(list(route.path)), None))
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


Cut = tuple[int, tuple[Piece, ...]]


class _Cutter:
    """Cuts sequences into pieces of the least weight, and remembers what it has cut."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], bool], Cut] = {}

    def cut(self, x: list[int]) -> tuple[Piece, ...]:
        return self._cut(x, shifted=False)[1]

    def _body(self, x: list[int], shifted: bool) -> Cut:
        """Cut what one copy runs; in a comprehension (`shifted`) no other comprehension stands."""
        if len(x) == 1:
            return LAYER, (Piece(x[0]),)
        key = (tuple(layer - x[0] for layer in x), shifted)
        if key not in self._known:
            self._known[key] = self._cut([layer - x[0] for layer in x], shifted)
        weight, pieces = self._known[key]
        return weight, tuple(piece.moved(x[0]) for piece in pieces)

    def _cut(self, x: list[int], shifted: bool) -> Cut:
        """Find from the end, for each place, the cut of the least weight of all that follows."""
        places = repeats(x)
        weights = [0] * (len(x) + 1)
        reach = [0] * len(x)  # where a range that begins here, or one layer, best ends
        choices: list[tuple[Piece, int]] = [(Piece(0), 0)] * len(x)
        for place in range(len(x) - 1, -1, -1):
            reach[place] = place + 1
            best, choice = LAYER + weights[place + 1], (Piece(x[place]), place + 1)
            if place + 1 < len(x) and x[place + 1] == x[place] + 1:
                end = reach[place + 1]
                if weights[end] <= weights[place + 1]:
                    reach[place] = end
                if RANGE + weights[end] < best:
                    best, choice = RANGE + weights[end], (Piece(x[place], (), 1, end - place), end)
            for repeat in places[place]:
                if shifted and repeat.shift:
                    continue
                own, body = self._copy(x, place, repeat, shifted)
                for times in (repeat.times, repeat.times - 1):
                    end = place + times * repeat.period
                    if times > 1 and own + weights[end] < best:
                        best, choice = own + weights[end], (Piece(x[place], body, repeat.shift, times), end)
            weights[place], choices[place] = best, choice
        return weights[0], tuple(_follow(choices))

    def _copy(self, x: list[int], place: int, repeat: Repeat, shifted: bool) -> Cut:
        """Return the weight of a repeat and the pieces of its body."""
        copy = x[place : place + repeat.period]
        weight, body = self._body(copy, shifted or repeat.shift != 0)
        if repeat.shift:
            return weight + COMPREHENSION, body
        return weight + (GROUP_COUNT if repeat.period > 1 else COUNT), body


def _follow(choices: list[tuple[Piece, int]]) -> Iterator[Piece]:
    place = 0
    while place < len(choices):
        piece, place = choices[place]
        yield piece


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
    single = len(body) == 1 and isinstance(body[0], Layer)
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
