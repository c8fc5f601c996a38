"""torch.compile on a model with a route: one graph, the same values, and no graph too many."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from transformers import DynamicCache, StaticCache

import depthgraph as dg

from hf_models import CACHE, cache_of, prompts, tiny, unrolled

pytestmark = pytest.mark.usefixtures("one_thread")

TEXT, PATH = "1 2x2 1", (1, 2, 2, 1)
FLOW = "1 save(e) mix(e) mean(2 | 1) exit gate(e) 2"
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def small(name, **settings):
    """A model of two layers: tracing takes most of these tests' time."""
    if name == "gemma3":
        settings["layer_types"] = ["sliding_attention", "full_attention"]
    return tiny(name, num_hidden_layers=2, **settings)


def compiled(model, backend="eager"):
    counter = CompileCounterWithBackend(backend)
    return torch.compile(model, fullgraph=True, backend=counter), counter


def slopes(outputs, model):
    total = sum(each.square().mean() for each in (outputs.logits, *outputs.get("exit_hidden_states", ())))
    return torch.autograd.grad(total, list(model.parameters()), allow_unused=True)


def test_a_training_step_is_one_graph():
    model, ids = dg.hf.reroute(small("llama"), FLOW).train(), prompts(9, 9)["input_ids"]
    expected = model(ids, use_cache=False)
    fast, counter = compiled(model, "aot_eager")
    found = [fast(ids, use_cache=False) for _ in range(2)][1]
    assert counter.frame_count == 1
    torch.testing.assert_close(found.logits, expected.logits, **CLOSE)
    for one, two in zip(slopes(found, model), slopes(expected, model), strict=True):
        assert (one is None) == (two is None)
        assert one is None or torch.allclose(one, two, **CLOSE)
    exits = zip(found.get("exit_hidden_states", ()), expected.get("exit_hidden_states", ()), strict=True)
    assert all(torch.allclose(one, two, **CLOSE) for one, two in exits)


@pytest.mark.parametrize(
    ("name", "kv_cache"), [("llama", "per_execution"), ("llama", "last_visit"), ("gemma3", "per_execution")]
)
def test_decoding_with_a_static_cache_is_one_graph(name, kv_cache):
    model, ids = dg.hf.reroute(small(name), TEXT, kv_cache=kv_cache), prompts(12)["input_ids"]
    results, counts = [], []
    for fast, counter in (compiled(model), (model, None)):
        cache = StaticCache(config=model.config, max_cache_len=16)
        with torch.no_grad():
            steps = [model(ids[:, :6], **{CACHE: cache}).logits]
            for end in range(7, 13):
                steps.append(fast(ids[:, end - 1 : end], **{CACHE: cache}).logits)
                counts += [counter.frame_count] if counter else []
        results.append(torch.cat(steps, 1))
    torch.testing.assert_close(*results, **CLOSE)
    assert counts[-1] <= 1 + (name == "gemma3")  # whose window is full from some token on, without a route too


def test_a_prompt_is_one_graph_and_fills_the_slots():
    model, ids = dg.hf.reroute(small("llama"), TEXT), prompts(9)["input_ids"]
    fast, counter = compiled(model)
    with torch.no_grad():
        found = fast(ids, **{CACHE: DynamicCache(config=model.config)}, use_cache=True)
    assert [int(slot.get_seq_length()) for slot in cache_of(found).layers] == [9] * 4
    torch.testing.assert_close(found.logits, model(ids).logits, **CLOSE)
    assert counter.frame_count == 1


def test_each_count_is_a_graph_of_its_own_and_is_kept():
    model, ids = dg.hf.reroute(small("llama"), "1 2x r", dynamic={"r": 1}).train(), prompts(9, 9)["input_ids"]
    fast, counter = compiled(model)
    for r in (2, 1, 3, 2, 1, 3):
        torch.testing.assert_close(
            fast(ids, use_cache=False, r=r).logits, model(ids, use_cache=False, r=r).logits, **CLOSE
        )
    assert counter.frame_count == 3


def test_a_compiled_model_is_re_routed_and_restored():
    model, ids = small("llama"), prompts(9, 9)["input_ids"]
    expected = unrolled(model, PATH)(ids, use_cache=False).logits
    fast, counter = compiled(model)
    plain = fast(ids, use_cache=False).logits
    assert dg.hf.reroute(fast, TEXT) is fast
    torch.testing.assert_close(fast(ids, use_cache=False).logits, expected, **CLOSE)
    dg.hf.restore(fast)
    assert torch.equal(fast(ids, use_cache=False).logits, plain)
    assert counter.frame_count <= 3


def test_hidden_states_and_attentions_are_in_the_graph():
    model, ids = dg.hf.reroute(small("llama", attn_implementation="eager"), TEXT), prompts(9, 9)["input_ids"]
    asked = {"output_hidden_states": True, "output_attentions": True, "use_cache": False}
    expected = model(ids, **asked)
    fast, _ = compiled(model)
    found = fast(ids, **asked)
    assert (len(found.hidden_states), len(found.attentions)) == (5, 4)
    for one, two in zip(
        found.hidden_states + found.attentions, expected.hidden_states + expected.attentions, strict=True
    ):
        torch.testing.assert_close(one, two, **CLOSE)
