"""Gradients that stop before the last iterations of a loop, against plain Python with `detach`."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import depthgraph as dg
from depthgraph.carried import carried_by
from depthgraph.errors import SpecError
from depthgraph.truncation import truncated

from layers import Residual

pytestmark = pytest.mark.usefixtures("one_thread")

HUGINN = "1..2 save(e) (mix(e) 3..4)x r 5..6"
#: Two states that refine each other, as in HRM (arXiv 2506.21734): both are handed on, and each iteration begins with `load`.
TWO_STATES = "1 save(y) save(z) ((load(z) add(y) 2..3 save(z))x2 load(y) add(z) 4 save(y))x r 5..6"
#: h and a register are handed on.
BOTH = "1 save(a) (2 add(a) 3 save(a) 4)x r 5..6"

CASES = [
    (HUGINN, "1..2 save(e) body x (r-2) stopgrad body x2 5..6 where body=mix(e) 3..4"),
    (
        TWO_STATES,
        "1 save(y) save(z) body x (r-2) load(z) stopgrad save(z) load(y) stopgrad save(y) body x2 5..6 "
        "where body=(load(z) add(y) 2..3 save(z))x2 load(y) add(z) 4 save(y)",
    ),
    (
        BOTH,
        "1 save(a) body x (r-2) stopgrad save(h) load(a) stopgrad save(a) load(h) body x2 5..6 "
        "where body=2 add(a) 3 save(a) 4",
    ),
    ("1 core x r 6 where core=2..5", "1 core x (r-2) stopgrad core x2 6 where core=2..5"),
    ("block(2..4)x r", "... body x (r-2) stopgrad body x2 ... where body=2..4"),
    ("1..5 6x m where m=2*r", "1..5 body x (m-2) stopgrad body x2 where m=2*r, body=6"),
    ("(1..6)x (2*r+1)", "body x (2*r+1-2) stopgrad body x2 where body=1..6"),
    ("1 ((2 3)x r 4)x2 5..6", "1 (body x (r-2) stopgrad body x2 4)x2 5..6 where body=2 3"),
    ("(i x r for i in 1..6)", "(body(i)x (r-2) stopgrad body(i)x2 for i in 1..6) where body(i)=i"),
    ("f(1) f(4) where f(a)=(a..a+2)x r", "f(1) f(4) where f(a)=body(a)x (r-2) stopgrad body(a)x2, body(a)=a..a+2"),
    ("1..2 mean((3 4)x r | 5) 6", "1..2 mean(body x (r-2) stopgrad body x2 | 5) 6 where body=3 4"),
    ("1..2 rev((3 4)x2) (5 6)x r", "1..2 rev((3 4)x2) body x (r-2) stopgrad body x2 where body=5 6"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_the_loop_is_written_as_two(text, expected):
    spec = dg.parse(text)
    for r in (3, 7):
        cut = truncated(spec, {"r": 2}, {"r": r, "N": 6})
        route = cut.expand(r=r, N=6)
        assert route == dg.parse(expected).expand(r=r, N=6)
        assert route == dg.parse(str(cut)).expand(r=r, N=6)
        assert route == dg.route(str(route), N=6)
        assert route.path == spec.expand(r=r, N=6).path
        assert "stopgrad" in str(route)


@pytest.mark.parametrize("text", [text for text, _ in CASES])
def test_loops_of_k_iterations_or_fewer_stay(text):
    spec = dg.parse(text)
    longest = 60
    for r in (1, 2, 3):
        assert truncated(spec, {"r": longest}, {"r": r, "N": 6}) == spec


def test_names_that_are_taken_are_not_taken_again():
    cut = truncated(dg.parse("save(body) 1 save(h) (2 add(body) 3 add(h) save(h))x r"), {"r": 1}, {"r": 4})
    assert str(cut) == (
        "save(body) 1 save(h) body2 x (r-1) stopgrad save(h2) load(h) stopgrad save(h) load(h2) body2 x1 "
        "where body2=2 add(body) 3 add(h) save(h)"
    )


def test_several_counts_are_cut_each_at_its_own():
    cut = truncated(dg.parse("(1 2)x r ((3 4)x k 5)x r"), {"r": 1, "k": 2}, {"r": 3, "k": 3})
    assert str(cut) == (
        "body x (r-1) stopgrad body x1 body3 x (r-1) stopgrad body3 x1 "
        "where body=1 2, body2=3 4, body3=body2 x (k-2) stopgrad body2 x2 5"
    )


@pytest.mark.parametrize(
    ("body", "carried", "h"),
    [
        ("1 2", [], True),
        ("mix(e) 1", [], True),
        ("save(a) 1 add(a)", [], True),
        ("1 add(a) save(a)", ["a"], True),
        ("load(a) 1 save(a)", ["a"], False),
        ("load(b) add(a) 1 save(b) load(a) 2 save(a)", ["b", "a"], False),
        ("1 mean(2 save(a) 3 add(a) | 4)", [], True),
        ("mean(2 add(a) | 3) save(a)", ["a"], True),
        ("(1 add(a) 2)x3 save(a)", ["a"], True),
        ("core save(a) where core=load(a) 1", ["a"], False),
        ("core core where core=1 add(a) save(a)", ["a"], True),
        ("exit load(a) 1 save(a)", ["a"], True),
    ],
)
def test_what_an_iteration_hands_on(body, carried, h):
    spec = dg.parse(body)
    defined = {item.name: item for item in spec.definitions}
    assert carried_by(spec.body, defined) == (carried, h)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1..r", "no loop of this spec has the count `r`"),
        ("cycle(3,r)", "`r` is no plain loop count here"),
        ("ilr[r,2]", "`r` is no plain loop count here"),
        ("(1 2 for i in 1..r)", "`r` is no plain loop count here"),
        ("rev((1 2)x r)", "a loop in `rev` cannot be cut"),
        ("(i x (r+i) for i in 1..3)", "depends on a name that stands for several values"),
        ("f(2) where f(k)=(1 2)x (r*k)", "depends on a name that stands for several values"),
    ],
)
def test_a_loop_that_cannot_be_cut_is_refused(text, message):
    with pytest.raises(SpecError, match=message.replace("(", r"\(")) as caught:
        truncated(dg.parse(text), {"r": 2}, {"r": 6})
    assert caught.value.code == "bad-truncation"
    assert caught.value.location


def test_a_loop_of_two_counts_that_are_both_cut_is_refused():
    with pytest.raises(SpecError, match="depends on two counts, k and r"):
        truncated(dg.parse("(1 2)x (k*r)"), {"r": 2, "k": 2}, {"r": 6, "k": 2})


# gradients


def model_of(text, **options):
    torch.manual_seed(0)
    model = dg.compile(text, [Residual() for _ in range(6)], dynamic=["r"], width=6, **options)
    if hasattr(model, "mix_1"):
        nn.init.normal_(model.mix_1.weight, std=0.4)
    return model


def huginn(model, h, r, k):
    one, two, three, four, five, six = model.layers
    e = h = two(one(h))
    for step in range(r):
        if step == r - k:
            h = h.detach()
        h = four(three(model.mix_1(h, e)))
    return six(five(h))


def two_states(model, h, r, k):
    one, two, three, four, five, six = model.layers
    y = z = one(h)
    for step in range(r):
        if step == r - k:
            y, z = y.detach(), z.detach()
        for _ in range(2):
            z = three(two(z + y))
        y = four(y + z)
    return six(five(y))


def both(model, h, r, k):
    one, two, three, four, five, six = model.layers
    a = h = one(h)
    for step in range(r):
        if step == r - k:
            h, a = h.detach(), a.detach()
        a = h = three(two(h) + a)
        h = four(h)
    return six(five(h))


def gradients(model, output, hidden):
    hidden.grad = None
    model.zero_grad()
    output.square().sum().backward()
    tensors = [hidden, *model.parameters()]
    return [None if each.grad is None else each.grad.clone() for each in tensors]


def same(one, other):
    return all(
        a is b is None or (a is not None and b is not None and torch.equal(a, b))
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize(("text", "loop"), [(HUGINN, huginn), (TWO_STATES, two_states), (BOTH, both)])
@given(r=st.integers(1, 6), k=st.integers(1, 6))
def test_gradients_are_those_of_plain_python_with_detach(text, loop, r, k):
    model = model_of(text, backprop_last=k)
    whole = model_of(text)
    hidden = torch.randn(2, 6, generator=torch.Generator().manual_seed(1)).requires_grad_()
    output = model(hidden, r=r)
    expected = loop(model, hidden, r, k if k < r else r + 1)
    assert torch.equal(output, expected)
    assert torch.equal(output, whole(hidden, r=r))
    found = gradients(model, output, hidden)
    assert same(found, gradients(model, expected, hidden))
    full = gradients(whole, whole(hidden, r=r), hidden)
    assert same(found, full) == (k >= r)


def test_the_prelude_gets_its_gradient_through_registers_alone():
    hidden = torch.randn(2, 6)
    chain = model_of("1..2 (3..4)x r 5..6", backprop_last={"r": 2})
    chain(hidden, r=5).sum().backward()
    assert [layer.linear.weight.grad is None for layer in chain.layers] == [True, True, False, False, False, False]
    model = model_of(HUGINN, backprop_last={"r": 2})
    model(hidden, r=5).sum().backward()
    assert all(layer.linear.weight.grad.any() for layer in model.layers)
    with torch.no_grad():
        model.mix_1.weight[:, 6:] = 0  # e is not read any more
    model.zero_grad()
    model(hidden, r=5).sum().backward()
    assert not any(layer.linear.weight.grad.any() for layer in model.layers[:2])


def test_it_is_the_gradient_of_a_model_whose_earlier_iterations_are_constants():
    """By finite differences: the weights of the core are moved in the last k iterations alone."""
    text, r, k = "1 (2)x r 3", 6, 2
    torch.manual_seed(0)
    layers = [Residual(3).double() for _ in range(3)]
    model = dg.compile(text, layers, dynamic=["r"], backprop_last=k)
    hidden = torch.randn(1, 3, dtype=torch.float64)
    model(hidden, r=r).sum().backward()
    weight = layers[1].linear.weight
    with torch.no_grad():
        before = layers[0](hidden)
        for _ in range(r - k):
            before = layers[1](before)

        def behind():
            h = before
            for _ in range(k):
                h = layers[1](h)
            return layers[2](h).sum()

        for index in ((0, 0), (1, 2), (2, 1)):
            kept, step = weight[index].item(), 1e-6
            weight[index] = kept + step
            above = behind()
            weight[index] = kept - step
            slope = (above - behind()) / (2 * step)
            weight[index] = kept
            assert weight.grad[index].item() == pytest.approx(slope.item(), rel=1e-6)


def test_the_two_halves_of_a_cut_loop_share_their_weights():
    model = model_of("save(e) (gate(e) 1 looped(1,2,1,2))x r 5..6", backprop_last=1)
    assert [name for name, _ in model.named_children()] == ["layers", "gate_1"]
    model(torch.ones(1, 6), r=4)
    assert {each.site for each in model.at(r=4).route.data_flow if hasattr(each, "site")} == {1}
