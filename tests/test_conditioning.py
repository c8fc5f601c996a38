"""What single executions have of their own: at the start nothing changes, then it computes what plain Python computes."""

import copy
import io
import pickle

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, fx, nn
from torch.func import functional_call
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import depthgraph as dg
from depthgraph.decoder_config import DecoderConfig
from depthgraph.errors import CompileError
from depthgraph.nn import Conditioning, Decoder, Lora, Norm, Scale, StepEmbedding, compile, unshare
from depthgraph.route import Route

from layers import AnnotatedTuple, Residual, ReturnsTuple, changed
from oracle import run_spec
from strategies import flow_routes, flow_specs

WIDTH = 6
LOOP = "1 (2 3)x3 4"


class Block(nn.Module):
    """A layer of the usual kind: h + up(tanh(down(norm(h))))."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.down = nn.Linear(WIDTH, 4)
        self.up = nn.Linear(4, WIDTH, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.up(torch.tanh(self.down(self.norm(hidden))))


def make_blocks(count, seed=0):
    torch.manual_seed(seed)
    return [Block() for _ in range(count)]


EVERY = [
    StepEmbedding(),
    StepEmbedding(by="visit", at="after"),
    Norm(executions=None),
    Scale(1.0, learned=True),
    Lora(2, alpha=3, executions=None),
]


def run_block(known, number, visit, h, scaling=1.5):
    """Run a block with all of `EVERY`, written out, with the parameters of a compiled model by their names."""
    base, own = f"layers.{number - 1}", f"conditioning.L{number}_{visit}"

    def weight(name):
        path = f"{own}.lora.{name}"
        return known[f"{base}.{name}.weight"] + scaling * (known[f"{path}.B"] @ known[f"{path}.A"])

    given = h + known[f"{own}.step.weight"]
    norm = [known[f"{own}.norm.norm.{name}"] for name in ("weight", "bias")]
    inner = functional.linear(functional.layer_norm(given, (WIDTH,), *norm), weight("down"), known[f"{base}.down.bias"])
    output = given + functional.linear(torch.tanh(inner), weight("up"))
    scaled = output + known[f"{own}.scale.offset"] * (output - given)
    return scaled + known[f"conditioning.visit_{visit}.step_after.weight"]


def by_hand(spec, known, h):
    """Run a spec by the independent interpreter, over `run_block`."""
    visits, sites = {}, {"mix": {}, "gate": {}}

    def run(layer, h):
        visits[layer] = visits.get(layer, 0) + 1
        return run_block(known, layer, visits[layer], h)

    def weights(kind, key):
        return known[f"{kind}_{sites[kind].setdefault(key, len(sites[kind]) + 1)}.weight"]

    def mix(key, h, a):
        return functional.linear(torch.cat((h, a), -1), weights("mix", key))

    def gate(key, h, a):
        return h + weights("gate", key) * a

    return run_spec(spec, run, mix, gate, h, None, dg.schemes())


def outputs(model, h):
    result = model(h)
    return (result[0], *result[1]) if isinstance(result, tuple) else (result,)


def gradients(model, results):
    sum(result.square().sum() for result in results).backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    return found


@settings(max_examples=40, deadline=None)
@given(flow_routes())
def test_at_the_start_the_model_computes_what_it_computes_without_conditioning_bit_for_bit(route):
    layers = make_blocks(route.parameter_depth)
    plain = changed(compile(route, layers, width=WIDTH))
    own = {name: module for name, module in plain.named_children() if name != "layers"}
    model = compile(route, layers, width=WIDTH, weights=own, conditioning=EVERY)
    h = torch.randn(2, 3, WIDTH)
    assert len(model.conditioning._modules) >= route.execution_depth
    for found, expected in zip(outputs(model, h), outputs(plain, h), strict=True):
        assert torch.equal(found, expected)


@settings(max_examples=40, deadline=None)
@given(flow_specs())
def test_outputs_exits_and_gradients_equal_plain_python_bit_for_bit(spec):
    try:
        route = spec.expand()
    except dg.SpecError:
        return
    model = changed(compile(route, make_blocks(route.parameter_depth), width=WIDTH, conditioning=EVERY))
    h = torch.randn(2, 3, WIDTH)
    results = outputs(model, h)
    last, exits = by_hand(spec, dict(model.named_parameters()), h)
    for found, expected in zip(results, (last, *exits), strict=True):
        assert torch.equal(found, expected)
    if any(result.requires_grad for result in results):
        found, expected = gradients(model, results), gradients(model, (last, *exits))
        for name, gradient in found.items():
            assert (gradient is None) == (expected[name] is None), name
            assert gradient is None or torch.equal(gradient, expected[name]), name


def test_keys_are_addressed_by_execution_and_first_visits_need_no_norms_and_no_updates():
    model = compile(dg.route("1 (2)x2"), make_blocks(2), conditioning=[Norm(), Lora(2, targets=("down",))])
    own = [name for name in model.state_dict() if not name.startswith("layers.")]
    tails = ["norm.norm.weight", "norm.norm.bias", "lora.down.A", "lora.down.B"]
    assert own == [f"conditioning.L2_2.{tail}" for tail in tails]
    assert [(node.name, node.target) for node in model.graph.nodes if node.op == "call_module"] == [
        ("L1_1", "layers.0"),
        ("L2_1", "layers.1"),
        ("L2_2", "conditioning.L2_2"),
    ]


@settings(max_examples=30, deadline=None)
@given(flow_routes())
def test_parameters_are_as_many_as_the_executions_need_each_once(route):
    options = [StepEmbedding(), Scale(1.0, learned=True)]
    revisits = sum(visits - 1 for visits in route.reuse_map if visits)
    options += [Norm(), Lora(3)] if revisits else []
    layers = make_blocks(route.parameter_depth)
    plain, model = (compile(route, layers, width=WIDTH, conditioning=each) for each in (None, options))
    found = list(model.parameters())
    assert len({id(each) for each in found}) == len(found)
    count = sum(each.numel() for each in found) - sum(each.numel() for each in plain.parameters())
    low_rank, norms = 2 * 3 * (WIDTH + 4), 2 * WIDTH
    assert count == route.execution_depth * (WIDTH + 1) + revisits * (low_rank + norms)
    total = sum(each.sum() for each in outputs(model, torch.randn(2, WIDTH, requires_grad=True)))
    if total.requires_grad:
        total.backward()
    assert model.unused_parameters == tuple(name for name, each in model.named_parameters() if each.grad is None)


def test_a_fixed_scale_is_that_of_the_update_and_one_of_1_writes_nothing():
    layers, h = make_blocks(3), torch.randn(2, WIDTH)
    route = dg.route("1 (2)x4 3")
    model = compile(route, layers, conditioning=[Scale("1/sqrt(visits)")])
    expected = layers[0](h)
    for _ in range(4):
        expected = expected + 0.5 * (layers[1](expected) - expected)
    assert torch.equal(model(h), layers[2](expected))
    assert [node.name for node in model.graph.nodes if "scale" in node.name] == [f"scale_L2_{n}" for n in range(1, 5)]
    assert list(model.state_dict()) == list(compile(route, layers).state_dict())
    assert compile(route, layers, conditioning=[Scale(1.0)]).code == compile(route, layers).code


def test_a_scale_can_be_a_function_of_the_execution_and_can_be_learned_from_there():
    layers, h = make_blocks(1), torch.randn(2, WIDTH)
    options = [[Scale(lambda e: 1 / e.position, learned=learned)] for learned in (False, True)]
    fixed, learned = (compile(dg.route("1x3"), layers, conditioning=each) for each in options)
    assert torch.allclose(fixed(h), learned(h))
    assert [round(each.item(), 4) for each in learned.conditioning.parameters()] == [0, -0.5, -0.6667]


def test_a_step_embedding_can_belong_to_a_visit_or_an_iteration():
    route, layers = dg.route("1 (2 3)x2 1"), make_blocks(3)
    visit, iteration = (
        compile(route, layers, width=WIDTH, conditioning=[StepEmbedding(by=by)]) for by in ("visit", "iteration")
    )
    keys = [[name for name in each.state_dict() if name.startswith("cond")] for each in (visit, iteration)]
    assert keys == [[f"conditioning.{by}_{n}.step.weight" for n in (1, 2)] for by in ("visit", "iteration")]
    targets = [node.target for node in iteration.graph.nodes if "step" in node.name]
    assert targets == [f"conditioning.iteration_{n}.step" for n in (1, 1, 2, 2)]


def test_the_iteration_is_that_of_the_outermost_loop():
    model = compile(dg.route("((1)x2 2)x2"), make_blocks(2), width=WIDTH, conditioning=[StepEmbedding(by="iteration")])
    assert [str(node.target)[-6] for node in model.graph.nodes if "step" in node.name] == list("111222")


def test_executions_are_chosen_by_a_function_or_by_layer_and_visit():
    route, layers = dg.route(LOOP), make_blocks(4)
    for executions in ([(2, 3), (3, 1)], {(2, 3), (3, 1)}, lambda e: e.position in (3, 6), route.executions[2:6:3]):
        model = compile(route, layers, conditioning=[Lora(1, executions=executions)])
        assert list(model.conditioning._modules) == ["L3_1", "L2_3"]


@pytest.mark.parametrize("frozen", [False, True])
def test_training_reduces_the_loss_and_a_frozen_base_stays_what_it_is(frozen):
    layers = make_blocks(4)
    options = [StepEmbedding(), Norm(), Scale(1.0, learned=True), Lora(2, frozen=frozen)]
    model = compile(dg.route(LOOP), layers, width=WIDTH, conditioning=options)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    torch.manual_seed(3)
    h, target = torch.randn(32, WIDTH), torch.randn(32, WIDTH)
    losses = []
    for _ in range(30):
        loss = (model(h) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0]
    still = {name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])}
    base = {f"layers.{index}.{name}" for index in (1, 2) for name in ("down.weight", "down.bias", "up.weight")}
    assert still == (base if frozen else set())
    assert set(model.unused_parameters) == still
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_nothing_in_the_layers_is_changed_by_compiling_or_by_running():
    layers = make_blocks(4)
    parameters = [dict(layer.named_parameters()) for layer in layers]
    before = copy.deepcopy([layer.state_dict() for layer in layers])
    model = changed(compile(dg.route(LOOP), layers, width=WIDTH, conditioning=[*EVERY]))
    model(torch.randn(2, WIDTH)).sum().backward()
    for layer, known, state in zip(layers, parameters, before, strict=True):
        assert all(parameter is known[name] for name, parameter in layer.named_parameters())
        assert all(torch.equal(tensor, state[name]) for name, tensor in layer.state_dict().items())
        assert not any(part._forward_pre_hooks or part._forward_hooks for part in layer.modules())


class TakesMask(Block):
    def forward(self, hidden: Tensor, layer: float, mask: Tensor | None = None) -> tuple[Tensor, str]:
        output = super().forward(hidden) * layer
        return (output if mask is None else output * mask), "kept"


def test_layers_that_return_tuples_and_take_inputs_and_constants():
    torch.manual_seed(0)
    layers = [TakesMask(), ReturnsTuple(), AnnotatedTuple()]
    model = compile(
        dg.route("(1 2 3)x2"),
        layers,
        width=WIDTH,
        conditioning=[StepEmbedding(), Lora(2), Scale(0.5)],
        per_execution=lambda e: {"layer": float(e.visit)} if e.layer == 1 else None,
    )
    changed(model)
    h, mask = torch.randn(3, WIDTH), torch.rand(3, WIDTH)
    expected, known = h, dict(model.named_parameters())
    for execution in model.route.executions:
        layer, own = layers[execution.layer - 1], f"conditioning.L{execution.layer}_{execution.visit}"
        given = expected + known[f"{own}.step.weight"]
        weights = {
            f"{name}.weight": part.weight + known[f"{own}.lora.{name}.B"] @ known[f"{own}.lora.{name}.A"]
            for name, part in layer.named_modules()
            if isinstance(part, nn.Linear) and execution.visit == 2
        }
        inputs = {"layer": float(execution.visit), "mask": mask} if execution.layer == 1 else {}
        output = functional_call(layer, weights, (given,), inputs)
        output = output[0] if isinstance(output, tuple) else output
        expected = given + 0.5 * (output - given)
    assert torch.equal(model(h, mask=mask), expected)


class TestSharing:
    """Several routes over the same layers have one set of parameters."""

    route, shorter = "1 (2 3)x4 4", "1 (2 3)x2 4"

    def models(self):
        layers = make_blocks(4)
        conditioning = Conditioning([StepEmbedding(), Norm(), Lora(2, frozen=True), Scale("1/sqrt(visits)")])
        conditioning.prepare(dg.route(self.route), layers, width=WIDTH)
        once = "1 2 3 4"
        return [compile(dg.route(each), layers, conditioning=conditioning) for each in (self.shorter, self.route, once)]

    def test_each_visit_has_one_set_of_parameters_under_all_routes(self):
        short, long, once = self.models()
        assert list(short.state_dict()) == list(long.state_dict()) == list(once.state_dict())
        assert all(a is b for a, b in zip(short.parameters(), long.parameters(), strict=True))
        together = nn.ModuleList([short, long, once])
        assert len(list(together.parameters())) == len(list(long.parameters()))

    def test_those_of_visits_that_a_route_lacks_are_named_as_unused(self):
        short, long, once = self.models()
        base = {f"layers.{index}.{name}" for index in (1, 2) for name in ("down.weight", "down.bias", "up.weight")}
        assert set(long.unused_parameters) == base
        for model, visits in ((short, 2), (once, 1)):
            later = [f"conditioning.L{layer}_{n}." for layer in (2, 3) for n in range(visits + 1, 5)]
            unused = {name for name, _ in model.named_parameters() if name.startswith(tuple(later))}
            assert set(model.unused_parameters) == base | unused
            found = gradients(model, outputs(model, torch.randn(2, WIDTH)))
            assert {name for name, gradient in found.items() if gradient is None} == base | unused

    def test_a_shorter_route_computes_what_one_that_was_compiled_for_it_computes(self):
        short, long, _ = self.models()
        changed(long)
        alone = compile(
            dg.route(self.shorter),
            list(long.layers),
            width=WIDTH,
            conditioning=[StepEmbedding(), Norm(), Lora(2, frozen=True), Scale("1/sqrt(visits)")],
        )
        alone.load_state_dict({name: long.state_dict()[name] for name in alone.state_dict()})
        h = torch.randn(2, WIDTH)
        assert torch.equal(short(h), alone(h))

    def test_a_longer_route_than_the_first_is_refused(self):
        layers, conditioning = make_blocks(2), Conditioning([Lora(2)])
        compile(dg.route("(1 2)x2"), layers, conditioning=conditioning)
        with pytest.raises(CompileError, match=r"nothing for L1\.3") as caught:
            compile(dg.route("(1 2)x3"), layers, conditioning=conditioning)
        assert caught.value.code == "conditioning-mismatch"

    def test_preparing_checks_the_layers(self):
        with pytest.raises(CompileError) as caught:
            Conditioning([Lora(2)]).prepare(dg.route("(1 2)x2"), make_blocks(1))
        assert caught.value.code == "layer-count"

    def test_layers_of_other_shapes_are_refused(self):
        conditioning = Conditioning([Lora(2)])
        compile(dg.route("1x2"), [nn.Linear(WIDTH, WIDTH)], conditioning=conditioning)
        with pytest.raises(CompileError, match=r"L1_2\.lora\.A has the shape \(2, 6\), .* \(2, 8\)") as caught:
            compile(dg.route("1x2"), [nn.Linear(8, 8)], conditioning=conditioning)
        assert caught.value.code == "conditioning-mismatch"


def test_loop_counts_at_run_time_share_the_parameters_of_the_longest_route():
    layers, spec, h = make_blocks(4), "1 (2 3)x r 4", torch.randn(2, WIDTH)
    conditioning = Conditioning([StepEmbedding(by="iteration"), Norm(), Lora(2), Scale("1/sqrt(visits)")])
    conditioning.prepare(dg.route(spec, r=4), layers, width=WIDTH)
    model = compile(spec, layers, dynamic={"r": 2}, width=WIDTH, conditioning=conditioning)
    changed(model)
    own = {name: value for name, value in model.state_dict().items() if not name.startswith("layers.")}
    assert len(own) == 4 + 2 * 3 * (2 + 4)
    for count in (4, 1, 2, 4):
        fixed = compile(dg.route(spec, r=count), layers, conditioning=conditioning)
        assert torch.equal(model(h, r=count), fixed(h))
        assert list(fixed.state_dict()) == list(model.state_dict())
    found = list(model.parameters())
    assert len(found) == len({id(each) for each in found}) == len(model.state_dict())
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.get_parameter("conditioning.iteration_4.step.weight").fill_(5)
    assert not torch.equal(twin(h, r=4), model(h, r=4))
    assert torch.equal(twin(h, r=3), model(h, r=3))
    with pytest.raises(CompileError, match="nothing for") as caught:
        model(h, r=5)
    assert caught.value.code == "conditioning-mismatch"


def test_the_decoder_takes_options_and_draws_new_weights_from_its_seed():
    config = DecoderConfig(
        vocab_size=7, width=8, ffn_width=12, heads=2, parameter_depth=3, context=16, route="1 (2)x3 3"
    )
    one, other, plain = (
        Decoder(config, seed=4, conditioning=each) for each in ([Lora(2), Norm()], [Lora(2), Norm()], None)
    )
    tokens = torch.randint(7, (2, 5))
    assert torch.equal(one(tokens), plain(tokens))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    keys = [name for name in one.state_dict() if "L2_3" in name]
    assert "body.conditioning.L2_3.lora.attention.qkv.A" in keys
    assert "body.conditioning.L2_3.norm.ffn_norm.weight" in keys
    changed(one.body)
    twin = unshare(one)
    assert torch.equal(twin(tokens), one(tokens))
    assert twin.route.execution_depth == twin.route.parameter_depth == 5


def full_model():
    layers = make_blocks(4)
    options = [*EVERY[:2], Norm(), Scale(1.0, learned=True), Lora(2, frozen=True)]
    return changed(compile(dg.route(LOOP), layers, width=WIDTH, conditioning=options))


def test_copies_pickles_and_state_dicts_are_the_same_model():
    model, h = full_model(), torch.randn(2, WIDTH)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(buffer, weights_only=False)):
        assert torch.equal(twin(h), model(h))
        assert list(twin.state_dict()) == list(model.state_dict())
        assert twin.unused_parameters == model.unused_parameters
        assert not {id(each) for each in twin.parameters()} & {id(each) for each in model.parameters()}
    fresh = compile(
        model.route,
        make_blocks(4, seed=5),
        width=WIDTH,
        conditioning=[*EVERY[:2], Norm(), Scale(1.0, learned=True), Lora(2, frozen=True)],
    )
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(h), model(h))


def test_the_model_can_be_called_with_other_parameters_itself():
    model, h = full_model(), torch.randn(2, WIDTH)
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    found = torch.func.grad(lambda given: functional_call(model, given, (h,)).square().sum())(parameters)
    for name, gradient in gradients(model, outputs(model, h)).items():
        expected = torch.zeros_like(found[name]) if gradient is None else gradient
        assert torch.allclose(found[name], expected, atol=1e-6), name


def test_a_conditioned_route_can_be_a_layer_of_another_one():
    inner = changed(compile(dg.route("1x2"), make_blocks(1), conditioning=[Lora(2, targets=("up",)), Norm()]))
    names = ("layers.0.up",)
    outer = changed(compile(dg.route("1x2"), [inner], conditioning=[Lora(1, targets=names)]))
    own, h = outer.conditioning.L1_2.lora.layers.get_submodule("0").up, torch.randn(2, WIDTH)
    other = functional_call(inner, {"layers.0.up.weight": inner.layers[0].up.weight + own.B @ own.A}, (inner(h),))
    assert torch.equal(outer(h), other)


def test_the_generated_code_can_be_traced_again():
    model, h = full_model(), torch.randn(2, WIDTH)
    again = fx.symbolic_trace(model)
    assert torch.equal(again(h), model(h))
    assert "run_exchanged" in again.code


def test_it_exports_with_each_weight_once():
    model, h = full_model(), torch.randn(2, 3, WIDTH)
    sizes = {0: torch.export.Dim("batch", min=2), 1: torch.export.Dim("length", min=2)}
    exported = torch.export.export(model, (h,), dynamic_shapes=(sizes,))
    assert set(exported.state_dict) == set(model.state_dict())
    other = torch.randn(4, 5, WIDTH)
    assert torch.equal(exported.module()(other), model(other))


def test_torch_compile_computes_the_same_outputs_and_gradients():
    torch._dynamo.reset()
    model, h = full_model(), torch.randn(2, WIDTH)
    expected = outputs(model, h)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    results = outputs(compiled, h)
    assert torch.equal(results[0], expected[0])
    one, other = gradients(model, results), gradients(model, expected)
    assert all((one[name] is None and other[name] is None) or torch.equal(one[name], other[name]) for name in one)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # which dynamo looks at
def test_compiled_layers_work_and_keep_plain_keys():
    torch._dynamo.reset()
    h, layers = torch.randn(2, WIDTH), make_blocks(2)
    options = [Norm(), Lora(2, targets=("down", "up"))]
    plain = changed(compile(dg.route("(1 2)x2"), copy.deepcopy(layers), conditioning=options))
    layers[0].compile(backend="eager")
    layers[1].down = torch.compile(layers[1].down, backend="eager")
    wrapped = [layers[0], torch.compile(layers[1], backend="eager")]
    model = compile(dg.route("(1 2)x2"), wrapped, conditioning=options)
    assert list(model.conditioning.state_dict()) == list(plain.conditioning.state_dict())
    model.conditioning.load_state_dict(plain.conditioning.state_dict())
    assert torch.equal(model(h), plain(h))


@pytest.fixture
def process_group():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
def test_data_parallel_training_runs_when_what_gets_no_gradient_is_frozen():
    model = full_model()
    assert model.unused_parameters
    for name in model.unused_parameters:
        model.get_parameter(name).requires_grad_(False)
    parallel = nn.parallel.DistributedDataParallel(model)
    for _ in range(2):  # a parameter that gets no gradient shows in the second step
        parallel(torch.randn(2, WIDTH)).sum().backward()
    assert model.conditioning.L2_2.lora.up.B.grad is not None


def test_dropout_follows_train_and_eval():
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5))]
    model = changed(compile(dg.route("1x3"), layers, conditioning=[Lora(2)]))
    h = torch.randn(8, WIDTH)
    assert not torch.equal(model(h), model(h))
    model.eval()
    assert torch.equal(model(h), model(h))
    assert not layers[0][1].training


def test_hooks_of_layers_run_in_every_execution():
    model, seen = full_model(), []
    layer = model.layers[1]
    layer.register_forward_hook(lambda module, *_: seen.append(module is layer))
    layer.down.register_forward_hook(lambda module, *_: seen.append(module is layer.down))
    model(torch.randn(2, WIDTH))
    assert seen == [True] * 6


def test_capture_gives_what_flows_on_with_all_that_belongs_to_the_execution():
    h = torch.randn(2, WIDTH)
    layers = make_blocks(2)
    options = [StepEmbedding(at="after"), Scale(0.5), Lora(2)]
    model = changed(compile(dg.route("(1 2)x2"), layers, width=WIDTH, conditioning=options))
    with dg.capture(model) as seen:
        output = model(h)
    assert sorted(seen) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert torch.equal(seen[2, 2], output)
    first = h + 0.5 * (layers[0](h) - h) + model.conditioning.L1_1.step_after.weight
    assert torch.equal(seen[1, 1], first)
    with dg.capture(model, [(1, 2)]) as seen:
        model(h)
    assert list(seen) == [(1, 2)]


def test_a_layer_without_a_hidden_state_is_named_when_it_is_captured():
    class Wrong(Block):
        def forward(self, hidden):
            return {"hidden": super().forward(hidden)}

    model = compile(dg.route("1"), [Wrong()], conditioning=[Lora(2, executions=None)])
    with dg.capture(model), pytest.raises(CompileError, match=r"layer 1 \(Wrong\) returned neither"):
        model(torch.randn(2, WIDTH))


def test_layers_on_several_devices_have_their_own_parts_beside_them():
    layers = make_blocks(3)
    layers[1].to("meta")
    options = [StepEmbedding(by="visit"), Norm(), Scale(1.0, learned=True), Lora(2)]
    model = compile(dg.route("(1 3)x2 2x2"), layers, width=WIDTH, conditioning=options)
    kinds = {name: parameter.device.type for name, parameter in model.named_parameters()}
    assert {kinds[f"conditioning.L2_2.{tail}"] for tail in ("norm.norm.weight", "lora.up.A", "scale.offset")} == {
        "meta"
    }
    assert kinds["conditioning.L3_2.lora.up.A"] == kinds["conditioning.visit_1.step.weight"] == "cpu"
    assert model(torch.randn(2, WIDTH)).device.type == "meta"
    layers[1].to_empty(device="cpu")
    model.conditioning.to_empty(device="cpu")
    assert model(torch.randn(2, WIDTH)).device.type == "cpu"


def test_under_autocast_nothing_changes_at_the_start():
    layers = [Residual(), nn.Linear(WIDTH, WIDTH)]
    h, route = torch.randn(2, WIDTH), dg.route("(1 2)x2")
    plain, model = (
        compile(route, layers, width=WIDTH, conditioning=each) for each in (None, [*EVERY[:2], EVERY[3], EVERY[4]])
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = model(h), plain(h)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


def test_updates_reach_weights_that_a_layer_reads_without_calling_their_module():
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 8, dropout=0.0, batch_first=True)
    model = compile(dg.route("1x2"), [layer], conditioning=[Lora(2, targets=("self_attn.out_proj",))])
    h = torch.randn(2, 3, WIDTH)
    before = model(h)
    changed(model)
    assert not torch.allclose(model(h), before)
    assert all(gradient is not None for gradient in gradients(model, outputs(model, h)).values())


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.other.weight = self.one.weight

    def forward(self, hidden: Tensor) -> Tensor:
        return self.other(torch.tanh(self.one(hidden)))


def test_a_tied_weight_gets_its_update_under_all_of_its_names():
    model = changed(compile(dg.route("1x2"), [Tied()], conditioning=[Lora(2, targets=("one",))]))
    layer, own, h = model.layers[0], model.conditioning.L1_2.lora.one, torch.randn(2, WIDTH)
    weight, first = layer.one.weight + own.B @ own.A, layer(h)
    inner = torch.tanh(functional.linear(first, weight, layer.one.bias))
    assert torch.equal(model(h), functional.linear(inner, weight, layer.other.bias))
    with pytest.raises(CompileError, match=r"`one`, `other` of layer 1 .* are one weight"):
        compile(dg.route("1x2"), [Tied()], conditioning=[Lora(2)])


class Checkpointed(nn.Module):
    def __init__(self, inner) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden: Tensor) -> Tensor:
        return checkpoint(self.inner, hidden, use_reentrant=False)


def test_checkpointing_inside_a_layer_would_give_wrong_gradients_and_is_refused():
    torch.manual_seed(0)
    block, h = Block(), torch.randn(2, WIDTH)
    other = {"inner.up.weight": 3 * block.up.weight.detach()}
    saved = functional_call(Checkpointed(block), other, (h.requires_grad_(),))
    (wrong,) = torch.autograd.grad(saved.sum(), h)
    (right,) = torch.autograd.grad(functional_call(block, {"up.weight": other["inner.up.weight"]}, (h,)).sum(), h)
    assert not torch.allclose(wrong, right)  # what would happen without the refusal

    model = compile(dg.route("1x2"), [Checkpointed(Block())], conditioning=[Lora(2)])
    with pytest.raises(CompileError, match="runs inside a checkpoint of its layer") as caught:
        model(h)
    assert caught.value.code == "checkpoint-in-layer"
    with torch.no_grad():
        assert model(h).shape == h.shape
    assert not any(part._forward_pre_hooks for part in model.modules())


def test_checkpointing_around_the_model_gives_the_same_gradients():
    model, h = full_model(), torch.randn(2, WIDTH)
    expected = gradients(model, outputs(model, h))
    found = gradients(model, (checkpoint(model, h, use_reentrant=False),))
    for name, gradient in expected.items():
        assert (gradient is None and found[name] is None) or torch.equal(gradient, found[name])


def test_a_norm_keeps_the_code_of_the_layer():
    class ScaleNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.tensor(2.0))

        def forward(self, hidden):
            return self.gain * functional.normalize(hidden, dim=-1)

    layer = nn.Sequential(ScaleNorm(), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH, elementwise_affine=False))
    model = compile(dg.route("1x2"), [layer], conditioning=[Norm()])
    assert list(model.conditioning.state_dict()) == ["L1_2.norm.0.gain"]
    with torch.no_grad():
        model.conditioning.L1_2.norm.get_submodule("0").gain.fill_(0.5)
    h = torch.randn(2, WIDTH)
    first = layer(h)
    assert torch.equal(model(h), layer[2](layer[1](0.5 * functional.normalize(first, dim=-1))))


def refused(code, match, *options, spec="1x2", layers=None, **rest):
    """Hold that options are refused: those that cannot be made are given as functions that make them."""
    route = dg.route(spec)

    def try_it():
        made = [option() if callable(option) else option for option in options]
        return compile(route, layers or make_blocks(route.parameter_depth), conditioning=made, **rest)

    with pytest.raises(CompileError, match=match) as caught:
        try_it()
    assert caught.value.code == code


def test_options_that_mean_nothing_are_refused():
    bad = "bad-conditioning"
    refused(bad, "rank is an integer from 1; found 0", lambda: Lora(0))
    refused(bad, "rank is an integer from 1; found True", lambda: Lora(True))
    refused(bad, "alpha is a finite number; found 'x'", lambda: Lora(2, alpha="x"))
    refused(bad, "alpha is over 0; found 0", lambda: Lora(2, alpha=0))
    refused(bad, "by is one of execution, visit, iteration; found 'step'", lambda: StepEmbedding(by="step"))
    refused(bad, "at is one of before, after; found 'behind'", lambda: StepEmbedding(at="behind"))
    refused(bad, "value is a finite number; found inf", lambda: Scale(float("inf")))
    refused(bad, "value is a finite number; found '1/sqrt'", lambda: Scale("1/sqrt"))
    refused(bad, r"value for L1\.1 is a finite number; found None", Scale(lambda e: None))
    refused(bad, "the targets of a Lora are one str", lambda: Lora(2, targets="down"))
    refused(bad, r"the targets of a Norm are patterns of names; found \(\)", lambda: Norm(targets=()))
    refused(bad, "the executions of a Lora are a int", lambda: Lora(2, executions=2))
    refused(bad, "have 2, which is no", lambda: Lora(2, executions=[2]))
    refused(bad, "'lora' is no option", "lora")
    with pytest.raises(CompileError, match="conditioning is a str"):
        compile(dg.route("1x2"), make_blocks(1), conditioning="lora")


def test_options_that_are_for_no_execution_are_refused():
    refused("unused-conditioning", "this Lora is for no execution", Lora(2), spec="1 2")
    refused("unused-conditioning", "is for no execution", StepEmbedding(by="iteration"), spec="1 2 1", width=WIDTH)
    refused("unknown-execution", r"no execution is \(1, 3\), which a Lora is for", Lora(2, executions=[(1, 3)]))


def test_options_that_give_one_execution_the_same_thing_are_refused():
    double = "double-conditioning"
    refused(double, r"L1\.1 two scales", Scale(0.5), Scale(1.0, learned=True))
    refused(double, r"L1\.2 two updates of its weight 'up\.weight'", Lora(1, targets=("up",)), Lora(2))
    refused(double, r"L1\.2 two copies of its norm 'norm'", Norm(), Norm(targets=("n*",)))
    refused(double, r"L1\.1 two step embeddings before it", StepEmbedding(), StepEmbedding(), width=WIDTH)
    both = [Lora(1, targets=("up",)), Lora(2, targets=("down",)), StepEmbedding(), StepEmbedding(at="after")]
    assert compile(dg.route("1x2"), make_blocks(1), width=WIDTH, conditioning=both)


def test_layers_without_what_could_be_conditioned_are_refused():
    target = "conditioning-target"
    refused(target, r"layer 1 \(Identity\) has no linear modules", Lora(2), layers=[nn.Identity()])
    refused(target, r"layer 1 \(Linear\) has no norms", Norm(), layers=[nn.Linear(WIDTH, WIDTH)])
    refused(target, "match 'attention'; it has `down`, `up`", Lora(2, targets=("up", "attention")))
    refused(target, "whose statistics visits would share", Norm(), layers=[nn.BatchNorm1d(WIDTH)])
    refused(target, "it is lazy", Lora(2), layers=[nn.LazyLinear(WIDTH)])
    parametrised = nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))
    refused(target, "its weight is computed", Lora(2, targets=("",)), layers=[parametrised])
    whole = nn.Linear(WIDTH, WIDTH)
    whole.weight = nn.Parameter(torch.ones(WIDTH, WIDTH, dtype=torch.int8), requires_grad=False)
    refused(target, "its weight is of torch.int8", Lora(2), layers=[whole])
    nested = nn.Linear(WIDTH, WIDTH)
    nested.inner = nn.Linear(WIDTH, WIDTH)
    refused(target, "stand inside another linear module", Lora(2), layers=[nested])


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_scripted_layer_can_be_scaled_but_its_weights_cannot_be_exchanged():
    layer = torch.jit.script(Residual())
    refused("conditioning-target", "scripted code reads its own weights", Lora(2), layers=[layer])
    h = torch.randn(2, WIDTH)
    model = compile(dg.route("1x1"), [layer], conditioning=[Scale(0.5)])
    assert torch.equal(model(h), h + 0.5 * (layer(h) - h))


def test_step_embeddings_need_a_width_which_an_example_can_say():
    with pytest.raises(CompileError, match="step embeddings need the width") as caught:
        compile(dg.route("1x2"), make_blocks(1), conditioning=[StepEmbedding()])
    assert caught.value.code == "unknown-width"
    example = torch.empty(2, WIDTH, device="meta")
    assert compile(dg.route("1x2"), make_blocks(1), conditioning=[StepEmbedding()], example=example)


def test_a_route_by_program_is_conditioned_like_one_from_text():
    layers, h = make_blocks(2), torch.randn(2, WIDTH)
    one, other = (
        changed(compile(route, layers, conditioning=[Lora(2)])) for route in (Route.of([1, 2, 1]), dg.route("1 2 1"))
    )
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(h), other(h))
