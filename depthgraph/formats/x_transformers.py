"""x-transformers' `layers_execute_order`: each entry is the attention or the feed-forward of a layer."""

from types import MappingProxyType

from depthgraph.formats.asked import Asked
from depthgraph.formats.given import Given
from depthgraph.formats.notation import Notation, Option
from depthgraph.formats.values import Item
from depthgraph.route import Route


def read(given: Given) -> Route:
    """Read `(0, 1, 2, 3)`: layer 0, then layer 1, where a layer has two entries."""
    size = given.options["entries"]
    assert isinstance(size, int)
    items = given.items(given.item, "`layers_execute_order`")
    groups = [items[at : at + size] for at in range(0, len(items), size)]
    return given.route((_layer(given, group, size),) for group in groups)


def _layer(given: Given, group: tuple[Item, ...], size: int) -> int:
    """Return the layer whose entries these are: all of them, in order."""
    numbers = [given.integer(each, "an entry") for each in group]
    first = numbers[0] - numbers[0] % size
    for item, number, expected in zip(group, numbers, range(first, first + size), strict=False):
        if number != expected:
            help = f"a route runs whole layers, and here a layer has the {size} entries from a multiple of {size} on"
            raise given.wrong(f"entry {number} stands where {expected} would go on with the layer", item, help)
    if len(numbers) < size:
        help = f"a route runs whole layers, and here a layer has {size} entries"
        raise given.wrong(f"after entry {numbers[-1]} the layer is not finished", group[-1], help)
    return given.layer(first // size, group[0])


def write(asked: Asked) -> tuple[int, ...]:
    """Write the entries of each layer in order."""
    size = asked.options["entries"]
    assert isinstance(size, int)
    return tuple(layer * size + entry for layer in asked.path for entry in range(size))


X_TRANSFORMERS = Notation(
    name="x-transformers",
    title="x-transformers `layers_execute_order`",
    base=0,
    ends="it has no ranges; attention and feed-forward are entries of their own, layer k being 2k, 2k + 1",
    example="(0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 8, 9)",
    weights="shared",
    cannot="data flow; layers run in part are no route",
    checked="x-transformers 2.31.10: AttentionLayers",
    read=read,
    write=write,
    text=repr,
    key="layers_execute_order",
    options=MappingProxyType(
        {
            "entries": Option(
                "entries that a layer has: 2, attention and feed-forward; 3 with cross-attention",
                reads=True,
                writes=True,
                default=2,
                check=lambda value: type(value) is int and 1 <= value <= 9,
            )
        }
    ),
)
