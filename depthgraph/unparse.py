"""Syntax tree → text; parsing the text gives an equal tree."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from depthgraph.source import Source
from depthgraph.syntax import (
    Access,
    Arithmetic,
    Block,
    Call,
    Comprehension,
    DataFlow,
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
    Range,
    Repeat,
    Reverse,
    RouteSpec,
    Sequence,
    check_depth,
)


def format_spec(spec: RouteSpec) -> str:
    """Return a spec's tree as text, one blank between elements; parsing it gives an equal tree."""
    body = " ".join(_elements(spec.body.elements, 0))
    if not spec.definitions:
        return body
    return f"{body} where {', '.join(format_definition(item) for item in spec.definitions)}"


def format_definition(definition: Definition) -> str:
    """Return `name=body` or `name(p,q)=body`."""
    return f"{definition.signature}={' '.join(_elements(definition.body.elements, 0))}"


def format_element(node: Element) -> str:
    """Return one element as text."""
    return _element(node, 0)


def _elements(elements: Iterable[Element], depth: int) -> Iterator[str]:
    return (_element(element, depth) for element in elements)


def _element(node: Element, depth: int) -> str:
    check_depth(depth, node, Source("<tree>"))
    match node:
        case Layer(number):
            return format_expression(number, leading=True)
        case Range(first, last):
            return f"{format_expression(first, leading=True)}..{format_expression(last)}"
        case Fill():
            return "..."
        case Sequence(elements):
            return f"({' '.join(_elements(elements, depth + 1))})"
        case Repeat(body, count):
            return f"{_repeated(body, depth + 1)}x{format_count(count)}"
        case Reverse(body):
            return f"rev({' '.join(_elements(body.elements, depth + 1))})"
        case Block(layers):
            return f"block({_argument(layers)})"
        case Ilr(counts):
            return f"ilr[{','.join(format_expression(count) for count in counts)}]"
        case Drop(layers):
            return f"drop({_argument(layers)})"
        case Comprehension(body, index, values):
            return f"({' '.join(_elements(body.elements, depth + 1))} for {index} in {_argument(values)})"
        case Call(name, arguments):
            return f"{name}({','.join(map(_argument, arguments))})"
        case Access() | Join() | Mark():
            return _data_flow(node, depth)
        case _:
            assert_never(node)


def _data_flow(node: DataFlow, depth: int) -> str:
    match node:
        case Access(word, register, weights):
            return f"{word}({register},{weights})" if weights else f"{word}({register})"
        case Join(word, branches):
            return f"{word}({' | '.join(' '.join(_elements(one.elements, depth + 1)) for one in branches)})"
        case Mark(word):
            return word


def _repeated(body: Element, depth: int) -> str:
    """Return the text of what is repeated, in parentheses where the language asks for them."""
    text = _element(body, depth)
    match body:
        case Range() | Repeat() | Fill() | Drop() | Layer(Arithmetic()):
            return f"({text})"
        case Layer(Name()) | Mark():
            return f"{text} "
        case _:
            return text


def format_count(count: Expression) -> str:
    """Return a count as it stands behind `x`."""
    match count:
        case Integer(value):
            return str(value)
        case Name(text):
            return f" {text}"
        case _:
            return f" ({format_expression(count)})"


def _argument(argument: Expression | Range) -> str:
    if isinstance(argument, Range):
        return f"{format_expression(argument.first)}..{format_expression(argument.last)}"
    return format_expression(argument)


def format_expression(node: Expression, *, leading: bool = False, depth: int = 0) -> str:
    """Return an integer expression as text.

    Args:
        node: the expression.
        leading: it stands where `(` would open a sequence, so it must not begin with one.
        depth: how deep it stands in another one.
    """
    check_depth(depth, node, Source("<tree>"))
    match node:
        case Integer(value):
            return str(value)
        case Name(text):
            return text
        case Arithmetic(first, rest):
            product = rest[0][0] in "*//"
            head = _operand(first, product, leading, depth, first_operand=True)
            tail = "".join(sign + _operand(operand, product, False, depth) for sign, operand in rest)
            return head + tail


def _operand(node: Expression, product: bool, leading: bool, depth: int, first_operand: bool = False) -> str:
    inner_product = isinstance(node, Arithmetic) and node.rest[0][0] in "*//"
    bare = not isinstance(node, Arithmetic) or (inner_product and not product)
    if bare:
        return format_expression(node, leading=leading and first_operand, depth=depth + 1)
    text = f"({format_expression(node, depth=depth + 1)})"
    if not (leading and first_operand):
        return text
    return f"1*{text}" if product else f"0+{text}"
