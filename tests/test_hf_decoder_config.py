"""The config of the reference decoder as a Hugging Face model: what is honoured, and what is refused, when."""

import json

import pytest
import torch

pytest.importorskip("transformers")
from hf_decoders import SIZES, batch, small
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from depthgraph.decoder_config import PRESETS, DecoderConfig
from depthgraph.errors import CompileError, ConfigError, DepthGraphError, SpecError
from depthgraph.hf.decoder_config import NAMES
from depthgraph.hf.decoder_model import DepthGraphConfig, DepthGraphForCausalLM

TINY = {"vocab_size": 64, "hidden_size": 24, "intermediate_size": 40, "num_attention_heads": 3, "num_hidden_layers": 4}


def tiny(**changes):
    return DepthGraphConfig(**{**TINY, **changes})


def test_the_file_says_the_layers_and_the_route_as_plain_text(tmp_path):
    config = tiny(num_hidden_layers=6, route="lft(N)")
    config.save_pretrained(tmp_path)
    told = json.loads((tmp_path / "config.json").read_text())
    assert (told["model_type"], told["num_hidden_layers"]) == ("depthgraph", 6)
    assert told["route"] == config.route == "1..2 (i..i+2 for i in 1..4)"
    assert (config.num_hidden_layers, config.execution_depth) == (6, 14)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert isinstance(loaded, DepthGraphConfig)
    assert {**loaded.to_dict(), "_name_or_path": ""} == config.to_dict()


def test_loop_counts_are_in_the_file_and_the_depth_is_that_of_the_trained_ones(tmp_path):
    config = tiny(route="1 (2 3)x r (4)x k", loop_counts={"r": 3}, route_bindings={"k": 2})
    assert config.execution_depth == 9
    config.save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert (loaded.route, loaded.loop_counts, loaded.route_bindings) == ("1 (2 3)x r (4)x k", {"r": 3}, {"k": 2})
    assert loaded.execution_depth == 9


def test_names_bound_in_a_route_without_counts_are_written_into_its_text():
    config = tiny(route="1 (2 3)x r 4", route_bindings={"r": 3})
    assert (config.route, config.route_bindings) == ("1 (2..3)x3 4", None)


@pytest.mark.parametrize("name", PRESETS)
def test_the_settings_are_those_of_the_decoder_under_other_names(name):
    config = DepthGraphConfig.from_decoder_config(PRESETS[name], eos_token_id=0)
    assert config.decoder_config.model_dump(exclude={"route"}) == PRESETS[name].model_dump(exclude={"route"})
    assert (config.hidden_size, config.num_hidden_layers) == (PRESETS[name].width, PRESETS[name].parameter_depth)
    assert set(NAMES) | {"route"} == set(DecoderConfig.model_fields)
    assert DepthGraphConfig().decoder_config.parameter_count == PRESETS["ilr-100m"].parameter_count


WRONG = [
    ({"hidden_size": 25}, ConfigError, "width 25 is no multiple of heads 3"),
    ({"hidden_size": "24"}, ConfigError, "`hidden_size`: Input should be a valid integer; found '24'"),
    ({"num_hidden_layers": 0}, ConfigError, "`num_hidden_layers`"),
    ({"num_hidden_layers": True}, ConfigError, "`num_hidden_layers`"),
    ({"positions": "rotary"}, ConfigError, "`positions`"),
    ({"rms_norm_eps": -1.0}, ConfigError, "`rms_norm_eps`"),
    ({"tie_word_embeddings": False}, ConfigError, "`tie_word_embeddings` is True here"),
    ({"route": "1 2 3 4 5"}, SpecError, "layer 5 does not exist"),
    ({"route": "1 2 3"}, SpecError, "layer 4 is never run"),
    ({"route": None}, ConfigError, "`route`"),
    ({"route": "1 (2 3)x r 4"}, SpecError, "r"),
    ({"loop_counts": {"r": 2}}, SpecError, "r"),
    ({"loop_counts": ["r"]}, ConfigError, "`loop_counts` is a dict"),
    ({"route": "1 (2 3)x r 4", "loop_counts": {"r": 2.0}}, ConfigError, "`loop_counts` is a dict"),
    ({"route": "1 (2 3)x r 4", "loop_counts": {"r": 0}}, CompileError, "the default of `r`"),
    ({"backprop_last": {"r": 2}}, CompileError, "`backprop_last`"),
]


@pytest.mark.parametrize(("wrong", "kind", "message"), WRONG)
def test_wrong_settings_are_refused_when_the_config_is_made(wrong, kind, message):
    with pytest.raises(kind) as caught:
        tiny(**wrong)
    assert message in str(caught.value)


@pytest.mark.parametrize(("wrong", "kind", "message"), WRONG)
def test_they_are_refused_again_when_a_model_is_built_before_any_weight_is_made(wrong, kind, message, monkeypatch):
    config = tiny()
    for name, value in wrong.items():
        setattr(config, name, value)
    monkeypatch.setattr(torch.nn, "Embedding", lambda *args: pytest.fail("a weight was made"))
    with pytest.raises(kind) as caught:
        DepthGraphForCausalLM(config)
    assert message in str(caught.value)


