"""Spaces of routes: what is held fixed, and every route that keeps it."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from depthgraph.errors import ExploreError, shown
from depthgraph.explore.bounds import Bounds, bounds_of, checked_route
from depthgraph.explore.edits import Path, candidates, cuts, in_random_order, route_of
from depthgraph.explore.generators import Generator, below, distinct_below, shown_count
from depthgraph.explore.parts import Listed, Ordered, Part
from depthgraph.explore.patterns import ANY, ILR, read_pattern
from depthgraph.route import Route


@dataclass(frozen=True)
class RouteSpace:
    """All routes over N layers within bounds, each once, in a fixed order.

    Two routes are the same when their canonical texts are, which is when they are equal. The order is that of the
    fewest executions first, then of the reuse map, then of the path; reuse maps of `ilr` stand before the routes of
    other patterns.

    Attributes:
        N: parameter depth.
        executions: the fewest and the most executions; one integer for both. May be left out where `max_visits` or
            `flops` bounds the space.
        flops: the highest cost of all executions, or (lowest, highest), as a ratio to the standard route, which runs
            each layer once.
        max_visits: the most visits of a layer.
        every_layer: whether every layer runs. If not, those that do not run are dropped.
        patterns: families, of which every route belongs to one or more. `any`, which is the default, is every path;
            `ilr` every reuse map with a layer's executions in a row; anything else is a spec with free names, a name in
            `FAMILIES` or of a scheme (see `read_pattern`).
        costs: what one execution of each layer costs, as integers in any unit (for instance FLOPs); equal by default,
            and then `flops` bounds the multiplier E / N.

    Raises:
        ExploreError: `invalid-space`, `invalid-pattern`.
        SpecError: a pattern is no spec.

    Examples:
        >>> space = RouteSpace(3, executions=(3, 4))
        >>> space.count()
        42
        >>> RouteSpace(24, executions=(24, 48), max_visits=4).count()
        15612873912714375209520918033110974770943271083773001712271360000
        >>> [route.text for route in RouteSpace(3, executions=4, patterns="ilr").enumerate()]
        ['1..2 3x2', '1 2x2 3', '1x2 2..3']
    """

    N: int
    executions: int | tuple[int, int] | None = None
    flops: float | tuple[float, float] | None = None
    max_visits: int | None = None
    every_layer: bool = True
    patterns: str | tuple[str, ...] | None = None
    costs: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("executions", "flops", "patterns", "costs"):
            value: Any = getattr(self, name)
            if isinstance(value, list):  # as JSON and YAML give them
                object.__setattr__(self, name, tuple(value))
        _ = self.bounds, self._parts

    def __getstate__(self) -> dict[str, Any]:
        """Leave tables and lists out of pickles: a process that reads one makes its own."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def bounds(self) -> Bounds:
        """What every route keeps, with what follows from what was given."""
        return bounds_of(self.N, self.executions, self.flops, self.costs, self.max_visits, self.every_layer)

    @property
    def families(self) -> tuple[str, ...]:
        """The patterns, one after the other."""
        given = (ANY,) if self.patterns is None else self.patterns
        return (given,) if isinstance(given, str) else given

    @cached_property
    def _parts(self) -> tuple[Part, ...]:
        given = self.families
        if not isinstance(given, tuple) or not given or not all(isinstance(each, str) for each in given):
            raise ExploreError("invalid-space", f"patterns are texts, at least one; found {shown(given)}")
        if ANY in self.families and all(each in (ANY, ILR) for each in self.families):
            return (Ordered(self.bounds, in_a_row=False),)
        first = Ordered(self.bounds, in_a_row=ANY not in self.families) if {ANY, ILR} & set(self.families) else None
        others = dict.fromkeys(each for each in self.families if each not in (ANY, ILR))
        read = tuple(read_pattern(each, self.N, self.bounds.longest) for each in others)
        listed = Listed(self.bounds, read, first)
        parts: tuple[Part | None, ...] = (first, listed if read else None)
        return tuple(part for part in parts if part is not None)

    @property
    def listed(self) -> Listed | None:
        """The part of it that comes from specs with free names."""
        return next((part for part in self._parts if isinstance(part, Listed)), None)

    @property
    def ordered(self) -> Ordered | None:
        """The part of it that is counted by arithmetic: all paths, or the reuse maps of `ilr`."""
        return next((part for part in self._parts if isinstance(part, Ordered)), None)

    def count(self) -> int:
        """Return how many routes there are: for `any` and `ilr` by arithmetic, for other patterns by listing theirs.

        Raises:
            ExploreError: `space-too-large`.
        """
        return sum(part.count for part in self._parts)

    def enumerate(self) -> Iterator[Route]:
        """Yield every route once, in order, as it is asked for."""
        for part in self._parts:
            yield from part

    def __iter__(self) -> Iterator[Route]:
        return self.enumerate()

    def at(self, index: int) -> Route:
        """Return the route at an index of `enumerate`, from 0, without going through those before it.

        Raises:
            IndexError: the index is not of 0 … count - 1.
        """
        rest = index
        for part in self._parts if index >= 0 else ():
            if rest < part.count:
                return part.at(rest)
            rest -= part.count
        raise IndexError(f"a space of {shown_count(self.count())} routes has none at {index:,}")

    def index(self, route: Route) -> int:
        """Return where a route stands in `enumerate`; `at` takes it back.

        Raises:
            ExploreError: `not-in-space`.
        """
        route, before = checked_route(route), 0
        for part in self._parts:
            if part.holds(route):
                return before + part.index(route)
            before += part.count
        raise self._outside(route)

    def __contains__(self, route: object) -> bool:
        return isinstance(route, Route) and any(part.holds(route) for part in self._parts)

    def sample(self, generator: Generator) -> Route:
        """Return a route, each as likely as the others.

        Args:
            generator: a `random.Random` or a `numpy.random.Generator`; one draw of it below `count()`.

        Raises:
            ExploreError: `empty-space`.

        Examples:
            >>> import random
            >>> print(RouteSpace(6, executions=(6, 14)).sample(random.Random(0)))
            2 6 1 4 3 5 6x2 1..2 5 2 6 4
        """
        return self.at(below(generator, self._some(1)))

    def sample_distinct(self, generator: Generator, number: int) -> Iterator[Route]:
        """Yield different routes: every choice of so many is equally likely.

        Args:
            generator: as for `sample`.
            number: how many.

        Raises:
            ExploreError: `empty-space`, when there are not so many.
        """
        return map(self.at, distinct_below(generator, self._some(number), number))

    def neighbours(self, route: Route) -> tuple[Route, ...]:
        """Return the routes of the space that are one edit away, in a fixed order.

        An edit of a path inserts one execution of any layer, removes one, puts another layer in the place of one, moves
        one to another place, runs a stretch once more right behind itself, or takes such a second run away. Of a route
        that a pattern means, an edit is also one name's step to its next value. If b is a neighbour of a, then a is one
        of b.

        Raises:
            ExploreError: `not-in-space`.
        """
        routes = (route_of(each, self.bounds) for each in self._candidates(route))
        return tuple(each for each in routes if each is not None and each in self)

    def _candidates(self, route: Route) -> list[Path | Route]:
        self._check(route)
        return candidates(route, self.listed.steps(route) if self.listed is not None else ())

    def mutate(self, route: Route, generator: Generator) -> Route:
        """Return one of its neighbours, each as likely as the others; where it has none, any route of the space.

        Raises:
            ExploreError: `not-in-space`.
        """
        for candidate in in_random_order(self._candidates(route), generator):
            found = route_of(candidate, self.bounds)
            if found is not None and found in self:
                return found
        return self.sample(generator)

    def crossover(self, one: Route, other: Route, generator: Generator) -> Route:
        """Return a route of the space that begins as one and ends as another.

        Cuts are tried in random order until one gives a third route of the space. Routes of the same pattern are mixed
        by their names too, each with its value from one of the two. Where nothing fits, it is one of the two.

        Raises:
            ExploreError: `not-in-space`.
        """
        self._check(one)
        self._check(other)
        mixed = self.listed.mixtures(one, other) if self.listed is not None else []
        both: list[Route | tuple[int, int]] = [*mixed, *cuts(one, other)]
        for each in in_random_order(both, generator):
            child = each if isinstance(each, Route) else one.path[: each[0]] + other.path[each[1] :]
            found = route_of(child, self.bounds)
            if found is not None and found not in (one, other) and found in self:
                return found
        return (one, other)[below(generator, 2)]

    def _some(self, number: int) -> int:
        count = self.count()
        if not 0 < number <= count:
            message = f"{number:,} routes are drawn from a space that has {shown_count(count)}"
            raise ExploreError("empty-space", message, help="give wider bounds, or draw fewer")
        return count

    def _check(self, route: Route) -> None:
        if checked_route(route) not in self:
            raise self._outside(route)

    def _outside(self, route: Route) -> ExploreError:
        """Return the error for a route that the space does not hold, with the bound that it breaks."""
        bounds = self.bounds
        ratio = bounds.cost(route.reuse_map) / sum(bounds.costs) if route.parameter_depth == self.N else 0
        checks = (
            (route.parameter_depth == self.N, f"it is over {route.parameter_depth} layers, the space over {self.N}"),
            (not route.dropped or not self.every_layer, f"it drops layers {', '.join(map(str, route.dropped))}"),
            (max(route.reuse_map) <= bounds.most, f"it runs a layer {max(route.reuse_map)} times"),
            (bounds.shortest <= route.execution_depth <= bounds.longest, f"it has {route.execution_depth} executions"),
            (bounds.admits(route), f"it costs {ratio:.3g} times as much as the standard route"),
            (route.is_chain, "it has data flow, and no pattern of the space means it"),
        )
        reason = next((what for holds, what in checks if not holds), "no pattern of the space means it")
        return ExploreError("not-in-space", f"`{route.text}` is not in the space: {reason}")
