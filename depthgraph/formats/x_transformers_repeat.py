"""x-transformers' `repeat_blocks`, an argument of forward: blocks that run several times."""

from depthgraph.formats.asked import Asked
from depthgraph.formats.given import Given
from depthgraph.formats.notation import Notation
from depthgraph.formats.runs import Block, BlocksError, blocks, repeated
from depthgraph.formats.values import Item, brief
from depthgraph.route import Route


def read(given: Given) -> Route:
    """Read `((2, 3), 2)`, `(2, 3)` (block 2, three times), or several of them: `((0, 2), ((2, 3), 2))`."""
    whole = given.item
    if isinstance(whole.value, tuple) and len(whole.value) == 2 and isinstance(whole.value[1].value, int):
        entries: tuple[Item, ...] = (whole,)
    else:
        entries = () if whole.value == () else given.items(whole, "`repeat_blocks`")
    return given.route(repeated(given, [_entry(given, each) for each in entries]))


def _entry(given: Given, item: Item) -> tuple[range, int, Item]:
    pair = given.items(item, "an entry")
    if len(pair) != 2:
        raise given.wrong(f"an entry is a pair, a range and a count; found {brief(item)}", item)
    ends = given.items(pair[0], "a range") if isinstance(pair[0].value, tuple) else (pair[0], pair[0])
    if len(ends) != 2:
        raise given.wrong(f"a range is a block or a pair, start and end; found {brief(pair[0])}", pair[0])
    return given.included(*ends, "a range"), given.count(pair[1], "a count"), item


def write(asked: Asked) -> tuple[object, ...]:
    """Write the blocks that run more than once."""
    try:
        found = [_written(each) for each in blocks(asked.path, asked.route.parameter_depth)]
    except BlocksError as error:
        raise asked.unsayable(str(error), "it says 1..N with some ranges repeated whole, each in its place") from None
    return found[0] if len(found) == 1 else tuple(found)


def _written(block: Block) -> tuple[object, ...]:
    return (block.first if block.first == block.last else (block.first, block.last), block.count)


X_TRANSFORMERS_REPEAT = Notation(
    name="x-transformers-repeat",
    title="x-transformers `repeat_blocks`",
    base=0,
    ends="both ends of ((start, end), count) are included",
    example="((2, 3), 2)",
    weights="shared",
    cannot="a layer left out, ranges that overlap or stand in one another, a falling order, data flow",
    checked="x-transformers 2.31.10: resolve_repeat_blocks_to_layer_execute_order",
    read=read,
    write=write,
    text=repr,
    needs_depth=True,
    key="repeat_blocks",
)
