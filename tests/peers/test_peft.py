"""PEFT builds the route's stack of layers: seen by the identity of the base weights that each one runs with."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from routes import random_ranges, sayable
from transformers import LlamaConfig, LlamaForCausalLM

import depthgraph as dg


def _model(depth):
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=16, num_hidden_layers=depth, **sizes)).eval()


def _replicated(depth, ranges):
    """Return the model with replicated layers, and the number, from 1, of each base weight's layer."""
    model = _model(depth)
    numbers = {each.self_attn.q_proj.weight.data_ptr(): number for number, each in enumerate(model.model.layers, 1)}
    config = LoraConfig(r=2, target_modules=["q_proj"], layer_replication=ranges, task_type="CAUSAL_LM")
    return get_peft_model(model, config).eval(), numbers


def _layers(model):
    return model.base_model.model.model.layers


def _order(depth, ranges):
    """Return the layers that the model runs, in order."""
    model, numbers = _replicated(depth, ranges)
    seen = []
    for layer in _layers(model):
        weight = layer.self_attn.q_proj.base_layer.weight
        layer.register_forward_pre_hook(lambda *_, weight=weight: seen.append(numbers[weight.data_ptr()]))
    with torch.no_grad():
        model(input_ids=torch.arange(3)[None], use_cache=False)
    return tuple(seen)


@pytest.mark.parametrize("route", sayable("peft"), ids=str)
def test_layer_replication_runs_the_route(route):
    assert _order(route.parameter_depth, dg.formats.write("peft", route)) == route.path


@pytest.mark.parametrize(("depth", "ranges"), [random_ranges() for _ in range(12)], ids=str)
def test_ranges_are_read_as_peft_reads_them(depth, ranges):
    assert _order(depth, ranges) == dg.formats.read("peft", ranges, N=depth).path


def test_each_execution_has_an_adapter_of_its_own_over_shared_weights():
    route = dg.route("1..4 3..5")
    model, numbers = _replicated(5, dg.formats.write("peft", route))
    projections = [layer.self_attn.q_proj for layer in _layers(model)]
    assert [numbers[each.base_layer.weight.data_ptr()] for each in projections] == list(route.path)
    assert len({each.lora_A["default"].weight.data_ptr() for each in projections}) == route.execution_depth


def test_merging_the_adapters_into_shared_weights_computes_something_else():
    """What docs/formats.md warns of."""
    model, _ = _replicated(5, [[0, 4], [2, 5]])
    for layer in _layers(model):
        torch.nn.init.normal_(layer.self_attn.q_proj.lora_B["default"].weight)
    tokens = torch.arange(3)[None]
    with torch.no_grad():
        before = model(input_ids=tokens, use_cache=False).logits
        after = model.merge_and_unload()(input_ids=tokens, use_cache=False).logits
    assert (before - after).abs().max() > 1e-4
