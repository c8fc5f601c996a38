"""What a space consists of: families that are counted by arithmetic, and routes that are listed. No route is in two."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Protocol

from depthgraph.explore.bounds import Bounds
from depthgraph.explore.maps import ReuseMaps
from depthgraph.explore.members import Values, members
from depthgraph.explore.orders import count_orders, first_order, index_of_order, order_at, orders
from depthgraph.explore.patterns import Pattern
from depthgraph.operations import Execution
from depthgraph.route import Route, assembled

#: Which pattern, and the values of its names.
Meaning = tuple[int, tuple[tuple[str, int], ...]]


class Part(Protocol):
    """Routes in a fixed order, each of which can be had by its index, and the other way round."""

    @property
    def count(self) -> int:
        """How many there are."""

    def at(self, index: int) -> Route:
        """Return the route at an index from 0, below `count`."""

    def holds(self, route: Route) -> bool:
        """Whether the route is one of them."""

    def index(self, route: Route) -> int:
        """Return where one of them stands."""

    def __iter__(self) -> Iterator[Route]: ...


class _Executions(dict[tuple[int, int, int], Execution]):
    """(position, layer, visit) → the execution, made when it is first asked for."""

    def __missing__(self, key: tuple[int, int, int]) -> Execution:
        execution = self[key] = Execution(*key)
        return execution


class Ordered:
    """Every path within bounds, ascending by executions, then by reuse map, then by path.

    Attributes:
        bounds: what each keeps.
        in_a_row: whether all executions of a layer come in a row, layers ascending: reuse maps of ILR (arXiv
            2505.01855).
    """

    def __init__(self, bounds: Bounds, *, in_a_row: bool) -> None:
        self.bounds, self.in_a_row = bounds, in_a_row
        self._shared = _Executions()

    @cached_property
    def _maps(self) -> ReuseMaps:
        return ReuseMaps(self.bounds, ordered=not self.in_a_row)

    @property
    def count(self) -> int:
        """As `Part`."""
        return self._maps.count

    def at(self, index: int) -> Route:
        """As `Part`."""
        visits, rest, count = self._maps.at(index)
        path = first_order(visits) if self.in_a_row else order_at(visits, rest, count)
        return self._route(path, visits)

    def holds(self, route: Route) -> bool:
        """As `Part`."""
        if not (route.is_chain and self.bounds.admits(route)):
            return False
        return not self.in_a_row or list(route.path) == first_order(route.reuse_map)

    def index(self, route: Route) -> int:
        """As `Part`."""
        before = self._maps.index(route.reuse_map)
        return before + (0 if self.in_a_row else index_of_order(route.path, count_orders(route.reuse_map)))

    @property
    def lengths(self) -> tuple[int, ...]:
        """The numbers of executions that its routes have, ascending."""
        return tuple(E for E, _ in self._maps.sizes)

    def nearest_visits(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """Return the reuse map that is as it is wanted, layer by layer, as far as some route of the part can be so."""
        visits: list[int] = []
        for want in wanted:
            possible = (t for t in range(self.bounds.fewest, self.bounds.most + 1) if self._maps.begins([*visits, t]))
            visits.append(min(possible, key=lambda times: (abs(times - want), times)))
        return tuple(visits)

    def nearest_path(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """Return the path of so many executions that runs at each position the layer that is wanted, or the next one.

        Args:
            wanted: layers; some path of the part has as many.
        """
        N, visits, path = self.bounds.parameter_depth, [0] * self.bounds.parameter_depth, []
        for left, want in zip(range(len(wanted) - 1, -1, -1), wanted, strict=True):
            for layer in chain(range(want, N + 1), range(1, want)):
                visits[layer - 1] += 1
                if self.bounds.can_end(visits, left):
                    break
                visits[layer - 1] -= 1
            path.append(layer)
        return tuple(path)

    def __iter__(self) -> Iterator[Route]:
        of_map: Callable[[tuple[int, ...]], Iterator[tuple[int, ...]]]
        of_map = (lambda visits: iter([tuple(first_order(visits))])) if self.in_a_row else orders
        for visits in self._maps:
            for path in of_map(visits):
                yield self._route(path, visits)

    def _route(self, path: "tuple[int, ...] | list[int]", visits: tuple[int, ...]) -> Route:
        """Return the route of a path; routes of one space share their executions, which are the same to all of them."""
        seen = [0] * (len(visits) + 1)
        executions = []
        for position, layer in enumerate(path, 1):
            seen[layer] = visit = seen[layer] + 1
            executions.append(self._shared[position, layer, visit])
        dropped = tuple(layer for layer, times in enumerate(visits, 1) if not times)
        route = assembled(tuple(executions), len(visits), dropped)
        vars(route).update(path=tuple(path), reuse_map=visits)  # what the route would find out when asked
        return route


class Listed:
    """The routes of patterns, once each, ascending by executions, reuse map, path and text.

    Attributes:
        bounds: what each keeps.
        patterns: whose routes these are.
        without: a part whose routes are left out, for they stand there.
    """

    def __init__(self, bounds: Bounds, patterns: tuple[Pattern, ...], without: Ordered | None) -> None:
        self.bounds, self.patterns, self.without = bounds, patterns, without

    @cached_property
    def values(self) -> dict[Meaning, Route]:
        """The route of each pattern and values; several may mean one."""
        return {
            (place, tuple(values.items())): route
            for place, pattern in enumerate(self.patterns)
            for route, values in members(pattern, self.bounds)
        }

    @cached_property
    def _meant(self) -> dict[Route, list[Meaning]]:
        """Route → all that mean it."""
        found: dict[Route, list[Meaning]] = {}
        for meaning, route in self.values.items():
            found.setdefault(route, []).append(meaning)
        return found

    @cached_property
    def _routes(self) -> tuple[Route, ...]:
        found: Iterable[Route] = self._meant
        if self.without is not None:
            found = [route for route in found if not self.without.holds(route)]
        return tuple(sorted(found, key=_place))

    @cached_property
    def _indexes(self) -> dict[Route, int]:
        return {route: index for index, route in enumerate(self._routes)}

    @property
    def count(self) -> int:
        """As `Part`."""
        return len(self._routes)

    def at(self, index: int) -> Route:
        """As `Part`."""
        return self._routes[index]

    def holds(self, route: Route) -> bool:
        """As `Part`."""
        return route in self._indexes

    def index(self, route: Route) -> int:
        """As `Part`."""
        return self._indexes[route]

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def steps(self, route: Route) -> list[Route]:
        """Return the routes that one name's step makes of this one: to its next value that has a route."""
        found: dict[Route, None] = {}
        for place, values in self._meant.get(route, ()):
            found |= dict.fromkeys(chain(*(self._next(place, values, name) for name, _ in values)))
        return [each for each in found if each != route]

    def _next(self, place: int, values: tuple[tuple[str, int], ...], name: str) -> Iterator[Route]:
        pattern = self.patterns[place]
        here = dict(values)
        scope = (pattern.numbers | pattern.counts)[name]
        for way in (range(here[name] + 1, scope[-1] + 1), range(here[name] - 1, scope[0] - 1, -1)):
            moved = (self.values.get((place, tuple({**here, name: value}.items()))) for value in way)
            nearest = next((route for route in moved if route is not None), None)
            if nearest is not None:
                yield nearest

    def mixtures(self, one: Route, other: Route) -> list[Route]:
        """Return the routes whose names take each value from one of two routes of the same pattern."""
        found: dict[Route, None] = {}
        for place, values in self._meant.get(one, ()):
            for other_place, other_values in self._meant.get(other, ()):
                if place == other_place:
                    found |= dict.fromkeys(self._mixed(place, dict(values), dict(other_values)))
        return list(found)

    def _mixed(self, place: int, one: Values, other: Values) -> Iterator[Route]:
        for bits in range(1, 2 ** len(one) - 1):
            mixed = {name: (one, other)[bits >> at & 1][name] for at, name in enumerate(one)}
            route = self.values.get((place, tuple(mixed.items())))
            if route is not None:
                yield route


def _place(route: Route) -> tuple[object, ...]:
    # the paths of chains are all different, and texts take time
    return route.execution_depth, route.reuse_map, route.path, "" if route.is_chain else route.text
