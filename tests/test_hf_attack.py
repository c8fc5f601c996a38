"""Odd uses of Hugging Face models with a route: what would go wrong silently, and what is given wrongly."""

import copy
import json

import pytest
import torch
import transformers

import depthgraph as dg
from depthgraph.errors import CompileError, DepthGraphError

from hf_models import prompts, tiny, unrolled

ROUTE = "block(2..3)x2"


@pytest.fixture
def folder(tmp_path):
    """A saved model with a route."""
    dg.hf.reroute(tiny("llama"), ROUTE).save_pretrained(tmp_path / "routed")
    return tmp_path / "routed"


@pytest.fixture
def plain(tmp_path):
    """The same model, saved without."""
    tiny("llama").save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


def damaged(folder, **fields):
    said = json.loads((folder / "config.json").read_text()) | fields
    said = {name: value for name, value in said.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(said))
    return folder


@pytest.mark.parametrize("kind", ["TokenClassification", "QuestionAnswering", "SequenceClassification", "CausalLM"])
def test_every_auto_class_loads_the_route(folder, kind):
    auto = getattr(transformers, f"AutoModelFor{kind}")
    model, ids = auto.from_pretrained(folder), prompts(5)["input_ids"]
    states = model(ids, output_hidden_states=True).hidden_states
    assert model.route.path == (1, 2, 3, 2, 3, 4)
    assert len(states) == 7


def test_a_model_that_shares_its_config_object_is_not_saved_with_the_route_of_the_other(tmp_path):
    one = tiny("llama")
    other = transformers.LlamaForCausalLM(one.config).eval()
    assert one.config is other.config
    ids = prompts(5)["input_ids"]
    expected = other(ids).logits
    dg.hf.reroute(one, ROUTE)
    other.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert not hasattr(loaded, "route")
    assert loaded(ids).logits.equal(expected)
    assert {id(part.config) for part in one.modules() if hasattr(part, "config")} == {id(one.config)}


def test_an_auto_class_may_be_the_class_of_a_model(plain):
    ids = prompts(5)["input_ids"]
    model = dg.hf.from_pretrained(plain, ROUTE, auto_class=transformers.LlamaForCausalLM)
    base = dg.hf.from_pretrained(plain, ROUTE, auto_class=transformers.LlamaModel)
    expected = unrolled(tiny("llama"), (1, 2, 3, 2, 3, 4))
    assert model(ids).logits.equal(expected(ids).logits)
    assert base(ids)[0].equal(expected.model(ids)[0])


def test_counts_that_are_given_without_a_route_are_those_of_the_stored_one(tmp_path, folder):
    dg.hf.reroute(tiny("llama"), "1 (2 3)x r 4", dynamic={"r": 2}).save_pretrained(tmp_path / "loop")
    model = dg.hf.from_pretrained(tmp_path / "loop", dynamic={"r": 3})
    assert model.config.loop_counts == {"r": 3}
    assert model.route.path == (1, 2, 3, 2, 3, 2, 3, 4)
    for given in ({"dynamic": {"r": 3}}, {"bindings": {"r": 3}}):
        with pytest.raises(dg.SpecError, match="no name `r`"):
            dg.hf.from_pretrained(folder, **given)


def test_a_config_that_is_given_stays_as_it_is(plain):
    config = transformers.AutoConfig.from_pretrained(plain)
    kind, before = type(config), copy.deepcopy(config)
    dg.hf.from_pretrained(plain, ROUTE, config=config)
    assert type(config) is kind
    assert config.to_dict() == before.to_dict()


def test_settings_of_the_config_are_keywords_as_for_auto_classes(plain):
    auto = transformers.AutoModelForSequenceClassification
    model = dg.hf.from_pretrained(plain, "1..3 2", auto_class=auto, num_labels=3, num_hidden_layers=3, dtype="bfloat16")
    assert model.score.out_features == 3
    assert model.route.path == (1, 2, 3, 2)
    assert model.dtype == torch.bfloat16


