"""The reference decoder's settings, and the sizes that the source papers trained. Loads no torch."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

#: How a decoder knows where a token stands.
Positions = Literal["rope", "nope", "learned", "alibi"]


class DecoderConfig(BaseModel):
    """A pre-norm decoder: RMSNorm, causal attention, SwiGLU, tied embeddings, no biases.

    Attributes:
        vocab_size: tokens of the vocabulary, V.
        width: size of the hidden state, d.
        ffn_width: inner size of the SwiGLU, f.
        heads: attention heads, each of width / heads.
        parameter_depth: layers, N.
        context: tokens that it is trained on at once; only `learned` positions cannot go beyond.
        positions: rotary (arXiv 2104.09864), none, learned absolute, or ALiBi (arXiv 2108.12409).
        route: the order in which the layers run, as a spec; `...` is the standard model, every layer once.
        rope_theta: base of the rotary wavelengths.
        norm_eps: added to the mean square in RMSNorm (arXiv 1910.07467).
        init_std: standard deviation of fresh weights.

    Examples:
        >>> PRESETS["lft-2.5m"].parameter_count
        2490400
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    vocab_size: int = Field(ge=1)
    width: int = Field(ge=1)
    ffn_width: int = Field(ge=1)
    heads: int = Field(ge=1)
    parameter_depth: int = Field(ge=1)
    context: int = Field(ge=1)
    positions: Positions = "rope"
    route: str = "..."
    rope_theta: float = Field(default=10_000.0, gt=0)
    norm_eps: float = Field(default=1e-5, gt=0)
    init_std: float = Field(default=0.02, gt=0)

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "DecoderConfig":
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is no multiple of heads {self.heads}")
        if self.positions == "rope" and self.head_width % 2:
            raise ValueError(f"rope rotates pairs, and width / heads = {self.head_width} is odd")
        return self

    @property
    def head_width(self) -> int:
        """Size of one attention head."""
        return self.width // self.heads

    @property
    def parameter_count(self) -> int:
        """How many parameters the decoder has, whatever its route: Vd + N(4d² + 3df + 2d) + d.

        Learned positions add context · d. The embedding counts once: it is the output matrix too.
        """
        d, f = self.width, self.ffn_width
        layer = 4 * d * d + 3 * d * f + 2 * d
        learned = self.context * d if self.positions == "learned" else 0
        return self.vocab_size * d + self.parameter_depth * layer + d + learned


def _preset(V: int, d: int, f: int, heads: int, N: int, context: int) -> DecoderConfig:
    return DecoderConfig(vocab_size=V, width=d, ffn_width=f, heads=heads, parameter_depth=N, context=context)


#: The sizes of the two source papers, with the standard route. `lft-*`: the pairs of Layer-Feedback
#: Transformers; widths are solved from the published parameter counts, and head counts, which are not
#: published, are chosen. `ilr-*`: Intra-Layer Recurrence (arXiv 2505.01855); the large model's context is taken
#: to be the small one's.
PRESETS: dict[str, DecoderConfig] = {
    "lft-2.5m": _preset(3_072, 160, 480, heads=5, N=6, context=768),
    "lft-10m": _preset(3_072, 256, 752, heads=8, N=11, context=768),
    "lft-25m": _preset(3_072, 384, 1_216, heads=6, N=12, context=768),
    "ilr-1.2m": _preset(1_024, 128, 512, heads=4, N=4, context=1_024),
    "ilr-100m": _preset(32_000, 768, 3_072, heads=8, N=8, context=1_024),
}
