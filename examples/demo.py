"""The road end to end, in about two minutes on 2 cores: check, draw, train a pair, compare.

Run it from the repository's root (`make demo`). Everything it makes is in `demo-output/`.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

# before torch loads: threads that wait must sleep, or a busy neighbour slows training ten times and more
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import depthgraph as dg
from depthgraph.config import TrainConfig, load_train_config
from depthgraph.draw import save
from depthgraph.lab import Result, train

EXAMPLES = Path(__file__).parent
OUT = Path("demo-output")
#: The pair: the smallest size of the Layer-Feedback paper, and two routes over its 6 layers.
MODEL: Mapping[str, Any] = {"preset": "lft-2.5m", "context": 128}
ROUTES = {"standard": "...", "lft": "lft(6)"}
#: Equal for both runs, and fixed, so that the demo gives the same losses every time.
SETTINGS: Mapping[str, Any] = {
    "batch": 4,
    "length": 128,
    "steps": 400,
    "data": {"validation_tokens": 8_192},
    "optimiser": {"learning_rate": 3e-3, "warmup": 0.1},
    "log_every": 10,
    "eval_every": 200,
    "checkpoint_every": 200,
    "threads": 2,
    "seed": 0,
}
#: Narrow enough for a terminal of 80 columns.
LOOK: Mapping[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "collapse_padding": True, "title_justify": "left"}
VIEWS = ("folded", "unrolled", "staircase")


def check_and_draw(console: Console, out: Path) -> list[Path]:
    """Say what the three example configs mean, and draw them."""
    table = Table(title="The example configs", **LOOK)
    for column in ("file", "route", "N", "E", "multiplier", "reuse map"):
        table.add_column(column, justify="right" if column in ("N", "E", "multiplier") else "left")
    pictures: list[Path] = []
    for name in ("lft", "ilr", "block"):
        config = load_train_config(EXAMPLES / f"{name}.yaml")
        route = config.route
        counts = (f"{route.parameter_depth}", f"{route.execution_depth}", f"{route.multiplier:.2f}")
        table.add_row(f"examples/{name}.yaml", config.model.route, *counts, str(route.reuse_map))
        for view in VIEWS:
            try:
                pictures.append(save(route, out / f"{name}-{view}.svg", view=view))  # type: ignore[arg-type]
            except dg.DrawError as error:  # no Graphviz: the other pictures come all the same
                console.print(f"{name}-{view}.svg: {error}", markup=False)
    console.print(table)
    return pictures


def train_pair(console: Console, out: Path, model: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Result]:
    """Train both routes on the same tokens in the same order, the second from the weights the first began with."""
    results = {}
    for name, route in ROUTES.items():
        shutil.rmtree(out / name, ignore_errors=True)
        config = TrainConfig.model_validate({**settings, "model": {**model, "route": route}, "out": str(out / name)})
        results[name] = train(config, progress=console.is_terminal)
    return results


def comparison(results: Mapping[str, Result]) -> Table:
    """Return the table that the demo ends with."""
    title = "One set of first weights, one order of tokens, two routes"
    table = Table(title=title, **LOOK)
    columns = ("", "parameters", "E", "multiplier", "validation\nperplexity", "tokens", "training\nFLOPs", "seconds")
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    for name, result in results.items():
        table.add_row(
            name,
            f"{result.parameters:,}",
            f"{result.route.execution_depth}",
            f"{result.route.multiplier:.2f}",
            f"{result.perplexity:.2f}",
            f"{result.tokens:,}",
            "–" if result.flops is None else f"{result.flops / 1e12:.2f} T",
            f"{result.seconds:.1f}",
        )
    return table


def main(
    out: Path = OUT,
    model: Mapping[str, Any] = MODEL,
    settings: Mapping[str, Any] = SETTINGS,
    console: Console | None = None,
) -> dict[str, Result]:
    console = console or Console()
    out.mkdir(parents=True, exist_ok=True)
    pictures = check_and_draw(console, out)
    console.print(f"\nTraining both routes, {settings['steps']} steps each …\n")
    results = train_pair(console, out, model, settings)
    console.print()
    console.print(comparison(results))
    standard, lft = results["standard"], results["lft"]
    if standard.flops and lft.flops:
        console.print(f"Equal parameters, first weights and tokens; {lft.flops / standard.flops:.2f} times the FLOPs.")
    # LFT's authors, 10M pair: 32.00 against 29.43 % at 200M tokens, 32.57 against 36.86 % at 500M
    console.print("One seed and few tokens: the road works; which route is better stays open.")
    console.print("(The LFT paper's 10M model was behind at 200M tokens and ahead at 500M.)\n", highlight=False)
    console.print("Pictures:", *(f"  {path}" for path in pictures), sep="\n", highlight=False)
    console.print("Logs:", *(f"  {result.log}" for result in results.values()), sep="\n", highlight=False)
    console.print("Checkpoints:", *(f"  {result.checkpoint}" for result in results.values()), sep="\n", highlight=False)
    return results


if __name__ == "__main__":
    main()
