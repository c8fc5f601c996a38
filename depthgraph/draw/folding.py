"""A route with every loop walked once: the nodes and lines of the folded views.

Nodes are numbers: 0 is the input, 1 … N are the layers, N + 1 is the output, and what is higher are the places of
data flow in the text (`Place`). All iterations of a loop that repeats share its places.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import assert_never

from depthgraph.draw.structure import Branches, Item, Loop, Step, steps_of, tree
from depthgraph.draw.words import label_of, register_name
from depthgraph.flow import Read
from depthgraph.operations import Execution, Exit
from depthgraph.route import Route

#: step numbers that are written out on one edge; longer lists are abbreviated.
WRITTEN_OUT = 4


@dataclass(frozen=True, slots=True)
class Hop:
    """A line of the walk, from one node to another, with the steps that take it."""

    tail: int
    head: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Back:
    """The way back of a loop, from its last node to its first, with the steps that it repeats.

    Attributes:
        load: the register that the next iteration starts from; None where it starts from h.
    """

    tail: int
    head: int
    count: int
    steps: tuple[int, int]
    load: str | None = None


@dataclass(frozen=True, slots=True)
class Wire:
    """A state that is read through registers."""

    tail: int
    head: int
    registers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outlet:
    """A state that is given out by exits.

    Attributes:
        register: through which they read it; None for h.
    """

    tail: int
    indices: tuple[int, ...]
    register: str | None = None

    @property
    def label(self) -> str:
        """What a picture writes at its end."""
        load = f" load({register_name(self.register)})" if self.register else ""
        return f"exit {step_list(self.indices)}{load}"


@dataclass(frozen=True, slots=True)
class Place:
    """An operation of data flow, or a fork, which gives one state to several branches.

    Attributes:
        name: the id of its node, that of its first state in `Flow`; `fork.1` …
        label: what a picture writes on it; nothing on a fork.
    """

    number: int
    name: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """Branches in the walk: their fork, the nodes of each, and the join; `plain` if they run nothing but layers."""

    fork: int
    branches: tuple[tuple[int, ...], ...]
    join: int
    plain: bool


@dataclass(frozen=True, slots=True)
class Folded:
    """A route with every loop walked once.

    Attributes:
        order: the layers and places in the order of the walk.
    """

    hops: tuple[Hop, ...]
    backs: tuple[Back, ...]
    wires: tuple[Wire, ...] = ()
    outlets: tuple[Outlet, ...] = ()
    places: tuple[Place, ...] = ()
    splits: tuple[Split, ...] = ()
    order: tuple[int, ...] = ()

    def back_label(self, back: Back) -> str:
        """Return `×k`, with the steps where another loop goes back between the same two nodes."""
        ends = [(other.tail, other.head) for other in self.backs]
        first, last = back.steps
        label = f"×{back.count}" + (f" load({register_name(back.load)})" if back.load else "")
        if ends.count((back.tail, back.head)) == 1:
            return label
        return f"{label} (step {first})" if first == last else f"{label} (steps {first}–{last})"


def folded(route: Route) -> Folded:
    """Walk a route with each loop walked once, and number the steps of that walk.

    A loop whose layers shift from one iteration to the next is not folded: it is walked in full.
    """
    walk = _Walk(route.parameter_depth)
    walk.go(tree(route))
    walk.enter(route.flow.output, route.parameter_depth + 1)
    wires, outlets = _read_through_registers(route, walk.node_of)
    return Folded(
        tuple(Hop(tail, head, tuple(taken)) for (tail, head), taken in walk.hops.items()),
        tuple(walk.backs),
        wires,
        outlets,
        tuple(walk.places),
        tuple(walk.splits),
        tuple(walk.order),
    )


def step_list(steps: tuple[int, ...]) -> str:
    """Return step numbers as an edge shows them.

    Examples:
        >>> step_list((1, 3)), step_list((2, 5, 8, 11, 14)), step_list((1, 2, 5, 9, 14))
        ('1, 3', '2, 5 … 14', '1, 2 … 14 (5 steps)')
    """
    if len(steps) <= WRITTEN_OUT:
        return ", ".join(map(str, steps))
    first, second, last = steps[0], steps[1], steps[-1]
    even = steps == tuple(range(first, last + 1, second - first))
    return f"{first}, {second} … {last}" + ("" if even else f" ({len(steps)} steps)")


@dataclass(slots=True)
class _Walk:
    """The walk so far.

    Attributes:
        depth: N.
        node_of: the node of each state, by its index.
        fork: the fork that the next state of this branch reads h from.
    """

    depth: int
    node_of: dict[int, int] = field(default_factory=lambda: {0: 0})
    hops: defaultdict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    backs: list[Back] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    fork: int | None = None
    step: int = 0
    forks: "count[int]" = field(default_factory=lambda: count(1))

    def go(self, items: Iterable[Item]) -> None:
        for item in items:
            match item:
                case Step():
                    self._state(item)
                case Loop():
                    self._loop(item)
                case Branches():
                    self._branches(item)
                case _:
                    assert_never(item)

    def enter(self, hidden: Read, node: int) -> None:
        """Take the line by which h comes to a node; a loaded h comes by a wire."""
        if hidden.register is None:
            self.step += 1
            self._hop(hidden, node)
        self.fork = None

    def _hop(self, hidden: Read, node: int) -> None:
        tail = self.node_of[hidden.state] if self.fork is None else self.fork
        self.hops[tail, node].append(self.step)

    def _state(self, step: Step) -> None:
        if isinstance(step.operation, Exit):
            return
        node = self._node(step)
        assert step.state.hidden is not None
        self.enter(step.state.hidden, node)

    def _node(self, step: Step) -> int:
        if isinstance(step.operation, Execution):
            node = step.operation.layer
        else:
            node = self._place(step.state.name, label_of(step.operation))
        self.node_of[step.column] = node
        self.order.append(node)
        return node

    def _place(self, name: str, label: str = "") -> int:
        number = self.depth + 2 + len(self.places)
        self.places.append(Place(number, name, label))
        return number

    def _loop(self, loop: Loop) -> None:
        if not loop.repeats:
            for body in loop.iterations:
                self.go(body)
            return
        first, second, *_ = loop.iterations
        start, begin = self.step + 1, len(self.order)
        self.go(first)
        columns = [step.column for step in steps_of(first)]
        for body in loop.iterations[1:]:
            for column, step in zip(columns, steps_of(body), strict=True):
                if column in self.node_of:
                    self.node_of[step.column] = self.node_of[column]
        walked = self.order[begin:]
        if walked:
            pairs = list(zip(_hidden(first), _hidden(second), strict=True))
            from_before = (two for one, two in pairs if one.register is None and one.state < columns[0])
            load = next(from_before, pairs[0][1]).register
            self.backs.append(Back(walked[-1], walked[0], loop.count, (start, max(start, self.step)), load))

    def _branches(self, item: Branches) -> None:
        entries = [next(_hidden(branch)) for branch in item.branches]
        fork = outer = self.fork
        from_h = next((entry for entry in entries if entry.register is None), None)
        if from_h is not None:
            fork = self._place(f"fork.{next(self.forks)}")
            self.order.append(fork)
            self.enter(from_h, fork)
        members = []
        for branch in item.branches:
            self.fork, begin = fork, len(self.order)
            self.go(branch)
            members.append(tuple(self.order[begin:]))
        self.fork = None
        join = self._node(item.join)
        self.step += any(end.register is None for end in item.join.state.ends)
        for end in item.join.state.ends:
            if end.register is None:
                self._hop(end, join)
        if fork is not None and fork != outer:
            plain = all(each.register is None for each in (*entries, *item.join.state.ends))
            plain = plain and all(_is_plain(branch) for branch in item.branches)
            self.splits.append(Split(fork, tuple(members), join, plain))


def _hidden(items: Iterable[Item]) -> Iterator[Read]:
    """Yield the h of the states of a piece of a route, without exits and joins."""
    for step in steps_of(items):
        if step.state.hidden is not None and not isinstance(step.operation, Exit):
            yield step.state.hidden


def _is_plain(branch: tuple[Item, ...]) -> bool:
    return all(isinstance(item, Step) and isinstance(item.operation, Execution) for item in branch)


def _read_through_registers(route: Route, node_of: dict[int, int]) -> tuple[tuple[Wire, ...], tuple[Outlet, ...]]:
    """Return what registers give to nodes, and the exits, of all iterations together."""
    wires: defaultdict[tuple[int, int], dict[str, None]] = defaultdict(dict)
    outlets: defaultdict[tuple[int, str | None], list[int]] = defaultdict(list)
    for column, state in enumerate(route.flow.states):
        if isinstance(state.operation, Exit):
            assert state.hidden is not None
            outlets[node_of[state.hidden.state], state.hidden.register].append(state.operation.index)
            continue
        for read in state.reads:
            if read.register is not None:
                wires[node_of[read.state], node_of[column]][read.register] = None
    output = route.flow.output
    if output.register is not None:
        wires[node_of[output.state], route.parameter_depth + 1][output.register] = None
    return (
        tuple(Wire(*ends, tuple(names)) for ends, names in wires.items()),
        tuple(Outlet(tail, tuple(indices), register) for (tail, register), indices in outlets.items()),
    )
