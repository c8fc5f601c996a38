"""Route → canonical text: the short spec that its operations alone determine.

The operations are written as symbols, the symbols are cut into pieces, and the pieces are written here: as a tree, in
which an index has a name, and so have weights that stand at several places of the text.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from depthgraph.cutting import Cutter, Index, Piece
from depthgraph.route import Route, ranges
from depthgraph.symbols import JOINS, Action, Alphabet, is_flow
from depthgraph.syntax import (
    Access,
    Comprehension,
    Drop,
    Element,
    Expression,
    Integer,
    Join,
    Layer,
    Mark,
    Range,
    Repeat,
    RouteSpec,
    Sequence,
)
from depthgraph.unparse import format_element, format_spec
from depthgraph.words import WEIGHTED_WORDS

#: What an index and shared weights are called, before their number if the route has registers of those names.
INDEXES, WEIGHTS = ("i", "j", "k"), "w"


def canonical_text(route: Route) -> str:
    """Return the canonical text of a route.

    Examples:
        >>> import depthgraph as dg
        >>> print(dg.route("lft(24)"))
        1..2 (i..i+2 for i in 1..22)
        >>> print(dg.route("1 2 3 3 2 1"))
        1..2 3x2 2 1
        >>> print(dg.route("save(e) mix(e) 1 exit mix(e) 2 exit"))
        save(e) mix(e) 1 exit mix(e) 2 exit
        >>> print(dg.route("save(e) mix(e,a) 1 exit mix(e,a) 2 exit mix(e,a) 3 exit"))
        save(e) (mix(e) i exit for i in 1..3)
    """
    alphabet = Alphabet()
    symbols = tuple(alphabet.symbols(route.operations))
    lengths = {symbol: len(format_element(_named(action, {}))) for symbol, action in alphabet.actions.items()}
    _, pieces = Cutter(lengths).cut(symbols)
    elements = list(_Writer(alphabet, pieces).elements(pieces, None))
    drops = [Drop(_range_argument(text)) for text in ranges(route.dropped)]
    if len(elements) == 1 and isinstance(elements[0], Layer) and not drops:
        # a lone number would be read as an integer by YAML
        return f"L{route.path[0]}"
    return format_spec(RouteSpec(Sequence((*elements, *drops))))


def _range_argument(text: str) -> Expression | Range:
    first, _, last = text.partition("..")
    return Range(Integer(int(first)), Integer(int(last))) if last else Integer(int(first))


class _Writer:
    """Writes the pieces of one route."""

    def __init__(self, alphabet: Alphabet, pieces: tuple[Piece, ...]) -> None:
        self._actions = alphabet.actions
        registers = {register for _, register, _ in self._actions.values()}
        numbers = itertools.count(1)
        indexes = itertools.chain(INDEXES, (f"{INDEXES[0]}{number}" for number in numbers))
        self._index = next(name for name in indexes if name not in registers)
        self._names = _weight_names((self._actions[symbol] for symbol in _actions(pieces)), registers)

    def elements(self, pieces: Iterable[Piece], index: Index | None) -> Iterator[Element]:
        for piece in pieces:
            yield self._element(piece, index)

    def _element(self, piece: Piece, index: Index | None) -> Element:
        if piece.branches:
            branches = tuple(Sequence(tuple(self.elements(branch, index))) for branch in piece.branches)
            return Join(JOINS[piece.symbol], branches)
        if piece.body and piece.shift:
            return self._comprehension(piece)
        if piece.body:
            body = tuple(self.elements(piece.body, index))
            alone = len(body) == 1 and not isinstance(body[0], Range | Repeat)
            return Repeat(body[0] if alone else Sequence(body), Integer(piece.times))
        if is_flow(piece.symbol):
            return _named(self._actions[piece.symbol], self._names)
        first = self._number(piece.symbol, index)
        if piece.times == 1:
            return Layer(first)
        return Range(first, self._number(piece.symbol + piece.times - 1, index))

    def _comprehension(self, piece: Piece) -> Comprehension:
        values = Range(Integer(piece.start), Integer(piece.start + piece.times - 1))
        body = Sequence(tuple(self.elements(piece.body, Index(piece.shift, piece.start))))
        return Comprehension(body, self._index, values)

    def _number(self, symbol: int, index: Index | None) -> Expression:
        return Integer(symbol) if index is None else index.expression(symbol, self._index)


def _named(action: Action, names: dict[tuple[str, int], str]) -> Element:
    word, register, site = action
    return Access(word, register, names.get((word, site))) if register else Mark(word)


def _actions(pieces: Iterable[Piece]) -> Iterator[int]:
    """Yield the operations of data flow of pieces as often as they are written."""
    for piece in pieces:
        if piece.body:
            yield from _actions(piece.body)
        elif piece.branches:
            for branch in piece.branches:
                yield from _actions(branch)
        elif is_flow(piece.symbol):
            yield piece.symbol


def _weight_names(actions: Iterable[Action], taken: set[str]) -> dict[tuple[str, int], str]:
    """Return names for the weights that are written at several places, in the order of the first ones."""
    places = Counter((word, site) for word, _, site in actions if word in WEIGHTED_WORDS)
    names = (name for number in itertools.count(1) if (name := f"{WEIGHTS}{number}") not in taken)
    shared = (weights for weights, count in places.items() if count > 1)
    return dict(zip(shared, names, strict=False))
