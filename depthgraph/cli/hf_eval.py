"""`depthgraph hf eval`: the loss of a pretrained model on a text under several routes, side by side."""

import csv
import math
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from depthgraph.cli.console import data, data_json, note, show_table
from depthgraph.cli.hf_options import (
    WINDOWS,
    BatchOption,
    DeviceOption,
    DtypeOption,
    FolderArgument,
    LengthOption,
    Named,
    Setting,
    TextOption,
    WindowsOption,
    read_folder,
    read_routes,
)
from depthgraph.cli.hf_progress import run_missing
from depthgraph.cli.inputs import JsonOption
from depthgraph.errors import ConfigError

if TYPE_CHECKING:
    from depthgraph.hf.evaluate import Report
    from depthgraph.hf.figures import Figures
    from depthgraph.hf.results import Results

RouteArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ROUTE]... [NAME=INTEGER]...", show_default=False, help="Routes, and names of them: r=4."),
]
RoutesOption = Annotated[
    list[str] | None, typer.Option("--routes", metavar="ROUTE...", help="Routes; specs, YAML files with some, or `-`.")
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV on standard output.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Keep the losses there: an interrupted command goes on from them."),
]

TITLES = ("#", "E", "FLOPs", "loss", "change", "±", "perplexity", "bits/byte", "seconds", "route")


def eval_(
    model_dir: FolderArgument,
    text: TextOption,
    words: RouteArguments = None,
    routes: RoutesOption = None,
    length: LengthOption = None,
    windows: WindowsOption = WINDOWS,
    batch: BatchOption = 1,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    out: OutOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Compare the loss of a pretrained model on a text under several routes; nothing is trained.

    depthgraph hf eval MODEL_DIR --routes "block(7..9)x2" "1..12 16..30 drop(13..15)" --text FILE

    The first row is the model as it was saved, and the others are compared with it. Every route sees the same windows
    of --length tokens, which do not overlap: each predicts the token behind every one of its tokens, so every token of
    the text but the first is predicted once. The loss is in nats a token; ± is the standard error of the change, from
    its values on the windows; FLOPs are those of the whole model, relative to the first row.
    """
    if as_json and as_csv:
        raise ConfigError("wrong-usage", "of --json and --csv, one says how the table is printed")
    folder = read_folder(model_dir)
    from depthgraph.hf.evaluate import evaluate

    base = read_routes([folder.own_route.text], folder)[0]
    told = read_routes([*(routes or ()), *(words or ())], folder)
    setting = Setting.of(folder, text, length, windows, batch, device, dtype)
    results, figures = setting.results(out), setting.figures()
    wanted = {each.route.text: each.route for each in (base, *told)}
    flops = {text: figures.flops_under(route) for text, route in wanted.items()}

    def compute(model: Any, report: "Report") -> None:
        evaluate(model, wanted.values(), setting.windows, results, batch=batch, report=report)

    run_missing(setting, results, wanted, compute)
    rows = [_record(each, base, setting, results, figures, flops) for each in (base, *told)]
    if as_json:
        data_json({"model": str(folder.path), "text": str(text), "dtype": _name(setting.dtype), "routes": rows})
    elif as_csv:
        data(as_text(rows).rstrip("\n"))
    else:
        show_table(TITLES, (_cells(number, row) for number, row in enumerate(rows)))
        if figures.fault:
            note(f"FLOPs are not counted: {figures.fault}")
        note(
            f"{setting.described}, in {_name(setting.dtype)} on {setting.device}; route 0 is the model as it was saved"
        )


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _record(
    named: Named, base: Named, setting: Setting, results: "Results", figures: "Figures", flops: Mapping[str, int | None]
) -> dict[str, Any]:
    from depthgraph.hf.evaluate import score

    text, windows = named.route.text, setting.windows
    own, other = flops[text], flops[base.route.text]
    found = score(results, text, base.route.text, windows)
    return {
        "spec": named.title,
        "route": text,
        "E": named.route.execution_depth,
        "flops_per_token": None if own is None else own / figures.length,
        "relative_flops": None if own is None or other is None else own / other,
        "loss": finite(found.loss),
        "difference": finite(found.difference),
        "standard_error": finite(found.spread),
        "perplexity": finite(found.perplexity),
        "bits_per_byte": finite(found.bits),
        "windows": len(windows),
        "tokens": windows.tokens,
        "seconds": found.seconds,
    }


def finite(value: float | None) -> float | None:
    """Return a number as JSON has it: what is none there is null."""
    return value if value is not None and math.isfinite(value) else None


def as_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return records as CSV."""
    stream = StringIO()
    told = list(rows)
    table = csv.DictWriter(stream, list(told[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(told)
    return stream.getvalue()


def figure(value: float | None, form: str) -> str:
    """Return a number in a form, and a dash where there is none."""
    return "–" if value is None else format(value, form)


def _cells(number: int, row: Mapping[str, Any]) -> list[str]:
    change = ["", ""] if number == 0 else [figure(row["difference"], "+.4f"), figure(row["standard_error"], ".4f")]
    return [
        str(number),
        str(row["E"]),
        figure(row["relative_flops"], ".3f"),
        figure(row["loss"], ".4f"),
        *change,
        figure(row["perplexity"], ",.2f"),
        figure(row["bits_per_byte"], ".4f"),
        f"{row['seconds']:.1f}",
        row["spec"],
    ]
