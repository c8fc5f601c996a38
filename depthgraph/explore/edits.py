"""Routes that differ by one edit, and routes that come of two."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from depthgraph.errors import ExploreError
from depthgraph.explore.bounds import Bounds
from depthgraph.explore.generators import Generator, below
from depthgraph.route import Route

Path = tuple[int, ...]
T = TypeVar("T")


#: Executions of a route that is edited, and places where two routes can be cut: there are about 3 E² edits.
MOST_EXECUTIONS, MOST_CUTS = 256, 1_000_000


def candidates(route: Route, steps: Iterable[Route]) -> list[Path | Route]:
    """Return what one edit makes of a route, each once: paths, and routes with data flow.

    Args:
        route: the path of a chain is edited; one with data flow has only its steps.
        steps: routes that one name's step makes of it.

    Raises:
        ExploreError: `space-too-large`, for a route with more than `MOST_EXECUTIONS`.
    """
    found: dict[Path | Route, None] = {}
    if route.is_chain:
        if route.execution_depth > MOST_EXECUTIONS:
            message = f"a route of {route.execution_depth:,} executions has too many edits, over {MOST_EXECUTIONS}"
            raise ExploreError("space-too-large", message, help="draw other routes, or take shorter ones")
        found |= dict.fromkeys(edited(route.path, route.parameter_depth))
    found |= dict.fromkeys(step.path if step.is_chain else step for step in steps)
    return [each for each in found if each not in (route.path, route) and each != ()]


def route_of(candidate: Path | Route, bounds: Bounds) -> Route | None:
    """Return a candidate as a route; None where it does not keep the bounds."""
    if isinstance(candidate, Route):
        return candidate if bounds.admits(candidate) else None
    return Route.of(candidate, bounds.parameter_depth) if within(candidate, bounds) else None


def in_random_order(given: Iterable[T], generator: Generator) -> Iterator[T]:
    """Yield what is given, every order equally likely, one draw each."""
    rest = list(given)
    while rest:
        at = below(generator, len(rest))
        rest[at], rest[-1] = rest[-1], rest[at]
        yield rest.pop()


def edited(path: Path, layers: int) -> Iterator[Path]:
    """Yield the paths that one edit makes, some of them several times.

    The edits undo one another: what one makes of a path, another makes back.

    Args:
        path: the layers in the order of execution.
        layers: N.
    """
    E = len(path)
    for at in range(E + 1):
        yield from ((*path[:at], layer, *path[at:]) for layer in range(1, layers + 1))
    for at in range(E):
        rest = path[:at] + path[at + 1 :]
        yield rest
        yield from ((*path[:at], layer, *path[at + 1 :]) for layer in range(1, layers + 1))
        yield from ((*rest[:to], path[at], *rest[to:]) for to in range(E))
    for size in range(2, E + 1):
        for at in range(E - size + 1):
            stretch = path[at : at + size]
            yield path[: at + size] + path[at:]
            if path[at + size : at + 2 * size] == stretch:
                yield path[:at] + path[at + size :]


def within(path: Path, bounds: Bounds) -> bool:
    """Whether a path keeps the bounds; cheaper than asking a route."""
    if not bounds.shortest <= len(path) <= bounds.longest:
        return False
    visits = [0] * bounds.parameter_depth
    for layer in path:
        visits[layer - 1] += 1
    return bounds.admits_visits(tuple(visits))


def cuts(one: Route, other: Route) -> list[tuple[int, int]]:
    """Return where a beginning of one route can meet an end of another: how much of each comes before."""
    if not (one.is_chain and other.is_chain):
        return []
    if one.execution_depth * other.execution_depth > MOST_CUTS:
        message = f"routes of {one.execution_depth:,} and {other.execution_depth:,} executions have too many cuts"
        raise ExploreError("space-too-large", message, help="take shorter ones")
    return [(a, b) for a in range(1, one.execution_depth + 1) for b in range(other.execution_depth)]
