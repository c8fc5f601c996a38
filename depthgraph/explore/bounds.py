"""What bounds a space of routes: executions, visits, and the cost of it all."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor
from typing import Any

from depthgraph.errors import ExploreError
from depthgraph.route import MOST_LAYERS, Route, as_integer

#: Bounds on FLOPs are ratios, which floats cannot all hold: 2.2 means 11/5.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Bounds:
    """What every route of a space keeps.

    Attributes:
        parameter_depth: N.
        shortest: the fewest executions.
        longest: the most executions.
        fewest: visits that each layer has at least: 1 where every layer runs, else 0.
        most: visits that a layer has at most.
        costs: the cost of one execution of each layer; all 1 where they are equal.
        cheapest: the least that all executions cost together.
        dearest: the most that all executions cost together.
    """

    parameter_depth: int
    shortest: int
    longest: int
    fewest: int
    most: int
    costs: tuple[int, ...]
    cheapest: int
    dearest: int

    @cached_property
    def equal_costs(self) -> bool:
        """Whether the cost of a route is its number of executions, and adds nothing to their bounds."""
        return len(set(self.costs)) == 1

    def admits(self, route: Route) -> bool:
        """Whether a route keeps the bounds."""
        if route.parameter_depth != self.parameter_depth:
            return False
        return self.admits_visits(route.reuse_map)

    def admits_visits(self, visits: tuple[int, ...]) -> bool:
        """Whether a route with this reuse map keeps the bounds."""
        if not (self.fewest <= min(visits) and max(visits) <= self.most):
            return False
        if not self.shortest <= sum(visits) <= self.longest:
            return False
        return self.equal_costs or self.cheapest <= self.cost(visits) <= self.dearest

    def cost(self, visits: tuple[int, ...]) -> int:
        """Return what all executions cost together."""
        return sum(map(int.__mul__, self.costs, visits))

    def can_end(self, visits: list[int], left: int) -> bool:
        """Whether a route that has run these visits so far can be ended by `left` more executions.

        Args:
            visits: so far, for layers 1 … N.
            left: executions to come.
        """
        if any(v > self.most for v in visits):
            return False
        needed = sum(max(0, self.fewest - v) for v in visits)
        room = sum(self.most - v for v in visits)
        if not needed <= left <= room:
            return False
        return self.equal_costs or self._can_afford(visits, left)

    def _can_afford(self, visits: list[int], left: int) -> bool:
        """Whether some choice of the executions to come keeps the cost: which sums can be reached, layer by layer."""
        reached = {(0, self.cost(tuple(visits)))}
        for layer_cost, v in zip(self.costs, visits, strict=True):
            more = range(max(0, self.fewest - v), self.most - v + 1)
            reached = {
                (used + times, spent + times * layer_cost)
                for used, spent in reached
                for times in more
                if used + times <= left and spent + times * layer_cost <= self.dearest
            }
        return any(used == left and spent >= self.cheapest for used, spent in reached)


def bounds_of(
    parameter_depth: int,
    executions: int | tuple[int, int] | None,
    flops: float | tuple[float, float] | None,
    costs: tuple[int, ...] | None,
    max_visits: int | None,
    every_layer: bool,
) -> Bounds:
    """Return the bounds that a `RouteSpace` is given, with what follows from them.

    Raises:
        ExploreError: `invalid-space`, when they are no bounds, or bound nothing.
    """
    N = checked("N", parameter_depth, 1, MOST_LAYERS)
    fewest = 1 if every_layer else 0
    visits = None if max_visits is None else checked("max_visits", max_visits, 1, 10**9)
    paid = _costs(costs, N)
    cheapest, dearest = _spending(flops, sum(paid))
    shortest, longest = _executions(executions)
    shortest = max(shortest, fewest * N)
    ends = [longest, None if visits is None else visits * N]
    ends.append(None if dearest is None else dearest // min(paid))
    known = [end for end in ends if end is not None]
    if not known:
        help = "bound its executions, from the fewest to the most; max_visits or flops bounds a space too"
        raise ExploreError("invalid-space", "nothing says how long a route of this space may be", help=help)
    longest = min(known)
    if dearest is None:
        dearest = longest * max(paid)
    if len(set(paid)) == 1:  # then the cost is a number of executions, and bounds it
        shortest, longest = max(shortest, -(-cheapest // paid[0])), min(longest, dearest // paid[0])
    most = min(longest, visits or longest)
    return Bounds(N, shortest, longest, fewest, max(most, 0), paid, cheapest, dearest)


def checked(name: str, value: object, least: int, most: int) -> int:
    """Return a setting as an integer within its limits.

    Raises:
        ExploreError: `invalid-space`.
    """
    number = as_integer(value)
    if number is None or not least <= number <= most:
        found = value if number is not None else f"a {type(value).__name__}"
        raise ExploreError("invalid-space", f"{name} is an integer of {least:,} to {most:,}; found {found}")
    return number


def checked_route(route: object) -> Route:
    """Return what is given as a route.

    Raises:
        ExploreError: `not-a-route` for a text or anything else.
    """
    if not isinstance(route, Route):
        message = f"a {type(route).__name__} is given where a route is needed"
        raise ExploreError("not-a-route", message, help="dg.route(text) makes a route from a spec")
    return route


def _executions(given: object) -> tuple[int, int | None]:
    if given is None:
        return 1, None
    ends = given if isinstance(given, tuple) and len(given) == 2 else (given, given)
    low, high = (checked("executions", end, 1, 100_000) for end in ends)
    if low > high:
        raise ExploreError("invalid-space", f"executions=({low}, {high}) has its larger end first")
    return low, high


def _costs(given: object, N: int) -> tuple[int, ...]:
    if given is None:
        return (1,) * N
    if not isinstance(given, tuple) or len(given) != N:
        what = f"{len(given)} numbers" if isinstance(given, tuple) else f"a {type(given).__name__}"
        raise ExploreError("invalid-space", f"costs has one number for each of the {N} layers; found {what}")
    costs = tuple(as_cost(each) for each in given)
    return (1,) * N if len(set(costs)) == 1 else costs


def as_cost(value: object) -> int:
    """Return what one execution costs as an integer; FLOPs of a layer are larger than other integers here.

    Raises:
        ExploreError: `invalid-space`.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < 1:
        raise ExploreError("invalid-space", f"a cost is an integer of at least 1; found {value!r}")
    return int(value.__index__())


def _spending(given: object, standard: int) -> tuple[int, int | None]:
    """Return the least and the most that a route may cost, from ratios to what the standard route costs."""
    if given is None:
        return 0, None
    ends: tuple[Any, Any] = given if isinstance(given, tuple) and len(given) == 2 else (0, given)
    for end in ends:
        if isinstance(end, bool) or not isinstance(end, int | float) or not 0 <= end < 1e9:
            message = f"flops is the highest ratio to the standard route, or (lowest, highest); found {given!r}"
            raise ExploreError("invalid-space", message)
    low, high = ends
    if low > high:
        raise ExploreError("invalid-space", f"flops=({low}, {high}) has its larger end first")
    return ceil(low * standard * (1 - TOLERANCE)), floor(high * standard * (1 + TOLERANCE))
