"""A route over a Hugging Face model computes what plain Python over its layers does, or is refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.errors import CompileError, SpecError

from hf_by_hand import by_hand
from hf_models import MAIN, MODELS, N, cache_of, prompts, tiny, unrolled
from strategies import flow_specs

pytestmark = pytest.mark.usefixtures("one_thread")

FLOW = "1 save(e) (mix(e) 2..3 gate(e))x2 mean(3 | 4 2 | 1) stopgrad exit sum(4 | 2) add(e) exit 4"
LLAMA, GEMMA = tiny("llama"), tiny("gemma3")


def own_of(model, seed=1):
    """Give the route's own weights values as if they had been trained; return them by name."""
    own = dict(model.base_model.depthgraph.named_parameters())
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in own.values():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return own


@pytest.mark.parametrize("text", ["block(2..3)x2", "4 1 3 3 2 1", "(1 2)x2 drop(3) drop(4)"])
@pytest.mark.parametrize("name", MODELS)
def test_a_chain_computes_what_the_unrolled_model_does(name, text):
    model, inputs = tiny(name), prompts(9, 6, 1)
    large = unrolled(model, dg.route(text, N=N).path)
    dg.hf.reroute(model, text)
    for use_cache in (False, True):
        with torch.no_grad():
            found, expected = model(**inputs, use_cache=use_cache), large(**inputs, use_cache=use_cache)
        assert torch.equal(found.logits, expected.logits)
        assert type(found) is type(expected)


@settings(max_examples=20)
@given(st.lists(st.integers(1, N), min_size=1, max_size=10), st.sampled_from([LLAMA, GEMMA]))
def test_any_chain_computes_what_the_unrolled_model_does(path, model):
    left = [f"drop({layer})" for layer in range(1, N + 1) if layer not in path]
    inputs = prompts(7, 3)
    with torch.no_grad():
        expected = unrolled(model, tuple(path))(**inputs).logits
        dg.hf.reroute(model, " ".join(map(str, [*path, *left])))
        found = model(**inputs).logits
    dg.hf.restore(model)
    assert torch.equal(found, expected)


def gradients(outputs, parameters):
    """Return the gradients of parameters; None for those that take no part."""
    return torch.autograd.grad(sum(each.square().mean() for each in outputs), parameters, allow_unused=True)


@pytest.mark.parametrize("name", MAIN)
def test_data_flow_equals_plain_python_over_the_layers_with_exits_and_gradients(name):
    model, inputs = tiny(name), prompts(9, 6, 1)
    dg.hf.reroute(model, FLOW)
    own, every = own_of(model), list(model.parameters())
    found = model(**inputs)
    found = (found.logits, *found.exit_hidden_states)
    dg.hf.restore(model)
    logits, exits = by_hand(model, dg.parse(FLOW), inputs, own)
    assert len(found) == 1 + len(exits) == 3
    assert all(map(torch.equal, found, (logits, *exits)))
    for one, two in zip(gradients(found, every), gradients((logits, *exits), every), strict=True):
        assert (one is None) == (two is None)
        assert one is None or torch.equal(one, two)


OF_DEPTH = {depth: tiny("llama", num_hidden_layers=depth) for depth in range(1, 9)}


@settings(max_examples=25)
@given(flow_specs())
def test_any_data_flow_equals_plain_python_over_the_layers(spec):
    try:
        route = spec.expand()
    except SpecError:
        return
    model, inputs = OF_DEPTH[route.parameter_depth], prompts(5, 3)
    dg.hf.reroute(model, spec)
    own = own_of(model) if hasattr(model.model, "depthgraph") else {}
    with torch.no_grad():
        found = model(**inputs)
        dg.hf.restore(model)
        logits, exits = by_hand(model, spec, inputs, own)
    assert torch.equal(found.logits, logits)
    assert all(map(torch.equal, found.get("exit_hidden_states", ()), exits))
    assert len(found.get("exit_hidden_states", ())) == len(exits) == len(route.exits)


