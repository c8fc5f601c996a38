"""Which parameters of a Hugging Face model get no gradient."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from depthgraph.hf.meta import forward_and_backward, on_meta
from depthgraph.nn.signature import is_wrapper

#: Tokens of the batch that a model is tried with.
TOKENS = 8


def unused_parameters(model: nn.Module, *args: Any, **named: Any) -> tuple[str, ...]:
    """Return the names of parameters that want a gradient and get none, in the model's own order.

    They are those of dropped layers, and of all whose results reach the loss through a `stopgrad` alone, the embedding
    too. `DistributedDataParallel` waits for a gradient from every parameter that wants one. So freeze these before
    wrapping:

        for name in dg.hf.unused_parameters(model):
            model.get_parameter(name).requires_grad_(False)

    The model is copied without its data, and runs once, forward and backward, from the loss that it returns (or its
    logits, where it returns none) and not from exits.

    Args:
        model: a Hugging Face model with or without a route, or one around it, as PEFT makes; before it is wrapped for
            data-parallel training.
        args: what the model is called with in training; a few tokens by default.
        named: likewise, loop counts too.

    Raises:
        CostError: `cannot-count` if it does not run without data.
    """
    if not args and not {"input_ids", "inputs_embeds"} & named.keys():
        named["input_ids"] = torch.empty(1, TOKENS, dtype=torch.long, device="meta")
    prefix = "_orig_mod." if is_wrapper(model) else ""
    return tuple(prefix + name for name in on_meta(model, args, named, _unused))


def _unused(twin: nn.Module, run: Callable[[], Tensor]) -> list[str]:
    forward_and_backward(run)
    return [name for name, each in twin.named_parameters() if each.requires_grad and each.grad is None]
