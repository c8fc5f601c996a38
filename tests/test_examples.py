"""Every example runs, with smaller sizes where it trains."""

import importlib.util
import io
from pathlib import Path

import pytest
from rich.console import Console

import depthgraph as dg
from depthgraph.config import TrainConfig, load_train_config
from depthgraph.lab import read_log, train

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = {"vocab_size": 257, "width": 32, "ffn_width": 32, "context": 16}
QUICK = {"batch": 2, "length": 16, "steps": 2, "threads": 1}

pytestmark = pytest.mark.usefixtures("one_thread")


def module_of(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(f"Line {n} of a text that has {n * n} words." for n in range(200)))
    return {"text": str(path), "validation": 0.1, "validation_tokens": 32}


ROUTES = {
    "lft": ("lft(5)", (2, 3, 3, 2, 1)),
    "ilr": ("ilr[4,2,1,1]", (4, 2, 1, 1)),
    "block": ("block(2..4)x2", (1, 2, 2, 2, 1)),
    "where": ("pre core x r coda where pre=1..2, core=3..4, coda=5..6, r=2", (1, 1, 4, 4, 1, 1)),
    "huginn": ("1 save(e) (mix(e) 2..3)x r 4", (1, 3, 3, 1)),
    "own_layers": ("1 (2..3)x3 4", (1, 3, 3, 1)),
}


def test_every_config_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == set(ROUTES)


@pytest.mark.parametrize("name", ROUTES)
def test_an_example_config_trains(name, tmp_path, text):
    config = load_train_config(EXAMPLES / f"{name}.yaml")
    assert config.model.route == ROUTES[name][0]
    assert config.route.reuse_map == ROUTES[name][1]
    heads = min(config.model.heads, 4)
    model = {**config.model.model_dump(), **SMALL, "heads": heads}
    small = TrainConfig.model_validate(
        {**config.model_dump(), **QUICK, "model": model, "data": text, "out": str(tmp_path / "run")}
    )
    result = train(small, progress=False)
    assert result.route == config.route
    assert result.flops
    assert len(read_log(result.log, "end")) == 1


def test_the_hand_edited_routes_compile(capsys):
    explore = module_of("explore")
    routes = explore.variants(5)
    assert len(routes) == 15
    assert routes[2, 4].path == (1, 2, 3, 4, 2, 3, 4, 5)
    assert set(routes.values()) == set(dg.RouteSpace(5, executions=(6, 10), patterns="self_merge"))
    explore.main()
    printed = capsys.readouterr().out
    assert "1..4 2..5" in printed
    assert "[arity] `L3.1` has 0 inputs and takes 1" in printed


def test_the_demo_draws_trains_a_pair_and_compares(tmp_path, text):
    demo = module_of("demo")
    assert demo.MODEL["preset"] == "lft-2.5m"
    console = Console(file=io.StringIO(), width=80)
    model = {**SMALL, "heads": 2, "parameter_depth": 6}
    settings = {**demo.SETTINGS, **QUICK, "data": text}
    for _ in range(2):  # a second call begins anew
        results = demo.main(tmp_path, model, settings, console)
    assert results["lft"].parameters == results["standard"].parameters
    assert results["lft"].route.execution_depth == 14
    printed = console.file.getvalue()
    assert "…\n" not in printed.replace("each …\n", "")
    for name in ("lft-folded.svg", "ilr-unrolled.svg", "block-staircase.svg"):
        assert (tmp_path / name).read_text().startswith(("<?xml", "<svg"))
    for word in ("parameters", "multiplier", "perplexity", "tokens", "FLOPs", "seconds", "2.33"):
        assert word in printed
    starts = [read_log(result.log, "start")[0] for result in results.values()]
    assert starts[0]["fingerprint"] == starts[1]["fingerprint"]
