"""Text → syntax tree, and back."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph import syntax as tree
from depthgraph.parser import Limits, parse

from strategies import specs


@given(specs)
def test_a_printed_tree_parses_to_itself(spec):
    text = str(spec)
    assert parse(text, Limits(characters=10**6)) == spec
    assert str(parse(text, Limits(characters=10**6))) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1 2 1", "1 -> 2 → 1"),
        ("L1 L2x3", "1 2x3"),
        ("1x2", "1 x 2"),
        ("core x4 where core=1..2", "core   x 4\n where core = 1 .. 2"),
        ("(1..3)x r", "( 1..3 ) x r"),
        ("1..2-1 3", "1 .. 2 - 1 3"),
        ("1 ... (4)", "1 ...(4)"),
        ("1(2 3)x2", "1 (2 3) x2"),
    ],
)
def test_blanks_and_arrows_change_nothing(text, same):
    assert parse(text) == parse(same)


def test_a_count_belongs_to_what_stands_before_it_alone():
    one, two = parse("1 2x2").body.elements
    assert one == tree.Layer(tree.Integer(1))
    assert two == tree.Repeat(tree.Layer(tree.Integer(2)), tree.Integer(2))


def test_a_blank_tells_a_call_from_a_sequence_and_a_group():
    assert isinstance(parse("core(1)").body.elements[0], tree.Call)
    assert [type(item) for item in parse("core (1)").body.elements] == [tree.Layer, tree.Sequence]


def test_products_bind_before_sums_and_both_from_the_left():
    assert dg.route("10-2*3-1 1..2").path == (3, 1, 2)
    assert dg.route("9-3-2..4 1..3").path == (4, 1, 2, 3)
    assert dg.route("2*(1+1) 12//4//3..3").path == (4, 1, 2, 3)


def test_a_count_costs_no_grammar():
    """A count is one token: a tree for x999 is as large as one for x9."""
    nine, many = parse("1x9").body, parse("1x999").body
    assert len(repr(nine)) + 2 == len(repr(many))


@given(st.text(max_size=60))
@example("(" * 5000 + "1" + ")" * 5000)
@example("9" * 5000)
@example("1x1000000000")
@example("((1x1000)x1000)x1000")
@example("(i for i in 1..999999999)")
@example("1" + "+1" * 30000)
@example("1" + "x2" * 3000)
@example("rev(" * 64 + "1" + ")" * 64)
@example("((" * 32 + "1" + " for i in 1..2)x1)" * 32)
@example("a0 where a0=a1 a1" + "".join(f",a{i}=a{i + 1} a{i + 1}" for i in range(1, 60)) + ",a60=1")
@example("a0 where a0=a1" + "".join(f",a{i}=a{i + 1}" for i in range(1, 3000)) + ",a3000=1")
@example("1 " * 30000)
@example("1..2+a0 where a0=a1-a1" + "".join(f",a{i}=a{i + 1}-a{i + 1}" for i in range(1, 40)) + ",a40=1")
@example("1..2+a0 where " + ",".join(f"a{i}={'0+(' * 60}a{i + 1}{')' * 60}" for i in range(40)) + ",a40=1")
@example("((i..1 for i in 1..100000))x100000")
@example("(drop(2..100000) for i in 1..100000) 1")
@example("((drop(1) for i in 1..9000) for j in 1..9000) 1")
@example("(i" + "-i+i" * 8000 + " for i in 1..20000)")
@example("rev(" * 60 + "(i for i in 1..100000)" + ")" * 60)
@example("..." + " ..." * 16000)
@example("1" * 65000 + "a")
@example("a" * 60000 + " 2 )")
@example(
    "(f(" + ",".join(["1"] * 3000) + ") for i in 1..90000) where f(" + ",".join(f"p{i}" for i in range(3000)) + ")=p1"
)
@example("\ud800\x00\u202e")
@example("mean(" * 64 + "1" + " | 1)" * 64)
@example("mean(" * 30000)
@example("1" + " | 1" * 15000)
@example("mean(" + "1 | " * 16000 + "1)")
@example("1 (exit)x999999999")
@example("1 " + "(" * 60 + "exit" + ")x999" * 60)
@example("(mean(1 | 1))x50000")
@example("1 save(a)" + " add(a)" * 9000)
@example("save(a) 1" + " save(a)" * 7000 + " add(a)")
@example("1 (a for i in 1..99999) where a=" + " ".join(["b"] * 1000) + ", b=(exit for j in 1..1000)")
def test_any_text_is_a_route_or_an_error_of_ours(text):
    try:
        route = dg.route(text)
    except dg.SpecError as error:
        assert error.code in str(error)
        assert error.location.line >= 1
        assert error.location.column >= 1
    else:
        assert route.execution_depth >= 1


SPEC_CHARACTERS = "123456789 .x()[],=+-*/NLir→>" + "\n"
WORDS = ["lft(", "rev(", "block(", "ilr[", "drop(", " for i in ", " where ", "a=", "..", "...", "x2", " x r", "1..3"]
WORDS += ["save(a) ", "load(a) ", "add(a) ", "mix(a,w) ", "gate(", "mean(", "sum(1 | 2) ", " | ", "stopgrad ", "exit "]


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(SPEC_CHARACTERS)), max_size=25).map("".join))
def test_any_text_of_the_languages_own_tokens_is_a_route_or_an_error_of_ours(text):
    try:
        dg.route(text, N=5) if "N" in text else dg.route(text)
    except dg.SpecError as error:
        assert str(error)


@given(specs, st.integers(1, 6))
def test_any_tree_is_a_route_or_an_error_of_ours(spec, n):
    bindings = {name: n for name in spec.free_names}
    try:
        spec.expand(**bindings)
    except dg.SpecError as error:
        assert str(error)


def _nested(depth):
    node = tree.Layer(tree.Integer(1))
    for _ in range(depth):
        node = tree.Sequence((node,))
    return tree.RouteSpec(tree.Sequence((node,)))


def _sum(depth):
    node = tree.Integer(1)
    for _ in range(depth):
        node = tree.Arithmetic(tree.Integer(1), (("+", node),))
    return tree.RouteSpec(tree.Sequence((tree.Layer(node),)))


def _shared(depth):
    """A tree as large as 2 ** depth, of as many nodes as depth."""
    node = tree.Sequence((tree.Layer(tree.Integer(1)),))
    for _ in range(depth):
        node = tree.Sequence((node, node))
    return tree.RouteSpec(node)


def _shared_sum(depth):
    node = tree.Integer(1)
    for _ in range(depth):
        node = tree.Arithmetic(node, (("-", node),))
    return tree.RouteSpec(tree.Sequence((tree.Layer(node),)))


ONE = tree.Integer(1)


@pytest.mark.parametrize(
    "element",
    [
        None,
        "1",
        tree.Layer(tree.Integer(10**6000)),
        tree.Layer(tree.Integer(-1)),
        tree.Layer(tree.Integer(True)),
        tree.Layer(tree.Arithmetic(ONE, ())),
        tree.Layer(tree.Arithmetic(ONE, (("^", ONE),))),
        tree.Layer(tree.Arithmetic(ONE, (("+", ONE), ("*", ONE)))),
        tree.Layer(tree.Name("for")),
        tree.Layer(tree.Name("x3")),
        tree.Layer(tree.Name("a b")),
        tree.Call("é", (ONE,)),
        tree.Comprehension(tree.Sequence((tree.Layer(ONE),)), "N", tree.Range(ONE, ONE)),
        tree.Repeat(tree.Layer(ONE), None),
        tree.Sequence(None),
        tree.Call("lft", ONE),
        tree.Layer(tree.Arithmetic(ONE, (ONE,))),
        tree.RouteSpec(tree.Sequence((tree.Layer(ONE),))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_tree_without_a_text_form_is_refused(element):
    spec = tree.RouteSpec(tree.Sequence((element,)))
    for use in (str, lambda spec: spec.expand(N=3)):
        with pytest.raises(dg.SpecError) as caught:
            use(spec)
        assert caught.value.code == "syntax"


@pytest.mark.parametrize("spec", [_shared(60), _shared_sum(60)])
def test_a_tree_that_shares_its_parts_costs_what_it_says(spec):
    for use in (str, lambda spec: spec.expand(), lambda spec: spec.free_names):
        with pytest.raises(dg.SpecError) as caught:
            use(spec)
        assert caught.value.code == "spec-too-long"


def test_an_error_of_a_tree_shows_its_text():
    spec = tree.RouteSpec(tree.Sequence((tree.Layer(tree.Integer(2)),)))
    with pytest.raises(dg.SpecError) as caught:
        spec.expand()
    assert "   1 | 2\n" in str(caught.value)


@pytest.mark.parametrize("spec", [_nested(5000), _sum(5000)])
def test_a_tree_built_too_deep_by_program_is_refused_and_not_a_recursion_error(spec):
    for use in (str, lambda spec: spec.expand(), lambda spec: spec.free_names):
        with pytest.raises(dg.SpecError) as caught:
            use(spec)
        assert caught.value.code == "too-deep"


def test_sixty_four_levels_are_allowed_of_every_form():
    for opening, closing in [("(", ")x1"), ("rev(", ")"), ("(", " for i in 1..1)x1")]:
        text = opening * 64 + "1" + closing * 64
        text = "".join(text) if "for" not in closing else _indexed()
        assert dg.route(text).path == (1,)


def _indexed():
    """64 comprehensions with a count each, every one with an index of its own."""
    return "(" * 64 + "1" + "".join(f" for i{level} in 1..1)x1" for level in range(64))


def test_the_limits_are_settings():
    assert dg.route("1x100001", limits=Limits(executions=200_000)).execution_depth == 100_001
    with pytest.raises(dg.SpecError, match="too-many-executions"):
        dg.route("1x11", limits=Limits(executions=10))
    with pytest.raises(dg.SpecError, match="spec-too-long"):
        dg.route("1 2 3", limits=Limits(characters=4))
