"""`depthgraph schemes`: the catalogue of named routes."""

from difflib import get_close_matches
from typing import Annotated

import typer

from depthgraph.cli.console import console, data, data_json, plain, show_table
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
    rows = ((each.signature, each.executions, each.summary.partition(":")[0], each.origin) for each in chosen)
    show_table(["scheme", "E", "what it runs", "source"], rows)


def _full(scheme: Scheme) -> None:
    from depthgraph.draw.staircase_text import staircase_text
    from depthgraph.expand import route_from_text

    data(f"{scheme.text}\n\n{scheme.summary}\n\nE = {scheme.executions}\nsource: {scheme.origin}\n")
    picture = staircase_text(route_from_text(scheme.example), width=console().width, ascii=plain())
    data(f"{scheme.example}:\n{picture}")


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
