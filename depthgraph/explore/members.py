"""The routes of a pattern: its names take their values, and what keeps the bounds is a member."""

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

from depthgraph.errors import ExploreError, SpecError
from depthgraph.expand import expand
from depthgraph.explore.bounds import Bounds
from depthgraph.explore.patterns import Pattern
from depthgraph.parser import DEFAULT_LIMITS, Limits
from depthgraph.route import Route

#: Values of names that are tried at most, leaving counts aside.
MOST_BINDINGS = 20_000

#: Kinds of error that say: with these values the spec means no route of this model. Others say that it never does.
NO_MEMBER = {
    "unknown-layer", "unused-layer", "dropped-layer-runs", "empty-route", "bad-count", "too-many-executions",
    "division-by-zero", "descending-range", "number-too-large", "empty-branch",
}  # fmt: skip

#: Kinds that come and go with the values too, where a range or a comprehension is empty at some; they are told only if
#: no values give a route.
NO_MEMBER_HERE = {"unused-register", "unknown-register", "unused-result"}

Values = dict[str, int]


def members(pattern: Pattern, bounds: Bounds) -> Iterator[tuple[Route, Values]]:
    """Yield the routes of a pattern that keep the bounds, each with the values of names that mean it.

    One route may come several times, for different values.

    Raises:
        SpecError: the pattern means no route, whatever its names are.
        ExploreError: `space-too-large`, for more values than `MOST_BINDINGS`.
    """
    if bounds.shortest > bounds.longest:
        return
    tried = prod(map(len, pattern.numbers.values()))
    if tried > MOST_BINDINGS:
        sizes = ", ".join(f"{name}: {len(values):,}" for name, values in pattern.numbers.items())
        help = f"give ranges behind it, as in `… for {next(iter(pattern.numbers))} in 0..4`; now there are {sizes}"
        message = f"`{pattern.text}` has {tried:,} choices of values, over the limit of {MOST_BINDINGS:,}"
        raise ExploreError("space-too-large", message, help=help)
    fault: SpecError | None = None
    gives_routes = False
    for chosen in product(*pattern.numbers.values()):
        values = dict(zip(pattern.numbers, chosen, strict=True))
        found = _expanded(pattern, {**values, **_least(pattern.counts)}, bounds)
        if isinstance(found, SpecError):
            fault = fault or (found if found.code in NO_MEMBER_HERE else None)
            continue
        gives_routes = True
        if found.execution_depth <= bounds.longest:
            yield from _counted(pattern, values, dict(pattern.counts), found, bounds)
    if fault is not None and not gives_routes:
        raise fault


def _counted(
    pattern: Pattern, values: Values, counts: dict[str, range], shortest: Route, bounds: Bounds
) -> Iterator[tuple[Route, Values]]:
    """Yield the members with these values of the first names, for all values of the counts that are left.

    Counts are tried from the smallest, which give `shortest`: once there is no route, or the same as with the count
    before, a larger count adds nothing.
    """
    if not counts:
        if bounds.admits(shortest):
            yield shortest, values
        return
    (name, tried), *rest = counts.items()
    route: Route | None = shortest
    for count in tried:
        if count != tried[0]:
            before, route = route, _route(pattern, {**values, name: count, **_least(dict(rest))}, bounds)
            if route == before:
                return
        if route is None:
            return
        yield from _counted(pattern, {**values, name: count}, dict(rest), route, bounds)


def _least(counts: Mapping[str, range]) -> Values:
    return {name: tried[0] for name, tried in counts.items()}


def _route(pattern: Pattern, values: Values, bounds: Bounds) -> Route | None:
    """Return the route of these values; None where they mean none of this model, or one that is too long."""
    found = _expanded(pattern, values, bounds)
    return found if isinstance(found, Route) and found.execution_depth <= bounds.longest else None


def _expanded(pattern: Pattern, values: Values, bounds: Bounds) -> Route | SpecError:
    """Return the route of these values, or why they mean none of this model."""
    N = bounds.parameter_depth
    # operations of data flow count towards the limit too, so that it cannot be that of the executions
    limits = DEFAULT_LIMITS if pattern.has_data_flow else Limits(executions=max(N, bounds.longest))
    try:
        return expand(pattern.spec, {"N": N, **values}, limits)
    except SpecError as error:
        if error.code in NO_MEMBER | NO_MEMBER_HERE:
            return error
        raise
