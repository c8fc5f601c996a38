"""Names that users choose cannot break or change the generated code."""

import copy
import inspect

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from depthgraph.nn import compile
from depthgraph.route import Route

WIDTH = 6


def calls(model):
    return [node for node in model.graph.nodes if node.op == "call_module"]


class Hostile(nn.Module):
    """Attribute and parameter names that would break code that pastes them."""

    def __init__(self) -> None:
        super().__init__()
        for name in ('a"b', "c'd", "e\nf", "__import__('os')", "class", "é", "layers", "L1_1"):
            self.register_parameter(name, nn.Parameter(torch.ones(WIDTH)))

    def forward(self, x, L1_1=1.0, len=2, print=float("inf"), layers=None, L2_1=None):
        assert len == 2
        assert print == float("inf")
        return x * self._parameters['a"b'] * L1_1


def test_names_of_attributes_and_parameters_cannot_break_the_code():
    model = compile(Route.of([1, 2, 1, 2]), [Hostile(), Hostile().to("meta")])
    assert [node.name for node in calls(model)] == ["L1_1", "L2_1", "L1_2", "L2_2"]
    model.graph.lint()
    on_cpu = compile(Route.of([1, 1]), [Hostile()])
    assert torch.equal(on_cpu(torch.ones(WIDTH), L1_1=3.0), torch.full((WIDTH,), 9.0))
    assert list(inspect.signature(on_cpu.forward).parameters) == [
        "hidden",
        "L1_1",
        "len",
        "print",
        "layers",
        "L2_1",
    ]


HARD_NAMES = ["L1_1", "L1_1_input", "L1_1_input_", "L1_1_input_1", "L2_1", "len", "len_1", "len_input", "é", "_", "__1"]
HARD_NAMES += [
    "layer_1",
    "hidden_of",
    "getitem",
    "moved_to",
    "moved_to_1",
    "hidden_1",
    "depthgraph_nn_runtime_hidden_of",
]


class TakesAll(nn.Module):
    """Returns what it was given; its forward takes `**kwargs`, so that any input can be named."""

    def forward(self, hidden, **given):
        self.given = given
        return hidden, None


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(HARD_NAMES), unique=True), st.booleans())
def test_inputs_of_any_names_arrive_under_their_own(names, moves):
    layers = [TakesAll(), TakesAll()]
    if moves:
        layers[1].table = nn.Parameter(torch.ones(1))
        layers[0].table = nn.Parameter(torch.ones(1, device="meta"))
    model = compile(Route.of([1, 2, 1]), layers, inputs=names)
    model.to_empty(device="cpu")
    given = {name: index for index, name in enumerate(names)}
    for one in (model, copy.deepcopy(model)):
        one(torch.ones(1), **given)
        assert [layer.given for layer in one.layers] == [given, given]
    assert [node.name for node in calls(model)] == ["L1_1", "L2_1", "L1_2"]
    assert [node.target for node in model.graph.nodes if node.op == "placeholder"] == ["hidden", *names]
