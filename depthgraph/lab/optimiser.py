"""AdamW, which parameters decay, and the learning rate of every step."""

import math

import torch
from torch import nn

from depthgraph.config import OptimiserConfig


def build_optimiser(model: nn.Module, config: OptimiserConfig) -> torch.optim.AdamW:
    """Return AdamW over a model, each parameter once however often it runs."""
    decayed, kept = decay_groups(model)
    groups = [
        {"params": list(decayed.values()), "weight_decay": config.weight_decay},
        {"params": list(kept.values()), "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.epsilon,
    )


def decay_groups(model: nn.Module) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Return the parameters that decay, and the others, by name.

    Matrices decay; vectors (norms, biases, gates) and embeddings do not, as in OLMo 2 (arXiv 2501.00656, section 3).
    """
    embedded = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    decayed: dict[str, nn.Parameter] = {}
    kept: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        group = decayed if parameter.ndim >= 2 and id(parameter) not in embedded else kept
        group[name] = parameter
    return decayed, kept


def learning_rate(config: OptimiserConfig, step: int, steps: int) -> float:
    """Return the rate of a step: linear warm-up to the highest one, then half a cosine down to the floor.

    Args:
        config: the settings.
        step: 1 … steps.
        steps: of the whole run.

    Examples:
        >>> config = OptimiserConfig(learning_rate=1.0, warmup=0.4, floor=0.1)
        >>> [round(learning_rate(config, step, 10), 2) for step in range(1, 11)]
        [0.25, 0.5, 0.75, 1.0, 0.94, 0.78, 0.55, 0.33, 0.16, 0.1]
    """
    warm = round(config.warmup * steps)
    if step <= warm:
        return config.learning_rate * step / warm
    part = (step - warm) / (steps - warm)
    return config.learning_rate * (config.floor + (1 - config.floor) * (1 + math.cos(math.pi * part)) / 2)
