"""What the names of a spec mean at one place, and what the caller may bind them to."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from depthgraph import syntax as tree
from depthgraph.errors import SpecError, shown
from depthgraph.names import Uses, unknown_binding
from depthgraph.parser import Limits
from depthgraph.route import as_integer
from depthgraph.source import Span
from depthgraph.well_formed import DIGITS


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


def read_bindings(uses: Uses, bindings: Mapping[str, int], limits: Limits) -> dict[str, int]:
    """Return the bindings as plain integers.

    Raises:
        SpecError: one is no integer, or binds no name of the spec.
    """
    spec, defined = uses.spec, uses.defined
    free = {*uses.free, "N"}
    read: dict[str, int] = {}
    for name, value in bindings.items():
        number = as_integer(value)
        message, help = "", "bind integers: r=4"
        if not isinstance(name, str):
            message, help = f"a binding has a name, and {shown(name)} is none", "names are strings"
        elif name not in free and name not in defined:
            raise unknown_binding(name, spec)
        elif name in defined and default_integer(defined[name]) is None:
            message = f"`{name}` is defined as a sequence or a scheme here, and cannot be bound to an integer"
            help = "change its definition instead"
        elif number is None:
            found = f"an integer over {DIGITS} digits" if isinstance(value, int) and not isinstance(value, bool) else ""
            message = f"`{name}` is bound to {found or f'{shown(value)}, which is not an integer'}"
        elif name == "N" and not 1 <= number <= limits.executions:
            message = f"`N` is bound to {number:,}, and a model has 1 to {limits.executions:,} layers"
            help = "bind the number of layers"
        if message or number is None:
            raise SpecError("bad-binding", message, spec.source, spec.body.span, help=help)
        read[name] = number
    return read


def default_integer(definition: tree.Definition) -> tree.Expression | None:
    """Return the integer that a definition of `where` stands for, if it is one."""
    match definition.body.elements:
        case (tree.Layer(number),) if not definition.parameters:
            return number
        case _:
            return None
