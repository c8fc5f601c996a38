"""Training configs: what they may hold, and where in the file an error is."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from depthgraph.config import TrainConfig, load_train_config
from depthgraph.decoder_config import PRESETS
from depthgraph.errors import ConfigError, DepthGraphError, SpecError

GOOD = """\
model:
  preset: lft-2.5m
  route: lft(6)
batch: 2
length: 16
steps: 3
out: runs/x
"""


def written(tmp_path, text):
    path = tmp_path / "train.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def error_of(tmp_path, text, kind=ConfigError):
    with pytest.raises(kind) as caught:
        load_train_config(written(tmp_path, text))
    return str(caught.value).replace(str(tmp_path), "…")


def test_a_preset_gives_the_sizes_and_the_config_changes_them(tmp_path):
    text = GOOD.replace("route: lft(6)", "parameter_depth: 3\n  route: lft(3)")
    config = load_train_config(written(tmp_path, text))
    assert config.model.width == PRESETS["lft-2.5m"].width
    assert config.model.parameter_depth == 3
    assert config.route.path == (1, 2, 1, 2, 3)
    assert config.data.text == ("pydoc",)
    assert TrainConfig.model_validate_json(config.model_dump_json()) == config


def test_the_route_is_bound_by_the_bindings_and_the_models_depth(tmp_path):
    text = GOOD.replace("lft(6)", "1 (2..N-1)x r N") + "bindings: {r: 4}\n"
    assert load_train_config(written(tmp_path, text)).route.execution_depth == 18
    standard = load_train_config(written(tmp_path, GOOD.replace("  route: lft(6)\n", "")))
    assert standard.route.path == (1, 2, 3, 4, 5, 6)


def test_a_setting_that_does_not_exist_is_shown_with_the_one_that_was_meant(tmp_path):
    assert error_of(tmp_path, GOOD.replace("steps", "stepz")) == (
        "…/train.yaml:6:1: error[invalid-config]: there is no setting `stepz`\n"
        "   6 | stepz: 3\n"
        "     | ^^^^^\n"
        "help: did you mean `steps`?\n"
        "and 1 more wrong or missing: `steps`"
    )
    assert error_of(tmp_path, GOOD.replace("route:", "rout:")) == (
        "…/train.yaml:3:3: error[invalid-config]: there is no setting `model.rout`\n"
        "   3 |   rout: lft(6)\n"
        "     |   ^^^^\n"
        "help: did you mean `model.route`?"
    )


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        ("learning_rate: 1.0", "8:1", "there is no setting `learning_rate`\n*did you mean `optimiser.learning_rate`?"),
        ("zebra: 1", "8:1", "there is no setting `zebra`\n*the settings here are model, bindings, loops, data, "),
        ("optimiser: {betas: [0.9, 2]}", "8:26", "`optimiser.betas.1` is below 1.0; found `2`"),
        ("optimiser: {warmup: 2}", "8:21", "`optimiser.warmup` is at most 1.0; found `2`"),
        ("optimiser: {learning_rate: .inf}", "8:28", "`optimiser.learning_rate` is a finite number; found `inf`"),
        ("optimiser: 3", "8:12", "`optimiser` is a group of settings; found `3`"),
        ("seed: -1", "8:7", "`seed` is at least 0; found `-1`"),
        ("seed: yes", "8:7", "`seed` is a whole number; found `True`"),
        ("threads: 0.5", "8:10", "`threads` is a whole number; found `0.5`"),
        ("data: {text: []}", "8:14", "`data.text` has at least 1 entry"),
        ("data: {text: nothing.txt}", "8:14", "there is no file `…/nothing.txt`"),
        ("data: {validation: most}", "8:20", "`data.validation` is a number; found `most`"),
        ("tokenizer: tokenizer.json", "8:12", "there is no file `…/tokenizer.json`"),
        ("tokenizer: [a]", "8:12", "`tokenizer` is a string; found a list"),
        ("bindings: {r: four}", "8:15", "`bindings.r` is a whole number; found `four`"),
        ("bindings: {N: 4}", "8:11", "`N` is model.parameter_depth, and is not bound by hand"),
        ("device: 3", "8:9", '`device` is a string; found `3`\n*put quotes around it: "3"'),
    ],
)
def test_a_wrong_setting_is_shown_at_its_place(tmp_path, change, place, message):
    first, *rest = message.split("\n*")
    found = error_of(tmp_path, f"{GOOD}{change}\n")
    assert f"…/train.yaml:{place}: error[" in found
    assert all(part in found for part in (first, *rest)), found


@pytest.mark.parametrize(
    ("model", "place", "message"),
    [
        ("{preset: lft-3m}", "1:17", "there is no preset `lft-3m`; the presets are lft-2.5m, lft-10m"),
        ("{preset: lft-2.5m, positions: rop}", "1:38", "`model.positions` is 'rope', 'nope', 'learned' or 'alibi'"),
        ("{preset: lft-2.5m, heads: 7}", "1:8", "width 160 is no multiple of heads 7"),
        ("{preset: lft-2.5m, route: 3}", "1:34", '`model.route` is a string; found `3`\n*put quotes around it: "3"'),
        ("{preset: lft-2.5m, layer: own}", "1:34", "a layer is `file.py:Class` or `package.module:Class`; found `own`"),
        ("{preset: lft-2.5m, layer: 'own.py:A'}", "1:34", "there is no file `…/own.py`"),
        ("{width: 3}", "1:8", "the setting `model.vocab_size` is missing"),
        ("{preset: lft-2.5m, route: lft(5)}", "1:34", "layer 6 is never run"),
        ("{preset: lft-2.5m, route: 'block(2..7)x2'}", "1:44", "layer 7 does not exist in this model of 6 layers"),
        ("{preset: lft-2.5m, route: '1..6 (2..3)x r'}", "1:48", "`r`"),
    ],
)
def test_a_wrong_model_is_shown_at_its_place(tmp_path, model, place, message):
    first, *rest = message.split("\n*")
    text = f"model: {model}\nbatch: 2\nlength: 16\nsteps: 3\nout: x\n"
    found = error_of(tmp_path, text, DepthGraphError)
    assert f"…/train.yaml:{place}: error[" in found
    assert all(part in found for part in (first, *rest)), found


def test_a_route_error_is_one_of_the_language_at_its_place_in_the_file(tmp_path):
    assert error_of(tmp_path, GOOD.replace("lft(6)", "block(2..7)x2"), SpecError).startswith(
        "…/train.yaml:3:19: error[unknown-layer]: layer 7 does not exist in this model of 6 layers\n"
        "   3 |   route: block(2..7)x2\n"
        "     |                   ^\n"
    )


def test_sequences_beyond_learned_positions_are_refused(tmp_path):
    text = GOOD.replace("route: lft(6)", "positions: learned\n  context: 8")
    assert "sequences have 16 tokens, and the learned positions reach 8" in error_of(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"), [("", "this file"), ("- 1\n", "found a list"), ("model: [\n", "not valid")]
)
def test_a_file_that_is_no_config_is_refused(tmp_path, text, message):
    assert message in error_of(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="missing-file"):
        load_train_config(tmp_path / "nothing.yaml")


def test_paths_start_from_the_folder_of_the_config(tmp_path):
    for name in ("a.txt", "b.txt", "own.py", "tokenizer.json"):
        (tmp_path / name).write_text("x")
    text = GOOD.replace("route:", "layer: own.py:Layer\n  route:")
    config = load_train_config(
        written(tmp_path, f"{text}data: {{text: ['*.txt', pydoc]}}\ntokenizer: tokenizer.json\n")
    )
    assert config.data.text == (str(tmp_path / "*.txt"), "pydoc")
    assert config.tokenizer == str(tmp_path / "tokenizer.json")
    assert config.model.layer == f"{tmp_path / 'own.py'}:Layer"
    assert config.out == "runs/x"


def test_numbers_without_a_dot_are_numbers_although_yaml_reads_strings(tmp_path):
    config = load_train_config(written(tmp_path, f"{GOOD}optimiser: {{learning_rate: 3e-3}}\n"))
    assert config.optimiser.learning_rate == 0.003


def test_a_config_is_frozen_and_checks_itself_in_python_too():
    given = {"model": {"preset": "lft-2.5m"}, "batch": 1, "length": 1, "steps": 1, "out": "x"}
    config = TrainConfig.model_validate(given)
    with pytest.raises(ValidationError, match="frozen"):
        config.steps = 2
    with pytest.raises(ValidationError, match="there is no preset"):
        TrainConfig.model_validate({**given, "model": {"preset": "none"}})


def test_a_config_is_read_without_torch(tmp_path):
    path = written(tmp_path, GOOD)
    code = (
        "import sys, depthgraph.config, depthgraph.decoder_cost\n"
        f"depthgraph.config.load_train_config({str(path)!r})\n"
        "print(sorted({'torch', 'tokenizers', 'safetensors', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("absent", ["torch", "tokenizers", "safetensors"])
def test_training_without_its_packages_names_what_to_install(absent):
    code = (
        f"import sys; sys.modules[{absent!r}] = None\n"
        "import depthgraph as dg\n"
        "try:\n    dg.lab\n"
        "except dg.MissingPackageError as error:\n    print(error)"
    )
    if absent == "torch":  # the two others load without it
        code = code.replace("import depthgraph", "import tokenizers\nimport depthgraph", 1)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        f"error[missing-package]: training needs {absent}, which is not installed\n"
        'help: pip install "depthgraph[train]"\n'
    )
