"""The grammar's rules → the nodes of the syntax tree: one method a rule, named as it is.

The parser calls a method at the moment it has read the rule, children first, so that no depth of nesting costs
stack. A method that refuses what it was given raises `Fault`, which the parser places in its source.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from depthgraph import syntax as tree
from depthgraph.errors import Fault
from depthgraph.misread import token_span
from depthgraph.route import ranges
from depthgraph.source import Span
from depthgraph.unparse import format_count, format_element, format_expression
from depthgraph.well_formed import DIGITS
from depthgraph.words import LONGEST_NAME

if TYPE_CHECKING:
    from lark import Token

Children = list[Any]


class Builder:
    """What lark calls for every rule that it has read."""

    def spec(self, children: Children) -> tuple[tree.Sequence, tuple[tree.Definition, ...]]:
        """Return the body and the definitions of `where`."""
        body, *rest = nodes(children)
        _refuse_twins([(item.name, item.span) for item in rest])
        return body, tuple(rest)

    def definition(self, children: Children) -> tree.Definition:
        """`name = sequence`."""
        name, _, body = children
        return tree.Definition(_new_name(name), (), body, span=token_span(name))

    def scheme(self, children: Children) -> tree.Definition:
        """`name(parameters) = sequence`."""
        name, *middle, body = children
        parameters = [token for token in middle if token.type == "NAME"]
        _refuse_twins([(str(token), token_span(token)) for token in parameters])
        return tree.Definition(_new_name(name), tuple(map(_new_name, parameters)), body, span=token_span(name))

    def sequence(self, children: Children) -> tree.Sequence:
        """Elements, with or without arrows between them."""
        return tree.Sequence(tuple(nodes(children)), span=span_of(children))

    def group(self, children: Children) -> tree.Sequence:
        """`( sequence )`."""
        return tree.Sequence(children[1].elements, span=span_of(children))

    def layer(self, children: Children) -> tree.Layer:
        """An integer expression, or a name, where an element stands."""
        return tree.Layer(children[0], span=span_of(children))

    def range(self, children: Children) -> tree.Range:
        """`first .. last`."""
        first, _, last = children
        span = span_of(children)
        if isinstance(first, tree.Integer) and isinstance(last, tree.Integer) and first.value > last.value:
            raise Fault(
                "descending-range",
                f"the range {first.value}..{last.value} is empty: ranges ascend",
                span,
                help=f"write `{last.value}..{first.value}`, or `rev({last.value}..{first.value})` to run it downwards",
            )
        return tree.Range(first, last, span=span)

    def fill(self, children: Children) -> tree.Fill:
        """`...`."""
        return tree.Fill(span=span_of(children))

    def reverse(self, children: Children) -> tree.Reverse:
        """`rev( sequence )`."""
        return tree.Reverse(children[2], span=span_of(children))

    def block(self, children: Children) -> tree.Block:
        """`block( range )`."""
        layers = children[2]
        if not isinstance(layers, tree.Range):
            text = format_expression(layers)
            raise Fault(
                "wrong-arguments",
                "`block` takes a range of layers",
                layers.span,
                help=f"write `block({text}..{text})` for layer {text} alone, `block(1..{text})` for the first {text}",
            )
        return tree.Block(layers, span=span_of(children))

    def ilr(self, children: Children) -> tree.Ilr:
        """`ilr[ counts ]`."""
        return tree.Ilr(tuple(nodes(children)), span=span_of(children))

    def drop(self, children: Children) -> tree.Drop:
        """`drop( layer or range )`."""
        return tree.Drop(children[2], span=span_of(children))

    def call(self, children: Children) -> tree.Call:
        """`name( arguments )`."""
        return tree.Call(_known_length(children[0]), tuple(nodes(children)), span=span_of(children))

    def comprehension(self, children: Children) -> tree.Comprehension:
        """`( sequence for name in range )`."""
        _, body, _, index, _, values, _ = children
        return tree.Comprehension(body, _new_name(index), values, span=span_of(children))

    def repeat(self, children: Children) -> tree.Repeat:
        """`element x count`."""
        body, _, count = children
        _refuse_two_readings(body, count)
        return tree.Repeat(body, count, span=span_of(children))

    def access(self, children: Children) -> tree.Access:
        """`save(a)`, `mix(a)`, `mix(a,w)` …."""
        word, *middle, _ = children
        register, *weights = [_register_name(token) for token in middle if token.type == "NAME"]
        return tree.Access(str(word), register, *weights, span=span_of(children))

    def join(self, children: Children) -> tree.Join:
        """`mean( sequence | sequence )`, or `sum`."""
        return tree.Join(str(children[0]), tuple(nodes(children)), span=span_of(children))

    def mark(self, children: Children) -> tree.Mark:
        """`stopgrad` or `exit`."""
        return tree.Mark(str(children[0]), span=span_of(children))

    def parentheses(self, children: Children) -> tree.Expression:
        """`( expression )`: the tree's shape says it."""
        inner: tree.Expression = children[1]
        return inner

    def arithmetic(self, children: Children) -> tree.Arithmetic:
        """Operands joined by operators of one precedence."""
        first, *rest = children
        pairs = tuple((str(sign), operand) for sign, operand in zip(rest[::2], rest[1::2], strict=True))
        return tree.Arithmetic(first, pairs, span=span_of(children))

    def integer(self, children: Children) -> tree.Integer:
        """`3` or `L3`."""
        digits = children[0].removeprefix("L")
        if len(digits) > DIGITS:
            raise too_large(span_of(children), f"an integer of {len(digits)} digits")
        return tree.Integer(int(digits), span=span_of(children))

    def name(self, children: Children) -> tree.Name:
        """A name in an expression."""
        return tree.Name(_known_length(children[0]), span=span_of(children))


