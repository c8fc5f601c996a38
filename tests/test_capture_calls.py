"""What is captured belongs to the calls of the graph, whatever else calls layers."""

import contextlib
import pickle

import pytest
import torch
from torch import Tensor, nn

from depthgraph.errors import CompileError
from depthgraph.nn import capture, compile
from depthgraph.route import Route

from layers import Layer

WIDTH = 4


def model_of(path):
    torch.manual_seed(0)
    return compile(Route.of(path), [Layer() for _ in range(max(path))])


class Calls(nn.Module):
    """Calls another module inside its own forward, and again after that."""

    def __init__(self, inner) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden: Tensor) -> Tensor:
        return self.inner(hidden) + self.inner(2 * hidden)


class Tries(Calls):
    def forward(self, hidden: Tensor) -> Tensor:
        with contextlib.suppress(RuntimeError):
            self.inner(hidden[:, 1:])
        return 3 * hidden


@pytest.mark.parametrize("path", [[1, 2], [2, 1], [1, 2, 1, 2], [2, 2], [1, 3, 2, 3, 1]])
@pytest.mark.parametrize("kind", [Calls, Tries])
def test_layers_that_call_other_layers_do_not_disturb_the_count(path, kind):
    torch.manual_seed(0)
    one = Layer()
    two = kind(one)
    layers = [one, two, Calls(two)][: max(path)]
    model = compile(
        Route.of(path, len(layers)) if set(path) == {*range(1, len(layers) + 1)} else Route.of(path), layers
    )
    hidden = torch.randn(2, WIDTH)
    with capture(model) as seen:
        output = model(hidden)
    for execution in model.route.executions:
        hidden = layers[execution.layer - 1](hidden)
        assert torch.equal(seen[execution.layer, execution.visit], hidden)
    assert torch.equal(output, hidden)


def test_hooks_that_are_registered_in_the_context_have_run():
    model = model_of([1, 2, 1])
    hidden = torch.randn(2, WIDTH)
    with capture(model) as seen, capture(model, [(1, 2)]) as other:
        for layer in model.layers:
            layer.register_forward_hook(lambda _module, _arguments, output: output + 1)
        for _ in range(2):
            output = model(hidden)
            assert torch.equal(seen[1, 2], output)
            assert torch.equal(other[1, 2], output)
            assert torch.equal(seen[1, 1], model.layers[0](hidden))
    assert [len(layer._forward_hooks) for layer in model.layers] == [1, 1]


def test_hooks_of_the_route_itself_may_call_layers():
    model = model_of([1, 2])
    model.register_forward_pre_hook(lambda module, arguments: (module.layers[1](*arguments),))
    model.register_forward_hook(lambda module, _arguments, output: module.layers[0](output))
    hidden = torch.randn(2, WIDTH)
    with capture(model) as seen:
        output = model(hidden)
    assert list(seen) == [(1, 1), (2, 1)]
    assert torch.equal(model.layers[0](seen[2, 1]), output)


@pytest.mark.parametrize("returns", ["tensor", "tuple"])
def test_what_is_seen_is_what_flows_on(returns):
    model = compile(Route.of([1, 1]), [Pair()], returns=returns)
    model = pickle.loads(pickle.dumps(model))
    state = (torch.ones(1), torch.zeros(1)) if returns == "tensor" else torch.ones(1)
    with capture(model) as seen:
        output = model(state)
    assert seen[1, 2] is output


class Pair(nn.Module):
    def forward(self, state):
        first = state[0] if isinstance(state, tuple) else state
        return first + 1, first


class Skips(nn.Module):
    def forward(self, hidden: Tensor) -> Tensor:
        return hidden


def call_directly(model):
    """Let a function in the graph call a layer."""

    def first_layer(hidden):
        return model.layers[0](hidden)

    *_, last, output = model.graph.nodes
    with model.graph.inserting_after(last):
        output.args = (model.graph.call_function(first_layer, (last,)),)
    model.recompile()


def leave_stale(model):
    """Erase the last call, and leave the code as it was."""
    *_, last, output = model.graph.nodes
    output.args = last.args
    model.graph.erase_node(last)


def run_one(model):
    model.forward = lambda hidden: model.layers[0](hidden)


def run_none(model):
    model.forward = lambda hidden: hidden


def exchange(model):
    model.layers[1] = Layer()


def exchange_for_another(model):
    model.layers[1] = model.layers[0]


@pytest.mark.parametrize(
    ("change", "is_inside", "words"),
    [
        (call_directly, False, "a Layer ran where the graph calls nothing"),
        (call_directly, True, "a Layer ran where the graph calls nothing"),
        (leave_stale, False, "a Layer ran where the graph calls nothing"),
        (run_one, False, "L2_1 was not seen to run"),
        (run_none, True, "L1_1 was not seen to run"),
        (exchange, True, "a Layer ran where the graph calls L2_1"),
        (exchange_for_another, True, "a Layer ran where the graph calls L2_1"),
    ],
)
def test_calls_that_are_not_those_of_the_graph_are_refused(change, is_inside, words):
    model, hidden = model_of([1, 2, 1]), torch.randn(2, WIDTH)
    parts = list(model.modules())
    if not is_inside:
        change(model)
    with capture(model):
        if is_inside:
            change(model)
        with pytest.raises(CompileError) as caught:
            model(hidden)
    assert caught.value.code == "unexpected-call"
    assert words in str(caught.value)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in parts)
