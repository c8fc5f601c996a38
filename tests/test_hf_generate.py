"""Generating with a route: as the unrolled model does, as without a cache does, in every way that transformers has."""

import pytest
import torch
from transformers import DynamicCache, StaticCache

import depthgraph as dg

from hf_models import CACHE, MAIN, MODELS, cache_of, prompts, tiny, unrolled

pytestmark = pytest.mark.usefixtures("one_thread")

TEXT, PATH = "1 (2..3)x2 4 3", (1, 2, 3, 2, 3, 4, 3)
GREEDY = {
    "do_sample": False,
    "max_new_tokens": 7,
    "return_dict_in_generate": True,
    "output_logits": True,
    "eos_token_id": -1,
}
CLOSE = {"rtol": 1e-4, "atol": 2e-5}

WAYS = {
    "greedy": {},
    "sampling": {"do_sample": True, "temperature": 1.5, "top_k": 20},
    "beams": {"num_beams": 3},
    "sampled beams": {"num_beams": 2, "do_sample": True},
    "several answers": {"do_sample": True, "num_return_sequences": 2},
    "static": {"cache_implementation": "static"},
    "static beams": {"cache_implementation": "static", "num_beams": 2},
    "chunks": {"prefill_chunk_size": 4},
    "static chunks": {"prefill_chunk_size": 4, "cache_implementation": "static"},
    "penalties": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
}


def generate(model, inputs, seed=3, **how):
    torch.manual_seed(seed)
    return model.generate(**inputs, **{**GREEDY, **how})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_every_way_to_generate_gives_what_the_unrolled_model_gives(name, way):
    model, how = tiny(name), WAYS[way]
    large = unrolled(model, PATH)
    dg.hf.reroute(model, TEXT)
    for inputs in (prompts(8), prompts(8, 5), prompts(8, 3, 1)):
        found, expected = generate(model, inputs, **how), generate(large, inputs, **how)
        assert torch.equal(found.sequences, expected.sequences)
        assert all(map(torch.equal, found.logits, expected.logits))
        assert len(cache_of(found).layers) == len(PATH)
        assert [type(slot) for slot in cache_of(found).layers] == [type(slot) for slot in cache_of(expected).layers]
        tokens = found.sequences.shape[1] - 1
        assert [int(slot.get_seq_length()) for slot in cache_of(found).layers] == [tokens] * len(PATH)


@pytest.mark.parametrize("way", ["greedy", "sampling", "beams", "static", "chunks"])
@pytest.mark.parametrize("name", MAIN)
def test_with_a_cache_the_same_comes_out_as_without(name, way):
    model, how = dg.hf.reroute(tiny(name), TEXT), WAYS[way]
    for inputs in (prompts(9), prompts(9, 4, 1)):
        found = generate(model, inputs, **how)
        without = generate(
            model,
            inputs,
            **{key: how[key] for key in how if key not in ("cache_implementation", "prefill_chunk_size")},
            use_cache=False,
        )
        assert torch.equal(found.sequences, without.sequences)
        for one, two in zip(found.logits, without.logits, strict=True):
            torch.testing.assert_close(one, two, **CLOSE)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in MAIN])
def test_others_generate_what_the_unrolled_model_does(name):
    model, inputs = tiny(name), prompts(8, 5, 1)
    expected = generate(unrolled(model, PATH), inputs)
    found = generate(dg.hf.reroute(model, TEXT), inputs)
    assert torch.equal(found.sequences, expected.sequences)
    assert all(map(torch.equal, found.logits, expected.logits))


def test_windows_that_were_left_behind_are_cut_in_every_slot():
    model, inputs = tiny("gemma3"), prompts(9, 7)
    found = generate(dg.hf.reroute(model, TEXT), inputs, max_new_tokens=12)
    kept = [slot.keys.shape[-2] for slot in cache_of(found).layers]
    assert kept == [4, 20, 20, 20, 20, 4, 20]
    assert torch.equal(found.sequences, generate(model, inputs, max_new_tokens=12, use_cache=False).sequences)


def test_a_padded_prompt_goes_on_as_it_does_alone():
    for name in ("llama", "gemma3", "gpt2", "gpt_neox"):
        model = dg.hf.reroute(tiny(name), TEXT)
        inputs = prompts(9, 5, 2)
        together = generate(model, inputs).sequences
        for row, length in enumerate((9, 5, 2)):
            alone = generate(model, {key: value[row : row + 1, -length:] for key, value in inputs.items()}).sequences
            assert torch.equal(together[row, -length - 7 :], alone[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda config: DynamicCache(),
        lambda config: DynamicCache(config=config),
        lambda config: StaticCache(config=config, max_cache_len=24),
    ],
)
def test_a_conversation_goes_on_with_the_cache_that_it_began_with(make):
    model, ids = dg.hf.reroute(tiny("qwen2"), TEXT), prompts(6)["input_ids"]
    cache = make(model.config)
    first = model.generate(ids, **{CACHE: cache}, max_new_tokens=4, do_sample=False, eos_token_id=-1)
    longer = torch.cat([first, torch.tensor([[7, 8, 9]])], 1)
    found = model.generate(longer, **{CACHE: cache}, max_new_tokens=4, do_sample=False, eos_token_id=-1)
    assert [int(slot.get_seq_length()) for slot in cache.layers] == [longer.shape[1] + 3] * len(PATH)
    assert torch.equal(
        found, model.generate(longer, max_new_tokens=4, do_sample=False, use_cache=False, eos_token_id=-1)
    )


