"""What a training config says of the loops of its route, whose counts change from step to step."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, Field

from depthgraph.errors import ConfigError, SpecError
from depthgraph.expand import expand
from depthgraph.parser import parse
from depthgraph.samplers import Count, Fixed, PoissonLogNormal, Schedule, Uniform
from depthgraph.syntax import RouteSpec
from depthgraph.truncation import integer_names, truncated


class LoopSettings(BaseModel):
    """What a training config says of a loop beside how its count is drawn.

    Attributes:
        backprop_last: k: the gradient goes through the last k iterations; through all by default.
        eval: the count at which the model is evaluated; by default that of a `fixed` sampler, or the spec's own.
    """

    backprop_last: Count | None = None
    eval: Count | None = None


class FixedLoop(LoopSettings, Fixed):
    """A loop with a fixed count."""


class UniformLoop(LoopSettings, Uniform):
    """A loop whose counts are equally frequent."""


class PoissonLogNormalLoop(LoopSettings, PoissonLogNormal):
    """A loop with Huginn's counts."""


class ScheduleLoop(LoopSettings, Schedule):
    """A loop whose counts follow a schedule."""


#: A loop of a training config, by its `kind`.
Loop = Annotated[FixedLoop | UniformLoop | PoissonLogNormalLoop | ScheduleLoop, Field(discriminator="kind")]

Loops = Mapping[str, FixedLoop | UniformLoop | PoissonLogNormalLoop | ScheduleLoop]


def loop_fault(loops: Loops, route: str, bindings: Mapping[str, int]) -> str | None:
    """Say what is wrong with loops, if anything is.

    Args:
        loops: by the names of their counts.
        route: the spec that they are for.
        bindings: of its other names, N among them.
    """
    try:
        known = integer_names(parse(route), bindings) if loops else {}
    except SpecError:  # of the route, which is reported on its own
        return None
    for name, loop in loops.items():
        if name == "N":
            return "`N` is model.parameter_depth, and no count of a loop"
        if name in bindings:
            return f"`{name}` is bound by `bindings`, and is the count of a loop"
        if name not in known:
            listed = ", ".join(f"`{each}`" for each in known) or "none"
            return f"the route has no name `{name}` for the count of a loop; its names are {listed}"
        if loop.eval is None and loop.usual is None and known[name] is None:
            return f"`loops.{name}` says no `eval`, the count at which the model is evaluated"
    return None


def evaluated(loops: Loops, route: str, bindings: Mapping[str, int]) -> dict[str, int]:
    """Return the counts at which a model is evaluated; the arguments are those of `loop_fault`, which found none."""
    known = integer_names(parse(route), bindings) if loops else {}
    return {name: loop.eval or loop.usual or known[name] or 1 for name, loop in loops.items()}


def cut(loops: Loops) -> dict[str, int]:
    """Return the loops whose gradient is cut: how many iterations keep it."""
    return {name: loop.backprop_last for name, loop in loops.items() if loop.backprop_last is not None}


def check_loops(spec: RouteSpec, loops: Loops, bindings: Mapping[str, int]) -> None:
    """Check that a spec means a route at the smallest and at the largest counts that can be drawn.

    Raises:
        ConfigError: it means none, or its gradient cannot be cut as the loops say; with its place in the spec.
    """
    for end in (0, 1):
        counts = {name: loop.bounds[end] or loop.bounds[0] for name, loop in loops.items()}
        try:
            expand(truncated(spec, cut(loops), {**bindings, **counts}), {**bindings, **counts})
        except SpecError as error:
            said = ", ".join(f"{name}={count}" for name, count in counts.items())
            message = f"at {said}, which `loops` can draw: {error.message}"
            raise ConfigError("invalid-config", message, error.source, error.span, help=error.help) from error