def too_large(span: Span, what: str) -> Fault:
    """Return the fault for an integer over the limit, written or computed."""
    return Fault("number-too-large", f"{what} is over the limit of {DIGITS} digits", span)


def nodes(children: Children) -> list[Any]:
    """Return the children that are nodes, without punctuation."""
    return [child for child in children if isinstance(child, tree.Node)]


def span_of(children: Sequence["tree.Node | Token"]) -> Span:
    """Return the span from the first child to the last."""
    first, last = children[0], children[-1]
    start = first.span if isinstance(first, tree.Node) else token_span(first)
    end = last.span if isinstance(last, tree.Node) else token_span(last)
    return Span(start.start, end.end)


def _new_name(token: "Token") -> str:
    if token == "N":
        message = "`N` is the model's parameter depth, and no name to define"
        raise Fault("reserved-name", message, token_span(token), help="bind it beside the spec: N=6")
    return _known_length(token)


def _register_name(token: "Token") -> str:
    if token == "N":
        message = "`N` is the model's parameter depth, and no register"
        raise Fault("reserved-name", message, token_span(token), help="choose another name")
    return _known_length(token)


def _known_length(token: "Token") -> str:
    if len(token) > LONGEST_NAME:
        message = f"a name of {len(token):,} characters is over the limit of {LONGEST_NAME}"
        raise Fault("name-too-long", message, token_span(token))
    return str(token)


def _refuse_twins(names: list[tuple[str, Span]]) -> None:
    seen: set[str] = set()
    for name, span in names:
        if name in seen:
            raise Fault("duplicate-name", f"`{name}` is defined twice", span, help="give one of them another name")
        seen.add(name)


def _refuse_two_readings(body: tree.Element, count: tree.Expression) -> None:
    """Refuse a repeat whose reach could be read in two ways, and name both where there are two."""
    times = format_count(count)
    match body:
        case tree.Range(first, last):
            help = _ways_to_repeat_a_range(first, last, times)
        case tree.Repeat(inner, inner_count):
            once = format_element(tree.Repeat(inner, inner_count))
            flat = format_element(tree.Repeat(inner, _product(inner_count, count)))
            help = f"write `({once})x{times}` for a loop in a loop, or `{flat}` for one loop"
        case tree.Layer(tree.Arithmetic() as number):
            help = f"write `({format_expression(number, leading=True)})x{times}`"
        case tree.Fill() | tree.Drop():
            text = format_element(body)
            raise Fault("ambiguous-repeat", f"`{text}` takes no count", body.span, help=f"write `{text}` once")
        case _:
            return
    span = Span(body.span.start, count.span.end)
    raise Fault("ambiguous-repeat", "it is not clear what is repeated here", span, help=help)


def _ways_to_repeat_a_range(first: tree.Expression, last: tree.Expression, times: str) -> str:
    whole = f"write `({format_element(tree.Range(first, last))})x{times}` to repeat the range"
    if not (isinstance(first, tree.Integer) and isinstance(last, tree.Integer)):
        return whole
    before = " ".join(ranges(range(first.value, last.value)))
    before += " " if before else ""
    return f"{whole}, `{before}{last.value}x{times}` to repeat its last layer"


def _product(left: tree.Expression, right: tree.Expression) -> tree.Expression:
    if isinstance(left, tree.Integer) and isinstance(right, tree.Integer):
        return tree.Integer(left.value * right.value)
    return tree.Arithmetic(left, (("*", right),))
