"""The command line, as a real process."""

import json
import os
import subprocess
import sys

import pytest

import depthgraph as dg


def run(*arguments, stdin=None, **environment):
    env = {**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8", **environment}
    command = [sys.executable, "-m", "depthgraph", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, encoding="utf-8", env=env, check=False)


def test_check_lists_what_is_valid_and_exits_with_0():
    result = run("check", "lft(5)", "1..2 (3..4)x r", "r=2")
    assert result.returncode == 0
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "ok  lft(5)          N=5 E=11  1..2 (i..i+2 for i in 1..3)",
        "ok  1..2 (3..4)x r  N=4 E=6  1..4 3..4",
    ]


def test_check_reports_errors_at_their_place_in_a_file_and_exits_with_1(tmp_path):
    path = tmp_path / "experiment.yaml"
    path.write_text("seed: 1\nN: 6\nruns:\n  - route: lft(6)\n  - route: block(2..7)x2\n    N: 6\n")
    result = run("check", str(path), "N=6")
    assert result.returncode == 1
    assert result.stdout == f"ok  {path}: runs.0.route  N=6 E=14  1..2 (i..i+2 for i in 1..4)\n"
    assert result.stderr == (
        f"{path}:5:21: error[unknown-layer]: layer 7 does not exist in this model of 6 layers\n"
        "   5 |   - route: block(2..7)x2\n"
        "     |                     ^\n"
        "help: layers are 1..6 and both ends of a range are included; did you mean `block(2..6)x2`?\n"
        "1 of 2 failed\n"
    )


def test_a_file_binds_what_its_routes_need(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("bindings: {r: 3}\nmodel: {preset: lft-2.5m, route: '1 (2..5)x r 6'}\n")
    result = run("check", str(path), "--json")
    assert json.loads(result.stdout)[0]["execution_depth"] == 14
    path.write_text("model: {parameter_depth: 5, route: lft(N)}\n")
    assert json.loads(run("check", str(path), "--json").stdout)[0]["execution_depth"] == 11


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("route: 1\n", 'a.yaml:1:8: error[invalid-config]: a route is a spec, a string\n   1 | route: 1\n     |        ^\nhelp: quote a route that is a lone number: `route: "1"`'),
        ("seed: 1\n", "error[invalid-config]: there is no `route` in"),
        ("", "error[invalid-config]: there is no `route` in"),
        ("a: [", "error[invalid-yaml]: this is not valid YAML"),
    ],
)  # fmt: skip
def test_a_file_without_a_usable_route(tmp_path, text, message):
    (tmp_path / "a.yaml").write_text(text)
    result = run("check", str(tmp_path / "a.yaml"))
    assert result.returncode == 1
    assert message in result.stderr


