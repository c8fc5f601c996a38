"""What conditioning finds in a layer: its linear modules, and its norms."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from depthgraph.errors import CompileError
from depthgraph.nn.module import COMPILED_PREFIX


def linears_of(title: str, layer: nn.Module, patterns: tuple[str, ...] | None) -> dict[str, nn.Module]:
    """Return the linear modules of a layer whose names match, by name; the layer itself has the name ''.

    Args:
        title: how messages name the layer.
        layer: it.
        patterns: as for `fnmatch`, each against a whole dotted name; None for every `nn.Linear`.

    Raises:
        CompileError: `conditioning-target` when there is none, or one whose weight cannot be exchanged.
    """
    _check_plain(title, layer)
    all_linear: dict[str, nn.Module] = {
        name: module for name, module in layer.named_modules() if isinstance(module, nn.Linear)
    }
    found = _matching(title, "linear modules", all_linear, patterns)
    for name, module in found.items():
        _check_parameters(title, name, module, ["weight"])
    _check_separate(title, found)
    return found


def _check_separate(title: str, found: dict[str, nn.Module]) -> None:
    weights = [id(module.weight) for module in found.values()]
    tied = [name for name, module in found.items() if weights.count(id(module.weight)) > 1]
    if tied:
        message = f"{_listed(tied)} of {title} are one weight, which cannot have an update for each name"
        raise CompileError("conditioning-target", message, help=f"name one of them: targets=({tied[0]!r},)")
    inner = [
        name
        for name in found
        for other in found
        if name != other and f".{name}".startswith(f".{other}.".replace("..", "."))
    ]
    if inner:
        message = f"{_listed(inner)} of {title} stand inside another linear module that gets an update"
        raise CompileError("conditioning-target", message, help="name one of the two in targets")


def norms_of(title: str, layer: nn.Module, patterns: tuple[str, ...] | None) -> dict[str, nn.Module]:
    """Return the norms of a layer whose names match, by name; the layer itself has the name ''.

    A norm is a module that has parameters and no submodules, and `norm` in the name of its class; with patterns, any
    module with parameters and without submodules.

    Args:
        title: how messages name the layer.
        layer: it.
        patterns: as for `linears_of`; None for every norm.

    Raises:
        CompileError: `conditioning-target` when there is none, or one whose parameters cannot be exchanged.
    """
    _check_plain(title, layer)
    leaves = {
        name: module
        for name, module in layer.named_modules()
        if not module._modules and any(each is not None for each in module._parameters.values())
    }
    norms = {name: module for name, module in leaves.items() if "norm" in type(module).__name__.lower()}
    found = _matching(title, "norms", norms if patterns is None else leaves, patterns)
    for name, module in found.items():
        _check_parameters(title, name, module, [key for key, _ in module.named_parameters()])
        if any(True for _ in module.buffers()):
            message = f"{_called(name)} of {title} is a {type(module).__name__}, whose statistics visits would share"
            raise CompileError("conditioning-target", message, help="name norms without buffers in targets")
    return found


def names_of(layer: nn.Module, parameter: nn.Parameter) -> list[str]:
    """Return all names of a parameter in a layer: more than one where weights are tied."""
    return [name for name, each in layer.named_parameters(remove_duplicate=False) if each is parameter]


def plain(name: str) -> str:
    """Return a name in a layer without what `torch.compile` puts into it."""
    return f"{name}.".replace(COMPILED_PREFIX, "").removesuffix(".")


def like(layer: nn.Module) -> tuple[torch.device | None, torch.dtype | None]:
    """Return the device and the type of a layer's first floating-point parameter."""
    first = next((each for each in layer.parameters() if each.is_floating_point()), None)
    return (None, None) if first is None else (first.device, first.dtype)


def _matching(
    title: str, kind: str, modules: dict[str, nn.Module], patterns: tuple[str, ...] | None
) -> dict[str, nn.Module]:
    wanted = ("*",) if patterns is None else patterns
    for pattern in wanted:
        if not any(fnmatchcase(plain(name), pattern) for name in modules):
            known = _listed(map(plain, modules)) if modules else "none"
            called = "" if patterns is None else f" match {pattern!r}; it has {known}"
            message = f"no {kind} of {title}{called}" if called else f"{title} has no {kind}"
            help = "choose other targets, or leave this layer out by `executions`"
            raise CompileError("conditioning-target", message, help=help)
    return {name: module for name, module in modules.items() if any(fnmatchcase(plain(name), each) for each in wanted)}


def _check_plain(title: str, layer: nn.Module) -> None:
    if any(isinstance(part, torch.jit.ScriptModule) for part in layer.modules()):
        message = f"{title} cannot have weights for single executions: scripted code reads its own weights"
        raise CompileError("conditioning-target", message, help="leave it out by `executions`, or do not script it")


def _check_parameters(title: str, name: str, module: nn.Module, keys: list[str]) -> None:
    """Refuse parameters that cannot be exchanged for the time of a call."""
    reason = ""
    for key in keys:
        parameter = module._parameters.get(key)
        if parameter is None:
            reason = f"its {key} is computed (parametrised), and no parameter"
        elif is_lazy(parameter):
            reason = "it is lazy, and its shape is not known yet; run the layer once before"
        elif not parameter.is_floating_point():
            reason = f"its {key} is of {parameter.dtype}"
    if reason:
        message = f"{_called(name)} of {title} cannot have weights for single executions: {reason}"
        raise CompileError("conditioning-target", message, help="leave it out by `targets` or `executions`")


def _called(name: str) -> str:
    return f"`{plain(name)}`" if name else "the module"


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    tail = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(f"`{name}`" if name else "the layer itself" for name in names[:8]) + tail
