"""What the names of a spec mean at one place, and what the caller may bind them to."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from depthgraph import syntax as tree
from depthgraph.build import DIGITS
from depthgraph.errors import SpecError
from depthgraph.names import free_names, unknown_binding
from depthgraph.parser import Limits
from depthgraph.source import Span


class Scope(NamedTuple):
    """What names mean at one place. (A named tuple: a long comprehension makes one per iteration.)

    Attributes:
        integers: indexes and parameters by name.
        offset: what is added to every layer, in a scheme that was called with a range.
        site: the call in the user's text, inside a scheme of the library; None elsewhere.
        depth: how deep this place is nested.
    """

    integers: Mapping[str, int] = MappingProxyType({})
    offset: int = 0
    site: Span | None = None
    depth: int = 0


TOP = Scope()


def check_bindings(spec: tree.RouteSpec, bindings: Mapping[str, int], limits: Limits) -> None:
    """Refuse bindings that are no integers, or bind no name of the spec."""
    free = set(free_names(spec)) | {"N"}
    defined = {item.name: item for item in spec.definitions}
    for name, value in bindings.items():
        message = ""
        if name not in free and name not in defined:
            raise unknown_binding(name, spec)
        if name in defined and default_integer(defined[name]) is None:
            message = f"`{name}` is defined as a sequence or a scheme here, and cannot be bound to an integer"
        elif not isinstance(value, int) or isinstance(value, bool):
            message = f"`{name}` is bound to {value!r}, which is not an integer"
        elif abs(value) >= 10**DIGITS:
            message = f"`{name}` is bound to an integer over {DIGITS} digits"
        elif name == "N" and not 1 <= value <= limits.executions:
            message = f"`N` is bound to {value:,}, and a model has 1 to {limits.executions:,} layers"
        if message:
            raise SpecError("bad-binding", message, spec.source, spec.body.span)


def default_integer(definition: tree.Definition) -> tree.Expression | None:
    """Return the integer that a definition of `where` stands for, if it is one."""
    match definition.body.elements:
        case (tree.Layer(number),) if not definition.parameters:
            return number
        case _:
            return None
