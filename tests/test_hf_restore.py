"""A route is put on a model and taken off again: what stays, what comes back, and what a failure leaves."""

import copy

import pytest
import torch

import depthgraph as dg
from depthgraph.errors import CompileError, ConfigError, DepthGraphError, SpecError

from hf_models import MODELS, N, prompts, tiny, unrolled

pytestmark = pytest.mark.usefixtures("one_thread")

WEIGHTED = "1 save(a) (mix(a) 2 gate(a))x2 3..4"


def picture(model):
    """Return all that `reroute` could change, but the values of weights."""
    config = model.config
    parts = [
        (name, type(part), sorted(vars(part)), list(part._modules), part.training)
        for name, part in model.named_modules()
    ]
    names = [(name, id(value)) for name, value in model.state_dict(keep_vars=True).items()]
    return parts, names, type(config), copy.deepcopy(vars(config)), config.to_dict(), repr(model)


@pytest.mark.parametrize("name", MODELS)
def test_a_restored_model_is_what_it_was(name):
    model, inputs = tiny(name), prompts(9, 6, 1)
    expected = model(**inputs).logits
    before = picture(model)
    assert dg.hf.reroute(model, WEIGHTED) is model
    assert not torch.equal(model(**inputs).logits, expected)
    assert dg.hf.restore(model) is model
    assert picture(model) == before
    assert torch.equal(model(**inputs).logits, expected)


def test_a_model_with_a_route_looks_like_itself():
    model = tiny("llama")
    kind, config = type(model), type(model.config)
    dg.hf.reroute(model, "block(2..3)x2")
    assert isinstance(model, kind)
    assert isinstance(model.config, config)
    for found, expected in ((type(model), kind), (type(model.config), config)):
        assert (found.__name__, found.__module__, found.__qualname__) == (
            expected.__name__,
            expected.__module__,
            expected.__qualname__,
        )
    assert (model.config.num_hidden_layers, model.config.model_type) == (N, "llama")
    assert isinstance(model.model.layers, torch.nn.ModuleList)
    assert len(model.model.layers) == N


def test_the_last_of_several_routes_runs():
    model, inputs = tiny("llama"), prompts(5)
    before = picture(model)
    for text in ("block(2..3)x2", "1..4", WEIGHTED, "4 3 2 1"):
        dg.hf.reroute(model, text)
    expected = unrolled(tiny("llama"), (4, 3, 2, 1))(**inputs).logits
    assert torch.equal(model(**inputs).logits, expected)
    assert picture(dg.hf.restore(model)) == before


def test_weights_of_a_route_stay_where_the_next_route_has_them_too_and_go_where_it_has_not():
    model = dg.hf.reroute(tiny("llama"), WEIGHTED)
    mix = model.model.depthgraph.mix_1
    dg.hf.reroute(model, "1 2 save(b) 3 mix(b) 4")
    assert model.model.depthgraph.mix_1 is mix
    assert [name for name, _ in model.model.depthgraph.named_children()] == ["mix_1"]
    dg.hf.reroute(model, "1..4 2")
    assert not hasattr(model.model, "depthgraph")


FAULTS = [
    ("1..5", {}, SpecError),
    ("1..", {}, SpecError),
    (17, {}, DepthGraphError),
    ("1..4", {"kv_cache": "first_visit"}, ConfigError),
    ("1 (2 3)x r 4", {"dynamic": ["r"]}, CompileError),
    ("1 (2 3)x r 4", {"dynamic": {"q": 2}}, DepthGraphError),
    ("1 (2 3)x r 4", {"dynamic": {"r": 0}}, DepthGraphError),
    ("1 (2 3)x2 4", {"backprop_last": 1}, DepthGraphError),
    (dg.route("1..4"), {"bindings": {"r": 2}}, DepthGraphError),
    (dg.route("1..3"), {}, DepthGraphError),
]


