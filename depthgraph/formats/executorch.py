"""ExecuTorch's `transformer_block_repeat_config`: ranges of blocks that run several times."""

import json

from depthgraph.formats.asked import Asked
from depthgraph.formats.given import Given
from depthgraph.formats.notation import Notation
from depthgraph.formats.runs import BlocksError, blocks, repeated
from depthgraph.formats.values import Item
from depthgraph.route import Route


def read(given: Given) -> Route:
    """Read `[{"start": 2, "end": 3, "count": 2}]`, over the N layers that the caller names."""
    entries = () if given.item.value == () else given.items(given.item, "`transformer_block_repeat_config`")
    return given.route(repeated(given, [_entry(given, each) for each in entries]))


def _entry(given: Given, item: Item) -> tuple[range, int, Item]:
    first, last, count = given.fields(item, "an entry", ("start", "end", "count"))
    return given.included(first, last, "a range"), given.count(count, "`count`"), item


def write(asked: Asked) -> list[dict[str, int]]:
    """Write the ranges that run more than once."""
    try:
        found = blocks(asked.path, asked.route.parameter_depth)
    except BlocksError as error:
        raise asked.unsayable(str(error), "it says 1..N with some ranges repeated whole, each in its place") from None
    return [{"start": each.first, "end": each.last, "count": each.count} for each in found]


EXECUTORCH = Notation(
    name="executorch",
    title="ExecuTorch `transformer_block_repeat_config`",
    base=0,
    ends="`end` is included",
    example='[{"start": 2, "end": 3, "count": 2}]',
    weights="shared, and the KV cache too unless it is told otherwise",
    cannot="a layer left out, ranges that overlap or stand in one another, a falling order, data flow",
    checked="pull requests 19164 and 19324 to pytorch/executorch, their descriptions; release 1.5.1 does not have it",
    read=read,
    write=write,
    text=json.dumps,
    needs_depth=True,
    key="transformer_block_repeat_config",
)
