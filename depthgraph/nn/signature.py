"""What a layer's `forward` takes and returns, read by inspection."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal, get_origin, get_type_hints

from torch import Tensor, nn

from depthgraph.errors import CompileError

#: What can stand as a default in generated code.
Default = None | bool | int | float | str

#: Whether a layer returns the hidden state, a tuple that starts with it, or does not say.
Returns = Literal["tensor", "tuple", "auto"]

_LITERALS = (type(None), bool, int, float, str)


@dataclass(frozen=True)
class LayerSignature:
    """A layer's forward, apart from its first parameter, which is the hidden state.

    Attributes:
        title: how messages name the layer, `layer 2 (Attention)`.
        hidden: the name of the first parameter.
        required: parameters without a default.
        defaults: parameters with a default that can be written in code.
        opaque: parameters with any other default; passed only when the caller names them.
        is_open: whether there is a `**kwargs`, which takes names that the caller gives.
        returns: what the return annotation says, `auto` where it says nothing.
    """

    title: str
    hidden: str = ""
    required: tuple[str, ...] = ()
    defaults: Mapping[str, Default] = field(default_factory=dict)
    opaque: tuple[str, ...] = ()
    is_open: bool = False
    returns: Returns = "auto"

    @property
    def names(self) -> tuple[str, ...]:
        """All parameters that have a name of their own, in no special order."""
        return (*self.required, *self.defaults, *self.opaque)

    def takes(self, name: str) -> bool:
        """Return whether a keyword argument of this name reaches the layer."""
        return name in self.names or (self.is_open and name != self.hidden)


def read_signature(number: int, layer: nn.Module) -> LayerSignature:
    """Read the forward of layer `number`.

    Raises:
        CompileError: `bad-layers` when there is no forward; `layer-inputs` when it takes no hidden state, or
            needs a second argument that can only be given by position.
    """
    title = title_of(number, layer)
    layer = unwrapped(layer)
    forward = layer.forward
    if getattr(forward, "__func__", None) is nn.Module.forward:
        raise CompileError("bad-layers", f"{title} has no forward", help="give modules that can be called")
    parameters = _parameters(forward)
    if parameters is None:  # written in C: it takes what the caller names
        return LayerSignature(title, is_open=True)
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise CompileError(
            "layer-inputs",
            f"the forward of {title} takes no positional argument",
            help="the hidden state is given as the first positional argument",
        )
    return _sorted_out(title, parameters, return_kind(forward))


def title_of(number: int, layer: nn.Module) -> str:
    """Return how messages name a layer. TorchScript's classes hold the name of the one that was scripted.

    Examples:
        >>> title_of(2, nn.Linear(8, 8))
        'layer 2 (Linear)'
    """
    layer = unwrapped(layer)
    return f"layer {number} ({getattr(layer, 'original_name', type(layer).__name__)})"


def _parameters(forward: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters of a forward without `self`; None where they cannot be known."""
    try:
        return list(inspect.signature(forward).parameters.values())
    except (ValueError, TypeError):
        schema = getattr(forward, "schema", None)
    if schema is None:
        return None
    # a traced forward, or one of a scripted file that was loaded: it has TorchScript's own signature
    return [
        inspect.Parameter(
            one.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=one.default_value if one.has_default_value() else inspect.Parameter.empty,
        )
        for one in schema.arguments[1:]
    ]


def _sorted_out(title: str, parameters: list[inspect.Parameter], returns: Returns) -> LayerSignature:
    required: list[str] = []
    opaque: list[str] = []
    defaults: dict[str, Default] = {}
    first, *others = parameters
    for parameter in others:
        name, default = parameter.name, parameter.default
        match parameter.kind:
            case inspect.Parameter.VAR_POSITIONAL | inspect.Parameter.VAR_KEYWORD:
                pass
            case inspect.Parameter.POSITIONAL_ONLY:
                _refuse_required_by_position(title, parameter)
            case _ if default is inspect.Parameter.empty:
                required.append(name)
            case _ if type(default) in _LITERALS:
                defaults[name] = default
            case _:
                opaque.append(name)
    is_open = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in others)
    return LayerSignature(title, first.name, tuple(required), defaults, tuple(opaque), is_open, returns)


def _refuse_required_by_position(title: str, parameter: inspect.Parameter) -> None:
    if parameter.default is inspect.Parameter.empty:
        raise CompileError(
            "layer-inputs",
            f"the forward of {title} needs `{parameter.name}`, which it takes by position only",
            help="inputs beside the hidden state are given by name; remove the `/` of its signature",
        )


def kind_of(signature: LayerSignature, returns: Returns) -> Returns:
    """Return what a layer returns: the caller's word, or that of its annotation where the caller says `auto`."""
    return signature.returns if returns == "auto" else returns


def return_kind(forward: Callable[..., Any]) -> Returns:
    """Return what the annotation of a forward says that it returns.

    An annotation that cannot be evaluated, a union, or a type that is no tensor and no tuple says nothing.
    """
    function = inspect.unwrap(getattr(forward, "__func__", forward))
    annotation = getattr(function, "__annotations__", {}).get("return")
    alone: Any = SimpleNamespace(__annotations__={"return": annotation})
    try:  # only this annotation: another one that cannot be evaluated does not matter
        annotation = get_type_hints(alone, getattr(function, "__globals__", {})).get("return")
    except Exception:  # annotations are code of others: any error means that they say nothing
        return "auto"
    if get_origin(annotation) is tuple or (isinstance(annotation, type) and issubclass(annotation, tuple)):
        return "tuple"
    return "tensor" if isinstance(annotation, type) and issubclass(annotation, Tensor) else "auto"


def unwrapped(layer: nn.Module) -> nn.Module:
    """Return the module inside the wrapper that `torch.compile(layer)` makes; other modules as they are."""
    return layer._modules["_orig_mod"] or layer if is_wrapper(layer) else layer


def is_wrapper(layer: nn.Module) -> bool:
    """Return whether a module is what `torch.compile(layer)` makes. A scripted module's dict knows `in`, not `get`."""
    return "_orig_mod" in layer._modules
