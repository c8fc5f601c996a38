"""networkx graph → route: the operations that compute what the graph says, in the order of its positions.

`save` and `load` are written where the states need them: a state that is read later is saved directly behind what
computes it, under the name that its edges have.
"""

import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from depthgraph.flow import KINDS
from depthgraph.graph import (
    EXECUTION,
    INPUT,
    OUTPUT,
    read_dropped,
)
from depthgraph.operations import (
    Add,
    Execution,
    Exit,
    Gate,
    Load,
    Mean,
    Mix,
    Operation,
    Save,
    StopGradient,
    Sum,
    numbered,
)
from depthgraph.plan import Plan, Source
from depthgraph.route import Route, as_integer
from depthgraph.words import LONGEST_NAME

if TYPE_CHECKING:
    import networkx as nx

DEFAULT_REGISTER = "r"


def read_graph(graph: "nx.DiGraph[Any]") -> Route:
    """Return the route of a graph that `verify` has accepted; `dg.from_graph` does both.

    The order is that of the edges, and between nodes that no path joins that of their positions; node names do not
    matter.
    """
    plan = Plan(graph)
    steps, _ = _Layout.of(plan).between(0, len(plan.order), 0)
    names = _Names(plan, _fetches(steps))
    operations = numbered(_operations(steps, plan, names))
    depth = as_integer(graph.graph["parameter_depth"])
    assert depth is not None
    return Route(depth, operations, read_dropped(graph.graph.get("dropped", ())) or ())


@dataclass(frozen=True, slots=True)
class Compute:
    """A node's operation."""

    node: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """A state becomes h again, at a place in the order."""

    source: Source
    at: int


@dataclass(frozen=True, slots=True)
class Branched:
    """A join, and the steps of its branches."""

    node: int
    branches: "tuple[tuple[Step, ...], ...]"


Step = Compute | Fetch | Branched


@dataclass(frozen=True, slots=True)
class _Layout:
    """Lays the nodes out one behind the other, and the branches of joins in them."""

    plan: Plan
    joins: dict[int, list[int]]  # where the first branch starts → the joins, inner ones first

    @classmethod
    def of(cls, plan: Plan) -> "_Layout":
        joins: defaultdict[int, list[int]] = defaultdict(list)
        for join in sorted(plan.branches):
            joins[plan.branches[join][0].start].append(join)
        return cls(plan, dict(joins))

    def between(self, start: int, end: int, current: int) -> tuple[list[Step], int]:
        """Return the steps of a stretch of the order, and what h is behind it; `current` is what it is before."""
        plan, place = self.plan, start
        steps: list[Step] = []
        while place < end:
            join = max((each for each in self.joins.get(place, ()) if each < end), default=None)
            source = plan.hidden.get(place) if join is None else self._common_start(join)
            if source is not None and source.state != current:
                steps.append(Fetch(source, place))
                current = source.state
            if join is not None:
                steps.append(self._branched(join, current))
                place = join
            else:
                steps.append(Compute(place))
            if plan.kinds[place] != KINDS[Exit]:
                current = place
            place += 1
        return steps, current

    def _common_start(self, join: int) -> Source | None:
        """Return the state that all branches of a join start from, if it is one."""
        sources = [self.plan.hidden.get(stretch.start) for stretch in self.plan.branches[join]]
        states = {source.state for source in sources if source is not None}
        return sources[0] if len(states) == 1 and None not in sources else None

    def _branched(self, join: int, current: int) -> Branched:
        branches = []
        for stretch, end in zip(self.plan.branches[join], self.plan.ends[join], strict=True):
            steps, last = self.between(stretch.start, stretch.stop, current)
            if last != end.state:
                steps.append(Fetch(end, stretch.stop))
            branches.append(tuple(steps))
        return Branched(join, tuple(branches))


def _fetches(steps: Iterable[Step]) -> Iterator[Fetch]:
    for step in steps:
        match step:
            case Fetch():
                yield step
            case Branched(branches=branches):
                yield from _fetches(chain.from_iterable(branches))


class _Names:
    """Which names states are saved under, such that no save takes a name whose state is still to be read.

    Attributes:
        saves: state → the names that it is saved under, in order.
    """

    def __init__(self, plan: Plan, fetches: Iterable[Fetch]) -> None:
        self.saves: dict[int, list[str]] = {}
        self._names: dict[Source, str] = {}
        self._live: defaultdict[str, list[tuple[int, list[int]]]] = defaultdict(list)
        reads: defaultdict[Source, list[int]] = defaultdict(list)
        for source, at in chain(((one.source, one.at) for one in fetches), ((s, n) for n, s in plan.operand.items())):
            reads[source].append(at)
        scopes = _scopes(plan)
        for source in sorted(reads, key=lambda one: (one.state, min(reads[one]), one.register or "")):
            self._allocate(source, sorted(reads[source]), scopes.get(source.state, len(plan.order)))

    def of(self, source: Source) -> str:
        """Return the name under which a state is read."""
        return self._names[source]

    def _allocate(self, source: Source, reads: list[int], scope_end: int) -> None:
        wanted = source.register or DEFAULT_REGISTER
        others = (f"{wanted[: LONGEST_NAME - 6]}{number}" for number in count(2))
        name = next(one for one in chain((wanted,), others) if not self._is_taken(one, source.state, scope_end))
        self._names[source] = name
        self._live[name].append((source.state, reads))
        self.saves.setdefault(source.state, []).append(name)

    def _is_taken(self, name: str, state: int, scope_end: int) -> bool:
        live = self._live[name] = [one for one in self._live[name] if one[1][-1] > state]
        return any(state < read <= scope_end for _, reads in live for read in reads)


def _scopes(plan: Plan) -> dict[int, int]:
    """Return for the states in branches where the innermost branch ends."""
    scopes: dict[int, int] = {}
    for join in sorted(plan.branches, reverse=True):
        for stretch in plan.branches[join]:
            scopes.update(dict.fromkeys(stretch, stretch.stop))
    return scopes


def _operations(steps: Iterable[Step], plan: Plan, names: _Names) -> Iterator[Operation]:
    for step in steps:
        match step:
            case Fetch(source):
                yield Load(names.of(source))
                continue
            case Compute(node):
                yield from _computed(node, plan, names)
            case Branched(node, branches):
                kind = Mean if plan.kinds[node] == KINDS[Mean] else Sum
                yield kind(tuple(tuple(_operations(one, plan, names)) for one in branches), iterations=plan.loops(node))
        yield from (Save(name) for name in names.saves.get(step.node, ()))


def _computed(node: int, plan: Plan, names: _Names) -> Iterator[Operation]:
    data, kind, loops = plan.data[node], plan.kinds[node], plan.loops(node)
    if kind in (INPUT, OUTPUT):
        return
    register = names.of(plan.operand[node]) if node in plan.operand else ""
    if kind == EXECUTION:
        yield Execution(0, operator.index(data["layer"]), 0, loops)
    elif kind == KINDS[Add]:
        yield Add(register, iterations=loops)
    elif kind == KINDS[StopGradient]:
        yield StopGradient(iterations=loops)
    elif kind == KINDS[Exit]:
        yield Exit(0, iterations=loops)
    else:
        weighted = Mix if kind == KINDS[Mix] else Gate
        yield weighted(register, operator.index(data["site"]), iterations=loops)
