"""A compiled route is copied, stored and loaded as one would think."""

import copy
import io
import operator
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from depthgraph.expand import route_from_text
from depthgraph.nn import RoutedModule, compile
from depthgraph.route import Route

WIDTH = 4


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor, slot: int = 0) -> Tensor:
        return torch.tanh(self.linear(hidden)) + slot


class Untyped(Layer):
    def forward(self, hidden, slot: int = 0):
        return (super().forward(hidden, slot),)


class Odd(RoutedModule):
    """A subclass of a user."""


def saved(model):
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "torch.save": saved,
    "copy": copy.copy,
}
every_copy = pytest.mark.parametrize("make", COPIES.values(), ids=COPIES.keys())


def make_model(path=(1, 2, 1, 4), N=5, kind=Layer):
    torch.manual_seed(0)
    layers = [kind() for _ in range(N)]
    return compile(Route.of(path, N), layers, per_execution=lambda one: {"slot": one.position})


def described(model):
    return [(node.op, node.name, node.target, node.meta.get("execution")) for node in model.graph.nodes]


@every_copy
@pytest.mark.parametrize("kind", [Layer, Untyped])
def test_a_copy_is_the_same_model(make, kind):
    model = make_model(kind=kind)
    twin = make(model)
    hidden = torch.randn(2, WIDTH)
    assert torch.equal(twin(hidden), model(hidden))
    assert twin.code == model.code
    assert described(twin) == described(model)
    assert list(twin.state_dict()) == list(model.state_dict())
    assert isinstance(twin.layers, nn.ModuleList)
    assert twin.route == model.route
    assert type(twin).__name__ == "RoutedModule"
    assert twin.graph is not model.graph
    assert twin.graph.owning_module is twin
    twin.graph.lint()


@every_copy
def test_a_copy_of_two_thousand_executions_keeps_one_layer(make):
    model = compile(Route.of([1] * 2000), [Layer()])
    twin = make(model)
    assert len(list(twin.parameters())) == 2
    assert twin.route.execution_depth == 2000
    hidden = torch.randn(1, WIDTH)
    assert torch.equal(twin(hidden), model(hidden))


def test_a_copy_attribute_by_attribute_runs_its_own_submodules():
    # as accelerate's compile_regions makes one, with other layers in it
    model, seen = make_model(), []
    twin = type(model).__new__(type(model))
    twin.__dict__.update(model.__dict__)
    twin.__dict__["_modules"] = {**model._modules, "layers": nn.ModuleList(copy.deepcopy(model.layers)[::-1])}
    twin.register_forward_hook(lambda *_: seen.append(1))
    hidden = torch.randn(2, WIDTH)
    expected = compile(model.route, twin.layers, per_execution=lambda one: {"slot": one.position})(hidden)
    assert torch.equal(twin(hidden), expected)
    assert not torch.equal(model(hidden), expected)
    assert torch.equal(twin(hidden), expected)
    assert seen == [1, 1, 1]  # such a copy has the hooks of the original


def test_layers_are_a_list_and_are_read_as_a_dict():
    model = make_model()
    assert [*model.layers.items()] == [*model.layers.named_children()] == [*zip("01234", model.layers, strict=True)]
    assert [*model.layers.values()] == [*model.layers]
    assert [*reversed(model.layers.values())] == [*model.layers][::-1]
    assert [*model.layers.keys()] == [*model.layers._modules]
    for name, layer in model.layers.items():  # as torchtitan wraps them
        model.layers.register_module(name, nn.Sequential(layer))
    assert all(isinstance(layer, nn.Sequential) for layer in model.layers)


@pytest.mark.parametrize("make", [copy.deepcopy, COPIES["pickle"]])
def test_training_a_copy_leaves_the_original(make):
    model = make_model()
    twin = make(model)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@every_copy
def test_edits_of_the_graph_survive(make):
    model = make_model()
    *_, last, output = model.graph.nodes
    with model.graph.inserting_after(last):
        doubled = model.graph.call_function(operator.mul, (last, 2.0))
    output.args = (doubled,)
    hidden = torch.randn(2, WIDTH)
    model.recompile()
    assert torch.equal(make(model)(hidden), model(hidden))
    assert torch.equal(model(hidden), 2 * make_model()(hidden))


@every_copy
def test_editing_a_copy_leaves_the_original(make):
    model = make_model()
    before = described(model)
    twin = make(model)
    for node in list(twin.graph.nodes):
        if node.name == "L4_1":
            node.replace_all_uses_with(node.args[0])
            twin.graph.erase_node(node)
    twin.recompile()
    assert described(model) == before
    assert len(described(twin)) == len(before) - 1


def shout(_module, _arguments, output):
    return output + 100


@every_copy
def test_hooks_modes_attributes_and_classes_survive(make):
    model = make_model().eval()
    model.register_forward_hook(shout)
    model.layers[0].register_forward_hook(shout)
    model.note = {"kept": True}
    twin = make(model)
    hidden = torch.randn(2, WIDTH)
    assert torch.equal(twin(hidden), model(hidden))
    assert not twin.training
    assert twin.note == {"kept": True}


@pytest.mark.parametrize("make", [copy.deepcopy, COPIES["pickle"]])
def test_a_model_that_refers_to_itself_is_copied_as_one(make):
    model = make_model()
    model.others = [model]
    twin = make(model)
    assert twin.others[0] is twin


@every_copy
def test_a_subclass_stays_itself(make):
    model = make_model()
    odd = Odd.build(model.route, model.layers, copy.deepcopy(model.graph))
    assert isinstance(make(odd), Odd)


