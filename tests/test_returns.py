"""What layers return: hidden states, tuples that start with one, and what is refused."""

from collections import OrderedDict
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from depthgraph.errors import CompileError
from depthgraph.nn import compile
from depthgraph.route import Route

from layers import AnnotatedTuple, Residual, ReturnsTuple

WIDTH = 6


@pytest.mark.parametrize(
    ("returns", "layer", "operations"),
    [
        ("tuple", ReturnsTuple, ["getitem"]),
        ("auto", ReturnsTuple, ["hidden_of"]),
        ("auto", AnnotatedTuple, ["getitem"]),
        ("tensor", Residual, []),
    ],
)
def test_tuples_are_taken_apart_where_they_come(returns, layer, operations):
    one = layer()
    model = compile(Route.of([1]), [one], returns=returns)
    hidden = torch.randn(2, WIDTH)
    assert torch.equal(model(hidden), one(hidden)[0] if operations else one(hidden))
    inserted = [node.target.__name__ for node in model.graph.nodes if node.op == "call_function"]
    assert inserted == operations


def test_an_unknown_word_for_returns_is_refused():
    with pytest.raises(ValueError, match="tensor, tuple, auto"):
        compile(Route.of([1]), [Residual()], returns="list")


class Returns(nn.Module):
    """Returns something made of the hidden state."""

    def __init__(self, make) -> None:
        super().__init__()
        self.make = make

    def forward(self, hidden):
        return self.make(hidden)


class HiddenTwice(NamedTuple):
    hidden: Tensor
    again: Tensor


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda hidden: {"last_hidden_state": hidden}, "found dict with keys 'last_hidden_state'"),
        (lambda hidden: OrderedDict(a=hidden, b=1), "found OrderedDict with keys 'a', 'b'"),
        (lambda hidden: None, "found NoneType"),
        (lambda hidden: 3.5, "found float"),
        (lambda hidden: (None, hidden), "found tuple that starts with NoneType"),
        (lambda hidden: [(hidden,)], "found list that starts with tuple"),
        (lambda hidden: (), "found tuple without elements"),
        (lambda hidden: SimpleNamespace(hidden=hidden), "found SimpleNamespace"),
    ],
)
@pytest.mark.parametrize("when", ["it runs", "example"])
def test_an_output_without_a_hidden_state_is_refused_by_name(make, found, when):
    layers, hidden = [Residual(), Returns(make)], torch.randn(2, WIDTH)
    with pytest.raises(CompileError) as caught:
        compile(Route.of([1, 2, 1]), layers, example=hidden if when == "example" else None)(hidden)
    assert caught.value.code == "layer-output"
    assert str(caught.value).startswith("error[layer-output]: layer 2 (Returns) returned")
    assert found in str(caught.value)
    assert "returns=" in str(caught.value)


@pytest.mark.parametrize("make", [lambda one: [one, 1], lambda one: HiddenTwice(one, one), nn.Parameter])
def test_outputs_that_start_with_a_hidden_state_flow_on(make):
    hidden = torch.randn(2, WIDTH)
    assert torch.equal(compile(Route.of([1, 1]), [Returns(make)])(hidden), hidden)


def test_states_of_the_users_own_flow_on_where_the_caller_says_so():
    model = compile(Route.of([1, 1]), [Returns(lambda state: {"count": state["count"] + 1})], returns="tensor")
    assert model({"count": 0}) == {"count": 2}


def test_an_annotation_beats_a_hook_and_the_callers_word_beats_both():
    layer, hidden = Residual(), torch.randn(2, WIDTH)
    layer.register_forward_hook(lambda _module, _arguments, output: (output, "more"))
    assert isinstance(compile(Route.of([1]), [layer])(hidden), tuple)
    found = compile(Route.of([1, 1]), [layer], returns="tuple")(hidden)
    assert torch.equal(found, layer(layer(hidden)[0])[0])
