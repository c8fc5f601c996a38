"""The few functions that generated code calls. They look at values, so fx must not trace into them."""

from typing import Any, assert_never

import torch
from torch import Tensor, fx, nn

from depthgraph.errors import CompileError
from depthgraph.nn.signature import Returns


@fx.wrap
def hidden_of(output: Any, title: str = "a layer") -> Any:
    """Return the hidden state that a layer returned: a tensor itself, or element 0 of a tuple or list.

    Args:
        output: what the layer returned.
        title: how the message names the layer.

    Raises:
        CompileError: `layer-output` for anything else, before it fails inside the next layer.
    """
    if isinstance(output, Tensor):
        return output
    if isinstance(output, (tuple, list)) and output and isinstance(output[0], Tensor):
        return output[0]
    raise not_hidden(output, title)


def not_hidden(output: Any, title: str) -> CompileError:
    """Return the error for a layer that returns no hidden state."""
    found = type(output).__name__
    if isinstance(output, (tuple, list)):
        found += f" that starts with {type(output[0]).__name__}" if output else " without elements"
    elif isinstance(output, dict):
        found += f" with keys {', '.join(map(repr, output))}"
    return CompileError(
        "layer-output",
        f"{title} returned neither a hidden state nor a tuple that starts with one; found {found}",
        help="give a layer whose forward returns the hidden state itself; "
        'returns="tensor" passes on whatever layers return, returns="tuple" its element 0',
    )


def taken_from(output: Any, returns: Returns, title: str) -> Any:
    """Return what flows on from a layer in generated code that was written for this kind of return."""
    match returns:
        case "tensor":
            return output
        case "tuple":
            return output[0]
        case "auto":
            return hidden_of(output, title)
    assert_never(returns)


@fx.wrap
def moved_to(layer: nn.Module, value: Any) -> Any:
    """Return a value on a layer's device, tensors inside tuples, lists and dicts too.

    The device is read when it runs, so a model that was moved since it was compiled is right.
    """
    device = device_of(layer)
    return value if device is None else _moved(value, device)


@fx.wrap
def moved_beside(value: Tensor, other: Tensor) -> Tensor:
    """Return a hidden state on the device of another one."""
    return value.to(other.device)


def _moved(value: Any, device: torch.device) -> Any:
    match value:
        case torch.Tensor():
            return value.to(device)
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(_moved(item, device) for item in value))
        case tuple() | list():
            return type(value)(_moved(item, device) for item in value)
        case dict():
            return {key: _moved(item, device) for key, item in value.items()}
    return value


def device_of(layer: nn.Module) -> torch.device | None:
    """Return where a layer's first parameter is, or its first buffer; None for a layer without tensors.

    None too for a layer whose weights accelerate brings only when it runs: its hooks move what the layer is given.
    """
    for tensor in (*layer.parameters(), *layer.buffers()):
        is_offloaded = tensor.is_meta and any("_hf_hook" in vars(part) for part in layer.modules())
        return None if is_offloaded else tensor.device
    return None
