"""What a route costs over layers, before anything is built: `dg.cost`. docs/cost.md has the conventions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast, get_args

import torch
from torch import Tensor, nn

from depthgraph.costs import Attention, Cost
from depthgraph.errors import CostError
from depthgraph.nn.checks import check_layers
from depthgraph.nn.compile import as_route
from depthgraph.nn.count import Hidden
from depthgraph.nn.inputs import Constants, bind_constants, choose_inputs
from depthgraph.nn.meter import Given, Meter
from depthgraph.nn.signature import Returns, read_signature
from depthgraph.nn.tally import Batch, KvBytes, tally
from depthgraph.nn.weights import weights_of
from depthgraph.operations import Execution
from depthgraph.route import Route, as_integer

if TYPE_CHECKING:
    import networkx as nx

#: The layers: modules, or a function that makes layer 1 … N from its number.
Layers = Iterable[nn.Module] | Callable[[int], nn.Module]


def cost(
    route: "Route | nx.DiGraph[Any]",
    layers: Layers,
    *,
    batch: int | None = None,
    length: int | None = None,
    width: int | None = None,
    example: Tensor | None = None,
    inputs: Mapping[str, Any] | None = None,
    per_execution: Callable[[Execution], Constants | None] | None = None,
    returns: Returns = "auto",
    weights: Mapping[str, nn.Module] | None = None,
    allow_shared: bool = False,
    attention: Attention = "products",
    kv_bytes_per_token: KvBytes | None = None,
    needs_grad: bool = True,
    exit_losses: bool = True,
) -> Cost:
    """Count what layers cost under a route: parameters, FLOPs, KV cache, saved activations.

    Each layer is counted once by torch's own `FlopCounterMode`, on a copy without data, and multiplied by its visits;
    FLOPs equal the counter's on the whole compiled model on the meta device. (It is counted once more where it meets
    another kind of hidden state: of another dtype or layout, or behind `stopgrad`.) Nothing is computed, and the layers
    stay as they are. Only layers are counted: embeddings, output head and loss are no part of a route.

    Args:
        route: a route, or a graph of one in networkx, which is verified.
        layers: the N layers, on any device, the meta device too; or a function that makes layer `number`, which is
            called on the meta device, so that a model too large for this machine can be counted.
        batch: B, sequences; 1 by default.
        length: T, tokens in a sequence.
        width: d, the size of the hidden state, for hidden states [B, T, d]. By default it is seen from the layers,
            where their weights allow one size only.
        example: a hidden state instead, where it has another shape or dtype; of the meta device, if you like. B and
            T are then its first two dimensions, unless they are given.
        inputs: what the layers' forwards need beside the hidden state, name → value, for this batch and length. Of
            tensors only shape and dtype are used.
        per_execution: as for `compile`.
        returns: as for `compile`.
        weights: as for `compile`, of `mix` and `gate`.
        allow_shared: as for `compile`.
        attention: `products` counts attention as two matrix products whose scores are kept, as the meta device
            computes it; `fused` counts a fused kernel, which keeps no scores and computes them once more in
            backward, as `scaled_dot_product_attention` does on CPU and GPU.
        kv_bytes_per_token: what an execution adds to a KV cache for a token, of any layer or by its number. By
            default it is what the keys and values take that go into `scaled_dot_product_attention`.
        needs_grad: whether the hidden state that comes in needs a gradient, as it does behind an embedding that is
            trained.
        exit_losses: whether the exits have a loss, as the output has.

    Raises:
        CostError: `cannot-count`, `unknown-width` or `wrong-size`.
        CompileError: as for `compile`.
        GraphError: the networkx graph breaks rules.

    Examples:
        >>> from torch import nn
        >>> from depthgraph.route import Route
        >>> layers = [nn.TransformerEncoderLayer(64, nhead=4, dim_feedforward=256, batch_first=True) for _ in range(3)]
        >>> standard, reused = (cost(Route.of(path), layers, length=128) for path in ([1, 2, 3], [1, 2, 1, 2, 3]))
        >>> standard.parameters == reused.parameters == 149_952
        True
        >>> reused.unshared_parameters, reused.visits
        (249920, (2, 2, 1))
        >>> reused.forward_flops / standard.forward_flops == reused.kv_bytes / standard.kv_bytes == 5 / 3
        True
    """
    for name, value, allowed in (("returns", returns, Returns), ("attention", attention, Attention)):
        if value not in get_args(allowed):
            raise ValueError(f"{name} is one of {', '.join(get_args(allowed))}; found {value!r}")
    route = as_route(route)
    modules = check_layers(route, _made(route, layers), allow_shared)
    running = {number: modules[number - 1] for number in sorted(set(route.path))}
    signatures = {number: read_signature(number, module) for number, module in running.items()}
    constants = bind_constants(route, signatures, per_execution)
    chosen = choose_inputs(route, signatures, constants, tuple(inputs or ()))
    meter = Meter(running, signatures, Given.of(chosen, inputs or {}, returns), attention == "fused")
    first, bound = route.executions[0].layer, constants[0]
    if example is None:
        sizes = _size("batch", 1 if batch is None else batch), _size("length", length)
        width = _seen_width(meter, first, bound, sizes) if width is None else _size("width", width)
        example = torch.empty(*sizes, width, dtype=_dtype(running[first]), device="meta")
    B, T = _sizes(example, batch, length)
    hidden = Hidden(tuple(example.shape), example.stride(), example.dtype, needs_grad)
    meter = replace(meter, weights=_weights(route, meter, example.shape[-1], weights))
    bound_to = dict(zip(route.executions, constants, strict=True))
    return tally(route, modules, meter, Batch(B, T, hidden, attention, kv_bytes_per_token, exit_losses), bound_to)


def _made(route: Route, layers: Layers) -> Iterable[nn.Module]:
    """Return the layers; those that a function makes are made without data."""
    if isinstance(layers, Iterable | nn.Module) or not callable(layers):  # modules can be called too
        return cast(Iterable[nn.Module], layers)
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return [layers(number) for number in range(1, route.parameter_depth + 1)]


def _weights(route: Route, meter: Meter, width: int, weights: Mapping[str, nn.Module] | None) -> dict[str, nn.Module]:
    """Return the modules of `mix` and `gate`; new ones have no data."""
    twins = [meter.layer(number).module for number in meter.modules]
    with torch.device("meta"):
        return weights_of(route, twins, width, weights)


def _size(name: str, value: object) -> int:
    size = as_integer(value)
    if size is None or size < 1:
        found = "it is missing" if value is None else f"found {value!r}"
        raise CostError(
            "wrong-size", f"{name} is an integer from 1; {found}", help="give batch=, length= and width=, or example="
        )
    return size


def _sizes(example: Tensor, batch: int | None, length: int | None) -> tuple[int, int]:
    """Return batch and length of a hidden state: what is given, or its first two dimensions."""
    if not isinstance(example, Tensor) or example.dim() < 2:
        found = f"one of shape {tuple(example.shape)}" if isinstance(example, Tensor) else type(example).__name__
        raise CostError(
            "wrong-size",
            f"example is a hidden state with its tokens before its width; found {found}",
            help='give a tensor, torch.empty(2, 8, 64, device="meta") for a shape alone',
        )
    sizes = example.shape[:-1]
    B = _size("batch", batch if batch is not None else sizes[0] if len(sizes) > 1 else 1)
    T = _size("length", length if length is not None else sizes.numel() // B)
    if sizes.numel() != B * T:
        raise CostError(
            "wrong-size",
            f"example has {sizes.numel()} tokens, and batch · length = {B} · {T} = {B * T}",
            help="leave batch and length out, or give those that example has",
        )
    return B, T


def _dtype(module: nn.Module) -> torch.dtype:
    """Return the dtype of a layer's first weight of real numbers."""
    found = (tensor.dtype for tensor in module.parameters() if tensor.is_floating_point())
    return next(found, torch.get_default_dtype())


