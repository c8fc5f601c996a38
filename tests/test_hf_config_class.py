"""What config.json says of a model with a route, to those who know routes and to those who do not."""

import json
import logging

import pytest
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

import depthgraph.hf

from hf_models import MAIN, prompts, tiny

ROUTE = "block(2..3)x2"


def described(config):
    said = config.to_dict()
    return {name: said[name] for name in said.keys() - {"architectures", "_name_or_path", "dtype"}}


@pytest.mark.parametrize("name", MAIN)
def test_a_class_that_is_called_by_its_name_reads_the_weights_and_says_that_the_types_differ(
    name, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    model = tiny(name)
    stock, ids = type(model), prompts(5)["input_ids"]
    expected = model(ids).logits
    depthgraph.hf.reroute(model, ROUTE).save_pretrained(tmp_path)
    with caplog.at_level("WARNING", logger="transformers"):
        plain, info = stock.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert plain.eval()(ids).logits.equal(expected)
    assert "model of type `depthgraph_routed`" in caplog.text


@pytest.mark.parametrize("name", MAIN)
def test_in_memory_the_config_is_what_it_was(name, tmp_path):
    model = tiny(name)
    depthgraph.hf.reroute(model, ROUTE).save_pretrained(tmp_path / "routed")
    config = AutoConfig.from_pretrained(tmp_path / "routed")
    assert described(config) == described(model.config)
    assert config.use_cache is True
    AutoModelForCausalLM.from_pretrained(tmp_path / "routed").save_pretrained(tmp_path / "again")
    first, second = ((tmp_path / folder / "config.json").read_text() for folder in ("routed", "again"))
    assert json.loads(first) == json.loads(second)


@pytest.mark.parametrize("name", MAIN)
def test_once_restored_a_loaded_model_is_one_for_everybody(name, tmp_path):
    model = tiny(name)
    stock, ids = type(model), prompts(5)["input_ids"]
    expected = model(ids).logits
    depthgraph.hf.reroute(model, ROUTE).save_pretrained(tmp_path / "routed")
    loaded = depthgraph.hf.restore(AutoModelForCausalLM.from_pretrained(tmp_path / "routed"))
    assert loaded.config.architectures == [stock.__name__]
    loaded.save_pretrained(tmp_path / "plain")
    assert stock.from_pretrained(tmp_path / "plain")(ids).logits.equal(expected)


def test_what_the_config_says_of_the_cache_comes_back(tmp_path):
    depthgraph.hf.reroute(tiny("llama", use_cache=False), ROUTE).save_pretrained(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).use_cache is False
    assert AutoModelForCausalLM.from_pretrained(tmp_path).config.use_cache is False


def test_no_class_of_transformers_has_the_name_that_tools_choose_by(tmp_path):
    depthgraph.hf.reroute(tiny("llama"), ROUTE).save_pretrained(tmp_path)
    for config in (json.loads((tmp_path / "config.json").read_text()), AutoConfig.from_pretrained(tmp_path).to_dict()):
        (architecture,) = config["architectures"]
        assert architecture == "RoutedLlamaForCausalLM"
        assert not hasattr(transformers, architecture)
