"""A layer without attention, for examples/own_layers.yaml: each token sees the ones before it through shifts."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from depthgraph.decoder_config import DecoderConfig

#: How many tokens back each quarter of the channels looks.
SHIFTS = (0, 1, 2, 4)


class ShiftLayer(nn.Module):
    """A feed-forward layer over the hidden states of the token itself and of 1, 2 and 4 tokens before it."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.up = nn.Linear(config.width, config.ffn_width, bias=False)
        self.down = nn.Linear(config.ffn_width, config.width, bias=False)
        nn.init.normal_(self.up.weight, std=config.init_std)
        nn.init.normal_(self.down.weight, std=config.init_std / (2 * config.parameter_depth) ** 0.5)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the next hidden state, [B, T, d], from one of the same shape."""
        mixed = shifted(self.norm(hidden))
        output: Tensor = hidden + self.down(functional.silu(self.up(mixed)))
        return output


def shifted(hidden: Tensor) -> Tensor:
    """Move each quarter of the channels of [B, T, d] some tokens later; zeros come in at the start."""
    length = hidden.shape[1]
    parts = hidden.chunk(len(SHIFTS), dim=-1)
    return torch.cat(
        [functional.pad(part, (0, 0, by, 0))[:, :length] for part, by in zip(parts, SHIFTS, strict=True)], dim=-1
    )
