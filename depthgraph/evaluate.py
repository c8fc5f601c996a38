"""Syntax tree → term: names looked up, integers computed, every limit kept."""

from collections.abc import Mapping
from typing import assert_never

from depthgraph import syntax as tree
from depthgraph.build import too_large
from depthgraph.errors import SpecError
from depthgraph.outside import no_such_layer
from depthgraph.parser import Limits
from depthgraph.schemes import LAYER_COUNT, library
from depthgraph.scope import TOP, Scope, default_integer
from depthgraph.source import Span
from depthgraph.sweep import moves_evenly, swept
from depthgraph.terms import EMPTY, Gap, Run, Term, chain, loop, reversed_term, run, runs
from depthgraph.well_formed import DIGITS

#: Evaluation steps per execution allowed: it bounds specs that work much and run little. A node of the tree is a step
#: each time it is evaluated, and so is an execution that is reversed.
STEPS = 10

BIGGEST = 10**DIGITS - 1


class Evaluation:
    """One evaluation of one spec; `dropped` is what it has dropped so far, with the place of each."""

    def __init__(self, spec: tree.RouteSpec, bindings: Mapping[str, int], limits: Limits) -> None:
        self.source = spec.source
        self.limits = limits
        self.bindings = bindings
        self.depth = bindings.get("N")
        self.highest = limits.executions if self.depth is None else self.depth
        self.definitions = {item.name: item for item in spec.definitions}
        self.dropped: list[Run] = []
        self._steps = 0
        self._known: dict[object, Term] = {}
        self._integers: dict[str, int] = {}

    def error(self, code: str, message: str, node: tree.Node, scope: Scope = TOP, help: str = "") -> SpecError:
        """Return an error at a node; inside a scheme of the library, at the call of it."""
        return SpecError(code, message, self.source, scope.site or node.span, help=help)

    def term(self, node: tree.Element, scope: Scope = TOP) -> Term:
        """Return what an element runs.

        Raises:
            SpecError: it has no meaning here, or is over a limit.
        """
        self._spend(1, node, scope)
        match node:
            case tree.Layer(number):
                return self._layer(number, node, scope)
            case tree.Range(first, last):
                return self._run(first, last, node, scope)
            case tree.Sequence(elements):
                inner = self._deeper(node, scope)
                return self._counted(chain([self.term(element, inner) for element in elements]), node, scope)
            case tree.Repeat(tree.Block(layers), count):
                return self._block(layers, count, node, scope)
            case tree.Block(layers):
                return self._block(layers, tree.Integer(1), node, scope)
            case tree.Repeat(body, count):
                return self._repeat(self.term(body, self._deeper(node, scope)), count, node, scope)
            case tree.Comprehension():
                return self._comprehension(node, scope)
            case tree.Fill():
                return Gap(scope.site or node.span)
            case tree.Reverse(body):
                term = self._no_gap(self.term(body, self._deeper(node, scope)), scope, "`rev`")
                self._spend(term.count, node, scope)
                return reversed_term(term)
            case tree.Ilr(counts):
                return self._ilr(counts, node, scope)
            case tree.Drop(layers):
                return self._drop(layers, node, scope)
            case tree.Call():
                return self._call(node, scope)
            case _:
                assert_never(node)

    def _spend(self, steps: int, node: tree.Node, scope: Scope) -> None:
        self._steps += steps
        if self._steps > STEPS * self.limits.executions:
            message = "this spec takes too long to work out"
            raise self.error("too-many-executions", message, node, scope, "write what runs in a shorter way")

    def integer(self, node: tree.Expression, scope: Scope, depth: int = 0) -> int:
        """Return the value of an integer expression that stands `depth` deep in others."""
        match node:
            case tree.Integer(value):
                return value
            case tree.Name(text):
                known = scope.integers.get(text)
                return self._bound_integer(text, node, scope, depth) if known is None else known
            case tree.Arithmetic(first, rest):
                tree.check_depth(scope.depth + depth, node, self.source)
                self._spend(1 + len(rest), node, scope)
                value = self.integer(first, scope, depth + 1)
                for sign, operand in rest:
                    value = self._apply(sign, value, self.integer(operand, scope, depth + 1), operand, scope)
                    if not -BIGGEST <= value <= BIGGEST:
                        raise too_large(scope.site or node.span, "the value of this").at(self.source)
                return value
            case _:
                assert_never(node)

    def check_count(self, count: int, node: tree.Node, scope: Scope = TOP) -> None:
        """Refuse more executions than the limit."""
        if count > self.limits.executions:
            message = f"this runs {count:,} executions, over the limit of {self.limits.executions:,}"
            raise self.error("too-many-executions", message, node, scope)

    def _counted(self, term: Term, node: tree.Node, scope: Scope) -> Term:
        self.check_count(term.count, node, scope)
        return term

    def _deeper(self, node: tree.Node, scope: Scope) -> Scope:
        integers, offset, site, depth = scope
        tree.check_depth(depth, node, self.source)
        return Scope(integers, offset, site, depth + 1)

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
        if name in self._integers:
            return self._integers[name]
        definition = self.definitions[name]
        number = default_integer(definition)
        if number is None:
            message = f"`{name}` is a {'scheme' if definition.parameters else 'sequence'}, and an integer is needed"
            raise self.error("not-an-integer", message, node, scope)
        value = self._integers[name] = self.integer(number, Scope(depth=scope.depth + depth + 1))
        return value

    def _defined(self, node: tree.Name, scope: Scope) -> Term:
        name, definition = node.text, self.definitions[node.text]
        if definition.parameters:
            message = f"`{name}` is a scheme and takes arguments"
            raise self.error("wrong-arguments", message, node, scope, f"write `{definition.signature}` with integers")
        return self._body(definition, {}, scope, scope.site)

    def _body(self, definition: tree.Definition, integers: Mapping[str, int], scope: Scope, site: Span | None) -> Term:
        """Evaluate a definition's body once for each set of arguments."""
        key = (id(definition), tuple(integers.items()), scope.offset, site)
        if key not in self._known:
            inner = self._deeper(definition, scope)
            self._known[key] = self.term(definition.body, Scope(integers, scope.offset, site, inner.depth))
        return self._known[key]

    def _is_definition(self, name: str, scope: Scope) -> bool:
        local = name in scope.integers or scope.site is not None
        return not local and name not in self.bindings and name in self.definitions

    def _layer(self, number: tree.Expression, node: tree.Layer, scope: Scope) -> Term:
        """Return the run of one layer, or of the sequence that a name stands for."""
        if isinstance(number, tree.Name) and self._is_definition(number.text, scope):
            return self._defined(number, scope)
        layer = self.integer(number, scope) + scope.offset
        if not 1 <= layer <= self.highest:
            raise self._no_layer(layer, number, node, scope)
        return Run(layer, layer, scope.site or node.span, 1, layer, layer)

    def _run(self, first: tree.Expression, last: tree.Expression, node: tree.Node, scope: Scope) -> Term:
        start = self.integer(first, scope) + scope.offset
        end = self.integer(last, scope) + scope.offset
        if start > end:
            return EMPTY
        if start < 1 or end > self.highest:
            raise self._no_layer(start if start < 1 else end, first if start < 1 else last, node, scope)
        return self._counted(run(start, end, scope.site or node.span), node, scope)

    def _no_layer(self, layer: int, end: tree.Expression, node: tree.Node, scope: Scope) -> SpecError:
        if self.depth is None and layer >= 1:
            message = f"a model of {layer:,} layers is over the limit of {self.limits.executions:,}"
            return self.error("too-many-executions", message, end, scope)
        message, help = no_such_layer(layer, self.depth, end, node, scope, self.source)
        return self.error("unknown-layer", message, end, scope, help)

    def _count(self, count: tree.Expression, node: tree.Node, scope: Scope) -> int:
        times = self.integer(count, scope)
        if times < 1:
            message = f"a count is at least 1, and this is {times}"
            place = count if count.span.end else node
            raise self.error("bad-count", message, place, scope, "leave out what should not run")
        return times

    def _repeat(self, body: Term, count: tree.Expression, node: tree.Node, scope: Scope) -> Term:
        times = self._count(count, node, scope)
        self.check_count(times * body.count, node, scope)
        return loop([self._no_gap(body, scope, "a loop")], times)

    def _block(self, layers: tree.Range, count: tree.Expression, node: tree.Node, scope: Scope) -> Term:
        gap = Gap(scope.site or node.span)
        body = self.term(layers, scope)
        return chain([gap, self._repeat(body, count, node, scope), gap])

    def _ilr(self, counts: tuple[tree.Expression, ...], node: tree.Node, scope: Scope) -> Term:
        terms = []
        for layer, count in enumerate(counts, 1):
            at = layer + scope.offset
            if at > self.highest:
                raise self._no_layer(at, count, node, scope)
            body = run(at, at, scope.site or count.span)
            times = self._count(count, node, scope)
            self.check_count(times, node, scope)
            terms.append(loop([body], times) if times > 1 else body)
        return self._counted(chain(terms), node, scope)

    def _comprehension(self, node: tree.Comprehension, scope: Scope) -> Term:
        first, last = self.integer(node.values.first, scope), self.integer(node.values.last, scope)
        if last - first >= self.limits.executions:
            message = f"this has {last - first + 1:,} iterations, over the limit of {self.limits.executions:,}"
            raise self.error("too-many-executions", message, node.values, scope)
        inner = self._deeper(node, scope)
        iterations = last - first + 1
        if iterations > 2 and moves_evenly(node.body, {**scope.integers, node.index: first}):
            one, two = (self._iteration(node, value, inner) for value in (first, first + 1))
            self.check_count(one.count * iterations, node, scope)
            self._spend(iterations, node, scope)
            moved = swept(one, two, len(node.body.elements), iterations, self.highest)
            if moved is not None:
                return loop(moved, 1)
        bodies: list[Term] = []
        count = 0
        for value in range(first, last + 1):
            bodies.append(self._iteration(node, value, inner))
            count += bodies[-1].count
            self.check_count(count, node, scope)
        return loop(bodies, 1)

    def _iteration(self, node: tree.Comprehension, value: int, scope: Scope) -> Term:
        here = Scope({**scope.integers, node.index: value}, *scope[1:])
        return self._no_gap(self.term(node.body, here), scope, "a comprehension")

    def _no_gap(self, term: Term, scope: Scope, what: str) -> Term:
        if term.gap is not None:
            message = f"a fill inside {what} could run its layers once, or in every iteration"
            help = "write the layers out where they run more than once, or put the fill outside"
            raise SpecError("fill-in-loop", message, self.source, scope.site or term.gap, help=help)
        return term

    def _drop(self, layers: tree.Expression | tree.Range, node: tree.Node, scope: Scope) -> Term:
        term = self.term(layers if isinstance(layers, tree.Range) else tree.Layer(layers, span=layers.span), scope)
        if term.gap is not None:
            message, help = "`drop` takes layers, and a fill is none by itself", "name the layers"
            raise self.error("wrong-arguments", message, node, scope, help)
        for part in runs(term):
            self.dropped.append(run(min(part.first, part.last), part.highest, scope.site or node.span))
        return EMPTY

    def _call(self, node: tree.Call, scope: Scope) -> Term:
        own = self.definitions.get(node.name) if scope.site is None else None
        definition = own or library()[node.name].definition
        site = scope.site or (None if own else node.span)
        signature = definition.signature
        if len(node.arguments) != len(definition.parameters):
            wanted = f"{len(definition.parameters)} argument{'s' if len(definition.parameters) != 1 else ''}"
            message = f"`{signature}` takes {wanted}, and this gives {len(node.arguments)}"
            if not definition.parameters:
                message = f"`{node.name}` is a sequence and takes no arguments; a blank stands before a group"
            raise self.error("wrong-arguments", message, node, scope, f"it is written `{signature}`")
        self._spend(len(node.arguments), node, scope)
        integers: dict[str, int] = {}
        offset = scope.offset
        for name, argument in zip(definition.parameters, node.arguments, strict=True):
            integers[name], shift = self._argument(name, argument, signature, scope)
            offset += shift
        return self._body(definition, integers, scope._replace(offset=offset), site)

    def _argument(
        self, name: str, argument: tree.Expression | tree.Range, signature: str, scope: Scope
    ) -> tuple[int, int]:
        """Return an argument's value, and by how much the scheme's layers are shifted."""
        if not isinstance(argument, tree.Range):
            value, shift = self.integer(argument, scope), 0
        elif name == LAYER_COUNT:
            first, last = self.integer(argument.first, scope), self.integer(argument.last, scope)
            value, shift = last - first + 1, first - 1
        else:
            message = f"`{name}` of `{signature}` is not a layer count, and takes no range"
            raise self.error("wrong-arguments", message, argument, scope, f"a layer count is named `{LAYER_COUNT}`")
        if name == LAYER_COUNT and value < 1:
            message = f"a layer count is at least 1, and this is {value}"
            raise self.error("bad-count", message, argument, scope)
        return value, shift
