"""A value to be read in some notation: checks of its parts, whose errors all say how the notation counts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from depthgraph.errors import NO_SPAN, FormatError
from depthgraph.formats.notation import Notation
from depthgraph.formats.values import Item, brief
from depthgraph.parser import Limits
from depthgraph.route import Route
from depthgraph.source import Source, Span


@dataclass(frozen=True)
class Given:
    """A value in a notation, and what the caller said beside it.

    Attributes:
        notation: the notation.
        item: the value.
        source: its text, if it was given as one.
        depth: N, if the caller said it.
        limits: what is refused at once.
        options: what else the caller said; each option of the notation is there.
    """

    notation: Notation
    item: Item
    source: Source | None
    depth: int | None
    limits: Limits
    options: Mapping[str, object]

    def wrong(self, message: str, place: Item | Span | None = None, help: str = "") -> FormatError:
        """Return the error for a part of the value; its help ends with the notation's conventions."""
        span = place.span if isinstance(place, Item) else place
        told = "\n".join(part for part in (help, self.notation.convention) if part)
        return FormatError("invalid-notation", message, self.source, span or NO_SPAN, help=told)

    def text(self, what: str) -> str:
        """Return the value, which is a text."""
        if not isinstance(self.item.value, str):
            raise self.wrong(f"{what} is a text; found {brief(self.item)}", self.item)
        return self.item.value

    def parts(self, text: str, separator: str, start: int = 0) -> Iterator[tuple[str, Span]]:
        """Yield the parts of a text from `start` on, without the blanks around them, each with its place."""
        at = start
        for part in text[start:].split(separator):
            begin = at + len(part) - len(part.lstrip())
            yield part.strip(), Span(begin, max(begin + 1, begin + len(part.strip())))
            at += len(part) + 1

    def items(self, item: Item, what: str) -> tuple[Item, ...]:
        """Return the parts of a list that has some."""
        if not isinstance(item.value, tuple):
            raise self.wrong(f"{what} is a list; found {brief(item)}", item)
        if not item.value:
            raise self.wrong(f"{what} is empty, so nothing would run", item)
        return item.value

    def fields(self, item: Item, what: str, names: Sequence[str]) -> tuple[Item, ...]:
        """Return the values of a mapping that has these names and no others."""
        if not isinstance(item.value, dict):
            raise self.wrong(f"{what} is a mapping of {', '.join(names)}; found {brief(item)}", item)
        for name, value in item.value.items():
            if name not in names:
                raise self.wrong(f"{what} has no `{name}`", value, f"it has {', '.join(names)}")
        missing = [name for name in names if name not in item.value]
        if missing:
            raise self.wrong(f"{what} lacks `{missing[0]}`; found {brief(item)}", item)
        return tuple(item.value[name] for name in names)

    def integer(self, item: Item, what: str) -> int:
        """Return an integer of at most nine digits."""
        if not isinstance(item.value, int) or isinstance(item.value, bool):
            raise self.wrong(f"{what} is an integer of at most 9 digits; found {brief(item)}", item)
        return item.value

    def count(self, item: Item, what: str) -> int:
        """Return how often something runs, at least once."""
        count = self.integer(item, what)
        if count < 1:
            raise self.wrong(f"{what} is at least 1; found {count}", item, "nothing is dropped by a count")
        return count

    def layer(self, number: int, place: Item | Span | None, base: int = 0) -> int:
        """Return a layer that the notation numbers from `base` as we number it, from 1."""
        layer = number - base + 1
        if layer < 1 or layer > self.most_layers:
            last = f"; this model of {self.depth} layers has {base}..{self.depth + base - 1}" if self.depth else ""
            raise self.wrong(f"there is no layer {number}{last}", place)
        return layer

    @property
    def most_layers(self) -> int:
        """N, or as many layers as the limits let a model have."""
        return self.depth or self.limits.executions

    def half_open(self, item: Item, what: str) -> range:
        """Return the layers of `[start, end]`, whose end is left out."""
        pair = self.items(item, what)
        if len(pair) != 2:
            raise self.wrong(f"{what} is a pair, start and end; found {brief(item)}", item)
        start, end = (
            self.integer(each, f"the {name} of {what}") for each, name in zip(pair, ("start", "end"), strict=True)
        )
        if start >= end:
            reverse = "; layers in falling order are ranges of one layer each" if start > end else ""
            raise self.wrong(
                f"{what} from {start} to {end} names no layer", item, f"its end is above its start{reverse}"
            )
        self.layer(start, pair[0])
        if end > self.most_layers:
            last = f"the last layer of this model of {self.depth}" if self.depth else "the most that the limits allow"
            raise self.wrong(f"{what} up to {end} runs layer {end - 1}; {self.most_layers - 1} is {last}", pair[1])
        return range(start + 1, end + 1)

    def included(self, first: Item, last: Item, what: str) -> range:
        """Return the layers from `first` to `last`, both of them included, ascending."""
        ends = [self.integer(each, f"an end of {what}") for each in (first, last)]
        if ends[0] > ends[1]:
            raise self.wrong(f"{what} from {ends[0]} to {ends[1]} goes down", first)
        return range(self.layer(ends[0], first), self.layer(ends[1], last) + 1)

    def known_depth(self, why: str) -> int:
        """Return N, where the value alone does not tell it."""
        if self.depth is None:
            raise FormatError(
                "notation-option",
                f"N is needed: {why}",
                help=f"say N=…, the number of layers\n{self.notation.convention}",
            )
        return self.depth

    def route(self, pieces: Iterable[Sequence[int]]) -> Route:
        """Return the route that runs these layers; those of 1 … N that are in none of them are dropped.

        Without an N, the model ends with the highest layer that is named.
        """
        path: list[int] = []
        for piece in pieces:
            if len(path) + len(piece) > self.limits.executions:
                message = f"this runs more than {self.limits.executions:,} executions"
                help = f"limits=dg.Limits(executions=…) allows more\n{self.notation.convention}"
                raise FormatError("too-many-executions", message, help=help)
            path.extend(piece)
        if not path:
            raise self.wrong("nothing runs", self.item)
        return Route.of(path, self.depth)
