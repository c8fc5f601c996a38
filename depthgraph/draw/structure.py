"""The loops of a route as a tree, found again from the iterations that its executions name."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple, assert_never

from depthgraph.errors import DepthGraphError
from depthgraph.operations import Execution
from depthgraph.route import Route


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
        """Whether every iteration runs the same layers; those of a comprehension can differ."""
        first, *others = (tuple(e.layer for e in executions(items)) for items in self.iterations)
        return all(other == first for other in others)

    @property
    def title(self) -> str:
        """What a picture writes at the loop."""
        return f"×{self.count}" if self.repeats else f"{self.count} iterations"


#: A piece of a route: one execution, or a loop around some.
Item = Execution | Loop


def tree(route: Route) -> tuple[Item, ...]:
    """Return the route as a sequence of executions and loops; a loop of one iteration is no loop here.

    Where no execution names an iteration (a route built by program), the loops are those of the canonical text.
    """
    return _items(_with_loops(route).executions, 0)


def executions(items: tuple[Item, ...]) -> Iterator[Execution]:
    """Yield the executions of a piece of a route in order."""
    for item in items:
        match item:
            case Execution():
                yield item
            case Loop():
                for iteration in item.iterations:
                    yield from executions(iteration)
            case _:
                assert_never(item)


class LoopSpan(NamedTuple):
    """Where a loop is.

    Attributes:
        title: what a picture writes at it.
        level: how many loops are nested in it.
        first: its first position.
        last: its last position.
    """

    title: str
    level: int
    first: int
    last: int


def loop_spans(items: tuple[Item, ...]) -> tuple[LoopSpan, ...]:
    """Return where every loop is; a loop stands behind those in it."""
    spans: list[LoopSpan] = []
    for item in items:
        if isinstance(item, Loop):
            inner = [span for body in item.iterations for span in loop_spans(body)]
            level = 1 + max((span.level for span in inner), default=-1)
            spans += [*inner, LoopSpan(item.title, level, *ends((item,)))]
    return tuple(spans)


def ends(items: tuple[Item, ...]) -> tuple[int, int]:
    """Return the first and the last position of a piece of a route."""
    first, last = items[0], items[-1]
    while isinstance(first, Loop):
        first = first.iterations[0][0]
    while isinstance(last, Loop):
        last = last.iterations[-1][-1]
    return first.position, last.position


def _items(run: tuple[Execution, ...], depth: int) -> tuple[Item, ...]:
    """Group executions by the loop that they are in at this depth of nesting."""
    items: list[Item] = []
    for loop, group in groupby(run, key=lambda e: e.iterations[depth].loop if len(e.iterations) > depth else 0):
        members = tuple(group)
        if not loop:
            items += members
            continue
        numbered = groupby(members, key=lambda e: e.iterations[depth].number)
        iterations = tuple(_items(tuple(one), depth + 1) for _, one in numbered)
        items += iterations[0] if len(iterations) == 1 else (Loop(iterations),)
    return tuple(items)


def _with_loops(route: Route) -> Route:
    known = any(execution.iterations for execution in route.executions)
    if known or max(route.reuse_map) == 1:
        return route
    from depthgraph.expand import route_from_text

    try:
        found = route_from_text(route.text, N=route.parameter_depth)
    except DepthGraphError:
        return route  # too long for a text that may be parsed: drawn without loops, which is still right
    pairs = zip(route.executions, found.executions, strict=True)
    return replace(route, operations=tuple(replace(e, iterations=f.iterations) for e, f in pairs))
