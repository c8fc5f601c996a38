"""Routes that differ by one edit, and routes that come of two."""

from collections.abc import Iterable, Iterator

from depthgraph.explore.bounds import Bounds
from depthgraph.explore.generators import Generator, below
from depthgraph.route import Route

Path = tuple[int, ...]


def neighbours_of(route: Route, bounds: Bounds) -> Iterator[Route]:
    """Yield the routes within bounds whose paths are one edit away; none for a route with data flow.

    Args:
        route: a chain, or nothing comes.
        bounds: what is checked before a route is made of a path.
    """
    if not route.is_chain:
        return
    for path in dict.fromkeys(edited(route.path, bounds.parameter_depth)):
        if path and path != route.path and within(path, bounds):
            yield Route.of(path, bounds.parameter_depth)


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


def children_of(one: Route, other: Route, mixed: Iterable[Route], generator: Generator) -> Iterator[Route]:
    """Yield what comes of two routes, in random order: a beginning of one with an end of the other, and `mixed`.

    Args:
        one: gives beginnings.
        other: gives ends.
        mixed: further candidates.
        generator: shuffles them.
    """
    cuts: list[Route | tuple[int, int]] = list(mixed)
    if one.is_chain and other.is_chain:
        lengths = range(1, one.execution_depth + 1), range(other.execution_depth)
        cuts += [(begin, end) for begin in lengths[0] for end in lengths[1]]
    while cuts:
        at = below(generator, len(cuts))
        cuts[at], cuts[-1] = cuts[-1], cuts[at]
        cut = cuts.pop()
        if isinstance(cut, tuple):
            yield Route.of(one.path[: cut[0]] + other.path[cut[1] :], one.parameter_depth)
        else:
            yield cut
