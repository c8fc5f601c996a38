"""Compiled routes with data flow compute what plain Python computes, with weights of their own where they say so."""

import copy
import io
import pickle
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from torch import nn
from torch.utils.checkpoint import checkpoint

import depthgraph as dg
from depthgraph.errors import CompileError
from depthgraph.nn import Conditioning, StepEmbedding, compile

from layers import AnnotatedTuple, Residual, ReturnsTuple
from oracle import run_spec
from strategies import flow_routes, flow_specs

WIDTH = 6
HUGINN = "1..2 save(e) (mix(e) 3..4)x3 5"


def make_layers(count, seed=0):
    torch.manual_seed(seed)
    kinds = [Residual, ReturnsTuple, AnnotatedTuple, lambda: nn.Linear(WIDTH, WIDTH)]
    return [kinds[index % len(kinds)]() for index in range(count)]


def trained(model, seed=1):
    """Give weights of data flow values as if they had been trained."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("layers."):
                parameter.add_(torch.randn(parameter.shape))
    return model


def run_layer(layers):
    def run(layer, h):
        output = layers[layer - 1](h)
        return output[0] if isinstance(output, tuple) else output

    return run


def by_hand(spec, layers, model, h, depth=None):
    """Run a spec by the oracle, with the weights of a compiled model in the order in which their places first run."""
    known = {"mix": {}, "gate": {}}

    def weights(kind, key):
        number = known[kind].setdefault(key, len(known[kind]) + 1)
        return getattr(model, f"{kind}_{number}").weight

    def mix(key, h, a):
        return nn.functional.linear(torch.cat((h, a), -1), weights("mix", key))

    def gate(key, h, a):
        return h + weights("gate", key) * a

    return run_spec(spec, run_layer(layers), mix, gate, h, depth, dg.schemes())


def outputs(model, h):
    result = model(h)
    return (result[0], *result[1]) if isinstance(result, tuple) else (result,)


def gradients(model, results):
    total = sum(result.square().sum() for result in results)
    total.backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    return found


@settings(max_examples=60, deadline=None)
@given(flow_specs())
def test_outputs_exits_and_gradients_equal_plain_python_bit_for_bit(spec):
    try:
        route = spec.expand()
    except dg.SpecError:
        return
    layers = make_layers(route.parameter_depth)
    model = trained(compile(route, layers, width=WIDTH))
    h = torch.randn(2, 3, WIDTH)
    results = outputs(model, h)
    last, exits = by_hand(spec, layers, model, h)
    assert len(exits) == len(route.exits)
    for found, expected in zip(results, (last, *exits), strict=True):
        assert torch.equal(found, expected)
    if not any(result.requires_grad for result in results):
        return
    found, expected = gradients(model, results), gradients(model, (last, *exits))
    for name, gradient in found.items():
        assert (gradient is None) == (expected[name] is None)
        assert gradient is None or torch.equal(gradient, expected[name])


@settings(max_examples=30, deadline=None)
@given(flow_routes())
def test_a_graph_compiles_to_what_its_route_compiles_to(route):
    layers = make_layers(route.parameter_depth)
    model = trained(compile(route, layers, width=WIDTH))
    other = trained(compile(dg.graph(route), layers, width=WIDTH))
    h = torch.randn(3, WIDTH)
    for one, two in zip(outputs(model, h), outputs(other, h), strict=True):
        assert torch.equal(one, two)


@settings(max_examples=30, deadline=None)
@given(flow_routes())
def test_new_weights_change_nothing_before_training(route):
    layers = make_layers(route.parameter_depth)
    model = compile(route, layers, width=WIDTH)

    class Keep(nn.Module):
        def forward(self, hidden, register):
            return hidden

    names = {name for name, _ in model.named_children() if name != "layers"}
    plain = compile(route, layers, weights={name: Keep() for name in names})
    h = torch.randn(3, WIDTH)
    for one, two in zip(outputs(model, h), outputs(plain, h), strict=True):
        assert torch.equal(one, two)


def test_iterations_share_the_weights_of_a_place_and_places_do_not():
    model = compile(dg.route("1 save(e) (mix(e) 2)x3 gate(e) 3 gate(e)"), make_layers(3), width=WIDTH)
    own = {name: tuple(value.shape) for name, value in model.state_dict().items() if not name.startswith("layers")}
    assert own == {"mix_1.weight": (6, 12), "gate_1.weight": (6,), "gate_2.weight": (6,)}
    targets = [node.target for node in model.graph.nodes if node.op == "call_module"]
    assert targets.count("mix_1") == 3
    assert len(list(model.parameters())) == len(set(model.parameters()))


def test_named_places_share_one_set_of_weights():
    model = compile(dg.route("1 save(e) 2 mix(e,w) 3 mix(e,w)"), make_layers(3), width=WIDTH)
    assert [name for name in model.state_dict() if "mix" in name] == ["mix_1.weight"]


def test_existing_weights_are_taken_as_they_are():
    adapter = nn.Bilinear(WIDTH, WIDTH, WIDTH)
    layers = make_layers(5)
    model = compile(dg.route(HUGINN), layers, weights={"mix_1": adapter})
    assert model.mix_1 is adapter
    h = torch.randn(2, WIDTH)
    last, _ = run_spec(dg.parse(HUGINN), run_layer(layers), lambda _, h, a: adapter(h, a), None, h)
    assert torch.equal(model(h), last)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({}, "unknown-width", "`mix_1` need"),
        ({"weights": {"mix_2": nn.Identity()}, "width": 6}, "unknown-weights", "this route's weights are `mix_1`"),
        ({"weights": {"mix_1": 3}}, "unknown-weights", "no module"),
    ],
)
def test_what_is_missing_or_wrong_with_weights_is_said(options, code, message):
    with pytest.raises(CompileError, match=message) as caught:
        compile(dg.route(HUGINN), make_layers(5), **options)
    assert caught.value.code == code


@pytest.mark.parametrize("width", [0, -6, 6.0, "6", True, torch.ones(2)], ids=repr)
def test_a_width_is_an_integer_from_1(width):
    prepared = Conditioning([StepEmbedding()])
    for call in (
        lambda: compile(dg.route(HUGINN), make_layers(5), width=width),
        lambda: compile("1 (2)x r", make_layers(2), dynamic=["r"], width=width),
        lambda: prepared.prepare(dg.route("1"), make_layers(1), width=width),
    ):
        with pytest.raises(CompileError, match="width is d, the size of the hidden state") as caught:
            call()
        assert caught.value.code == "unknown-width"
    assert compile(dg.route(HUGINN), make_layers(5), width=torch.tensor(WIDTH)).mix_1.weight.shape == (6, 12)


def test_an_example_says_the_width():
    model = compile(dg.route(HUGINN), make_layers(5), example=torch.empty(2, WIDTH, device="meta"))
    assert model.mix_1.weight.shape == (WIDTH, 2 * WIDTH)


def test_new_weights_have_the_type_of_the_layers():
    layers = [layer.double() for layer in make_layers(5)]
    model = compile(dg.route(HUGINN), layers, width=WIDTH)
    assert model.mix_1.weight.dtype == torch.float64
    assert model(torch.randn(2, WIDTH, dtype=torch.float64)).dtype == torch.float64


def test_exits_come_beside_the_output_in_order():
    layers = make_layers(2)
    output, exits = compile(dg.route("1 exit 2 exit"), layers)(torch.ones(1, WIDTH))
    assert torch.equal(exits[0], layers[0](torch.ones(1, WIDTH)))
    assert torch.equal(exits[1], output)
    assert isinstance(exits, tuple)


def test_no_gradient_passes_a_stopgrad_but_through_registers():
    layers = make_layers(3)
    model = compile(dg.route("1 save(e) 2 stopgrad 3 gate(e)"), layers, width=WIDTH)
    with torch.no_grad():
        model.gate_1.weight.fill_(1.0)
    model(torch.randn(2, WIDTH)).sum().backward()
    assert layers[1].linear.weight.grad is None
    assert layers[0].linear.weight.grad.abs().sum() > 0
    assert layers[2].linear.weight.grad.abs().sum() > 0


ROUTE = "1 save(e) (mix(e) 2 exit)x2 mean(3 | 4 gate(e)) add(e) stopgrad 5"


def _reloaded(model):
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m)), _reloaded], ids=["deep", "copy", "pickle", "save"]
)  # fmt: skip
def test_a_copy_is_the_same_model(copied):
    model = trained(compile(dg.route(ROUTE), make_layers(5), width=WIDTH))
    again = copied(model)
    h = torch.randn(2, WIDTH)
    assert all(map(torch.equal, outputs(model, h), outputs(again, h)))
    assert list(again.state_dict()) == list(model.state_dict())
    assert again.route == model.route
    assert [node.meta.get("operation") for node in again.graph.nodes] == [
        node.meta.get("operation") for node in model.graph.nodes
    ]


def test_a_state_dict_goes_to_another_route_with_the_same_weights():
    model = trained(compile(dg.route("1 save(e) (mix(e) 2)x2"), make_layers(2), width=WIDTH))
    deeper = compile(dg.route("1 save(e) (mix(e) 2)x5"), make_layers(2, seed=3), width=WIDTH)
    deeper.load_state_dict(model.state_dict())
    assert list(deeper.state_dict()) == list(model.state_dict())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torch_compile_computes_the_same(backend):
    model = trained(compile(dg.route(ROUTE), make_layers(5), width=WIDTH))
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    h = torch.randn(2, WIDTH)
    for one, two in zip(outputs(model, h), outputs(compiled, h), strict=True):
        torch.testing.assert_close(one, two)


def test_export_keeps_the_weights_once_and_the_exits():
    model = trained(compile(dg.route(ROUTE), make_layers(5), width=WIDTH))
    h = torch.randn(2, WIDTH)
    exported = torch.export.export(model, (h,))
    assert len(exported.state_dict) == len(model.state_dict())
    assert all(map(torch.equal, outputs(model, h), outputs(exported.module(), h)))


def test_checkpointing_gives_the_same_gradients():
    model = trained(compile(dg.route(HUGINN), make_layers(5), width=WIDTH))
    h = torch.randn(2, WIDTH)
    plain = gradients(model, (model(h),))
    again = gradients(model, (checkpoint(model, h, use_reentrant=False),))
    assert all(torch.equal(plain[name], again[name]) for name in plain)


def test_capture_sees_executions_in_branches():
    model = compile(dg.route("1 mean(2 | 3 2)"), make_layers(3))
    with dg.capture(model) as seen:
        output = model(torch.ones(1, WIDTH))
    assert sorted(seen) == [(1, 1), (2, 1), (2, 2), (3, 1)]
    assert torch.equal((seen[2, 1] + seen[2, 2]) / 2, output)


def test_states_and_weights_move_to_where_they_are_needed():
    layers = [Residual(), Residual().to("meta"), Residual().to("meta"), Residual().to("meta")]
    model = compile(dg.route("1 save(e) mix(e) gate(e) 2 add(e) mean(3 | 4) add(e) exit"), layers, width=WIDTH)
    assert model.mix_1.weight.device.type == "cpu"
    output, (early,) = model(torch.ones(1, WIDTH))
    assert output.device.type == early.device.type == "meta"


def test_inputs_with_the_names_of_operations_reach_the_layers():
    class Named(nn.Module):
        def forward(self, hidden, add, mix_1, exit_1=0):
            return hidden + add + mix_1

    model = compile(dg.route("1 save(e) mix(e) 1 add(e) exit"), [Named()], width=2)
    output, _ = model(torch.zeros(1, 2), 1.0, 2.0)
    assert torch.equal(output, torch.full((1, 2), 9.0))


def test_a_route_and_its_generated_code_are_the_same_in_every_process():
    script = (
        "import torch, depthgraph as dg\n"
        f"print(dg.compile(dg.route({ROUTE!r}), [torch.nn.Linear(2, 2) for _ in range(5)], width=2).code)"
    )
    codes = {
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(codes) == 1


@settings(max_examples=60)
@given(flow_routes())
def test_unused_parameters_are_those_that_get_no_gradient(route):
    """Dropped layers, and what reaches the output and the exits through `stopgrad` alone."""
    model = compile(route, make_layers(route.parameter_depth), width=WIDTH)
    output = model(torch.ones(1, WIDTH, requires_grad=True))
    every = [output] if isinstance(output, torch.Tensor) else [output[0], *output[1]]
    total = sum(each.sum() for each in every)
    if total.requires_grad:
        total.backward()
    assert model.unused_parameters == tuple(name for name, each in model.named_parameters() if each.grad is None)
