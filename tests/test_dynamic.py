"""Loop counts at run time: one set of weights, and at every count what is compiled for it, to the last bit."""

import copy
import io
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import depthgraph as dg
from depthgraph.errors import CompileError, SpecError
from depthgraph.nn import Lora, Scale, StepEmbedding

from layers import AnnotatedTuple, Layer, Residual

pytestmark = pytest.mark.usefixtures("one_thread")

HUGINN = "1..2 save(e) (mix(e) 3..4)x r 5..6"
SPECS = {
    "chain": "1 (2..5)x r 6",
    "huginn": HUGINN,
    "nested": "(1 (2..3)x k gate(e) 4)x r 5..6",
    "block": "block(2..4)x r",
    "where": "pre core x m 6 where pre=1..2, core=3..5, m=2*r-1, r=2",
    "comprehension": "(i i+1 for i in 1..r) ...",
    "exits": "1 (2..4 exit)x r 5..6",
    "joins": "1..2 mean((3 4)x r | 5x k) 6",
    "library": "looped(2,3,1,r)",
}


def layers_of(kind=Residual, count=6, width=6):
    torch.manual_seed(0)
    return [kind(width) for _ in range(count)]


def spec_of(name):
    return SPECS[name] if name != "nested" else f"save(e) {SPECS[name]}"


def dynamic_of(name, **options):
    """A model of a spec whose `mix` and `gate` compute something."""
    text = spec_of(name)
    names = ["r", "k"] if name in ("nested", "joins") else ["r"]
    model = dg.compile(text, layers_of(), dynamic=names, width=6, **options)
    for module in (each for key, each in model.named_children() if key != "layers"):
        nn.init.normal_(module.weight)
    return model, names


def static_of(model, text, counts, **options):
    own = {name: module for name, module in model.named_children() if name != "layers"}
    return dg.compile(dg.route(text, counts, N=6), model.layers, weights=own, **options)


def results(model, hidden, **named):
    """Outputs, exits and the gradients of all parameters and of the input."""
    hidden = hidden.clone().requires_grad_()
    model.zero_grad()
    output = model(hidden, **named)
    every = [output] if isinstance(output, torch.Tensor) else [output[0], *output[1]]
    sum(each.square().sum() for each in every).backward()
    return [
        *every,
        hidden.grad,
        *(parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None),
    ]


def equal(one, other):
    return len(one) == len(other) and all(map(torch.equal, one, other))


# the same as a static route


@pytest.mark.parametrize("name", SPECS)
def test_at_every_count_it_equals_the_static_module_bit_for_bit(name):
    model, names = dynamic_of(name)
    hidden = torch.randn(2, 3, 6)
    for r in (3, 1, 4, 3, 2, 1):
        counts = dict.fromkeys(names, r)
        static = static_of(model, spec_of(name), counts)
        assert model.at(**counts).route == static.route
        assert equal(results(model, hidden, **counts), results(static, hidden))


@given(st.lists(st.integers(1, 7), min_size=1, max_size=8))
def test_it_forgets_nothing_and_keeps_nothing_between_calls(counts):
    model, _ = dynamic_of("huginn")
    hidden = torch.ones(1, 6)
    first = {r: model(hidden, r=r) for r in sorted(set(counts))}
    assert all(torch.equal(model(hidden, r=r), first[r]) for r in counts)


def test_its_weights_are_there_once_and_have_the_names_of_a_static_module():
    model, _ = dynamic_of("huginn")
    for r in (5, 2, 9):
        model(torch.ones(1, 6), r=r)
        static = static_of(model, HUGINN, {"r": r})
        assert list(model.state_dict()) == list(static.state_dict())
        assert [name for name, _ in model.named_parameters()] == [name for name, _ in static.named_parameters()]
        assert all(one is other for one, other in zip(model.parameters(), static.parameters(), strict=True))
    assert model.layers is model.at(r=5).layers
    assert sum(1 for _ in model.modules()) == 2 + 6 * 2 + 1


def test_a_graph_is_built_once_for_a_count():
    model, _ = dynamic_of("chain")
    assert model.at(r=4) is model.at(r=4) is not model.at(r=5)
    assert model.at(r=4).route.text == "1 (2..5)x4 6"


def test_two_counts_are_told_apart_by_name():
    model, _ = dynamic_of("nested")
    assert model.counts == ("r", "k")
    assert model.at(r=2, k=3).route == dg.route(spec_of("nested"), r=2, k=3)
    assert model.at(r=2, k=3).route != model.at(r=3, k=2).route


