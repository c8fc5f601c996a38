"""Saving models with a route, and loading them: in this process and in fresh ones, and where nobody knows of routes."""

import copy
import json
import pickle
import subprocess
import sys

import pytest
import torch
import transformers
from safetensors import safe_open
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

import depthgraph as dg
from depthgraph.errors import CompileError, ConfigError, SpecError
from depthgraph.nn.weights import Gated, Mixer

from hf_folders import byte_tokenizer
from hf_models import MAIN, prompts, tiny

ROUTE = "1 (2..3)x2 2 4"
FLOW = "1 save(a) 2 mix(a) exit mean(2 | 3) gate(a) 4 add(a)"

#: name of a folder → the model in it, its route, and what `reroute` is told beside it.
SAVED = {
    **{name: (name, ROUTE, {}) for name in MAIN},
    "dropped": ("llama", "1 3 1 drop(2) drop(4)", {}),
    "flow": ("llama", FLOW, {}),
    "dynamic": ("llama", "1 save(a) (2)x r 3 mix(a) 4", {"dynamic": {"r": 3}}),
    "bound": ("gpt2", "1 (2..k)x r 4", {"dynamic": {"r": 2}, "bindings": {"k": 3}}),
    "last_visit": ("llama", ROUTE, {"kv_cache": "last_visit"}),
}

LOADING = """
import sys, json, torch
import transformers
{imports}
transformers.logging.set_verbosity_error(); transformers.logging.disable_progress_bar()
root, names = sys.argv[1], sys.argv[2:]
found = {{}}
for name in names:
    folder = f"{{root}}/{{name}}"
    try:
        model, told = {load}(folder, output_loading_info=True)
    except Exception as error:
        found[name] = [type(error).__name__, str(error)]
        continue
    expected = torch.load(f"{{root}}/{{name}}.pt")
    batch = expected["batch"]
    same = torch.equal(model(**batch).logits, expected["logits"])
    tokens = model.generate(**batch, max_new_tokens=4, do_sample=False) if {generates} else expected["tokens"]
    found[name] = [same, torch.equal(tokens, expected["tokens"]), sorted(k for k, v in told.items() if v)]
print(json.dumps(found))
"""


