"""What a route consists of: executions, and the operations of data flow between them."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

from depthgraph.source import Span


class Iteration(NamedTuple):
    """One run of a loop.

    Attributes:
        loop: which loop of the route, numbered from 1 in the order in which they are entered; a loop inside
            another one is entered anew in every iteration of it.
        number: which iteration, from 1.
        count: how many iterations the loop has.
    """

    loop: int
    number: int
    count: int  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of one layer.

    Its identity is (layer, visit): that pair is the same under every route over the same layers, and addresses
    all that belongs to a run and not to a layer.

    Attributes:
        position: 1 … E.
        layer: 1 … N.
        visit: 1st, 2nd … run of that layer.
        iterations: the iteration of every loop around it, outermost first; no part of equality.
        span: where the spec names it; no part of equality.
    """

    position: int
    layer: int
    visit: int
    iterations: tuple[Iteration, ...] = field(default=(), compare=False)
    span: Span | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The name of its node in graphs and generated code, `L2.1` for layer 2, first visit."""
        return f"L{self.layer}.{self.visit}"


@dataclass(frozen=True, slots=True)
class DataFlow:
    """Base of the operations between executions; h is the current hidden state.

    Attributes:
        iterations: the iteration of every loop around it, outermost first; no part of equality.
        span: where the spec names it; no part of equality.
    """

    iterations: tuple[Iteration, ...] = field(default=(), compare=False, repr=False, kw_only=True)
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Save(DataFlow):
    """`save(a)`: register a := h."""

    register: str


@dataclass(frozen=True, slots=True)
class Load(DataFlow):
    """`load(a)`: h := register a."""

    register: str


@dataclass(frozen=True, slots=True)
class Add(DataFlow):
    """`add(a)`: h := h + a."""

    register: str


@dataclass(frozen=True, slots=True)
class Mix(DataFlow):
    """`mix(a)`: h := W [h ; a], with W of shape [d, 2d] (the adapter of Huginn, arXiv 2502.05171, section 3.2).

    Attributes:
        site: whose W it is: the places of `mix` in a route are numbered from 1 in the order in which they first
            run, and operations of one number share their weights.
    """

    register: str
    site: int


@dataclass(frozen=True, slots=True)
class Gate(DataFlow):
    """`gate(a)`: h := h + g ⊙ a, with g of shape [d] (the skips of openai/parameter-golf).

    Attributes:
        site: whose g it is, numbered as for `Mix` and apart from it.
    """

    register: str
    site: int


@dataclass(frozen=True, slots=True)
class Mean(DataFlow):
    """`mean(p | q)`: each branch starts from the same h; h := the mean of their results."""

    branches: "tuple[tuple[Operation, ...], ...]"


@dataclass(frozen=True, slots=True)
class Sum(DataFlow):
    """`sum(p | q)`: each branch starts from the same h; h := the sum of their results."""

    branches: "tuple[tuple[Operation, ...], ...]"


@dataclass(frozen=True, slots=True)
class StopGradient(DataFlow):
    """`stopgrad`: h := detach(h)."""


@dataclass(frozen=True, slots=True)
class Exit(DataFlow):
    """`exit`: h is one more output of the model (an early exit).

    Attributes:
        index: which one, numbered from 1 in the order of the route.
    """

    index: int


#: What a route consists of. A join (`Mean`, `Sum`) holds its branches; all else stands alone.
Operation = Execution | Save | Load | Add | Mix | Gate | Mean | Sum | StopGradient | Exit

#: The operations that read a register, and those that join branches.
Reading = Load | Add | Mix | Gate
Join = Mean | Sum

#: How deep branches may be nested: half as deep as parentheses, so that loops in them fit too; and how many operations
#: may stand in branches.
MOST_NESTED, MOST_IN_BRANCHES = 32, 1_000_000


def walk(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield operations in the order of the text; those of a join's branches before the join itself."""
    for operation in operations:
        if isinstance(operation, Join):
            for branch in operation.branches:
                yield from walk(branch)
        yield operation


def executions_of(operations: tuple[Operation, ...]) -> tuple[Execution, ...]:
    """Return the executions among operations, in order."""
    if set(map(type, operations)) == {Execution}:
        return cast("tuple[Execution, ...]", operations)  # a chain has nothing else, and most routes are chains
    return tuple(each for each in walk(operations) if isinstance(each, Execution))


def rebuilt(operations: Iterable[Operation], change: Callable[[Operation], Operation]) -> tuple[Operation, ...]:
    """Return operations with a change made to each, in the order of `walk`; a join is changed after its branches."""
    result: list[Operation] = []
    for operation in operations:
        if isinstance(operation, Join):
            operation = replace(operation, branches=tuple(rebuilt(one, change) for one in operation.branches))
        result.append(change(operation))
    return tuple(result)


def check_nesting(operations: Iterable[Operation]) -> None:
    """Refuse joins that are nested too deep or hold too much, before anything walks through them.

    A join that stands in two places counts twice, so that what is shared costs no more than it says.

    Raises:
        ValueError: that, or a join without two branches that are tuples.
    """
    level = [(each, 1) for each in operations if isinstance(each, Join)]
    depth = inside = 0
    while level:
        depth += 1
        if depth > MOST_NESTED:
            raise ValueError(f"branches are nested more than {MOST_NESTED} deep")
        below: dict[int, tuple[Join, int]] = {}
        for join, times in level:
            branches = join.branches
            if not isinstance(branches, tuple) or len(branches) < 2 or {*map(type, branches)} != {tuple}:
                raise ValueError("a join has at least two branches, each a tuple of operations")
            inside += times * sum(map(len, branches))
            for each in itertools.chain(*branches):
                if isinstance(each, Join):
                    below[id(each)] = (each, times + below.get(id(each), (each, 0))[1])
        if inside > MOST_IN_BRANCHES:
            raise ValueError(f"more than {MOST_IN_BRANCHES:,} operations stand in branches")
        level = list(below.values())


def numbered(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return operations with positions, visits, sites and exits numbered anew in the order of the text.

    Two operations of one kind with equal sites keep sharing theirs. Who edits the operations of a route by program
    gets the numbers right with this.

    Raises:
        ValueError: as `check_nesting`.
    """
    operations = tuple(operations)
    check_nesting(operations)
    positions, exits = 0, 0
    visits: dict[int, int] = {}
    sites: dict[type, dict[int, int]] = {Mix: {}, Gate: {}}

    def change(operation: Operation) -> Operation:
        nonlocal positions, exits
        match operation:
            case Execution(_, layer):
                positions += 1
                visits[layer] = visits.get(layer, 0) + 1
                return replace(operation, position=positions, visit=visits[layer])
            case Mix(_, site) | Gate(_, site):
                known = sites[type(operation)]
                return replace(operation, site=known.setdefault(site, len(known) + 1))
            case Exit():
                exits += 1
                return replace(operation, index=exits)
            case _:
                return operation

    return rebuilt(operations, change)
