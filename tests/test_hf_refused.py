"""Models that no route can run in are refused with the reason, and nothing of them is changed."""

import pytest
import torch
import transformers
from torch import nn
from transformers import LlamaModel

import depthgraph as dg
from depthgraph.errors import CompileError

from hf_models import SHARED, prompts, tiny

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {"num_attention_heads": 4, "hidden_size": 32, "num_hidden_layers": 4, "vocab_size": 64}


def build(name, config, **settings):
    torch.manual_seed(0)
    return getattr(transformers, name)(getattr(transformers, config)(**settings)).eval()


AT_ONCE = {
    "two stacks": (
        lambda: build("T5ForConditionalGeneration", "T5Config", d_model=32, d_kv=8, d_ff=48, num_layers=4, num_heads=4, vocab_size=64),
        "an encoder and a decoder",
    ),
    "attends to an encoder": (
        lambda: build("BertLMHeadModel", "BertConfig", **SMALL, intermediate_size=48, is_decoder=True, add_cross_attention=True),
        "attend to an encoder",
    ),
    "layers read each other's keys": (
        lambda: build(
            "Gemma3nForCausalLM", "Gemma3nTextConfig", **SMALL, num_key_value_heads=2, head_dim=8, intermediate_size=48,
            num_kv_shared_layers=2, hidden_size_per_layer_input=8, vocab_size_per_layer_input=64, laurel_rank=4,
            layer_types=["sliding_attention", "full_attention"] * 2, activation_sparsity_pattern=[0.0] * 4,
        ),
        "read each other's keys and values (`num_kv_shared_layers`",
    ),
    "layers keep their states": (
        lambda: build(
            "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", **SMALL, num_key_value_heads=1, lru_width=32, intermediate_size=48,
        ),
        "keep the states of the past themselves",
    ),
    "a layer is several lists": (
        lambda: build("XLMWithLMHeadModel", "XLMConfig", emb_dim=32, n_layers=4, n_heads=4, n_words=64),
        "in one list of modules; found `transformer.attentions`",
    ),
    "no model of transformers": (lambda: nn.Sequential(nn.Linear(3, 3)), "no Hugging Face model"),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_model_that_can_have_no_route_is_refused(name):
    make, reason = AT_ONCE[name]
    model = make()
    kind, keys = type(model), list(model.state_dict())
    with pytest.raises(CompileError) as raised:
        dg.hf.reroute(model, "1..4")
    assert raised.value.code == "unroutable-model"
    assert reason in raised.value.message
    assert type(model) is kind
    assert list(model.state_dict()) == keys


def test_one_module_at_two_places_is_refused():
    model = tiny("llama")
    model.model.layers[1] = model.model.layers[0]
    with pytest.raises(CompileError, match="at several places"):
        dg.hf.reroute(model, "1..4")


IN_A_FORWARD = {
    "takes more than the hidden state": lambda: build(
        "RwkvForCausalLM", "RwkvConfig", **{**SHARED, "attention_hidden_size": 32, "intermediate_size": 48}
    ),
    "hands biases on": lambda: build(
        "CpmAntForCausalLM", "CpmAntConfig", hidden_size=32, num_attention_heads=4, dim_head=8, dim_ff=48,
        num_hidden_layers=4, vocab_size=64,
    ),
}  # fmt: skip


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("name", IN_A_FORWARD)
def test_a_loop_that_takes_more_from_a_layer_is_refused_when_it_runs(name, rows):
    model = dg.hf.reroute(IN_A_FORWARD[name](), "1 2x2 3..4")
    with pytest.raises(CompileError) as raised:
        model(prompts(*[6] * rows)["input_ids"])
    assert raised.value.code == "unroutable-model"
    assert "does more than hand the hidden state from layer 1 to the next" in raised.value.message
    assert dg.hf.restore(model)(prompts(*[6] * rows)["input_ids"]) is not None


class Between(LlamaModel):
    """A model of a user, which does something between layers."""

    change = staticmethod(lambda index, h: h)

    def forward(self, input_ids, **named):
        h = self.embed_tokens(input_ids)
        positions = torch.arange(h.shape[1])[None]
        rotary = self.rotary_emb(h, positions)
        for index, layer in enumerate(self.layers):
            h = layer(self.change(index, h), position_embeddings=rotary)
        return self.norm(h)


BETWEEN = {
    1: lambda index, h: h + 1 if index == 1 else h,
    2: lambda index, h: h[:1] if index == 2 else h,
    3: lambda index, h: h.clone() if index == 3 else h,
    4: lambda index, h: h.add_(1) if index == 2 else h,
}


@pytest.mark.parametrize("layer", BETWEEN)
def test_a_model_that_changes_the_hidden_state_between_layers_is_refused(layer):
    model = Between(tiny("llama").config)
    model.change = BETWEEN[layer]
    dg.hf.reroute(model, "1..3 2..4")
    with torch.no_grad(), pytest.raises(CompileError) as raised:
        model(prompts(5, 4)["input_ids"])
    assert raised.value.code == "unroutable-model"
    assert f"from layer {layer} to the next" in raised.value.message


def test_before_its_first_layer_and_after_its_last_a_model_does_what_it_likes():
    model = Between(tiny("llama").config)
    model.change = lambda index, h: 2 * h if index == 0 else h
    dg.hf.reroute(model, "1..3 2..4")
    with torch.no_grad():
        twice = model(prompts(5, 4)["input_ids"])
        model.embed_tokens.weight.mul_(2)
        model.change = lambda index, h: h
        assert torch.equal(model(prompts(5, 4)["input_ids"]), twice)


def test_an_assistant_of_the_first_layers_is_refused_and_the_config_stays():
    model = dg.hf.reroute(tiny("llama"), "1..3 2..4")
    with pytest.raises(CompileError) as raised:
        model.generate(**prompts(5), max_new_tokens=4, assistant_early_exit=2, do_sample=False)
    assert raised.value.code == "unroutable-model"
    assert model.config.num_hidden_layers == 4


@pytest.mark.parametrize("name", ["bloom", "falcon", "gpt2", "llama"])
def test_one_row_and_one_token_are_no_reason_to_refuse(name):
    for lengths in ((1,), (1, 1), (5,), (2, 2)):
        model, inputs = tiny(name), prompts(*lengths)
        expected = model(**inputs).logits
        assert torch.equal(dg.hf.reroute(model, "1..4")(**inputs).logits, expected)


def test_continuous_batching_is_refused_before_its_thread_starts():
    model = dg.hf.reroute(tiny("llama"), "1..3 2..4")
    for start in (lambda: model.generate_batch([[5, 6, 7]], max_new_tokens=2), model.init_continuous_batching):
        with pytest.raises(CompileError) as raised:
            start()
        assert raised.value.code == "cache-mismatch"
