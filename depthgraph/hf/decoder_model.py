"""The reference decoder as a Hugging Face language model, with all that `generate` does.

Its keys are those of `depthgraph.nn.Decoder` behind `model.`; the output matrix is the embedding, and is stored once.
Importing this registers the classes with AutoConfig, AutoModel and AutoModelForCausalLM.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.cache_utils import Cache
from transformers.generation import GenerationMixin
from transformers.masking_utils import create_masks_for_generate
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils.generic import can_return_tuple

from depthgraph.errors import CompileError, ConfigError
from depthgraph.hf.count_names import LOSS_KEYWORDS, check_count_names
from depthgraph.hf.decoder_base import DepthGraphModel, DepthGraphPreTrainedModel
from depthgraph.hf.decoder_config import DepthGraphConfig
from depthgraph.hf.decoder_layers import CACHE
from depthgraph.hf.parts import chosen_of, guided_at, refuse_counts_in
from depthgraph.nn.decoder import Decoder, DecoderLayer
from depthgraph.nn.dynamic import DynamicModule
from depthgraph.nn.module import RoutedModule


@dataclass
class DepthGraphOutput(CausalLMOutputWithPast):
    """What `DepthGraphForCausalLM` returns.

    Attributes:
        exit_logits: of a route with exits, the logits at each, [B, T, vocab_size], through the same norm and head. The
            loss is that of the last logits alone.
    """

    exit_logits: tuple[Tensor, ...] | None = None


class DepthGraphForCausalLM(DepthGraphPreTrainedModel, GenerationMixin):
    """The decoder as a language model.

    Examples:
        >>> config = DepthGraphConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=4,
        ...     num_attention_heads=2, route="1 (2 3)x r 4", loop_counts={"r": 2}, eos_token_id=0, pad_token_id=0)
        >>> model = DepthGraphForCausalLM(config, seed=0).eval()
        >>> output = model(torch.tensor([[5, 6, 7]]), labels=torch.tensor([[5, 6, 7]]))
        >>> output.logits.shape, output.loss.ndim, len(output[1])
        (torch.Size([1, 3, 64]), 0, 1)
    """

    _tied_weights_keys: ClassVar[dict[str, str]] = {"lm_head.weight": "model.embedding.weight"}

    def __init__(self, config: DepthGraphConfig, *, seed: int | None = None) -> None:
        """Build the model with fresh weights.

        Args:
            config: checked here again.
            seed: of the weights, which are then those of `Decoder(…, seed=seed)`; otherwise it is drawn from torch's
                global generator.

        Raises:
            ConfigError: `invalid-config`.
            SpecError: the route means none over these layers.
            CompileError: `loop-count`; `layer-inputs` for a count with the name of something else.
        """
        config.check()
        check_count_names(config.loop_counts or (), type(self).forward)
        super().__init__(config)
        self.model = DepthGraphModel(config, seed=seed)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        past_key_values: Cache | None = None,
        **others: Any,
    ) -> DepthGraphOutput:
        """Return the logits of the next token at every position.

        Args:
            input_ids: tokens, [B, T].
            attention_mask: as for `DepthGraphModel`, like the next two.
            position_ids: positions.
            cache: of earlier tokens.
            inputs_embeds: [B, T, d], instead of tokens.
            labels: [B, T], the tokens again, of which each is predicted from those before it; -100 is left out.
            use_cache: whether to fill a cache and return it.
            logits_to_keep: of how many of the last positions, or of which; 0 for all.
            past_key_values: the cache, under the name of earlier versions of transformers.
            others: as for `DepthGraphModel`; and of the loss, `num_items_in_batch`, `shift_labels`, `ignore_index`.

        Raises:
            CompileError: as `DepthGraphModel`.
            ConfigError: as `DepthGraphModel`.
        """
        of_loss = {name: others.pop(name) for name in LOSS_KEYWORDS if name in others}
        others["return_dict"] = True
        found = self.model(
            input_ids, attention_mask, position_ids, cache, inputs_embeds, use_cache, past_key_values, **others
        )
        keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(found.last_hidden_state[:, keep])
        exits = found.exit_hidden_states
        loss = None
        if labels is not None or of_loss.get("shift_labels") is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **of_loss)
        return DepthGraphOutput(
            loss=loss,
            logits=logits,
            hidden_states=found.hidden_states,
            attentions=found.attentions,
            exit_logits=None if exits is None else tuple(self.lm_head(hidden[:, keep]) for hidden in exits),
            **{CACHE: getattr(found, CACHE)},
        )

    def create_masks_for_generate(self, *args: Any, **named: Any) -> Any:
        """Return the mask that `generate` hands to a model with a static cache.

        ALiBi needs to see which tokens are padding, so there it stays one of 2 dimensions, as long as the cache.
        """
        if self.config.positions != "alibi":
            return create_masks_for_generate(*args, **named)
        mask = named.get("attention_mask")
        if mask is None or mask.ndim != 2:
            return mask
        return functional.pad(mask, (0, max(0, named[CACHE].get_max_length() - mask.shape[-1])))

    def _validate_model_kwargs(self, model_kwargs: dict[str, Any]) -> None:
        """Let the loop counts through, which no signature has."""
        counts = self.model.counts
        super()._validate_model_kwargs({name: value for name, value in model_kwargs.items() if name not in counts})

    def _get_logits_processor(self, generation_config: Any, *args: Any, **named: Any) -> Any:
        found = super()._get_logits_processor(generation_config, *args, **named)
        refuse_counts_in(generation_config, self.model.counts)
        return guided_at(found, self, chosen_of(self.model.counts, named.get("model_kwargs") or {}))

    def init_continuous_batching(self, *args: Any, **named: Any) -> NoReturn:
        """Refuse continuous batching, whose paged cache has one slot a layer.

        Raises:
            CompileError: `cache-mismatch`.
        """
        message = "continuous batching keeps one slot of the cache a layer, and this route needs one an execution"
        raise CompileError("cache-mismatch", message, help="use `generate`, which takes batches too")


def from_decoder(decoder: Decoder, **settings: Any) -> DepthGraphForCausalLM:
    """Return a reference decoder as a Hugging Face model, with a copy of its weights.

    Args:
        decoder: of any route; trained or not.
        settings: fields of the config, `eos_token_id=0`; of counts without a default also `loop_counts={"r": 4}`.

    Raises:
        ConfigError: `invalid-config`: layers of your own, or conditioning, which the config cannot say.
        CompileError: `loop-count`: a count has no default, and the config needs the one that it is trained with.
    """
    body = decoder.body
    if any(type(layer) is not DecoderLayer for layer in body.layers):
        name = next(type(layer).__name__ for layer in body.layers if type(layer) is not DecoderLayer)
        message = f"the decoder has layers of your own, `{name}`, and a config can say the reference decoder's only"
        raise ConfigError("invalid-config", message, help="wrap it in a PreTrainedModel of your own")
    first = body.first if isinstance(body, DynamicModule) else body
    if any("conditions" in node.meta for node in first.graph.nodes):
        message = "the decoder's executions have parts of their own, and a config has no place for conditioning"
        raise ConfigError("invalid-config", message, help="wrap it in a PreTrainedModel of your own")
    settings = {**_route_settings(body), **settings}
    config = DepthGraphConfig.from_decoder_config(decoder.config, **settings)
    with torch.device("meta"):
        model = DepthGraphForCausalLM(config)
    stored = {name: tensor.clone() for name, tensor in decoder.state_dict().items()}
    model.model.load_state_dict(stored, assign=True)
    for name, parameter in decoder.named_parameters():
        model.model.get_parameter(name).requires_grad_(parameter.requires_grad)
    model.tie_weights()
    model.train(decoder.training)
    return model


def _route_settings(body: RoutedModule | DynamicModule) -> dict[str, Any]:
    if not isinstance(body, DynamicModule):
        return {"route": str(body.route)}
    recipe = body.recipe
    bindings = {name: value for name, value in recipe.bindings.items() if name != "N"}
    return {
        "route": str(recipe.spec),
        "loop_counts": dict.fromkeys(recipe.names) | dict(recipe.defaults),
        "route_bindings": bindings or None,
        "backprop_last": dict(recipe.last) or None,
    }


AutoConfig.register(DepthGraphConfig.model_type, DepthGraphConfig, exist_ok=True)
AutoModel.register(DepthGraphConfig, DepthGraphModel, exist_ok=True)
AutoModelForCausalLM.register(DepthGraphConfig, DepthGraphForCausalLM, exist_ok=True)
