"""`depthgraph import`: a route from the notation of another project."""

from typing import Annotated

import typer

from depthgraph.cli.console import data, data_json
from depthgraph.cli.inputs import JsonOption, decoded, read_bindings, standard_input
from depthgraph.cli.notations import BaseOption, EntriesOption, ListOption, about, given, list_notations, needed, told
from depthgraph.errors import ConfigError
from depthgraph.formats import NOTATIONS, reading
from depthgraph.source import Source

FILE_ENDINGS = (".yaml", ".yml", ".json", ".txt")

ValueArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="VALUE|FILE|-",
        show_default=False,
        help="A value, a file that ends in .yaml, .yml, .json or .txt, or `-` for standard input.",
    ),
]
DepthArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="N=INTEGER", show_default=False, help="How many layers the model has."),
]
FromOption = Annotated[
    str | None, typer.Option("--from", metavar="NOTATION", show_default=False, help="The notation of the value.")
]


def import_(
    value: ValueArgument = None,
    bindings: DepthArguments = None,
    notation: FromOption = None,
    base: BaseOption = None,
    entries: EntriesOption = None,
    as_list: ListOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the canonical text of a route in the notation of another project."""
    if as_list:
        list_notations(as_json)
        return
    name = needed(notation, "--from")
    if value is None:
        raise ConfigError("wrong-usage", "there is no value to read", help="give one, a file, or - for standard input")
    found = reading(name, _source(value), N=_depth(bindings), **given(base=base, entries=entries))
    if not as_json:
        data(str(found.route))
        return
    route = found.route
    data_json(
        about(NOTATIONS[name])
        | {
            "route": str(route),
            "parameter_depth": route.parameter_depth,
            "execution_depth": route.execution_depth,
            "path": list(route.path),
            "options": dict(found.options),
        }
    )


import_.__doc__ = (
    "Print the canonical text of a route in the notation of another project.\n\n"
    "Where the value does not tell how many layers the model has, say N=6; without, it ends with the highest layer "
    "that is named. Layers that do not run are dropped.\n\n" + told()
)


def _source(word: str) -> Source:
    if word == "-":
        return Source(standard_input(), "<stdin>")
    if word.lower().endswith(FILE_ENDINGS):
        from depthgraph.yaml_file import read_text

        return Source(read_text(word, "invalid-notation"), word)
    return Source(decoded(word), "<value>")


def _depth(words: list[str] | None) -> int | None:
    bound = read_bindings(words or ())
    for name in bound:
        if name != "N":
            raise ConfigError("wrong-usage", f"a value has no name `{name}` to bind", help="N alone: N=6")
    return bound.get("N")
