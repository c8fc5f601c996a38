"""The `loop_map` of intra-layer recurrence: how often each layer runs, in a row."""

import json
from itertools import chain, groupby, repeat

from depthgraph.formats.asked import Asked
from depthgraph.formats.given import Given
from depthgraph.formats.notation import Notation
from depthgraph.route import Route


def read(given: Given) -> Route:
    """Read `[4, 2, 1, 1]`, one count a layer."""
    items = given.items(given.item, "`loop_map`")
    counts = [given.count(each, "a count") for each in items]
    if given.depth not in (None, len(counts)):
        raise given.wrong(f"there are {len(counts)} counts for {given.depth} layers", given.item, "one count a layer")
    return given.route(chain.from_iterable(repeat((layer,), count) for layer, count in enumerate(counts, 1)))


def write(asked: Asked) -> list[int]:
    """Write how often each layer runs."""
    rows = [(layer, len(list(row))) for layer, row in groupby(asked.path)]
    for expected, (layer, _) in enumerate(rows):
        if layer != expected:
            message = f"layer {layer + 1} runs where layer {expected + 1} comes next"
            raise asked.unsayable(message, "it runs the layers in order, each several times in a row")
    if len(rows) != asked.route.parameter_depth:
        raise asked.unsayable(f"layer {len(rows) + 1} does not run", "each layer runs at least once")
    return [count for _, count in rows]


ILR = Notation(
    name="ilr",
    title="ILR `loop_map`",
    base=0,
    ends="it has no ranges; entry k is how often layer k runs in a row",
    example="[4, 2, 1, 1]",
    spec="1x4 2x2 3 4",
    weights="shared",
    cannot="a layer left out, a loop over several layers, another order than 1..N, data flow",
    checked="ant-8/Layer-Recurrent-Transformers: modeling_llama.py, with sequential_looping false",
    read=read,
    write=write,
    text=json.dumps,
    key="loop_map",
)
