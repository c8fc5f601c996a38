"""The unrolled view: one node an execution, in lines like a text, loops framed.

Operations of data flow are small nodes between them, exits stand above what they give out. What a register gives is a
dashed line with its name. Branches stand above one another between their fork and their join; those that registers
lead into or out of, and those that are too long for one line, have frames of their own instead.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import assert_never

from depthgraph.draw.boxes import Plan, exit_label, exit_width, plan_of
from depthgraph.draw.dot import Value, attributes, digraph, edge, node
from depthgraph.draw.flow import (
    PAD,
    TITLE,
    TITLE_SIZE,
    Placed,
    PlacedGroup,
    PlacedLeaf,
    PlacedStack,
    flow,
    leaves,
    stacks,
)
from depthgraph.draw.folded import EXIT_LOOK, LINES, OPERATION_LOOK
from depthgraph.draw.geometry import Point, at, number, spline
from depthgraph.draw.labels import Names, labels, text_width
from depthgraph.draw.palette import BAND, FAINT, FLOW, LOOP, PAPER, TERMINAL, fill
from depthgraph.draw.summary import facts, refuse_large
from depthgraph.draw.wires import LABEL_SIZE, Router
from depthgraph.draw.words import label_of
from depthgraph.operations import Execution, Exit
from depthgraph.route import Route

INSTEAD = 'draw it with view="folded" or view="staircase"'
#: points: how wide a line may be, how high a node is, how far from a node a line turns.
ROOM, HEIGHT, TURN = 900.0, 26.0, 7.0
#: points: how high an operation of data flow is, and the room beside its text.
SMALL, BESIDE = 20.0, 14.0

#: what a node looks like apart from its place, by its id.
Looks = dict[str, dict[str, Value]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """An unrolled picture with everything in its place.

    Attributes:
        nodes: the places of the nodes, by their ids; exits have none of their own.
        forks: of each first node of a branch, where the line to it turns.
        merges: of each join, where the lines to it turn.
    """

    plan: Plan
    placed: tuple[Placed, ...]
    nodes: dict[str, PlacedLeaf]
    router: Router
    looks: Looks
    forks: dict[str, float]
    merges: dict[str, float]


def unrolled_dot(route: Route, names: Names | None = None) -> str:
    """Return the unrolled view as DOT text; its nodes have the names that they have in the route's graph.

    Raises:
        DrawError: `too-large-to-draw`, for more executions than can be read.
    """
    sheet = unrolled_sheet(route, names)
    title = facts(route)
    lines = [*_lines(sheet.placed, sheet.looks, count(1)), *_exits(sheet), *_edges(sheet)]
    return digraph(lines, title, (text_width(title, 10) / 2, 20.0))


def unrolled_sheet(route: Route, names: Names | None = None) -> Sheet:
    """Return the places of everything in the unrolled view.

    Raises:
        DrawError: `too-large-to-draw`.
    """
    refuse_large(route.execution_depth, "executions", "unrolled", INSTEAD)
    refuse_large(len(route.flow.states) - 1, "nodes", "unrolled", INSTEAD)
    looks = _looks(route, labels(route, names))
    plan = plan_of(route, _sizes(looks), ROOM)
    placed, _, _ = flow(plan.boxes, 0.0, 0.0, ROOM)
    router = Router(plan.wires, leaves(placed))
    if plan.wires:
        # lines break as before, for gutters make them no wider; now there is room below each
        placed, _, _ = flow(plan.boxes, 0.0, 0.0, ROOM, router.gutters)
        router = Router(plan.wires, leaves(placed))
    nodes = {one.leaf.name: one for one in leaves(placed)}
    forks = {next(leaves(branch)).leaf.name: stack.fork for stack in stacks(placed) for branch in stack.branches}
    merges = {stack.join.leaf.name: stack.merge for stack in stacks(placed)}
    return Sheet(plan, placed, nodes, router, looks, forks, merges)


def _looks(route: Route, shown: tuple[str, ...]) -> Looks:
    looks: Looks = {"input": {"label": "input", "fillcolor": TERMINAL}}
    for state in route.flow.states[1:]:
        match state.operation:
            case Execution(_, layer, visit):
                label = f"{shown[layer - 1]}·{visit}"
                looks[state.name] = {"label": label, "fillcolor": fill(layer, route.parameter_depth)}
            case None | Exit():
                pass
            case operation:
                looks[state.name] = {"label": label_of(operation), **OPERATION_LOOK}
    return looks | {"output": {"label": "output", "fillcolor": TERMINAL}}


def _sizes(looks: Looks) -> dict[str, tuple[float, float]]:
    """Return the sizes of the nodes: all executions are as wide as the widest label asks for."""
    small = {name for name, look in looks.items() if "fontsize" in look}
    width = max(46.0, 16 + max(text_width(str(look["label"]), 12) for name, look in looks.items() if name not in small))
    return {
        name: (text_width(str(look["label"]), 10) + BESIDE, SMALL) if name in small else (width, HEIGHT)
        for name, look in looks.items()
    }


def corners(a: PlacedLeaf, b: PlacedLeaf) -> list[Point]:
    """Return the way from one node to the next: straight, or through the gap below the first one's line."""
    if a.y == b.y and a.x < b.x:
        return [(a.right, -a.y), (b.left, -b.y)]
    out, back, low = a.right + TURN, b.left - TURN, a.floor + TURN
    return [(a.right, -a.y), (out, -a.y), (out, -low), (back, -low), (back, -b.y), (b.left, -b.y)]


