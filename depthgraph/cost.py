"""What the reference decoder costs under a route, before anything is built: parameters and FLOPs, by arithmetic.

The convention: a multiplication and the addition after it are 2 FLOPs; matrix products alone are counted, so norms,
activations, position encodings and the loss are not; attention is counted whole, without halving it for the causal
mask, as its products are computed; a training step is 3 forward passes (every product needs two more of its size for
the gradients of its two sides). This is what torch's `FlopCounterMode` counts when attention is computed by plain
products, and a test holds that the two are equal.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from depthgraph.route import Route

if TYPE_CHECKING:
    from depthgraph.decoder_config import DecoderConfig


@dataclass(frozen=True, slots=True)
class Cost:
    """What a decoder costs under one route, at one length.

    Attributes:
        parameters: of the whole model; the route plays no part.
        execution_depth: E.
        length: T, tokens in a sequence.
        batch: B, sequences.
        forward_flops: FLOPs of the forward pass of a batch, B · T tokens.
    """

    parameters: int
    execution_depth: int
    length: int
    batch: int
    forward_flops: int

    @property
    def tokens(self) -> int:
        """Tokens in a batch, B · T."""
        return self.batch * self.length

    @property
    def training_flops(self) -> int:
        """FLOPs of a training step on a batch: forward and backward."""
        return 3 * self.forward_flops

    @property
    def forward_flops_per_token(self) -> float:
        """FLOPs of the forward pass divided by its tokens; it grows with the length."""
        return self.forward_flops / self.tokens

    @property
    def training_flops_per_token(self) -> float:
        """FLOPs of a training step divided by its tokens."""
        return 3 * self.forward_flops_per_token


def cost(config: "DecoderConfig", route: Route, length: int | None = None, batch: int = 1) -> Cost:
    """Return what the reference decoder costs under a route.

    Args:
        config: the decoder's settings; its own `route` is not looked at.
        route: over config.parameter_depth layers.
        length: T, tokens in a sequence; config.context by default.
        batch: B, sequences.

    Raises:
        ValueError: the route is over another number of layers, or length or batch is below 1.

    Examples:
        >>> import depthgraph as dg
        >>> from depthgraph.decoder_config import PRESETS
        >>> config = PRESETS["lft-2.5m"]
        >>> standard, lft = (cost(config, dg.route(text, N=6)) for text in ("...", "lft(6)"))
        >>> standard.parameters == lft.parameters == 2_490_400
        True
        >>> round(lft.training_flops / standard.training_flops, 2)
        2.17
    """
    T = config.context if length is None else length
    if route.parameter_depth != config.parameter_depth:
        raise ValueError(f"the route is over {route.parameter_depth} layers, the config has {config.parameter_depth}")
    if T < 1 or batch < 1:
        raise ValueError(f"length and batch are at least 1; found {T} and {batch}")
    E = route.execution_depth
    flops = batch * (E * execution_flops(config, T) + 2 * T * config.width * config.vocab_size)
    return Cost(config.parameter_count, E, T, batch, flops)


def execution_flops(config: "DecoderConfig", length: int) -> int:
    """Return the forward FLOPs of one execution on one sequence: T(8d² + 4Td + 6df).

    8d² per token are the four attention projections, 4Td the scores and the mixing of values over all heads, and
    6df the three matrices of the SwiGLU.

    Args:
        config: the decoder's settings.
        length: T, tokens.
    """
    T, d, f = length, config.width, config.ffn_width
    return T * (8 * d * d + 4 * T * d + 6 * d * f)
