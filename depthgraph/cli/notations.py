"""What `import` and `export` share: the options of notations, their table, and how help tells their conventions."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from depthgraph.cli.console import data_json, show_table
from depthgraph.errors import ConfigError
from depthgraph.formats.notation import Notation
from depthgraph.formats.table import NOTATIONS

BaseOption = Annotated[
    int | None,
    typer.Option(
        "--base", min=0, max=1, show_default=False, help="list: the number of the first layer. It has no default."
    ),
]
EntriesOption = Annotated[
    int | None,
    typer.Option(
        "--entries", min=1, max=9, show_default=False, help="x-transformers: entries of a layer; 2 without, attention "
        "and feed-forward; 3 with cross-attention.",
    ),
]  # fmt: skip
ListOption = Annotated[bool, typer.Option("--list", help="List the notations: index base, ends, an example, weights.")]


def told() -> str:
    """Return the conventions of all notations, a paragraph each, as help shows them."""
    return "\n\n".join(
        escaped(f"{each.name}: {each.convention}. Weights: {each.weights}.") for each in NOTATIONS.values()
    )


def escaped(text: str) -> str:
    """Return a text for help, which would take [words] in brackets for markup."""
    return text.replace("[", r"\[")


def given(**options: object) -> dict[str, Any]:
    """Return the options that the command line has."""
    return {name: value for name, value in options.items() if value is not None}


def needed(name: str | None, option: str) -> str:
    """Return the name of a notation, which has to be there."""
    if name is None:
        help = f"the notations are {', '.join(NOTATIONS)}; --list says how each counts"
        raise ConfigError("wrong-usage", f"{option} is missing", help=help)
    return name


def list_notations(as_json: bool) -> None:
    """Print the table of the notations."""
    if as_json:
        data_json([_as_data(each) for each in NOTATIONS.values()])
        return
    rows = (
        (each.name, _base(each), each.ends, f"{each.inline or each.example} = {each.spec}", each.weights, each.cannot)
        for each in NOTATIONS.values()
    )
    show_table(["notation", "first layer", "ends", "example", "weights", "cannot say"], rows)


def _base(notation: Notation) -> str:
    return "--base" if notation.base is None else str(notation.base)


def about(notation: Notation) -> dict[str, Any]:
    """Return how a notation counts, as data."""
    return {"notation": notation.name, "base": notation.base, "ends": notation.ends}


def _as_data(notation: Notation) -> Mapping[str, Any]:
    return about(notation) | {
        "title": notation.title,
        "example": notation.example,
        "route": notation.spec,
        "weights": notation.weights,
        "cannot": notation.cannot,
        "checked": notation.checked,
        "options": {name: option.help for name, option in notation.options.items()},
    }
