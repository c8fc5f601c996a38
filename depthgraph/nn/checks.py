"""What is checked before a compiled route runs: its layers, and the shapes that they return."""

import contextlib
import copy
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from depthgraph.errors import CompileError
from depthgraph.nn.runtime import device_of, hidden_of
from depthgraph.nn.signature import LayerSignature
from depthgraph.route import Route

#: What a layer may raise because it looks at values, which a shape does not have.
_NEEDS_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    NotImplementedError,
)


def check_layers(route: Route, layers: Iterable[nn.Module], allow_shared: bool) -> tuple[nn.Module, ...]:
    """Return the layers as a tuple after checking that they are modules, N of them, and distinct.

    Raises:
        CompileError: `bad-layers`, `layer-count` or `shared-layer`.
    """
    modules = _modules(layers)
    N = route.parameter_depth
    if len(modules) != N:
        raise CompileError(
            "layer-count",
            f"this route is for {N} layer{'s' * (N != 1)} and {len(modules)} were given",
            help=f"give {N} modules, or make the route for this model: dg.route(text, N={len(modules)})",
        )
    places: dict[int, list[int]] = {}
    for number, module in enumerate(modules, 1):
        places.setdefault(id(module), []).append(number)
    shared = [numbers for numbers in places.values() if len(numbers) > 1]
    if shared and not allow_shared:
        named = "; ".join(f"layers {', '.join(map(str, numbers))}" for numbers in shared)
        raise CompileError(
            "shared-layer",
            f"one module object is given as several layers: {named}",
            help="give each layer a module of its own (copy.deepcopy), or say allow_shared=True",
        )
    return modules


def _modules(layers: Iterable[nn.Module]) -> tuple[nn.Module, ...]:
    needs = "give a sequence of modules: a list, a tuple, or an nn.ModuleList"
    if isinstance(layers, (Mapping, nn.ModuleDict)):
        raise CompileError("bad-layers", "the layers are a dict, which has names", help="give its .values()")
    if not isinstance(layers, Iterable):
        raise CompileError("bad-layers", f"the layers are one {type(layers).__name__}", help=needs)
    modules = tuple(layers)
    for number, module in enumerate(modules, 1):
        if not isinstance(module, nn.Module):
            raise CompileError("bad-layers", f"layer {number} is a {type(module).__name__}", help=needs)
    return modules


def check_shapes(example: Tensor, modules: Mapping[int, nn.Module], signatures: Mapping[int, LayerSignature]) -> None:
    """Check that each layer returns a hidden state of the shape that it was given.

    Layers run once, on tensors without data, as copies without hooks: no user's object changes. A layer that
    needs other inputs, cannot be copied, or looks at values is not checked.

    Args:
        example: a hidden state, of any device; only its shape and dtype are used.
        modules: the layers that run, by their number.
        signatures: their signatures.

    Raises:
        CompileError: `layer-shape`, naming the layer and both shapes.
    """
    for number, module in modules.items():
        if signatures[number].required:
            continue
        try:
            found = _shape_after(module, example)
        except _NEEDS_VALUES:
            continue
        except Exception as error:
            reason = str(error).partition("\n")[0]
            if "meta tensor" in reason:  # how the meta device says that it has no values
                continue
            raise CompileError(
                "layer-shape",
                f"{signatures[number].title} does not run on a hidden state of shape {tuple(example.shape)}: {reason}",
                help="every layer takes and returns hidden states of one shape",
            ) from error
        if found is not None and found != example.shape:
            raise CompileError(
                "layer-shape",
                f"{signatures[number].title} makes a hidden state of shape {tuple(found)} "
                f"from one of shape {tuple(example.shape)}",
                help="every layer returns a hidden state of the shape that it was given",
            )


def _shape_after(module: nn.Module, example: Tensor) -> torch.Size | None:
    """Return the shape of what a layer returns; None when the layer cannot be copied."""
    device = device_of(module) or example.device
    mode = None if device.type == "meta" else FakeTensorMode(allow_non_fake_inputs=True)
    tensors = (*module.parameters(), *module.buffers())
    shadows = {id(tensor): _without_data(tensor, mode) for tensor in tensors}
    try:
        twin = copy.deepcopy(module, dict[int, Any](shadows))
    except Exception:  # a layer may hold anything, and what cannot be copied is not run
        return None
    for part in twin.modules():
        part._forward_hooks.clear()
        part._forward_pre_hooks.clear()
    with _quiet(), mode or contextlib.nullcontext(), torch.no_grad():
        hidden = torch.empty(example.shape, dtype=example.dtype, device=device)
        output = hidden_of(twin(hidden))
    return output.shape if isinstance(output, Tensor) else None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from logging, with a traceback, the mismatch that is raised and reported here."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _without_data(tensor: Tensor, mode: FakeTensorMode | None) -> Tensor:
    """Return a tensor without data on the same device. Those of the meta device have none already."""
    return tensor.detach() if mode is None else mode.from_tensor(tensor)
