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
from depthgraph.draw.walked import Back, Folded, Hop, Outlet, Place, Split, Wire
from depthgraph.draw.words import label_of
from depthgraph.flow import Read
from depthgraph.operations import Execution, Exit
from depthgraph.route import Route


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


@dataclass(slots=True)
class _Walk:
    """The walk so far.

    Attributes:
        depth: N.
        node_of: the node of each state, by its index.
        fork: the fork that the next state of this branch reads h from.
        forks_before: all forks by which h comes to that state, the outermost first.
        doors: by its index, those forks of a state that reads h, and its own node.
    """

    depth: int
    node_of: dict[int, int] = field(default_factory=lambda: {0: 0})
    hops: defaultdict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    backs: list[Back] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    fork: int | None = None
    forks_before: tuple[int, ...] = ()
    doors: dict[int, tuple[int, ...]] = field(default_factory=dict)
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
        self.fork, self.forks_before = None, ()

    def _hop(self, hidden: Read, node: int) -> None:
        tail = self.node_of[hidden.state] if self.fork is None else self.fork
        self.hops[tail, node].append(self.step)

    def _state(self, step: Step) -> None:
        if isinstance(step.operation, Exit):
            return
        node = self._node(step)
        assert step.state.hidden is not None
        self.doors[step.column] = (*self.forks_before, node)
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
            heads, load = self._heads(first, second, walked)
            steps = (start, max(start, self.step))
            self.backs += (Back(walked[-1], head, loop.count, steps, load) for head in heads)

    def _heads(
        self, first: tuple[Item, ...], second: tuple[Item, ...], walked: list[int]
    ) -> tuple[Iterable[int], str | None]:
        """Return where h comes in when a loop goes back, and the register it is loaded from if it is dropped."""
        before = next(steps_of(second)).column
        pairs = list(zip(_states(first), _states(second), strict=True))
        readers = (
            one
            for one, two in pairs
            if two.state.hidden and two.state.hidden.register is None and two.state.hidden.state < before
        )
        inner = frozenset(walked)
        # a fork outside the loop is no way into it
        heads = dict.fromkeys(next(n for n in self.doors[one.column] if n in inner) for one in readers)
        hidden = pairs[0][1].state.hidden
        return (heads, None) if heads else (walked[:1], hidden and hidden.register)

    def _branches(self, item: Branches) -> None:
        entries = [next(_hidden(branch)) for branch in item.branches]
        fork, outer, before = self.fork, self.fork, self.forks_before
        from_h = next((entry for entry in entries if entry.register is None), None)
        if from_h is not None:
            fork = self._place(f"fork.{next(self.forks)}")
            self.order.append(fork)
            self.enter(from_h, fork)
            before = (*before, fork)
        members = []
        for branch in item.branches:
            self.fork, self.forks_before, begin = fork, before, len(self.order)
            self.go(branch)
            members.append(tuple(self.order[begin:]))
        self.fork, self.forks_before = None, ()
        join = self._node(item.join)
        self.step += any(end.register is None for end in item.join.state.ends)
        for end in item.join.state.ends:
            if end.register is None:
                self._hop(end, join)
        if fork is not None and fork != outer:
            plain = all(each.register is None for each in (*entries, *item.join.state.ends))
            plain = plain and all(_is_plain(branch) for branch in item.branches)
            self.splits.append(Split(fork, tuple(members), join, plain))


def _states(items: Iterable[Item]) -> Iterator[Step]:
    """Yield the states of a piece of a route that have an h, without exits."""
    for step in steps_of(items):
        if step.state.hidden is not None and not isinstance(step.operation, Exit):
            yield step


def _hidden(items: Iterable[Item]) -> Iterator[Read]:
    """Yield the h of those states."""
    return (step.state.hidden for step in _states(items) if step.state.hidden is not None)


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
