"""The syntax tree of a route spec.

The nodes say what is written, not what it means: names are not looked up, and nothing is expanded. `span` takes
no part in equality, so that two texts that differ in blanks alone are the same tree.
"""

from dataclasses import dataclass, field
from typing import assert_never

from depthgraph.errors import SpecError
from depthgraph.route import Route
from depthgraph.source import Source, Span

NOWHERE = Span(0, 0)

#: How deep a tree may be: 64 pairs of parentheses, each a comprehension with a count, and what they stand in.
DEEPEST = 3 * 64 + 16


@dataclass(frozen=True, slots=True)
class Node:
    """Anything that is written in a spec; `span` says where."""

    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Integer(Node):
    """An integer that is written out: `3`, or `L3`."""

    value: int


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A name: of an integer, or where a sequence may stand, of a sequence."""

    text: str


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """Operands joined by operators of one precedence, `i+2-1` or `2*n//3`, from left to right."""

    first: "Expression"
    rest: tuple[tuple[str, "Expression"], ...]


Expression = Integer | Name | Arithmetic


@dataclass(frozen=True, slots=True)
class Layer(Node):
    """Run one layer; or, when `number` is the name of a sequence, that sequence."""

    number: Expression


@dataclass(frozen=True, slots=True)
class Range(Node):
    """Run the layers from `first` to `last`, both included, ascending."""

    first: Expression
    last: Expression


@dataclass(frozen=True, slots=True)
class Fill(Node):
    """`...`: run the layers up to the next one that the spec runs."""


@dataclass(frozen=True, slots=True)
class Sequence(Node):
    """Elements one after the other: a whole spec, or what stands in parentheses."""

    elements: tuple["Element", ...]


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """`body x count`, with the same weights."""

    body: "Element"
    count: Expression


@dataclass(frozen=True, slots=True)
class Reverse(Node):
    """`rev(body)`: the executions in reverse order."""

    body: Sequence


@dataclass(frozen=True, slots=True)
class Block(Node):
    """`block(a..b)`: the layers around the block once, the block as often as its count says."""

    layers: Range


@dataclass(frozen=True, slots=True)
class Ilr(Node):
    """`ilr[r1,…,rN]`: layer i runs r_i times in a row (arXiv 2505.01855)."""

    counts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Drop(Node):
    """`drop(a..b)`: layers that the route leaves out on purpose."""

    layers: Expression | Range


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """`(body for index in values)`: the body once per value, ascending."""

    body: Sequence
    index: str
    values: Range


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`name(arguments)`: a scheme."""

    name: str
    arguments: tuple[Expression | Range, ...]


@dataclass(frozen=True, slots=True)
class Access(Node):
    """`save(a)`, `load(a)`, `add(a)`, `mix(a)` or `gate(a)`: what `word` says, with one register.

    `weights` names the weights of `mix(a,w)` and `gate(a,w)`; None where the place in the text stands for them.
    """

    word: str
    register: str
    weights: str | None = None


@dataclass(frozen=True, slots=True)
class Join(Node):
    """`mean(p | q)` or `sum(p | q)`: branches from one hidden state, and their results joined."""

    word: str
    branches: tuple[Sequence, ...]


@dataclass(frozen=True, slots=True)
class Mark(Node):
    """`stopgrad` or `exit`."""

    word: str


DataFlow = Access | Join | Mark

Element = Layer | Range | Fill | Sequence | Repeat | Reverse | Block | Ilr | Drop | Comprehension | Call | DataFlow


@dataclass(frozen=True, slots=True)
class Definition(Node):
    """One definition of `where` or of the scheme library; a scheme has parameters, other names have none."""

    name: str
    parameters: tuple[str, ...]
    body: Sequence

    @property
    def signature(self) -> str:
        """`name(parameters)`, or the name alone."""
        return f"{self.name}({','.join(self.parameters)})" if self.parameters else self.name


@dataclass(frozen=True, slots=True)
class RouteSpec(Node):
    """A parsed spec: what `parse` returns. It may have free names, which `expand` binds.

    Examples:
        >>> import depthgraph as dg
        >>> spec = dg.parse("1..2 (3..6)x r 7..8")
        >>> spec.free_names
        ('r',)
        >>> spec.expand(r=2).execution_depth
        12
        >>> print(spec)
        1..2 (3..6)x r 7..8
    """

    body: Sequence
    definitions: tuple[Definition, ...] = ()
    source: Source = field(default=Source(""), compare=False, repr=False)

    @property
    def free_names(self) -> tuple[str, ...]:
        """The names that have no meaning until the caller binds them, in the order of the text."""
        from depthgraph.expand import free_names
        from depthgraph.well_formed import check_tree

        check_tree(self)
        return free_names(self)

    def expand(self, /, **bindings: int) -> Route:
        """Bind the free names, `N` among them, and return the route (see `depthgraph.expand`)."""
        from depthgraph.expand import expand

        return expand(self, bindings)

    def __str__(self) -> str:
        from depthgraph.unparse import format_spec
        from depthgraph.well_formed import check_tree

        check_tree(self)
        return format_spec(self)


def check_depth(depth: int, node: Node, source: Source) -> None:
    """Refuse a tree that is nested too deep, before Python's own stack does."""
    if depth > DEEPEST:
        raise SpecError("too-deep", "this spec is nested too deep", source, node.span, help=TOO_DEEP_HELP)


TOO_DEEP_HELP = "name inner parts with `where`, or write repeats as one count: `(1 2)x6` for `((1 2)x2)x3`"


def children(node: "Element | Expression | Definition") -> tuple["Element | Expression", ...]:
    """Return what stands directly below a node, in the order of the text."""
    match node:
        case Integer() | Name() | Fill() | Access() | Mark():
            return ()
        case Arithmetic(first, rest):
            return (first, *(operand for _, operand in rest))
        case Layer(number):
            return (number,)
        case Range(first, last):
            return (first, last)
        case Sequence(elements):
            return elements
        case Repeat(body, count):
            return (body, count)
        case Reverse(body):
            return (body,)
        case Block(layers) | Drop(layers):
            return (layers,)
        case Ilr(counts):
            return counts
        case Join(_, branches):
            return branches
        case Call(_, arguments):
            return arguments
        case Comprehension(body, _, values):
            return (body, values)
        case Definition(body=body):
            return (body,)
        case _:
            assert_never(node)
