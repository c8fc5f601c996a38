"""`depthgraph export`: a route in the notation of another project."""

from pathlib import Path
from typing import Annotated

import typer

from depthgraph.cli.console import data, data_json
from depthgraph.cli.export_model import export_model, kind_of
from depthgraph.cli.inputs import JsonOption, check_all_used, read_bindings, read_one
from depthgraph.cli.notations import BaseOption, EntriesOption, ListOption, about, given, list_notations, needed
from depthgraph.cli.notations import told as table
from depthgraph.errors import ConfigError
from depthgraph.formats import NOTATIONS, write

SpecOrList = Annotated[
    str | None,
    typer.Argument(
        metavar="SPEC|MODEL_DIR",
        show_default=False,
        help="A route spec, a YAML file with one, or `-`: all of standard input is one spec. With --standalone or "
        "--unrolled the folder of a Hugging Face model.",
    ),
]
WordArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[OUT] NAME=INTEGER",
        show_default=False,
        help="Names of the spec: N=6 r=8. With --standalone or --unrolled the new folder before them.",
    ),
]
StandaloneOption = Annotated[
    bool,
    typer.Option("--standalone", help="Export MODEL_DIR to OUT with the code of its route: it needs no depthgraph."),
]
UnrolledOption = Annotated[
    bool,
    typer.Option("--unrolled", help="Export MODEL_DIR to OUT as a plain model with a layer for every execution."),
]
RouteOption = Annotated[
    str | None,
    typer.Option(
        "--route", metavar="SPEC", show_default=False, help="Of the exported model, instead of the checkpoint's own."
    ),
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="NOTATION", show_default=False, help="The notation to write.")
]
ModelOption = Annotated[
    str | None, typer.Option("--model", show_default=False, help="mergekit: the model's name or path, which it needs.")
]
DtypeOption = Annotated[
    str | None, typer.Option("--dtype", show_default=False, help="mergekit: the dtype of the new model.")
]
OutputOption = Annotated[
    Path | None, typer.Option("-o", "--output", show_default=False, help="Write to this file, whole or not at all.")
]


def export(
    spec: SpecOrList = None,
    words: WordArguments = None,
    notation: ToOption = None,
    base: BaseOption = None,
    entries: EntriesOption = None,
    model: ModelOption = None,
    dtype: DtypeOption = None,
    output: OutputOption = None,
    as_list: ListOption = False,
    as_json: JsonOption = False,
    standalone: StandaloneOption = False,
    unrolled: UnrolledOption = False,
    route: RouteOption = None,
) -> None:
    """Print a route in the notation of another project, or export a model."""
    told = given(base=base, entries=entries, model=model, dtype=dtype)
    kind = kind_of(standalone, unrolled)
    if kind is not None:
        _refuse_notation(kind, {"--to": notation, "--output": output, "--list": as_list, **told})
        export_model(kind, [*([] if spec is None else [spec]), *(words or ())], route, as_json)
        return
    if route is not None:
        raise ConfigError("wrong-usage", "--route is for --standalone and --unrolled", help="the spec is the route")
    if as_list:
        list_notations(as_json)
        return
    name = needed(notation, "--to")
    if spec is None:
        raise ConfigError("wrong-usage", "there is no route to write", help='name a spec: `export --to peft "lft(5)"`')
    bound = read_bindings(words or ())
    chosen = read_one(spec)
    check_all_used(bound, [chosen])
    _, found = chosen.route(bound)
    value = write(name, found, **told)
    text = NOTATIONS[name].text(value)
    if output is not None:
        _save(output, text)
    if as_json:
        data_json(about(NOTATIONS[name]) | {"route": str(found), "value": value, "text": text})
    else:
        data(text if output is None else str(output))


export.__doc__ = (
    "Print a route in the notation of another project, in the fewest ranges that say it; or export a model.\n\n"
    "A route that the notation cannot say is an error that says what of it.\n\n"
    + table()
    + "\n\n`export --standalone MODEL_DIR OUT` and `export --unrolled MODEL_DIR OUT` write a Hugging Face model to a "
    "new folder: with the code of its route, for `trust_remote_code=True`; or with a copy of a layer for every "
    "execution, for engines that know no sharing."
)


def _refuse_notation(kind: str, options: dict[str, object]) -> None:
    for name, value in options.items():
        if value:
            option = name if name.startswith("--") else f"--{name}"
            raise ConfigError(
                "wrong-usage", f"{option} is for notations, and --{kind} exports a model", help="leave it out"
            )


def _save(target: Path, text: str) -> None:
    from depthgraph.whole_file import check_place, write_whole

    check_place(target, ConfigError)
    write_whole(target, f"{text}\n".encode(), ConfigError)
