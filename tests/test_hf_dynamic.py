"""Loop counts at call time: `model(ids, r=8)` and `model.generate(ids, r=8)`."""

import copy
import pickle
import threading
import warnings

import pytest
import torch
from transformers import DynamicCache

import depthgraph as dg
from depthgraph.errors import CompileError, DepthGraphError

from hf_models import CACHE, MAIN, cache_of, prompts, tiny

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:the model runs with:UserWarning"),
]

SPEC = "1 save(e) (mix(e) 2 3)x r 4"
GREEDY = {"do_sample": False, "max_new_tokens": 5, "eos_token_id": -1, "return_dict_in_generate": True}


def trained(model, seed=1):
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in getattr(model.base_model, "depthgraph", torch.nn.Module()).parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model


def fixed(name, r, spec=SPEC, **named):
    return trained(dg.hf.reroute(tiny(name), spec.replace("x r", f"x{r}"), **named))


def dynamic(name, spec=SPEC, r=2, **named):
    return trained(dg.hf.reroute(tiny(name), spec, dynamic={"r": r}, **named))


@pytest.mark.parametrize("name", MAIN)
def test_a_count_that_is_chosen_runs_the_route_of_this_count(name):
    model, inputs = dynamic(name), prompts(9, 6, 1)
    for r in (1, 5, 2):
        expected = fixed(name, r)
        assert torch.equal(model(**inputs, r=r).logits, expected(**inputs).logits)
        found, told = model.generate(**inputs, **GREEDY, r=r), expected.generate(**inputs, **GREEDY)
        assert torch.equal(found.sequences, told.sequences)
        assert len(cache_of(found).layers) == len(cache_of(told).layers) == 2 + 2 * r
    assert torch.equal(model(**inputs).logits, fixed(name, 2)(**inputs).logits)


