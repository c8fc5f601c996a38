"""The reference decoder's layers as Hugging Face runs them: with a KV cache, masks of any batch, and checkpoints.

The weights and what they compute are those of `depthgraph.nn.decoder`. What is added is what a cache needs: positions
of tokens that stand behind others, masks over what the cache holds, and a slot of the cache for every execution.
"""

import inspect
import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.cache_utils import Cache
from transformers.masking_utils import create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import is_torchdynamo_compiling

from depthgraph.errors import CompileError, ConfigError
from depthgraph.hf.decoder_config import DepthGraphConfig
from depthgraph.hf.slots import Slots
from depthgraph.nn.compile import compile
from depthgraph.nn.decoder import Attention, DecoderLayer
from depthgraph.nn.dynamic import DynamicModule
from depthgraph.nn.module import RoutedModule
from depthgraph.nn.positions import Rotary, alibi_scores, rotary_at
from depthgraph.operations import Execution

#: What this transformers calls the cache: `past_key_values` until 5.23, `cache` since.
CACHE: str = "cache" if "cache" in inspect.signature(create_causal_mask).parameters else "past_key_values"

#: The attribute of matrices that write into the residual stream, whose fresh weights are smaller.
RESIDUAL = "_writes_residual"


class CachedAttention(Attention):
    """Causal self-attention that reads and writes one slot of a cache."""

    #: What transformers' attention functions look for: whether they mask later tokens where no mask is given.
    is_causal = True

    def __init__(self, config: DepthGraphConfig) -> None:
        super().__init__(config.decoder_config)
        self.config = config
        self.scaling = config.decoder_config.head_width**-0.5

    def forward(  # type: ignore[override]
        self,
        hidden: Tensor,
        rotary: Rotary | None = None,
        mask: Tensor | None = None,
        cache: Cache | None = None,
        slot: int = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Mix the positions.

        Args:
            hidden: [B, T, d].
            rotary: tables that turn queries and keys, [B or 1, 1, T, d / heads] each.
            mask: of the K tokens that there are with the cached ones: [B, 1, T, K]; or with scores in it,
                [B or 1, heads, T, K] or [heads, T, K]; None for the causal mask alone.
            cache: holds the keys and values of earlier tokens.
            slot: where in the cache.

        Returns:
            [B, T, d], and the attention weights [B, heads, T, K] where the implementation computes them.
        """
        query, key, value = self.project(hidden, rotary)
        if cache is not None:
            key, value = cache.update(key, value, slot)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention)
        mixed, weights = attend(self, query, key, value, mask, dropout=0.0, scaling=self.scaling)
        return self.out(mixed.reshape(hidden.shape)), weights


def eager_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, **others: Any
) -> tuple[Tensor, Tensor]:
    """Attend with the weights at hand, as transformers' `eager` does; softmax is computed in float32."""
    scores = torch.matmul(query, key.transpose(-1, -2)) * scaling
    if mask is not None and mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, torch.finfo(scores.dtype).min)
    scores = scores if mask is None else scores + mask
    weights = functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(weights, value).transpose(1, 2), weights


class DepthGraphLayer(GradientCheckpointingLayer, DecoderLayer):
    """One layer. Checkpointing recomputes it once for every execution."""

    def __init__(self, config: DepthGraphConfig) -> None:
        super().__init__(config.decoder_config)
        self.attention = CachedAttention(config)
        for projection in (self.attention.out, self.ffn.down):
            setattr(projection, RESIDUAL, True)

    def forward(
        self,
        hidden: Tensor,
        rotary: Rotary | None = None,
        mask: Tensor | None = None,
        cache: Cache | None = None,
        slot: int = 0,
    ) -> Tensor:
        """Return the next hidden state, [B, T, d]; the arguments are those of `CachedAttention`."""
        mixed, _ = self.attention(self.attention_norm(hidden), rotary, mask, cache, slot)
        hidden = hidden + mixed
        output: Tensor = hidden + self.ffn(self.ffn_norm(hidden))
        return output


def compile_layers(config: DepthGraphConfig) -> RoutedModule | DynamicModule:
    """Compile the config's route over fresh layers; every execution is bound to its slot of the cache."""
    layers = [DepthGraphLayer(config) for _ in range(config.num_hidden_layers)]
    options: dict[str, Any] = {"width": config.hidden_size, "returns": "tensor", "per_execution": _slot_of}
    if config.loop_counts is None:
        return compile(config.default_route, layers, **options)
    return compile(
        config.route,
        layers,
        dynamic=config.loop_counts,
        bindings=config.route_bindings,
        backprop_last=config.backprop_last,
        **options,
    )


def _slot_of(execution: Execution) -> dict[str, int]:
    return {"slot": execution.position - 1}


def slots_of(body: RoutedModule) -> Slots:
    """Return the slots of a route, which are found once."""
    if "slots" not in body.meta:
        route = body.route
        body.meta["slots"] = Slots.of(route.path, route.parameter_depth, route=str(route))
    return cast(Slots, body.meta["slots"])


def tokens_in(cache: Cache | None) -> Any:
    """Return how many tokens a cache holds: an integer, or a tensor of one where the cache is static."""
    return 0 if cache is None else cache.get_seq_length()