ASSISTANTS = {
    "a plain model": lambda: {"assistant_model": tiny("llama")},
    "another plain model": lambda: {"assistant_model": tiny("llama", seed=1)},
    "a model with another route": lambda: {"assistant_model": dg.hf.reroute(tiny("llama"), "1..2 drop(3) 4")},
    "a model with the same route": lambda: {"assistant_model": dg.hf.reroute(tiny("llama"), TEXT)},
    "the prompt": lambda: {"prompt_lookup_num_tokens": 3},
}


@pytest.mark.parametrize("who", ASSISTANTS)
def test_an_assistant_changes_no_token(who):
    model, inputs = dg.hf.reroute(tiny("llama"), TEXT), prompts(8)
    inputs["input_ids"][0, 4:] = inputs["input_ids"][0, :4]
    expected = generate(model, inputs, max_new_tokens=12).sequences
    found = generate(model, inputs, max_new_tokens=12, **ASSISTANTS[who]())
    assert torch.equal(found.sequences, expected)
    assert len(cache_of(found).layers) == len(PATH)
    assert len({int(slot.get_seq_length()) for slot in cache_of(found).layers}) == 1


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_a_model_with_a_route_assists_one_without(name):
    model, inputs = tiny(name), prompts(8)
    expected = generate(model, inputs, max_new_tokens=12).sequences
    found = generate(model, inputs, max_new_tokens=12, assistant_model=dg.hf.reroute(tiny(name), TEXT))
    assert torch.equal(found.sequences, expected)
    assert len(cache_of(found).layers) == 4


def test_windows_are_rolled_back_with_an_assistant_too():
    model, inputs = dg.hf.reroute(tiny("gemma3"), TEXT), prompts(9)
    expected = generate(model, inputs, max_new_tokens=12).sequences
    assert torch.equal(
        generate(model, inputs, max_new_tokens=12, assistant_model=tiny("gemma3", seed=1)).sequences, expected
    )


def test_a_route_is_changed_between_two_answers():
    model, inputs = tiny("llama"), prompts(8, 5)
    for text, path in ((TEXT, PATH), ("1..4", (1, 2, 3, 4)), ("4 4 3 2 1", (4, 4, 3, 2, 1))):
        dg.hf.reroute(model, text)
        for how in ({}, WAYS["static"]):
            found = generate(model, inputs, **how)
            assert torch.equal(found.sequences, generate(unrolled(tiny("llama"), path), inputs).sequences)
            assert len(cache_of(found).layers) == len(path)
    found = generate(dg.hf.restore(model), inputs, **WAYS["static"])
    assert torch.equal(found.sequences, generate(tiny("llama"), inputs).sequences)
    assert len(cache_of(found).layers) == 4


def test_a_model_whose_inner_one_was_re_routed_generates_too():
    model, inputs = tiny("llama"), prompts(8, 5)
    dg.hf.reroute(model.model, TEXT)
    for how in ({}, WAYS["static"], WAYS["beams"], WAYS["chunks"]):
        assert torch.equal(
            generate(model, inputs, **how).sequences, generate(unrolled(tiny("llama"), PATH), inputs, **how).sequences
        )


def test_data_flow_generates_with_a_cache_what_it_does_without():
    text = "1 save(e) (mix(e) 2..3 gate(e))x2 mean(3 | 4 2) exit add(e) 4"
    model = dg.hf.reroute(tiny("gemma3"), text)
    with torch.no_grad():
        for parameter in model.model.depthgraph.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    for inputs in (prompts(9), prompts(9, 4, 1)):
        for way in ("greedy", "beams", "static", "chunks"):
            found = generate(model, inputs, **WAYS[way])
            assert len(cache_of(found).layers) == 9
            assert torch.equal(
                found.sequences,
                generate(model, inputs, num_beams=WAYS[way].get("num_beams", 1), use_cache=False).sequences,
            )


def test_embeddings_are_a_prompt_too():
    model = dg.hf.reroute(tiny("llama"), TEXT)
    embedded = model.get_input_embeddings()(prompts(8)["input_ids"])
    found = model.generate(inputs_embeds=embedded, max_new_tokens=5, do_sample=False)
    assert torch.equal(found, model.generate(prompts(8)["input_ids"], max_new_tokens=5, do_sample=False)[:, 8:])
