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
from torch.nn.parameter import is_lazy

from depthgraph.errors import CompileError, shown
from depthgraph.nn.runtime import device_of, not_hidden, taken_from
from depthgraph.nn.signature import LayerSignature, Returns, kind_of
from depthgraph.route import Route, as_integer

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


def known_width(width: object, example: Tensor | None = None) -> int | None:
    """Return the size of the hidden state, as it is given or as an example has it; None where nothing says it.

    Raises:
        CompileError: `unknown-width` for a width that is no integer from 1.
    """
    if width is None:
        return example.shape[-1] if example is not None and example.ndim else None
    size = as_integer(width)
    if size is None or size < 1:
        message = f"width is d, the size of the hidden state, an integer from 1; found {shown(width)}"
        raise CompileError("unknown-width", message, help="say it: compile(route, layers, width=d)")
    return size


def check_shapes(
    example: Tensor, modules: Mapping[int, nn.Module], signatures: Mapping[int, LayerSignature], returns: Returns
) -> None:
    """Check that each layer returns a hidden state of the shape that it was given.

    Layers run once, on tensors without data, as copies: no user's object changes. A layer that needs other
    inputs, cannot be copied, looks at values, has hooks, is scripted, or has lazy parameters is not checked.

    Args:
        example: a hidden state, of any device; only its shape and dtype are used.
        modules: the layers that run, by their number.
        signatures: their signatures.
        returns: the caller's word on what layers return.

    Raises:
        CompileError: `layer-shape`, naming the layer and both shapes; `layer-output` for a layer that returns no
            hidden state.
    """
    if not isinstance(example, Tensor):
        raise CompileError(
            "layer-shape",
            f"example is a hidden state; found {type(example).__name__}",
            help='give a tensor, torch.empty(2, 8, device="meta") for a shape alone',
        )
    for number, module in modules.items():
        if not signatures[number].required and _is_plain(module):
            _check_shape(example, module, signatures[number], returns)


def _check_shape(example: Tensor, module: nn.Module, signature: LayerSignature, returns: Returns) -> None:
    try:
        output = _output_of(module, example)
        hidden = taken_from(output, kind_of(signature, returns), signature.title)
    except (*_NEEDS_VALUES, _CannotCopyError):
        return
    except CompileError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0]
        if "meta tensor" in reason:  # how the meta device says that it has no values
            return
        raise CompileError(
            "layer-shape",
            f"{signature.title} does not run on a hidden state of shape {tuple(example.shape)}: {reason}",
            help="every layer takes and returns hidden states of one shape",
        ) from error
    if not isinstance(hidden, Tensor):
        raise not_hidden(output, signature.title)
    if hidden.shape != example.shape:
        raise CompileError(
            "layer-shape",
            f"{signature.title} makes a hidden state of shape {tuple(hidden.shape)} "
            f"from one of shape {tuple(example.shape)}",
            help="every layer returns a hidden state of the shape that it was given",
        )


def _is_plain(module: nn.Module) -> bool:
    """Return whether a copy of the layer on tensors without data would do what the layer does.

    Hooks may change what comes out and are not run; TorchScript knows no tensors without data; and a lazy layer
    has no parameters yet.
    """
    return not any(
        isinstance(part, torch.jit.ScriptModule) or part._forward_hooks or part._forward_pre_hooks
        for part in module.modules()
    ) and not any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers()))


class _CannotCopyError(Exception):
    """A layer may hold anything, and what cannot be copied is not run."""


def _output_of(module: nn.Module, example: Tensor) -> Any:
    """Return what a copy of the layer returns on tensors without data."""
    device = device_of(module) or example.device
    mode = None if device.type == "meta" else FakeTensorMode(allow_non_fake_inputs=True)
    tensors = (*module.parameters(), *module.buffers())
    shadows = {id(tensor): _without_data(tensor, mode) for tensor in tensors}
    try:
        twin = copy.deepcopy(module, dict[int, Any](shadows))
    except Exception as error:
        raise _CannotCopyError from error
    with _quiet(), mode or contextlib.nullcontext(), torch.no_grad():
        return twin(torch.empty(example.shape, dtype=example.dtype, device=device))


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
