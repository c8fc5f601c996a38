"""Syntax tree → term: names looked up, integers computed, every limit kept."""

import itertools
from collections.abc import Mapping
from typing import assert_never

from depthgraph import syntax as tree
from depthgraph.errors import SpecError
from depthgraph.flow import BRANCH_HELP, EMPTY_BRANCH
from depthgraph.integers import Integers
from depthgraph.names import Uses
from depthgraph.operations import Add, Exit, Gate, Load, Mix, Save, StopGradient
from depthgraph.outside import no_such_layer
from depthgraph.parser import Limits
from depthgraph.schemes import LAYER_COUNT, library
from depthgraph.scope import TOP, Scope
from depthgraph.source import Span
from depthgraph.sweep import moves_evenly, swept
from depthgraph.terms import EMPTY, Gap, Run, Step, Term, chain, has_flow, loop, reversed_term, run, runs, split
from depthgraph.words import WEIGHTED_WORDS

PLAIN: dict[str, type[Save | Load | Add]] = {"save": Save, "load": Load, "add": Add}
WEIGHTED: dict[str, type[Mix | Gate]] = {"mix": Mix, "gate": Gate}


class Evaluation:
    """One evaluation of one spec; `dropped` is what it has dropped so far, with the place of each."""

    def __init__(self, uses: Uses, bindings: Mapping[str, int], limits: Limits) -> None:
        self.integers = Integers(uses.spec, bindings, limits)
        self.error = self.integers.error
        self.source = uses.spec.source
        self.depth = bindings.get("N")
        self.highest = limits.executions if self.depth is None else self.depth
        self.definitions = self.integers.definitions
        self.dropped: list[Run] = []
        self._taken = set(uses.registers)
        self._renamed: dict[str, str] = {}
        self._known: dict[object, Term] = {}

    def term(self, node: tree.Element, scope: Scope = TOP) -> Term:
        """Return what an element runs.

        Raises:
            SpecError: it has no meaning here, or is over a limit.
        """
        self.integers.spend(1, node, scope)
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
                return self._reverse(body, node, scope)
            case tree.Ilr(counts):
                return self._ilr(counts, node, scope)
            case tree.Drop(layers):
                return self._drop(layers, node, scope)
            case tree.Call():
                return self._call(node, scope)
            case tree.Access() | tree.Join() | tree.Mark():
                return self._data_flow(node, scope)
            case _:
                assert_never(node)

    def _counted(self, term: Term, node: tree.Node, scope: Scope) -> Term:
        self.integers.check_size(term.size, node, scope, has_flow=has_flow(term))
        return term

    def _deeper(self, node: tree.Node, scope: Scope) -> Scope:
        integers, offset, site, depth = scope
        tree.check_depth(depth, node, self.source)
        return Scope(integers, offset, site, depth + 1)

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
        return not local and name not in self.integers.bindings and name in self.definitions

    def _layer(self, number: tree.Expression, node: tree.Layer, scope: Scope) -> Term:
        """Return the run of one layer, or of the sequence that a name stands for."""
        if isinstance(number, tree.Name) and self._is_definition(number.text, scope):
            return self._defined(number, scope)
        layer = self.integers.value(number, scope) + scope.offset
        if not 1 <= layer <= self.highest:
            raise self._no_layer(layer, number, node, scope)
        return Run(layer, layer, scope.site or node.span, 1, layer, layer)

    def _run(self, first: tree.Expression, last: tree.Expression, node: tree.Node, scope: Scope) -> Term:
        start = self.integers.value(first, scope) + scope.offset
        end = self.integers.value(last, scope) + scope.offset
        if start > end:
            return EMPTY
        if start < 1 or end > self.highest:
            raise self._no_layer(start if start < 1 else end, first if start < 1 else last, node, scope)
        return self._counted(run(start, end, scope.site or node.span), node, scope)

    def _no_layer(self, layer: int, end: tree.Expression, node: tree.Node, scope: Scope) -> SpecError:
        if self.depth is None and layer >= 1:
            message = f"a model of {layer:,} layers is over the limit of {self.integers.limits.executions:,}"
            return self.error("too-many-executions", message, end, scope)
        message, help = no_such_layer(layer, self.depth, end, node, scope, self.source)
        return self.error("unknown-layer", message, end, scope, help)

    def _count(self, count: tree.Expression, node: tree.Node, scope: Scope) -> int:
        times = self.integers.value(count, scope)
        if times < 1:
            message = f"a count is at least 1, and this is {times}"
            place = count if count.span.end else node
            raise self.error("bad-count", message, place, scope, "leave out what should not run")
        return times

    def _repeat(self, body: Term, count: tree.Expression, node: tree.Node, scope: Scope) -> Term:
        times = self._count(count, node, scope)
        self.integers.check_size(times * body.size, node, scope, has_flow=has_flow(body))
        return loop([self._no_gap(body, scope, "a loop")], times)

    def _reverse(self, body: tree.Sequence, node: tree.Node, scope: Scope) -> Term:
        term = self._no_gap(self.term(body, self._deeper(node, scope)), scope, "`rev`")
        if has_flow(term):
            message = "`rev` reverses executions, and this has data flow, which has no reverse"
            raise self.error("data-flow-in-rev", message, node, scope, "reverse the layers alone")
        self.integers.spend(term.count, node, scope)
        return reversed_term(term)

    def _data_flow(self, node: tree.DataFlow, scope: Scope) -> Term:
        place = scope.site or node.span
        match node:
            case tree.Access():
                return self._access(node, place, scope)
            case tree.Join(word, branches):
                inner = self._deeper(node, scope)
                terms = [self._branch(branch, inner) for branch in branches]
                return self._counted(split(word, terms, place), node, scope)
            case tree.Mark(word):
                return Step(Exit(0, span=place) if word == "exit" else StopGradient(span=place))

    def _access(self, node: tree.Access, place: Span, scope: Scope) -> Term:
        """Return an operation with a register; one of a scheme of the library has a name that the spec does not use."""
        word, register = node.word, node.register
        for name, what in ((register, "a register"), (node.weights, "weights")):
            if name in scope.integers:
                message = f"`{name}` is the name of an integer here, and of {what}"
                raise self.error("duplicate-name", message, node, scope, "give one of them another name")
        if scope.site is not None:
            register = self._free_register(register)
        if word not in WEIGHTED_WORDS:
            return Step(PLAIN[word](register, span=place))
        return Step(WEIGHTED[word](register, 0, span=place), (node.weights or id(node), scope.site))

    def _free_register(self, register: str) -> str:
        if register not in self._renamed:
            others = (f"{register}{number}" for number in itertools.count(2))
            name = next(name for name in itertools.chain([register], others) if name not in self._taken)
            self._renamed[register] = name
            self._taken.add(name)
        return self._renamed[register]

    def _branch(self, branch: tree.Sequence, scope: Scope) -> Term:
        term = self.term(branch, scope)
        if term.gap is not None:
            message = "a fill inside a branch could go on from the layers before the join, or from the branch before it"
            help = "write its layers out"
            raise SpecError("fill-in-loop", message, self.source, scope.site or term.gap, help=help)
        if not term.count:
            raise self.error("empty-branch", EMPTY_BRANCH, branch, scope, BRANCH_HELP)
        return term

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
            self.integers.check_size(times, node, scope)
            terms.append(loop([body], times) if times > 1 else body)
        return self._counted(chain(terms), node, scope)

    def _comprehension(self, node: tree.Comprehension, scope: Scope) -> Term:
        first, last = self.integers.value(node.values.first, scope), self.integers.value(node.values.last, scope)
        if last - first >= self.integers.limits.executions:
            message = f"this has {last - first + 1:,} iterations, over the limit of {self.integers.limits.executions:,}"
            raise self.error("too-many-executions", message, node.values, scope)
        inner = self._deeper(node, scope)
        iterations = last - first + 1
        if iterations > 2 and moves_evenly(node.body, {**scope.integers, node.index: first}):
            one, two = (self._iteration(node, value, inner) for value in (first, first + 1))
            self.integers.check_size(one.count * iterations, node, scope)
            self.integers.spend(iterations, node, scope)
            moved = swept(one, two, len(node.body.elements), iterations, self.highest)
            if moved is not None:
                return loop(moved, 1)
        bodies: list[Term] = []
        size = 0
        for value in range(first, last + 1):
            bodies.append(self._iteration(node, value, inner))
            size += bodies[-1].size
            self.integers.check_size(size, node, scope, has_flow=has_flow(bodies[-1]))
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
        if has_flow(term):
            message, help = "`drop` takes layers, and this has data flow", "name the layers"
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
        self.integers.spend(len(node.arguments), node, scope)
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
            value, shift = self.integers.value(argument, scope), 0
        elif name == LAYER_COUNT:
            first, last = self.integers.value(argument.first, scope), self.integers.value(argument.last, scope)
            value, shift = last - first + 1, first - 1
        else:
            message = f"`{name}` of `{signature}` is not a layer count, and takes no range"
            raise self.error("wrong-arguments", message, argument, scope, f"a layer count is named `{LAYER_COUNT}`")
        if name == LAYER_COUNT and value < 1:
            message = f"a layer count is at least 1, and this is {value}"
            raise self.error("bad-count", message, argument, scope)
        return value, shift
