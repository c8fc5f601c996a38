"""Truncated backpropagation through a loop, in the syntax tree: the gradient stops before the last iterations.

`core x r` becomes `core x (r-4) stopgrad core x4`: a spec like any other, which can be printed, drawn and compiled. A
loop hands on more than h: registers that its body reads before it saves them come from the iteration before. They are
cut too. A register that the body only reads, as Huginn's `e`, comes from before the loop and keeps its gradient.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from depthgraph.carried import carried_by
from depthgraph.errors import SpecError
from depthgraph.integers import Integers
from depthgraph.names import Uses, free_names
from depthgraph.parser import DEFAULT_LIMITS
from depthgraph.scope import TOP, default_integer, read_bindings
from depthgraph.source import Source
from depthgraph.syntax import (
    Access,
    Arithmetic,
    Block,
    Call,
    Comprehension,
    Definition,
    Drop,
    Element,
    Expression,
    Fill,
    Ilr,
    Integer,
    Join,
    Layer,
    Mark,
    Name,
    Node,
    Range,
    Repeat,
    Reverse,
    RouteSpec,
    Sequence,
    children,
)
from depthgraph.well_formed import check_tree

Local = frozenset[str]


def truncated(spec: RouteSpec, last: Mapping[str, int], bindings: Mapping[str, int]) -> RouteSpec:
    """Return a spec whose gradient stops before the last iterations of loops, at the counts that are bound.

    Args:
        spec: a spec; it stays as it is.
        last: the name of a count → k: in each loop whose count is that name, or an expression of it, the gradient goes
            through the last k iterations and no further. A loop of k iterations or fewer stays as it is. A loop inside
            another one is cut each time it is entered.
        bindings: values of the spec's names, those in `last` among them, unless the spec has a default.

    Raises:
        SpecError: `bad-truncation`, where no loop has such a count, or one that cannot be cut in the text.

    Examples:
        >>> import depthgraph as dg
        >>> spec = dg.parse("1..2 save(e) (mix(e) 3..6)x r 7..8")
        >>> print(truncated(spec, {"r": 4}, {"r": 8}))
        1..2 save(e) body x (r-4) stopgrad body x4 7..8 where body=mix(e) 3..6
        >>> print(truncated(spec, {"r": 4}, {"r": 3}))
        1..2 save(e) (mix(e) 3..6)x r 7..8
    """
    check_tree(spec)
    bound = read_bindings(Uses(spec), bindings, DEFAULT_LIMITS)
    cut = _Cut(spec, last, Integers(spec, bound, DEFAULT_LIMITS))
    body = cut.sequence(spec.body, frozenset())
    definitions = tuple(cut.definition(each) for each in spec.definitions)
    for name in last:
        if name not in cut.found:
            message = f"no loop of this spec has the count `{name}`, so there is nothing to cut"
            raise _refused(message, spec.source, spec.body, f"write the loop as `(…)x {name}`")
    return replace(spec, body=body, definitions=(*definitions, *cut.lifted))


def integer_names(spec: RouteSpec, bound: Mapping[str, int] = MappingProxyType({})) -> dict[str, int | None]:
    """Return the names of a spec that stand for integers, with the values that the spec itself gives them.

    Args:
        spec: a spec.
        bound: values of other names. A name whose value depends on one that is not here has none.

    Examples:
        >>> import depthgraph as dg
        >>> integer_names(dg.parse("pre x r (2 3)x m where pre=1, m=k+1, k=2"))
        {'r': None, 'pre': 1, 'm': 3, 'k': 2}
    """
    defined = {item.name: item for item in spec.definitions}
    integers = Integers(spec, bound, DEFAULT_LIMITS)
    names = [*free_names(spec), *(name for name, item in defined.items() if default_integer(item) is not None)]

    def known(name: str) -> bool:
        return all(each in defined or each in bound for each in names_reached(Name(name), defined))

    return {name: integers.value(Name(name), TOP) if known(name) else None for name in names if name not in bound}


def names_reached(node: Expression, defined: Mapping[str, Definition]) -> set[str]:
    """Return the names that an integer depends on, directly and through integers that `where` defines."""
    todo, found = [node], set[str]()
    while todo:
        here = todo.pop()
        if isinstance(here, Name) and here.text not in found:
            found.add(here.text)
            definition = defined.get(here.text)
            number = default_integer(definition) if definition else None
            todo += [] if number is None else [number]
        elif isinstance(here, Arithmetic):
            todo += [here.first, *(operand for _, operand in here.rest)]
    return found


def _refused(message: str, source: Source, node: Node, help: str) -> SpecError:
    return SpecError("bad-truncation", message, source, node.span, help=help)


@dataclass
class _Cut:
    """One rewriting of one spec.

    Attributes:
        spec: it.
        last: the name of a count → the iterations that keep their gradient.
        integers: the values of its names.
        lifted: definitions of loop bodies, so that each place in the text stays one place, with its weights.
        found: the names in `last` whose loops were met.
    """

    spec: RouteSpec
    last: Mapping[str, int]
    integers: Integers
    lifted: list[Definition] = field(default_factory=list)
    found: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        words = {item.name for item in self.spec.definitions} | Uses(self.spec).registers | {"N"}
        words |= {name for item in self.spec.definitions for name in item.parameters}
        self.taken = words | {each.text for each in _names(self.spec)}
        self.defined = self.integers.definitions

    def definition(self, item: Definition) -> Definition:
        if default_integer(item) is not None:
            return item
        return replace(item, body=self.sequence(item.body, frozenset(item.parameters)))

    def sequence(self, node: Sequence, local: Local) -> Sequence:
        return replace(node, elements=tuple(part for each in node.elements for part in self.element(each, local)))

    def element(self, node: Element, local: Local) -> Iterator[Element]:
        """Yield what stands in the place of an element."""
        match node:
            case Repeat(body, count) if self._depends(count):
                yield from self._loop(node, body, count, local)
            case Repeat(body):
                yield replace(node, body=self._one(body, local))
            case Sequence():
                yield self.sequence(node, local)
            case Comprehension(body, index):
                self._check_uncounted(node, node.values)
                yield replace(node, body=self.sequence(body, local | {index}))
            case Join(_, branches):
                yield replace(node, branches=tuple(self.sequence(each, local) for each in branches))
            case Reverse(body):
                if self.sequence(body, local) != body:
                    message = "a loop in `rev` cannot be cut: `stopgrad` is data flow, which has no reverse"
                    raise _refused(message, self.spec.source, node, "reverse the loop's layers inside it")
                yield node
            case Call() | Ilr():
                self._check_uncounted(node, *children(node))
                yield node
            case Layer() | Range() | Fill() | Block() | Drop() | Access() | Mark():
                yield node

    def _one(self, node: Element, local: Local) -> Element:
        parts = tuple(self.element(node, local))
        return parts[0] if len(parts) == 1 else Sequence(parts)

    def _depends(self, *nodes: Node) -> set[str]:
        """Return the names in `last` that integers depend on."""
        return {
            name
            for node in nodes
            if isinstance(node, Integer | Name | Arithmetic | Range)
            for end in ((node.first, node.last) if isinstance(node, Range) else (node,))
            for name in names_reached(end, self.defined)
            if name in self.last
        }

    def _check_uncounted(self, node: Element, *parts: Node) -> None:
        depends = sorted(self._depends(*parts))
        if depends:
            message = f"`{depends[0]}` is no plain loop count here: where the gradient is to stop cannot be said"
            raise _refused(message, self.spec.source, node, f"write the loop in the spec, as `(…)x {depends[0]}`")

    def _loop(self, node: Repeat, body: Element, count: Expression, local: Local) -> Iterator[Element]:
        names = sorted(self._depends(count))
        if len(names) > 1 or names_reached(count, {}) & local:
            what = f"two counts, {' and '.join(names)}" if len(names) > 1 else "a name that stands for several values"
            message = f"this loop's count depends on {what}: where the gradient is to stop cannot be said"
            raise _refused(message, self.spec.source, count, f"write the loop as `(…)x {names[0]}`")
        self.found.update(names)
        kept = self.last[names[0]]
        inner = self._one(body, local)
        if self.integers.value(count, TOP) <= kept:
            yield replace(node, body=inner)
            return
        around = (Fill(span=node.span),) if isinstance(inner, Block) else ()
        inner = inner.layers if isinstance(inner, Block) else inner
        carried, starts_from_h = carried_by(inner, self.defined)
        part = self._lift(inner, local)
        before = Arithmetic(count, (("-", Integer(kept)),), span=count.span)
        yield from around
        yield Repeat(part, before, span=node.span)
        yield from self._stop(carried, starts_from_h)
        yield Repeat(part, Integer(kept, span=count.span), span=node.span)
        yield from around

    def _lift(self, body: Element, local: Local) -> Element:
        """Return a name for a loop's body, which then stands once in the text however often it is written."""
        if isinstance(body, Layer) and isinstance(body.number, Name) and body.number.text in self.defined:
            return body
        used = tuple(sorted({each.text for each in _names(body)} & local))
        name = self._fresh("body")
        whole = body if isinstance(body, Sequence) else Sequence((body,), span=body.span)
        self.lifted.append(Definition(name, used, whole, span=body.span))
        if used:
            return Call(name, tuple(map(Name, used)), span=body.span)
        return Layer(Name(name, span=body.span), span=body.span)

    def _fresh(self, wanted: str) -> str:
        spellings = (wanted, *(f"{wanted}{number}" for number in range(2, len(self.taken) + 3)))
        name = next(each for each in spellings if each not in self.taken)
        self.taken.add(name)
        return name

    def _stop(self, carried: list[str], starts_from_h: bool) -> Iterator[Element]:
        """Yield what detaches h and the registers that one iteration hands on to the next."""
        aside = self._fresh("h") if carried and starts_from_h else None
        if starts_from_h:
            yield Mark("stopgrad")
        if aside:
            yield Access("save", aside)
        for register in carried:
            yield from (Access("load", register), Mark("stopgrad"), Access("save", register))
        if aside:
            yield Access("load", aside)


def _names(node: Node) -> Iterator[Name]:
    todo: list[Node] = [*node.definitions, node.body] if isinstance(node, RouteSpec) else [node]
    while todo:
        here = todo.pop()
        if isinstance(here, Name):
            yield here
        todo += children(here)  # type: ignore[arg-type]