def test_defaults_come_from_where_or_from_the_caller():
    layers = layers_of()
    text = "1 (2..5)x r 6 where r=3"
    assert dg.compile(text, layers, dynamic=["r"]).route == dg.route(text)
    model = dg.compile(text, layers, dynamic={"r": 2})
    assert model.route == dg.route(text, r=2)
    hidden = torch.ones(1, 6)
    assert torch.equal(model(hidden), model(hidden, r=2))
    assert model.first is model.at()


def test_other_free_names_are_bound_when_it_is_compiled():
    text = "1 (2..3)x k (4..5)x r 6"
    model = dg.compile(text, layers_of(), dynamic=["r"], bindings={"k": 2})
    assert model.at(r=3).route == dg.route(text, k=2, r=3)
    with pytest.raises(SpecError, match="`k` is not bound"):
        dg.compile(text, layers_of(), dynamic=["r"])


def test_the_first_count_that_gives_a_route_is_found():
    assert dg.compile("1 (2..5)x (r-3) 6", layers_of(), dynamic=["r"]).first.route == dg.route("1..6")


def test_a_spec_may_be_parsed_or_built_by_program():
    spec = dg.parse(HUGINN)
    built = type(spec)(spec.body)  # without its text
    hidden = torch.ones(1, 6)
    for each in (spec, built):
        model = dg.compile(each, layers_of(), dynamic=["r"], width=6)
        assert torch.equal(model(hidden, r=3), dynamic_model(HUGINN)(hidden, r=3))


def dynamic_model(text, **options):
    return dg.compile(text, layers_of(), dynamic=["r"], width=6, **options)


def test_a_count_may_be_the_depth_at_which_the_model_ends():
    model = dg.compile("1..r drop(r+1..N)", layers_of(), dynamic=["r"])
    hidden = torch.ones(1, 6)
    for r in (6, 2, 4):
        expected = hidden
        for layer in model.layers[:r]:
            expected = layer(expected)
        assert torch.equal(model(hidden, r=r), expected)


def test_other_inputs_pass_by_place_and_by_name():
    class Scaled(nn.Module):
        def forward(self, hidden: torch.Tensor, scale: float, shift: float = 0.0) -> torch.Tensor:
            return hidden * scale + shift

    model = dg.compile("1x r", [Scaled()], dynamic=["r"])
    assert model(torch.ones(1), 2.0, r=3).item() == 8
    assert model(torch.ones(1), scale=2.0, shift=1.0, r=2).item() == 7
    with pytest.raises(TypeError, match="scales"):
        model(torch.ones(1), 2.0, scales=1, r=2)


def test_options_hold_at_every_count():
    class Places(nn.Module):
        def forward(self, hidden: torch.Tensor, place: int = 0) -> torch.Tensor:
            return hidden * 10 + place

    model = dg.compile("1x r", [Places()], dynamic=["r"], per_execution=lambda each: {"place": each.position})
    assert [model(torch.zeros(1), r=r).item() for r in (2, 4, 1)] == [12, 1234, 1]
    tuples = dg.compile("1 (2)x r", layers_of(AnnotatedTuple, 2), dynamic=["r"])
    assert tuples(torch.ones(1, 6), r=5).shape == (1, 6)


def test_conditioning_is_shared_by_all_counts_up_to_the_first():
    options = [Scale("1/sqrt(visits)"), Lora(rank=2)]
    model = dg.compile("1 (2..5)x r 6", layers_of(), dynamic={"r": 4}, conditioning=options)
    for name, parameter in model.named_parameters():
        if name.endswith(".B"):
            nn.init.normal_(parameter)
    known = model.recipe.options["conditioning"]
    hidden = torch.randn(2, 6)
    for r in (4, 2, 1, 3):
        static = dg.compile(dg.route("1 (2..5)x r 6", r=r), model.layers, conditioning=known)
        assert torch.equal(model(hidden, r=r), static(hidden))
        assert list(static.state_dict()) == list(model.state_dict())
    with pytest.raises(CompileError, match="make it for the longest route first"):
        model(hidden, r=5)


# a module like any other


def copies():
    yield "deepcopy", copy.deepcopy
    yield "pickle", lambda model: pickle.loads(pickle.dumps(model))

    def saved(model):
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        return torch.load(file, weights_only=False)

    yield "torch.save", saved


