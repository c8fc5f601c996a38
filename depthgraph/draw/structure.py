"""The loops of a route as a tree, found again from the iterations that its executions name."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import assert_never

from depthgraph.errors import DepthGraphError
from depthgraph.route import Execution, Route


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
