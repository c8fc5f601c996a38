"""How two routes differ: an edit script over what they run, in words and as a picture."""

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from depthgraph.explore.alignment import align
from depthgraph.explore.bounds import checked_route
from depthgraph.explore.measuring import Measures, measures
from depthgraph.explore.wording import Wording
from depthgraph.route import Route
from depthgraph.symbols import CLOSE, JOINS, Alphabet

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from depthgraph.draw.picture import SvgPicture

Kind = Literal["same", "removed", "added", "replaced", "repeated", "shortened", "moved away", "moved here"]


@dataclass(frozen=True)
class Edit:
    """A stretch of one route, a stretch of the other, and how they belong together.

    Places count the operations of a route from 0, a join's brackets and bars among them; of a chain, place p is that of
    execution p + 1.

    Attributes:
        kind: `same` in both; `removed` from the first or `added` in the second; `replaced`, one by the other;
            `repeated`, added as more runs of what stands right before it; `shortened`, removed as runs of what stands
            right before it; `moved away` and `moved here`, the two ends of a move.
        one: places of the first route.
        other: places of the second route.
        unit: of `repeated` and `shortened`, how many places one run has.
        partner: of a move, the number of the edit at its other end.
    """

    kind: Kind
    one: range
    other: range
    unit: int = 0
    partner: int = -1


@dataclass(frozen=True)
class Diff:
    """How one route becomes another.

    Attributes:
        one: the first route.
        other: the second route.
        symbols: what they run, as integers: layers are themselves.
        edits: all of both, in order.

    Examples:
        >>> import depthgraph as dg
        >>> print(diff(dg.route("1..6"), dg.route("1..4 2..6")))
        1..6 → 1..4 2..6
        after execution 4: `2..4` once more
        layers 2..4: 1 → 2 visits
        E 6 → 9, multiplier 1 → 1.5, max visits 1 → 2, longest return 0 → 3
    """

    one: Route
    other: Route
    symbols: tuple[tuple[int, ...], tuple[int, ...]]
    edits: tuple[Edit, ...]
    wording: Wording

    @property
    def same(self) -> bool:
        """Whether the routes are equal."""
        return self.one == self.other

    @property
    def changes(self) -> tuple[Edit, ...]:
        """The edits that are not `same`."""
        return tuple(edit for edit in self.edits if edit.kind != "same")

    @cached_property
    def measures(self) -> tuple[Measures, Measures]:
        """The measures of both routes."""
        return measures(self.one), measures(self.other)

    @cached_property
    def text(self) -> str:
        """The difference in words, a line for each edit and for what follows from them."""
        from depthgraph.explore.telling import lines

        return "\n".join(lines(self))

    def __str__(self) -> str:
        return self.text

    def draw(self) -> "SvgPicture":
        """Return the difference as a picture: both routes, what is the same below one another.

        Raises:
            DrawError: `too-large-to-draw`.
        """
        from depthgraph.draw.picture import SvgPicture
        from depthgraph.draw.scene import svg
        from depthgraph.explore.picture import diff_scene

        return SvgPicture(svg(diff_scene(self)))

    def save(self, path: "str | os.PathLike[str]") -> "Path":
        """Save the picture, or the words, in the format that the path's ending names.

        Args:
            path: ends in `.svg`, `.png`, `.pdf`, `.dot`, or `.txt` for the words.

        Returns:
            the path.

        Raises:
            DrawError: `unknown-view` for another ending; `missing-file` for a place that cannot be written;
                `missing-dot`; `too-large-to-draw`.
        """
        from depthgraph.explore.picture import save_diff

        return save_diff(self, path)

    def _repr_svg_(self) -> str:
        return self.draw().source


def diff(one: Route, other: Route) -> Diff:
    """Compare two routes.

    What both run is aligned so that as much as possible is the same, in as few stretches. What is left is said in the
    most telling way: a stretch that is gone here and new there has moved, one that repeats what stands before it is a
    loop that runs more or less often. Operations of data flow are compared like executions; `mix` and `gate` are the
    same where they read the same register and share their weights in the same way.

    Args:
        one: before.
        other: after; it may have another N.

    Examples:
        >>> import depthgraph as dg
        >>> [edit.kind for edit in diff(dg.route("1..2 (3..4)x2 5"), dg.route("1..2 (3..4)x4 5")).edits]
        ['same', 'repeated', 'same']
    """
    alphabet = Alphabet()
    first, second = (tuple(alphabet.symbols(checked_route(route).operations)) for route in (one, other))
    found = [_named(edit, first, second) for edit in _stretches(first, second)]
    return Diff(one, other, (first, second), tuple(_with_moves(found, first, second)), Wording(alphabet.actions))


def _stretches(one: tuple[int, ...], other: tuple[int, ...]) -> list[Edit]:
    """Return both sequences cut where equal stretches begin and end; what differs is removed, added or replaced."""
    pairs = align(_nested(one), _nested(other))
    found = []
    a = b = 0
    for _, group in groupby(enumerate(pairs), key=lambda item: (item[1][0] - item[0], item[1][1] - item[0])):
        block = [pair for _, pair in group]
        (first, second), size = block[0], len(block)
        found += _gap(range(a, first), range(b, second))
        found.append(Edit("same", range(first, first + size), range(second, second + size)))
        a, b = first + size, second + size
    return found + _gap(range(a, len(one)), range(b, len(other)))


def _nested(symbols: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the symbols with the number of branches that each stands in: what is in a branch is aligned with such."""
    found, depth = [], 0
    for symbol in symbols:
        depth -= symbol == CLOSE
        found.append((symbol, depth))
        depth += symbol in JOINS
    return found


def _gap(one: range, other: range) -> list[Edit]:
    if not one and not other:
        return []
    kind: Kind = "replaced" if one and other else "removed" if one else "added"
    return [Edit(kind, one, other)]


def _named(edit: Edit, one: tuple[int, ...], other: tuple[int, ...]) -> Edit:
    """Return what is added or removed as more or fewer runs of what stands before it, where it is that."""
    match edit.kind:
        case "added":
            unit = _unit(other, edit.other)
            return Edit("repeated", edit.one, edit.other, unit) if unit else edit
        case "removed":
            unit = _unit(one, edit.one)
            return Edit("shortened", edit.one, edit.other, unit) if unit else edit
        case _:
            return edit


def _unit(symbols: tuple[int, ...], places: range) -> int:
    """Return the length of the shortest stretch that ends before these places and that they repeat; 0 for none."""
    size = len(places)
    for unit in range(1, min(size, places.start) + 1):
        if size % unit == 0:
            stretch = symbols[places.start - unit : places.start]
            if symbols[places.start : places.stop] == stretch * (size // unit):
                return unit
    return 0


def _with_moves(edits: list[Edit], one: tuple[int, ...], other: tuple[int, ...]) -> list[Edit]:
    """Return the edits with each stretch that is removed here and added there as the two ends of a move."""
    ends: dict[tuple[int, ...], int] = {}
    for at, edit in enumerate(edits):
        if edit.kind in ("added", "repeated"):
            ends.setdefault(other[edit.other.start : edit.other.stop], at)
    moved = list(edits)
    for at, edit in enumerate(edits):
        if edit.kind in ("removed", "shortened"):
            to = ends.pop(one[edit.one.start : edit.one.stop], None)
            if to is not None:
                moved[at] = Edit("moved away", edit.one, edit.other, partner=to)
                moved[to] = Edit("moved here", edits[to].one, edits[to].other, partner=at)
    return moved
