"""The reference decoder's settings as a Hugging Face config: the names that its users expect, and a route as text.

`num_hidden_layers` is N, the number of layers, in memory and in `config.json`; how many executions the route makes of
them is `execution_depth`. Everything is checked when a config is made and again when a model is built from it, so that
what was set in between, by `setattr` or by a keyword of `from_pretrained`, is honoured or refused before weights load.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar

from pydantic import ValidationError
from transformers import PreTrainedConfig

from depthgraph.decoder_config import DecoderConfig
from depthgraph.errors import CompileError, ConfigError, shown
from depthgraph.expand import route_from_text
from depthgraph.hf.settings import Settings
from depthgraph.nn.recipe import Recipe
from depthgraph.route import Route

#: A setting of the reference decoder → its name in a Hugging Face config.
NAMES: dict[str, str] = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "ffn_width": "intermediate_size",
    "heads": "num_attention_heads",
    "parameter_depth": "num_hidden_layers",
    "context": "max_position_embeddings",
    "positions": "positions",
    "rope_theta": "rope_theta",
    "norm_eps": "rms_norm_eps",
    "init_std": "initializer_range",
}

#: What the config says of the route.
ROUTE_NAMES = ("route", "loop_counts", "route_bindings", "backprop_last")

#: Settings of other architectures that this one does not have: ignoring one would be another model than was asked for.
FOREIGN = frozenset(
    {
        *("attention_bias", "attention_dropout", "d_model", "head_dim", "hidden_act", "kv_cache", "layer_types"),
        *("mlp_bias", "n_embd", "n_head", "n_layer", "n_positions", "num_key_value_heads", "num_layers"),
        *("partial_rotary_factor", "position_embedding_type", "rope_parameters", "rope_scaling", "sliding_window"),
    }
)


class DepthGraphConfig(PreTrainedConfig):
    """The config of `DepthGraphForCausalLM`. Without arguments it has the sizes of `ilr-100m`, and the standard route.

    Attributes:
        vocab_size: tokens of the vocabulary.
        hidden_size: size of the hidden state, d.
        intermediate_size: inner size of the SwiGLU.
        num_hidden_layers: layers, N. A layer may run several times: `execution_depth` counts executions.
        num_attention_heads: attention heads; hidden_size is a multiple.
        max_position_embeddings: tokens that it is trained on at once; only `learned` positions cannot go beyond.
        positions: `rope`, `nope`, `learned` or `alibi`.
        route: the canonical text of the route; with `loop_counts` the spec as it is written.
        loop_counts: counts of the spec that are chosen at every call, with those that the model is trained with.
        route_bindings: with `loop_counts`, values of the spec's other names.
        backprop_last: with `loop_counts`, the iterations of a loop that the gradient goes through.
        rope_theta: base of the rotary wavelengths.
        rms_norm_eps: added to the mean square in RMSNorm.
        initializer_range: standard deviation of fresh weights.
        use_cache: whether a KV cache is returned, where nothing else is said and no gradient is asked for.
        tie_word_embeddings: the embedding is the output matrix too; there is no other way.

    Raises:
        ConfigError: `invalid-config`: a setting that cannot be, or one of another architecture.
        SpecError: the route means none over these layers.
        CompileError: `loop-count`.

    Examples:
        >>> config = DepthGraphConfig(num_hidden_layers=6, route="lft(N)")
        >>> config.route, config.num_hidden_layers, config.execution_depth
        ('1..2 (i..i+2 for i in 1..4)', 6, 14)
        >>> config = DepthGraphConfig(num_hidden_layers=4, route="1 (2 3)x r 4", loop_counts={"r": 2})
        >>> config.route, config.execution_depth
        ('1 (2 3)x r 4', 6)
    """

    model_type = "depthgraph"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["cache", "past_key_values", "exit_logits"]
    # what FSDP gathers: transformers' plan names modules that this model has under other names
    base_model_fsdp_plan: ClassVar[dict[Any, str]] = {
        "embedding": "free_full_weight",
        "body.layers.*": "free_full_weight",
        "norm": "keep_full_weight",
    }

    vocab_size: int = 32_000
    hidden_size: int = 768
    intermediate_size: int = 3_072
    num_hidden_layers: int = 8
    num_attention_heads: int = 8
    max_position_embeddings: int = 1_024
    positions: str = "rope"
    route: str = "..."
    loop_counts: dict[str, int] | None = None
    route_bindings: dict[str, int] | None = None
    backprop_last: dict[str, int] | None = None
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    use_cache: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    def __post_init__(self, **others: Any) -> None:
        """Refuse what this architecture does not have, and check the rest."""
        for name in others:
            _check_known(name)
        super().__post_init__(**others)
        self.check()

    @classmethod
    def from_decoder_config(cls, config: DecoderConfig, **others: Any) -> "DepthGraphConfig":
        """Return the config of a reference decoder's settings.

        Args:
            config: the settings, or those of a training config.
            others: fields of this class, which come before those of `config`.
        """
        settings = {NAMES[name]: getattr(config, name) for name in NAMES}
        return cls(**{**settings, "route": config.route, **others})

    @property
    def decoder_config(self) -> DecoderConfig:
        """The settings of the reference decoder, checked.

        Raises:
            ConfigError: `invalid-config`.
        """
        said = {name: getattr(self, theirs) for name, theirs in NAMES.items()}
        try:
            return DecoderConfig.model_validate({**said, "route": self.route}, strict=True)
        except ValidationError as error:
            raise _invalid(error) from error

    @property
    def default_route(self) -> Route:
        """The route that runs; with counts that are chosen at every call, that of the trained ones."""
        if self.loop_counts is None:
            return route_from_text(self.route, N=self.num_hidden_layers)
        recipe = Recipe.of(self.route, self.num_hidden_layers, self.loop_counts, self.route_bindings or {}, None, {})
        return recipe.route(recipe.defaults)

    @property
    def execution_depth(self) -> int:
        """How many executions the route has, E; with counts that are chosen at every call, at the trained ones."""
        return self.default_route.execution_depth

    def told_route(self) -> tuple[Any, ...]:
        """Return what the config says of the route now, in a form of its own that later changes do not reach."""
        values = (getattr(self, name) for name in (*ROUTE_NAMES, "num_hidden_layers"))
        return tuple(tuple(value.items()) if isinstance(value, dict) else value for value in values)

    def check(self) -> None:
        """Check all settings, and bring the route into the form in which it is stored.

        Raises:
            ConfigError: `invalid-config`.
            SpecError: the route means none over these layers.
            CompileError: `loop-count`.
        """
        depth = self.decoder_config.parameter_depth
        if self.tie_word_embeddings is not True:
            message = f"`tie_word_embeddings` is True here; found {shown(self.tie_word_embeddings)}"
            raise ConfigError("invalid-config", message, help="the decoder's embedding is its output matrix too")
        for name in ROUTE_NAMES[1:]:
            _check_integers(name, getattr(self, name))
        settings = Settings.of(self.route, depth, self.loop_counts or None, self.route_bindings, "per_execution")
        if settings.counts is None and self.backprop_last:
            message = "`backprop_last` is for counts that are chosen at every call, and `loop_counts` names none"
            raise CompileError("loop-count", message, help="write the truncation into the route: `stopgrad`")
        self.route = settings.route
        self.loop_counts = None if settings.counts is None else dict(settings.counts)
        self.route_bindings = None if settings.bindings is None else dict(settings.bindings)

    def save_pretrained(self, *args: Any, **named: Any) -> None:
        """Write `config.json`, of settings that can be loaded again.

        Raises:
            ConfigError: as `check`.
            SpecError: as `check`.
            CompileError: as `check`.
        """
        self.check()
        super().save_pretrained(*args, **named)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **named: Any) -> Any:
        """Make a config; a route that is given by keyword comes without the counts of the one that is stored."""
        if "route" in named:
            config_dict = {**config_dict, **dict.fromkeys(ROUTE_NAMES), "route": named["route"]}
            config_dict |= {name: named.pop(name) for name in ROUTE_NAMES if name in named}
        return super().from_dict(config_dict, **named)


def _check_known(name: str) -> None:
    """Refuse a setting of another architecture and a misspelt one; others belong to tools, and are kept as they are."""
    own = [*NAMES.values(), *ROUTE_NAMES]
    close = get_close_matches(name, own, n=1, cutoff=0.8)
    meant = NAMES.get(name) or (close[0] if close else None)
    if meant is not None:
        raise ConfigError("invalid-config", f"there is no setting `{name}`", help=f"did you mean `{meant}`?")
    if name in FOREIGN:
        message = f"`{name}` is a setting of other architectures, and the reference decoder has none of it"
        raise ConfigError("invalid-config", message, help=f"its settings are {', '.join(own)}")


def _check_integers(name: str, value: object) -> None:
    """Refuse what JSON could not give back as it is."""
    if value is None or (
        isinstance(value, Mapping) and all(isinstance(key, str) and type(each) is int for key, each in value.items())
    ):
        return
    message = f"`{name}` is a dict of names and whole numbers; found {shown(value)}"
    raise ConfigError("invalid-config", message, help=f'{name}={{"r": 4}}')


def _invalid(error: ValidationError) -> ConfigError:
    """Return the first of pydantic's errors as ours, in the names of this config."""
    details = error.errors(include_url=False)[0]
    place = details["loc"][0] if details["loc"] else ""
    found = f"; found {shown(details['input'])}" if place else ""
    name = f"`{NAMES.get(str(place), str(place))}`: " if place else ""
    own = ", ".join(f"{theirs} ({name})" for name, theirs in NAMES.items() if theirs != name)
    said = details.get("ctx", {}).get("error", details["msg"])
    return ConfigError("invalid-config", f"{name}{said}{found}", help="" if place else f"here they are {own}")
