"""Every execution has a slot of the cache: how many, how long, of which kind; and which caches are refused."""

import copy
import pickle

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache, QuantizedCache, StaticCache

import depthgraph as dg
from depthgraph.errors import CompileError

from hf_models import CACHE, MAIN, MODELS, cache_for, cache_of, prompts, tiny, unrolled

pytestmark = pytest.mark.usefixtures("one_thread")

TEXT, PATH = "1 (2..3)x2 4 3", (1, 2, 3, 2, 3, 4, 3)
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


def steps(model, inputs, cache=None, first=6):
    """Yield (logits, cache) of the prefill and of each token after it."""
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    places = mask.cumsum(-1).sub(1).clamp(min=0)
    for start, end in [(0, first), *((end - 1, end) for end in range(first + 1, ids.shape[1] + 1))]:
        with torch.no_grad():
            found = model(
                ids[:, start:end],
                attention_mask=mask[:, :end],
                position_ids=places[:, start:end],
                **cache_for(model, cache),
                use_cache=True,
            )
        cache = cache_of(found)
        yield found.logits, cache


def lengths(cache):
    """Return how many tokens each slot has seen; None for those that count none."""
    return [int(slot.get_seq_length()) if hasattr(slot, "get_seq_length") else None for slot in cache.layers]


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("mamba", "qwen3_next", "opt", "bloom")])
def test_every_step_has_a_slot_an_execution_and_the_logits_of_the_unrolled_model(name):
    model, inputs = tiny(name), prompts(10, 7, 4)
    large = unrolled(model, PATH)
    dg.hf.reroute(model, TEXT)
    with torch.no_grad():
        whole = model(**inputs, position_ids=inputs["attention_mask"].cumsum(-1).sub(1).clamp(min=0), use_cache=False)
    seen = 0
    for (found, cache), (expected, other) in zip(steps(model, inputs), steps(large, inputs), strict=True):
        seen = seen + found.shape[1]
        assert torch.equal(found, expected)
        assert lengths(cache) == [seen] * len(PATH)
        assert [type(slot) for slot in cache.layers] == [type(slot) for slot in other.layers]
        assert [slot.keys.shape for slot in cache.layers] == [slot.keys.shape for slot in other.layers]
        real = inputs["attention_mask"][:, seen - found.shape[1] : seen].bool()
        torch.testing.assert_close(found[real], whole.logits[:, seen - found.shape[1] : seen][real], **CLOSE)
    assert seen == 10


@pytest.mark.parametrize("name", ["opt", "bloom", "qwen3_next", "mamba"])
def test_models_that_count_tokens_themselves_have_a_slot_an_execution_too(name):
    model, inputs = tiny(name), prompts(10, 10)
    large = unrolled(model, PATH)
    dg.hf.reroute(model, TEXT)
    cache, other, seen = None, None, 0
    for start, end in [(0, 6), (6, 7), (7, 8), (8, 9)]:
        with torch.no_grad():
            found = model(inputs["input_ids"][:, start:end], **{CACHE: cache}, use_cache=True)
            expected = large(inputs["input_ids"][:, start:end], **{CACHE: other}, use_cache=True)
        cache, other, seen = cache_of(found), cache_of(expected), end
        assert torch.equal(found.logits, expected.logits)
        assert lengths(cache) == [None if length is None else seen for length in lengths(other)]
        assert len(cache.layers) == len(PATH)


KINDS = {
    "none": lambda config: None,
    "lazy": lambda config: DynamicCache(),
    "dynamic": lambda config: DynamicCache(config=config),
    "static": lambda config: StaticCache(config=config, max_cache_len=16),
    "early static": lambda config: early(StaticCache(config=config, max_cache_len=16), config),
}


def early(cache, config):
    cache.early_initialization(3, config.num_key_value_heads, 8, torch.float32, torch.device("cpu"))
    return cache


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["llama", "gemma3", "qwen2"])
def test_any_kind_of_cache_that_was_made_for_the_model_gets_the_slots_of_the_route(name, kind):
    model, inputs = tiny(name), prompts(10, 7, 4)
    large = unrolled(model, PATH)
    dg.hf.reroute(model, TEXT)
    cache, other = KINDS[kind](model.config), KINDS[kind](large.config)
    for (found, now), (expected, then) in zip(steps(model, inputs, cache), steps(large, inputs, other), strict=True):
        assert torch.equal(found, expected)
        assert cache is None or now is cache
        assert lengths(now) == lengths(then)
        assert [type(slot) for slot in now.layers] == [type(slot) for slot in then.layers]


def test_a_cache_that_was_made_for_as_many_executions_is_taken_as_it_is():
    model, inputs = tiny("gemma3"), prompts(10, 7, 4)
    large = unrolled(model, PATH)
    dg.hf.reroute(model, TEXT)
    cache = StaticCache(config=large.config, max_cache_len=16)
    slots = list(cache.layers)
    for (found, _), (expected, _) in zip(steps(model, inputs, cache), steps(large, inputs), strict=True):
        torch.testing.assert_close(found, expected, **CLOSE)
    assert all(one is two for one, two in zip(cache.layers, slots, strict=True))


def test_a_quantized_cache_has_a_slot_an_execution():
    model, inputs = tiny("llama"), prompts(10)
    large = unrolled(model, PATH)
    dg.hf.reroute(model, TEXT)
    cache, other = (QuantizedCache("fp8", each.config) for each in (model, large))
    for (found, _), (expected, _) in zip(steps(model, inputs, cache), steps(large, inputs, other), strict=True):
        assert torch.equal(found, expected)
    assert lengths(cache) == [10] * 7


