"""A copy in which every execution has a layer of its own computes what the model computes, with no weight shared."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

import depthgraph as dg
from depthgraph.errors import CompileError
from depthgraph.nn import Lora, Norm, Scale, StepEmbedding, compile, merge, unshare

from layers import Layer, ReturnsTuple, changed
from strategies import flow_routes

WIDTH = 6
EVERY = [
    StepEmbedding(),
    StepEmbedding(by="visit", at="after"),
    Norm(executions=None),
    Scale(1.0, learned=True),
    Lora(2, alpha=3, executions=None),
]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor, mask: Tensor | None = None, slot: int = 0) -> Tensor:
        output = hidden + torch.tanh(self.linear(self.norm(hidden))) + slot
        return output if mask is None else output * mask


def make_blocks(count, seed=0):
    torch.manual_seed(seed)
    return [Block() for _ in range(count)]


def outputs(model, *given, **inputs):
    result = model(*given, **inputs)
    return (result[0], *result[1]) if isinstance(result, tuple) else (result,)


def gradients(model, results):
    sum(result.square().sum() for result in results).backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    return found


@settings(max_examples=40, deadline=None)
@given(flow_routes())
def test_every_execution_has_a_layer_of_its_own_and_outputs_are_equal_bit_for_bit(route):
    model = changed(compile(route, make_blocks(route.parameter_depth), width=WIDTH, conditioning=EVERY))
    twin = unshare(model)
    twin.graph.lint()
    E = route.execution_depth
    assert twin.route.path == tuple(range(1, E + 1))
    assert len(twin.layers) == E
    assert [type(each) for each in twin.route.data_flow] == [type(each) for each in route.data_flow]
    h = torch.randn(2, 3, WIDTH)
    for found, expected in zip(outputs(twin, h), outputs(model, h), strict=True):
        assert torch.equal(found, expected)
    tensors = [{each.untyped_storage().data_ptr() for each in one.parameters()} for one in (model, twin)]
    assert not tensors[0] & tensors[1]


@settings(max_examples=30, deadline=None)
@given(flow_routes())
def test_gradients_of_a_layer_are_the_sum_of_those_of_its_copies(route):
    options = [StepEmbedding(), Scale(1.0, learned=True)]
    model = changed(compile(route, make_blocks(route.parameter_depth), width=WIDTH, conditioning=options)).double()
    twin, h = unshare(model), torch.randn(2, WIDTH, dtype=torch.double)
    results = outputs(model, h)
    if not any(result.requires_grad for result in results):
        return
    shared, own = gradients(model, results), gradients(twin, outputs(twin, h))
    for layer in set(route.path):
        for name, _ in model.layers[layer - 1].named_parameters():
            parts = [own[f"layers.{e.position - 1}.{name}"] for e in route.executions if e.layer == layer]
            parts = [each for each in parts if each is not None]
            whole = shared[f"layers.{layer - 1}.{name}"]
            assert (whole is None and not parts) or torch.allclose(sum(parts), whole)
    for execution in route.executions:
        one, other = f"L{execution.layer}_{execution.visit}", f"L{execution.position}_1"
        gradient, expected = own[f"conditioning.{other}.step.weight"], shared[f"conditioning.{one}.step.weight"]
        assert (gradient is None and expected is None) or torch.allclose(gradient, expected)


@settings(max_examples=30, deadline=None)
@given(flow_routes())
def test_it_is_what_compiling_the_new_route_over_copies_gives(route):
    model = compile(route, make_blocks(route.parameter_depth), width=WIDTH, conditioning=EVERY[:1])
    twin = unshare(model)
    fresh = compile(twin.route, list(twin.layers), width=WIDTH, conditioning=EVERY[:1])
    assert twin.code == fresh.code
    assert list(twin.state_dict()) == list(fresh.state_dict())
    meta = [[(node.name, node.meta.get("execution")) for node in each.graph.nodes] for each in (twin, fresh)]
    assert meta[0] == meta[1]


def test_weights_of_mix_and_gate_and_shared_step_embeddings_stay_shared():
    route = dg.route("save(e) 1 (mix(e) gate(e) 2)x3")
    model = changed(compile(route, make_blocks(2), width=WIDTH, conditioning=[StepEmbedding(by="visit")]))
    twin = unshare(model)
    own = [name for name in twin.state_dict() if not name.startswith("layers.")]
    visits = [f"conditioning.visit_{n}.step.weight" for n in (1, 2, 3)]
    assert own == ["mix_1.weight", "gate_1.weight", *visits]
    assert twin.mix_1.weight is not model.mix_1.weight
    sites = {each.site for each in twin.route.data_flow if hasattr(each, "site")}
    assert sites == {1}


def test_training_the_copy_leaves_the_model_alone_and_moves_layers_apart():
    model = compile(dg.route("(1)x3"), make_blocks(1), conditioning=[Lora(2)])
    before = copy.deepcopy(model.state_dict())
    twin = unshare(model)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    twin(torch.randn(4, WIDTH)).square().sum().backward()
    optimizer.step()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    weights = [layer.linear.weight for layer in twin.layers]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


def test_a_frozen_base_requires_no_gradient_in_the_copy_where_nothing_trains_it():
    model = compile(dg.route("(1)x2 2"), make_blocks(2), conditioning=[Lora(2, frozen=True)])
    twin = unshare(model)
    still = [name for name, parameter in twin.named_parameters() if not parameter.requires_grad]
    assert still == ["layers.0.linear.weight", "layers.0.linear.bias", "layers.1.linear.bias"]
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert twin.unused_parameters == ()


def test_inputs_constants_tuples_exits_and_dropped_layers_are_kept():
    layers = [*make_blocks(2), ReturnsTuple(), Block()]
    model = compile(
        dg.route("1 (2 exit 3)x2 drop(4)"),
        layers,
        width=WIDTH,
        conditioning=[Lora(2), StepEmbedding()],
        per_execution=lambda e: {"slot": e.position} if e.layer < 3 else None,
    )
    changed(model)
    twin = unshare(model)
    h, mask = torch.randn(2, WIDTH), torch.rand(2, WIDTH)
    for inputs in ({}, {"mask": mask}):
        for found, expected in zip(outputs(twin, h, **inputs), outputs(model, h, **inputs), strict=True):
            assert torch.equal(found, expected)
    assert len(twin.layers) == 5
    for again in (copy.deepcopy(twin), pickle.loads(pickle.dumps(twin))):
        assert torch.equal(again(h)[0], model(h)[0])
    with dg.capture(twin) as seen:
        twin(h)
    assert list(seen) == [(n, 1) for n in range(1, 6)]


def moves(model):
    found = [node.args for node in model.graph.nodes if getattr(node.target, "__name__", "") == "moved_to"]
    return sorted((layer.target, value.name) for layer, value in found)


def test_layers_on_several_devices_get_what_is_moved_to_their_copies():
    layers = make_blocks(2)
    layers[1].to("meta")
    model = compile(dg.route("1 1 2 2"), layers, width=WIDTH, conditioning=[Lora(2), StepEmbedding(), Scale(0.5)])
    twin = unshare(model)
    fresh = compile(
        twin.route,
        list(twin.layers),
        width=WIDTH,
        conditioning=[StepEmbedding(), Scale(0.5)],
    )
    assert moves(twin) == moves(fresh)
    assert len(moves(twin)) == 12  # of each of four executions its hidden state, mask and slot
    h, mask = torch.randn(2, WIDTH), torch.rand(2, WIDTH)
    assert twin(h, mask=mask).device.type == "meta"


def test_a_module_around_a_compiled_route_is_copied_with_it():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, WIDTH)
            self.body = changed(compile(dg.route("1 (2)x3"), make_blocks(2), conditioning=[Lora(2), Norm()]))
            self.head = self.embedding

        def forward(self, tokens):
            return self.body(self.embedding(tokens)) @ self.head.weight.T

    model, tokens = Model(), torch.arange(5)
    twin = unshare(model)
    assert torch.equal(twin(tokens), model(tokens))
    assert twin.head is twin.embedding
    assert twin.embedding is not model.embedding
    assert len(model.body.layers) == 2
    assert len(twin.body.layers) == 4


def test_a_compiled_route_whose_layers_are_compiled_routes_is_unshared_itself():
    inner = changed(compile(dg.route("1x2"), make_blocks(1), conditioning=[Lora(2)]))
    outer = changed(compile(dg.route("1 2 1"), [inner, Block()], conditioning=[Lora(1)]))
    twin, h = unshare(outer), torch.randn(2, WIDTH)
    assert torch.equal(twin(h), outer(h))
    assert twin.layers[0].route == inner.route


def test_one_count_of_a_model_with_counts_at_run_time_is_unshared():
    options = dg.nn.Conditioning([Lora(2), StepEmbedding(by="visit")])
    layers, spec = make_blocks(3), "1 (2)x r 3"
    options.prepare(dg.route(spec, r=4), layers, width=WIDTH)
    model = changed(compile(spec, layers, dynamic={"r": 1}, conditioning=options))
    h = torch.randn(2, WIDTH)
    for count in (1, 4):
        twin = unshare(model.at(r=count))
        assert len(twin.layers) == count + 2
        assert torch.equal(twin(h), model(h, r=count))


def test_ties_within_a_layer_and_buffers_are_copied():
    class Tied(Layer):
        def __init__(self) -> None:
            super().__init__(WIDTH)
            self.other = nn.Linear(WIDTH, WIDTH)
            self.other.weight = self.linear.weight
            self.register_buffer("shift", torch.ones(WIDTH))

        def forward(self, hidden: Tensor) -> Tensor:
            return self.other(super().forward(hidden)) + self.shift

    model = changed(compile(dg.route("1x2"), [Tied()], conditioning=[Lora(2, targets=("linear",))]))
    twin, h = unshare(model), torch.randn(2, WIDTH)
    assert torch.equal(twin(h), model(h))
    assert all(layer.other.weight is layer.linear.weight for layer in twin.layers)


def test_merging_updates_of_visits_into_one_weight_is_refused_with_the_reason():
    model = compile(dg.route("1 (2)x3"), make_blocks(2), conditioning=[Lora(2)])
    with pytest.raises(CompileError) as caught:
        merge(model)
    assert caught.value.code == "cannot-merge"
    assert "layer 2 runs 3 times" in caught.value.message
    assert "one weight cannot be all of them" in caught.value.message
    assert "dg.nn.unshare(model)" in caught.value.help


def test_weights_of_layers_that_run_once_are_merged():
    options = [Lora(2, executions=[(3, 1)]), Norm(executions=[(1, 1)]), Scale(0.5), StepEmbedding()]
    model = changed(compile(dg.route("1 2x2 3 drop(4)"), make_blocks(4), width=WIDTH, conditioning=options))
    twin, h = merge(model), torch.randn(2, WIDTH)
    assert torch.equal(twin(h), model(h))
    assert twin.route == model.route
    assert not any("lora" in name or "norm.norm" in name for name in twin.state_dict())
    assert [name for name in twin.state_dict() if name.startswith("layers.")] == [
        name for name in model.state_dict() if name.startswith("layers.")
    ]
    assert not {id(each) for each in twin.parameters()} & {id(each) for each in model.parameters()}
    assert torch.equal(merge(twin)(h), model(h))


def test_a_graph_with_other_calls_of_layers_is_refused():
    model = compile(dg.route("1 2"), make_blocks(2))
    *_, last, output = model.graph.nodes
    with model.graph.inserting_before(output):
        output.args = (model.graph.call_module("layers.0", (last,)),)
    model.recompile()
    with pytest.raises(CompileError, match=r"uses layers\.0 and is no execution") as caught:
        unshare(model)
    assert caught.value.code == "cannot-unshare"


def test_a_graph_with_other_nodes_keeps_them():
    model = compile(dg.route("1 2 1"), make_blocks(2), conditioning=[Lora(2)])
    *_, last, output = model.graph.nodes
    model.probe = nn.Linear(WIDTH, WIDTH)
    with model.graph.inserting_before(output):
        output.args = (model.graph.call_function(torch.relu, (model.graph.call_module("probe", (last,)),)),)
    model.recompile()
    h = torch.randn(2, WIDTH)
    twin = unshare(model)
    assert torch.equal(twin(h), model(h))
    assert twin.probe.weight is not model.probe.weight


def test_a_module_without_a_compiled_route_is_refused():
    for function in (unshare, merge):
        with pytest.raises(CompileError) as caught:
            function(nn.Linear(2, 2))
        assert caught.value.code == "no-compiled-route"