def _fresh(root, names, imports="", load="transformers.AutoModelForCausalLM.from_pretrained", generates=True):
    """Load folders in a fresh process; return what it found, by name."""
    code = LOADING.format(imports=imports, load=load, generates=generates)
    run = subprocess.run([sys.executable, "-c", code, str(root), *names], capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def _trained(model):
    """Make the weights of a route's `mix` and `gate` something else than the identity."""
    made = torch.Generator().manual_seed(7)
    for module in model.modules():
        if isinstance(module, Mixer | Gated):
            module.weight.data += 0.2 * torch.randn(module.weight.shape, generator=made)
    return model


def _weights(folder):
    """Return the names and shapes of the weights in the files of a folder."""
    found = {}
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as opened:
            found |= {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    return found


def _no_news(told):
    return not any(told.values())


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with the models of SAVED, each beside its logits and what it generates."""
    root = tmp_path_factory.mktemp("saved")
    for name, (kind, route, options) in SAVED.items():
        model = _trained(dg.hf.reroute(tiny(kind), route, **options))
        model.save_pretrained(root / name)
        batch = prompts(7, 4)
        tokens = model.generate(**batch, max_new_tokens=4, do_sample=False)
        torch.save({"batch": batch, "logits": model(**batch).logits, "tokens": tokens}, root / f"{name}.pt")
        tiny(kind).save_pretrained(root / f"plain_{kind}")
    return root


def test_a_fresh_process_computes_the_same_logits_and_tokens(root):
    found = _fresh(root, SAVED, imports="import depthgraph.hf")
    assert found == {name: [True, True, []] for name in SAVED}


def test_transformers_alone_refuses_a_route_and_still_finds_every_weight(root):
    found = _fresh(root, ["llama", "flow", "dynamic"])
    for kind, message in found.values():
        assert kind == "ValueError"
        assert "depthgraph_routed" in message
    names = ["llama", "dropped", "last_visit"]
    stock = _fresh(root, names, load="transformers.LlamaForCausalLM.from_pretrained", generates=False)
    # the weights are those of a plain model, whose logits are others; `dropped` has those of layers that never run
    assert stock == {name: [False, True, []] for name in names}


@pytest.mark.parametrize("name", [name for name in SAVED if name not in ("flow", "dynamic")])
def test_a_folder_has_the_weights_of_one_without_a_route_and_nothing_else(root, name):
    kind = SAVED[name][0]
    assert _weights(root / name) == _weights(root / f"plain_{kind}")
    sizes = [(root / folder / "model.safetensors").stat().st_size for folder in (name, f"plain_{kind}")]
    assert sizes[0] == sizes[1]


def test_weights_of_the_route_are_saved_beside_the_others(root):
    own = {name: shape for name, shape in _weights(root / "flow").items() if "depthgraph" in name}
    assert own == {"model.depthgraph.mix_1.weight": (32, 64), "model.depthgraph.gate_1.weight": (32,)}
    assert _weights(root / "plain_llama").keys() == _weights(root / "flow").keys() - own.keys()


def test_the_config_of_a_folder_counts_layers_and_says_the_route(root):
    said = json.loads((root / "llama" / "config.json").read_text())
    plain = json.loads((root / "plain_llama" / "config.json").read_text())
    changed = {name for name in said.keys() | plain.keys() if said.get(name) != plain.get(name)}
    assert changed == {"architectures", "model_type", "base_model_type", "route", "kv_cache"}
    assert not any(hasattr(transformers, name) for name in said["architectures"])
    assert (said["model_type"], said["base_model_type"]) == ("depthgraph_routed", "llama")
    assert (said["route"], said["num_hidden_layers"]) == ("1..3 2..3 2 4", 4)


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
@pytest.mark.parametrize("route", ["1..4", "4 1 drop(2) drop(3)", "(1..4)x3", "1 (2)x5 3 4"])
def test_a_folder_without_a_route_loads_under_any(root, name, route):
    model, told = dg.hf.from_pretrained(root / f"plain_{name}", route, output_loading_info=True)
    assert _no_news(told)
    batch = prompts(6)
    assert torch.equal(model(**batch).logits, dg.hf.reroute(tiny(name), route)(**batch).logits)


def test_a_checkpoint_that_was_trained_under_one_route_loads_under_another(tmp_path):
    model = dg.hf.reroute(tiny("llama"), ROUTE).train()
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    batch = prompts(8, 8)
    model(**batch, labels=batch["input_ids"]).loss.backward()
    optimiser.step()
    model.save_pretrained(tmp_path)
    other, told = dg.hf.from_pretrained(tmp_path, "1 (3 2)x2 4", output_loading_info=True)
    assert _no_news(told)
    assert all(torch.equal(other.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    assert other.route.path == (1, 3, 2, 3, 2, 4)


def test_weights_of_the_route_that_a_folder_lacks_start_as_the_identity(root):
    plain, flow = root / "plain_llama", "1 save(a) 2 mix(a) 3 gate(a) 4"
    for options in ({}, {"device_map": "cpu"}):
        model, told = dg.hf.from_pretrained(plain, flow, output_loading_info=True, **options)
        assert told["missing_keys"] == {"model.depthgraph.mix_1.weight", "model.depthgraph.gate_1.weight"}
        assert not told["unexpected_keys"]
        own = model.model.depthgraph
        assert torch.equal(own.mix_1.weight, torch.eye(32, 64))
        assert torch.equal(own.gate_1.weight, torch.zeros(32))
        assert torch.equal(model(**prompts(6)).logits, tiny("llama")(**prompts(6)).logits)


def test_weights_that_another_route_does_not_have_are_reported(root):
    _, told = dg.hf.from_pretrained(root / "flow", "1 save(a) 2..3 mix(a) 4", output_loading_info=True)
    assert told["unexpected_keys"] == {"model.depthgraph.gate_1.weight"}
    assert not told["missing_keys"]


def test_a_route_by_keyword_or_in_the_config_is_honoured(root):
    batch = prompts(6)
    wanted = dg.hf.reroute(tiny("llama"), "1 (3)x2 4 drop(2)")(**batch).logits
    by_keyword = AutoModelForCausalLM.from_pretrained(root / "llama", route="1 (3)x2 4 drop(2)")
    config = AutoConfig.from_pretrained(root / "llama", route="1 (3)x2 4 drop(2)")
    by_config = AutoModelForCausalLM.from_pretrained(root / "llama", config=config)
    config = AutoConfig.from_pretrained(root / "llama")
    config.route = "1 (3)x2 4 drop(2)"
    by_attribute = AutoModelForCausalLM.from_pretrained(root / "llama", config=config)
    built = AutoModelForCausalLM.from_config(config)
    built.load_state_dict(tiny("llama").state_dict())
    for model in (by_keyword, by_config, by_attribute, built.eval()):
        assert torch.equal(model(**batch).logits, wanted)


def test_a_route_by_keyword_takes_the_place_of_counts_at_run_time(root):
    model = AutoModelForCausalLM.from_pretrained(root / "dynamic", route="1 save(a) 2..3 mix(a) 4")
    assert (model.config.loop_counts, str(model.route)) == (None, "1 save(a) 2..3 mix(a) 4")
    model = AutoModelForCausalLM.from_pretrained(root / "dynamic", loop_counts={"r": 5})
    assert str(model.route) == "1 save(a) 2x5 3 mix(a) 4"


@pytest.fixture
def unreadable(root, tmp_path):
    """A folder whose weights are no weights: whoever reads them fails, and says so."""
    (tmp_path / "config.json").write_text((root / "llama" / "config.json").read_text())
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    return tmp_path


@pytest.mark.parametrize(
    ("keywords", "code"),
    [
        ({"route": "1..4 9"}, "unknown-layer"),
        ({"route": "1 (2 3 4"}, "syntax"),
        ({"route": "1 load(a) 2..4"}, "unknown-register"),
        ({"route": 3}, "invalid-config"),
        ({"kv_cache": "first_visit"}, "invalid-config"),
        ({"num_hidden_layers": 3}, "unknown-layer"),
        ({"loop_counts": {"r": 2}}, "unknown-binding"),
    ],
)
def test_what_means_no_route_is_refused_before_weights_are_read(unreadable, keywords, code):
    with pytest.raises((SpecError, ConfigError, CompileError)) as caught:
        AutoModelForCausalLM.from_pretrained(unreadable, **keywords)
    config = AutoConfig.from_pretrained(unreadable)
    for name, value in keywords.items():
        setattr(config, name, value)
    with pytest.raises((SpecError, ConfigError, CompileError)) as again:
        AutoModelForCausalLM.from_pretrained(unreadable, config=config)
    assert caught.value.code == again.value.code == code


def test_weights_are_read_where_the_route_is_right(unreadable):
    with pytest.raises(Exception, match=r"(?i)header"):
        AutoModelForCausalLM.from_pretrained(unreadable, route="1..4")


def test_a_folder_for_a_model_that_is_not_known_is_refused(root, tmp_path):
    said = json.loads((root / "llama" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(said | {"base_model_type": "lama"}))
    with pytest.raises(ConfigError, match="lama"):
        AutoConfig.from_pretrained(tmp_path)


def test_shards_hold_each_weight_once(root, tmp_path):
    model = dg.hf.from_pretrained(root / "flow")
    model.save_pretrained(tmp_path, max_shard_size="40KB")
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) > 2
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == _weights(tmp_path).keys() == _weights(root / "flow").keys()
    loaded, told = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert _no_news(told)
    assert torch.equal(loaded(**prompts(6)).logits, model(**prompts(6)).logits)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_tied_embeddings_are_saved_once_and_tied_again(tmp_path, name):
    model = dg.hf.reroute(tiny(name, tie_word_embeddings=True), ROUTE)
    model.save_pretrained(tmp_path)
    assert "lm_head.weight" not in _weights(tmp_path)
    loaded, told = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert _no_news(told)
    assert loaded.lm_head.weight is loaded.get_input_embeddings().weight
    assert torch.equal(loaded(**prompts(6)).logits, model(**prompts(6)).logits)


@pytest.mark.parametrize("options", [{"device_map": "cpu"}, {"device_map": "auto"}, {"low_cpu_mem_usage": True}])
def test_a_folder_loads_onto_devices(root, options):
    expected = torch.load(root / "flow.pt")
    model = AutoModelForCausalLM.from_pretrained(root / "flow", **options)
    assert torch.equal(model(**expected["batch"]).logits, expected["logits"])
    tokens = model.generate(**expected["batch"], max_new_tokens=4, do_sample=False)
    assert torch.equal(tokens, expected["tokens"])


def test_a_folder_loads_in_another_type_with_the_weights_of_its_route(root, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(root / "flow", dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert again.dtype == torch.bfloat16
    assert torch.equal(again(**prompts(6)).logits, model(**prompts(6)).logits)


def test_the_base_model_and_a_classifier_load_from_a_language_model(root):
    whole = dg.hf.from_pretrained(root / "flow")
    base, told = AutoModel.from_pretrained(root / "flow", output_loading_info=True)
    assert not told["missing_keys"]
    assert torch.equal(base.depthgraph.mix_1.weight, whole.model.depthgraph.mix_1.weight)
    assert torch.equal(base(**prompts(6))[0], whole.model(**prompts(6))[0])
    classifier = AutoModelForSequenceClassification.from_pretrained(root / "flow", num_labels=3)
    assert torch.equal(classifier.model.depthgraph.gate_1.weight, whole.model.depthgraph.gate_1.weight)
    assert classifier(**prompts(6)).logits.shape == (1, 3)


def test_generation_settings_and_tokenizer_stay_with_the_model(tmp_path):
    model = dg.hf.reroute(tiny("llama", vocab_size=256), ROUTE)
    model.generation_config.max_new_tokens = 3
    model.generation_config.do_sample = False
    model.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    tokenizer, loaded = AutoTokenizer.from_pretrained(tmp_path), AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.generation_config.to_dict() == model.generation_config.to_dict()
    ids = tokenizer("looped", return_tensors="pt").input_ids
    assert tokenizer.decode(ids[0]) == "looped"
    assert loaded.generate(ids).shape[1] == ids.shape[1] + 3


@pytest.mark.parametrize("name", ["flow", "dynamic", "bound", "gemma3"])
def test_a_config_survives_every_way_of_copying_it(root, tmp_path, name):
    config = dg.hf.from_pretrained(root / name).config
    config.save_pretrained(tmp_path)
    said = json.loads(config.to_json_string())
    assert said["model_type"] == "depthgraph_routed"
    twins = [
        copy.copy(config),
        copy.deepcopy(config),
        pickle.loads(pickle.dumps(config)),
        AutoConfig.from_pretrained(tmp_path),
        type(config).from_dict(config.to_dict()),
        type(config).from_dict(json.loads(config.to_json_string(use_diff=False))),
    ]
    for twin in twins:
        assert type(twin) is type(config)
        assert twin.to_dict() | {"_name_or_path": ""} == config.to_dict() | {"_name_or_path": ""}
        assert json.loads(twin.to_json_string()) == said
        assert twin.model_type == SAVED[name][0].replace("gemma3", "gemma3_text")


def test_a_class_with_a_route_loads_folders_itself(root):
    model = dg.hf.from_pretrained(root / "flow")
    again, told = type(model).from_pretrained(root / "flow", output_loading_info=True)
    assert type(again) is type(model)
    assert _no_news(told)
    assert torch.equal(again(**prompts(6)).logits, model(**prompts(6)).logits)


def test_a_state_dict_may_be_given_as_the_trainer_gives_it(root, tmp_path):
    model = dg.hf.from_pretrained(root / "flow")
    state = {name: tensor + 1 for name, tensor in model.state_dict().items()}
    model.save_pretrained(tmp_path, state_dict=state)
    loaded, told = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert _no_news(told)
    assert all(torch.equal(tensor, state[name]) for name, tensor in loaded.state_dict().items())


def test_a_restored_model_saves_what_it_was_loaded_from(root, tmp_path):
    dg.hf.restore(dg.hf.from_pretrained(root / "flow")).save_pretrained(tmp_path)
    assert (tmp_path / "config.json").read_text() == (root / "plain_llama" / "config.json").read_text()
    assert _weights(tmp_path) == _weights(root / "plain_llama")
    assert type(AutoModelForCausalLM.from_pretrained(tmp_path)) is transformers.LlamaForCausalLM