def test_executions_of_dropped_layers_have_no_slot_and_those_of_few_layers_few():
    model, inputs = tiny("llama"), prompts(8)
    dg.hf.reroute(model, "3 1 drop(2) drop(4)")
    for (found, cache), (expected, _) in zip(
        steps(model, inputs), steps(unrolled(tiny("llama"), (3, 1)), inputs), strict=True
    ):
        assert torch.equal(found, expected)
        assert len(cache.layers) == 2


def test_branches_and_exits_have_slots_too():
    text = "1 save(a) mean(2 | 3 1) exit add(a) 4"
    model, inputs = dg.hf.reroute(tiny("gemma3"), text), prompts(10, 7, 4)
    with torch.no_grad():
        whole = model(
            **inputs, position_ids=inputs["attention_mask"].cumsum(-1).sub(1).clamp(min=0), use_cache=False
        ).logits
    found = list(steps(model, inputs))
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(torch.cat([logits for logits, _ in found], 1)[real], whole[real], **CLOSE)
    assert lengths(found[-1][1]) == [10] * 5


def filled(model, text=None, **named):
    if text is not None:
        dg.hf.reroute(model, text, **named)
    cache = cache_of(model(**prompts(5), use_cache=True))
    if text is not None:
        dg.hf.restore(model)
    return cache


@pytest.mark.parametrize(
    "make",
    [
        lambda model: filled(model),
        lambda model: filled(model, "1 (2..3)x3 4 3"),
        lambda model: filled(model, "1 (2 3)x2 3 4"),
        lambda model: filled(model, "1 (2..3)x2 save(a) 4 3 add(a)"),
        lambda model: filled(model, TEXT, kv_cache="last_visit"),
        lambda model: filled(model, "1..4"),
        lambda model: StaticCache(config=tiny("llama", num_hidden_layers=6).config, max_cache_len=8),
        lambda model: EncoderDecoderCache(DynamicCache(), DynamicCache()),
    ],
)  # fmt: skip
def test_a_cache_of_another_route_or_of_none_is_refused(make):
    model = tiny("llama")
    cache = make(model)
    dg.hf.reroute(model, TEXT)
    with pytest.raises(CompileError) as raised:
        model(prompts(1)["input_ids"], **{CACHE: cache})
    assert raised.value.code == "cache-mismatch"


@pytest.mark.parametrize("text", ["4 3 2 1", "1 1 2 3 drop(4)", "1 save(a) 2..4 add(a)"])
def test_a_cache_that_was_filled_without_a_route_is_refused_where_it_has_as_many_slots(text):
    model = tiny("llama")
    cache = filled(model)
    dg.hf.reroute(model, text)
    with pytest.raises(CompileError, match="filled without the route") as raised:
        model(prompts(1)["input_ids"], **{CACHE: cache})
    assert raised.value.code == "cache-mismatch"


def test_the_identity_route_goes_on_with_a_cache_of_the_model_itself():
    model, inputs = tiny("llama"), prompts(9)
    expected = [logits for logits, _ in steps(model, inputs)]
    cache = cache_of(model(inputs["input_ids"][:, :6], use_cache=True))
    dg.hf.reroute(model, "1..4")
    assert torch.equal(model(inputs["input_ids"][:, 6:7], **{CACHE: cache}).logits, expected[1])


def test_a_cache_is_copied_cropped_reordered_and_reset_with_all_of_its_slots():
    model, ids = dg.hf.reroute(tiny("llama"), TEXT), prompts(9, 9)["input_ids"]
    with torch.no_grad():
        cache = cache_of(model(ids[:, :6], use_cache=True))
        expected = model(ids[:, 6:7], **{CACHE: copy.deepcopy(cache)}).logits
        assert torch.equal(model(ids[:, 6:7], **{CACHE: pickle.loads(pickle.dumps(cache))}).logits, expected)
        model(ids[:, 6:9], **{CACHE: cache})
        cache.crop(-3)
        assert lengths(cache) == [6] * 7
        assert torch.equal(model(ids[:, 6:7], **{CACHE: copy.deepcopy(cache)}).logits, expected)
        cache.reorder_cache(torch.tensor([1, 0]))
        assert torch.equal(model(ids[:, 6:7].flip(0), **{CACHE: cache}).logits, expected.flip(0))
        cache.reset()
        assert torch.equal(model(ids[:, :6], **{CACHE: cache}).logits, model(ids[:, :6]).logits)


def test_no_cache_is_made_where_none_is_wanted():
    model = dg.hf.reroute(tiny("llama"), TEXT)
    assert cache_of(model(**prompts(5), use_cache=False)) is None
    model.config.use_cache = False
    assert cache_of(model(**prompts(5))) is None


@pytest.mark.parametrize("name", MAIN)
def test_half_precision_and_both_attentions_have_the_same_slots(name):
    inputs = prompts(10, 7, 4)
    for settings in ({"attn_implementation": "eager"}, {"dtype": torch.bfloat16}):
        model = tiny(name, **settings)
        model.to(settings.get("dtype", torch.float32))
        large = unrolled(model, PATH)
        assert large.config._attn_implementation == model.config._attn_implementation
        dg.hf.reroute(model, TEXT)
        for (found, cache), (expected, _) in zip(steps(model, inputs), steps(large, inputs), strict=True):
            assert torch.equal(found, expected)
            assert cache.layers[6].keys.dtype == settings.get("dtype", torch.float32)
