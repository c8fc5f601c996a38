"""The reference decoder with a KV cache: what it computes is what it computes without, for all four positions."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("transformers")
from hf_decoders import FLOW, POSITIONS, ROUTE, batch, cache_of, places_of, plain, small
from transformers import DynamicCache, StaticCache
from transformers.generation import GenerationConfig

from depthgraph.errors import CompileError, ConfigError
from depthgraph.hf.decoder_model import DepthGraphForCausalLM

from strategies import flow_routes

pytestmark = pytest.mark.usefixtures("one_thread")
CLOSE = {"rtol": 1e-4, "atol": 1e-4}

positions = pytest.mark.parametrize("positions", POSITIONS)


def pieces(length, cuts):
    ends = [*sorted(cut for cut in set(cuts) if 0 < cut < length), length]
    return list(zip([0, *ends], ends, strict=False))


@torch.no_grad()
def in_pieces(model, tokens, mask, cuts, cache=None):
    """Run a batch piece by piece through one cache; return all logits, and the cache."""
    cache = DynamicCache(config=model.config) if cache is None else cache
    found = []
    for start, end in pieces(tokens.shape[1], cuts):
        named = {"attention_mask": mask[:, :end], "position_ids": places_of(mask)[:, start:end]}
        found.append(model(tokens[:, start:end], cache=cache, **named).logits)
    return torch.cat(found, 1), cache


@settings(max_examples=30)
@given(
    route=st.one_of(flow_routes(), st.sampled_from([ROUTE, FLOW])),
    kind=st.sampled_from(POSITIONS),
    attention=st.sampled_from(["sdpa", "eager"]),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    cuts=st.lists(st.integers(1, 8), max_size=8),
)
def test_every_row_of_a_padded_batch_in_pieces_is_the_row_alone_and_whole(route, kind, attention, lengths, cuts):
    depth = getattr(route, "parameter_depth", 4)
    model = small(route=str(route), parameter_depth=depth, positions=kind, attention=attention)
    told = batch(*lengths)
    logits, cache = in_pieces(model, told["input_ids"], told["attention_mask"], cuts)
    whole = model(**told, position_ids=places_of(told["attention_mask"]), use_cache=False).logits
    assert len(cache.layers) == model.config.execution_depth
    assert {layer.get_seq_length() for layer in cache.layers} == {max(lengths)}
    for row, length in enumerate(lengths):
        alone = model(told["input_ids"][row : row + 1, -length:], use_cache=False).logits[0]
        torch.testing.assert_close(logits[row, -length:], alone, **CLOSE)
        torch.testing.assert_close(whole[row, -length:], alone, **CLOSE)


@positions
def test_the_positions_matter_to_these_tests(positions):
    """A shift by one of what stands in the cache changes the logits by far more than the tests above allow."""
    model, tokens = small(positions=positions), batch(8)["input_ids"]
    first = cache_of(model(tokens[:, :7], use_cache=True))
    right = model(tokens[:, 7:], cache=first).logits
    first.crop(-1)
    if positions in ("rope", "learned"):
        first = cache_of(model(tokens[:, :7], position_ids=torch.arange(7)[None] + 1))
        wrong = model(tokens[:, 7:], cache=first, position_ids=torch.tensor([[7]])).logits
    else:  # those two see no position ids: here a token is missing
        first.crop(-1)
        wrong = model(tokens[:, 7:], cache=first).logits
    assert (right - wrong).abs().max() > 0.01


@torch.no_grad()
def greedy(model, told, count, **counts):
    """Decode without a cache, one row after the other, without padding."""
    rows = []
    for tokens, mask in zip(told["input_ids"], told["attention_mask"], strict=True):
        row = tokens[mask.bool()][None]
        for _ in range(count):
            logits = model(row, use_cache=False, **counts).logits[:, -1]
            row = torch.cat([row, logits.argmax(-1, keepdim=True)], 1)
        rows.append(row[0, -count:])
    return torch.stack(rows)


@positions
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(
    "how",
    [{}, {"cache_implementation": "static"}, {"prefill_chunk_size": 3}, {"prompt_lookup_num_tokens": 2}],
    ids=["dynamic", "static", "chunks", "assisted"],
)
def test_greedy_decoding_with_a_cache_is_greedy_decoding_without(positions, attention, how):
    model, told = small(positions=positions, attention=attention), batch(5, 8, 3)
    if "prompt_lookup_num_tokens" in how:
        told = batch(7)  # assisted decoding takes one row
    found = model.generate(**told, max_new_tokens=10, do_sample=False, **how)
    assert torch.equal(found[:, told["input_ids"].shape[1] :], greedy(model, told, 10))


@positions
@pytest.mark.parametrize(
    "how",
    [
        {"num_beams": 3, "num_return_sequences": 2},
        {"do_sample": True, "temperature": 0.7, "top_k": 20},
        {"num_beams": 2, "do_sample": True},
        {"num_beams": 3, "cache_implementation": "static"},
    ],
    ids=["beams", "sampling", "sampled beams", "static beams"],
)
def test_every_way_to_generate_gives_the_same_with_and_without_a_cache(positions, how):
    model, told = small(positions=positions), batch(5, 8)
    without = {name: value for name, value in how.items() if name != "cache_implementation"}
    found = []
    for named in (how, {**without, "use_cache": False}):
        torch.manual_seed(3)
        found.append(model.generate(**told, max_new_tokens=8, **named))
    assert torch.equal(*found)


@positions
def test_a_static_cache_has_a_slot_for_every_execution(positions):
    model, told = small(positions=positions), batch(9)
    cache = StaticCache(config=model.config, max_cache_len=12)
    assert len(cache.layers) == 4
    logits, _ = in_pieces(model, told["input_ids"], told["attention_mask"], [4, 5, 6], cache)
    assert len(cache.layers) == 7
    assert [int(layer.get_seq_length()) for layer in cache.layers] == [9] * 7
    torch.testing.assert_close(logits, model(told["input_ids"], use_cache=False).logits, **CLOSE)


@positions
def test_a_cropped_cache_goes_on_as_if_the_tokens_had_not_been(positions):
    model, tokens = small(positions=positions), batch(9)["input_ids"]
    cache = cache_of(model(torch.cat([tokens[:, :5], tokens[:, :3]], 1)))
    cache.crop(-3)
    assert {layer.get_seq_length() for layer in cache.layers} == {5}
    found = model(tokens[:, 5:], cache=cache).logits
    torch.testing.assert_close(found, model(tokens, use_cache=False).logits[:, 5:], **CLOSE)


def test_alibi_counts_tokens_and_no_padding_wherever_it_stands():
    """Padding on the right of a prompt, and then more tokens, as `generate` does with such prompts."""
    model, tokens = small(positions="alibi"), batch(9)["input_ids"]
    padded = torch.cat([tokens[:, :4], torch.zeros(1, 2, dtype=torch.long), tokens[:, 4:]], 1)
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1]])
    logits, _ = in_pieces(model, padded, mask, [6, 7, 9])
    torch.testing.assert_close(logits[:, 6:], model(tokens, use_cache=False).logits[:, 4:], **CLOSE)


@pytest.mark.parametrize("positions", ["rope", "nope", "alibi"])
def test_texts_packed_into_one_row_do_not_see_each_other(positions):
    model, tokens = small(positions=positions), batch(9)["input_ids"]
    places = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])
    found = model(tokens, position_ids=places, use_cache=False).logits
    torch.testing.assert_close(found[:, :4], model(tokens[:, :4], use_cache=False).logits, **CLOSE)
    torch.testing.assert_close(found[:, 4:], model(tokens[:, 4:], use_cache=False).logits, **CLOSE)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@positions
def test_a_mask_of_four_dimensions_is_taken_as_it_is(positions, attention):
    model, told = small(positions=positions, attention=attention), batch(8, 5)
    places = places_of(told["attention_mask"])
    allowed = torch.ones(8, 8).tril().bool() & told["attention_mask"].bool()[:, None, None, :]
    added = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
    right = model(**told, position_ids=places).logits
    for mask in (allowed, added):
        found = model(told["input_ids"], attention_mask=mask, position_ids=places).logits
        torch.testing.assert_close(found[0], right[0], **CLOSE)
        torch.testing.assert_close(found[1, -5:], right[1, -5:], **CLOSE)


@pytest.mark.parametrize("lengths", [(8,), (8, 5)])
@positions
def test_it_decodes_in_lower_precision_and_under_autocast(positions, lengths):
    model, told = small(positions=positions), batch(*lengths)
    with torch.autocast("cpu", torch.bfloat16):
        logits, _ = in_pieces(model, told["input_ids"], told["attention_mask"], [4, 5])
    assert logits.isfinite().all()
    exact = model(**told, position_ids=places_of(told["attention_mask"])).logits
    for row, length in enumerate(lengths):
        error = (logits[row, -length:].float() - exact[row, -length:]).norm() / exact[row, -length:].norm()
        assert error < 0.1
    logits, cache = in_pieces(model.to(torch.bfloat16), told["input_ids"], told["attention_mask"], [4, 5])
    assert logits.dtype is cache.layers[6].keys.dtype is torch.bfloat16
    assert logits.isfinite().all()


def test_learned_positions_end_and_the_message_says_where():
    model = small(positions="learned", context=8)
    told = batch(6)
    with pytest.raises(ConfigError, match="9 tokens, and the learned positions reach 8") as caught:
        model.generate(**told, max_new_tokens=5, do_sample=False)
    assert caught.value.code == "too-many-tokens"
    assert small(positions="rope", context=8).generate(**told, max_new_tokens=5, do_sample=False).shape == (1, 11)


COUNTED = {"route": "1 (2 3)x r 4", "loop_counts": {"r": 2}}


@pytest.mark.filterwarnings("ignore:the model runs with r=")
@pytest.mark.parametrize("how", [{}, {"num_beams": 2}, {"cache_implementation": "static"}])
@pytest.mark.parametrize("r", [1, 2, 5])
def test_generate_takes_the_counts_of_loops(r, how):
    model, told = small(**COUNTED), batch(5, 8)
    found = model.generate(**told, max_new_tokens=6, r=r, return_dict_in_generate=True, **how)
    fixed = small(route=f"1 (2 3)x{r} 4")
    assert torch.equal(found.sequences, fixed.generate(**told, max_new_tokens=6, **how))
    assert len(cache_of(found).layers) == 2 + 2 * r


@pytest.mark.filterwarnings("ignore:the model runs with r=")
def test_a_cache_of_another_count_or_of_layers_is_refused():
    model, tokens = small(**COUNTED), batch(6)["input_ids"]
    cache = cache_of(model(tokens, r=3))
    with pytest.raises(CompileError, match="the cache has 8 slots") as caught:
        model(tokens[:, :1], cache=cache)
    assert caught.value.code == "cache-mismatch"
    filled = cache_of(small(route="...")(tokens))
    with pytest.raises(CompileError) as caught:
        model(tokens[:, :1], cache=filled)
    assert caught.value.code == "cache-mismatch"


def test_the_cache_has_its_older_name_too_but_is_given_once():
    model, tokens = small(), batch(6)["input_ids"]
    cache = cache_of(model(tokens[:, :5]))
    found = model(tokens[:, 5:], past_key_values=cache).logits
    torch.testing.assert_close(found, model(tokens, use_cache=False).logits[:, 5:], **CLOSE)
    with pytest.raises(CompileError, match="given twice"):
        model(tokens[:, 5:], past_key_values=cache, cache=cache)


@positions
@torch.no_grad()
def test_masks_and_positions_of_other_tokens_are_refused(positions):
    model, told = small(positions=positions), batch(6)
    cache = cache_of(model(told["input_ids"]))
    new = torch.tensor([[5, 6]])
    with pytest.raises(CompileError, match="the mask is over 2 tokens, and with the cached ones there are 8") as caught:
        model(new, attention_mask=torch.ones(1, 2), cache=cache)
    assert caught.value.code == "cache-mismatch"
    for places in (torch.tensor([6, 7]), torch.arange(8)[None]):
        with pytest.raises(CompileError, match="`position_ids` are of shape"):
            model(new, position_ids=places, cache=cache)
    with pytest.raises(CompileError, match="a tuple is given where a cache"):
        model(new, cache=((torch.zeros(1), torch.zeros(1)),))
    for mask in (torch.ones(1, 8), torch.ones(1, 8, dtype=torch.bool), torch.ones(1, 8, dtype=torch.int32)):
        found = model(new, attention_mask=mask, cache=copy.deepcopy(cache)).logits
        torch.testing.assert_close(found, model(torch.cat([told["input_ids"], new], 1)).logits[:, 6:], **CLOSE)


def test_no_cache_is_filled_where_a_gradient_is_asked_for():
    model, told = small(), batch(6)
    assert cache_of(model(**told)) is not None
    model.train()
    assert cache_of(model(**told)) is None
    assert cache_of(model(**told, use_cache=True)) is not None
    with torch.no_grad():
        assert cache_of(model(**told)) is not None
    model.config.use_cache = False
    assert cache_of(model.eval()(**told)) is None


def test_continuous_batching_is_refused():
    model = small()
    with pytest.raises(CompileError, match="one slot of the cache a layer") as caught:
        model.generate_batch([[1, 2, 3]], generation_config=GenerationConfig(max_new_tokens=2))
    assert caught.value.code == "cache-mismatch"


@positions
def test_it_compiles_whole_with_a_static_cache(positions):
    model, tokens = small(positions=positions), batch(9)["input_ids"]
    whole = model(tokens, use_cache=False).logits
    torch._dynamo.reset()
    compiled = torch.compile(model.forward, fullgraph=True, backend="eager")
    cache = StaticCache(config=model.config, max_cache_len=16)
    with torch.no_grad():
        model(tokens[:, :5], cache=cache)
        for place in range(5, 9):
            places = torch.tensor([[place]])
            found = compiled(tokens[:, place : place + 1], cache=cache, position_ids=places).logits
            torch.testing.assert_close(found, whole[:, place : place + 1], **CLOSE)


def test_a_plain_decoder_decodes_the_same_tokens():
    decoder, model, told = plain(), small(), batch(6)
    row = told["input_ids"]
    with torch.no_grad():
        for _ in range(8):
            row = torch.cat([row, decoder(row)[:, -1].argmax(-1, keepdim=True)], 1)
    assert isinstance(model, DepthGraphForCausalLM)
    assert torch.equal(model.generate(**told, max_new_tokens=8, do_sample=False), row)
