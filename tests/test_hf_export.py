"""Models exported for those who have no depthgraph: with the code of the route, or with a copy of a layer an execution."""

import ast
import inspect
import json
import os
import subprocess
import sys
import warnings

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

import depthgraph as dg
from depthgraph.cli import main
from depthgraph.errors import CompileError, ConfigError
from depthgraph.hf import alone, parts, running, slots
from depthgraph.hf.expanded import expanded_config
from depthgraph.hf.written import route_code
from depthgraph.nn.weights import Gated, Mixer

from hf_folders import byte_tokenizer
from hf_models import MODELS, prompts, tiny, unrolled

ROUTE = "1 (2..3)x2 2 4"
FLOW = "1 save(a) 2 mix(a) exit mean(2 | 3) gate(a) 4 add(a)"

#: name of a folder → the model in it, its route, what `reroute` is told beside it, and the loop counts of the export.
ALONE = {
    "llama": ("llama", ROUTE, {}, {}),
    "gemma3": ("gemma3", "(1..4)x2 3", {}, {}),
    "gpt2": ("gpt2", ROUTE, {}, {}),
    "gpt_neox": ("gpt_neox", ROUTE, {}, {}),
    "mixtral": ("mixtral", ROUTE, {}, {}),
    "qwen3_next": ("qwen3_next", ROUTE, {}, {}),
    "dropped": ("llama", "1 3 1 drop(2) drop(4)", {}, {}),
    "flow": ("llama", FLOW, {}, {}),
    "gpt2_flow": ("gpt2", FLOW, {}, {}),
    "dynamic": ("llama", "1 save(a) (2)x r stopgrad 3 mix(a) 4", {"dynamic": {"r": 3}}, {"r": 5}),
    "last_visit": ("llama", ROUTE, {"kv_cache": "last_visit"}, {}),
}

#: Runs where no `depthgraph` can be imported; prints what it found as JSON.
LOADING = """
import json, sys
class Blocked:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "depthgraph":
            raise ModuleNotFoundError("No module named 'depthgraph'", name="depthgraph")
sys.meta_path.insert(0, Blocked())
import torch, transformers
from transformers import AutoModelForCausalLM, AutoTokenizer
transformers.logging.set_verbosity_warning(); transformers.logging.disable_progress_bar()
root, names = sys.argv[1], sys.argv[2:]

def load(folder, **named):
    return AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, **named)

def check(folder, expected):
    model, told = load(folder, output_loading_info=True)
    batch = expected["batch"]
    output = model(**batch)
    cached = model.generate(**batch, max_new_tokens=4, do_sample=False, return_dict_in_generate=True)
    loss = model(**batch, labels=batch["input_ids"]).loss
    loss.backward()
    gradient = next(model.parameters()).grad
    return model, {
        "told": sorted(name for name, keys in told.items() if keys),
        "logits": torch.equal(output.logits, expected["logits"]),
        "tokens": torch.equal(cached.sequences, expected["tokens"]),
        "slots": len((cached.get("cache") or cached.past_key_values).layers) == expected["slots"],
        # where experts are multiplied in groups, the last bits of backward depend on where weights lie in memory
        "gradient": torch.allclose(gradient, expected["gradient"], rtol=1e-5, atol=1e-5),
        "exits": len(output.get("exit_hidden_states", ())) == expected["exits"],
        "hidden": len(hidden := model(**batch, output_hidden_states=True).hidden_states) == len(expected["hidden"])
        and all(torch.equal(one, other) for one, other in zip(hidden, expected["hidden"])),
        "attentions": _attentions(model, batch) == expected["attentions"],
    }

def _attentions(model, batch):
    model.set_attn_implementation("eager")
    return len(model(**batch, output_attentions=True).attentions)

def refused(**named):
    try:
        load(f"{root}/llama", **named)
    except ValueError as error:
        return str(error)

found = {}
for name in names:
    expected = torch.load(f"{root}/{name}.pt")
    model, found[name] = check(f"{root}/{name}", expected)
    model.save_pretrained(f"{root}/again/{name}")
    again, told = check(f"{root}/again/{name}", expected)
    found[name] = {key: [value, told[key]] for key, value in found[name].items()}
base = transformers.AutoModel.from_pretrained(f"{root}/base", trust_remote_code=True)
expected = torch.load(f"{root}/base.pt")
found["base"] = torch.equal(base(**expected["batch"])[0], expected["hidden"])
found["refused"] = [refused(route="1..4"), refused(num_hidden_layers=3), refused(kv_cache="none")]
tokenizer = AutoTokenizer.from_pretrained(f"{root}/llama", trust_remote_code=True)
found["tokenizer"] = tokenizer.decode(tokenizer("looped").input_ids)
try:
    import depthgraph
except ModuleNotFoundError:
    found["depthgraph"] = "not installed"
print(json.dumps(found))
"""


