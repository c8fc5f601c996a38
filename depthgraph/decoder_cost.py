"""What the reference decoder costs under a route, before anything is built: parameters and FLOPs, by arithmetic.

The convention is that of `dg.cost` (docs/cost.md) with attention as plain products: a multiplication and the addition
after it are 2 FLOPs; matrix products alone are counted, so norms, activations, position encodings and the loss are
not; a training step is 3 forward passes (every product needs two more of its size for the gradients of its two sides).
This is what torch's `FlopCounterMode` counts on the meta device, and tests hold that the three are equal. Unlike
`dg.cost`, which counts layers, this is the whole model: the output head is in the FLOPs, the embedding in the
parameters.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from depthgraph.costs import Flops
from depthgraph.errors import CostError
from depthgraph.route import Route

if TYPE_CHECKING:
    from depthgraph.decoder_config import DecoderConfig


@dataclass(frozen=True, slots=True)
class DecoderCost:
    """What a decoder costs under one route, at one length.

    Attributes:
        parameters: of the whole model; the route plays no part.
        execution_depth: E.
        length: T, tokens in a sequence.
        batch: B, sequences.
        layers: FLOPs of all executions in the forward pass of a batch, B · T tokens.
        head_flops: FLOPs of the output head.
        kv_elements: numbers in the keys and values of a batch, one slot an execution; times the bytes of a number
            they are the size of the KV cache.
    """

    parameters: int
    execution_depth: int
    length: int
    batch: int
    layers: Flops
    head_flops: int
    kv_elements: int

    @property
    def tokens(self) -> int:
        """Tokens in a batch, B · T."""
        return self.batch * self.length

    @property
    def forward(self) -> Flops:
        """FLOPs of the forward pass of a batch."""
        return self.layers + Flops(self.head_flops)

    @property
    def training(self) -> Flops:
        """FLOPs of a training step on a batch: forward and backward."""
        return self.forward * 3

    @property
    def forward_flops(self) -> int:
        """FLOPs of the forward pass of a batch, attention whole."""
        return self.forward.total

    @property
    def training_flops(self) -> int:
        """FLOPs of a training step on a batch, attention whole."""
        return self.training.total

    @property
    def forward_flops_per_token(self) -> float:
        """FLOPs of the forward pass divided by its tokens; it grows with the length."""
        return self.forward_flops / self.tokens

    @property
    def training_flops_per_token(self) -> float:
        """FLOPs of a training step divided by its tokens."""
        return 3 * self.forward_flops_per_token


def decoder_cost(config: "DecoderConfig", route: Route, length: int | None = None, batch: int = 1) -> DecoderCost:
    """Return what the reference decoder costs under a route.

    Args:
        config: the decoder's settings; its own `route` is not looked at.
        route: a chain over config.parameter_depth layers.
        length: T, tokens in a sequence; config.context by default.
        batch: B, sequences.

    Raises:
        CostError: `wrong-size`: the route is over another number of layers, or length or batch is below 1;
            `cannot-count`: the route has data flow, which the decoder's settings say nothing about.

    Examples:
        >>> import depthgraph as dg
        >>> from depthgraph.decoder_config import PRESETS
        >>> config = PRESETS["lft-2.5m"]
        >>> standard, lft = (decoder_cost(config, dg.route(text, N=6)) for text in ("...", "lft(6)"))
        >>> standard.parameters == lft.parameters == 2_490_400
        True
        >>> round(lft.training_flops / standard.training_flops, 2)
        2.17
    """
    T = config.context if length is None else length
    if route.parameter_depth != config.parameter_depth:
        message = f"the route is over {route.parameter_depth} layers, the config has {config.parameter_depth}"
        raise CostError(
            "wrong-size", message, help=f"make it for this model: dg.route(text, N={config.parameter_depth})"
        )
    if T < 1 or batch < 1:
        raise CostError("wrong-size", f"length and batch are at least 1; found {T} and {batch}")
    if not route.is_chain:
        raise CostError(
            "cannot-count",
            f"the route has data flow, {type(route.data_flow[0]).__name__.lower()}, and the arithmetic is for chains",
            help="dg.cost(route, layers) counts it",
        )
    E, d = route.execution_depth, config.width
    head = 2 * batch * T * d * config.vocab_size
    kv_elements = 2 * E * batch * T * d
    return DecoderCost(config.parameter_count, E, T, batch, execution_flops(config, T) * (E * batch), head, kv_elements)


def execution_flops(config: "DecoderConfig", length: int) -> Flops:
    """Return the forward FLOPs of one execution on one sequence: T(8d² + 4Td + 6df).

    8d² per token are the four attention projections, 4Td the scores and the mixing of values over all heads, and
    6df the three matrices of the SwiGLU. The causal mask hides T(T - 1)/2 of T² pairs, at 4d each; with ALiBi it is
    part of the bias, a tensor, and attention computes every pair.

    Args:
        config: the decoder's settings.
        length: T, tokens.
    """
    T, d, f = length, config.width, config.ffn_width
    attention = 4 * T * T * d
    masked = 0 if config.positions == "alibi" else 2 * T * (T - 1) * d
    return Flops(T * (8 * d * d + 6 * d * f) + attention, attention, masked)
