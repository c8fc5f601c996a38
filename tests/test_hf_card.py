"""Cards of models with a route: what they say is true, and what a user wrote is left alone."""

import re

import pytest
import torch
from huggingface_hub import ModelCard
from torch.utils.flop_counter import FlopCounterMode

import depthgraph as dg
from depthgraph.draw.mermaid import folded_mermaid
from depthgraph.errors import CompileError

from hf_models import MODELS, tiny, unrolled

ROUTE = "1 (2..3)x2 2 4"
PATH = (1, 2, 3, 2, 3, 2, 4)


def _row(card, name):
    """Return what stands beside a name in the table of a card."""
    return dict(re.findall(r"(?m)^\| ([^|]+) \| ([^|]*) \|$", card.text))[name]


def _flops(model, length=64):
    """Return the FLOPs of a forward a token, counted on the real model; its attention as two products."""
    model.config._attn_implementation = "eager"
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        model(torch.randint(3, 60, (1, length)))
    return counter.get_total_flops() / length


def test_a_card_says_what_the_route_is():
    card = dg.hf.model_card(dg.hf.reroute(tiny("llama"), ROUTE))
    assert "    1..3 2..3 2 4\n" in card.text
    assert (_row(card, "layers (N)"), _row(card, "executions (E)")) == ("4", "7")
    assert _row(card, "visits of the layers 1 … N") == "1, 3, 2, 1"
    assert _row(card, "slots of the KV cache") == "7 (`per_execution`)"
    shared = dg.hf.model_card(dg.hf.reroute(tiny("llama"), ROUTE, kv_cache="last_visit"))
    assert _row(shared, "slots of the KV cache") == "4 (`last_visit`)"


def test_its_picture_is_that_of_the_route():
    model = dg.hf.reroute(tiny("llama"), "1 (2)x5 save(a) 3 add(a) 4")
    [picture] = re.findall(r"(?s)```mermaid\n(.*?)\n```", dg.hf.model_card(model).text)
    assert picture == folded_mermaid(model.route).strip()
    assert '==>|"×5"| L2' in picture


def test_its_metadata_is_what_the_hub_reads():
    card = dg.hf.model_card(dg.hf.reroute(tiny("llama"), ROUTE))
    again = ModelCard(str(card))
    assert again.data.to_dict() == {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["depthgraph", "weight-sharing", "llama"],
    }
    order = dg.hf.model_card(dg.hf.reroute(tiny("llama"), "4 3 2 1"))
    assert order.data.tags == ["depthgraph", "layer-order", "llama"]


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2", "gpt_neox"])
def test_its_flops_are_those_that_a_model_with_its_layers_copied_runs(name):
    card = dg.hf.model_card(dg.hf.reroute(tiny(name), ROUTE))
    assert "one forward of 64 tokens" in card.text
    assert _row(card, "FLOPs a token") == f"{round(_flops(unrolled(tiny(name), PATH))):,}"
    assert _row(card, "FLOPs a token without a route") == f"{round(_flops(tiny(name))):,}"


def test_its_parameters_are_counted_once_with_those_of_the_route():
    model = tiny("llama")
    plain = sum(parameter.numel() for parameter in model.parameters())
    flow = dg.hf.model_card(dg.hf.reroute(model, "1 save(a) 2 mix(a) 3 gate(a) 4"))
    assert _row(flow, "parameters") == f"{plain + 2 * 32 * 32 + 32:,}"
    assert _row(dg.hf.model_card(dg.hf.reroute(model, ROUTE)), "parameters") == f"{plain:,}"


@pytest.mark.parametrize("name", MODELS)
def test_every_model_that_is_rerouted_is_counted_and_stays_as_it_is(name):
    model = dg.hf.reroute(tiny(name), ROUTE).train()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    card = dg.hf.model_card(model)
    assert int(_row(card, "FLOPs a token").replace(",", "")) > 0
    assert model.training
    assert str(model.route) == "1..3 2..3 2 4"
    assert all(torch.equal(before[key], tensor) for key, tensor in model.state_dict().items())


def test_counts_at_run_time_are_told_and_chosen():
    model = dg.hf.reroute(tiny("llama"), "1 (2)x r 3..4", dynamic={"r": 2})
    card = dg.hf.model_card(model)
    assert _row(card, "loop counts, chosen at every call") == "1 (2)x r 3..4; trained with `r=2`"
    assert _row(card, "executions (E)") == "5"
    assert _row(dg.hf.model_card(model, r=6), "executions (E)") == "9"


def test_exported_folders_have_a_card_that_says_how_to_load_them(tmp_path):
    model = dg.hf.reroute(tiny("llama"), ROUTE)
    dg.hf.save_standalone(model, tmp_path / "alone")
    dg.hf.save_unrolled(model, tmp_path / "plain")
    alone, plain = (ModelCard.load(tmp_path / name / "README.md") for name in ("alone", "plain"))
    assert 'from_pretrained("alone", trust_remote_code=True)' in alone.text
    assert 'from_pretrained("plain")' in plain.text
    assert "trust_remote_code" not in plain.text
    for card in (alone, plain):
        assert "1..3 2..3 2 4" in card.text


def test_the_code_of_a_card_loads_the_folder(tmp_path, monkeypatch):
    model = dg.hf.reroute(tiny("llama"), ROUTE)
    model.save_pretrained(tmp_path / "mine")
    dg.hf.save_card(model, tmp_path / "mine", place="mine")
    [code] = re.findall(r"(?s)```python\n(.*?)\n```", (tmp_path / "mine" / "README.md").read_text())
    monkeypatch.chdir(tmp_path)
    space = {}
    exec(code, space)
    assert str(space["model"].route) == "1..3 2..3 2 4"


def test_a_card_that_is_there_stays(tmp_path):
    model = dg.hf.reroute(tiny("llama"), ROUTE)
    (tmp_path / "README.md").write_text("mine")
    assert dg.hf.save_card(model, tmp_path) is None
    assert (tmp_path / "README.md").read_text() == "mine"
    (tmp_path / "README.md").unlink()
    assert dg.hf.save_card(model, tmp_path) == tmp_path / "README.md"
    assert "1..3 2..3 2 4" in (tmp_path / "README.md").read_text()


def test_a_model_without_a_route_has_none():
    with pytest.raises(CompileError) as caught:
        dg.hf.model_card(tiny("llama"))
    assert caught.value.code == "no-compiled-route"