def _trained(model):
    """Make the weights of a route's `mix` and `gate` something else than the identity."""
    made = torch.Generator().manual_seed(7)
    for module in model.modules():
        if isinstance(module, Mixer | Gated):
            module.weight.data += 0.2 * torch.randn(module.weight.shape, generator=made)
    return model


def _expected(model, counts):
    """Return what a model computes on a batch, with a cache and without, and in backward."""
    batch = prompts(7, 4)
    output = model(**batch, **counts)
    cached = model.generate(**batch, **counts, max_new_tokens=4, do_sample=False, return_dict_in_generate=True)
    model.zero_grad()
    model(**batch, labels=batch["input_ids"], **counts).loss.backward()
    return {
        "batch": batch,
        "logits": output.logits.detach(),
        "tokens": cached.sequences,
        "slots": len((cached.get("cache") or cached.past_key_values).layers),
        "gradient": next(model.parameters()).grad,
        "exits": len(output.get("exit_hidden_states", ())),
        "hidden": [state.detach() for state in model(**batch, **counts, output_hidden_states=True).hidden_states],
        "attentions": _attentions(model, batch, counts),
    }


def _attentions(model, batch, counts):
    model.set_attn_implementation("eager")
    return len(model(**batch, **counts, output_attentions=True).attentions)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with the models of ALONE, each beside what it computes."""
    root = tmp_path_factory.mktemp("alone")
    for name, (kind, route, options, counts) in ALONE.items():
        model = _trained(dg.hf.reroute(tiny(kind, vocab_size=256), route, **options))
        dg.hf.save_standalone(model, root / name, tokenizer=byte_tokenizer(), **counts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a count is not the trained one
            torch.save(_expected(model, counts), root / f"{name}.pt")
    base = _trained(dg.hf.reroute(tiny("llama", cls="Model"), FLOW))
    dg.hf.save_standalone(base, root / "base")
    torch.save({"batch": prompts(6), "hidden": base(**prompts(6))[0]}, root / "base.pt")
    return root


@pytest.fixture(scope="module")
def found(root):
    """What a process without depthgraph finds in these folders."""
    environment = {**os.environ, "HF_HOME": str(root / "home")}
    command = [sys.executable, "-c", LOADING, str(root), *ALONE]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    assert "to instantiate a model of type" not in run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ALONE)
def test_a_folder_runs_its_route_without_depthgraph_and_is_saved_again(found, name):
    assert found["depthgraph"] == "not installed"
    same = [True, True]
    assert found[name] == {
        "told": [[], []], "logits": same, "tokens": same, "slots": same, "gradient": same, "exits": same,
        "hidden": same, "attentions": same,
    }  # fmt: skip


def test_the_code_of_a_folder_runs_its_own_route_alone(found):
    route, layers, cache = found["refused"]
    assert "route-mismatch" in route
    assert "layer-count" in layers
    assert "per_execution, last_visit" in cache


def test_a_model_without_a_head_is_exported_too(found):
    assert found["base"] is True


def test_the_tokenizer_comes_along(found):
    assert found["tokenizer"] == "looped"


def test_a_folder_that_was_saved_again_is_the_same(root, found):
    for name in ALONE:
        for file in ("config.json", "modeling_depthgraph.py", "depthgraph_runtime.py"):
            assert (root / name / file).read_bytes() == (root / "again" / name / file).read_bytes()


def test_the_code_is_made_from_our_own_sources_and_imports_none_of_them(root):
    runtime = (root / "llama" / "depthgraph_runtime.py").read_text()
    for module in (slots, running, parts, alone):
        for name, part in vars(module).items():
            if inspect.isclass(part) and part.__module__ == module.__name__:
                assert inspect.getsource(part) in runtime, name
    for name in ALONE:
        for file in (root / name).glob("*.py"):
            tree = ast.parse(file.read_text())
            modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            assert not any(module.startswith("depthgraph.") for module in modules)
            names = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
            assert len(set(names)) == len(names)


def test_a_route_reads_as_python():
    route = dg.route("1 save(a) 2 mix(a) exit mean(2 | 3) gate(a) stopgrad 4 add(a)", N=4)
    assert route_code(route).splitlines() == [
        "def run(layer, own, hidden):",
        "    L1_1 = layer(1, hidden, execution=1)",
        "    L2_1 = layer(2, L1_1, execution=2)",
        "    mix_1 = own.mix_1(L2_1, L1_1)",
        "    L2_2 = layer(2, mix_1, execution=3)",
        "    L3_1 = layer(3, mix_1, execution=4)",
        "    add = L2_2 + L3_1",
        "    truediv = add / 2",
        "    gate_1 = own.gate_1(truediv, L1_1)",
        "    detach = gate_1.detach()",
        "    L4_1 = layer(4, detach, execution=5)",
        "    add_1 = L4_1 + L1_1",
        "    return (add_1, (mix_1,))",
    ]


def test_with_depthgraph_a_folder_needs_no_code_of_its_own_and_takes_other_routes(root, tmp_path):
    expected = torch.load(root / "flow.pt")
    for trusted in (None, False, True):
        model = AutoModelForCausalLM.from_pretrained(root / "flow", trust_remote_code=trusted)
        assert type(model).__module__ == "transformers.models.llama.modeling_llama"
        assert torch.equal(model(**expected["batch"]).logits, expected["logits"])
    other = dg.hf.from_pretrained(root / "llama", "4 3 2 1")
    wanted = dg.hf.reroute(tiny("llama", vocab_size=256), "4 3 2 1")
    assert torch.equal(other(**expected["batch"]).logits, wanted(**expected["batch"]).logits)
    other.save_pretrained(tmp_path)
    assert "auto_map" not in json.loads((tmp_path / "config.json").read_text())


def test_loop_counts_are_fixed_in_the_folder(root):
    said = json.loads((root / "dynamic" / "config.json").read_text())
    assert (said["route"], said["loop_counts"]) == ("1 save(a) 2x5 stopgrad 3 mix(a) 4", None)
    model = dg.hf.reroute(tiny("llama"), ROUTE)
    with pytest.raises(CompileError, match="loop count"):
        dg.hf.save_standalone(model, root / "never", r=2)
    assert not (root / "never").exists()


@pytest.mark.parametrize("save", [dg.hf.save_standalone, dg.hf.save_unrolled])
def test_nothing_is_written_over_and_nothing_is_left_of_a_failure(tmp_path, monkeypatch, save):
    model = dg.hf.reroute(tiny("llama"), ROUTE)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError) as caught:
        save(model, tmp_path / "full")
    assert caught.value.code == "existing-files"
    (tmp_path / "empty").mkdir()
    save(model, tmp_path / "empty")
    assert (tmp_path / "empty" / "config.json").is_file()

    def fails(*args, **named):
        raise OSError("disk full")

    monkeypatch.setattr(transformers.GenerationConfig, "save_pretrained", fails)
    with pytest.raises(OSError, match="disk full"):
        save(model, tmp_path / "failed")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full"]


@pytest.mark.parametrize("export", [dg.hf.save_standalone, dg.hf.save_unrolled])
def test_a_model_without_a_route_or_with_weights_that_its_class_has_not_is_refused(tmp_path, export):
    with pytest.raises(CompileError) as caught:
        export(tiny("llama"), tmp_path / "out")
    assert caught.value.code == "no-compiled-route"
    model = dg.hf.reroute(tiny("llama"), ROUTE)
    model.model.layers[0].mlp.adapter = torch.nn.Linear(2, 2)
    with pytest.raises(CompileError, match=r"adapter\.bias") as caught:
        export(model, tmp_path / "out")
    assert caught.value.code == "unroutable-model"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", MODELS)
def test_an_unrolled_model_is_a_plain_one_and_computes_the_same(tmp_path, name):
    model = dg.hf.reroute(tiny(name), ROUTE)
    dg.hf.save_unrolled(model, tmp_path / "out")
    plain, told = AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(told.values())
    assert type(plain) is type(tiny(name))
    assert plain.config.num_hidden_layers == 7
    by_hand = unrolled(tiny(name), (1, 2, 3, 2, 3, 2, 4)).state_dict()
    assert plain.state_dict().keys() == by_hand.keys()
    assert all(torch.equal(tensor, by_hand[key]) for key, tensor in plain.state_dict().items())
    batch = {"input_ids": prompts(9)["input_ids"]}
    assert torch.equal(plain(**batch).logits, model(**batch).logits)
    tokens = [each.generate(**batch, max_new_tokens=9, do_sample=False) for each in (plain, model)]
    assert torch.equal(*tokens)


def test_the_config_of_an_unrolled_model_is_that_of_its_layers_copied(tmp_path):
    model = tiny("gemma3")
    model.save_pretrained(tmp_path / "plain")
    dg.hf.save_unrolled(dg.hf.reroute(model, "(1..4)x3"), tmp_path / "out")
    said, before = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("out", "plain"))
    assert (said["num_hidden_layers"], before["num_hidden_layers"]) == (12, 4)
    assert said["layer_types"] == before["layer_types"] * 3
    changed = {name for name in said.keys() | before.keys() if said.get(name) != before.get(name)}
    assert changed == {"num_hidden_layers", "layer_types"}


def test_an_unrolled_model_shares_nothing_with_the_model_or_between_copies():
    model = dg.hf.reroute(tiny("llama"), "(1..4)x3")
    plain = dg.hf.unroll(model)
    places = [tensor.data_ptr() for each in (model, plain) for tensor in (*each.parameters(), *each.buffers())]
    assert len(set(places)) == len(places)
    assert len(plain.model.layers) == 12
    assert not plain.training
    assert dg.hf.unroll(model.train()).training


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_tied_embeddings_stay_tied_and_types_stay(name):
    model = dg.hf.reroute(tiny(name, tie_word_embeddings=True).to(torch.bfloat16), ROUTE)
    plain = dg.hf.unroll(model)
    assert plain.lm_head.weight is plain.get_input_embeddings().weight
    assert plain.lm_head.weight is not model.lm_head.weight
    assert {parameter.dtype for parameter in plain.parameters()} == {torch.bfloat16}


def test_counts_and_stopped_gradients_and_dropped_layers_unroll():
    model = dg.hf.reroute(tiny("llama"), "1 (2)x r stopgrad 4 drop(3)", dynamic={"r": 2})
    assert dg.hf.unroll(model).config.num_hidden_layers == 4
    plain = dg.hf.unroll(model, r=5)
    assert plain.config.num_hidden_layers == 7
    with pytest.warns(UserWarning, match="trained with 2"):
        assert torch.equal(plain(**prompts(6)).logits, model(**prompts(6), r=5).logits)


def test_layers_that_alternate_unroll_in_the_terms_of_their_own_configs():
    neo = {"attention_types": [[["global", "local"], 2]], "window_size": 4, "num_layers": 4, "hidden_size": 32}
    config = transformers.GPTNeoConfig(**neo, vocab_size=64, num_heads=4, max_position_embeddings=32)
    model = dg.hf.reroute(transformers.GPTNeoForCausalLM(config).eval(), "1 (2 4)x2 3")
    plain = dg.hf.unroll(model)
    kinds = ["global", "local", "local", "local", "local", "global"]
    assert plain.config.attention_layers == kinds
    assert type(config)(**plain.config.to_dict()).attention_layers == kinds


@pytest.mark.parametrize(
    ("name", "value", "path", "expected"),
    [
        ("layer_types", ["a", "b", "c"], (0, 1, 1, 2), ["a", "b", "b", "c"]),
        ("no_rope_layers", [1, 0, 1], (2, 1, 0), [1, 0, 1]),
        ("mlp_only_layers", [1], (0, 1, 1, 2), [1, 2]),
        ("first_k_dense_replace", 1, (0, 0, 1, 2), 2),
        ("attention_types", [[["x", "y"], 1], [["z"], 1]], (0, 2, 1), [[["x"], 1], [["z"], 1], [["y"], 1]]),
    ],
)
def test_settings_of_single_layers_are_said_of_their_copies(name, value, path, expected):
    config = transformers.PreTrainedConfig(num_hidden_layers=3)
    setattr(config, name, value)
    made = expanded_config(config, path)
    assert getattr(made, name) == expected
    assert made.num_hidden_layers == len(path)
    assert getattr(config, name) == value


@pytest.mark.parametrize("route", [FLOW, "1..2 exit 3..4", "1 mean(2 | 3) 4"])
def test_data_flow_has_no_place_in_a_plain_model(tmp_path, route):
    with pytest.raises(CompileError, match="data flow") as caught:
        dg.hf.save_unrolled(dg.hf.reroute(tiny("llama"), route), tmp_path / "out")
    assert caught.value.code == "cannot-unroll"
    assert not (tmp_path / "out").exists()


def _unrollable(change):
    with pytest.raises(CompileError) as caught:
        dg.hf.unroll(change)
    assert caught.value.code == "cannot-unroll"
    return caught.value.message


def test_what_would_not_be_the_same_is_refused_with_the_reason(monkeypatch):
    scaled = tiny("gpt2", scale_attn_by_inverse_layer_idx=True)
    assert "GPT2Attention.scaling" in _unrollable(dg.hf.reroute(scaled, "1..3 2..4"))
    assert dg.hf.unroll(dg.hf.reroute(scaled, "1..4")).config.num_hidden_layers == 4
    assert "last_visit" in _unrollable(dg.hf.reroute(tiny("llama"), ROUTE, kv_cache="last_visit"))
    offloaded = tiny("llama")
    offloaded.lm_head.to("meta")
    assert "offloaded" in _unrollable(dg.hf.reroute(offloaded, ROUTE))
    listed = tiny("llama")
    listed.config.strengths = [1, 2, 3, 4]
    assert "`strengths`" in _unrollable(dg.hf.reroute(listed, ROUTE))
    forward = transformers.models.llama.modeling_llama.LlamaMLP.forward
    model = dg.hf.reroute(tiny("llama"), ROUTE)
    for number, layer in enumerate(model.model.layers):  # what it computes by is nowhere among its settings
        layer.mlp.forward = lambda x, mlp=layer.mlp, number=number: forward(mlp, x) * (number + 1)
    assert "other logits" in _unrollable(model)


def test_a_layer_that_computes_by_its_place_is_found_by_the_logits(tmp_path, monkeypatch):
    layer = transformers.models.llama.modeling_llama.LlamaAttention
    forward = layer.forward

    def by_place(self, *args, **named):
        output, *rest = forward(self, *args, **named)
        return output / (1 + self.layer_idx), *rest

    monkeypatch.setattr(layer, "forward", by_place)
    with pytest.raises(CompileError, match="other logits"):
        dg.hf.save_unrolled(dg.hf.reroute(tiny("llama"), ROUTE), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def _run(*words):
    with pytest.raises(SystemExit) as caught:
        main(["export", *map(str, words)])
    return caught.value.code


@pytest.fixture
def source(tmp_path):
    """A folder with a model without a route, and a tokenizer."""
    tiny("llama", vocab_size=256).save_pretrained(tmp_path / "source")
    byte_tokenizer().save_pretrained(tmp_path / "source")
    return tmp_path / "source"


def test_the_command_exports_a_model_without_a_route_under_one(source, tmp_path, capsys):
    assert _run("--unrolled", source, tmp_path / "out", "r=3", "--route", "(1..N)x r", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["route"], told["layers"], told["executions"]) == ("unrolled", "(1..4)x3", 4, 12)
    assert AutoConfig.from_pretrained(tmp_path / "out").num_hidden_layers == 12
    files = [(folder / "tokenizer.json").read_bytes() for folder in (source, tmp_path / "out")]
    assert files[0] == files[1]
    assert AutoTokenizer.from_pretrained(tmp_path / "out")("ab").input_ids == byte_tokenizer()("ab").input_ids


def test_the_command_exports_a_route_of_its_own_at_a_count(source, tmp_path, capsys):
    dg.hf.from_pretrained(source, "1 (2)x r 3..4", dynamic={"r": 2}).save_pretrained(tmp_path / "routed")
    assert _run("--standalone", tmp_path / "routed", tmp_path / "out", "r=4") == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["route"] == "1 2x4 3..4"
    assert _run("--standalone", tmp_path / "routed", tmp_path / "other", "k=4") == 2
    assert "its counts are r" in capsys.readouterr().err


def test_the_command_says_what_it_needs(source, tmp_path, capsys):
    for words, said in (
        (["--unrolled", source], "two folders"),
        (["--unrolled", source, tmp_path / "out"], "no route"),
        (["--unrolled", "--standalone", source, tmp_path / "out"], "--standalone or --unrolled"),
        (["--unrolled", source, tmp_path / "out", "--to", "peft"], "--to is for notations"),
        (["lft(5)", "--to", "peft", "--route", "1..5"], "--route is for"),
        (["--standalone", source, source, "--route", "1..4"], "exists already"),
        (["--standalone", source, tmp_path / "out", "--route", "1..9"], "layer 9"),
    ):
        assert _run(*words) in (1, 2)
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
