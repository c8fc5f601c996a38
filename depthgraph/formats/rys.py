"""RYS: `layers:` with each layer, or `blocks:` with the jumps back."""

import re
from collections.abc import Iterator
from itertools import pairwise

from depthgraph.formats.asked import Asked
from depthgraph.formats.given import Given
from depthgraph.formats.notation import Notation
from depthgraph.formats.runs import rising, runs
from depthgraph.route import Route

FORM = re.compile(r"\s*(layers|blocks)\s*:", re.IGNORECASE)
LAYER = re.compile(r"[+-]?[0-9]{1,9}")
BLOCK = re.compile(r"(\()?\s*([+-]?[0-9]{1,9})\s*,\s*([+-]?[0-9]{1,9})\s*(?(1)\))")


def read(given: Given) -> Route:
    """Read `layers:0,1,2,3,2,3,4`, `blocks:2,4`, or blocks alone, `2,4;3,5`."""
    text = given.text("a spec")
    form = FORM.match(text)
    start = form.end() if form else 0
    if form and form[1].lower() == "layers":
        return given.route((layer,) for layer in _layers(given, text, start))
    return given.route([_inserted(given, _blocks(given, text, start))])


def _layers(given: Given, text: str, start: int) -> Iterator[int]:
    for part, place in given.parts(text, ",", start):
        if not LAYER.fullmatch(part):
            raise given.wrong(f"`{part}` is no layer", place, "layers have commas between them")
        yield given.layer(int(part), place)


def _blocks(given: Given, text: str, start: int) -> Iterator[tuple[int, int]]:
    for part, place in given.parts(text, ";", start):
        found = BLOCK.fullmatch(part)
        if not found:
            help = "blocks are pairs `i,j` with semicolons between them; a list of layers begins with `layers:`"
            raise given.wrong(f"`{part}` is no block", place, help)
        first, end = int(found[2]), int(found[3])
        depth = given.known_depth("after its jump back a block goes on to the last layer")
        if (first, end) != (0, 0) and not 0 <= first < end <= depth:
            help = f"in a block i,j of this model 0 <= i < j <= {depth}; 0,0 repeats nothing"
            raise given.wrong(f"there is no block {first},{end}", place, help)
        yield first, end


def _inserted(given: Given, found: Iterator[tuple[int, int]]) -> list[int]:
    """Run each block once more, after the last place where its last layer runs."""
    jumps = list(found)
    path = list(range(1, given.known_depth("") + 1))
    for first, end in jumps:
        if end and len(path) <= given.limits.executions:
            place = len(path) - path[::-1].index(end)
            path[place:place] = range(first + 1, end + 1)
    return path


def write(asked: Asked) -> str:
    """Write the shorter of the two forms, `blocks:` where they are equally long."""
    layers = "layers:" + ",".join(map(str, asked.path))
    jumps = _jumps(asked)
    return layers if jumps is None or len(jumps) > len(layers) else jumps


def _jumps(asked: Asked) -> str | None:
    """Return the jumps back, from the first to the last; None where the path leaves layers out.

    Each break of the path is one jump, from the layer `j - 1` to the layer `i` before it; in this order, each
    stands after the last place where its last layer runs by then.
    """
    parts = runs(asked.path, rising)
    if parts[0][0] != 0 or parts[-1][1] != asked.route.parameter_depth - 1:
        return None
    pairs = [(after, before + 1) for (_, before), (after, _) in pairwise(parts)]
    if any(first >= end for first, end in pairs):
        return None
    return "blocks:" + (";".join(f"{first},{end}" for first, end in pairs) or "0,0")


RYS = Notation(
    name="rys",
    title="RYS `layers:`, `blocks:`",
    base=0,
    ends="the end of blocks:i,j is left out: run 0..j-1, then i..N-1",
    example="blocks:2,4",
    weights="shared while it scans; its exporter copies them",
    cannot="data flow",
    checked="dnhkng/RYS: README, src/core/layer_config.py",
    read=read,
    write=write,
    text=str,
    needs_depth=True,
    syntax="text",
)
