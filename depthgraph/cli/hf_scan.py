"""`depthgraph hf scan`: a pretrained model with each block of its layers run twice, or left out, as a heat map."""

import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from depthgraph.cli.console import console, data_json, encodable, note, show_table
from depthgraph.cli.hf_eval import as_text, figure, finite
from depthgraph.cli.hf_options import (
    WINDOWS,
    BatchOption,
    DeviceOption,
    DtypeOption,
    FolderArgument,
    LengthOption,
    Setting,
    TextOption,
    WindowsOption,
    read_folder,
    read_routes,
)
from depthgraph.cli.hf_progress import run_missing
from depthgraph.cli.inputs import JsonOption
from depthgraph.errors import ConfigError, DrawError

if TYPE_CHECKING:
    from depthgraph.draw.heat import Heat
    from depthgraph.hf.evaluate import Report
    from depthgraph.hf.results import Results
    from depthgraph.hf.scan import Block

KindOption = Annotated[
    Literal["repeat", "skip"], typer.Option("--kind", help="repeat: layers i..j run twice; skip: they are left out.")
]
StepOption = Annotated[int, typer.Option("--step", min=1, help="Blocks begin and end at every so many layers.")]
WidthOption = Annotated[int | None, typer.Option("--max-width", min=1, help="The most layers of a block.")]
OutOption = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="For losses, table and picture; an interrupted scan goes on there.")
]
PictureOption = Annotated[
    Path | None, typer.Option("-o", "--output", help="One more picture: its ending is the format, svg, png or pdf.")
]
TopOption = Annotated[int, typer.Option("--top", min=1, help="How many blocks are listed below the map.")]

SAID = {"repeat": "run twice", "skip": "left out"}


def scan(
    model_dir: FolderArgument,
    text: TextOption,
    out: OutOption,
    kind: KindOption = "repeat",
    step: StepOption = 1,
    max_width: WidthOption = None,
    length: LengthOption = None,
    windows: WindowsOption = WINDOWS,
    batch: BatchOption = 1,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    top: TopOption = 10,
    output: PictureOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try every block of layers i..j twice (or without it), and show what each does to the loss as a heat map.

    The way of RYS, "repeat your self": no weight changes, and 1..j i..N is compared with 1..N on the windows that
    `hf eval` would take. A block begins where the model without a route has got to before it, so
    that fewer layers run than in its whole route; its loss is the same to the last bit. DIR gets repeat.svg and
    repeat.csv, or skip.svg and skip.csv.
    """
    if output is not None:
        _check_picture(output)
    folder = read_folder(model_dir)
    from depthgraph.hf.evaluate import score
    from depthgraph.hf.scan import blocks
    from depthgraph.hf.scan import scan as run

    todo = blocks(folder.parameter_depth, kind, step=step, max_width=max_width)
    setting = Setting.of(folder, text, length, windows, batch, device, dtype)
    results = setting.results(out)

    def compute(model: Any, report: "Report") -> None:
        run(model, todo, setting.windows, results, batch=batch, report=report)

    base = read_routes(["1..N"], folder)[0].route.text
    run_missing(setting, results, [base, *(block.route.text for block in todo)], compute)
    rows = [_record(block, setting, results, base) for block in todo]
    heat = _heat(rows, score(results, base, base, setting.windows).loss, setting, kind)
    written = _write(out, kind, rows, heat, output)
    if as_json:
        data_json({"model": str(folder.path), "text": str(text), "kind": kind, "files": written, "blocks": rows})
    else:
        _print(heat, rows, top)
        note(f"{setting.described}; written: {', '.join(written)}")


def _record(block: "Block", setting: Setting, results: "Results", base: str) -> dict[str, Any]:
    from depthgraph.hf.evaluate import score

    found = score(results, block.route.text, base, setting.windows)
    return {
        "first": block.first,
        "last": block.last,
        "route": block.route.text,
        "E": block.route.execution_depth,
        "loss": finite(found.loss),
        "difference": finite(found.difference),
        "standard_error": finite(found.spread),
    }


def _heat(rows: Iterable[Mapping[str, Any]], base: float, setting: Setting, kind: str) -> "Heat":
    from depthgraph.draw.heat import Heat

    values = {(row["first"], row["last"]): math.nan if row["difference"] is None else row["difference"] for row in rows}
    name = setting.folder.path.resolve().name
    notes = (f"change of the loss, in nats a token, from {base:.3f} without that", setting.described)
    return Heat(values, f"{name}: layers i..j {SAID[kind]}", notes)


def _check_picture(path: Path) -> None:
    from depthgraph.draw.render import FORMATS
    from depthgraph.whole_file import check_place

    if path.suffix.lower().removeprefix(".") not in FORMATS:
        message = f"the ending of {path.name} is not that of a heat map"
        raise DrawError("unknown-view", message, help=f"it can end in {', '.join(f'.{format}' for format in FORMATS)}")
    check_place(path, DrawError)


def _write(out: Path, kind: str, rows: list[dict[str, Any]], heat: "Heat", output: Path | None) -> list[str]:
    """Write table and pictures, each whole or not at all; return their names."""
    from depthgraph.draw.heat import heat_scene
    from depthgraph.draw.render import render
    from depthgraph.draw.scene import dot, svg
    from depthgraph.whole_file import write_whole

    scene = heat_scene(heat)
    files = {out / f"{kind}.csv": as_text(rows).encode(), out / f"{kind}.svg": svg(scene).encode()}
    if output is not None:
        format = output.suffix.lower().removeprefix(".")
        files[output] = svg(scene).encode() if format == "svg" else render(dot(scene), format)
    for path, content in files.items():
        write_whole(path, content, ConfigError)
    return list(map(str, files))


def _print(heat: "Heat", rows: list[dict[str, Any]], top: int) -> None:
    """Print the map, in colour on a terminal, and the blocks with the lowest losses."""
    from rich.text import Text

    from depthgraph.draw.heat import COLOURS, DARK, SIDE
    from depthgraph.draw.heat_text import heat_lines
    from depthgraph.draw.palette import INK, PAPER

    screen = console()
    for line in heat_lines(heat, screen.width):
        text = Text(no_wrap=True, overflow="ignore")
        for piece in line:
            ink = PAPER if piece.level in DARK else INK
            style = "" if piece.level is None else f"{ink} on {COLOURS[piece.level + SIDE]}"
            text.append(encodable(piece.text, sys.stdout.encoding), style)
        text.rstrip()
        screen.print(text, soft_wrap=True)
    best = sorted((row for row in rows if row["loss"] is not None), key=lambda row: row["loss"])[:top]
    show_table(("block", "E", "loss", "change", "±", "route"), (_cells(row) for row in best))


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [
        f"{row['first']}..{row['last']}",
        str(row["E"]),
        figure(row["loss"], ".4f"),
        figure(row["difference"], "+.4f"),
        figure(row["standard_error"], ".4f"),
        row["route"],
    ]
