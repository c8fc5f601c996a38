"""The command line, as a real process."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import depthgraph as dg

ROOT = Path(__file__).parent.parent


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
    ("text", "place", "message"),
    [
        ('N: "3"\nroute: 1..3\n', "1:4", "`N` is an integer"),
        ("route: 1..3\nN: 3.0\n", "2:4", "`N` is an integer"),
        ("a: {route: 1..3}\nN: yes\n", "2:4", "`N` is an integer"),
        ("model: {parameter_depth: [3], route: 1..3}\n", "1:26", "`parameter_depth` is an integer"),
        ("bindings: [r]\nroute: 1..3\n", "1:11", "`bindings` is a mapping from names to integers"),
        ("bindings:\nroute: 1..3\n", "1:10", "`bindings` is a mapping from names to integers"),
        ("bindings: {r: two}\nroute: (1..3)x r\n", "1:15", "`r` is an integer"),
        ("bindings: {1: 2}\nroute: 1..3\n", "1:12", "what `bindings` binds is a name"),
        ("bindings: {rr: 2}\na: {route: 1..3}\nb: {route: 1..3}", "1:12", "no route that these bindings are for has a name `rr`"),
        ("a: {bindings: {r: 2}, route: 1..3}\nb: {route: (1..3)x r, bindings: {r: 2}}", "1:16", "has a name `r`"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["check", "show"])
def test_what_binds_nothing_in_a_file_is_an_error_at_its_place(tmp_path, text, place, message, command):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    result = run(command, str(path))
    assert result.returncode == 1
    assert f"{path}:{place}: error[invalid-config]: " in result.stderr
    assert result.stderr.count(message) == 1


def test_bindings_of_a_file_are_for_the_routes_that_have_the_names(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(
        "bindings: {r: 2}\nruns:\n- route: 1..3\n- route: (1..3)x r\n- {route: (1..3)x r, bindings: {r: 3}}\n"
    )
    result = run("check", str(path), "--json")
    assert [item["execution_depth"] for item in json.loads(result.stdout)] == [3, 6, 9]


def test_a_spec_that_cannot_be_read_makes_no_binding_superfluous(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("bindings: {r: 2}\nruns: [{route: 1..3}, {route: '(1..3) x'}]\n")
    assert run("check", str(path)).stderr.count("error[") == 1


@pytest.mark.parametrize("key", ["true", "0x2", "1.5", "null", "2020-01-01", "plain"])
def test_a_route_is_checked_below_every_kind_of_key(tmp_path, key):
    path = tmp_path / "a.yaml"
    path.write_text(f"{key}: {{route: 1 2}}\nb: !!omap [{key}: {{route: 1 3}}]\nc: {{<<: {{route: 1 4}}}}\n")
    result = run("check", str(path))
    assert result.returncode == 1
    assert result.stdout == f"ok  {path}: {key}.route  N=2 E=2  1..2\n"
    assert result.stderr.count("error[unused-layer]") == 2


TRAIN = "model: {preset: lft-2.5m, route: lft(6)}\nbatch: 2\nlength: 16\nsteps: 3\nout: runs/x\n"


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("", "", []),
        ("batch: 2", "batch: x", ["invalid-config"]),
        ("steps", "stepz", ["invalid-config"]),
        ("lft(6)", "lft(7)", ["unknown-layer"]),
        ("lft(6)", "1", ["invalid-config"]),
        ("preset: lft-2.5m", "preset: lft-2.5m, parameter_depth: '6'", ["invalid-config"]),
        ("batch: 2", "batch: x\nbindings: {q: 2}", ["invalid-config", "invalid-config"]),
        ("out: runs/x", "out: runs/x\ndata: {text: nothing.txt}", ["missing-file"]),
        ("batch: 2\nlength: 16\nsteps: 3\nout: runs/x\n", "seed: x\n", []),
    ],
)
def test_a_training_config_is_checked_as_a_whole(tmp_path, old, new, codes):
    path = tmp_path / "train.yaml"
    path.write_text(TRAIN.replace(old, new))
    result = run("check", str(path), "--json")
    found = [item["error"]["code"] for item in json.loads(result.stdout) if not item["valid"]]
    assert found == codes
    assert result.returncode == (2 if "missing-file" in codes else bool(codes))


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["missing.yaml"], 2),
        (["missing.yaml", "1..2"], 2),
        (["4..2", "missing.yaml", "1 x"], 2),
        (["4..2", "1..2"], 1),
    ],
)
def test_the_exit_status_of_check_is_that_of_the_worst_error(arguments, status):
    assert run("check", *arguments).returncode == status


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


def test_a_training_config_without_a_route_has_the_standard_one(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("model: {preset: lft-2.5m}\nbatch: 1\nlength: 8\nsteps: 1\nout: runs/a\n")
    result = run("check", str(path))
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"ok  {path}: model, which names no route  N=6 E=6  1..6\n"
    path.write_text("model: {preset: lft-2.5m}\nbatch: 0\nlength: 8\nsteps: 1\nout: runs/a\n")
    assert "invalid-config" in run("check", str(path)).stderr


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
        (["draw", "1", "-o", "/proc/a.svg"], "cannot write '/proc/a.svg'"),
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


def test_every_line_of_standard_input_is_a_spec_to_check():
    result = run("check", "-", "r=2", stdin="lft(5)\n\n1 2 x r \n  1 3\n3 x")
    assert result.returncode == 1
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["<stdin>:1", "<stdin>:3"]
    errors = [line for line in result.stderr.splitlines() if line.startswith("<stdin>")]
    assert [line.split(": ")[0] for line in errors] == ["<stdin>:4:3", "<stdin>:5:4"]
    assert "of 4 failed" in result.stderr


@pytest.mark.parametrize("command", ["check", "show"])
@pytest.mark.parametrize("text", ["", "\n \n"])
def test_standard_input_without_a_spec_is_an_error(command, text):
    result = run(command, "-", stdin=text)
    assert result.returncode == 1
    assert "<stdin>:1:1: error[empty-spec]" in result.stderr


def raw(*arguments, stdin=b"", **environment):
    env = {**os.environ, "COLUMNS": "100", **environment}
    command = [sys.executable, "-m", "depthgraph", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, env=env, check=False)


@pytest.mark.parametrize("command", ["check", "show"])
def test_standard_input_is_utf_8_with_or_without_a_mark(command):
    marked = raw(command, "-", stdin=b"\xef\xbb\xbf1..2\r\n")
    assert (marked.returncode, marked.stdout) == (0, raw(command, "-", stdin=b"1..2\n").stdout)
    broken = raw(command, "-", stdin=b"1..2 \xff")
    assert broken.returncode == 2
    assert b"error[wrong-usage]: standard input is not text in UTF-8" in broken.stderr


ASCII_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    "arguments", [["show", "lft(5)"], ["schemes"], ["schemes", "lft"], ["--help"], ["show", "--help"]]
)
@pytest.mark.parametrize("environment", [ASCII_LOCALE, {"PYTHONIOENCODING": "ascii"}])
def test_an_ascii_stream_gets_ascii_pictures_and_frames(arguments, environment):
    result = raw(*arguments, **environment)
    assert result.returncode == 0
    text = result.stdout.decode("ascii")
    assert "?" not in text.replace("(?", "")
    assert ("#   #" in text) == (arguments in (["show", "lft(5)"], ["schemes", "lft"]))


def test_signs_in_arguments_are_utf_8_in_an_ascii_locale_too():
    result = raw("show", "2×3", **ASCII_LOCALE)
    assert result.returncode == 1
    assert result.stderr.startswith(b"<spec>:1:2: error[bad-character]: `x` (MULTIPLICATION SIGN)")
    assert b"\n     |  ^\n" in result.stderr
    assert raw("show", b"1..2 \xff", **ASCII_LOCALE).stderr.startswith(b"<spec>:1:6: error[bad-character]")


def test_a_file_with_a_name_in_utf_8_is_found_in_an_ascii_locale(tmp_path):
    (tmp_path / "é.yaml").write_text("route: 1..2\n")
    assert raw("check", str(tmp_path / "é.yaml"), **ASCII_LOCALE).returncode == 0
    assert raw("draw", "1..2", "-o", str(tmp_path / "é.dot"), **ASCII_LOCALE).returncode == 0
    assert (tmp_path / "é.dot").exists()


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


def test_show_as_json_names_registers_and_counts_exits():
    shown = json.loads(run("show", "1 save(a) 2 exit gate(a) exit", "--json").stdout)
    assert (shown["registers"], shown["exits"]) == (["a"], 2)


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
        "registers": [],
        "exits": 0,
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


@pytest.mark.parametrize("arguments", [["show", "1", "--emit", "code"], ["train", "examples/lft.yaml"]])
def test_without_torch_the_commands_that_need_it_say_what_to_install(arguments):
    script = f"import sys; sys.modules['torch'] = None; from depthgraph.cli import main; main({arguments!r})"
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "error[missing-package]" in result.stderr
    assert 'pip install "depthgraph[' in result.stderr
    assert "Traceback" not in result.stderr


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


def test_schemes_lists_the_published_routes():
    result = run("schemes", "--published")
    assert all(each.title in result.stdout for each in dg.catalogue())
    rows = json.loads(run("schemes", "--published", "--json").stdout)
    assert [(row["spec"], row["execution_depth"]) for row in rows] == [
        (each.text, each.execution_depth) for each in dg.catalogue()
    ]


def test_schemes_draws_the_published_routes(tmp_path):
    written = json.loads(run("schemes", "--draw", str(tmp_path / "new"), "--json").stdout)
    assert len(written["pictures"]) == len(dg.catalogue())
    page = (tmp_path / "new" / "gallery.md").read_text(encoding="utf-8")
    assert all(f"](gallery/{Path(picture).name})" in page for picture in written["pictures"])
    assert Path(written["page"]).parent == tmp_path / "new"


@pytest.mark.parametrize("option", [["--published"], ["--draw", "x"]])
def test_one_scheme_and_all_routes_are_not_asked_for_at_once(option):
    result = run("schemes", "lft", *option)
    assert result.returncode == 2
    assert "--published and --draw are for all routes" in result.stderr


def test_schemes_lists_the_library():
    result = run("schemes")
    assert all(scheme.signature in result.stdout for scheme in dg.schemes().values())
    assert [entry["name"] for entry in json.loads(run("schemes", "--json").stdout)] == list(dg.schemes())
    assert "lft(n) = 1 (i i-1 i for i in 2..n-1)" in run("schemes", "lft").stdout


@pytest.mark.parametrize("columns", ["0", "20", "40", "79", "80", "100", "200"])
def test_no_width_cuts_the_list_of_schemes(columns):
    text = run("schemes", COLUMNS=columns).stdout
    words = {word for scheme in dg.schemes().values() for word in f"{scheme.executions} {scheme.origin}".split()}
    if int(columns) >= 80:
        words = {word for word in words if len(word) < 16}  # of a table, columns fold long words
    assert all(word in text for word in words)
    assert all(scheme.signature in text for scheme in dg.schemes().values())
    assert ("what it runs:" in text) == (int(columns) < 80)


@pytest.mark.parametrize("zeros", [0, 1, 19, 25, 5000])
def test_zeros_before_a_number_change_nothing(zeros):
    for value, depth in (("6", 6), ("10", 10)):
        shown = run("show", "1..N", f"N={'0' * zeros}{value}", "--json")
        assert json.loads(shown.stdout)["parameter_depth"] == depth
    assert "is bound to -6" in run("show", "1..N", f"N=-{'0' * zeros}6").stderr
    assert "is bound to 0" in run("show", "1..N", f"N={'0' * (zeros + 1)}").stderr
    assert "error[bad-binding]" in run("show", "1..N", f"N={'0' * zeros}{'6' * 5000}").stderr


def _on_a_terminal(*arguments, **environment):
    """Return what a command writes to a terminal that is both its output streams."""
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    command = [sys.executable, "-m", "depthgraph", *arguments]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=env | {"TERM": "xterm-256color"} | environment
    ):
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # Linux says so when the other side has closed
            while part := os.read(ours, 65_536):
                written += part
    os.close(ours)
    return written


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_errors_are_coloured_on_a_terminal_unless_no_color_is_set(environment, coloured):
    written = _on_a_terminal("check", "4..2", **environment)
    assert b"descending-range" in written
    assert (b"\x1b[31m" in written or b"\x1b[1;31m" in written) == coloured


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
