"""Which inputs a compiled route has beside the hidden state, and which constants its executions bind."""

import keyword
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from depthgraph.errors import CompileError
from depthgraph.nn.signature import Default, LayerSignature
from depthgraph.operations import Execution
from depthgraph.route import Route

#: What can be bound for one execution: it is written into the generated code.
Constant = Any
Constants = Mapping[str, Constant]
Signatures = Mapping[int, LayerSignature]
Users = Mapping[str, tuple[LayerSignature, ...]]

#: Names that the generated code uses for other things.
RESERVED = frozenset({"self", "hidden", "getattr", "torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree"})

_ATOMS = (type(None), bool, int, float, str, torch.dtype, torch.device)
_KEYS = (type(None), bool, int, str)
_MAX_NESTING = 16


@dataclass(frozen=True)
class Input:
    """One input of the compiled module.

    Attributes:
        name: its name, and that of the layers' parameter.
        required: whether it has no default.
        default: the layers' own default.
        is_named: whether the caller named it; then it goes to `**kwargs` too.
    """

    name: str
    required: bool
    default: Default = None
    is_named: bool = False

    def reaches(self, signature: LayerSignature) -> bool:
        """Return whether a layer is given this input."""
        return signature.takes(self.name) if self.is_named else self.name in signature.names


def choose_inputs(
    route: Route, signatures: Signatures, constants: Iterable[Constants], named: Iterable[str] | None
) -> tuple[Input, ...]:
    """Choose the inputs: what the layers' forwards take, or what the caller names.

    Args:
        route: says which layers run; a dropped layer asks for nothing.
        signatures: one for each layer that runs, by its number.
        constants: what each execution binds itself; a name that all of them bind is no input.
        named: the caller's choice; None for all parameters that the layers have.

    Returns:
        Required inputs first, each part in the order of the layers or of `named`.

    Raises:
        CompileError: `layer-inputs`, naming the layers and what to do.
    """
    users = _users(route, signatures, constants)
    names = list(users) if named is None else _checked(named, signatures, users)
    inputs = [_joined(name, users.get(name, ()), named is not None) for name in names]
    chosen = [given for given in inputs if given is not None]
    _check_complete(chosen, users)
    for given in chosen:
        if given.name in RESERVED:
            raise CompileError(
                "layer-inputs",
                f"an input cannot be named `{given.name}`: the generated code needs that name",
                help="rename the parameter, or leave it out: inputs=(...) names those to use",
            )
    return tuple(sorted(chosen, key=lambda given: not given.required))


def _users(route: Route, signatures: Signatures, constants: Iterable[Constants]) -> Users:
    """Return for each name the layers that have it as a parameter and leave it open in some execution."""
    users: dict[str, dict[int, LayerSignature]] = {}
    for execution, bound in zip(route.executions, constants, strict=True):
        signature = signatures[execution.layer]
        for name in signature.names:
            if name not in bound:
                users.setdefault(name, {})[execution.layer] = signature
    return {name: tuple(takers.values()) for name, takers in users.items()}


def _joined(name: str, takers: tuple[LayerSignature, ...], is_named: bool) -> Input | None:
    """Join what the layers say about one name; None where it is not to be an input."""
    if any(name in taker.required for taker in takers) or not takers:
        return Input(name, True, None, is_named)
    said = {repr(taker.defaults[name]): taker for taker in takers if name in taker.defaults}
    hidden_away = [taker for taker in takers if name in taker.opaque]
    if len(said) == 1 and not hidden_away:
        return Input(name, False, next(iter(said.values())).defaults[name], is_named)
    if is_named:
        return Input(name, True, None, is_named)
    if not said:
        return None
    one, other = (*said.values(), *hidden_away)[:2]
    raise CompileError(
        "layer-inputs",
        f"{one.title} and {other.title} have different defaults for `{name}`: "
        f"{one.defaults[name]!r} and {other.defaults.get(name, 'no literal')!r}",
        help=f"name the inputs to use, inputs=({name!r}, ...); one without a common default is required",
    )


def _checked(named: Iterable[str], signatures: Signatures, users: Users) -> list[str]:
    """Return the caller's names, each of which some layer takes."""
    if isinstance(named, str):
        raise CompileError("layer-inputs", f"inputs is one text, {named!r}", help=f"write inputs=({named!r},)")
    if not isinstance(named, Iterable):
        raise CompileError("layer-inputs", f"inputs is a sequence of names; found {named!r}", help=_available(users))
    names = list(named)
    for name in names:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise CompileError("layer-inputs", f"{name!r} cannot be the name of an input", help=_available(users))
        if name not in users and not any(one.is_open and one.takes(name) for one in signatures.values()):
            bound = any(one.takes(name) for one in signatures.values())
            found = "is bound by per_execution in every execution" if bound else "is taken by no layer"
            raise CompileError("layer-inputs", f"the input `{name}` {found}", help=_available(users))
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise CompileError("layer-inputs", f"the input `{twice[0]}` is named twice", help="name it once")
    return names


