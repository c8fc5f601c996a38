"""The loops and branches of a route as a tree, found again from the iterations that its operations name.

The leaves are the states of `Route.flow`. `save` and `load` compute nothing and are no leaves: they are there as the
registers through which the states read.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple, assert_never

from depthgraph.errors import DepthGraphError
from depthgraph.flow import Computing, State
from depthgraph.operations import Execution, Iteration, Join, Load, Operation, Save, rebuilt, walk
from depthgraph.route import Route


@dataclass(frozen=True, slots=True)
class Step:
    """One state: an execution, or an operation of data flow that computes or passes on a state.

    Attributes:
        column: its index in `Flow.states`, from 1; of a chain, the execution's position.
        state: the state.
    """

    column: int
    state: State

    @property
    def operation(self) -> Computing:
        """What computes it; the input, which nothing computes, is no step."""
        assert self.state.operation is not None
        return self.state.operation


@dataclass(frozen=True, slots=True)
class Branches:
    """Branches that start from the same state, and the `mean` or `sum` that joins their results."""

    branches: "tuple[tuple[Item, ...], ...]"
    join: Step


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: the items of each of its iterations."""

    iterations: "tuple[tuple[Item, ...], ...]"

    @property
    def count(self) -> int:
        """How many iterations it has."""
        return len(self.iterations)

    @property
    def repeats(self) -> bool:
        """Whether every iteration does the same with the same layers; those of a comprehension can differ."""
        first, *others = (tuple(_signature(items)) for items in self.iterations)
        return all(other == first for other in others)

    @property
    def title(self) -> str:
        """What a picture writes at the loop."""
        return f"×{self.count}" if self.repeats else f"{self.count} iterations"


#: A piece of a route: one state, a loop around some, or branches and their join.
Item = Step | Loop | Branches


def tree(route: Route) -> tuple[Item, ...]:
    """Return the route as a sequence of states, loops and branches; a loop of one iteration is no loop here.

    Where no operation names an iteration (a route built by program), the loops are those of the canonical text.
    """
    route = _with_loops(route)
    steps = (Step(column, state) for column, state in enumerate(route.flow.states[1:], 1))
    return _items(_leaves(route.operations, steps), 0)


def steps_of(items: Iterable[Item]) -> Iterator[Step]:
    """Yield the states of a piece of a route in order, a join behind its branches."""
    for item in items:
        match item:
            case Step():
                yield item
            case Loop(parts):
                for part in parts:
                    yield from steps_of(part)
            case Branches(parts, join):
                for part in parts:
                    yield from steps_of(part)
                yield join
            case _:
                assert_never(item)


def executions(items: Iterable[Item]) -> Iterator[Execution]:
    """Yield the executions of a piece of a route in order."""
    for step in steps_of(items):
        if isinstance(step.operation, Execution):
            yield step.operation


def joins(items: Iterable[Item]) -> Iterator[Branches]:
    """Yield everything that has branches, inner ones first."""
    for item in items:
        match item:
            case Step():
                pass
            case Loop(parts):
                for part in parts:
                    yield from joins(part)
            case Branches(parts, _):
                for part in parts:
                    yield from joins(part)
                yield item
            case _:
                assert_never(item)


class LoopSpan(NamedTuple):
    """Where a loop is.

    Attributes:
        title: what a picture writes at it.
        level: how many loops are nested in it.
        first: its first column.
        last: its last column.
    """

    title: str
    level: int
    first: int
    last: int


def loop_spans(items: tuple[Item, ...]) -> tuple[LoopSpan, ...]:
    """Return where every loop is; a loop stands behind those in it."""
    spans: list[LoopSpan] = []
    for item in items:
        match item:
            case Step():
                pass
            case Loop(parts):
                inner = [span for part in parts for span in loop_spans(part)]
                level = 1 + max((span.level for span in inner), default=-1)
                spans += [*inner, LoopSpan(item.title, level, *ends((item,)))]
            case Branches(parts, _):
                spans += [span for part in parts for span in loop_spans(part)]
            case _:
                assert_never(item)
    return tuple(spans)


def ends(items: tuple[Item, ...]) -> tuple[int, int]:
    """Return the first and the last column of a piece of a route."""
    first, last = items[0], items[-1]
    while not isinstance(first, Step):
        first = (first.iterations if isinstance(first, Loop) else first.branches)[0][0]
    while not isinstance(last, Step):
        last = last.iterations[-1][-1] if isinstance(last, Loop) else last.join
    return first.column, last.column


#: A leaf, or branches of leaves, before its loops are found.
_Leaf = Step | Branches


def _leaves(operations: Iterable[Operation], steps: Iterator[Step]) -> tuple[_Leaf, ...]:
    """Pair operations with the states that they compute, which stand in the same order."""
    leaves: list[_Leaf] = []
    for operation in operations:
        if isinstance(operation, Join):
            branches = tuple(_leaves(branch, steps) for branch in operation.branches)
            leaves.append(Branches(branches, next(steps)))
        elif not isinstance(operation, Save | Load):
            leaves.append(next(steps))
    return tuple(leaves)


def _iterations(leaf: Item) -> tuple[Iteration, ...]:
    assert not isinstance(leaf, Loop)
    return (leaf.join if isinstance(leaf, Branches) else leaf).operation.iterations


def _items(leaves: tuple[Item, ...], depth: int) -> tuple[Item, ...]:
    """Group leaves by the loop that they are in at this depth of nesting."""

    def loop_of(leaf: Item) -> int:
        loops = _iterations(leaf)
        return loops[depth].loop if len(loops) > depth else 0

    items: list[Item] = []
    for loop, group in groupby(leaves, key=loop_of):
        members = tuple(group)
        if not loop:
            items += (_inside(member, depth) for member in members)
            continue
        numbered = groupby(members, key=lambda leaf: _iterations(leaf)[depth].number)
        iterations = tuple(_items(tuple(one), depth + 1) for _, one in numbered)
        items += iterations[0] if len(iterations) == 1 else (Loop(iterations),)
    return tuple(items)


def _inside(item: Item, depth: int) -> Item:
    if not isinstance(item, Branches):
        return item
    return Branches(tuple(_items(branch, depth) for branch in item.branches), item.join)


def _signature(items: Iterable[Item]) -> Iterator[object]:
    """Yield what is the same in two iterations of one text: no names, no positions, no numbers of exits.

    Through which register h is read is left out: behind a `load` at the end of an iteration, only the first
    iteration starts from the h before the loop.
    """
    for item in items:
        match item:
            case Step():
                operation = item.operation
                same = (getattr(operation, name, None) for name in ("layer", "register", "site"))
                yield type(operation), *same
            case Loop(parts):
                for part in parts:
                    yield from _signature(part)
            case Branches(parts, join):
                yield tuple(tuple(_signature(part)) for part in parts)
                yield from _signature([join])
            case _:
                assert_never(item)


def _with_loops(route: Route) -> Route:
    known = any(each.iterations for each in walk(route.operations))
    if known or (route.is_chain and max(route.reuse_map) == 1):
        return route
    from depthgraph.expand import route_from_text

    try:
        found = route_from_text(route.text, N=route.parameter_depth)
    except DepthGraphError:
        return route  # too long for a text that may be parsed: drawn without loops, which is still right
    iterations = [each.iterations for each in walk(found.operations)]
    assert len(iterations) == sum(1 for _ in walk(route.operations))
    named = iter(iterations)
    return replace(route, operations=rebuilt(route.operations, lambda each: replace(each, iterations=next(named))))
