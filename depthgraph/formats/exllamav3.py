"""exllamav3's `-layer_map`: layers and ranges, both ends included, that rise or fall."""

import re
from collections.abc import Iterator

from depthgraph.formats.asked import Asked
from depthgraph.formats.given import Given
from depthgraph.formats.notation import Notation
from depthgraph.formats.runs import falling, rising, runs
from depthgraph.route import Route
from depthgraph.source import Span

LAYER = re.compile(r"[+-]?[0-9]{1,9}")
RANGE = re.compile(r"([+-]?[0-9]{1,9})?\s*\.\.\s*([+-]?[0-9]{1,9})?")


def read(given: Given) -> Route:
    """Read `0..3,2..4`; open ends go to the first or the last of the N layers that the caller names."""
    return given.route(_pieces(given))


def _pieces(given: Given) -> Iterator[range]:
    for part, place in given.parts(given.text("a layer map"), ","):
        if LAYER.fullmatch(part):
            layer = given.layer(int(part), place)
            yield range(layer, layer + 1)
        elif found := RANGE.fullmatch(part):
            yield _range(given, found, place)
        else:
            help = "it has layers and ranges, with commas between them"
            raise given.wrong(f"`{part}` is no layer and no range", place, help)


def _range(given: Given, part: re.Match[str], place: Span) -> range:
    first = given.layer(int(part[1]), place) if part[1] else 1
    last = given.layer(int(part[2]), place) if part[2] else given.known_depth(f"`{part[0]}` goes to the last layer")
    return range(first, last + 1) if first <= last else range(first, last - 1, -1)


def write(asked: Asked) -> str:
    """Write the fewest layers and ranges, both ends of each written out."""
    parts = runs(asked.path, rising, falling)
    return ",".join(str(first) if first == last else f"{first}..{last}" for first, last in parts)


EXLLAMAV3 = Notation(
    name="exllamav3",
    title="exllamav3 `-layer_map`",
    base=0,
    ends="both ends of a range are included",
    example="0..3,2..4",
    weights="shared, one KV cache an execution",
    cannot="data flow",
    checked="exllamav3 1.6.5: parse_int_list, Model.prepare_layer_map",
    read=read,
    write=write,
    text=str,
    syntax="text",
)
