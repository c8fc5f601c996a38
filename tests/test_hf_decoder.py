"""The reference decoder as a Hugging Face model: equal to the plain one, saved once, loaded anywhere, trained alike."""

import copy
import json
import pickle
import subprocess
import sys
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("transformers")
from hf_decoders import FLOW, POSITIONS, ROUTE, batch, plain, small
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from transformers import AutoModel, AutoModelForCausalLM, PreTrainedModel, set_seed

from depthgraph.errors import CompileError, ConfigError
from depthgraph.hf.decoder_base import DepthGraphModel
from depthgraph.hf.decoder_layers import DepthGraphLayer
from depthgraph.hf.decoder_model import DepthGraphConfig, DepthGraphForCausalLM, from_decoder
from depthgraph.nn import Decoder, Scale

from strategies import flow_routes

pytestmark = pytest.mark.usefixtures("one_thread")
positions = pytest.mark.parametrize("positions", POSITIONS)
EXITS = "1 2 exit 3 exit 4"


def equal_states(one, other):
    assert list(one) == list(other)
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@settings(max_examples=30)
@given(
    route=st.one_of(flow_routes(), st.sampled_from([ROUTE, FLOW, EXITS])),
    kind=st.sampled_from(POSITIONS),
    lengths=st.tuples(st.integers(1, 3), st.integers(1, 9)),
)
def test_logits_and_gradients_equal_the_plain_decoders_to_the_last_bit(route, kind, lengths):
    depth = getattr(route, "parameter_depth", 4)
    named = {"route": str(route), "parameter_depth": depth, "positions": kind}
    decoder, model = plain(**named), small(**named)
    equal_states(decoder.state_dict(), model.model.state_dict())
    count, length = lengths
    tokens = batch(*[length] * count)["input_ids"]
    expected, found = decoder(tokens), model(tokens)
    if isinstance(expected, tuple):
        expected, exits = expected
        assert len(exits) == len(found.exit_logits)
        assert all(map(torch.equal, exits, found.exit_logits))
    else:
        assert found.exit_logits is None
    assert torch.equal(found.logits, expected)
    assert torch.equal(model(tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits, expected)
    expected.square().mean().backward()
    model(tokens, use_cache=False).logits.square().mean().backward()
    for name, parameter in decoder.named_parameters():
        gradient = model.model.get_parameter(name).grad
        assert (gradient is None) == (parameter.grad is None)
        assert gradient is None or torch.equal(gradient, parameter.grad), name


@positions
def test_eager_attention_computes_the_same(positions):
    model, tokens = small(positions=positions, attention="eager"), batch(9, 9)["input_ids"]
    torch.testing.assert_close(model(tokens).logits, plain(positions=positions)(tokens), rtol=1e-4, atol=1e-4)


@positions
def test_a_seed_gives_the_weights_that_it_gives_the_plain_decoder(positions):
    config = plain(positions=positions).config
    theirs = DepthGraphConfig.from_decoder_config(config)
    for seed in (0, 3):
        state = Decoder(config, seed=seed).state_dict()
        equal_states(state, DepthGraphForCausalLM(theirs, seed=seed).model.state_dict())
        equal_states(state, DepthGraphModel(theirs, seed=seed).state_dict())
        equal_states(state, AutoModelForCausalLM.from_config(theirs, seed=seed).model.state_dict())


def test_without_a_seed_weights_follow_from_the_global_generator():
    config = small().config
    states = []
    for seed in (1, 1, 2):
        set_seed(seed)
        states.append(DepthGraphForCausalLM(config).state_dict())
    equal_states(*states[:2])
    assert not torch.equal(states[0]["lm_head.weight"], states[2]["lm_head.weight"])


@pytest.mark.parametrize("route", [ROUTE, FLOW, EXITS])
@positions
def test_a_decoder_becomes_a_model_with_a_copy_of_its_weights(positions, route):
    decoder = plain(positions=positions, route=route)
    decoder.norm.weight.requires_grad_(False)
    model, tokens = from_decoder(decoder, eos_token_id=5), batch(7, 7)["input_ids"]
    expected = decoder(tokens)
    expected = expected[0] if isinstance(expected, tuple) else expected
    assert torch.equal(model(tokens).logits, expected)
    assert model.config.eos_token_id == 5
    assert not model.model.norm.weight.requires_grad
    assert model.lm_head.weight is model.model.embedding.weight
    with torch.no_grad():
        decoder.embedding.weight.zero_()
    assert torch.equal(model(tokens).logits, expected)
    half = from_decoder(plain(route=route).to(torch.bfloat16).train())
    assert (half.dtype, half.training) == (torch.bfloat16, True)


@pytest.mark.filterwarnings("ignore:the model runs with")
def test_a_decoder_with_counts_becomes_a_model_with_counts():
    options = {"dynamic": {"r": 2}, "bindings": {"k": 1}, "backprop_last": 1}
    decoder = plain(route="1 (2 3 save(a) 2 mix(a))x r 4x k", options=options)
    model, tokens = from_decoder(decoder), batch(7)["input_ids"]
    assert (model.config.loop_counts, model.config.route_bindings) == ({"r": 2}, {"k": 1})
    for counts in ({}, {"r": 4}):
        assert torch.equal(model(tokens, **counts).logits, decoder(tokens, **counts))
    decoder(tokens).sum().backward()
    model(tokens).logits.sum().backward()
    cut = plain(route="1 (2 3 save(a) 2 mix(a))x r 4x k", options={**options, "backprop_last": None})
    cut(tokens).sum().backward()
    for name, parameter in decoder.named_parameters():
        gradient = model.model.get_parameter(name).grad
        assert (gradient is None) == (parameter.grad is None)
        assert gradient is None or torch.equal(gradient, parameter.grad)
    assert not torch.equal(cut.body.layers[1].ffn.up.weight.grad, decoder.body.layers[1].ffn.up.weight.grad)
    free = plain(route="1 (2 3)x r 4", options={"dynamic": ["r"]})
    with pytest.raises(ConfigError, match="`loop_counts`"):
        from_decoder(free)
    assert from_decoder(free, loop_counts={"r": 3}).config.execution_depth == 8


def test_what_a_config_cannot_say_is_refused():
    class Own(nn.Module):
        def forward(self, hidden, rotary=None):
            return hidden

    config = plain().config
    with pytest.raises(ConfigError, match="layers of your own, `Own`") as caught:
        from_decoder(Decoder(config, layers=[Own() for _ in range(4)]))
    assert caught.value.code == "invalid-config"
    with pytest.raises(ConfigError, match="conditioning"):
        from_decoder(plain(options={"conditioning": [Scale(1.0, learned=True)]}))
    with pytest.raises(ConfigError, match="conditioning"):
        from_decoder(plain(options={"conditioning": [Scale(0.5)]}))


FRESH = """
import pathlib, sys, torch
import depthgraph.hf
from transformers import AutoModelForCausalLM
torch.set_num_threads(1)
tokens = torch.tensor([[5, 6, 7, 8, 9], [1, 2, 3, 4, 5]])
for folder in pathlib.Path(sys.argv[1]).iterdir():
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    torch.save([model.eval()(tokens).logits, model.generate(tokens, max_new_tokens=5, do_sample=False)], folder / "is.pt")
"""


def test_a_saved_model_is_the_same_in_a_fresh_process_and_has_every_weight_once(tmp_path):
    tokens = torch.tensor([[5, 6, 7, 8, 9], [1, 2, 3, 4, 5]])
    models = {name: small(positions=name) for name in POSITIONS}
    models |= {"flow": small(route=FLOW), "counts": small(route="1 (2 3)x r 4", loop_counts={"r": 3})}
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
        stored = load_file(tmp_path / name / "model.safetensors")
        wanted = {f"model.{key}": tensor for key, tensor in model.model.state_dict().items()}
        equal_states(dict(sorted(stored.items())), dict(sorted(wanted.items())))
        assert sum(tensor.numel() for tensor in stored.values()) == model.num_parameters()
    subprocess.run([sys.executable, "-c", FRESH, tmp_path], check=True, capture_output=True)
    for name, model in models.items():
        logits, generated = torch.load(tmp_path / name / "is.pt")
        assert torch.equal(logits, model(tokens).logits), name
        assert torch.equal(generated, model.generate(tokens, max_new_tokens=5, do_sample=False)), name


def test_what_is_saved_loads_into_a_plain_decoder_and_into_the_base_model(tmp_path):
    model, tokens = small(route=FLOW), batch(6)["input_ids"]
    model.save_pretrained(tmp_path)
    decoder = Decoder(model.config.decoder_config)
    state = {name.removeprefix("model."): tensor for name, tensor in model.state_dict().items()}
    state.pop("lm_head.weight")
    decoder.load_state_dict(state)
    assert torch.equal(decoder(tokens), model(tokens).logits)
    base = AutoModel.from_pretrained(tmp_path)
    assert isinstance(base, DepthGraphModel)
    equal_states(base.state_dict(), state)


def test_a_checkpoint_of_one_route_loads_under_another(tmp_path):
    small().save_pretrained(tmp_path)
    model, info = AutoModelForCausalLM.from_pretrained(tmp_path, route="(1..4)x2", output_loading_info=True)
    assert not any(info.values())
    assert model.config.execution_depth == 8


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_weights_that_a_checkpoint_lacks_are_as_fresh_ones(tmp_path):
    stored = small(route=ROUTE)
    stored.save_pretrained(tmp_path)
    model, info = AutoModelForCausalLM.from_pretrained(tmp_path, route=FLOW, output_loading_info=True)
    assert set(info["missing_keys"]) == {"model.body.mix_1.weight", "model.body.gate_1.weight"}
    fresh = DepthGraphForCausalLM(model.config)
    for name in ("mix_1", "gate_1"):
        key = f"body.{name}.weight"
        assert torch.equal(model.model.get_parameter(key), fresh.model.get_parameter(key))
    state = dict(stored.state_dict())
    lost = [name for name in state if ".layers.2." in name]
    large = DepthGraphConfig.from_decoder_config(stored.config.decoder_config, hidden_size=96, init_std_is=None)
    large = DepthGraphForCausalLM(large)
    state = {name: tensor for name, tensor in large.state_dict().items() if name not in lost and "lm_head" not in name}
    model = DepthGraphForCausalLM.from_pretrained(None, config=large.config, state_dict=state)
    layer = model.model.layers[2]
    assert torch.equal(layer.ffn_norm.weight, torch.ones(96))
    assert layer.ffn.up.weight.std().item() == pytest.approx(0.3, rel=0.1)
    assert layer.ffn.down.weight.std().item() == pytest.approx(0.3 / 8**0.5, rel=0.1)
    assert layer.attention.out.weight.std().item() == pytest.approx(0.3 / 8**0.5, rel=0.1)
    assert torch.equal(model.model.layers[1].ffn.up.weight, large.model.layers[1].ffn.up.weight)


@pytest.mark.parametrize("route", [ROUTE, FLOW, EXITS, "1 (2 3)x2 sum(4 | 2)"])
def test_hidden_states_have_one_entry_an_execution(route):
    model, tokens = small(route=route), batch(6, 6)["input_ids"]
    seen = []
    for layer in model.model.layers:
        layer.register_forward_hook(lambda module, args, output: seen.append(output))
    states = model(tokens, output_hidden_states=True).hidden_states
    assert len(states) == len(seen) + 1 == model.config.execution_depth + 1
    assert torch.equal(states[0], model.model.embedding(tokens))
    assert all(map(torch.equal, states[1:-1], seen[:-1]))
    assert torch.equal(states[-1], model.model(tokens).last_hidden_state)
    assert torch.equal(model.lm_head(states[-1]), model(tokens).logits)


@pytest.mark.filterwarnings("ignore:the model runs with")
def test_hidden_states_are_chosen_from_the_end_too_at_any_count():
    model, tokens = small(route="1 (2 3)x r 4", loop_counts={"r": 2}), batch(6)["input_ids"]
    for counts in ({}, {"r": 4}):
        every = model(tokens, output_hidden_states=True, **counts).hidden_states
        assert len(every) == 3 + 2 * counts.get("r", 2)
        for index in (0, 2, -1, -3):
            states = model(tokens, output_hidden_states=index, **counts).hidden_states
            assert torch.equal(states[index], every[index])
            assert sum(state is not None for state in states) == 1
        states = model.model(tokens, output_hidden_states=[1, -2], **counts).hidden_states
        assert [place for place, state in enumerate(states) if state is not None] == [1, len(every) - 2]


def test_attentions_have_one_entry_an_execution_where_they_are_computed():
    model, told = small(attention="eager"), batch(6, 4)
    found = model(**told, output_attentions=True).attentions
    assert [one.shape for one in found] == [(2, 3, 6, 6)] * 7
    assert all(torch.allclose(one.sum(-1), torch.ones(2, 3, 6)) for one in found)
    assert all(bool((one[1, :, 3:, :2] == 0).all()) for one in found)
    with pytest.raises(ConfigError, match="attention by `sdpa` has no weights") as caught:
        small()(**told, output_attentions=True)
    assert "set_attn_implementation" in caught.value.help
    model = small()
    model.set_attn_implementation("eager")
    assert len(model(**told, output_attentions=True).attentions) == 7


def test_labels_give_the_loss_of_the_next_token():
    model, tokens = small(), batch(7, 7)["input_ids"]
    labels = tokens.clone()
    labels[0, :3] = -100
    found = model(tokens, labels=labels)
    logits = plain()(tokens)
    wanted = functional.cross_entropy(logits[:, :-1].reshape(-1, 64), labels[:, 1:].reshape(-1))
    torch.testing.assert_close(found.loss, wanted)
    share = model(tokens, labels=labels, num_items_in_batch=torch.tensor(20)).loss
    torch.testing.assert_close(share * 20, wanted * int((labels[:, 1:] != -100).sum()))
    assert torch.equal(model(tokens, logits_to_keep=2).logits, found.logits[:, -2:])
    assert torch.equal(model(tokens, logits_to_keep=torch.tensor([1, 3])).logits, found.logits[:, [1, 3]])
    assert torch.equal(model(tokens, labels=labels, return_dict=False)[0], found.loss)
    model.config.return_dict = False
    assert torch.equal(model(tokens, labels=labels)[0], found.loss)
    assert torch.equal(model.lm_head(model.model(tokens)[0]), found.logits)
    assert model.generate(tokens, max_new_tokens=2).shape == (2, 9)


def test_the_outputs_of_exits_are_cut_like_the_logits():
    model, tokens = small(route=EXITS), batch(7)["input_ids"]
    found, few = model(tokens), model(tokens, logits_to_keep=2)
    assert [logits.shape for logits in few.exit_logits] == [(1, 2, 64)] * 2
    assert torch.equal(few.exit_logits[1], found.exit_logits[1][:, -2:])
    assert model.generate(tokens, max_new_tokens=4).shape == (1, 11)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(
    "changes", [{}, {"route": FLOW, "positions": "alibi"}, {"route": EXITS, "positions": "learned"}]
)
def test_checkpointing_recomputes_every_execution_and_keeps_the_gradients(changes, reentrant):
    found = []
    for checkpointing in (False, True):
        model, told = small(**changes).train(), batch(6, 4)
        runs = []
        for layer in model.model.layers:
            layer.attention.register_forward_hook(lambda *args, runs=runs: runs.append(1))
        if checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": reentrant})
        model(**told, labels=told["input_ids"]).loss.backward()
        found.append(({name: each.grad for name, each in model.named_parameters()}, len(runs)))
    (gradients, once), (checkpointed, again) = found
    assert (once, again) == (model.config.execution_depth, 2 * model.config.execution_depth)
    for name, gradient in gradients.items():  # reentrant checkpointing sums what executions give in another order
        assert torch.equal(gradient, checkpointed[name]) or reentrant, name
        torch.testing.assert_close(gradient, checkpointed[name], msg=name)


def test_checkpointing_and_a_cache_are_refused_together_but_not_in_generate():
    model, told = small().train(), batch(6)
    model.activation_checkpointing_enable()
    with pytest.raises(CompileError, match="fill a cache twice") as caught:
        model(**told, use_cache=True)
    assert caught.value.code == "cache-mismatch"
    assert torch.equal(model.generate(**told, max_new_tokens=4), small().generate(**told, max_new_tokens=4))


def test_a_resized_embedding_is_resized_in_the_output_too(tmp_path):
    model, tokens = small(), batch(6)["input_ids"]
    before = model(tokens).logits
    model.resize_token_embeddings(70, mean_resizing=False)
    assert model.config.vocab_size == 70
    assert model.lm_head.weight is model.get_input_embeddings().weight is model.get_output_embeddings().weight
    after = model(torch.cat([tokens, torch.tensor([[69]])], 1)).logits
    torch.testing.assert_close(after[:, :6, :64], before)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.lm_head.out_features == 70
    assert torch.equal(loaded.get_input_embeddings().weight, model.get_input_embeddings().weight)
    assert json.loads((tmp_path / "config.json").read_text())["vocab_size"] == 70


def test_another_count_than_the_trained_one_warns_once():
    model, tokens = small(route="1 (2 3)x r 4", loop_counts={"r": 2}), batch(6)["input_ids"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(model(tokens).logits, model(tokens, r=2).logits)
    with pytest.warns(UserWarning, match="r=3, and it was trained with 2") as caught:
        three = model(tokens, r=3).logits
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.generate(tokens, max_new_tokens=3, r=5)
    assert torch.equal(three, plain(route="1 (2 3)x3 4")(tokens))


def test_arguments_that_mean_nothing_are_refused():
    model, tokens = small(route="1 (2 3)x r 4", loop_counts={"r": 2}), batch(6)["input_ids"]
    with pytest.raises(CompileError, match="takes no argument `R`") as caught:
        model(tokens, R=3)
    assert caught.value.help == "its loop counts are r"
    with pytest.raises(CompileError, match="takes no argument `is_causal`"):
        model(tokens, is_causal=False)
    with pytest.raises(ValueError, match="R"):
        model.generate(tokens, R=3, max_new_tokens=2)
    with pytest.raises(CompileError, match="`r` is 'two'"):
        model.generate(tokens, r="two", max_new_tokens=2)
    with pytest.raises(ConfigError, match="not both"):
        model(tokens, inputs_embeds=model.model.embedding(tokens))


def test_embedded_tokens_are_taken_instead_of_tokens():
    model, told = small(positions="learned"), batch(6, 4)
    embedded = model.get_input_embeddings()(told["input_ids"])
    found = model(inputs_embeds=embedded, attention_mask=told["attention_mask"]).logits
    assert torch.equal(found, model(**told).logits)
    generated = model.generate(inputs_embeds=embedded, attention_mask=told["attention_mask"], max_new_tokens=4)
    assert torch.equal(generated, model.generate(**told, max_new_tokens=4)[:, 6:])


@pytest.mark.parametrize("changes", [{"route": FLOW}, {"route": "1 (2 3)x r 4", "loop_counts": {"r": 2}}])
def test_a_copy_and_a_pickle_are_the_same_model(changes):
    model, tokens = small(**changes), batch(6)["input_ids"]
    expected = model(tokens)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(tokens).logits, expected.logits)
        assert torch.equal(twin.generate(tokens, max_new_tokens=3), model.generate(tokens, max_new_tokens=3))
        twin.model.layers[1].ffn.up.weight.data.zero_()
        assert torch.equal(model(tokens).logits, expected.logits)
        assert twin.lm_head.weight is twin.model.embedding.weight


@positions
def test_it_exports_with_a_dynamic_length(positions):
    model = small(positions=positions)

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, tokens):
            return self.model(tokens, use_cache=False).logits

    sizes = ({0: torch.export.Dim("batch", min=2), 1: torch.export.Dim("length", min=2, max=32)},)
    exported = torch.export.export(Logits(), (batch(5, 5)["input_ids"],), dynamic_shapes=sizes).module()
    other = batch(9, 9, 9)["input_ids"]
    torch.testing.assert_close(exported(other), model(other).logits)


def test_it_is_what_transformers_takes_for_a_model():
    model = small()
    assert isinstance(model, PreTrainedModel)
    assert model.base_model is model.model
    assert model.can_generate()
    assert model.num_parameters() == model.config.decoder_config.parameter_count
    assert model._no_split_modules == {DepthGraphLayer.__name__}
    assert len(model.model.layers) == model.config.num_hidden_layers == 4
    assert type(AutoModelForCausalLM.from_config(model.config)) is DepthGraphForCausalLM
