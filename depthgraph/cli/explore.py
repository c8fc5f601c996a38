"""`depthgraph explore`: every route of a space with its measures, sorted."""

import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator
from heapq import nlargest, nsmallest
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from depthgraph.cli.console import console, data, note, show_table
from depthgraph.cli.inputs import JsonOption, read_bindings
from depthgraph.errors import ConfigError

if TYPE_CHECKING:
    from depthgraph.explore import Measures, RouteSpace, Scale
    from depthgraph.route import Route

#: What a table can be sorted by: `depthgraph.explore.measuring.NAMES`, which would load too much for `--help`.
Measure = Literal[
    "executions",
    "multiplier",
    "layers",
    "max_visits",
    "longest_return",
    "flops",
    "kv",
    "parameters",
    "text_length",
]
#: Titles of the printed table, where they are not the measure's name.
TITLES = {"executions": "E", "multiplier": "E/N", "max_visits": "visits", "longest_return": "return"}
#: Rows of a printed table; routes that are measured at most; from how many on there is a progress bar.
ROWS, MOST_ROUTES, SLOW = 20, 2_000_000, 5_000

BindingArguments = Annotated[
    list[str] | None, typer.Argument(metavar="N=INTEGER", show_default=False, help="The number of layers: N=6.")
]
ExecutionsOption = Annotated[str | None, typer.Option("--executions", metavar="LOW..HIGH", help="How many: 6..12, 8.")]
FlopsOption = Annotated[
    str | None,
    typer.Option("--flops", metavar="HIGH", help="The most FLOPs of all executions, as a ratio: 2, or 1.5..2."),
]
VisitsOption = Annotated[int | None, typer.Option("--max-visits", help="The most visits of a layer.")]
SomeOption = Annotated[bool, typer.Option("--some-layers", help="Also routes that drop layers.")]
PatternOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern", help="any, ilr, looped, windows, a scheme, or a spec with free names; may be given again."
    ),
]
PresetOption = Annotated[
    str | None, typer.Option("--preset", help="Measure in this model, as lft-2.5m: FLOPs, bytes, parameters.")
]
SortOption = Annotated[Measure, typer.Option("--sort", help="The measure to sort by.")]
DescendingOption = Annotated[bool, typer.Option("--descending", help="The largest first.")]
TopOption = Annotated[
    int | None, typer.Option("--top", min=1, help=f"How many routes; {ROWS} in a table, all in --json and files.")
]
SampleOption = Annotated[int | None, typer.Option("--sample", min=1, help="Draw so many different routes.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Of --sample.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV on standard output.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Write the table to a file: .csv or .json.")]


class Row(NamedTuple):
    """A route of the table."""

    route: "Route"
    measures: "Measures"


def explore(
    bindings: BindingArguments = None,
    executions: ExecutionsOption = None,
    flops: FlopsOption = None,
    max_visits: VisitsOption = None,
    some_layers: SomeOption = False,
    pattern: PatternOption = None,
    preset: PresetOption = None,
    sort: SortOption = "executions",
    descending: DescendingOption = False,
    top: TopOption = None,
    sample: SampleOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    out: OutOption = None,
) -> None:
    """List the routes of a space with what they cost, sorted by a measure."""
    from depthgraph.explore import RouteSpace

    if as_json + as_csv + (out is not None) > 1:
        raise ConfigError("wrong-usage", "of --json, --csv and --out, one says where the table goes")
    if out is not None:
        _check_out(out)
    N = _depth(bindings or (), preset)
    families = tuple(pattern) if pattern else None
    space = RouteSpace(N, _executions(executions), _flops(flops), max_visits, not some_layers, families)
    scale = _scale(space, preset)
    shown = top or (None if as_json or as_csv or out else ROWS)
    found = sorted_rows(_rows(space, scale, sample, seed), sort, descending=descending, top=shown)
    if out is not None:
        _write(out, found)
    elif as_json or as_csv:
        data((_json if as_json else _csv)(found).rstrip("\n"))
    else:
        _print(found, space, sample, sort)


def _depth(words: Iterable[str], preset: str | None) -> int:
    """Return N: what is bound, or that of the preset."""
    from depthgraph.decoder_config import PRESETS

    bound = read_bindings(words)
    wrong = next((name for name in bound if name != "N"), None)
    if wrong is not None:
        raise ConfigError("wrong-usage", f"a space has no name `{wrong}` to bind", help="its one name is N")
    if preset is not None and preset not in PRESETS:
        raise ConfigError("wrong-usage", f"there is no preset `{preset}`", help=f"presets are {', '.join(PRESETS)}")
    if "N" not in bound and preset is None:
        help = "say how many layers there are: depthgraph explore N=6 --executions 6..12"
        raise ConfigError("wrong-usage", "N is not bound", help=help)
    return bound["N"] if preset is None or "N" in bound else PRESETS[preset].parameter_depth


