"""Routes for hyperparameter search: a space as the parameters of a trial, in the way of Optuna, which is not imported.

A sampler learns over parameters that are the same in every trial: names and ranges here depend on the space alone.
Each set of values means one route of the space, and each route is meant by some, so that trials can be enqueued,
resumed from storage and compared.
"""

from typing import Any, Protocol

from depthgraph.errors import ExploreError
from depthgraph.explore.generators import shown_count
from depthgraph.explore.parts import Ordered
from depthgraph.explore.space import RouteSpace
from depthgraph.route import Route

#: The most routes that one integer of a trial stands for; samplers compute with floats.
MOST_NUMBERED = 2**53


class Trial(Protocol):
    """What is needed of a trial: `optuna.trial.Trial`, `FixedTrial` and `FrozenTrial` have it."""

    def suggest_int(self, name: str, low: int, high: int) -> int:
        """Return the trial's value of a parameter."""

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keep a fact with the trial."""


def suggest_route(trial: Trial, space: RouteSpace, prefix: str = "") -> Route:
    """Return the route of a trial, and keep its text as the trial's attribute `route`.

    The parameters, all integers:

    - of `ilr`: `visits_1` … `visits_N`, the reuse map;
    - of all paths: `executions`, and `position_1`, `position_2` … up to the most executions, the layer that runs there;
    - of other patterns: `route`, the index in the order of `space.enumerate()`, in which neighbours are alike.

    A value that no route of the space could have, after those before it, stands for the next one that some route has:
    for `visits` the nearest, for `position` the next layer, from N on to 1. A trial whose values are those of a route
    means that route.

    Args:
        trial: of a study.
        space: the routes; the same in all trials of a study.
        prefix: put before every name, where a trial has several routes.

    Raises:
        ExploreError: `empty-space`; `space-too-large` for other patterns with more than 2**53 routes.

    Examples:
        >>> from depthgraph.explore import RouteSpace
        >>> space = RouteSpace(4, executions=(4, 8), patterns="ilr")
        >>> trial_parameters(Route.of((1, 1, 2, 3, 3, 4)), space)
        {'visits_1': 2, 'visits_2': 1, 'visits_3': 2, 'visits_4': 1}
    """
    part = _part(space)
    route = _suggested(trial, space, part, prefix)
    trial.set_user_attr(f"{prefix}route", route.text)
    return route


def trial_parameters(route: Route, space: RouteSpace, prefix: str = "") -> dict[str, int]:
    """Return the parameters that mean a route: what `study.enqueue_trial` takes.

    Args:
        route: of the space.
        space: as for `suggest_route`.
        prefix: as for `suggest_route`.

    Raises:
        ExploreError: `not-in-space`.
    """
    index = space.index(route)
    part = _part(space)
    if part is None:
        return {f"{prefix}route": index}
    if part.in_a_row:
        return {f"{prefix}visits_{layer}": times for layer, times in enumerate(route.reuse_map, 1)}
    path = (*route.path, *[1] * (part.lengths[-1] - route.execution_depth))
    named = {f"{prefix}position_{position}": layer for position, layer in enumerate(path, 1)}
    return {f"{prefix}executions": route.execution_depth, **named}


def _part(space: RouteSpace) -> Ordered | None:
    """Return the one part of a space of paths or of reuse maps; none where its routes are listed."""
    if not space.count():
        raise ExploreError("empty-space", "a trial has no route to take: the space has none", help="give wider bounds")
    return space.ordered if space.listed is None else None


def _suggested(trial: Trial, space: RouteSpace, part: Ordered | None, prefix: str) -> Route:
    if part is None:
        if space.count() > MOST_NUMBERED:
            message = f"{shown_count(space.count())} routes of several patterns are too many for one parameter"
            raise ExploreError("space-too-large", message, help="give the patterns one by one")
        return space.at(trial.suggest_int(f"{prefix}route", 0, space.count() - 1))
    bounds, longest = part.bounds, part.lengths[-1]
    if part.in_a_row:
        wanted = [trial.suggest_int(f"{prefix}visits_{n}", bounds.fewest, bounds.most) for n in range(1, space.N + 1)]
        visits = part.nearest_visits(wanted)
        return Route.of((layer for layer, times in enumerate(visits, 1) for _ in range(times)), space.N)
    executions = trial.suggest_int(f"{prefix}executions", part.lengths[0], longest)
    wanted = [trial.suggest_int(f"{prefix}position_{n}", 1, space.N) for n in range(1, longest + 1)]
    length = next(E for E in part.lengths if executions <= E)
    return Route.of(part.nearest_path(wanted[:length]), space.N)