def test_sharing_with_the_model_around_survives_a_deepcopy():
    model = make_model()
    around = nn.ModuleDict({"body": model, "first": model.layers[0]})
    twin = copy.deepcopy(around)
    assert twin["first"] is twin["body"].layers[0]


def test_dropped_layers_are_registered_and_listed():
    model = make_model()
    assert model.route.dropped == (3, 5)
    assert model.unused_parameters == (
        "layers.2.linear.weight",
        "layers.2.linear.bias",
        "layers.4.linear.weight",
        "layers.4.linear.bias",
    )


def test_weights_of_data_flow_and_of_layers_that_run_too_are_no_unused_parameters():
    layers = [Layer(), Layer(), Layer()]
    layers[1].linear.weight = layers[0].linear.weight
    model = compile(route_from_text("save(a) 1 mix(a) 3 gate(a) drop(2)"), layers, width=WIDTH)
    assert model.unused_parameters == ("layers.1.linear.bias",)


@pytest.fixture
def process_group():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("text", ["1 2 1 drop(3) 4 drop(5)", "save(e) 1 mix(e) 2 stopgrad gate(e) 1 3 stopgrad 4..5"])
def test_data_parallel_training_runs_when_the_listed_parameters_are_frozen(text):
    model = compile(route_from_text(text), [Layer() for _ in range(5)], width=WIDTH)
    for name in model.unused_parameters:
        model.get_parameter(name).requires_grad_(False)
    parallel = nn.parallel.DistributedDataParallel(model)
    for _ in range(2):  # a parameter that gets no gradient shows in the second step
        parallel(torch.randn(2, WIDTH)).sum().backward()
    learns = [name for name, parameter in model.named_parameters() if parameter.grad is not None]
    assert learns == [name for name, _ in model.named_parameters() if name not in model.unused_parameters]


def test_a_state_dict_loads_under_another_route():
    one, other = make_model(), make_model(path=(5, 4, 3, 2, 1, 5))
    with torch.no_grad():
        one.layers[4].linear.bias.fill_(7)
    other.load_state_dict(one.state_dict())
    assert other.layers[4].linear.bias[0].item() == 7


def test_safetensors_stores_each_tensor_once(tmp_path):
    layers = [nn.Linear(64, 64) for _ in range(4)]
    repeated, plain = compile(Route.of([1, 2, 3, 4] * 2), layers), nn.ModuleList(layers)
    save_file(repeated.state_dict(), tmp_path / "repeated.safetensors")
    save_file(plain.state_dict(), tmp_path / "plain.safetensors")
    sizes = [(tmp_path / f"{name}.safetensors").stat().st_size for name in ("repeated", "plain")]
    assert abs(sizes[0] - sizes[1]) < 256  # the names are longer by `layers.`
    repeated.load_state_dict(load_file(tmp_path / "repeated.safetensors"))


#: Dynamo looks at `.grad` of what a compiled layer is given, and hides the warning only where it is no error.
dynamo_reads_grad = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


@pytest.fixture
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_model_compiled_in_place_has_the_same_keys_and_results():
    model, eager = make_model(), make_model(path=(1, 2, 3, 4, 5))
    hidden = torch.randn(2, WIDTH)
    expected = model(hidden)
    keys = list(model.state_dict())
    model.compile(backend="aot_eager", fullgraph=True)
    assert torch.allclose(model(hidden), expected)
    assert list(model.state_dict()) == keys
    eager.load_state_dict(model.state_dict())
    model.load_state_dict(eager.state_dict())
    assert list(pickle.loads(pickle.dumps(model)).state_dict()) == keys


@dynamo_reads_grad
@pytest.mark.usefixtures("fresh_dynamo")
def test_one_compiled_graph_serves_all_executions_of_layers_compiled_each():
    layers = [Layer() for _ in range(3)]
    graphs = []

    def counting(graph, _inputs):
        graphs.append(graph)
        return graph

    for layer in layers:
        layer.compile(backend=counting)
    model = compile(Route.of([1, 2, 1, 2, 3, 2, 3]), layers)
    hidden = torch.randn(2, WIDTH)
    found = model(hidden)
    assert len(graphs) <= 2
    assert next(iter(model.state_dict())) == "layers.0.linear.weight"
    assert torch.allclose(found, copy.deepcopy(model)(hidden))


@pytest.mark.usefixtures("fresh_dynamo")
def test_keys_of_the_wrapper_load_into_the_plain_model():
    model, other = make_model(), make_model()
    wrapped = torch.compile(model, backend="eager")
    assert all(key.startswith("_orig_mod.") for key in wrapped.state_dict())
    with torch.no_grad():
        model.layers[2].linear.bias.fill_(7)
    given = wrapped.state_dict()
    keys = list(given)
    other.load_state_dict(given)
    assert list(given) == keys
    assert other.layers[2].linear.bias[0].item() == 7
    with pytest.raises(RuntimeError, match="Unexpected key"):
        other.load_state_dict({f"wrong.{name}": tensor for name, tensor in model.state_dict().items()})


@dynamo_reads_grad
@pytest.mark.usefixtures("fresh_dynamo")
def test_wrapped_layers_exchange_weights_with_plain_ones():
    plain = make_model()
    layers = [torch.compile(layer, backend="eager") for layer in copy.deepcopy(list(plain.layers))]
    wrapped = compile(plain.route, layers, per_execution=lambda one: {"slot": one.position})
    assert "layers.0._orig_mod.linear.weight" in wrapped.state_dict()
    hidden = torch.randn(2, WIDTH)
    assert torch.equal(wrapped(hidden), plain(hidden))
    wrapped.load_state_dict(plain.state_dict())
    plain.load_state_dict(wrapped.state_dict())
