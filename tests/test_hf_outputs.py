"""Hidden states and attentions that a model gives out: one for each execution, not for each layer."""

import pytest
import torch

import depthgraph as dg
from depthgraph.errors import CompileError

from hf_models import MODELS, prompts, tiny, unrolled

pytestmark = pytest.mark.usefixtures("one_thread")

TEXT, PATH = "1 (2..3)x2 4 3", (1, 2, 3, 2, 3, 4, 3)
E = len(PATH)


def equal(found, expected):
    return len(found) == len(expected) and all(
        one is two if one is None or two is None else torch.equal(one, two)
        for one, two in zip(found, expected, strict=True)
    )


def given(model, inputs, **asked):
    with torch.no_grad():
        return model(**inputs, **asked)


#: Models whose own loop collects hidden states, where stand-ins are handed one and the same.
IN_THEIR_LOOP = ("bloom", "falcon", "opt", "mamba")


@pytest.mark.parametrize("name", MODELS)
def test_hidden_states_are_those_of_the_unrolled_model(name):
    model, inputs = tiny(name), prompts(9, 6, 1)
    expected = given(unrolled(model, PATH), inputs, output_hidden_states=True)
    dg.hf.reroute(model, TEXT)
    try:
        found = given(model, inputs, output_hidden_states=True)
    except CompileError as error:
        assert error.code == "unroutable-model"
        assert "collects hidden states in its own loop" in error.message
        assert name in IN_THEIR_LOOP
        return
    assert len(found.hidden_states) == E + 1
    assert equal(found.hidden_states, expected.hidden_states)
    assert torch.equal(found.logits, expected.logits)


@pytest.mark.parametrize("chosen", [0, -1, -2, E, [0, 3, -1], (2, -8), [], [E + 5], [-E - 2], True, False], ids=str)
def test_hidden_states_are_chosen_by_their_index_from_either_end(chosen):
    model, inputs = tiny("gemma3"), prompts(9, 6)
    expected = given(unrolled(model, PATH), inputs, output_hidden_states=chosen)
    found = given(dg.hf.reroute(model, TEXT), inputs, output_hidden_states=chosen)
    if expected.hidden_states is None:
        assert found.hidden_states is None
    else:
        assert equal(found.hidden_states, expected.hidden_states)


@pytest.mark.parametrize("name", MODELS)
def test_attentions_are_those_of_the_unrolled_model(name):
    if name == "mamba":
        pytest.skip("it has no attention")
    model, inputs = tiny(name, attn_implementation="eager"), prompts(9, 6, 1)
    expected = given(unrolled(model, PATH), inputs, output_attentions=True)
    dg.hf.reroute(model, TEXT)
    try:
        found = given(model, inputs, output_attentions=True)
    except CompileError as error:
        assert error.code == "unroutable-model"
        assert "collects the attentions" in error.message
        assert name in IN_THEIR_LOOP
        return
    assert len(found.attentions) == len(expected.attentions)
    assert equal(found.attentions, expected.attentions)
    assert name == "qwen3_next" or len(found.attentions) == E


def test_branches_give_their_hidden_states_in_the_order_of_executions():
    model, inputs = tiny("llama"), prompts(7, 3)
    states = given(model, inputs, output_hidden_states=True).hidden_states
    dg.hf.reroute(model, "1 mean(2 | 3 3) 4")
    found = given(model, inputs, output_hidden_states=True).hidden_states
    assert len(found) == 6
    assert torch.equal(found[0], states[0])
    assert torch.equal(found[1], states[1])
    assert torch.equal(found[2], states[2])
    dg.hf.reroute(model, "1 3 3 2 drop(4)")
    assert torch.equal(found[3], given(model, inputs, output_hidden_states=True).hidden_states[2])
    assert torch.equal(found[4], given(model, inputs, output_hidden_states=True).hidden_states[3])


def test_the_config_asks_for_outputs_too_and_generating_gives_them_for_every_step():
    model, inputs = tiny("llama"), prompts(7, 3)
    large = unrolled(model, PATH)
    dg.hf.reroute(model, TEXT)
    how = {"max_new_tokens": 3, "do_sample": False, "return_dict_in_generate": True, "output_hidden_states": True}
    found, expected = (each.generate(**inputs, **how).hidden_states for each in (model, large))
    assert len(found) == len(expected) == 3
    assert all(map(equal, found, expected))
    for chosen in (True, -2, [1, -1]):
        model.config.output_hidden_states = large.config.output_hidden_states = chosen
        assert equal(given(model, inputs).hidden_states, given(large, inputs).hidden_states)


def test_counts_at_call_time_have_hidden_states_of_their_own_number():
    model, inputs = dg.hf.reroute(tiny("llama"), "1 (2 3)x r 4", dynamic={"r": 2}).train(), prompts(7, 3)
    for r in (1, 2, 4):
        found = model(**inputs, r=r, output_hidden_states=True).hidden_states
        assert len(found) == 2 + 2 * r + 1
        [*_, last] = model(**inputs, r=r, output_hidden_states=-1).hidden_states
        assert torch.equal(last, found[-1])


def test_hooks_for_outputs_do_not_outlive_the_route():
    model, inputs = tiny("llama"), prompts(7, 3)
    expected = given(tiny("llama"), inputs, output_hidden_states=True).hidden_states
    dg.hf.reroute(model, TEXT)
    assert len(given(model, inputs, output_hidden_states=True).hidden_states) == E + 1
    dg.hf.reroute(model, "1 2 4 4 drop(3)")
    assert len(given(model, inputs, output_hidden_states=True).hidden_states) == 5
    assert equal(given(dg.hf.restore(model), inputs, output_hidden_states=True).hidden_states, expected)


def test_tuples_come_out_of_a_model_that_is_asked_for_them():
    model, inputs = tiny("llama"), prompts(7, 3)
    expected = given(unrolled(model, PATH), inputs, output_hidden_states=True, return_dict=False, use_cache=False)
    found = given(dg.hf.reroute(model, TEXT), inputs, output_hidden_states=True, return_dict=False, use_cache=False)
    assert len(found) == len(expected) == 2
    assert torch.equal(found[0], expected[0])
    assert equal(found[1], expected[1])
