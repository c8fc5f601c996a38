"""A compiled route computes what a loop over the layers computes, with one set of weights a layer."""

import copy
import importlib
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, fx, nn
from torch.utils.checkpoint import checkpoint

import depthgraph.nn
from depthgraph.errors import CompileError, GraphError
from depthgraph.graph import build_graph
from depthgraph.nn import compile
from depthgraph.route import Route

WIDTH = 6

paths = st.integers(1, 5).flatmap(lambda N: st.tuples(st.just(N), st.lists(st.integers(1, N), min_size=1, max_size=12)))


class Residual(nn.Module):
    """A layer of the usual kind."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + torch.tanh(self.linear(self.norm(hidden)))


class ReturnsTuple(Residual):
    def forward(self, hidden):  # no annotation: it has to be seen at run time
        return super().forward(hidden), None


class AnnotatedTuple(Residual):
    def forward(self, hidden: Tensor) -> tuple[Tensor, int]:
        return super().forward(hidden), 3


def make_layers(count, seed=0):
    torch.manual_seed(seed)
    kinds = [
        Residual,
        lambda: nn.Linear(WIDTH, WIDTH),
        ReturnsTuple,
        lambda: nn.LayerNorm(WIDTH),
        AnnotatedTuple,
    ]
    return [kinds[index % len(kinds)]() for index in range(count)]


def loop(path, layers, hidden):
    for layer in path:
        output = layers[layer - 1](hidden)
        hidden = output[0] if isinstance(output, tuple) else output
    return hidden


def gradients(module_or_layers, output):
    output.square().sum().backward()
    layers = getattr(module_or_layers, "layers", module_or_layers)
    return [parameter.grad for layer in layers for parameter in layer.parameters()]


def calls(model):
    return [node for node in model.graph.nodes if node.op == "call_module"]


@settings(max_examples=40, deadline=None)
@given(paths)
def test_outputs_and_gradients_equal_the_plain_loop_bit_for_bit(drawn):
    N, path = drawn
    layers = make_layers(N)
    twins = copy.deepcopy(layers)
    model = compile(Route.of(path, N), layers)
    model.graph.lint()
    hidden = torch.randn(2, 3, WIDTH)
    expected, found = loop(path, twins, hidden), model(hidden)
    assert torch.equal(expected, found)
    for one, other in zip(gradients(twins, expected), gradients(model, found), strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


@settings(max_examples=20, deadline=None)
@given(paths)
def test_each_layer_is_called_as_often_as_the_reuse_map_says(drawn):
    N, path = drawn
    route = Route.of(path, N)
    layers = make_layers(N)
    counts = [0] * N

    def counting(index):
        def hook(*_):
            counts[index] += 1

        return hook

    for index, layer in enumerate(layers):
        layer.register_forward_hook(counting(index))
    compile(route, layers)(torch.randn(1, WIDTH))
    assert tuple(counts) == route.reuse_map


@settings(max_examples=20, deadline=None)
@given(paths)
def test_parameters_and_state_dict_keys_do_not_depend_on_the_route(drawn):
    N, path = drawn
    layers = make_layers(N)
    standard = compile(Route.of(range(1, N + 1)), layers)
    model = compile(Route.of(path, N), layers)
    assert list(model.state_dict()) == list(standard.state_dict())
    assert all(a is b for a, b in zip(model.parameters(), standard.parameters(), strict=True))
    assert list(model.state_dict()) == [
        f"layers.{index}.{name}" for index, layer in enumerate(layers) for name in layer.state_dict()
    ]


def test_there_is_one_node_an_execution_named_after_it():
    route = Route.of([1, 2, 1, 2, 3, 2, 3])
    model = compile(route, make_layers(3))
    assert isinstance(model, fx.GraphModule)
    assert [node.name for node in calls(model)] == ["L1_1", "L2_1", "L1_2", "L2_2", "L3_1", "L2_3", "L3_2"]
    assert [node.target for node in calls(model)] == [f"layers.{layer - 1}" for layer in route.path]
    assert [node.meta["execution"] for node in calls(model)] == list(route.executions)
    assert model.route == route


def test_annotated_tensor_layers_get_clean_code():
    model = compile(Route.of([1, 2, 1]), [Residual(), nn.Linear(WIDTH, WIDTH)])
    assert [node.op for node in model.graph.nodes] == ["placeholder", *["call_module"] * 3, "output"]


def test_the_generated_code_can_be_traced_again():
    model = compile(Route.of([1, 1]), [ReturnsTuple()])
    again = fx.symbolic_trace(model)
    hidden = torch.randn(2, WIDTH)
    assert torch.equal(again(hidden), model(hidden))
    assert "hidden_of" in again.code


def test_nothing_that_was_passed_in_is_changed():
    layers = nn.ModuleList(make_layers(4)).eval()
    names, before = list(layers.state_dict()), copy.deepcopy(layers.state_dict())
    model = compile(Route.of([2, 4], 4), layers, example=torch.empty(2, WIDTH))
    assert list(layers.state_dict()) == names
    assert all(torch.equal(before[name], tensor) for name, tensor in layers.state_dict().items())
    assert not model.training
    assert not model.layers.training
    assert model.layers is not layers
    assert model.layers[0] is layers[0]


def test_two_routes_over_the_same_layers_train_the_same_weights():
    layers = make_layers(2)
    one, two = compile(Route.of([1, 2]), layers), compile(Route.of([1, 2, 1, 2]), layers)
    with torch.no_grad():
        layers[0].linear.weight.zero_()
    assert one.layers[0].linear.weight is two.layers[0].linear.weight


def test_dropout_follows_train_and_eval_and_draws_like_the_loop():
    layers = [Residual(), nn.Dropout(0.5)]
    path = (1, 2, 1, 2)
    model = compile(Route.of(path), layers)
    hidden = torch.randn(3, WIDTH)
    torch.manual_seed(1)
    expected = loop(path, layers, hidden)
    torch.manual_seed(1)
    assert torch.equal(model(hidden), expected)
    model.eval()
    assert not layers[1].training
    assert torch.equal(model(hidden), loop((1, 1), layers, hidden))
    assert model.train() is model
    assert layers[1].training


def test_a_nested_compiled_route_is_a_layer_like_any_other():
    inner = compile(Route.of([1, 1]), [Residual()])
    outer = compile(Route.of([1, 2, 1]), [inner, Residual()])
    hidden = torch.randn(2, WIDTH)
    assert torch.equal(outer(hidden), inner(outer.layers[1](inner(hidden))))


class Checkpointed(nn.Module):
    def __init__(self, inner) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden: Tensor) -> Tensor:
        return checkpoint(self.inner, hidden, use_reentrant=False)


def test_gradients_with_checkpointing_equal_those_without():
    layer = Residual()
    plain = compile(Route.of([1] * 6), [layer])
    saving = compile(Route.of([1] * 6), [Checkpointed(copy.deepcopy(layer))])
    fired = []
    for parameter in saving.parameters():
        parameter.register_hook(lambda gradient: fired.append(gradient))
    hidden = torch.randn(2, WIDTH)
    expected, found = gradients(plain, plain(hidden)), gradients(saving, saving(hidden))
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert len(fired) == len(found)  # once a parameter, not once an execution


def test_layers_on_several_devices_get_their_values_moved():
    class TakesMask(Residual):
        def forward(self, hidden: Tensor, mask: dict | None = None) -> Tensor:
            return super().forward(hidden) * mask["one"][0] if mask else hidden

    layers = [TakesMask(), TakesMask().to("meta"), nn.Identity(), TakesMask().to("meta")]
    model = compile(Route.of([1, 2, 3, 4, 2]), layers)
    mask = {"one": (torch.ones(WIDTH),)}
    found = model(torch.randn(2, WIDTH), mask=mask)
    assert found.device.type == "meta"
    assert mask["one"][0].device.type == "cpu"
    moves = [node for node in model.graph.nodes if getattr(node.target, "__name__", "") == "moved_to"]
    assert len([node for node in moves if node.args[1].name == "mask"]) == 3  # one a layer, not an execution
    model.layers[1].to_empty(device="cpu")
    model.layers[3].to_empty(device="cpu")
    assert model(torch.randn(2, WIDTH), mask=mask).device.type == "cpu"  # read at run time


def test_layers_on_one_device_get_no_moves():
    model = compile(Route.of([1, 2]), [Residual(), nn.Identity()])
    assert [node.op for node in model.graph.nodes if node.op == "get_attr"] == []


def test_something_that_is_no_route_is_refused():
    with pytest.raises(CompileError, match="a str is given where a route is needed") as caught:
        compile("1 2 1", [Residual(), Residual()])
    assert caught.value.code == "not-a-route"


def test_it_exports_with_each_weight_once_and_dynamic_shapes():
    model = compile(Route.of([1, 2, 1, 2, 3], 4), make_layers(4))
    hidden = torch.randn(2, 3, WIDTH)
    sizes = {0: torch.export.Dim("batch", min=2), 1: torch.export.Dim("length", min=2)}
    exported = torch.export.export(model, (hidden,), dynamic_shapes=(sizes,))
    assert {name for name in exported.state_dict if "layers.3" not in name} == {
        name for name in model.state_dict() if "layers.3" not in name
    }
    other = torch.randn(4, 5, WIDTH)
    assert torch.equal(exported.module()(other), model(other))


def test_a_graph_in_networkx_is_verified_and_compiled():
    route = Route.of([1, 2, 1, 3])
    layers = make_layers(3)
    graph = build_graph(route)
    hidden = torch.randn(2, WIDTH)
    assert torch.equal(compile(graph, layers)(hidden), compile(route, layers)(hidden))
    graph.remove_edge("L2.1", "L1.2")
    with pytest.raises(GraphError):
        compile(graph, layers)


def test_the_function_and_its_module_share_a_name_and_the_function_wins():
    importlib.import_module("depthgraph.nn.compile")
    importlib.import_module("depthgraph.nn.capture")
    assert callable(depthgraph.nn.compile)
    assert callable(depthgraph.nn.capture)


def test_without_torch_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "try: import depthgraph.nn\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found.startswith("MissingPackageError error[missing-package]")
    assert 'pip install "depthgraph[torch]"' in found
