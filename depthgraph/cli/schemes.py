"""`depthgraph schemes`: the catalogue of named routes."""

from difflib import get_close_matches
from typing import Annotated

import typer

from depthgraph.cli.console import console, data, data_json, plain_table, show_table
from depthgraph.cli.inputs import JsonOption
from depthgraph.errors import ConfigError
from depthgraph.schemes import Scheme, library

NameArgument = Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False, help="One scheme in full.")]


def schemes(name: NameArgument = None, as_json: JsonOption = False) -> None:
    """List the named families of routes, with their execution counts and sources."""
    known = library()
    if name is not None and name not in known:
        close = get_close_matches(name, known, n=1)
        help = f"did you mean `{close[0]}`?" if close else f"the schemes are {', '.join(known)}"
        raise ConfigError("wrong-usage", f"there is no scheme `{name}`", help=help)
    chosen = list(known.values()) if name is None else [known[name]]
    if as_json:
        data_json([_as_data(scheme) for scheme in chosen])
    elif name is None:
        _list(chosen)
    else:
        _full(chosen[0])


def _list(chosen: list[Scheme]) -> None:
    table = plain_table(["scheme", "E", "what it runs", "source"])
    table.columns[0].no_wrap = True
    for scheme in chosen:
        table.add_row(scheme.signature, scheme.executions, scheme.summary.partition(":")[0], scheme.origin)
    show_table(table)


def _full(scheme: Scheme) -> None:
    from depthgraph.draw.staircase_text import staircase_text
    from depthgraph.expand import route_from_text

    data(f"{scheme.text}\n\n{scheme.summary}\n\nE = {scheme.executions}\nsource: {scheme.origin}\n")
    data(f"{scheme.example}:\n{staircase_text(route_from_text(scheme.example), width=console().width)}")


def _as_data(scheme: Scheme) -> dict[str, object]:
    return {
        "name": scheme.definition.name,
        "parameters": list(scheme.definition.parameters),
        "definition": scheme.text,
        "summary": scheme.summary,
        "executions": scheme.executions,
        "source": scheme.origin,
        "example": scheme.example,
    }