@pytest.mark.parametrize(("name", "copied"), list(copies()))
def test_a_copy_is_the_same_model_with_weights_of_its_own(name, copied):
    model, _ = dynamic_of("huginn", backprop_last=2)
    hidden = torch.randn(2, 6)
    expected = {r: results(model, hidden, r=r) for r in (4, 1)}
    twin = copied(model)
    assert list(twin.state_dict()) == list(model.state_dict())
    assert all(equal(results(twin, hidden, r=r), expected[r]) for r in (1, 4))
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert equal(results(model, hidden, r=4), expected[4])
    assert not twin(hidden, r=2).equal(model(hidden, r=2))
    assert twin.at(r=2).layers is twin.layers


@pytest.mark.parametrize("conditioning", [None, [Lora(rank=1)]], ids=["plain", "conditioned"])
def test_a_copy_attribute_by_attribute_leaves_the_original_alone(conditioning):
    # as accelerate's compile_regions makes one, with other layers in it
    model = dg.compile(HUGINN, layers_of(), dynamic={"r": 3}, width=6, conditioning=conditioning)
    hidden = torch.ones(1, 6)
    before, mine = {r: model(hidden, r=r) for r in (1, 3)}, [*model.layers]
    twin = type(model).__new__(type(model))
    twin.__dict__.update(model.__dict__)
    twin.__dict__["_modules"] = {**model._modules, "layers": nn.ModuleList(layers_of(Layer))}
    for r in (1, 2, 3):
        static = dg.compile(dg.route(HUGINN, r=r), twin.layers, weights={"mix_1": model.mix_1})
        assert torch.equal(twin(hidden, r=r), static(hidden))
    assert [*model.layers] == mine
    assert all(torch.equal(model(hidden, r=r), before[r]) for r in (1, 3))


def test_a_copy_keeps_conditioning_in_one_piece():
    model = dg.compile("1 (2..5)x r 6", layers_of(), dynamic={"r": 3}, conditioning=[Lora(rank=1)])
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            if name.endswith(".B"):
                parameter.fill_(1.0)
    hidden = torch.ones(1, 6)
    assert not torch.equal(twin(hidden, r=2), model(hidden, r=2))
    assert twin.at(r=2).conditioning.L3_2.lora.linear is twin.conditioning.L3_2.lora.linear


def test_state_dicts_load_from_and_into_static_modules():
    model, _ = dynamic_of("huginn")
    other = dg.compile(HUGINN, layers_of(Residual), dynamic=["r"], width=6)
    static = dg.compile(dg.route(HUGINN, r=4), layers_of(), width=6)
    hidden = torch.ones(1, 6)
    static.load_state_dict(model.state_dict())
    other.load_state_dict(torch.compile(static, backend="eager").state_dict())
    assert torch.equal(other(hidden, r=4), model(hidden, r=4))
    assert torch.equal(static(hidden), model(hidden, r=4))


class Other(nn.Module):
    def forward(self, hidden, other):
        return hidden - other


def replace_layers(model):
    model.layers = nn.ModuleList(layers_of(Layer))


def replace_one_layer(model):
    model.layers[2] = Layer(6)


def replace_weights(model):
    model.mix_1 = Other()


@pytest.mark.parametrize("conditioning", [None, [Lora(rank=1)]], ids=["plain", "conditioned"])
@pytest.mark.parametrize("replace", [replace_layers, replace_one_layer, replace_weights])
def test_a_submodule_that_is_replaced_is_replaced_at_every_count(replace, conditioning):
    model = dg.compile(HUGINN, layers_of(), dynamic={"r": 3}, width=6, conditioning=conditioning)
    hidden = torch.ones(1, 6)
    before = {r: model(hidden, r=r) for r in (1, 3)}
    replace(model)
    for r in (1, 2, 3):
        static = dg.compile(dg.route(HUGINN, r=r), model.layers, weights={"mix_1": model.mix_1})
        assert torch.equal(model(hidden, r=r), static(hidden))
        assert r == 2 or not torch.equal(model(hidden, r=r), before[r])


def test_training_mode_reaches_what_runs_at_every_count():
    class Dropped(Residual):
        def __init__(self, width):
            super().__init__(width)
            self.dropout = nn.Dropout(0.5)

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return self.dropout(super().forward(hidden))

    model = dg.compile("1 (2..5)x r 6", layers_of(Dropped), dynamic=["r"])
    hidden = torch.ones(1, 6)
    assert not torch.equal(model(hidden, r=2), model(hidden, r=2))
    model.eval()
    assert torch.equal(model(hidden, r=2), model(hidden, r=2))
    assert torch.equal(model(hidden, r=3), model(hidden, r=3))
    assert not any(model.at(r=r).training for r in (2, 3))
    assert model.train().at(r=2).training


