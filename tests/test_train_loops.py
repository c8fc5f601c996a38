"""Training with loop counts that are drawn: the log, FLOPs, evaluation, checkpoints, and going on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_train import CONFIG, OWN_LAYERS, RUN, SIZES, losses
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

import depthgraph as dg
from depthgraph.cli import app
from depthgraph.config import TrainConfig, load_train_config
from depthgraph.errors import ConfigError
from depthgraph.lab import Checkpoint, latest_checkpoint, load_decoder, read_log, train
from depthgraph.lab.data import load_corpus
from depthgraph.lab.flops import StepFlops
from depthgraph.lab.model import build_decoder
from depthgraph.lab.train import evaluate, loss_of
from depthgraph.nn import Decoder
from depthgraph.samplers import draw_counts

pytestmark = pytest.mark.usefixtures("one_thread")

ROUTE = "1 save(e) (mix(e) 2)x r 3"
HUGINN = {"kind": "poisson_lognormal", "mean": 3, "max": 6, "backprop_last": 2, "eval": 4}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n\n".join(f"Line {n} of a text that has {n * n} words." for n in range(400)))
    return path


@pytest.fixture
def given(tmp_path, text):
    def settings(loops=HUGINN, model=None, **changes):
        return TrainConfig.model_validate(
            {
                "model": {**SIZES, "route": ROUTE, **(model or {})},
                "loops": {"r": loops} if loops else {},
                "data": {"text": str(text), "validation": 0.1, "validation_tokens": 200},
                "batch": 2,
                "length": 16,
                "steps": 8,
                "log_every": 1,
                "threads": 1,
                "out": str(tmp_path / "run"),
                **changes,
            }
        )

    return settings


def logged(config, name):
    return [record[name] for record in read_log(Path(config.out) / "log.jsonl", "step")]


def test_the_counts_of_every_step_are_drawn_and_logged(given):
    config = given()
    result = train(config, progress=False)
    counts = logged(config, "counts")
    assert counts == [draw_counts(config.loops, config.seed, step, 8) for step in range(1, 9)]
    assert len({each["r"] for each in counts}) > 2
    assert result.route == dg.route(ROUTE, r=4)
    assert result.as_json() == json.loads(json.dumps(result.as_json()))
    start = read_log(result.log, "start")[0]
    assert (start["route"], start["execution_depth"]) == ("1 save(e) (mix(e) 2)x4 3", 6)


def test_a_fixed_count_trains_the_static_route_to_the_last_bit(given, tmp_path):
    static = given(None, {"route": ROUTE.replace("x r", "x3")}, out=str(tmp_path / "static"))
    looped = given({"kind": "fixed", "count": 3})
    results = [train(config, progress=False) for config in (static, looped)]
    assert losses(static) == losses(looped)
    assert results[0].validation_loss == results[1].validation_loss
    assert results[0].flops == results[1].flops
    one, other = (load_decoder(result.checkpoint).state_dict() for result in results)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_schedule_changes_the_count_within_a_run(given):
    config = given({"kind": "schedule", "stages": [{"until": 0.5, "count": 1}, {"count": 3}], "eval": 3})
    train(config, progress=False)
    assert [each["r"] for each in logged(config, "counts")] == [1, 1, 1, 1, 3, 3, 3, 3]


def matrices(config, r):
    """Multiply-adds of one forward pass by hand: layers, mixes, head."""
    d, f, T, B = 24, 32, 16, 2
    layer = B * T * (4 * d * d + 3 * d * f + 2 * T * d)
    return layer, B * T * 2 * d * d, B * T * d * 260


def test_flops_are_true_for_every_count_and_less_where_no_gradient_goes(given):
    whole = given({**HUGINN, "backprop_last": None})
    cut = given()
    for config, kept in ((whole, 99), (cut, 2)):
        counted = StepFlops(config, build_decoder(config))
        layer, mix, head = matrices(config, 0)
        for r in (1, 2, 3, 6):
            trained, only_forward = min(r, kept), max(0, r - kept)
            expected = 2 * (3 * ((2 + trained) * layer + trained * mix + head) + only_forward * (layer + mix))
            assert counted.of({"r": r}) == expected


def test_the_flops_of_a_run_are_those_of_its_steps(given):
    config = given()
    result = train(config, progress=False)
    counted = StepFlops(config, build_decoder(config))
    flops = [counted.of(counts) for counts in logged(config, "counts")]
    assert result.flops == sum(flops)
    assert logged(config, "flops") == [sum(flops[: number + 1]) for number in range(8)]


def test_the_model_is_evaluated_at_one_count(given):
    config = given()
    result = train(config, progress=False)
    model, corpus = load_decoder(result.checkpoint), load_corpus(config)
    assert evaluate(model, corpus, config) == result.validation_loss
    static = load_decoder(result.checkpoint, dg.route(ROUTE, r=4))
    assert evaluate(static, corpus, config) == result.validation_loss
    assert evaluate(load_decoder(result.checkpoint, dg.route(ROUTE, r=1)), corpus, config) != result.validation_loss


def test_a_checkpoint_gives_a_model_that_takes_counts(given):
    config = given()
    result = train(config, progress=False)
    model = load_decoder(config.out)
    tokens = torch.arange(16)[None]
    assert torch.equal(model(tokens), model(tokens, r=4))
    for r in (1, 9):
        static = load_decoder(config.out, dg.route(ROUTE, r=r))
        assert torch.equal(model(tokens, r=r), static(tokens))
    found = Checkpoint.read(result.checkpoint)
    assert found.config == config
    assert found.route == dg.route(ROUTE, r=4)


def test_a_killed_run_goes_on_with_the_same_counts_to_the_same_losses(tmp_path, text):
    (tmp_path / "own_layers.py").write_text(OWN_LAYERS)
    loops = f"loops: {{r: {json.dumps(HUGINN)}}}\n"
    paths = {}
    for name in ("whole", "killed"):
        written = CONFIG.format(text=text, out=tmp_path / name).replace("1 drop(2) 3x2", ROUTE)
        assert ROUTE in written
        paths[name] = tmp_path / f"{name}.yaml"
        paths[name].write_text(written + loops)
    whole, killed = (load_train_config(path) for path in paths.values())
    result = train(whole, progress=False)

    # killed in the last execution of step 10, after the checkpoint of step 8
    calls = sum(2 + counts["r"] for counts in logged(whole, "counts")[:10])
    command = [sys.executable, "-c", RUN, str(paths["killed"])]
    done = subprocess.run(command, env={**os.environ, "KILLED_AT": str(calls)}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert latest_checkpoint(killed.out).name == "step-00000008"
    assert [step for step, _ in losses(killed)] == list(range(1, 10))

    subprocess.run([*command, "resume"], check=True)
    assert losses(killed) == losses(whole)
    assert logged(killed, "counts") == logged(whole, "counts")
    end = read_log(Path(killed.out) / "log.jsonl", "end")[0]
    assert (end["validation_loss"], end["flops"]) == (result.validation_loss, result.flops)
    for name in ("model.safetensors", "optimiser.safetensors"):
        one, other = (latest_checkpoint(config.out) / name for config in (whole, killed))
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("loops", "model", "message"),
    [
        ({**HUGINN, "mean": 4}, {}, r"has loops\.r\.mean 3\.0, and the config 4\.0"),
        ({**HUGINN, "backprop_last": 3}, {}, r"has loops\.r\.backprop_last 2, and the config 3"),
        (HUGINN, {"route": "1 save(e) (mix(e) 2)x (r*r-3*r) 3"}, r"has model\.route .*x r 3, and the config"),
    ],
)
def test_a_run_does_not_go_on_with_other_loops(given, loops, model, message):
    train(given(steps=1), progress=False)
    with pytest.raises(ConfigError, match=message) as caught:
        train(given(loops, model, steps=1), resume=True, progress=False)
    assert caught.value.code == "checkpoint-mismatch"


def test_early_exits_give_logits_and_are_not_trained_on(given):
    model = Decoder(given().model, dg.parse("1 (2 exit)x r 3"), dynamic=["r"])
    tokens = torch.arange(16)[None]
    output, exits = model(tokens, r=3)
    plain = Decoder(given().model, dg.route("1 2x3 3"))
    assert torch.equal(output, plain(tokens))
    assert len(exits) == 3
    early = Decoder(given().model, dg.route("1 2x2 drop(3)"))
    early.load_state_dict(model.state_dict())
    assert torch.equal(exits[1], early(tokens))
    windows = torch.arange(34).view(2, 17)
    assert loss_of(model, windows, counts={"r": 3}) == loss_of(plain, windows)


@pytest.mark.parametrize(
    "route",
    ["(1..3 exit)x2", "1 save(a) 2 exit load(a) 3", "1 save(a) 2 exit 3 exit load(a) mix(a) 3", "1 exit stopgrad 2..3"],
)
def test_flops_of_routes_with_exits_are_those_that_torch_counts(given, route):
    config = given(None, {"route": route}, steps=2)
    model = build_decoder(config).to("meta")
    with FlopCounterMode(display=False) as counter:
        loss_of(model, torch.zeros(2, 17, dtype=torch.long, device="meta")).backward()
    assert StepFlops(config, build_decoder(config)).of({}) == counter.get_total_flops()
    assert train(config, progress=False).flops == 2 * counter.get_total_flops()


# config files


YAML = """
model: {{vocab_size: 260, width: 24, ffn_width: 32, heads: 2, parameter_depth: 3, context: 16, route: "{route}"}}
loops: {loops}
batch: 2
length: 16
steps: 2
out: run
"""


@pytest.mark.parametrize(
    ("route", "loops", "message"),
    [
        (ROUTE, "{s: {kind: fixed, count: 2}}", "the route has no name `s` for the count of a loop; its names are `r`"),
        (ROUTE, "{r: {kind: uniform, high: 3}}", "`loops.r` says no `eval`"),
        (ROUTE, "{r: {kind: poisson_lognormal, mean: 0}}", "`loops.r.mean` is above 0.0; found `0`"),
        (ROUTE, "{r: {kind: poison, mean: 3}}", "`loops.r.kind` is one of 'fixed', 'uniform', 'poisson_lognormal'"),
        (ROUTE, "{r: {mean: 3}}", "`loops.r` says no `kind`"),
        (ROUTE, "{r: {kind: fixed, count: 2, evil: 3}}", "there is no setting `loops.r.evil`"),
        (
            ROUTE,
            "{r: {kind: schedule, stages: [{count: 0}], eval: 1}}",
            "`loops.r.stages.0.count` is at least 1; found `0`",
        ),
        (
            ROUTE,
            "{r: {kind: schedule, stages: [{until: 0.5, count: 1}], eval: 1}}",
            "`until` rises from stage to stage, to 1; found 0.5",
        ),
        (
            "(1..3)x (r-1)",
            "{r: {kind: uniform, low: 1, high: 3, eval: 2}}",
            "at r=1, which `loops` can draw: a count is at least 1",
        ),
        (
            "cycle(3,r)",
            "{r: {kind: fixed, count: 4, backprop_last: 2}}",
            "at r=4, which `loops` can draw: `r` is no plain loop count",
        ),
    ],
)
def test_loops_that_do_not_fit_are_shown_at_their_place(tmp_path, route, loops, message):
    path = tmp_path / "run.yaml"
    path.write_text(YAML.format(route=route, loops=loops))
    with pytest.raises(ConfigError) as caught:
        load_train_config(path)
    assert message in caught.value.message
    assert caught.value.location.line in (2, 3)
    checked = CliRunner().invoke(app, ["check", str(path)])
    assert checked.exit_code == 1
    assert message in checked.stderr


def test_check_and_show_take_the_count_of_the_evaluation(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(YAML.format(route=ROUTE, loops=json.dumps({"r": HUGINN})))
    checked = CliRunner().invoke(app, ["check", str(path), "--json"])
    assert [each["route"] for each in json.loads(checked.stdout)] == [str(dg.route(ROUTE, r=4))]
    for words, r in (([], 4), (["r=2"], 2)):
        shown = CliRunner().invoke(app, ["show", str(path), *words, "--json"])
        assert json.loads(shown.stdout)["route"] == str(dg.route(ROUTE, r=r))
    written = YAML.format(route=f"{ROUTE} where r=5", loops="{r: {kind: uniform, high: 3}}")
    path.write_text(written)
    assert load_train_config(path).counts == {"r": 5}
    assert str(dg.route(ROUTE, r=5)) in CliRunner().invoke(app, ["check", str(path)]).stdout


@pytest.mark.parametrize(
    ("loops", "message", "help"),
    [
        ("{r: {mean: 3}}", "`loops.r` says no `kind`", "kinds are fixed, uniform, poisson_lognormal, schedule"),
        (
            "{r: 4}",
            "`loops.r` is a group of settings; found `4`",
            "kinds are fixed, uniform, poisson_lognormal, schedule",
        ),
        ("{r: {kind: uniform, hihg: 3}}", "there is no setting `loops.r.hihg`", "did you mean `loops.r.high`?"),
        ("{r: {kind: fixed, count: 3, backprop: 2}}", "`loops.r.backprop`", "did you mean `loops.r.backprop_last`?"),
        (
            "{r: {kind: uniform, high: 3, zebra: 2}}",
            "there is no setting `loops.r.zebra`",
            "the settings here are kind, low, high, backprop_last, eval",
        ),
        (
            "{r: {kind: schedule, stages: [{count: {kind: uniform, lo: 1, high: 2}}]}}",
            "there is no setting `loops.r.stages.0.count.lo`",
            "did you mean `loops.r.stages.0.count.low`?",
        ),
        (
            "{r: {kind: schedule, stages: [{count: {low: 1, high: 2}}]}}",
            "`loops.r.stages.0.count` says no `kind`",
            "kinds are fixed, uniform, poisson_lognormal",
        ),
        ("{N: {kind: fixed, count: 3}}", "`N` is model.parameter_depth, and no count of a loop", ""),
    ],
)
def test_a_slip_in_a_loop_is_told_with_what_was_meant(tmp_path, loops, message, help):
    path = tmp_path / "run.yaml"
    path.write_text(YAML.format(route=ROUTE, loops=loops))
    with pytest.raises(ConfigError) as caught:
        load_train_config(path)
    assert message in caught.value.message
    assert caught.value.help.partition("\n")[0] == help
