"""Small reference decoders as Hugging Face models, the plain ones with the same weights, and batches for them."""

from typing import Any

import torch

from depthgraph.decoder_config import DecoderConfig
from depthgraph.hf.decoder_layers import CACHE
from depthgraph.hf.decoder_model import DepthGraphConfig, DepthGraphForCausalLM
from depthgraph.nn import Decoder

POSITIONS = ("rope", "nope", "learned", "alibi")
ROUTE = "1 (2 3)x2 4 2"  # E = 7 over 4 layers
FLOW = "1 save(a) (2 3 mix(a))x2 add(a) sum(2 | 3 4) gate(a) 4"
SIZES = {"vocab_size": 64, "width": 24, "ffn_width": 40, "heads": 3, "parameter_depth": 4, "context": 64}


def plain(seed: int = 0, options: dict[str, Any] | None = None, **changes: Any) -> Decoder:
    """Return a plain decoder whose attention is sharp enough that a wrong position or mask shows.

    Args:
        seed: of its weights.
        options: of `Decoder`, beside the config and the seed.
        changes: of its config.
    """
    config = DecoderConfig(**{**SIZES, "route": ROUTE, "init_std": 0.3, **changes})
    return trained(Decoder(config, seed=seed, **(options or {}))).eval()


def trained(model: Any) -> Any:
    """Give norms, mixes and gates values as if they had been trained."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "mix" in name or "gate_" in name:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def small(seed: int = 0, attention: str | None = None, **changes: Any) -> DepthGraphForCausalLM:
    """Return the model with the weights of `plain(seed, …)`, with no end and with 0 for padding."""
    counts = {name: changes.pop(name) for name in ("loop_counts", "route_bindings") if name in changes}
    config = DecoderConfig(**{**SIZES, "route": ROUTE, "init_std": 0.3, **changes})
    named = {**counts, "pad_token_id": 0, "attn_implementation": attention}
    return trained(DepthGraphForCausalLM(DepthGraphConfig.from_decoder_config(config, **named), seed=seed)).eval()


def batch(*lengths: int, seed: int = 1) -> dict[str, torch.Tensor]:
    """Return rows of random tokens, padded on the left with 0, and their mask."""
    generator = torch.Generator().manual_seed(seed)
    T = max(lengths)
    rows = [torch.randint(1, 64, (length,), generator=generator) for length in lengths]
    ids = torch.stack([torch.cat([torch.zeros(T - len(row), dtype=torch.long), row]) for row in rows])
    mask = torch.stack([(torch.arange(T) >= T - len(row)).long() for row in rows])
    return {"input_ids": ids, "attention_mask": mask}


def places_of(mask: torch.Tensor) -> torch.Tensor:
    """Return the positions that `generate` gives to padded rows."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def cache_of(output: Any) -> Any:
    """Return the cache of an output, which transformers renamed in 5.24."""
    return getattr(output, CACHE)