def test_a_wrong_setting_is_not_written(tmp_path):
    config = tiny()
    config.route = "1..9"
    with pytest.raises(SpecError):
        config.save_pretrained(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("width", "did you mean `hidden_size`?"),
        ("rout", "did you mean `route`?"),
        ("num_key_value_heads", "settings are"),
    ],
)
def test_settings_of_other_models_and_misspelt_ones_are_refused(name, help):
    with pytest.raises(ConfigError) as caught:
        tiny(**{name: 3})
    assert caught.value.code == "invalid-config"
    assert help in caught.value.help


def test_what_other_tools_note_in_a_config_is_kept(tmp_path):
    config = tiny(sep_token_id=3, a_tool_was_here={"version": 2})
    config.save_pretrained(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).a_tool_was_here == {"version": 2}


def test_a_route_that_is_set_after_construction_is_the_one_that_runs():
    config = tiny()
    config.route = "block(2..3)x3"
    model = DepthGraphForCausalLM(config)
    assert model.model.body.route.path == (1, 2, 3, 2, 3, 2, 3, 4)
    assert model.config.route == "1 (2..3)x3 4"


def test_a_route_by_keyword_of_from_pretrained_is_honoured_or_refused_before_weights_load(tmp_path, monkeypatch):
    stored = small()
    stored.save_pretrained(tmp_path)
    tokens = batch(7)["input_ids"]
    model = AutoModelForCausalLM.from_pretrained(tmp_path, route="(1 2)x3 3 4")
    assert model.config.route == "(1..2)x3 3..4"
    assert torch.equal(model(tokens).logits, small_with(stored, "(1 2)x3 3 4")(tokens).logits)

    class LoadedError(Exception):
        pass

    def load(*args, **named):
        raise LoadedError

    monkeypatch.setattr(PreTrainedModel, "_load_pretrained_model", load)
    with pytest.raises(LoadedError):
        AutoModelForCausalLM.from_pretrained(tmp_path, route="1..4")
    with pytest.raises(SpecError, match="layer 9 does not exist"):
        AutoModelForCausalLM.from_pretrained(tmp_path, route="1..9")
    with pytest.raises(TypeError, match="rout"):
        AutoModelForCausalLM.from_pretrained(tmp_path, rout="1..4")


def small_with(stored, route):
    config = DepthGraphConfig.from_decoder_config(stored.config.decoder_config, route=route)
    model = DepthGraphForCausalLM(config).eval()
    model.load_state_dict(stored.state_dict())
    return model


def test_a_route_by_keyword_comes_without_the_counts_of_the_stored_one(tmp_path):
    small(route="1 (2 3)x r 4", loop_counts={"r": 2}).save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, route="1..4 1..4")
    assert (model.config.loop_counts, model.model.counts) == (None, ())
    model = AutoModelForCausalLM.from_pretrained(tmp_path, route="(1..4)x s", loop_counts={"s": 2})
    assert model.config.execution_depth == 8
    model = AutoModelForCausalLM.from_pretrained(tmp_path, loop_counts={"r": 5})
    assert model.config.execution_depth == 12


@pytest.mark.parametrize("change", [{"route": "1..4"}, {"num_hidden_layers": 5}])
def test_a_route_that_is_changed_under_a_model_is_refused_when_it_runs_and_when_it_is_saved(change, tmp_path):
    model = small()
    for name, value in change.items():
        setattr(model.config, name, value)
    for run in (
        lambda: model(**batch(5)),
        lambda: model.save_pretrained(tmp_path),
        lambda: model.model.save_pretrained(tmp_path),
    ):
        with pytest.raises(ConfigError) as caught:
            run()
        assert caught.value.code == "route-mismatch"
    assert not list(tmp_path.iterdir())


def test_counts_that_are_changed_under_a_model_are_refused():
    model = small(route="1 (2 3)x r 4", loop_counts={"r": 2})
    model.config.loop_counts["r"] = 3
    with pytest.raises(ConfigError, match="the config says the route"):
        model(**batch(5))


@pytest.mark.parametrize("name", ["temperature", "max_length", "labels", "cache", "streamer", "output_attentions"])
def test_a_count_with_the_name_of_an_argument_is_refused(name):
    config = tiny(route=f"1 (2 3)x {name} 4", loop_counts={name: 2})
    with pytest.raises(CompileError, match=f"`{name}` is a loop count, and an argument") as caught:
        DepthGraphForCausalLM(config)
    assert caught.value.code == "layer-inputs"


@pytest.mark.parametrize("attention", ["flash_attention_2", "flex_attention", "paged|eager"])
def test_attention_that_has_no_slots_or_biases_is_refused(attention):
    with pytest.raises((DepthGraphError, ValueError, ImportError)):
        DepthGraphForCausalLM(tiny(attn_implementation=attention))
    model = small()
    with pytest.raises((DepthGraphError, ValueError, ImportError)):
        model.set_attn_implementation(attention)
    assert SIZES["parameter_depth"] == model.config.num_hidden_layers