def _scale(space: "RouteSpace", preset: str | None) -> "Scale":
    """Return what executions and layers cost."""
    from depthgraph.decoder_config import PRESETS
    from depthgraph.explore import relative, scale_of

    if preset is None:
        return relative(space.N)
    return scale_of(PRESETS[preset].model_copy(update={"parameter_depth": space.N}))


def _executions(word: str | None) -> tuple[int, int] | None:
    if word is None:
        return None
    found = re.fullmatch(r"([0-9]{1,6})(?:\.\.([0-9]{1,6}))?", word)
    if not found:
        raise ConfigError("wrong-usage", f"`{word}` is no number of executions", help="write 6..12, or 8")
    return int(found[1]), int(found[2] or found[1])


def _flops(word: str | None) -> tuple[float, float] | None:
    if word is None:
        return None
    number = r"([0-9]{1,6}(?:\.[0-9]{1,9})?)"
    found = re.fullmatch(rf"(?:{number}\.\.)?{number}", word)
    if not found:
        help = "write the highest ratio to the standard route, 2.5, or the lowest and the highest, 1.5..2.5"
        raise ConfigError("wrong-usage", f"`{word}` is no bound on FLOPs", help=help)
    return float(found[1] or 0), float(found[2])


def _rows(space: "RouteSpace", scale: "Scale", sample: int | None, seed: int) -> Iterator[Row]:
    """Yield the routes with their measures, and show on a terminal how far it is."""
    import random

    from rich.progress import track

    from depthgraph.errors import ExploreError
    from depthgraph.explore import measures
    from depthgraph.explore.generators import shown_count

    count = sample or space.count()
    if count > MOST_ROUTES:
        message = f"the space has {shown_count(count)} routes, and {MOST_ROUTES:,} at most are listed"
        raise ExploreError("space-too-large", message, help="draw some of them, as with --sample 10000")
    routes = space.enumerate() if sample is None else space.sample_distinct(random.Random(seed), sample)
    screen = console(stderr=True)
    hidden = count < SLOW or not sys.stderr.isatty()
    for route in track(routes, "measuring", total=count, console=screen, disable=hidden, transient=True):
        yield Row(route, measures(route, scale))


def sorted_rows(rows: Iterable[Row], measure: Measure, *, descending: bool, top: int | None) -> list[Row]:
    """Return the rows by a measure, those with equal ones in the order in which they come; the first `top` of them."""

    def key(row: Row) -> float:
        return len(row.route.text) if measure == "text_length" else getattr(row.measures, measure)

    if top is None:
        return sorted(rows, key=key, reverse=descending)
    # no more than the first ones are kept, however many there are
    return (nlargest if descending else nsmallest)(top, rows, key=key)


def _print(rows: list[Row], space: "RouteSpace", sample: int | None, sort: Measure) -> None:
    from depthgraph.explore.generators import shown_count

    by_length = sort == "text_length"
    if rows:
        names = rows[0].measures._fields
        titles = ["#", *(TITLES.get(name, name) for name in names), *(["length"] if by_length else []), "route"]
        show_table(titles, (_cells(number, row, by_length) for number, row in enumerate(rows, 1)))
    drawn = f" of a sample of {sample:,}," if sample else ""
    note(f"{len(rows):,}{drawn} of {shown_count(space.count())} route{'s' if space.count() != 1 else ''}, by {sort}")


def _cells(number: int, row: Row, by_length: bool) -> list[str]:
    text = row.route.text
    return [f"{number:,}", *map(_number, row.measures), *([f"{len(text):,}"] if by_length else []), text]


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}".rstrip("0").rstrip(".")


def _records(rows: Iterable[Row]) -> Iterator[dict[str, object]]:
    for route, found in rows:
        yield {"route": route.text, "N": route.parameter_depth, **found._asdict(), "text_length": len(route.text)}


def _json(rows: list[Row]) -> str:
    return json.dumps(list(_records(rows)), indent=2) + "\n"


def _csv(rows: list[Row]) -> str:
    from depthgraph.explore.measuring import NAMES

    stream = StringIO()
    table = csv.DictWriter(stream, ["route", "N", *NAMES], lineterminator="\n")
    table.writeheader()
    table.writerows(_records(rows))
    return stream.getvalue()


def _check_out(path: Path) -> None:
    from depthgraph.whole_file import check_place

    if path.suffix.lower() not in (".csv", ".json"):
        raise ConfigError("wrong-usage", f"{path.name} is neither .csv nor .json", help="the ending is the format")
    check_place(path, ConfigError)


def _write(path: Path, rows: list[Row]) -> None:
    from depthgraph.whole_file import write_whole

    text = (_json if path.suffix.lower() == ".json" else _csv)(rows)
    write_whole(path, text.encode(), ConfigError)
    data(str(path))
