"""The activations of any execution, by (layer, visit)."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from depthgraph.errors import CompileError
from depthgraph.nn import capture, compile
from depthgraph.route import Route

from layers import Layer

WIDTH = 4


class Untyped(Layer):
    def forward(self, hidden):
        return super().forward(hidden), "more"


class Checkpointed(Layer):
    def forward(self, hidden: Tensor) -> Tensor:
        return checkpoint(super().forward, hidden, use_reentrant=False)


class Around(nn.Module):
    def __init__(self, body, reentrant=None) -> None:
        super().__init__()
        self.body, self.reentrant = body, reentrant

    def forward(self, hidden: Tensor) -> Tensor:
        if self.reentrant is None:
            return self.body(hidden)
        return checkpoint(self.body, hidden, use_reentrant=self.reentrant)


def model_of(path, kind=Layer):
    torch.manual_seed(0)
    return compile(Route.of(path), [kind() for _ in range(max(path))])


def test_four_runs_of_one_layer_are_four_tensors():
    model = model_of([1] * 4)
    hidden = torch.randn(2, WIDTH)
    with capture(model) as seen:
        output = model(hidden)
    assert list(seen) == [(1, 1), (1, 2), (1, 3), (1, 4)]
    for visit in range(1, 5):
        hidden = model.layers[0](hidden)
        assert torch.equal(seen[1, visit], hidden)
    assert torch.equal(seen[1, 4], output)


@pytest.mark.parametrize("kind", [Layer, Untyped, Checkpointed])
def test_keys_name_the_same_run_under_another_route(kind):
    one, other = model_of([1, 2, 1, 2], kind), model_of([1, 2, 1, 2, 2], kind)
    hidden = torch.randn(2, WIDTH)
    with capture(one) as first, capture(other) as second:
        one(hidden)
        other(hidden)
    assert set(first) < set(second)
    assert all(torch.equal(second[key], first[key]) for key in first)


def test_only_the_executions_asked_for_are_kept():
    model = model_of([1, 2, 1])
    for executions in ([(1, 2)], [model.route.executions[2]], ((1, 2), (1, 2))):
        with capture(model, executions) as seen:
            model(torch.randn(2, WIDTH))
        assert list(seen) == [(1, 2)]
    with capture(model, []) as seen:
        model(torch.randn(2, WIDTH))
    assert seen == {}


def test_every_forward_fills_the_dict_anew():
    model = model_of([1, 1])
    with capture(model) as seen:
        model(torch.zeros(2, WIDTH))
        before = dict(seen)
        model(torch.ones(3, WIDTH))
    assert [tensor.shape[0] for tensor in before.values()] == [2, 2]
    assert [tensor.shape[0] for tensor in seen.values()] == [3, 3]


def test_hooks_are_removed_even_after_an_error():
    model = model_of([1, 2, 1])
    with pytest.raises(RuntimeError, match="mat1 and mat2"), capture(model) as seen:
        model(torch.randn(2, WIDTH + 1))
    assert seen == {}
    parts = list(model.modules())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in parts)
    assert not any(part._forward_hooks_always_called for part in parts)
    model(torch.randn(2, WIDTH))
    assert seen == {}


def test_a_forward_that_failed_does_not_leave_the_next_call_counted():
    model = model_of([1, 2])
    with capture(model) as seen:
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            model(torch.randn(2, WIDTH + 1))
        model.layers[0](torch.randn(2, WIDTH))  # a call from outside the model
        assert seen == {}
        model(torch.randn(2, WIDTH))
        assert list(seen) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("kind", [Layer, Checkpointed])
@pytest.mark.parametrize("reentrant", [None, False, True])
def test_recomputation_is_not_collected(kind, reentrant):
    model = Around(model_of([1, 2, 1], kind), reentrant)
    hidden = torch.randn(2, WIDTH, requires_grad=True)
    with capture(model) as seen:
        output = model(hidden)
        before = dict(seen)
        output.sum().backward()
    assert list(seen) == [(1, 1), (2, 1), (1, 2)]
    assert all(seen[key] is before[key] for key in seen)


def test_gradients_flow_through_what_is_captured():
    model = model_of([1, 1])
    with capture(model) as seen:
        output = model(torch.randn(2, WIDTH))
        seen[1, 1].retain_grad()
        output.sum().backward()
    assert seen[1, 1].grad is not None


@pytest.mark.parametrize("make", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_can_be_captured(make):
    with capture(make(Around(model_of([1, 2, 1])))) as seen:
        pass
    assert seen == {}
    model = make(model_of([1, 2, 1]))
    with capture(model) as seen:
        model(torch.randn(2, WIDTH))
    assert list(seen) == [(1, 1), (2, 1), (1, 2)]


def test_layers_that_are_one_module_keep_their_own_keys():
    layer = Layer()
    model = compile(Route.of([1, 2, 1]), [layer, layer], allow_shared=True)
    with capture(model) as seen:
        model(torch.randn(2, WIDTH))
    assert list(seen) == [(1, 1), (2, 1), (1, 2)]


def test_an_edited_graph_is_captured_by_what_is_left():
    model = model_of([1, 2, 1])
    node = next(node for node in model.graph.nodes if node.name == "L2_1")
    node.replace_all_uses_with(node.args[0])
    model.graph.erase_node(node)
    model.recompile()
    with capture(model) as seen:
        model(torch.randn(2, WIDTH))
    assert list(seen) == [(1, 1), (1, 2)]
    with pytest.raises(CompileError, match="no execution is"), capture(model, [(2, 1)]):
        pass


@pytest.mark.parametrize("how", ["in place", "each layer", "wrapper"])
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_compiled_model_is_captured_too(how):
    torch._dynamo.reset()
    model = model_of([1, 2, 1])
    hidden = torch.randn(2, WIDTH)
    run = model
    if how == "wrapper":
        run = torch.compile(model, backend="eager")
    for part in {"in place": [model], "each layer": model.layers, "wrapper": []}[how]:
        part.compile(backend="eager")
    expected = run(hidden)
    with capture(run) as seen:
        run(hidden)
    assert list(seen) == [(1, 1), (2, 1), (1, 2)]
    assert torch.equal(seen[1, 2], expected)
    assert torch.equal(run(hidden), expected)
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ((1, 3), "layer 1 runs 2 times: visits are 1..2"),
        ((2, 0), "layer 2 runs 1 time: visits are 1..1"),
        ((3, 1), "the layers that run are [1, 2]"),
        ("L1.1", "executions are (layer, visit)"),
        (1, "executions are (layer, visit)"),
    ],
)
def test_an_unknown_execution_is_refused(key, words):
    with pytest.raises(CompileError) as caught, capture(model_of([1, 2, 1]), [key]):
        pass
    assert caught.value.code == "unknown-execution"
    assert words in str(caught.value)


def test_a_model_without_one_compiled_route_is_refused():
    with pytest.raises(CompileError, match="found none") as caught, capture(nn.Linear(2, 2)):
        pass
    assert caught.value.code == "no-compiled-route"
    two = nn.ModuleDict({"a": model_of([1]), "b": model_of([1])})
    with pytest.raises(CompileError, match="found 'a', 'b'"), capture(two):
        pass


def test_executions_are_named_by_any_pair_of_integers():
    model = model_of([1, 2, 1])
    for executions in ([[1, 2]], [(np.int64(1), torch.tensor(2))], np.array([[1, 2]]).tolist(), iter([(1, 2)])):
        with capture(model, executions) as seen:
            model(torch.randn(2, WIDTH))
        assert list(seen) == [(1, 2)]


@pytest.mark.parametrize(
    ("executions", "words"),
    [
        (5, "executions are given one by one; found 5"),
        ("L1.1", "executions are given one by one; found 'L1.1'"),
        ({(1, 1): None}, "executions are given one by one"),
        ((1, 2), "no execution is 1"),
        ([[1]], "no execution is [1]"),
        ([[[1], [2]]], "no execution is [[1], [2]]"),
        ([{1, 2}], "executions are (layer, visit)"),
        ([(1.0, 1)], "executions are (layer, visit)"),
        ([None], "no execution is None"),
    ],
)
def test_executions_of_another_kind_are_refused(executions, words):
    with pytest.raises(CompileError) as caught, capture(model_of([1, 2, 1]), executions):
        pass
    assert caught.value.code == "unknown-execution"
    assert words in str(caught.value)


@pytest.mark.parametrize("model", [5, None, "model", [nn.Linear(2, 2)]])
def test_something_that_is_no_module_cannot_be_captured(model):
    with pytest.raises(CompileError, match="one compiled route is needed") as caught, capture(model):
        pass
    assert caught.value.code == "no-compiled-route"