@pytest.mark.parametrize(
    "how",
    [
        {"num_beams": 3},
        {"cache_implementation": "static"},
        {"prefill_chunk_size": 4},
        {"use_cache": False},
        {"prompt_lookup_num_tokens": 2},
        {"do_sample": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("kv_cache", ["per_execution", "last_visit"])
def test_every_way_to_generate_takes_a_count(how, kv_cache):
    lengths = (8,) if "prompt_lookup_num_tokens" in how else (8, 5)
    model, inputs = dynamic("gemma3", kv_cache=kv_cache), prompts(*lengths)
    for r in (3, 1, 4):
        results = []
        for each, counts in ((model, {"r": r}), (fixed("gemma3", r, kv_cache=kv_cache), {})):
            torch.manual_seed(0)
            results.append(each.generate(**inputs, **{**GREEDY, **how}, **counts).sequences)
        assert torch.equal(*results)


def test_the_count_that_it_is_trained_with_is_in_its_config_and_is_the_default():
    model = dynamic("llama", r=3)
    assert (model.config.route, model.config.loop_counts) == (SPEC, {"r": 3})
    assert model.route == dg.route(SPEC.replace("x r", "x3"))
    assert model.config.to_dict()["loop_counts"] == {"r": 3}
    assert not hasattr(dg.hf.restore(model).config, "loop_counts")


def test_defaults_of_the_spec_are_the_counts():
    model = dg.hf.reroute(tiny("llama"), "1 (2 3)x r 4 where r = 3", dynamic=["r"])
    assert model.config.loop_counts == {"r": 3}
    assert torch.equal(model(**prompts(5)).logits, dg.hf.reroute(tiny("llama"), "1 (2 3)x3 4")(**prompts(5)).logits)


@pytest.mark.filterwarnings("error")
def test_another_count_than_the_trained_one_is_said_once_and_not_in_training():
    model, inputs = dynamic("llama"), prompts(5)
    model.train()
    model(**inputs, r=5)
    model.eval()
    model(**inputs, r=2)
    model(**inputs)
    with pytest.warns(UserWarning, match="the model runs with r=5, and it was trained with 2"):
        model.generate(**inputs, **GREEDY, r=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(**inputs, r=7)


@pytest.mark.parametrize(
    "counts", [{"r": 0}, {"r": -1}, {"r": 1.5}, {"r": "2"}, {"r": None}, {"r": True}, {"r": torch.tensor(2.5)}], ids=str
)
def test_a_count_that_is_none_is_refused(counts):
    model = dynamic("llama")
    with pytest.raises(DepthGraphError):
        model(**prompts(5), **counts)
    with pytest.raises(DepthGraphError):
        model.generate(**prompts(5), **GREEDY, **counts)


def test_a_name_that_is_no_count_is_refused():
    model = dynamic("llama")
    with pytest.raises(ValueError, match="q"):
        model.generate(**prompts(5), **GREEDY, q=3)
    with pytest.raises(ValueError, match="r"):
        fixed("llama", 2).generate(**prompts(5), **GREEDY, r=3)


def test_a_cache_of_another_count_is_refused():
    for kv_cache in ("per_execution", "last_visit"):
        model, ids = dynamic("llama", kv_cache=kv_cache), prompts(6)["input_ids"]
        cache = cache_of(model(ids, r=3, use_cache=True))
        with pytest.raises(CompileError) as raised:
            model(ids[:, :1], **{CACHE: cache}, r=2)
        assert raised.value.code == "cache-mismatch"
        model(ids[:, :1], **{CACHE: cache}, r=3)


def test_two_counts_and_bindings_of_other_names():
    spec = "1 (2x q 3)x r k"
    model = dg.hf.reroute(tiny("llama"), spec, dynamic={"q": 1, "r": 2}, bindings={"k": 4})
    for q, r in ((1, 2), (3, 1), (2, 2)):
        expected = dg.hf.reroute(tiny("llama"), f"1 (2x{q} 3)x{r} 4")(**prompts(7, 3)).logits
        assert torch.equal(model(**prompts(7, 3), q=q, r=r).logits, expected)
    assert model.config.route_bindings == {"k": 4}


def test_threads_that_generate_with_counts_of_their_own_get_what_each_gets_alone():
    model, inputs = dynamic("gemma3"), prompts(8, 5)
    alone = {r: model.generate(**inputs, **GREEDY, r=r).sequences for r in (1, 2, 3, 6)}
    found, barrier = {}, threading.Barrier(len(alone))

    def run(r):
        barrier.wait()
        found[r] = [model.generate(**inputs, **GREEDY, r=r).sequences for _ in range(3)]

    threads = [threading.Thread(target=run, args=(r,)) for r in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.keys() == alone.keys()
    for r, sequences in found.items():
        assert all(torch.equal(each, alone[r]) for each in sequences)


@pytest.mark.parametrize("r", [1, 4])
def test_gradients_are_those_of_the_route_of_the_count(r):
    model, other, inputs = dynamic("llama"), fixed("llama", r), prompts(7, 3)
    model.train()(**inputs, labels=inputs["input_ids"], r=r).loss.backward()
    other.train()(**inputs, labels=inputs["input_ids"]).loss.backward()
    for (name, one), (_, two) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(one.grad, two.grad), name


def test_the_gradient_goes_through_the_last_iterations_only():
    model = dg.hf.reroute(tiny("llama"), "1 (2 3)x r 4", dynamic={"r": 4}, backprop_last=1).train()
    cut = dg.hf.reroute(tiny("llama"), "1 (2 3)x3 stopgrad 2 3 4").train()
    inputs = prompts(7, 3)
    model(**inputs, labels=inputs["input_ids"]).loss.backward()
    cut(**inputs, labels=inputs["input_ids"]).loss.backward()
    for (name, one), (_, two) in zip(model.named_parameters(), cut.named_parameters(), strict=True):
        assert (one.grad is None) == (two.grad is None), name
        assert one.grad is None or torch.equal(one.grad, two.grad), name


def test_weights_of_a_loop_are_found_again_by_the_next_route_and_by_copies():
    model, inputs = dynamic("llama"), prompts(7, 3)
    weight = model.model.depthgraph.mix_1.weight
    expected, at_first = model(**inputs, r=3).logits, model(**inputs).logits
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(again(**inputs, r=3).logits, expected)
        with torch.no_grad():
            again.model.layers[1].mlp.down_proj.weight.zero_()
            again.model.depthgraph.mix_1.weight.zero_()
        assert not torch.equal(again(**inputs, r=3).logits, expected)
        assert torch.equal(again(**inputs).logits, again(**inputs, r=2).logits)
        assert not torch.equal(again(**inputs).logits, at_first)
        assert torch.equal(model(**inputs, r=3).logits, expected)
    dg.hf.reroute(model, SPEC.replace("x r", "x3"))
    assert model.model.depthgraph.mix_1.weight is weight
    assert torch.equal(model(**inputs).logits, expected)
    dg.hf.reroute(model, SPEC, dynamic={"r": 2})
    assert model.model.depthgraph.mix_1.weight is weight
    assert torch.equal(model(**inputs, r=3).logits, expected)


def test_exits_of_every_iteration_come_out():
    model = dg.hf.reroute(tiny("llama"), "1 (2 3 exit)x r 4", dynamic={"r": 2})
    assert [len(model(**prompts(5), r=r).exit_hidden_states) for r in (1, 2, 5)] == [1, 2, 5]


def test_a_model_with_counts_assists_and_is_assisted():
    model, inputs = dynamic("llama"), prompts(8)
    expected = model.generate(**inputs, **GREEDY).sequences
    assert torch.equal(model.generate(**inputs, **GREEDY, assistant_model=tiny("llama")).sequences, expected)
    other = model.generate(**inputs, **GREEDY, r=4).sequences
    assert not torch.equal(other, expected)
    for assistant in (tiny("llama"), dynamic("llama"), dynamic("llama", "1 2x q 3..4".replace("q", "r"))):
        assert torch.equal(model.generate(**inputs, **GREEDY, r=4, assistant_model=assistant).sequences, other)
    plain = tiny("llama")
    expected = plain.generate(**inputs, **GREEDY).sequences
    assert torch.equal(plain.generate(**inputs, **GREEDY, assistant_model=model).sequences, expected)


def test_steps_by_hand_take_the_same_count_as_the_prompt():
    model, ids = dynamic("llama"), prompts(8)["input_ids"]
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        whole = model(ids, r=3, use_cache=False).logits
        parts = [model(ids[:, start:end], r=3, **{CACHE: cache}).logits for start, end in [(0, 5), (5, 6), (6, 8)]]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["temperature", "use_cache", "labels", "input_ids", "output_attentions"])
def test_a_count_cannot_have_the_name_of_what_a_model_takes(name):
    model = tiny("llama")
    with pytest.raises(CompileError, match=f"`{name}` is a loop count, and an argument") as raised:
        dg.hf.reroute(model, f"1 (2..3)x {name} 4", dynamic={name: 2})
    assert raised.value.code == "layer-inputs"
    assert not hasattr(model, "route")
