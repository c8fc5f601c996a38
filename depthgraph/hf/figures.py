"""What a Hugging Face model is and what a route over its layers costs, counted without its weights.

The model runs once on the meta device, under torch's own `FlopCounterMode`, with a cache. FLOPs follow the convention
of docs/cost.md: a multiplication and its addition are 2, and attention is counted whole, with the pairs that a causal
mask hides. Unlike `dg.cost`, which counts layers alone, the output matrix is counted too: a user of a model runs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from depthgraph.errors import CostError, DepthGraphError
from depthgraph.hf.find import find_layers
from depthgraph.hf.reroute import reroute, restore
from depthgraph.hf.slots import CachePolicy, Slots
from depthgraph.nn.meter import first_line
from depthgraph.route import Route

#: Tokens in the cache that is measured: few, so that the shortest of sliding windows holds them all.
MEASURED = 2


@dataclass(frozen=True)
class Figures:
    """What a model is.

    Attributes:
        model: without data, and without a route.
        length: T, tokens of the sequence that FLOPs are counted on.
        parameter_depth: N.
        flops: of one forward of T tokens; None where the model does not run without data.
        layer_flops: those of them in each layer.
        kv_bytes: what one execution of each layer adds to the cache for a token; None where a layer keeps no keys and
            values, or the model does not run without data.
        fault: why it does not; empty where it does.
    """

    model: PreTrainedModel
    length: int
    parameter_depth: int
    flops: int | None = None
    layer_flops: tuple[int, ...] = ()
    kv_bytes: tuple[int, ...] | None = None
    fault: str = ""
    _counted: dict[Route, int] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, model: PreTrainedModel, length: int) -> "Figures":
        """Count a model.

        Args:
            model: on the meta device, without a route.
            length: T.

        Raises:
            CompileError: `unroutable-model`.
        """
        layers = find_layers(model)
        N = len(layers.modules)
        try:
            counter, kv_bytes = _counted(model, length), _kv_bytes(model)
        except CostError as error:
            return cls(model, length, N, fault=error.message)
        counts = counter.get_flop_counts()
        names = [f"{type(model).__name__}.{layers.prefix}{index}" for index in range(N)]
        per_layer = tuple(sum(counts.get(name, {}).values()) for name in names)
        return cls(model, length, N, counter.get_total_flops(), per_layer, kv_bytes)

    @property
    def width(self) -> int:
        """The size of the hidden state."""
        return int(self.model.config.get_text_config(decoder=True).hidden_size)

    @property
    def parameters(self) -> int:
        """Of the whole model, each once, tied ones too."""
        return _size(self.model)

    def parameters_under(self, route: Route) -> int:
        """Return the parameters of the model under a route: those of the model, and of the route's `mix` and `gate`."""
        if route.is_chain:
            return self.parameters
        return self._under(route, _size)

    def flops_under(self, route: Route) -> int | None:
        """Return the FLOPs of one forward of T tokens under a route; None where the model does not run without data."""
        if self.flops is None:
            return None
        if route.is_chain:
            visits = route.reuse_map
            return self.flops + sum((n - 1) * flops for n, flops in zip(visits, self.layer_flops, strict=True))
        if route not in self._counted:
            self._counted[route] = self._under(route, lambda model: _counted(model, self.length).get_total_flops())
        return self._counted[route]

    def _under(self, route: Route, measure: Any) -> int:
        reroute(self.model, route)
        try:
            return int(measure(self.model))
        finally:
            restore(self.model)

    def kv_bytes_under(self, route: Route, policy: CachePolicy) -> int | None:
        """Return what a token adds to the cache under a route: one part for each slot."""
        if self.kv_bytes is None:
            return None
        slots = Slots.of(route.path, route.parameter_depth, policy)
        return sum(self.kv_bytes[layer - 1] for layer in slots.layers)

    @property
    def attention(self) -> Mapping[str, tuple[int, ...]]:
        """The kinds of attention, with the layers that have them; empty where the config tells none apart.

        The window of `sliding attention` is named with it, in tokens.
        """
        config = self.model.config.get_text_config(decoder=True)
        kinds = list(getattr(config, "layer_types", None) or ())
        window = getattr(config, "sliding_window", None)
        if not kinds and window:
            kinds = ["sliding_attention"] * self.parameter_depth
        if len(kinds) != self.parameter_depth:
            return {}
        found: dict[str, tuple[int, ...]] = {}
        for kind, pairs in groupby(sorted((kind, layer) for layer, kind in enumerate(kinds, 1)), lambda pair: pair[0]):
            name = kind.replace("_", " ")
            name += f" (window of {window:,} tokens)" if kind == "sliding_attention" and window else ""
            found[name] = tuple(layer for _, layer in pairs)
        return found


def _size(model: PreTrainedModel) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _run(model: PreTrainedModel, length: int) -> Any:
    """Run a model without data, with a cache: without one, models look at values of positions for packed sequences."""
    ids = torch.zeros(1, length, dtype=torch.long, device="meta")
    try:
        with torch.no_grad():
            return model(input_ids=ids, use_cache=True)
    except DepthGraphError:
        raise
    except Exception as error:  # a model may do anything
        message = f"{type(model).__name__} does not run without data: {first_line(error)}"
        raise CostError("cannot-count", message, help="a model that looks at values cannot be counted") from error


def _counted(model: PreTrainedModel, length: int) -> FlopCounterMode:
    counter = FlopCounterMode(display=False)
    with counter:
        _run(model, length)
    return counter


def _kv_bytes(model: PreTrainedModel) -> tuple[int, ...] | None:
    """Return what a token takes in each entry of the cache that the model makes."""
    output = _run(model, MEASURED)
    cache = output.get("cache", None) or output.get("past_key_values", None)
    layers = getattr(cache, "layers", ()) if isinstance(cache, Cache) else ()
    found = [
        (layer.keys.nbytes + layer.values.nbytes) // layer.keys.shape[-2]
        for layer in layers
        if isinstance(getattr(layer, "keys", None), torch.Tensor) and layer.keys.numel()
    ]
    return tuple(found) if len(found) == len(find_layers(model).modules) else None
