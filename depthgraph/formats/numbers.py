"""A plain list of layer numbers, from a base that the caller has to say."""

import json
import re
from collections.abc import Iterator
from types import MappingProxyType

from depthgraph.formats.asked import Asked
from depthgraph.formats.given import Given
from depthgraph.formats.notation import Notation, Option
from depthgraph.route import Route
from depthgraph.source import Span

NUMBER = re.compile(r"([+-]?[0-9]{1,9})(?:\s*,\s*|\s+|$)")


def read(given: Given) -> Route:
    """Read `[0, 1, 2]`, `0,1,2` or `0 1 2`; in Python any sequence of integers."""
    base = given.options["base"]
    assert isinstance(base, int)
    numbers = _written(given, given.item.value) if isinstance(given.item.value, str) else _counted(given)
    return given.route((given.layer(number, place, base),) for number, place in numbers)


def _counted(given: Given) -> Iterator[tuple[int, Span | None]]:
    for each in given.items(given.item, "the value"):
        yield given.integer(each, "a layer"), each.span


def _written(given: Given, text: str) -> Iterator[tuple[int, Span | None]]:
    at, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if text[at : at + 1] in ("[", "(") and text[at] + text[end - 1] in ("[]", "()"):
        at, end = at + 1, end - 1
    while text[at:end].strip():
        at += len(text[at:end]) - len(text[at:end].lstrip())
        found = NUMBER.match(text, at, end)
        if not found:
            word = re.compile(r"[^\s,]+|,").match(text, at, end)
            place = Span(at, word.end() if word else at + 1)
            help = "it has numbers, with commas or blanks between them"
            raise given.wrong(f"`{text[place.start : place.end]}` is no layer", place, help)
        yield int(found[1]), Span(*found.span(1))
        at = found.end()


def write(asked: Asked) -> list[int]:
    """Write the layers in order."""
    base = asked.options["base"]
    assert isinstance(base, int)
    return [layer + base for layer in asked.path]


NUMBERS = Notation(
    name="list",
    title="a list of numbers",
    base=None,
    ends="it has no ranges",
    example="[0, 1, 2, 3, 2, 3, 4]",
    weights="not said",
    cannot="data flow",
    checked="",
    read=read,
    write=write,
    text=json.dumps,
    syntax="text",
    options=MappingProxyType(
        {
            "base": Option(
                "the number of the first layer, 0 or 1; it has no default",
                reads=True,
                writes=True,
                required=True,
                check=lambda value: type(value) is int and value in (0, 1),
            )
        }
    ),
)