@pytest.mark.parametrize("route", [..., None, 3, ["1..4"]])
def test_a_file_that_says_no_route_is_refused_and_not_run_without_one(folder, route):
    damaged(folder, route=route)
    for load in (transformers.AutoModelForCausalLM.from_pretrained, dg.hf.from_pretrained):
        with pytest.raises(dg.ConfigError, match="`route` is the text of the route"):
            load(folder)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("base_model_type", ["llama"], "`base_model_type` names"),
        ("base_model_type", ..., "`base_model_type` names"),
        ("route_bindings", "r", "`bindings` are values"),
        ("loop_counts", 3, "`dynamic` names"),
        ("kv_cache", 3, "`kv_cache` is one of"),
    ],
)
def test_a_damaged_field_is_named(folder, field, value, said):
    with pytest.raises(dg.DepthGraphError, match=said):
        transformers.AutoModelForCausalLM.from_pretrained(damaged(folder, **{field: value}))


def test_a_route_that_is_given_by_keyword_is_text(folder):
    with pytest.raises(dg.ConfigError, match="text of the route"):
        transformers.AutoModelForCausalLM.from_pretrained(folder, route=dg.route("lft(4)", N=4))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"dynamic": 3}, "`dynamic` names"),
        ({"bindings": ["r"]}, "`bindings` are values"),
        ({"bindings": {"r": 2, "N": 5}}, "number of the model's layers"),
        ({"dynamic": {"r": 2}, "bindings": {"N": 5}}, "number of the model's layers"),
    ],
)
def test_names_that_are_given_wrongly_change_nothing(named, said):
    model, ids = tiny("llama"), prompts(5)["input_ids"]
    kind, config, expected = type(model), model.config, model(ids).logits
    with pytest.raises(dg.CompileError, match=said):
        dg.hf.reroute(model, "1 (2 3)x r 4", **named)
    assert type(model) is kind
    assert model.config is config
    assert model(ids).logits.equal(expected)


@pytest.mark.parametrize(
    "model", [None, "folder", 3, transformers.LlamaConfig()], ids=lambda value: type(value).__name__
)
def test_what_is_no_model_is_refused(model):
    with pytest.raises(dg.CompileError, match="no torch module"):
        dg.hf.reroute(model, ROUTE)
    for call in (dg.hf.restore, dg.hf.unroll, dg.hf.model_card):
        with pytest.raises(dg.CompileError, match="has no route"):
            call(model)


def test_weights_of_a_route_that_is_set_in_inference_mode_can_be_trained():
    model, ids = tiny("llama"), prompts(5)["input_ids"]
    with torch.inference_mode():
        dg.hf.reroute(model, "1 save(e) (mix(e) 2 3)x2 4")
    model(ids, labels=ids).loss.backward()
    assert model.model.depthgraph.mix_1.weight.grad is not None


@pytest.mark.filterwarnings("ignore:the model runs with")
def test_guidance_runs_the_model_once_more_at_the_same_loop_counts():
    model, given = tiny("llama"), prompts(3, 9)
    expected = unrolled(model, (1, 2, 3, 2, 3, 2, 3, 2, 3, 4))
    dg.hf.reroute(model, "1 (2 3)x r 4", dynamic={"r": 1})
    named = {**given, "guidance_scale": 3.0, "max_new_tokens": 6, "do_sample": False}
    assert model.generate(**named, r=4).equal(expected.generate(**named))
    assert not model.generate(**named).equal(expected.generate(**named))


