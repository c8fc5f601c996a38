"""The reference decoder as a Hugging Face model without its output matrix: a route, and a cache slot an execution."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache, DynamicCache
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils.generic import TransformersKwargs, can_return_tuple
from transformers.utils.output_capturing import OutputRecorder, capture_outputs, selected_hidden_states

from depthgraph.errors import CompileError, ConfigError
from depthgraph.hf.decoder_config import DepthGraphConfig
from depthgraph.hf.decoder_layers import (
    CACHE,
    RESIDUAL,
    CachedAttention,
    DepthGraphLayer,
    check_places,
    compile_layers,
    following,
    layer_inputs,
    slots_of,
)
from depthgraph.hf.slots import give_slots
from depthgraph.nn.decoder import initialise
from depthgraph.nn.dynamic import DynamicModule
from depthgraph.nn.module import RoutedModule
from depthgraph.nn.weights import Gated, Mixer

#: What else a forward takes by keyword.
KEYWORDS = frozenset({"output_hidden_states", "output_attentions"})


@dataclass
class DepthGraphModelOutput(BaseModelOutputWithPast):
    """What `DepthGraphModel` returns.

    Attributes:
        exit_hidden_states: of a route with exits, the normed hidden state at each, [B, T, d].
    """

    exit_hidden_states: tuple[Tensor, ...] | None = None


class DepthGraphPreTrainedModel(PreTrainedModel):
    """What both models share: what transformers asks of a class, and fresh weights."""

    config: DepthGraphConfig
    config_class = DepthGraphConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _input_embed_layer = "embedding"
    _no_split_modules: ClassVar[list[str]] = ["DepthGraphLayer"]
    _supports_sdpa = True
    _can_compile_fullgraph = True
    _can_record_outputs: ClassVar[dict[str, Any]] = {
        "hidden_states": OutputRecorder(DepthGraphLayer, num_hidden_layers_key="execution_depth"),
        "attentions": OutputRecorder(CachedAttention, index=1),
    }

    def get_correct_attn_implementation(self, requested_attention: str | None, is_init_check: bool = False) -> str:
        """Return the implementation of attention that is asked for.

        Raises:
            ConfigError: `invalid-config` for another than `sdpa` and `eager`.
        """
        chosen = cast(str, super().get_correct_attn_implementation(requested_attention, is_init_check))
        if chosen not in ("sdpa", "eager"):
            message = f"this model's attention is `sdpa` or `eager`; found `{chosen}`"
            raise ConfigError("invalid-config", message, help='attn_implementation="sdpa"')
        return chosen

    def save_pretrained(self, *args: Any, **named: Any) -> Any:
        """Save the model, unless its config says another route than it runs.

        Raises:
            ConfigError: `route-mismatch`.
        """
        self.base_model.check_route()
        return super().save_pretrained(*args, **named)

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Draw fresh weights as `Decoder` does, or single ones that a checkpoint lacks."""
        if any(getattr(parameter, "_is_hf_initialized", False) for parameter in self.parameters()):
            super().initialize_weights()
        elif isinstance(self, DepthGraphModel):
            modules = [self.embedding, *filter(None, [self.positions]), *self.body.layers]
            initialise(modules, self.config.decoder_config, self.seed)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw the weights of one module that a checkpoint lacks."""
        config = self.config
        match module:
            case nn.Linear() | nn.Embedding():
                depth = 2 * config.num_hidden_layers if hasattr(module, RESIDUAL) else 1
                init.normal_(module.weight, std=config.initializer_range / depth**0.5)
            case nn.RMSNorm():
                init.ones_(module.weight)
            case Mixer():
                init.eye_(module.weight)
            case Gated():
                init.zeros_(module.weight)


class DepthGraphModel(DepthGraphPreTrainedModel):
    """The decoder without its output matrix.

    Attributes:
        embedding: of the tokens.
        positions: learned ones, where the config says so.
        body: the compiled route over the layers.
        norm: the last one.
        seed: that fresh weights were drawn from.
    """

    body: RoutedModule | DynamicModule

    def __init__(self, config: DepthGraphConfig, *, seed: int | None = None) -> None:
        """Build the model with fresh weights.

        Args:
            config: checked here again.
            seed: of the weights, which are then those of `Decoder(…, seed=seed)`; otherwise it is drawn from torch's
                global generator.

        Raises:
            ConfigError: `invalid-config`.
            SpecError: the route means none over these layers.
            CompileError: `loop-count`.
        """
        config.check()
        super().__init__(config)
        self.seed = int(torch.randint(2**62, (), device="cpu")) if seed is None else seed
        self.gradient_checkpointing = False
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        if seed is not None and self.embedding.weight.is_meta:
            message = "`seed` is for fresh weights, and none are drawn where a checkpoint is loaded or there is no data"
            raise ConfigError("invalid-config", message, help="leave it out")
        learned = config.positions == "learned"
        self.positions = nn.Embedding(config.max_position_embeddings, config.hidden_size) if learned else None
        self.body = compile_layers(config)
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self._built = config.told_route()
        self._has_warned = False
        self.post_init()

    @property
    def layers(self) -> nn.ModuleList:
        """The N layers, each once."""
        return self.body.layers

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        past_key_values: Cache | None = None,
        **others: Any,
    ) -> DepthGraphModelOutput:
        """Run the route.

        Args:
            input_ids: tokens, [B, T].
            attention_mask: [B, K], 0 for padding, over the cached tokens and these; or a mask of 4 dimensions.
            position_ids: [B or 1, T]; by default those behind the cached tokens. ALiBi counts distances itself.
            cache: of earlier tokens.
            inputs_embeds: [B, T, d], instead of tokens.
            use_cache: whether to fill a cache and return it.
            past_key_values: the cache, under the name of earlier versions of transformers.
            others: `output_hidden_states` (one entry an execution), `output_attentions`, `return_dict`, and the
                counts of loops where they are chosen at every call.

        Raises:
            CompileError: `loop-count`; `cache-mismatch` for a cache of another route.
            ConfigError: `route-mismatch` if the config's route was changed; `too-many-tokens`; `invalid-config`.
        """
        self.check_route()
        named = dict(others)
        body = self._body_of({name: named.pop(name) for name in self.counts if name in named})
        self._check_keywords(named)
        if cache is not None and past_key_values is not None:
            raise CompileError("cache-mismatch", "the cache is given twice, as `cache` and as `past_key_values`")
        filled = self._cache_of(body, past_key_values if cache is None else cache, use_cache)
        chosen = selected_hidden_states(named.get("output_hidden_states"))
        if chosen is not None:  # transformers knows how many there are at the trained counts, and not at others
            named["output_hidden_states"] = True
        named["return_dict"] = True
        found = self._run(body, input_ids, attention_mask, position_ids, filled, inputs_embeds, **named)
        return found if chosen is None else _with_chosen(found, chosen)

    @capture_outputs  # type: ignore[untyped-decorator]
    def _run(
        self,
        body: RoutedModule,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        position_ids: Tensor | None,
        cache: Cache | None,
        inputs_embeds: Tensor | None,
        **others: Any,
    ) -> DepthGraphModelOutput:
        if (input_ids is None) == (inputs_embeds is None):
            raise ConfigError("invalid-config", "one of `input_ids` and `inputs_embeds` is needed, and not both")
        hidden = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        inputs = layer_inputs(self.config, hidden, attention_mask, cache, position_ids)
        if self.positions is not None:
            places = following(cache, hidden) if position_ids is None else position_ids
            check_places(self.config, places)
            hidden = hidden + self.positions(places)
        output = body(hidden, cache=cache, **inputs)
        exits = None
        if isinstance(output, tuple):
            output, exits = output[0], tuple(map(self.norm, output[1]))
        return DepthGraphModelOutput(last_hidden_state=self.norm(output), exit_hidden_states=exits, **{CACHE: cache})

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the loop counts that are chosen at every call."""
        return self.body.counts if isinstance(self.body, DynamicModule) else ()

    def check_route(self) -> None:
        """Refuse a config that was given another route since the model was built from it.

        Raises:
            ConfigError: `route-mismatch`.
        """
        if self.config.told_route() != self._built:
            message = (
                f"the config says the route `{self.config.route}`, and the model was built with `{self._built[0]}`"
            )
            raise ConfigError("route-mismatch", message, help="from_pretrained(…, route=…) builds one with another")

    def _body_of(self, counts: Mapping[str, Any]) -> RoutedModule:
        if not isinstance(self.body, DynamicModule):
            return self.body
        body = self.body.at(**counts)
        trained = self.config.loop_counts or {}
        other = [
            f"{name}={count}, and it was trained with {trained[name]}"
            for name, count in counts.items()
            if count != trained[name]
        ]
        if other and not self._has_warned:
            self._has_warned = True
            warnings.warn(f"the model runs with {', '.join(other)}; this is said once", UserWarning, stacklevel=2)
        return body

    def _check_keywords(self, named: Mapping[str, Any]) -> None:
        for name, value in named.items():
            if name in KEYWORDS or value is None:
                continue
            if name not in TransformersKwargs.__optional_keys__ or (name == "is_causal" and not value):
                listed = f"its loop counts are {', '.join(self.counts)}" if self.counts else "it has no loop counts"
                raise CompileError("loop-count", f"this model takes no argument `{name}`", help=listed)
        if named.get("output_attentions", self.config.output_attentions) and self._attention != "eager":
            message = f"attention by `{self._attention}` has no weights to return"
            raise ConfigError("invalid-config", message, help='model.set_attn_implementation("eager")')

    @property
    def _attention(self) -> str:
        return cast(str, self.config._attn_implementation)

    def _cache_of(self, body: RoutedModule, cache: Cache | None, use_cache: bool | None) -> Cache | None:
        """Return the cache to fill, with a slot for every execution."""
        learns = self.training and torch.is_grad_enabled()
        if use_cache is None:
            use_cache = bool(self.config.use_cache) and not learns
        if learns and self.gradient_checkpointing and (use_cache or cache is not None):
            message = "checkpointing runs the layers twice, which would fill a cache twice"
            raise CompileError("cache-mismatch", message, help="give no cache and use_cache=False, or no gradient")
        if cache is not None and not isinstance(cache, Cache):
            message = f"a {type(cache).__name__} is given where a cache of transformers is needed"
            raise CompileError("cache-mismatch", message, help="DynamicCache(config=model.config), or none")
        if cache is None and use_cache:
            cache = DynamicCache(config=self.config)
        if cache is not None:
            give_slots(cache, slots_of(body))
        return cache


def _with_chosen(output: DepthGraphModelOutput, chosen: list[int]) -> DepthGraphModelOutput:
    """Return an output with the chosen hidden states, and None in the places of others."""
    states = output["hidden_states"]
    kept = {index % len(states) for index in chosen if -len(states) <= index < len(states)}
    output["hidden_states"] = tuple(state if place in kept else None for place, state in enumerate(states))
    return output
