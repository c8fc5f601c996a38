"""The few functions that generated code calls. They look at values, so fx must not trace into them."""

from typing import Any

import torch
from torch import fx, nn


@fx.wrap
def hidden_of(output: Any) -> Any:
    """Return the hidden state that a layer returned: element 0 of a tuple or list, anything else itself."""
    return output[0] if isinstance(output, (tuple, list)) else output


@fx.wrap
def moved_to(layer: nn.Module, value: Any) -> Any:
    """Return a value on a layer's device, tensors inside tuples, lists and dicts too.

    The device is read when it runs, so a model that was moved since it was compiled is right.
    """
    device = device_of(layer)
    return value if device is None else _moved(value, device)


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
    """Return where a layer's first parameter is, or its first buffer; None for a layer without tensors."""
    for tensor in (*layer.parameters(), *layer.buffers()):
        return tensor.device
    return None