def _seen_width(meter: Meter, layer: int, bound: Constants, sizes: tuple[int, int]) -> int:
    """Return the one width that the first layer runs with.

    The sizes of its weights are tried, without data. A layer that runs with another width as well says nothing.
    """
    twin = meter.layer(layer).module
    tensors = (*twin.parameters(), *twin.buffers())
    candidates = sorted({size for tensor in tensors for size in tensor.shape})
    found = [width for width in candidates if _runs(meter, layer, (*sizes, width), bound)]
    if len(found) == 1 and not _runs(meter, layer, (*sizes, found[0] + 1), bound):
        return found[0]
    title = meter.signatures[layer].title
    runs = f"runs with more than one, among them {found[0]}" if found else f"runs with none of its sizes {candidates}"
    raise CostError(
        "unknown-width",
        f"the width of the hidden state cannot be seen from {title}: it {runs}",
        help="give width=, or example= with a hidden state, and inputs= with what the layers need beside it",
    )


def _runs(meter: Meter, layer: int, shape: tuple[int, ...], bound: Constants) -> bool:
    """Return whether a layer returns a hidden state of the shape that it is given."""
    hidden = torch.empty(shape, dtype=_dtype(meter.modules[layer]), device="meta")
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), torch.device("meta"):
            return meter.run(layer, hidden, bound).shape == hidden.shape
    except Exception:  # a layer raises what it likes at a wrong width; what it raises at the right one is reported
        return False