def test_check_as_json_has_the_errors_too():
    result = run("check", "lft(5)", "1..2 4", "--json")
    assert result.returncode == 1
    good, bad = json.loads(result.stdout)
    assert good == {
        "title": "lft(5)",
        "valid": True,
        "route": "1..2 (i..i+2 for i in 1..3)",
        "parameter_depth": 5,
        "execution_depth": 11,
    }
    assert not bad["valid"]
    assert (bad["error"]["code"], bad["error"]["line"], bad["error"]["column"]) == ("unused-layer", 1, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check"], "Missing argument"),
        (["check", "N=4"], "there is nothing to check"),
        (["check", "lft(5)", "r=2"], "no spec has a name `r` to bind"),
        (["check", "1..2", "N=a"], "`N=a` is not a binding"),
        (["show", "1..N", "N=2", "N=3"], "`N` is bound twice"),
        (["show", "1..r", "r=2", "x"], "`x` is not a binding"),
        (["show", "no.yaml"], "cannot read no.yaml: No such file or directory"),
        (["show", "1", "--emit", "nothing"], "Invalid value for '--emit'"),
        (["draw", "1"], "Missing option"),
        (["draw", "1", "-o", "a.xyz"], "unknown-view"),
        (["draw", "1", "-o", "no/such/folder/a.svg"], "does not exist"),
        (["schemes", "lfd"], "did you mean `lft`?"),
        (["nothing"], "No such command"),
    ],
)
def test_wrong_usage_exits_with_2(arguments, message):
    result = run(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_standard_input_is_a_spec():
    result = run("show", "-", "--json", stdin="block(2..4)x2\n", N="6")
    assert json.loads(result.stdout)["execution_depth"] == 7
    broken = run("check", "-", stdin="1 2\n3 x\n")
    assert broken.returncode == 1
    assert broken.stderr.startswith("<stdin>:2:4: error[syntax]")


def test_show_prints_measures_and_a_staircase():
    result = run("show", "lft(5)")
    assert result.returncode == 0
    expected = [
        "spec        lft(5)",
        "canonical   1..2 (i..i+2 for i in 1..3)",
        "scheme      lft(n) = 1 (i i-1 i for i in 2..n-1) n+1//n..n",
        "layers      N = 5",
        "executions  E = 11, 2.20 × N",
        "reuse map   (2, 3, 3, 2, 1)",
        "path        1 2 1 2 3 2 3 4 3 4 5",
    ]
    assert result.stdout.splitlines()[:7] == expected
    assert "L5 │" in result.stdout


def test_show_as_json_is_whole():
    shown = json.loads(run("show", "1 2 drop(3)", "--json").stdout)
    assert shown == {
        "spec": "1 2 drop(3)",
        "route": "1..2 drop(3)",
        "parameter_depth": 3,
        "execution_depth": 2,
        "multiplier": 2 / 3,
        "reuse_map": [1, 1, 0],
        "dropped": [3],
        "path": [1, 2],
        "schemes": {},
    }


GOLDEN_STAGES = {
    "tree": "Sequence\n  Repeat\n    Sequence\n      Range\n        Integer value=1\n        Integer value=2\n    Integer value=2",
    "route": "position  layer  visit  iterations\n       1      1      1  1/2\n       2      2      1  1/2\n"
    "       3      1      2  2/2\n       4      2      2  2/2",
    "graph": "input -> L1.1\nL1.1 -> L2.1\nL2.1 -> L1.2\nL1.2 -> L2.2\nL2.2 -> output",
}  # fmt: skip


@pytest.mark.parametrize("stage", list(GOLDEN_STAGES))
def test_each_stage_is_printed(stage):
    assert run("show", "(1..2)x2", "--emit", stage).stdout == GOLDEN_STAGES[stage] + "\n"
    assert json.loads(run("show", "(1..2)x2", "--emit", stage, "--json").stdout)


def test_the_code_stage_calls_one_layer_twice():
    code = run("show", "(1..2)x2", "--emit", "code").stdout
    assert code.count('getattr(self.layers, "0")(') == 2
    assert code.splitlines()[0].startswith("def forward(self, hidden")


def test_a_long_route_is_shown_without_its_picture():
    result = run("show", "(1..100)x100")
    assert "10,000 executions are too many to draw here" in result.stdout
    assert len(result.stdout.splitlines()) < 120


@pytest.mark.parametrize("ending", ["svg", "dot", "mmd", "txt"])
def test_draw_writes_a_file_and_names_it(tmp_path, ending):
    path = tmp_path / f"picture.{ending}"
    result = run("draw", "lft(5)", "-o", str(path))
    assert result.stdout == f"{path}\n"
    assert path.stat().st_size > 100
    assert list(tmp_path.iterdir()) == [path]


def test_draw_as_json(tmp_path):
    path = tmp_path / "a.svg"
    result = run("draw", "lft(5)", "-o", str(path), "--view", "staircase", "--json")
    assert json.loads(result.stdout) == {"file": str(path), "route": str(dg.route("lft(5)"))}


def test_schemes_lists_the_library():
    result = run("schemes")
    assert all(scheme.signature in result.stdout for scheme in dg.schemes().values())
    assert [entry["name"] for entry in json.loads(run("schemes", "--json").stdout)] == list(dg.schemes())
    assert "lft(n) = 1 (i i-1 i for i in 2..n-1)" in run("schemes", "lft").stdout


def test_colour_follows_no_color(tmp_path):
    """Errors are coloured on a terminal, and plain there too when NO_COLOR is set."""
    script = f"{sys.executable} -m depthgraph check 4..2"
    for no_color, coloured in ((None, True), ("1", False)):
        env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm-256color"}
        if no_color:
            env["NO_COLOR"] = no_color
        command = ["script", "-qec", script, str(tmp_path / "typescript")]
        out = subprocess.run(command, capture_output=True, env=env, stdin=subprocess.DEVNULL, check=False).stdout
        assert b"descending-range" in out
        assert (b"\x1b[31m" in out or b"\x1b[1;31m" in out) == coloured


def test_output_of_another_encoding_does_not_break():
    result = run("show", "lft(5)", PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert "E = 11" in result.stdout


def test_a_closed_pipe_is_no_traceback():
    command = f"{sys.executable} -m depthgraph show '(1..100)x20' --emit route | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr
    assert result.stdout.startswith("position")


def test_the_version():
    assert run("--version").stdout == f"depthgraph {dg.__version__}\n"
