"""`depthgraph import` and `depthgraph export`, as real processes."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from depthgraph.formats import NOTATIONS

CONFIG = """\
slices:
- sources:
  - model: some/model
    layer_range: [0, 4]
- sources:
  - model: some/model
    layer_range: [2, 5]
merge_method: passthrough
dtype: bfloat16
"""


def run(*arguments, stdin=None, **environment):
    env = {**os.environ, "COLUMNS": "120", "PYTHONIOENCODING": "utf-8", **environment}
    command = [sys.executable, "-m", "depthgraph", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, encoding="utf-8", env=env, check=False)


def test_import_prints_the_canonical_text_of_a_value_a_file_or_standard_input(tmp_path):
    path = tmp_path / "merge.yml"
    path.write_text(CONFIG)
    for arguments, stdin in [
        (["mergekit", str(path)], None),
        (["mergekit", "-"], CONFIG),
        (["mergekit", CONFIG], None),
        (["peft", "[[0, 4], [2, 5]]"], None),
        (["exllamav3", "..3,2..", "N=5"], None),
        (["list", "1 2 3 4 3 4 5", "--base", "1"], None),
    ]:
        result = run("import", "--from", *arguments, stdin=stdin)
        assert (result.returncode, result.stdout, result.stderr) == (0, "1..4 3..5\n", "")


def test_import_as_json_has_the_route_the_conventions_and_what_else_the_value_says(tmp_path):
    path = tmp_path / "merge.json"
    path.write_text(json.dumps(yaml.safe_load(CONFIG)))
    found = json.loads(run("import", "--from", "mergekit", str(path), "N=6", "--json").stdout)
    assert found == {
        "notation": "mergekit",
        "base": 0,
        "ends": "the end of a layer_range is left out",
        "route": "1..4 3..5 drop(6)",
        "parameter_depth": 6,
        "execution_depth": 7,
        "path": [1, 2, 3, 4, 3, 4, 5],
        "options": {"model": "some/model", "dtype": "bfloat16"},
    }


def test_an_error_in_a_file_has_its_place_there_and_the_conventions(tmp_path):
    path = tmp_path / "merge.yaml"
    path.write_text(CONFIG)
    result = run("import", "--from", "mergekit", str(path), "N=4")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == (
        f"{path}:7:22: error[invalid-notation]: `layer_range` up to 5 runs layer 4; 3 is the last layer of this model of 4\n"
        "   7 |     layer_range: [2, 5]\n"
        "     |                      ^\n"
        f"help: {NOTATIONS['mergekit'].convention}\n"
    )


def test_export_prints_the_value():
    assert run("export", "--to", "peft", "lft(5)").stdout == "[[0, 2], [0, 3], [1, 4], [2, 5]]\n"
    assert run("export", "--to", "exllamav3", "1..2 (3..6)x r ...", "N=8", "r=2").stdout == "0..5,2..7\n"
    assert run("export", "--to", "list", "--base", "1", "-", stdin="ilr[2,1]\n").stdout == "[1, 1, 2]\n"
    assert run("export", "--to", "x-transformers", "--entries", "3", "1x2").stdout == "(0, 1, 2, 0, 1, 2)\n"


def test_export_takes_a_route_with_its_bindings_from_a_file(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("bindings: {r: 3}\nroute: (1..2)x r\n")
    assert run("export", "--to", "ilr", str(path)).returncode == 1
    assert run("export", "--to", "executorch", str(path)).stdout == '[{"start": 0, "end": 1, "count": 3}]\n'


def test_export_writes_a_file_whole_that_imports_as_the_route(tmp_path):
    path = tmp_path / "merge.yaml"
    arguments = ["--to", "mergekit", "--model", "some/model", "--dtype", "bfloat16", "1..4 3..5"]
    result = run("export", *arguments, "-o", str(path))
    assert (result.returncode, result.stdout) == (0, f"{path}\n")
    assert path.read_text() == CONFIG
    assert list(tmp_path.iterdir()) == [path]
    assert run("import", "--from", "mergekit", str(path)).stdout == "1..4 3..5\n"
    missing = run("export", *arguments, "-o", str(tmp_path / "no" / "merge.yaml"))
    assert missing.returncode == 2
    assert "error[missing-file]" in missing.stderr


def test_export_as_json_has_the_value_and_its_text():
    found = json.loads(run("export", "--to", "x-transformers-repeat", "1..2 (3..4)x2 5", "--json").stdout)
    assert found == {
        "notation": "x-transformers-repeat",
        "base": 0,
        "ends": "both ends of ((start, end), count) are included",
        "route": "1..4 3..5",
        "value": [[2, 3], 2],
        "text": "((2, 3), 2)",
    }


@pytest.mark.parametrize("command", ["import", "export"])
@pytest.mark.parametrize("environment", [{}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}])
def test_help_states_base_and_ends_of_every_notation(command, environment):
    result = run(command, "--help", **environment)
    assert result.returncode == 0
    shown = " ".join(result.stdout.split())
    for notation in NOTATIONS.values():
        assert f"{notation.name}: {notation.convention}." in shown
        assert f"Weights: {notation.weights}." in shown


@pytest.mark.parametrize("command", ["import", "export"])
def test_a_list_has_every_notation(command):
    result = run(command, "--list", COLUMNS="60")
    assert result.returncode == 0
    shown = " ".join(result.stdout.split())
    listed = json.loads(run(command, "--list", "--json").stdout)
    assert [each["notation"] for each in listed] == list(NOTATIONS)
    for each in listed:
        assert (
            f"{each['notation']} first layer: {'--base' if each['base'] is None else each['base']} ends: {each['ends']}"
            in shown
        )
        assert f"cannot say: {each['cannot']}" in shown


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["import", "[[0, 4]]"], 2, "error[wrong-usage]: --from is missing"),
        (["import", "--from", "peft"], 2, "error[wrong-usage]: there is no value to read"),
        (
            ["import", "--from", "pfet", "[[0, 4]]"],
            2,
            "error[unknown-notation]: there is no notation 'pfet'\nhelp: did you mean `peft`?",
        ),
        (["import", "--from", "list", "0 1"], 2, "error[notation-option]: a list of numbers needs the option `base`"),
        (["import", "--from", "list", "0 1", "--base", "2"], 2, "--base"),
        (
            ["import", "--from", "exllamav3", "0.."],
            2,
            "error[notation-option]: N is needed: `0..` goes to the last layer",
        ),
        (["import", "--from", "peft", "[[0, 4]]", "r=2"], 2, "error[wrong-usage]: a value has no name `r` to bind"),
        (["import", "--from", "peft", "[[0, 4]]", "5"], 2, "error[wrong-usage]: `5` is not a binding"),
        (["import", "--from", "peft", "no.json"], 2, "error[missing-file]: cannot read no.json"),
        (["import", "--from", "peft", "[[4, 4]]"], 1, "<value>:1:2: error[invalid-notation]"),
        (["export", "lft(5)"], 2, "error[wrong-usage]: --to is missing"),
        (["export", "--to", "peft"], 2, "error[wrong-usage]: there is no route to write"),
        (
            ["export", "--to", "peft", "--model", "m", "lft(5)"],
            2,
            "error[notation-option]: PEFT `layer_replication` has no option `model`",
        ),
        (
            ["export", "--to", "mergekit", "lft(5)"],
            2,
            "error[notation-option]: mergekit passthrough slices needs the option `model`",
        ),
        (["export", "--to", "ilr", "lft(5)"], 1, "error[unsayable-route]: ILR `loop_map` cannot say this route"),
        (["export", "--to", "peft", "1 save(a) 2 add(a)"], 1, "cannot say this route: it has `save`, `add`"),
        (["export", "--to", "peft", "lft(5)", "q=2"], 2, "error[wrong-usage]: no spec has a name `q` to bind"),
        (["export", "--to", "peft", "4..2"], 1, "error[descending-range]"),
    ],
)
def test_what_is_wrong_is_told_with_its_exit_status(arguments, status, message):
    result = run(*arguments)
    assert result.returncode == status
    assert message in result.stderr
    assert result.stdout == ""


def test_a_file_that_is_no_text_is_an_error(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"\xff\xfe")
    result = run("import", "--from", "peft", str(path))
    assert result.returncode == 1
    assert "error[invalid-notation]" in result.stderr
