"""Facts on `depthgraph explore`, as a real process."""

import csv
import json
import os
import subprocess
import sys
from io import StringIO
from typing import get_args

import pytest

import depthgraph as dg
from depthgraph.cli.explore import Measure, sorted_rows
from depthgraph.decoder_config import PRESETS
from depthgraph.decoder_cost import decoder_cost
from depthgraph.explore import RouteSpace, measures
from depthgraph.explore.matching import changed
from depthgraph.explore.measuring import NAMES


def run(*arguments, **environment):
    env = {**os.environ, "COLUMNS": "120", "PYTHONIOENCODING": "utf-8", **environment}
    command = [sys.executable, "-m", "depthgraph", "explore", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=env, check=False)


def test_a_table_has_the_first_routes_by_a_measure():
    result = run(
        "N=6", "--executions", "6..12", "--max-visits", "3", "--pattern", "ilr", "--sort", "flops", "--top", "3"
    )
    assert result.returncode == 0
    assert result.stderr == "3 of 435 routes, by flops\n"
    head, _, *rows = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert head == ["#", "E", "E/N", "layers", "visits", "return", "flops", "kv", "parameters", "route"]
    assert rows[0] == ["1", "6", "1", "6", "1", "0", "1", "6", "6", "1..6"]
    assert rows[1] == ["2", "7", "1.167", "6", "2", "1", "1.167", "7", "6", "1..5", "6x2"]
    assert len(rows) == 3


def test_json_has_every_route_with_every_measure():
    found = json.loads(run("N=4", "--executions", "4..6", "--pattern", "looped", "--pattern", "ilr", "--json").stdout)
    space = RouteSpace(4, executions=(4, 6), patterns=("looped", "ilr"))
    assert len(found) == space.count()
    assert {row["route"] for row in found} == {route.text for route in space}
    for row in found:
        route = dg.route(row["route"], N=row["N"])
        assert row == {"route": route.text, "N": 4, **measures(route)._asdict(), "text_length": len(route.text)}


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_file_has_the_same_table(tmp_path, ending):
    path = tmp_path / f"routes.{ending}"
    question = ("N=4", "--preset", "lft-2.5m", "--executions", "4..6", "--sort", "longest_return", "--descending")
    result = run(*question, "--out", str(path))
    assert (result.stdout, result.stderr) == (f"{path}\n", "")
    printed = run(*question, f"--{ending}").stdout
    assert path.read_text() == printed
    rows = json.loads(printed) if ending == "json" else list(csv.DictReader(StringIO(printed)))
    assert len(rows) == RouteSpace(4, executions=(4, 6)).count()
    returns = [int(row["longest_return"]) for row in rows]
    assert returns == sorted(returns, reverse=True)
    config = changed(PRESETS["lft-2.5m"], parameter_depth=4)
    for row in rows[::90]:
        assert int(row["flops"]) == decoder_cost(config, dg.route(row["route"], N=4)).forward_flops


def test_a_sample_is_the_one_of_its_seed():
    question = ("N=24", "--executions", "24..48", "--sample", "5", "--json")
    one, same, other = (run(*question, "--seed", seed).stdout for seed in ("1", "1", "2"))
    assert one == same != other
    assert len({row["route"] for row in json.loads(one)}) == 5


def test_routes_too_long_for_a_line_are_folded_and_not_cut():
    result = run("N=24", "--executions", "60", "--sample", "2")
    assert result.stderr.startswith("2 of a sample of 2, of 7.20e81 routes")
    words = " ".join(line[60:].strip() for line in result.stdout.splitlines())
    for route in json.loads(run("N=24", "--executions", "60", "--sample", "2", "--json").stdout):
        assert route["route"].replace(" ", "") in words.replace(" ", "")


def test_a_space_without_routes_is_an_empty_table():
    result = run("N=4", "--executions", "3")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "0 of 0 routes, by executions\n")
    assert json.loads(run("N=4", "--executions", "3", "--json").stdout) == []


def test_bounds_are_those_of_a_space():
    found = json.loads(run("N=3", "--flops", "1..1.4", "--some-layers", "--executions", "1..6", "--json").stdout)
    space = RouteSpace(3, executions=(1, 6), flops=(1, 1.4), every_layer=False)
    assert len(found) == space.count() > RouteSpace(3, flops=1.4).count()


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("measure", NAMES)
def test_the_first_rows_are_those_of_the_whole_sorted_table(measure, descending):
    from depthgraph.cli.explore import Row

    rows = [Row(route, measures(route)) for route in RouteSpace(3, executions=(3, 5))]
    whole = sorted_rows(rows, measure, descending=descending, top=None)
    assert sorted_rows(rows, measure, descending=descending, top=17) == whole[:17]
    values = [len(row.route.text) if measure == "text_length" else getattr(row.measures, measure) for row in whole]
    assert values == sorted(values, reverse=descending)


def test_everything_that_is_measured_can_be_sorted_by():
    assert get_args(Measure) == NAMES


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--executions", "6"], "error[wrong-usage]: N is not bound"),
        (["N=6"], "error[invalid-space]: nothing says how long a route of this space may be"),
        (["N=6", "r=2", "--executions", "6"], "error[wrong-usage]: a space has no name `r` to bind"),
        (["N=6", "--executions", "12..6"], "error[invalid-space]: executions=(12, 6) has its larger end first"),
        (["N=6", "--executions", "six"], "error[wrong-usage]: `six` is no number of executions"),
        (["N=6", "--flops", "2..x"], "error[wrong-usage]: `2..x` is no bound on FLOPs"),
        (
            ["N=6", "--executions", "8", "--pattern", "loopd"],
            "error[invalid-pattern]: there is no family of routes `loopd`",
        ),
        (["N=6", "--executions", "8", "--preset", "lft"], "error[wrong-usage]: there is no preset `lft`"),
        (["N=6", "--executions", "8", "--json", "--csv"], "error[wrong-usage]: of --json, --csv and --out"),
        (["N=6", "--executions", "8", "--out", "a.txt"], "error[wrong-usage]: a.txt is neither .csv nor .json"),
        (["N=6", "--executions", "8", "--out", "none/a.csv"], "error[missing-file]: the folder none does not exist"),
        (["N=24", "--executions", "24..48"], "error[space-too-large]: the space has 3.22e64 routes"),
        (
            ["N=3", "--executions", "3", "--sample", "7"],
            "error[empty-space]: 7 routes are drawn from a space that has 6",
        ),
        (["N=99999999999999999999", "--executions", "3"], "error[invalid-space]: N is an integer of 1 to 1,000,000"),
    ],
)
def test_wrong_usage_exits_with_2(arguments, words):
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert words in result.stderr


def test_a_pattern_that_is_no_spec_exits_with_1_at_its_place():
    result = run("N=6", "--executions", "8", "--pattern", "1..p (2..N")
    assert result.returncode == 1
    assert result.stderr.startswith("<pattern>:1:")


def test_neither_the_package_nor_the_command_loads_torch():
    script = (
        "import sys\nimport depthgraph.explore\nfrom depthgraph.cli import main\n"
        "try:\n    main(['explore', 'N=3', '--executions', '3..4', '--pattern', 'looped'])\n"
        "except SystemExit as e:\n    assert not e.code\nprint(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers", "numpy", "optuna", "networkx"} & set(loaded)
