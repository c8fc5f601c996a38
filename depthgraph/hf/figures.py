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
        flops: of one forward of T tokens.
        layer_flops: those of them in each layer.
        kv_bytes: what one execution of each layer adds to the cache for a token; None where a layer keeps no keys and
            values.
    """

    model: PreTrainedModel
    length: int
    flops: int
    layer_flops: tuple[int, ...]
    kv_bytes: tuple[int, ...] | None
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
        counter = _counted(model, length)
        counts = counter.get_flop_counts()
        names = [f"{type(model).__name__}.{layers.prefix}{index}" for index in range(len(layers.modules))]
        per_layer = tuple(sum(counts.get(name, {}).values()) for name in names)
        return cls(model, length, counter.get_total_flops(), per_layer, _kv_bytes(model))

    @property
    def parameter_depth(self) -> int:
        """N."""
        return len(self.layer_flops)

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

    def flops_under(self, route: Route) -> int:
        """Return the FLOPs of one forward of T tokens under a route."""
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
        if len(kinds) != self.parameter_depth:
            return {}
        window = getattr(config, "sliding_window", None)
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
