"""Copies without data: what a module is, on the meta device, while the module itself stays as it is."""

import copy
import re
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

T = TypeVar("T")


class WithoutData(TorchFunctionMode):
    """Makes `copy.deepcopy` give tensors of the meta device, so that no data is copied, however large the layer.

    Every tensor that the copy reaches is met: parameters, buffers, and those in plain attributes. A parameter's own
    `__deepcopy__` clones its data, other tensors' asks for this mode. Sharing is kept, as deepcopy keeps it.

    Attributes:
        made: the tensors that were made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.__deepcopy__:
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = self._twin(tensor).requires_grad_(tensor.requires_grad)
            return memo[id(tensor)]
        if func is Tensor.clone:
            return self._twin(args[0])
        return func(*args, **(kwargs or {}))

    def _twin(self, tensor: Tensor) -> Tensor:
        twin = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        self.made.append(twin)
        return twin


def copy_without_data(value: T) -> tuple[T, list[Tensor]]:
    """Return a deep copy of anything with its tensors on the meta device, and these tensors.

    Hooks of modules are left out: they belong to who watches the original, and may hold anything.

    Raises:
        Exception: whatever copying raises for what cannot be copied.
    """
    memo: dict[int, Any] = {}
    if isinstance(value, nn.Module):
        memo = {id(hooks): OrderedDict() for part in value.modules() for hooks in _hooks(part)}
    with torch.inference_mode(False), WithoutData() as mode:
        return copy.deepcopy(value, memo), mode.made


def _hooks(module: nn.Module) -> Iterable[dict[Any, Any]]:
    for name, value in vars(module).items():
        if re.fullmatch(r"_\w*hooks\w*", name) and isinstance(value, dict):
            yield value


def storage_of(tensor: Tensor) -> int:
    """Return what identifies a tensor's storage as long as it lives; views of one tensor have one storage."""
    return int(tensor.untyped_storage()._cdata)