@pytest.mark.parametrize(("route", "named", "error"), FAULTS, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("first", [None, WEIGHTED])
def test_a_model_that_could_not_be_re_routed_is_as_it_was(route, named, error, first):
    model, inputs = tiny("llama"), prompts(5)
    if first:
        dg.hf.reroute(model, first)
    before, expected = picture(model), model(**inputs).logits
    with pytest.raises(error):
        dg.hf.reroute(model, route, **named)
    assert picture(model) == before
    assert torch.equal(model(**inputs).logits, expected)


def test_a_model_without_a_route_has_none_to_take_off():
    with pytest.raises(CompileError) as raised:
        dg.hf.restore(tiny("llama"))
    assert raised.value.code == "no-compiled-route"


@pytest.mark.parametrize("failing", [0, 1, 3])
def test_a_forward_that_fails_leaves_nothing_behind(failing):
    model, inputs = tiny("gemma3"), prompts(7, 3)
    dg.hf.reroute(model, "block(2..3)x2")
    expected = model(**inputs).logits

    def fail(*_):
        raise RuntimeError("out of luck")

    for place in (model.model.layers[failing], model.model.norm, model.model.embed_tokens):
        handle = place.register_forward_pre_hook(fail)
        with pytest.raises(RuntimeError, match="out of luck"):
            model(**inputs)
        handle.remove()
        assert isinstance(model.model.layers, torch.nn.ModuleList)
        assert torch.equal(model(**inputs).logits, expected)


def test_hooks_of_a_layer_see_every_execution():
    model, seen = tiny("llama"), []
    for number, layer in enumerate(model.model.layers, 1):
        layer.register_forward_hook(lambda *_, number=number: seen.append(number))
    dg.hf.reroute(model, "1 (2..3)x2 4")
    model(**prompts(5))
    assert seen == [1, 2, 3, 2, 3, 4]


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2", "mamba"])
def test_the_inner_model_is_re_routed_on_its_own(name):
    model, inputs = tiny(name, cls="Model"), prompts(7, 3)
    before = picture(model)
    expected = unrolled(model, (1, 2, 2, 3, 4))(**inputs).last_hidden_state
    dg.hf.reroute(model, "1 2x2 3..4")
    assert torch.equal(model(**inputs).last_hidden_state, expected)
    assert picture(dg.hf.restore(model)) == before


def test_the_inner_model_of_a_causal_one_is_re_routed_and_the_other_way_round():
    model, inputs = tiny("llama"), prompts(7, 3)
    before = picture(model)
    expected = unrolled(model, (1, 2, 2, 3, 4))(**inputs).logits
    dg.hf.reroute(model.model, "1 2x2 3..4")
    assert torch.equal(model(**inputs).logits, expected)
    dg.hf.restore(model.model)
    assert picture(model) == before
    dg.hf.reroute(model, "1..4")
    dg.hf.reroute(model.model, "1 2x2 3..4")
    assert torch.equal(model(**inputs).logits, expected)
    dg.hf.restore(model)
    assert picture(model) == before


class Wrapper(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, **inputs):
        return self.module(**inputs)


@pytest.mark.parametrize("wrap", [Wrapper, torch.nn.DataParallel])
def test_a_model_in_a_wrapper_is_re_routed_in_it(wrap):
    model, inputs = tiny("llama"), prompts(7, 3)
    wrapped = wrap(model)
    expected = unrolled(model, (1, 2, 2, 3, 4))(**inputs).logits
    assert dg.hf.reroute(wrapped, "1 2x2 3..4") is wrapped
    assert torch.equal(wrapped(**inputs).logits, expected)
    assert dg.hf.restore(wrapped) is wrapped
    assert torch.equal(wrapped(**inputs).logits, tiny("llama")(**inputs).logits)


def test_other_heads_than_the_causal_one_are_re_routed():
    model, inputs = tiny("llama", cls="ForSequenceClassification"), prompts(7, 3)
    expected = unrolled(model, (1, 2, 2, 3, 4))(**inputs).logits
    assert torch.equal(dg.hf.reroute(model, "1 2x2 3..4")(**inputs).logits, expected)


def test_a_config_that_was_changed_since_is_refused():
    model = dg.hf.reroute(tiny("llama"), "1..4")
    for name, value in (("route", "1..4 2"), ("kv_cache", "last_visit"), ("loop_counts", {"r": 2})):
        before = getattr(model.config, name)
        setattr(model.config, name, value)
        with pytest.raises(CompileError) as raised:
            model(**prompts(5))
        assert raised.value.code == "route-mismatch"
        setattr(model.config, name, before)
    model(**prompts(5))


def test_a_layer_that_was_replaced_runs_in_its_place_and_one_that_was_removed_is_missed():
    model, inputs = dg.hf.reroute(tiny("llama"), "1 2x2 3..4"), prompts(7, 3)
    other = tiny("llama", seed=1)
    plain = tiny("llama")
    model.model.layers[1] = plain.model.layers[1] = other.model.layers[1]
    assert torch.equal(model(**inputs).logits, unrolled(plain, (1, 2, 2, 3, 4))(**inputs).logits)
    del model.model.layers[3]
    with pytest.raises(CompileError) as raised:
        model(**inputs)
    assert raised.value.code == "layer-count"
