"""A Hugging Face model that runs without its data, forward and backward: what it costs, and what learns."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from depthgraph.errors import CostError, DepthGraphError
from depthgraph.nn.meta import copy_without_data
from depthgraph.nn.meter import first_line
from depthgraph.nn.signature import unwrapped

T = TypeVar("T")

#: Arguments that change neither, and whose values models look at: which tokens see which, and what divides the loss.
DATA = frozenset({"attention_mask", "position_ids", "num_items_in_batch", "use_cache"})


def on_meta(
    model: nn.Module,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    use: Callable[[nn.Module, Callable[[], Tensor]], T],
) -> T:
    """Use a copy of a model without data, in training; the model is left as it is.

    Args:
        model: a Hugging Face model with or without a route, or one around it, as PEFT makes.
        args: what it is called with. Of tensors only shapes and dtypes are used.
        named: likewise.
        use: is given the copy, and a function that calls it and returns what backward starts from.

    Raises:
        CostError: `cannot-count` if the model does not run without data.
    """
    model = unwrapped(model)
    try:
        twin = countable(model).train()
        (args, named), _ = copy_without_data(_given(model, args, named))
        return use(twin, lambda: _end_of(twin(*args, **named)))
    except DepthGraphError:
        raise
    except Exception as error:  # a model may do anything
        raise CostError(
            "cannot-count",
            f"{type(model).__name__} does not run without data: {first_line(error)}",
            help="dg.cost counts the layers alone",
        ) from error


def forward_and_backward(run: Callable[[], Tensor]) -> None:
    """Call what `on_meta` hands out, and go back from its end as far as a gradient is wanted."""
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=[]), torch.device("meta"):
        end = run()
        if end.requires_grad:
            torch.autograd.backward(end, torch.empty_like(end))


def _given(model: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call by name where they have one, without those of DATA."""
    signature = inspect.signature(model.forward)
    kinds = {parameter.kind: name for name, parameter in signature.parameters.items()}
    found = dict(signature.bind(*args, **named).arguments)
    rest = found.pop(kinds.get(inspect.Parameter.VAR_POSITIONAL, ""), ())
    found |= found.pop(kinds.get(inspect.Parameter.VAR_KEYWORD, ""), {})
    return rest, {name: value for name, value in found.items() if name not in DATA}


def countable(model: nn.Module) -> nn.Module:
    """Return a copy of a model without data, which does nothing that needs data and nothing twice."""
    twin, _ = copy_without_data(model)
    for part in twin.modules():
        vars(part).pop("forward", None)  # accelerate wraps it, around the original
        if hasattr(part, "gradient_checkpointing"):
            vars(part)["gradient_checkpointing"] = False
        if hasattr(part, "warn_if_padding_and_no_attention_mask"):  # it looks for padding among the tokens
            vars(part)["warn_if_padding_and_no_attention_mask"] = lambda *ids: None
        config: Any = getattr(part, "config", None)
        if hasattr(config, "use_cache"):
            config.use_cache = True  # without a cache, models look in the positions for sequences packed into one
        if getattr(config, "_experts_implementation", None) is not None:
            config._experts_implementation = "batched_mm"  # as many products, of sizes that no data decide
    return twin


def _end_of(output: Any) -> Tensor:
    """Return what backward starts from: the loss, or the first tensor where the caller computes it."""
    loss = output.get("loss") if isinstance(output, Mapping) else None
    if loss is not None:
        return loss  # type: ignore[no-any-return]
    values = output.values() if isinstance(output, Mapping) else output
    return output if isinstance(output, Tensor) else next(value for value in values if isinstance(value, Tensor))
