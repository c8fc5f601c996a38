"""`depthgraph export`: a route in the notation of another project."""

from pathlib import Path
from typing import Annotated

import typer

from depthgraph.cli.console import data, data_json
from depthgraph.cli.inputs import BindingArguments, JsonOption, check_all_used, read_bindings, read_one
from depthgraph.cli.notations import BaseOption, EntriesOption, ListOption, about, given, list_notations, needed, told
from depthgraph.errors import ConfigError
from depthgraph.formats import NOTATIONS, write

SpecOrList = Annotated[
    str | None,
    typer.Argument(
        metavar="SPEC",
        show_default=False,
        help="A route spec, a YAML file with one, or `-`: all of standard input is one spec.",
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
    bindings: BindingArguments = None,
    notation: ToOption = None,
    base: BaseOption = None,
    entries: EntriesOption = None,
    model: ModelOption = None,
    dtype: DtypeOption = None,
    output: OutputOption = None,
    as_list: ListOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print a route in the notation of another project."""
    if as_list:
        list_notations(as_json)
        return
    name = needed(notation, "--to")
    if spec is None:
        raise ConfigError("wrong-usage", "there is no route to write", help='name a spec: `export --to peft "lft(5)"`')
    bound = read_bindings(bindings or ())
    chosen = read_one(spec)
    check_all_used(bound, [chosen])
    _, route = chosen.route(bound)
    value = write(name, route, **given(base=base, entries=entries, model=model, dtype=dtype))
    text = NOTATIONS[name].text(value)
    if output is not None:
        _save(output, text)
    if as_json:
        data_json(about(NOTATIONS[name]) | {"route": str(route), "value": value, "text": text})
    else:
        data(text if output is None else str(output))


export.__doc__ = (
    "Print a route in the notation of another project, in the fewest ranges that say it.\n\n"
    "A route that the notation cannot say is an error that says what of it.\n\n" + told()
)


def _save(target: Path, text: str) -> None:
    from depthgraph.whole_file import check_place, write_whole

    check_place(target, ConfigError)
    write_whole(target, f"{text}\n".encode(), ConfigError)
