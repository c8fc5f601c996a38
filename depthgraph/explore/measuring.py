"""What can be measured on a route: one row of a table of routes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from depthgraph.decoder_config import DecoderConfig
from depthgraph.decoder_cost import decoder_cost
from depthgraph.explore.bounds import checked_route
from depthgraph.route import Route

#: bytes of an element of a KV cache in bfloat16.
BYTES = 2


@dataclass(frozen=True)
class Scale:
    """What one execution and one layer cost.

    Without a model, FLOPs are a ratio to those of the standard route, the KV cache is counted in slots, one for each
    execution, and parameters in layers.

    Attributes:
        costs: of one execution of each layer.
        head: what is paid once, whatever the route is.
        whole: what `flops` is divided by: those of the standard route; 0 where they are FLOPs themselves.
        slot: of the KV cache, what one execution takes.
        layer: parameters of a layer.
        rest: parameters outside of the layers.
    """

    costs: tuple[int, ...]
    head: int
    whole: int
    slot: int
    layer: int
    rest: int


def relative(parameter_depth: int, costs: tuple[int, ...] | None = None) -> Scale:
    """Return the scale without a model.

    Args:
        parameter_depth: N.
        costs: of one execution of each layer, in any unit; equal by default.
    """
    paid = costs or (1,) * parameter_depth
    return Scale(paid, head=0, whole=sum(paid), slot=1, layer=1, rest=0)


def scale_of(config: DecoderConfig, length: int | None = None) -> Scale:
    """Return the scale of the reference decoder: FLOPs of the forward pass of one sequence, bytes of its KV cache.

    Args:
        config: the decoder's settings.
        length: T, tokens; config.context by default.
    """
    N = config.parameter_depth
    standard = decoder_cost(config, Route.of(range(1, N + 1)), length)
    execution = standard.layers.total // N
    layer = config.model_copy(update={"parameter_depth": N + 1}).parameter_count - config.parameter_count
    slot = BYTES * standard.kv_elements // N
    return Scale((execution,) * N, standard.head_flops, 0, slot, layer, config.parameter_count - N * layer)


class Measures(NamedTuple):
    """The measures of a route.

    Attributes:
        executions: E.
        multiplier: E / N.
        layers: how many different layers run.
        max_visits: the most visits of a layer.
        longest_return: the most executions from one visit of a layer to its next, 0 where none runs twice.
        flops: of all executions, and of the output head where the scale has one.
        kv: of the KV cache, with a slot for each execution.
        parameters: of the layers that run, and of what is outside of layers where the scale has it.
    """

    executions: int
    multiplier: float
    layers: int
    max_visits: int
    longest_return: int
    flops: float
    kv: int
    parameters: int


#: name → the measure, for those that need more than one pass over the path: the canonical text takes longest.
LATE: Mapping[str, Callable[[Route], int]] = {"text_length": lambda route: len(route.text)}

#: Everything that a table of routes can be sorted by.
NAMES = (*Measures._fields, *LATE)


def measures(route: Route, scale: Scale | None = None) -> Measures:
    """Measure a route.

    Operations of data flow are no part of `flops`; a `mix` has a matrix product, which `dg.cost` counts.

    Args:
        route: any route.
        scale: what executions and layers cost; without one, as `relative`.

    Examples:
        >>> import depthgraph as dg
        >>> found = measures(dg.route("lft(5)"))
        >>> found.multiplier, found.max_visits, found.longest_return
        (2.2, 3, 2)
    """
    path, N = checked_route(route).path, route.parameter_depth
    visits = route.reuse_map
    scale = scale or relative(N)
    E, layers = len(path), N - len(route.dropped)
    paid = scale.head + sum(map(int.__mul__, scale.costs, visits))
    return Measures(
        E,
        E / N,
        layers,
        max(visits),
        longest_return(path),
        paid / scale.whole if scale.whole else paid,
        E * scale.slot,
        layers * scale.layer + scale.rest,
    )


def longest_return(path: tuple[int, ...]) -> int:
    """Return the most executions from one visit of a layer to its next.

    Examples:
        >>> longest_return((1, 2, 3, 2, 3)), longest_return((1, 2, 3))
        (2, 0)
    """
    last: dict[int, int] = {}
    longest = 0
    for position, layer in enumerate(path):
        before = last.get(layer, position)
        if position - before > longest:
            longest = position - before
        last[layer] = position
    return longest
