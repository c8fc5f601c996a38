"""Adds up what the executions and operations of a route cost."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from torch import nn

from depthgraph.costs import Attention, Cost, Flops, PartCost
from depthgraph.errors import CostError
from depthgraph.flow import State
from depthgraph.nn.count import CallCount, Hidden
from depthgraph.nn.inputs import Constants
from depthgraph.nn.meter import Meter
from depthgraph.nn.weights import name_of, weighted
from depthgraph.operations import Execution, Exit, Gate, Mix
from depthgraph.route import Route, as_integer

#: The bytes that an execution of a layer adds to a KV cache for a token: of any layer, or by a layer's number.
KvBytes = int | Callable[[int], int]


class Batch(NamedTuple):
    """What runs through the layers.

    Attributes:
        batch: B, sequences.
        length: T, tokens in a sequence.
        hidden: the hidden state that comes in.
        attention: how attention is computed.
        kv_bytes_per_token: the caller's word; None for what is seen.
        exit_losses: whether backward starts from the exits too.
    """

    batch: int
    length: int
    hidden: Hidden
    attention: Attention
    kv_bytes_per_token: KvBytes | None
    exit_losses: bool


class Step(NamedTuple):
    """What computes one hidden state of a route.

    Attributes:
        state: the state.
        reads: the indices of the states that it is computed from; the input is 0, the first step computes state 1.
        cost: what it costs.
        kv_bytes: of an execution; None where they are not known.
        is_trained: whether backward comes through it.
    """

    state: State
    reads: tuple[int, ...]
    cost: CallCount
    kv_bytes: int | None = None
    is_trained: bool = False

    @property
    def layer(self) -> int | None:
        """The layer that it runs."""
        operation = self.state.operation
        return operation.layer if isinstance(operation, Execution) else None

    @property
    def backward(self) -> Flops:
        """FLOPs of its backward."""
        return self.cost.backward if self.is_trained else Flops()


def tally(
    route: Route, modules: Sequence[nn.Module], meter: Meter, batch: Batch, bound: Mapping[Execution, Constants]
) -> Cost:
    """Add up the cost of a route.

    Args:
        route: what runs.
        modules: all N layers.
        meter: counts them.
        batch: what runs through them.
        bound: the constants of each execution.

    Raises:
        CostError: as `cost` says.
        CompileError: as `cost` says.
    """
    every = list(_steps(route, meter, batch, bound))
    steps = _trained(route, every, batch.exit_losses)
    own, unused = _parameters(route, [*modules, *meter.weights.values()])
    ran = [modules[each.layer - 1] for each in route.executions] + [
        meter.weights[name_of(each)] for each in weighted(route)
    ]
    sizes: dict[int, list[int | None]] = {}
    for step in steps:
        if step.layer is not None:
            sizes.setdefault(step.layer, []).append(step.kv_bytes)
    return Cost(
        route=route,
        batch=batch.batch,
        length=batch.length,
        attention=batch.attention,
        parameters=own,
        unused_parameters=unused,
        unshared_parameters=sum(map(_count_of, ran)),
        forward=_added(step.cost.forward for step in steps),
        backward=_added(step.backward for step in steps),
        kv_bytes=_known_sum(size for visits in sizes.values() for size in visits),
        shared_kv_bytes=_known_sum(_largest(visits) for visits in sizes.values()),
        saved_bytes=_saved_bytes(_trained(route, every, exit_losses=True), batch.hidden),  # exits hold theirs
        parts=tuple(_parts(steps, modules, meter)),
    )


def _steps(route: Route, meter: Meter, batch: Batch, bound: Mapping[Execution, Constants]) -> Iterator[Step]:
    """Count what computes each state, in order: what a step returns is what the next ones are counted with."""
    hiddens = [batch.hidden]
    for state in route.flow.states[1:]:
        reads = tuple(read.state for read in state.reads)
        operation = state.operation
        given = [hiddens[read] for read in reads]
        if isinstance(operation, Execution):
            count = meter.count(state, given, bound[operation])
            yield Step(state, reads, count, _kv_bytes(operation.layer, count, batch))
        else:
            count = meter.count(state, given, {})
            yield Step(state, reads, count)
        hiddens.append(count.saved.output)


def _kv_bytes(layer: int, count: CallCount, batch: Batch) -> int | None:
    said = batch.kv_bytes_per_token
    if said is None:
        return count.kv_bytes
    a_token = as_integer(said(layer) if callable(said) else said)
    if a_token is None or a_token < 0:
        raise CostError(
            "wrong-size",
            f"kv_bytes_per_token is no number of bytes for layer {layer}",
            help="give an integer from 0, or a function of a layer's number that returns one",
        )
    return a_token * batch.batch * batch.length


def _trained(route: Route, every: Sequence[Step], exit_losses: bool) -> list[Step]:
    """Mark the steps that backward comes through, from the output and from exits with a loss on."""
    steps, needed = list(every), {route.flow.output.state}
    for index in range(len(steps), 0, -1):
        step = steps[index - 1]
        is_end = index in needed or (exit_losses and isinstance(step.state.operation, Exit))
        if is_end and step.cost.saved.output.needs_grad:
            steps[index - 1] = step._replace(is_trained=True)
            needed |= {read for read, reached in zip(step.reads, step.cost.reaches, strict=True) if reached}
    return steps


def _saved_bytes(steps: Sequence[Step], hidden: Hidden) -> int:
    """Return the bytes that autograd keeps: each hidden state once, whoever keeps it, and what steps keep besides.

    A state that lies in the memory of another one (`stopgrad` makes such a state) counts as that one.
    """
    first = hidden.empty().untyped_storage().nbytes()
    places, sizes = [0], [first]
    kept: set[int] = set()
    total = 0
    for index, step in enumerate(steps, 1):
        count = step.cost.saved
        places.append(index if count.source is None else places[step.reads[count.source]])
        sizes.append(count.output_bytes)
        if step.is_trained:
            total += count.saved_bytes
            kept |= {places[read] for read, keeps in zip(step.reads, count.keeps, strict=True) if keeps}
            kept |= {places[index]} if count.keeps_output else set()
    return total + sum(sizes[place] for place in kept)


def _count_of(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _parameters(route: Route, modules: Sequence[nn.Module]) -> tuple[int, int]:
    """Return how many parameters the layers have, each once, and how many of them only dropped layers have."""
    sizes: dict[int, int] = {}
    used: set[int] = set()
    for number, module in enumerate(modules, 1):
        own = {id(parameter): parameter.numel() for parameter in module.parameters()}
        sizes |= own
        used |= set() if number in route.dropped else own.keys()
    return sum(sizes.values()), sum(size for key, size in sizes.items() if key not in used)


def _added(flops: Iterable[Flops]) -> Flops:
    return sum(flops, Flops())


def _known_sum(sizes: Iterable[int | None]) -> int | None:
    """Return a sum, None where a summand is not known."""
    known = list(sizes)
    return None if None in known else sum(size for size in known if size is not None)


def _largest(sizes: Sequence[int | None]) -> int | None:
    return None if None in sizes else max(size for size in sizes if size is not None)


def _parts(steps: Sequence[Step], modules: Sequence[nn.Module], meter: Meter) -> Iterator[PartCost]:
    """Yield the layers that run, in order, and then the operations with weights, by site."""
    for layer in sorted({step.layer for step in steps if step.layer is not None}):
        runs = [step for step in steps if step.layer == layer]
        yield _part(meter.signatures[layer].title, layer, runs, _count_of(modules[layer - 1]))
    for name, module in meter.weights.items():
        runs = [
            step
            for step in steps
            if isinstance(step.state.operation, Mix | Gate) and name_of(step.state.operation) == name
        ]
        yield _part(name, None, runs, _count_of(module))


def _part(name: str, layer: int | None, runs: Sequence[Step], parameters: int) -> PartCost:
    kv_bytes = 0 if layer is None else _known_sum(step.kv_bytes for step in runs)
    forward, backward = _added(step.cost.forward for step in runs), _added(step.backward for step in runs)
    return PartCost(name, layer, len(runs), parameters, forward, backward, kv_bytes)