def test_dtype_device_and_frozen_weights_hold_at_every_count():
    model, _ = dynamic_of("huginn")
    model(torch.ones(1, 6), r=2)
    model.double().requires_grad_(False)
    for r in (2, 3):
        output = model(torch.ones(1, 6, dtype=torch.float64), r=r)
        assert output.dtype == torch.float64
        assert not output.requires_grad
    model.to("meta")
    assert model(torch.ones(1, 6, device="meta"), r=2).is_meta


def test_hooks_on_the_module_and_on_layers_run():
    model, _ = dynamic_of("chain")
    seen = []
    model.register_forward_hook(lambda module, inputs, output: seen.append("model"))
    model.layers[1].register_forward_hook(lambda module, inputs, output: seen.append("layer"))
    model(torch.ones(1, 6), r=3)
    assert seen == ["layer"] * 3 + ["model"]


def test_the_activations_of_a_count_can_be_captured():
    model, _ = dynamic_of("chain")
    with dg.capture(model.at(r=3), [(2, 3)]) as seen:
        model(torch.ones(1, 6), r=3)
    assert list(seen) == [(2, 3)]


def test_a_compiled_model_can_be_copied():
    model, _ = dynamic_of("chain")
    model.compile(backend="eager")
    hidden = torch.ones(1, 6)
    assert torch.equal(copy.deepcopy(model)(hidden, r=2), model(hidden, r=2))


def test_it_trains_at_changing_counts():
    model, _ = dynamic_of("huginn")
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.05)
    hidden, target = torch.randn(4, 6), torch.randn(4, 6)
    losses = []
    for step in range(60):
        loss = (model(hidden, r=1 + step % 4) - target).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert sum(losses[-4:]) < 0.5 * sum(losses[:4])


def test_it_says_what_it_is():
    model, _ = dynamic_of("huginn")
    assert f"{dg.parse(HUGINN)}; counts: r" in repr(model)
    assert model.unused_parameters == ()


class Shifted(Residual):
    def forward(self, hidden: torch.Tensor, shift: float = 0.0) -> torch.Tensor:
        return super().forward(hidden) + shift


@pytest.mark.parametrize("last", [1, 2, {"r": 3}])
def test_executions_stand_in_the_loops_that_are_written_wherever_the_gradient_is_cut(last):
    def model_of(**cut):
        options = [StepEmbedding(by="iteration"), Scale(lambda e: 1 / (1 + sum(each.number for each in e.iterations)))]
        told = {"inputs": (), "per_execution": lambda e: {"shift": float(sum(each.number for each in e.iterations))}}
        return dg.compile(spec, layers_of(Shifted), dynamic={"r": 5}, width=6, conditioning=options, **told, **cut)

    spec, hidden = "1 save(e) ((mix(e) 2)x2 3..4 exit)x r 5..6", torch.randn(2, 6)
    whole, cut = model_of(), model_of(backprop_last=last)
    assert list(whole.state_dict()) == list(cut.state_dict())
    for name, parameter in whole.named_parameters():
        if name.startswith("conditioning"):
            nn.init.normal_(parameter)
    cut.load_state_dict(whole.state_dict())
    for r in (5, 1, 4, 2):
        (one, exits), (other, others) = whole(hidden, r=r), cut(hidden, r=r)
        assert torch.equal(one, other)
        assert equal(exits, others)
        again, _ = dg.nn.unshare(cut.at(r=r))(hidden)
        assert torch.equal(again, one)


# what is refused


def fails(call, code):
    with pytest.raises((CompileError, SpecError)) as caught:
        call()
    assert caught.value.code == code
    return caught.value


@pytest.mark.parametrize(
    ("counts", "code", "message"),
    [
        ({}, "loop-count", "the loop count `r` is missing, and has no default"),
        ({"r": 1.5}, "loop-count", "the loop count `r` is 1.5, which is no integer"),
        ({"r": True}, "loop-count", "is True, which is no integer"),
        ({"r": "3"}, "loop-count", "is '3', which is no integer"),
        ({"r": 0}, "bad-count", "a count is at least 1, and this is 0"),
        ({"r": 10**6}, "too-many-executions", "over the limit of 100,000"),
    ],
)
def test_a_count_that_is_none_is_refused(counts, code, message):
    model, _ = dynamic_of("chain")
    assert message in fails(lambda: model(torch.ones(1, 6), **counts), code).message