@pytest.mark.filterwarnings("ignore:the model runs with")
def test_guidance_runs_the_reference_decoder_at_the_same_loop_counts():
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4}
    sizes |= {"num_attention_heads": 4, "pad_token_id": 0, "initializer_range": 0.3}
    ids = prompts(7)["input_ids"]
    named = {"attention_mask": torch.ones_like(ids), "guidance_scale": 3.0, "max_new_tokens": 6, "do_sample": False}
    config = dg.hf.DepthGraphConfig(**sizes, route="1 (2 3)x r 4", loop_counts={"r": 1})
    model = dg.hf.DepthGraphForCausalLM(config, seed=0).eval()
    fixed = dg.hf.DepthGraphForCausalLM(dg.hf.DepthGraphConfig(**sizes, route="1 (2 3)x4 4"), seed=0).eval()
    fixed.load_state_dict(model.state_dict())
    assert model.generate(ids, **named, r=4).equal(fixed.generate(ids, **named))
    assert not model.generate(ids, **named).equal(fixed.generate(ids, **named))


def test_loop_counts_in_a_generation_config_are_refused_and_not_ignored():
    model = dg.hf.reroute(tiny("llama"), "1 (2 3)x r 4", dynamic={"r": 1})
    config = transformers.GenerationConfig(max_new_tokens=2, r=4)
    with pytest.raises(dg.CompileError, match="generation config says the loop count `r`"):
        model.generate(prompts(5)["input_ids"], config)


def test_a_base_model_that_is_part_of_another_shares_its_config_as_before(tmp_path):
    model, ids = tiny("llama"), prompts(5)["input_ids"]
    dg.hf.reroute(model.model, ROUTE)
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded(ids).logits.equal(model(ids).logits)


@pytest.mark.filterwarnings("ignore:the model runs with")
def test_a_saved_reference_decoder_is_loaded_under_its_route_or_another(tmp_path):
    config = dg.hf.DepthGraphConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
        route="1 (2 3)x r 4", loop_counts={"r": 2}, backprop_last={"r": 1},
    )  # fmt: skip
    dg.hf.DepthGraphForCausalLM(config, seed=0).save_pretrained(tmp_path)
    own, deeper, other = (
        dg.hf.from_pretrained(tmp_path, **named) for named in ({}, {"dynamic": {"r": 5}}, {"route": "lft(4)"})
    )
    assert [model.config.execution_depth for model in (own, deeper, other)] == [6, 12, 8]
    assert deeper.config.backprop_last == {"r": 1}
    ids = prompts(5)["input_ids"]
    assert deeper(ids).logits.equal(own(ids, r=5).logits)
    with pytest.raises(dg.ConfigError, match="last_visit"):
        dg.hf.from_pretrained(tmp_path, kv_cache="last_visit")
    with pytest.raises(dg.SpecError, match="layer 5"):
        dg.hf.from_pretrained(tmp_path, "lft(9)")


@pytest.mark.parametrize("name", ["past_key_values", "cache_params", "return_dict", "labels", "max_new_tokens"])
def test_a_loop_count_has_no_name_that_models_take(name):
    with pytest.raises(dg.CompileError, match=f"`{name}` is a loop count, and an argument"):
        dg.hf.reroute(tiny("llama"), f"1 (2 3)x {name} 4", dynamic={name: 2})


def test_counts_of_a_fixed_route_are_refused_and_not_left_out():
    model = dg.hf.reroute(tiny("llama"), "1 2x2 3..4")
    for call in (dg.hf.unroll, dg.hf.model_card):
        with pytest.raises(CompileError, match="the model has no loop count `r`"):
            call(model, r=3)


def test_a_config_that_says_another_route_than_runs_is_not_saved(tmp_path):
    model = dg.hf.reroute(tiny("llama"), "1 2x2 3..4")
    model.config.route = "1..4"
    with pytest.raises(CompileError, match=r"the config says `1\.\.4`"):
        model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(("tokenizer", "code"), [("/nonexistent", "missing-file"), (3, "invalid-config")])
def test_what_is_no_tokenizer_is_refused_and_nothing_is_written(tokenizer, code, tmp_path):
    model = dg.hf.reroute(tiny("llama"), "1 2x2 3..4")
    for save in (dg.hf.save_standalone, dg.hf.save_unrolled):
        with pytest.raises(DepthGraphError) as raised:
            save(model, tmp_path / "model", tokenizer=tokenizer)
        assert raised.value.code == code
        assert not (tmp_path / "model").exists()
