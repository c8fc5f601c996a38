"""What a module with loop counts at run time is made from: a spec, what is bound in it, and how it is compiled."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from depthgraph.errors import CompileError, SpecError
from depthgraph.expand import expand
from depthgraph.names import Uses, unknown_binding
from depthgraph.operations import Gate, Mix
from depthgraph.parser import parse
from depthgraph.route import Route, as_integer
from depthgraph.source import Source, Span
from depthgraph.syntax import RouteSpec
from depthgraph.truncation import integer_names, truncated


@dataclass(frozen=True)
class Recipe:
    """How a module with loop counts at run time is made.

    Attributes:
        spec: what is written.
        names: the counts that are chosen at run time.
        bindings: of the spec's other names, N among them.
        defaults: of counts that have one.
        last: of counts whose gradient is cut: how many iterations keep it.
        options: of `compile`, for every count.
    """

    spec: RouteSpec
    names: tuple[str, ...]
    bindings: Mapping[str, int]
    defaults: Mapping[str, int]
    last: Mapping[str, int]
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        spec: str | Source | RouteSpec,
        depth: int,
        dynamic: Iterable[str] | Mapping[str, int],
        bindings: Mapping[str, int],
        backprop_last: int | Mapping[str, int] | None,
        options: Mapping[str, Any],
    ) -> "Recipe":
        """Check what a caller of `compile` gave, and return the recipe.

        Args:
            spec: text, or a parsed spec.
            depth: N, how many layers there are.
            dynamic: the names of the counts, with defaults if it is a mapping.
            bindings: of the spec's other names.
            backprop_last: k for every count, or by name.
            options: of `compile`.

        Raises:
            SpecError: a name is none of the spec's, or is bound twice.
            CompileError: `loop-count` for no names, `N`, or a k or default that is no integer from 1.
        """
        if not isinstance(spec, RouteSpec):
            spec = parse(spec)
        elif not spec.source.text:
            spec = parse(Source(str(spec), "<tree>"))  # places tell the weights of one `mix` from those of another
        names = (dynamic,) if isinstance(dynamic, str) else tuple(dynamic)
        bound = {"N": depth, **bindings}
        known = integer_names(spec, bound)
        for name in names:
            if name in bound:
                message = f"`{name}` is {'the number of layers' if name == 'N' else 'bound, and a count at run time'}"
                raise SpecError("bad-binding", message, spec.source, spec.body.span, help="name the loop counts alone")
            if name not in known:
                raise unknown_binding(name, spec)
        if not names:
            raise CompileError("loop-count", "`dynamic` names no loop count", help='name them: dynamic=["r"]')
        said = dynamic if isinstance(dynamic, Mapping) else {}
        given = {name: _positive(value, f"the default of `{name}`") for name, value in said.items()}
        written = {name: value for name in names if (value := known[name]) is not None}
        defaults = {**written, **given}
        last = backprop_last if isinstance(backprop_last, Mapping) else dict.fromkeys(names, backprop_last)
        cut = {name: _positive(k, "backprop_last") for name, k in last.items() if k is not None}
        stray = next((name for name in cut if name not in names), None)
        if stray is not None:
            message = f"`backprop_last` is given for `{stray}`, which is no loop count of this model"
            raise CompileError("loop-count", message, help=f"its counts are {', '.join(names)}")
        return cls(spec, names, bound, defaults, cut, options)

    def route(self, counts: Mapping[str, int]) -> Route:
        """Return the route at some counts, its gradient cut.

        Raises:
            SpecError: the spec means no route at these counts.
        """
        bound = {**self.bindings, **counts}
        spec = truncated(self.spec, self.last, bound) if self.last else self.spec
        return expand(spec, bound)

    def loops(self, counts: Mapping[str, int]) -> Route | None:
        """Return the route as it is written, where the cut makes two loops of one; its executions are the same."""
        return expand(self.spec, {**self.bindings, **counts}) if self.last else None

    def place(self, operation: Mix | Gate) -> object:
        """Return whose weights an operation has, in terms of the text: their name, or where it is written."""
        return self._weights_by_place.get(operation.span) or operation.span

    @cached_property
    def _weights_by_place(self) -> Mapping[Span | None, str]:
        return {node.span: node.weights for node in Uses(self.spec).accesses if node.weights is not None}


def _positive(value: object, what: str) -> int:
    number = as_integer(value)
    if number is None or number < 1:
        raise CompileError("loop-count", f"{what} is an integer from 1; found {value!r}", help="give a whole number")
    return number