def test_exits_come_out_of_the_base_model_and_of_tuples_too():
    model, inputs = tiny("llama"), prompts(5)
    dg.hf.reroute(model, "1 exit 2..4")
    with torch.no_grad():
        [expected] = model(**inputs).exit_hidden_states
        assert torch.equal(model.model(**inputs).exit_hidden_states[0], expected)
        assert torch.equal(model(**inputs, return_dict=False)[-1][0], expected)
        dg.hf.restore(model)
        assert torch.equal(model(**inputs, output_hidden_states=True).hidden_states[1], expected)


@pytest.mark.parametrize("name", MODELS)
def test_the_identity_route_changes_no_bit(name):
    model, inputs = tiny(name), prompts(9, 6, 1)
    expected = model(**inputs).logits
    dg.hf.reroute(model, f"1..{N}")
    assert torch.equal(model(**inputs).logits, expected)


@pytest.mark.parametrize("text", ["0..3", "1..5", "block(2..5)x2"])
def test_layers_are_counted_from_1_to_those_that_the_model_has(text):
    model = tiny("llama")
    with pytest.raises(SpecError) as raised:
        dg.hf.reroute(model, text)
    assert raised.value.code == "unknown-layer"
    assert type(model) is type(LLAMA)


def test_a_bound_name_and_a_route_and_its_graph_mean_the_same():
    model, inputs = tiny("llama"), prompts(5)
    route = dg.route("1 (2..3)x3 4")
    expected = dg.hf.reroute(model, route)(**inputs).logits
    assert torch.equal(dg.hf.reroute(model, dg.graph(route))(**inputs).logits, expected)
    assert torch.equal(dg.hf.reroute(model, "1 (2..3)x r N", bindings={"r": 3})(**inputs).logits, expected)
    assert str(model.route) == str(route) == model.config.route
    assert str(route) in repr(model)


def test_case_21_a_repeat_visit_has_a_slot_of_its_own():
    model, inputs = tiny("llama"), prompts(7)
    large = unrolled(model, (1, 2, 3, 2, 3, 4))
    dg.hf.reroute(model, "1 (2..3)x2 4")
    with torch.no_grad():
        found, expected = model(**inputs), large(**inputs)
    assert [slot.get_seq_length() for slot in cache_of(found).layers] == [7] * 6
    assert torch.equal(found.logits, expected.logits)
    for one, two in zip(cache_of(found).layers, cache_of(expected).layers, strict=True):
        assert torch.equal(one.keys, two.keys)
        assert torch.equal(one.values, two.values)


def test_case_24_no_parameter_is_made_for_a_visit_that_does_not_exist():
    model = tiny("llama")
    before = list(model.state_dict())
    dg.hf.reroute(model, "1 save(a) (2 gate(a))x3 mix(a) 3 drop(4)")
    added = [name for name in model.state_dict() if name not in before]
    assert added == ["model.depthgraph.gate_1.weight", "model.depthgraph.mix_1.weight"]
    assert [name for name in model.state_dict() if name in before] == before
    assert model.route.dropped == (4,)
    model(**prompts(5)).logits.sum().backward()
    unused = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert unused == {name for name in before if name.startswith("model.layers.3.")}


def test_a_layer_that_takes_a_name_or_a_place_is_called_with_what_the_model_passes():
    """Bloom and GPT-2 pass by place, the others by name; every layer sees what it would without a route."""
    for name in ("gpt2", "bloom", "llama"):
        model, inputs = tiny(name), prompts(6, 4)
        logits, _ = by_hand(model, dg.parse("4 3 2 1 1"), inputs)
        assert torch.equal(dg.hf.reroute(model, "4 3 2 1 1")(**inputs).logits, logits)


def test_the_number_of_layers_stays():
    model = tiny("llama")
    dg.hf.reroute(model, "1..4 2..3")
    model.config.num_hidden_layers = 3
    with pytest.raises(CompileError) as raised:
        model(**prompts(5))
    assert raised.value.code == "unroutable-model"
    assert "3 of its 4 layers" in raised.value.message