def _available(users: Users) -> str:
    if not users:
        return "these layers take nothing beside the hidden state"
    return "these layers take " + ", ".join(f"`{name}`" for name in users)


def _check_complete(chosen: list[Input], users: Users) -> None:
    names = {given.name for given in chosen}
    for name, takers in users.items():
        needing = [taker for taker in takers if name in taker.required]
        if needing and name not in names:
            raise CompileError(
                "layer-inputs",
                f"the forward of {needing[0].title} needs `{name}`, which `inputs` leaves out",
                help=f"add {name!r} to inputs, or bind it with per_execution",
            )


def bind_constants(
    route: Route, signatures: Signatures, per_execution: Callable[[Execution], Constants | None] | None
) -> tuple[Constants, ...]:
    """Ask for the constants of each execution and check them.

    Returns:
        One mapping an execution, in order.

    Raises:
        CompileError: `bad-constant` for a value that cannot be written into code exactly, or a name that the
            layer does not take.
    """
    if per_execution is None:
        return ({},) * route.execution_depth
    if not callable(per_execution):
        raise CompileError(
            "bad-constant",
            f"per_execution is a function of an execution; found {type(per_execution).__name__}",
            help='write per_execution=lambda execution: {"name": execution.visit}',
        )
    return tuple(
        _checked_constants(execution, signatures[execution.layer], per_execution(execution))
        for execution in route.executions
    )


def _checked_constants(execution: Execution, signature: LayerSignature, bound: Constants | None) -> Constants:
    if bound is None:
        return {}
    if not isinstance(bound, Mapping):
        raise CompileError(
            "bad-constant",
            f"per_execution returned {type(bound).__name__} for {execution.name}",
            help="return a dict: parameter of the layer's forward → constant",
        )
    constants = {name: as_plain(value) for name, value in bound.items()}
    for name, value in constants.items():
        if not isinstance(name, str) or not signature.takes(name):
            raise CompileError(
                "bad-constant",
                f"per_execution binds {name!r} for {execution.name}, and {signature.title} does not take it",
                help=f"its forward takes {', '.join(signature.names) or 'nothing beside the hidden state'}",
            )
        if not is_constant(value):
            raise CompileError(
                "bad-constant",
                f"per_execution binds {name!r} to {type(value).__name__} for {execution.name}",
                help="numbers, texts, None, dtypes, devices, and tuples, lists and dicts of them can be bound",
            )
    return constants


def is_constant(value: object, depth: int = 0) -> bool:
    """Return whether a value can be written into code exactly.

    Types are compared exactly: a subclass (an enum, a named tuple) has a text form of its own.

    Examples:
        >>> is_constant({"slot": 3, "window": (1, None)}), is_constant(object())
        (True, False)
    """
    if depth > _MAX_NESTING:
        return False
    if type(value) in (tuple, list):
        return all(is_constant(item, depth + 1) for item in value)  # type: ignore[attr-defined]
    if type(value) is dict:
        return all(type(key) in _KEYS and is_constant(item, depth + 1) for key, item in value.items())
    return type(value) in _ATOMS


def as_plain(value: Any, depth: int = 0) -> Any:
    """Return a constant with the numbers of numpy and torch in it as those of Python, which have the same value.

    That is a numpy bool, integer or float that Python's can hold, and a torch tensor of one bool or integer without
    dimensions. Everything else stays as it is.

    Examples:
        >>> import numpy
        >>> as_plain([numpy.int64(3), torch.tensor(True)])
        [3, True]
    """
    if depth > _MAX_NESTING:
        return value
    if type(value) in (tuple, list):
        return type(value)(as_plain(item, depth + 1) for item in value)
    if type(value) is dict:
        return {as_plain(key, depth + 1): as_plain(item, depth + 1) for key, item in value.items()}
    return value.item() if _is_foreign_number(value) else value


def _is_foreign_number(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        is_whole = not (value.is_floating_point() or value.is_complex())
        return value.ndim == 0 and is_whole and value.device.type != "meta"
    # numpy is not imported for this; its long doubles (item gives them back) and its dates are no number of Python
    return (
        type(value).__module__ == "numpy" and hasattr(value, "item") and value.ndim == 0 and value.dtype.kind in "biuf"
    )
