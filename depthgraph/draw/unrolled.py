"""The unrolled view: one node an execution, in lines like a text, loops framed."""

from collections.abc import Iterable, Iterator
from itertools import count, pairwise
from typing import assert_never

from depthgraph.draw.dot import Value, attributes, digraph, edge, node
from depthgraph.draw.flow import (
    PAD,
    TITLE,
    TITLE_SIZE,
    Box,
    Group,
    Leaf,
    Placed,
    PlacedGroup,
    PlacedLeaf,
    flow,
    leaves,
)
from depthgraph.draw.geometry import Point, at, number, spline
from depthgraph.draw.labels import Names, labels, text_width
from depthgraph.draw.palette import BAND, FAINT, LOOP, PAPER, TERMINAL, fill
from depthgraph.draw.structure import Item, Loop, tree
from depthgraph.draw.summary import facts, refuse_large
from depthgraph.operations import Execution
from depthgraph.route import Route

INSTEAD = 'draw it with view="folded" or view="staircase"'
#: points: how wide a line may be, how high a node is, how far from a node a line turns.
ROOM, HEIGHT, TURN = 900.0, 26.0, 7.0

#: what a node looks like apart from its place, by its id.
Looks = dict[str, dict[str, Value]]


def unrolled_dot(route: Route, names: Names | None = None) -> str:
    """Return the unrolled view as DOT text; its nodes have the names that they have in the route's graph.

    Raises:
        DrawError: `too-large-to-draw`, for more executions than can be read.
    """
    refuse_large(route.execution_depth, "executions", "unrolled", INSTEAD)
    looks = _looks(route, labels(route, names))
    width = max(46.0, 16 + max(text_width(str(look["label"]), 12) for look in looks.values()))
    boxes = (Leaf("input", width, HEIGHT), *_boxes(tree(route), width), Leaf("output", width, HEIGHT))
    placed, _, _ = flow(boxes, 0.0, 0.0, ROOM)
    steps = (edge(a.leaf.name, b.leaf.name, {"pos": spline(corners(a, b))}) for a, b in pairwise(leaves(placed)))
    title = facts(route)
    return digraph([*_lines(placed, looks, count(1)), *steps], title, (text_width(title, 10) / 2, 20.0))


def _looks(route: Route, shown: tuple[str, ...]) -> Looks:
    ends: Looks = {name: {"label": name, "fillcolor": TERMINAL} for name in ("input", "output")}
    return ends | {
        e.name: {
            "label": f"{shown[e.layer - 1]}·{e.visit}",
            "fillcolor": fill(e.layer, route.parameter_depth),
        }
        for e in route.executions
    }


def _boxes(items: tuple[Item, ...], width: float) -> Iterator[Box]:
    for item in items:
        match item:
            case Execution():
                yield Leaf(item.name, width, HEIGHT)
            case Loop():
                yield Group(item.title, True, tuple(_iterations(item, width)))
            case _:
                assert_never(item)


def _iterations(loop: Loop, width: float) -> Iterator[Box]:
    for index, items in enumerate(loop.iterations, 1):
        yield Group(f"iteration {index} of {loop.count}", False, tuple(_boxes(items, width)))


def corners(a: PlacedLeaf, b: PlacedLeaf) -> list[Point]:
    """Return the way from one node to the next: straight, or through the gap below the first one's line."""
    if a.y == b.y and a.x < b.x:
        return [(a.right, -a.y), (b.left, -b.y)]
    out, back, low = a.right + TURN, b.left - TURN, a.floor + TURN
    return [(a.right, -a.y), (out, -a.y), (out, -low), (back, -low), (back, -b.y), (b.left, -b.y)]


def _lines(placed: Iterable[Placed], looks: Looks, ids: Iterator[int]) -> Iterator[str]:
    for one in placed:
        match one:
            case PlacedLeaf():
                leaf = one.leaf
                yield node(leaf.name, (one.x, -one.y), (leaf.width, leaf.height), looks[leaf.name])
            case PlacedGroup():
                yield f"subgraph cluster_{next(ids)} {{"
                yield f"  graph {attributes(_frame(one))};"
                yield from (f"  {line}" for line in _lines(one.boxes, looks, ids))
                yield "}"
            case _:
                assert_never(one)


def title_middle(placed: PlacedGroup) -> Point:
    """Return where a frame's title is: at the right, for lines come in at the left."""
    x = placed.right - PAD / 2 - text_width(placed.group.title, TITLE_SIZE) / 2
    return x, -(placed.top + TITLE / 2 + 2)


def _frame(placed: PlacedGroup) -> dict[str, Value]:
    group = placed.group
    box = (placed.left, -placed.bottom, placed.right, -placed.top)
    colours = (BAND, LOOP, LOOP) if group.is_loop else (PAPER, FAINT, FAINT)
    return {
        "label": group.title,
        "lp": at(title_middle(placed)),
        "bb": ",".join(map(number, box)),
        "style": "rounded,filled",
        "fontsize": TITLE_SIZE,
        **dict(zip(("fillcolor", "color", "fontcolor"), colours, strict=True)),
    }