def layer_inputs(
    config: DepthGraphConfig, hidden: Tensor, attention_mask: Tensor | None, cache: Cache | None, places: Tensor | None
) -> dict[str, Any]:
    """Compute once what every execution's attention needs.

    Args:
        config: the model's.
        hidden: the embedded tokens, [B, T, d].
        attention_mask: [B, K], 0 for padding; or what transformers made of it, [B, 1, T, K].
        cache: the model's, with E slots.
        places: the tokens' positions, [B or 1, T]; None for those that follow the cached ones.

    Returns:
        `rotary` and `mask`, as `CachedAttention` takes them.

    Raises:
        CompileError: `cache-mismatch` for a mask or positions of other tokens.
    """
    _check_shapes(hidden, attention_mask, cache, places)
    if config.positions == "alibi":
        return {"mask": _alibi_mask(config, hidden, attention_mask, cache, places)}
    mask = _causal_mask(config, hidden, attention_mask, cache, places)
    if config.positions != "rope":
        return {"mask": mask}
    if places is None:
        places = following(cache, hidden)
    head_width = config.hidden_size // config.num_attention_heads
    cos, sin = rotary_at(places, head_width, config.rope_theta, hidden)
    return {"mask": mask, "rotary": (cos.unsqueeze(1), sin.unsqueeze(1))}


def following(cache: Cache | None, hidden: Tensor) -> Tensor:
    """Return the positions of new tokens, [1, T]: those behind the ones that are in the cache."""
    places: Tensor = torch.arange(hidden.shape[1], device=hidden.device) + tokens_in(cache)
    return places.unsqueeze(0)


def _check_shapes(hidden: Tensor, attention_mask: Tensor | None, cache: Cache | None, places: Tensor | None) -> None:
    """Refuse a mask that leaves tokens out, which transformers would hide, and positions of other tokens."""
    T, known = hidden.shape[1], tokens_in(cache)
    if places is not None and (places.ndim != 2 or places.shape[1] != T):
        message = f"`position_ids` are of shape {tuple(places.shape)}, and there are {T} tokens in a row"
        raise CompileError("cache-mismatch", message, help="give those of the new tokens, [1, T] or one row a sequence")
    if attention_mask is None or attention_mask.ndim != 2 or isinstance(known, Tensor):
        return
    if attention_mask.shape[1] < known + T:
        message = f"the mask is over {attention_mask.shape[1]} tokens, and with the cached ones there are {known + T}"
        raise CompileError("cache-mismatch", message, help="give one over all of them, [B, cached + T]")


def check_places(config: DepthGraphConfig, places: Tensor) -> None:
    """Refuse positions that learned ones do not reach.

    Values are looked at only where the model runs eagerly: a compiled graph has none to look at.

    Raises:
        ConfigError: `too-many-tokens`.
    """
    if not _has_values(places):
        return
    last = int(places.max())
    if last >= config.max_position_embeddings:
        raise ConfigError(
            "too-many-tokens",
            f"{last + 1} tokens, and the learned positions reach {config.max_position_embeddings}",
            help="give fewer tokens, or use a model of a larger context, or of other positions",
        )


def _causal_mask(
    config: DepthGraphConfig,
    hidden: Tensor,
    attention_mask: Tensor | None,
    cache: Cache | None,
    places: Tensor | None,
    **others: Any,
) -> Tensor | None:
    named = {"config": config, "inputs_embeds": hidden, "attention_mask": attention_mask, CACHE: cache}
    mask: Tensor | None = create_causal_mask(**named, position_ids=places, **others)
    return mask


def _alibi_mask(
    config: DepthGraphConfig, hidden: Tensor, attention_mask: Tensor | None, cache: Cache | None, places: Tensor | None
) -> Tensor:
    """Return ALiBi's scores with the causal mask in them, [B or 1, heads, T, K] or without the first dimension.

    A distance counts the tokens between: padding is none, so it is left out where a mask of two dimensions says so.
    """
    padding = attention_mask if attention_mask is not None and attention_mask.ndim == 2 else None
    if padding is not None and _has_values(padding):
        padding = None if bool(padding.all()) else padding
        attention_mask = padding
    alone = attention_mask is None and (cache is not None or places is None)  # then all rows have the same scores
    told = hidden[:1] if alone else hidden
    mask = _causal_mask(config, told, attention_mask, cache, places, allow_is_causal_skip=False)
    assert mask is not None
    keys = torch.arange(mask.shape[-1], device=hidden.device).unsqueeze(0)
    queries = following(cache, hidden)
    if padding is not None:
        known = functional.pad(padding, (0, max(0, keys.shape[-1] - padding.shape[-1])))
        keys = known[:, : keys.shape[-1]].cumsum(-1) - 1
        queries = keys.gather(1, queries.expand(len(keys), -1))
    dtype = _attention_dtype(hidden)
    scores = alibi_scores(queries, keys, config.num_attention_heads).to(dtype)
    least = torch.finfo(dtype).min
    if mask.dtype is torch.bool:  # torch's own attention gives 0 where a row of the mask hides all; a softmax gives nan
        scores = scores.masked_fill(~mask, -math.inf if config._attn_implementation == "sdpa" else least)
    else:
        scores = (scores + mask).clamp(min=least)
    # torch picks its kernel by the dimensions of the mask: with three it is the plain decoder's, to the last bit
    square = cache is None or mask.shape[-1] == mask.shape[-2]
    return scores[0] if alone and square else scores


def _has_values(tensor: Tensor) -> bool:
    """Return whether values can be looked at: not while a graph is made, and not on the meta device."""
    return not (is_torchdynamo_compiling() or torch.compiler.is_exporting() or tensor.is_meta)


def _attention_dtype(hidden: Tensor) -> torch.dtype:
    """Return the type in which attention will run."""
    device = hidden.device.type
    is_cast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if is_cast else hidden.dtype
