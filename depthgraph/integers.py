"""Integer expressions → integers, within a budget of evaluation steps."""

from collections.abc import Mapping
from typing import assert_never

from depthgraph import syntax as tree
from depthgraph.build import too_large
from depthgraph.errors import SpecError
from depthgraph.parser import Limits
from depthgraph.scope import TOP, Scope, default_integer
from depthgraph.well_formed import DIGITS

#: Evaluation steps per execution allowed: it bounds specs that work much and run little. A node of the tree is a step
#: each time it is evaluated, and so is an execution that is reversed.
STEPS = 10

BIGGEST = 10**DIGITS - 1


class Integers:
    """The integers of one spec under its bindings, and the limits of its evaluation."""

    def __init__(self, spec: tree.RouteSpec, bindings: Mapping[str, int], limits: Limits) -> None:
        self.source = spec.source
        self.limits = limits
        self.bindings = bindings
        self.definitions = {item.name: item for item in spec.definitions}
        self._steps = 0
        self._known: dict[str, int] = {}

    def error(self, code: str, message: str, node: tree.Node, scope: Scope = TOP, help: str = "") -> SpecError:
        """Return an error at a node; inside a scheme of the library, at the call of it."""
        return SpecError(code, message, self.source, scope.site or node.span, help=help)

    def spend(self, steps: int, node: tree.Node, scope: Scope) -> None:
        """Count evaluation steps, and refuse more than the limits allow."""
        self._steps += steps
        if self._steps > STEPS * self.limits.executions:
            message = "this spec takes too long to work out"
            raise self.error("too-many-executions", message, node, scope, "write what runs in a shorter way")

    def check_size(self, size: int, node: tree.Node, scope: Scope = TOP, *, has_flow: bool = False) -> None:
        """Refuse more executions, and operations of data flow, than the limit."""
        if size > self.limits.executions:
            what = "executions and operations of data flow" if has_flow else "executions"
            message = f"this runs {size:,} {what}, over the limit of {self.limits.executions:,}"
            raise self.error("too-many-executions", message, node, scope)

    def value(self, node: tree.Expression, scope: Scope, depth: int = 0) -> int:
        """Return the value of an integer expression that stands `depth` deep in others."""
        match node:
            case tree.Integer(value):
                return value
            case tree.Name(text):
                known = scope.integers.get(text)
                return self._bound_integer(text, node, scope, depth) if known is None else known
            case tree.Arithmetic(first, rest):
                tree.check_depth(scope.depth + depth, node, self.source)
                self.spend(1 + len(rest), node, scope)
                value = self.value(first, scope, depth + 1)
                for sign, operand in rest:
                    value = self._apply(sign, value, self.value(operand, scope, depth + 1), operand, scope)
                    if not -BIGGEST <= value <= BIGGEST:
                        raise too_large(scope.site or node.span, "the value of this").at(self.source)
                return value
            case _:
                assert_never(node)

    def _apply(self, sign: str, left: int, right: int, node: tree.Node, scope: Scope) -> int:
        match sign:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case _:
                if right == 0:
                    raise self.error("division-by-zero", "this divides by zero", node, scope)
                return left // right

    def _bound_integer(self, name: str, node: tree.Name, scope: Scope, depth: int) -> int:
        if name in self.bindings:
            return self.bindings[name]
        if name in self._known:
            return self._known[name]
        definition = self.definitions[name]
        number = default_integer(definition)
        if number is None:
            message = f"`{name}` is a {'scheme' if definition.parameters else 'sequence'}, and an integer is needed"
            raise self.error("not-an-integer", message, node, scope)
        value = self._known[name] = self.value(number, Scope(depth=scope.depth + depth + 1))
        return value
