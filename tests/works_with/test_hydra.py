"""Hydra: routes in its config files, on its command line and in a sweep, in an app that runs in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import depthgraph as dg

APP = Path(__file__).with_name("hydra_app.py")

#: Routes with all that Hydra's own grammar reads: commas, brackets, parentheses, bars, equals signs, arrows, colons' kin.
HARD = [
    "ilr[4,2,1,1]",
    "lft(4)",
    "(1..4)x2",
    "block(2..3)x3",
    "1 -> 2 -> 1 → 3 4",
    "1 (i i-1 i for i in 2..N-1) N",
    "1..2 mean(3 | 4)",
    "1 save(e) (mix(e) 2..3)x2 4 add(e)",
    "... (2..3)x2 ...",
    "pre core x r coda where pre=1, core=2..3, coda=4, r=3",
]


def run(tmp_path, *arguments):
    """Run the app with arguments as a shell would hand them over; return what each job printed, and its errors."""
    command = [sys.executable, str(APP), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    jobs = [json.loads(line.removeprefix("RAN ")) for line in done.stdout.splitlines() if line.startswith("RAN ")]
    return jobs, done.stderr


def quoted(route):
    """Return a route as Hydra wants it: in double quotes, inside what the shell hands over."""
    return f'"{route}"'


def test_a_route_in_a_config_file_is_a_plain_value_and_is_interpolated(tmp_path):
    (job,), _ = run(tmp_path)
    assert job == {"said": "ilr[4,2,1,1]", "reported": "ilr[4,2,1,1]", "path": [1, 1, 1, 1, 2, 2, 3, 4]}


@pytest.mark.parametrize("route", ["1..4", "1..4 2..3", "1 2 1 3 4", "1 ... 4"])
def test_a_route_of_layers_and_ranges_needs_no_quotes_of_hydras(tmp_path, route):
    (job,), _ = run(tmp_path, f"model.route={route}")
    assert job["path"] == list(dg.route(route, N=4).path)


def test_a_multirun_runs_every_quoted_route(tmp_path):
    jobs, _ = run(tmp_path, "--multirun", f"model.route={','.join(map(quoted, HARD))}")
    assert [job["said"] for job in jobs] == HARD
    assert [job["reported"] for job in jobs] == HARD
    assert [tuple(job["path"]) for job in jobs] == [dg.route(route, N=4).path for route in HARD]


def test_single_quotes_and_backslashes_do_it_too(tmp_path):
    (single,), _ = run(tmp_path, "model.route='ilr[4,2,1,1]'")
    (escaped,), _ = run(tmp_path, r"model.route=ilr\[4\,2\,1\,1\]")
    assert single == escaped
    assert single["said"] == "ilr[4,2,1,1]"


def test_a_sweep_stands_in_the_config_file_with_the_same_quotes(tmp_path):
    jobs, _ = run(tmp_path, "--multirun")
    assert [job["said"] for job in jobs] == ["lft(4)", "block(2..3)x2", "1..4 2..3"]


@pytest.mark.parametrize("route", ["ilr[4,2,1,1]", "(1..4)x2", "lft(4)", "1 -> 2 -> 3 -> 4"])
def test_without_quotes_hydra_refuses_and_runs_nothing(tmp_path, route):
    jobs, errors = run(tmp_path, f"model.route={route}")
    assert jobs == []
    assert "override_grammar" in errors


def test_a_field_that_is_declared_as_text_keeps_a_lone_number(tmp_path):
    (job,), _ = run(tmp_path, "model.route=1", "model.parameter_depth=1")
    assert job == {"said": "1", "reported": "1", "path": [1]}


def test_a_wrong_route_is_an_error_at_its_place(tmp_path):
    jobs, errors = run(tmp_path, 'model.route="1..4 (2..3)x"')
    assert jobs == []
    assert "error[" in errors
    assert "1..4 (2..3)x\n" in errors