def fork_corners(a: PlacedLeaf, b: PlacedLeaf, turn: float) -> list[Point]:
    """Return the way from a node to the first one of a branch, which turns before the branches."""
    if a.floor != b.floor:
        out, low = a.right + TURN, a.floor + TURN
        begin = [(a.right, -a.y), (out, -a.y), (out, -low), (turn, -low)]
    else:
        begin = [(a.right, -a.y), (turn, -a.y)]
    return [*begin, (turn, -b.y), (b.left, -b.y)]


def merge_corners(a: PlacedLeaf, b: PlacedLeaf, turn: float) -> list[Point]:
    """Return the way from the last node of a branch to the join, which turns behind the branches."""
    return [(a.right, -a.y), (turn, -a.y), (turn, -b.y), (b.left, -b.y)]


def ways(sheet: Sheet) -> Iterator[tuple[str, str, list[Point]]]:
    """Yield the lines of h that run from node to node, each with its way."""
    plan, nodes = sheet.plan, sheet.nodes
    for a, b in plan.steps:
        yield a, b, corners(nodes[a], nodes[b])
    for a, b in plan.forks:
        yield a, b, fork_corners(nodes[a], nodes[b], sheet.forks[b])
    for a, b in plan.merges:
        yield a, b, merge_corners(nodes[a], nodes[b], sheet.merges[b])


def _edges(sheet: Sheet) -> Iterator[str]:
    for a, b, way in ways(sheet):
        yield edge(a, b, {"pos": spline(way)})
    for routed in sheet.router.routed():
        label: dict[str, Value] = {"pos": spline(routed.corners)}
        if routed.wire.label:
            label |= {"label": routed.wire.label, "lp": at(routed.label_at), "fontsize": LABEL_SIZE, **LINES["wire"]}
        yield edge(routed.wire.tail, routed.wire.head, label)


def _exits(sheet: Sheet) -> Iterator[str]:
    """Yield exits beside each other above their nodes."""
    for name, exits in sheet.plan.exits.items():
        placed = sheet.nodes[name]
        x, top = placed.left, placed.leaf.height / 2 - placed.y
        for state, register in exits:
            width = exit_width(state, register)
            middle = x + width / 2
            label: dict[str, Value] = {"label": exit_label(state, register), **EXIT_LOOK}
            yield node(state.name, (middle, top + 17.0), (width, 12.0), label)
            style = LINES["wire" if register else "outlet"]
            yield edge(name, state.name, {"pos": spline([(middle, top), (middle, top + 12.0)]), **style})
            x += width


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
            case PlacedStack():
                for branch in one.branches:
                    yield from _lines(branch, looks, ids)
                yield from _lines([one.join], looks, ids)
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
    if group.breaks:
        colours = (PAPER, FLOW, FLOW)
    return {
        "label": group.title,
        "lp": at(title_middle(placed)),
        "bb": ",".join(map(number, box)),
        "style": "rounded,filled",
        "fontsize": TITLE_SIZE,
        **dict(zip(("fillcolor", "color", "fontcolor"), colours, strict=True)),
    }
