"""Hypothesis strategies for syntax trees in the form that the parser makes, and for routes."""

import string

from hypothesis import strategies as st

from depthgraph import syntax as tree
from depthgraph.route import Route

WORDS = {"for", "in", "where", "rev", "block", "ilr", "drop", "x"}
WORDS |= {"save", "load", "add", "mix", "gate", "mean", "sum", "stopgrad", "exit"}


def _is_name(text: str) -> bool:
    is_layer, is_count = text[0] == "L" and text[1:2].isdigit(), text[0] == "x" and text[1:2].isdigit()
    return text not in WORDS and text != "N" and not is_layer and not is_count


names = st.text(string.ascii_letters + "_", min_size=1, max_size=4).filter(_is_name)
integers = st.integers(0, 999_999_999).map(tree.Integer)
positive = st.integers(1, 9).map(tree.Integer)


def arithmetic(operands, *, leading: bool):
    """Operands of one precedence; a leading operand must not need parentheses."""

    def build(signs, first, rest):
        return tree.Arithmetic(first, tuple(zip(signs, rest, strict=True)))

    def of(level: str):
        signs = st.lists(st.sampled_from(["+", "-"] if level == "sum" else ["*", "//"]), min_size=1, max_size=3)

        def with_signs(signs):
            first = atoms if leading else operands
            rest = st.lists(operands, min_size=len(signs), max_size=len(signs))
            return st.tuples(first, rest).map(lambda pair: build(signs, *pair))

        return signs.flatmap(with_signs)

    atoms = st.one_of(integers, names.map(tree.Name))
    return st.one_of(of("sum"), of("product"))


atoms = st.one_of(integers, names.map(tree.Name))
expressions = st.recursive(atoms, lambda inner: arithmetic(inner, leading=False), max_leaves=5)
leading_expressions = st.one_of(atoms, arithmetic(expressions, leading=True))
layers = leading_expressions.map(tree.Layer)


def _ascends(pair) -> bool:
    first, last = pair
    both = isinstance(first, tree.Integer) and isinstance(last, tree.Integer)
    return not both or first.value <= last.value


def ranges(first=expressions):
    return st.tuples(first, expressions).filter(_ascends).map(lambda pair: tree.Range(*pair))


counts = st.one_of(atoms, expressions)
arguments = st.lists(st.one_of(expressions, ranges()), min_size=1, max_size=3).map(tuple)
indexes = names


def sequences(elements):
    return st.lists(elements, min_size=1, max_size=4).map(tuple).map(tree.Sequence)


def _repeatable(element) -> bool:
    """Whether a count may follow it without parentheses."""
    match element:
        case tree.Range() | tree.Repeat() | tree.Fill() | tree.Drop() | tree.Layer(tree.Arithmetic()):
            return False
        case _:
            return True


simple = st.one_of(
    layers,
    ranges(leading_expressions),
    st.just(tree.Fill()),
    ranges().map(tree.Block),
    st.lists(expressions, min_size=1, max_size=4).map(tuple).map(tree.Ilr),
    st.one_of(expressions, ranges()).map(tree.Drop),
    st.builds(tree.Call, names, arguments),
)


def _grown(inner):
    return st.one_of(
        sequences(inner),
        sequences(inner).map(tree.Reverse),
        st.builds(tree.Comprehension, sequences(inner), indexes, ranges()),
        st.builds(tree.Repeat, inner.filter(_repeatable), counts),
    )


elements = st.recursive(simple, _grown, max_leaves=8)
definitions = st.lists(
    st.builds(tree.Definition, names, st.lists(names, max_size=3, unique=True).map(tuple), sequences(elements)),
    max_size=3,
    unique_by=lambda item: item.name,
).map(tuple)
specs = st.builds(tree.RouteSpec, sequences(elements), definitions)

paths = st.lists(st.integers(1, 6), min_size=1, max_size=40)


@st.composite
def structured_paths(draw):
    """Paths with repeats, shifts and runs in them, as routes have."""
    path = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    for _ in range(draw(st.integers(0, 3))):
        times, shift = draw(st.integers(1, 5)), draw(st.sampled_from([0, 0, 1, 1, 2, -1]))
        copies = [layer + shift * index for index in range(times) for layer in path]
        lowest = min(copies)
        path = [layer - min(0, lowest - 1) for layer in copies][:150]
        path += draw(st.lists(st.integers(1, 6), max_size=3))
    return path


routes = st.one_of(paths, structured_paths()).map(Route.of)


# Specs that mean something: layers of a small model, small counts, indexes that are in scope.


def _meaningful_expression(scope):
    base = [st.integers(1, 6).map(tree.Integer)]
    if scope:
        index = st.sampled_from(scope).map(tree.Name)
        shifted = st.tuples(index, st.sampled_from("+-"), st.integers(0, 2).map(tree.Integer))
        base += [index, index, shifted.map(lambda t: tree.Arithmetic(t[0], ((t[1], t[2]),)))]
        base += [index.map(lambda i: tree.Arithmetic(tree.Integer(7), (("-", i),)))]
        base += [index.map(lambda i: tree.Arithmetic(tree.Integer(2), (("*", i),)))]
    return st.one_of(base)


@st.composite
def meaningful_elements(draw, scope=(), depth=0, fills=True):
    number = _meaningful_expression(scope)
    kinds = ["layer", "layer", "range"]
    if depth < 3:
        kinds += ["group", "repeat", "reverse", "comprehension", "call"]
    if fills:
        kinds += ["fill", "block"]
    if not scope and depth == 0:
        kinds += ["ilr"]
    kind = draw(st.sampled_from(kinds))
    inner = meaningful_elements(scope, depth + 1, fills and kind == "group")
    body = st.lists(inner, min_size=1, max_size=3).map(tuple).map(tree.Sequence)
    span = st.tuples(number, number).filter(_ascends).map(lambda pair: tree.Range(*pair))
    count = st.integers(1, 3).map(tree.Integer)
    match kind:
        case "layer":
            return tree.Layer(draw(number))
        case "range":
            return draw(span)
        case "group":
            return draw(body)
        case "repeat":
            return tree.Repeat(draw(inner.filter(_repeatable)), draw(count))
        case "reverse":
            return tree.Reverse(draw(body))
        case "comprehension":
            index = "ijk"[len(scope)] if len(scope) < 3 else "m"
            if len(scope) >= 3:
                return tree.Layer(draw(number))
            deeper = st.lists(meaningful_elements((*scope, index), depth + 1, False), min_size=1, max_size=3)
            return tree.Comprehension(tree.Sequence(tuple(draw(deeper))), index, draw(span))
        case "call":
            argument = draw(st.one_of(st.integers(1, 5).map(tree.Integer), span))
            return draw(
                st.sampled_from(
                    [
                        tree.Call("lft", (argument,)),
                        tree.Call("std", (argument,)),
                        tree.Call("cycle", (argument, tree.Integer(2))),
                        tree.Call("cycle_rev", (argument,)),
                    ]
                )
            )
        case "fill":
            return tree.Fill()
        case "block":
            return draw(st.one_of(span.map(tree.Block), st.builds(tree.Repeat, span.map(tree.Block), count)))
        case _:
            return tree.Ilr(draw(st.lists(count, min_size=1, max_size=6).map(tuple)))


meaningful_specs = st.lists(meaningful_elements(), min_size=1, max_size=4).map(
    lambda items: tree.RouteSpec(tree.Sequence(tuple(items)))
)
