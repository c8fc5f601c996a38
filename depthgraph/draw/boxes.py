"""What the unrolled view has to place: the boxes of a route's nodes, and which of its lines go where."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from depthgraph.draw.flow import FORK, GAP, Box, Group, Leaf, Stack
from depthgraph.draw.labels import text_width
from depthgraph.draw.structure import Branches, Item, Loop, Step, joins, steps_of, tree
from depthgraph.draw.wires import Wire, port_room
from depthgraph.draw.words import label_of, register_name
from depthgraph.flow import Read, State
from depthgraph.operations import Exit
from depthgraph.route import Route

#: points: the room for exits above a node, for labels below one, and beside an exit's text.
ABOVE, BELOW, BESIDE = 24.0, 12.0, 8.0
EXIT_SIZE = 10.0
#: ids that a state has besides its name.
INPUT, OUTPUT = "input", "output"


@dataclass(frozen=True, slots=True)
class Plan:
    """The boxes of an unrolled picture and its lines.

    Attributes:
        steps: lines from a node to the one behind it.
        forks: lines from a node to the first nodes of branches that stand above one another.
        merges: lines from the last nodes of such branches to their join.
        wires: all other lines.
        exits: node → the exits that stand above it, with the register that each reads.
    """

    boxes: tuple[Box, ...]
    steps: tuple[tuple[str, str], ...]
    forks: tuple[tuple[str, str], ...]
    merges: tuple[tuple[str, str], ...]
    wires: tuple[Wire, ...]
    exits: Mapping[str, tuple[tuple[State, str | None], ...]]


def plan_of(route: Route, sizes: Mapping[str, tuple[float, float]], room: float) -> Plan:
    """Sort the lines of a route and put its nodes into boxes.

    Args:
        route: the route.
        sizes: width and height of each node but the exits, by its id, in the order of the text.
        room: how wide branches that stand above one another may be.
    """
    items = tree(route)
    stacked = {item.join.column: item for item in joins(items) if _stands(item, route, sizes, room)}
    sorted_lines = _Lines(route, list(sizes), stacked)
    exits = _exits(route)
    leaves = {name: _leaf(name, size, sorted_lines.wires, exits) for name, size in sizes.items()}
    boxes = (leaves[INPUT], *_Boxes(leaves, frozenset(stacked)).of(items), leaves[OUTPUT])
    lines = (tuple(sorted_lines.steps), tuple(sorted_lines.forks), tuple(sorted_lines.merges))
    return Plan(boxes, *lines, tuple(sorted_lines.wires), exits)


def _stands(item: Branches, route: Route, sizes: Mapping[str, tuple[float, float]], room: float) -> bool:
    """Whether branches can stand above one another: short ones that only h leads into and out of.

    That h is the state of the node before them: branches that begin a branch start from one further away.
    """
    steps = [step for branch in item.branches for step in steps_of(branch)]
    inner = {step.column for step in steps}
    if next(joins(part for branch in item.branches for part in branch), None) is not None:
        return False
    if any(read.register for state in (*(step.state for step in steps), item.join.state) for read in state.reads):
        return False
    first = steps[0].column
    before = next(c for c in range(first - 1, -1, -1) if not isinstance(route.flow.states[c].operation, Exit))
    if any(next(_nodes(branch)).state.hidden != Read(before) for branch in item.branches):
        return False
    readers = (*route.flow.states, State(OUTPUT, hidden=route.flow.output))
    if any(read.register and read.state in inner for state in readers for read in state.reads):
        return False
    widths = (
        sum(sizes[s.state.name][0] + 2 * GAP for s in steps_of(b) if s.state.name in sizes) for b in item.branches
    )
    return max(widths) + 2 * FORK <= room


class _Lines:
    """The lines of a route, sorted by the way that they go."""

    def __init__(self, route: Route, names: list[str], stacked: Mapping[int, Branches]) -> None:
        self.steps: list[tuple[str, str]] = []
        self.forks: list[tuple[str, str]] = []
        self.merges: list[tuple[str, str]] = []
        self.wires: list[Wire] = []
        self._before = dict(zip(names[1:], names, strict=False))
        self._firsts = {next(_nodes(branch)).column for item in stacked.values() for branch in item.branches}
        self._stacked = stacked
        states = route.flow.states
        for column, state in enumerate((*states, State(OUTPUT, hidden=route.flow.output))):
            if isinstance(state.operation, Exit):
                continue
            for read in state.reads:
                self._sort(column, states[read.state].name, state.name, read.register)

    def _sort(self, column: int, tail: str, head: str, register: str | None) -> None:
        if register is not None:
            self.wires.append(Wire(tail, head, register_name(register), len(self.wires)))
        elif column in self._stacked:
            self.merges.append((tail, head))
        elif column in self._firsts:
            self.forks.append((tail, head))
        elif self._before[head] == tail:
            self.steps.append((tail, head))
        else:
            self.wires.append(Wire(tail, head, order=len(self.wires)))


def _nodes(items: Iterable[Item]) -> Iterator[Step]:
    return (step for step in steps_of(items) if not isinstance(step.operation, Exit))


def _exits(route: Route) -> dict[str, tuple[tuple[State, str | None], ...]]:
    exits: defaultdict[str, list[tuple[State, str | None]]] = defaultdict(list)
    for state in route.flow.states:
        if isinstance(state.operation, Exit):
            assert state.hidden is not None
            exits[route.flow.states[state.hidden.state].name].append((state, state.hidden.register))
    return {name: tuple(each) for name, each in exits.items()}


def exit_width(state: State, register: str | None) -> float:
    """Return how wide an exit is, with the register beside it through which it reads."""
    return text_width(exit_label(state, register), EXIT_SIZE) + BESIDE


def exit_label(state: State, register: str | None) -> str:
    """Return what stands at an exit."""
    assert state.operation is not None
    return label_of(state.operation) + (f" load({register_name(register)})" if register else "")


def _leaf(
    name: str,
    size: tuple[float, float],
    wires: list[Wire],
    exits: Mapping[str, tuple[tuple[State, str | None], ...]],
) -> Leaf:
    mine = exits.get(name, ())
    width = max(size[0], port_room(name, wires), sum(exit_width(*each) for each in mine))
    below = BELOW if any(wire.head == name and wire.label for wire in wires) else 0.0
    return Leaf(name, width, size[1], ABOVE if mine else 0.0, below)


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Makes boxes of the structure of a route.

    Attributes:
        stacked: the columns of the joins whose branches stand above one another.
    """

    leaves: Mapping[str, Leaf]
    stacked: frozenset[int]

    def of(self, items: Iterable[Item]) -> Iterator[Box]:
        for item in items:
            match item:
                case Step():
                    if not isinstance(item.operation, Exit):
                        yield self.leaves[item.state.name]
                case Loop():
                    boxes = tuple(self._parts(item.iterations, "iteration"))
                    if boxes:
                        yield Group(item.title, True, boxes)
                case Branches():
                    yield from self._branches(item)
                case _:
                    assert_never(item)

    def _parts(self, parts: tuple[tuple[Item, ...], ...], word: str) -> Iterator[Box]:
        for index, part in enumerate(parts, 1):
            boxes = tuple(self.of(part))
            if boxes:
                yield Group(f"{word} {index} of {len(parts)}", False, boxes)

    def _branches(self, item: Branches) -> Iterator[Box]:
        join = self.leaves[item.join.state.name]
        if item.join.column in self.stacked:
            yield Stack(tuple(tuple(self.of(branch)) for branch in item.branches), join)
            return
        title = label_of(item.join.operation)
        yield Group(title, False, tuple(self._parts(item.branches, "branch")), breaks=True)
        yield join
