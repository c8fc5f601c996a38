"""`kv_cache="last_visit"`: a slot for each layer, which its last visit writes, against plain Python with lists."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Cache, DynamicCache, StaticCache

import depthgraph as dg
from depthgraph.errors import CompileError, ConfigError

from hf_models import CACHE, cache_of, layers_of, prompts, tiny

pytestmark = pytest.mark.usefixtures("one_thread")

TEXT, PATH = "1 (2..3)x2 4 3", (1, 2, 3, 2, 3, 4, 3)


class Interpreter:
    """A model without a route, whose layers are run in the order of a path by hand.

    `past[k]` is the entry of layer k in a cache. Each visit of the layer adds to a copy of it, and the copy of the
    last visit is what the next token finds.
    """

    def __init__(self, model, path, make):
        self.model, self.path, self.make = model, path, make
        self.layers = layers_of(model)[1]
        self.plain = make()
        self.past = {layer: make().layers[layer - 1] for layer in path}

    def logits(self, ids):
        """Return the logits of some tokens after those that were given before."""
        calls = []
        hooks = [
            layer.register_forward_pre_hook(lambda _, args, named: calls.append((args, named)), with_kwargs=True)
            for layer in self.layers
        ]
        masks_of = copy.deepcopy(self.plain)
        self.model(ids, **{CACHE: self.plain})  # what the model's loop passes to its layers, now and in the next call
        for hook in hooks:
            hook.remove()
        h, written = calls[0][0][0], {}
        for layer in self.path:
            h, written[layer] = self.visit(layer, h, calls[layer - 1])
        self.past.update(written)
        last = self.layers[-1].register_forward_hook(lambda *_: h)
        logits = self.model(ids, **{CACHE: masks_of}).logits
        last.remove()
        return logits

    def visit(self, layer, h, call):
        cache, (args, named) = self.make(), call
        cache.layers[layer - 1] = trial = copy.deepcopy(self.past[layer])
        args = [cache if isinstance(value, Cache) else value for value in args[1:]]
        named = {name: cache if isinstance(value, Cache) else value for name, value in named.items()}
        return self.layers[layer - 1](h, *args, **named), trial


CACHES = {
    "dynamic": lambda config: DynamicCache(config=config),
    "static": lambda config: StaticCache(config=config, max_cache_len=16),
}


def by_steps(model, ids, cache, cuts=(6, 7, 8, 9, 10)):
    return [model(ids[:, start:end], **{CACHE: cache}).logits for start, end in zip((0, *cuts), cuts, strict=False)]


@pytest.mark.parametrize("kind", CACHES)
@pytest.mark.parametrize("name", ["llama", "gemma3", "qwen2", "mistral", "gpt2"])
def test_earlier_visits_see_the_past_as_the_last_one_left_it(name, kind):
    model, ids = tiny(name), prompts(10, 10)["input_ids"]
    config = copy.deepcopy(model.config)
    hand = Interpreter(model, PATH, lambda: CACHES[kind](config))
    with torch.no_grad():
        expected = [hand.logits(ids[:, start:end]) for start, end in [(0, 6), (6, 7), (7, 8), (8, 10)]]
        dg.hf.reroute(model, TEXT, kv_cache="last_visit")
        cache = CACHES[kind](model.config)
        found = by_steps(model, ids, cache, (6, 7, 8, 10))
        without = model(ids, use_cache=False).logits
    assert all(map(torch.equal, found, expected))
    torch.testing.assert_close(found[0], without[:, :6], rtol=1e-4, atol=2e-5)
    assert not torch.allclose(found[1][:, -1], without[:, 6], atol=1e-3)
    assert len(cache.layers) == 4
    for layer, slot in enumerate(cache.layers, 1):
        assert torch.equal(slot.keys, hand.past[layer].keys)
        assert torch.equal(slot.values, hand.past[layer].values)


LLAMA = tiny("llama")


@settings(max_examples=15)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.lists(st.integers(1, 9), max_size=3, unique=True).map(sorted),
)
def test_any_path_in_any_pieces_does_what_plain_python_does(path, cuts):
    ids, cuts = prompts(10)["input_ids"], (*cuts, 10)
    left = [f"drop({layer})" for layer in range(1, 5) if layer not in path]
    with torch.no_grad():
        hand = Interpreter(LLAMA, tuple(path), lambda: DynamicCache(config=LLAMA.config))
        expected = [hand.logits(ids[:, start:end]) for start, end in zip((0, *cuts), cuts, strict=False)]
        dg.hf.reroute(LLAMA, " ".join(map(str, [*path, *left])), kv_cache="last_visit")
        found = by_steps(LLAMA, ids, None if len(cuts) == 1 else DynamicCache(config=LLAMA.config), cuts)
    dg.hf.restore(LLAMA)
    assert all(map(torch.equal, found, expected))


def memory(cache):
    return sum(value.nbytes for slot in cache.layers for value in (slot.keys, slot.values))


@pytest.mark.parametrize("kind", CACHES)
@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_it_needs_as_much_memory_as_the_model_without_a_route(name, kind):
    model, inputs = tiny(name), prompts(10)
    plain = CACHES[kind](model.config)
    model(**inputs, **{CACHE: plain})
    sizes = {}
    for policy in ("per_execution", "last_visit"):
        dg.hf.reroute(model, "1 2x4 3..4 3", kv_cache=policy)
        assert model.config.kv_cache == policy
        cache = CACHES[kind](model.config)
        model(**inputs, **{CACHE: cache})
        sizes[policy] = memory(cache)
        assert [int(slot.get_seq_length()) for slot in cache.layers] == [10] * len(cache.layers)
    assert sizes["last_visit"] == memory(plain)
    assert sizes["per_execution"] > 1.5 * memory(plain)


@pytest.mark.parametrize(
    "how", [{"do_sample": False}, {"num_beams": 2}, {"cache_implementation": "static"}, {"prefill_chunk_size": 4}]
)
def test_it_generates_what_steps_by_hand_do(how):
    model, inputs = tiny("gemma3"), prompts(8, 8)
    dg.hf.reroute(model, TEXT, kv_cache="last_visit")
    found = model.generate(**inputs, max_new_tokens=5, return_dict_in_generate=True, **how)
    assert len(cache_of(found).layers) == 4
    if "num_beams" in how or "prefill_chunk_size" in how:
        return
    ids, cache = inputs["input_ids"], DynamicCache(config=model.config)
    with torch.no_grad():
        logits = model(ids, **{CACHE: cache}).logits
        for _ in range(5):
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
            logits = model(ids[:, -1:], **{CACHE: cache}).logits
    assert torch.equal(found.sequences, ids)


def test_where_no_layer_runs_twice_nothing_is_shared():
    model, ids = tiny("llama"), prompts(8)["input_ids"]
    results = []
    for policy in ("per_execution", "last_visit"):
        dg.hf.reroute(model, "3 1 4 2", kv_cache=policy)
        results.append(by_steps(model, ids, DynamicCache(config=model.config), (5, 6, 8)))
    assert all(map(torch.equal, *results))


def test_layers_that_keep_other_states_than_keys_and_values_are_refused():
    model = dg.hf.reroute(tiny("qwen3_next"), "1 1 2..4", kv_cache="last_visit")
    with pytest.raises(CompileError) as raised:
        model(**prompts(5))
    assert raised.value.code == "cache-mismatch"


def test_there_is_no_third_policy():
    with pytest.raises(ConfigError) as raised:
        dg.hf.reroute(tiny("llama"), TEXT, kv_cache="first_visit")
    assert raised.value.code == "invalid-config"
    assert "changes the result" in dg.hf.reroute.__doc__.replace("**", "")
