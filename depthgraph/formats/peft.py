"""PEFT's `layer_replication`: ranges of layers whose ends are left out."""

import json

from depthgraph.formats.asked import Asked
from depthgraph.formats.given import Given
from depthgraph.formats.notation import Notation
from depthgraph.formats.runs import rising, runs
from depthgraph.route import Route


def read(given: Given) -> Route:
    """Read `[[0, 4], [2, 5]]`."""
    return given.route(given.half_open(pair, "a range") for pair in given.items(given.item, "`layer_replication`"))


def write(asked: Asked) -> list[list[int]]:
    """Write the fewest ranges; the executions of one range are neighbours, and rise."""
    return [[first, last + 1] for first, last in runs(asked.path, rising)]


PEFT = Notation(
    name="peft",
    title="PEFT `layer_replication`",
    base=0,
    ends="the end of [start, end] is left out",
    example="[[0, 4], [2, 5]]",
    weights="base weights shared, one LoRA adapter an execution; merging these into the shared weights is wrong",
    cannot="data flow",
    checked="peft 0.21.2: LoraConfig, replicate_layers",
    read=read,
    write=write,
    text=json.dumps,
    key="layer_replication",
)