def test_a_count_that_the_model_has_not_is_refused():
    model, _ = dynamic_of("chain")
    error = fails(lambda: model.at(r=2, q=3), "loop-count")
    assert (error.message, error.help) == ("this model has no loop count `q`", "its counts are r")


def test_a_tensor_with_one_integer_is_a_count():
    model, _ = dynamic_of("chain")
    assert model.at(r=torch.tensor(3)) is model.at(r=3)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"dynamic": []}, "loop-count"),
        ({"dynamic": ["q"]}, "unknown-binding"),
        ({"dynamic": ["core"]}, "unknown-binding"),
        ({"dynamic": ["N"]}, "bad-binding"),
        ({"dynamic": ["r"], "bindings": {"r": 3}}, "bad-binding"),
        ({"dynamic": ["r"], "bindings": {"q": 3}}, "unknown-binding"),
        ({"dynamic": {"r": 0}}, "loop-count"),
        ({"dynamic": {"r": 2.0}}, "loop-count"),
        ({"dynamic": ["r"], "backprop_last": 0}, "loop-count"),
        ({"dynamic": ["r"], "backprop_last": {"q": 1}}, "loop-count"),
        ({"bindings": {"r": 3}}, "not-a-route"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, code):
    text = "1 core x r 6 where core=2..5"
    if code == "not-a-route":
        fails(lambda: dg.compile(dg.route(text, r=2), layers_of(), **options), "loop-count")
        fails(lambda: dg.compile(dg.route(text, r=2), layers_of(), dynamic=["r"]), code)
    else:
        fails(lambda: dg.compile(text, layers_of(), **options), code)


def test_an_input_with_the_name_of_a_count_is_refused():
    class Ranked(nn.Module):
        def forward(self, hidden: torch.Tensor, r: int = 1) -> torch.Tensor:
            return hidden * r

    error = fails(lambda: dg.compile("1x r", [Ranked()], dynamic=["r"]), "layer-inputs")
    assert "`r` is a loop count, and an input of the layers" in error.message
    assert dg.compile("1x r", [Ranked()], dynamic=["r"], inputs=())(torch.ones(1), r=3).item() == 1
    fails(lambda: dg.compile("1x hidden", [Ranked()], dynamic=["hidden"]), "layer-inputs")
    later = dg.compile("1..r drop(r+1..2)", [Residual(), Ranked()], dynamic=["r"])
    later(torch.ones(1, 6), r=1)
    fails(lambda: later(torch.ones(1, 6), r=2), "layer-inputs")


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        ("save(e) 1..2 (mix(e) 2 for i in 1..r-1) mix(e) 3..6", 4, 1),
        ("save(e) 1..2 (gate(e,a) 3 for i in 1..3-r) (gate(e,b) 4)x r gate(e,a) 5 3 6", 1, 4),
    ],
)
def test_weights_that_would_change_places_are_refused(text, right, wrong):
    model = dg.compile(text, layers_of(), dynamic={"r": 2}, width=6)
    hidden = torch.ones(1, 6)
    for r in (2, right):
        assert torch.equal(model(hidden, r=r), static_of(model, text, {"r": r})(hidden))
    with pytest.raises(CompileError, match=f"the places of `mix` and `gate` that run at r={wrong} are not") as caught:
        model(hidden, r=wrong)
    assert caught.value.code == "moving-weights"
    assert torch.equal(model(hidden, r=2), static_of(model, text, {"r": 2})(hidden))


def test_named_weights_may_run_first_at_another_place():
    text = "save(e) 1..2 (mix(e,w) 3 for i in 1..r-1) mix(e,w) 3..6"
    model = dg.compile(text, layers_of(), dynamic={"r": 2}, width=6)
    nn.init.normal_(model.mix_1.weight)
    for r in (1, 2, 3):
        static = dg.compile(dg.route(text, r=r), model.layers, weights={"mix_1": model.mix_1})
        assert torch.equal(model(torch.ones(1, 6), r=r), static(torch.ones(1, 6)))


def test_capturing_a_model_without_saying_the_count_is_refused_with_the_way_out():
    model, _ = dynamic_of("chain")
    with pytest.raises(CompileError, match=r"model\.at\(r=8\)"), dg.capture(model):
        pass
