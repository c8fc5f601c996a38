"""The reference decoder: a plain pre-norm transformer whose layers run in the order of a route."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from depthgraph.decoder_config import DecoderConfig
from depthgraph.errors import CompileError, ConfigError
from depthgraph.nn.compile import compile
from depthgraph.nn.conditioning import Option
from depthgraph.nn.conditioning_build import Conditioning
from depthgraph.nn.conditioning_parts import draw_updates
from depthgraph.nn.dynamic import DynamicModule
from depthgraph.nn.module import RoutedModule, match_compiled_keys
from depthgraph.nn.positions import Rotary, alibi_bias, rotary_table, rotate
from depthgraph.route import Route
from depthgraph.syntax import RouteSpec

#: The matrices that write into the residual stream, by the end of their names.
RESIDUAL_PROJECTIONS = ("attention.out.weight", "ffn.down.weight")


class Decoder(nn.Module):
    """A language model over one route.

    Two decoders of one config and seed start from equal weights under every route, and have the same state-dict
    keys: `embedding.weight`, `body.layers.0.…`, `norm.weight`.

    Attributes:
        config: its settings. Where a route was given to the constructor, `route` below is what runs.
        body: the compiled route; of a spec with loop counts at run time, the module that chooses among routes.
    """

    body: RoutedModule | DynamicModule

    def __init__(
        self,
        config: DecoderConfig,
        route: Route | RouteSpec | None = None,
        layers: Iterable[nn.Module] | None = None,
        *,
        seed: int = 0,
        dynamic: Iterable[str] | Mapping[str, int] | None = None,
        bindings: Mapping[str, int] | None = None,
        backprop_last: int | Mapping[str, int] | None = None,
        conditioning: Conditioning | Iterable[Option] | None = None,
    ) -> None:
        """Build the decoder with fresh weights.

        Args:
            config: the settings.
            route: a route over config.parameter_depth layers, instead of config.route; with `dynamic`, a spec.
            layers: the layers, instead of this file's. Their forward takes the hidden state first and, by name,
                what config.positions needs: `rotary` or `bias`. Their weights stay as they are.
            seed: of the generator that draws the weights.
            dynamic: names of the spec that are loop counts at run time: `decoder(tokens, r=8)`. This and the next
                two are as for `compile`.
            bindings: with `dynamic`, values of the spec's other names.
            backprop_last: with `dynamic`, the iterations of a loop that the gradient goes through.
            conditioning: what single executions have of their own, as for `compile`. From options new weights are
                made, drawn from `seed` too; those of a `Conditioning` stay as they are.

        Raises:
            SpecError: config.route means no route over these layers.
            CompileError: route and layers do not fit together.
        """
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.positions = nn.Embedding(config.context, config.width) if config.positions == "learned" else None
        own: list[nn.Module] = []
        if layers is None:
            own = [DecoderLayer(config) for _ in range(config.parameter_depth)]
        modules = own or list(layers or ())
        options: dict[str, Any] = {"dynamic": dynamic, "bindings": bindings, "backprop_last": backprop_last}
        options |= {"conditioning": conditioning, "width": config.width}
        spec = route or (_route(config) if dynamic is None else config.route)
        self.body = compile(spec, modules, **options)
        self.norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self._check_positions()
        initialise([self.embedding, *filter(None, [self.positions]), *own], config, seed)
        if not isinstance(conditioning, Conditioning):
            draw_updates(self.body, seed)

    @property
    def route(self) -> Route:
        """The route that runs; with counts at run time, that of the default counts."""
        return self.body.route

    def forward(self, tokens: Tensor, **counts: int) -> Tensor | tuple[Tensor, tuple[Tensor, ...]]:
        """Return the logits of the next token at every position.

        Args:
            tokens: [B, T], integers below vocab_size.
            counts: of loops, where they are chosen at run time; those that have a default may be left out.

        Returns:
            [B, T, vocab_size]. Of a route with exits a pair: those logits, and a tuple of as many at the exits, through
            the same norm and the same head.

        Raises:
            ConfigError: `too-many-tokens`, for learned positions and T over config.context.
            CompileError: `loop-count`, as for `DynamicModule`.
        """
        length = tokens.shape[1]
        hidden = self.embedding(tokens)
        if self.positions is not None:
            self._check_length(length)
            hidden = hidden + self.positions(torch.arange(length, device=tokens.device))
        output = self.body(hidden, **self.attention_inputs(length, hidden), **counts)
        if isinstance(output, tuple):
            output, exits = output
            return self._logits(output), tuple(map(self._logits, exits))
        return self._logits(output)

    def _logits(self, hidden: Tensor) -> Tensor:
        return functional.linear(self.norm(hidden), self.embedding.weight)

    def attention_inputs(self, length: int, hidden: Tensor) -> dict[str, Rotary | Tensor]:
        """Compute once what every execution's attention needs.

        Args:
            length: T.
            hidden: a hidden state, for its device and dtype.
        """
        config = self.config
        match config.positions:
            case "rope":
                return {"rotary": rotary_table(length, config.head_width, config.rope_theta, hidden)}
            case "alibi":
                return {"bias": alibi_bias(length, config.heads, hidden)}
            case "nope" | "learned":
                return {}

    @property
    def body_inputs(self) -> frozenset[str]:
        """The names of what the route's layers take, the hidden state among them."""
        body = self.body.first if isinstance(self.body, DynamicModule) else self.body
        return frozenset(str(node.target) for node in body.graph.nodes if node.op == "placeholder")

    def _check_positions(self) -> None:
        """Refuse layers that would leave the positions out in silence."""
        name = {"rope": "rotary", "alibi": "bias"}.get(self.config.positions)
        if name is not None and name not in self.body_inputs:
            raise CompileError(
                "layer-inputs",
                f"positions are {self.config.positions}, and no layer takes `{name}`",
                help=f"give the layers' forward a parameter `{name}`, or set positions to nope or learned",
            )

    def _check_length(self, length: int) -> None:
        if length > self.config.context:
            raise ConfigError(
                "too-many-tokens",
                f"{length} tokens, and the learned positions reach {self.config.context}",
                help="give fewer tokens, or use a model of a larger context, or of other positions",
            )

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: object) -> None:
        match_compiled_keys(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class DecoderLayer(nn.Module):
    """One layer: attention and feed-forward, each normalised before it and added to what it was given."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.attention = Attention(config)
        self.ffn_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.ffn = SwiGLU(config)

    def forward(self, hidden: Tensor, rotary: Rotary | None = None, bias: Tensor | None = None) -> Tensor:
        """Return the next hidden state, [B, T, d], from one of the same shape."""
        hidden = hidden + self.attention(self.attention_norm(hidden), rotary, bias)
        output: Tensor = hidden + self.ffn(self.ffn_norm(hidden))
        return output


class Attention(nn.Module):
    """Causal self-attention over several heads."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def forward(self, hidden: Tensor, rotary: Rotary | None = None, bias: Tensor | None = None) -> Tensor:
        """Mix the positions.

        Args:
            hidden: [B, T, d].
            rotary: tables that turn queries and keys, each [T, d / heads].
            bias: added to the scores, [heads, T, T], the causal mask in it; without one the mask alone.

        Returns:
            [B, T, d].
        """
        B, T, d = hidden.shape
        query, key, value = self.project(hidden, rotary)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias, is_causal=bias is None)
        output: Tensor = self.out(mixed.transpose(1, 2).reshape(B, T, d))
        return output

    def project(self, hidden: Tensor, rotary: Rotary | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, [B, heads, T, d / heads] each; the first two turned by their positions."""
        B, T, d = hidden.shape
        heads = self.qkv(hidden).view(B, T, 3, self.heads, d // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        if rotary is not None:
            query, key = rotate(query, rotary), rotate(key, rotary)
        return query, key, value


class SwiGLU(nn.Module):
    """The gated feed-forward network of GLU variants (arXiv 2002.05202)."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.width, config.ffn_width, bias=False)
        self.up = nn.Linear(config.width, config.ffn_width, bias=False)
        self.down = nn.Linear(config.ffn_width, config.width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform each position alone, [B, T, d] to [B, T, d]."""
        output: Tensor = self.down(functional.silu(self.gate(hidden)) * self.up(hidden))
        return output


@torch.no_grad()
def initialise(modules: Iterable[nn.Module], config: DecoderConfig, seed: int) -> None:
    """Draw fresh matrices from N(0, init_std²); those that write into the residual stream get init_std / √(2N).

    The scale is that of GPT-2 (Radford et al. 2019, section 2.3), with N the parameter depth and not the
    execution depth, so that models which differ in their route alone start from equal weights. Numbers are
    drawn on the CPU, in the order of the modules: they depend on the seed and not on device or route.
    """
    generator = torch.Generator("cpu").manual_seed(seed)
    residual = config.init_std / math.sqrt(2 * config.parameter_depth)
    for module in modules:
        for name, parameter in module.named_parameters():
            if parameter.ndim < 2 or parameter.is_meta:
                continue
            std = residual if name.endswith(RESIDUAL_PROJECTIONS) else config.init_std
            drawn = torch.empty(parameter.shape, device="cpu").normal_(0.0, std, generator=generator)
            parameter.copy_(drawn)


def _route(config: DecoderConfig) -> Route:
    from depthgraph.expand import route_from_text

    return route_from_text(config.route, N=config.parameter_depth)
