"""`depthgraph draw`: a picture of a route, in a file."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from depthgraph.cli.console import data, data_json
from depthgraph.cli.inputs import BindingArguments, JsonOption, SpecArgument, check_all_used, read_bindings, read_one

OutputOption = Annotated[
    Path, typer.Option("-o", "--output", help="The file; its ending is the format: svg, png, pdf, dot, mmd, txt.")
]
ViewOption = Annotated[
    Literal["folded", "unrolled", "staircase"] | None,
    typer.Option("--view", help="folded: a node per layer; unrolled: a node per execution; staircase: layers up."),
]


def draw(
    spec: SpecArgument,
    output: OutputOption,
    bindings: BindingArguments = None,
    view: ViewOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a route; without --view a .txt is a staircase, everything else folded."""
    from depthgraph.draw import save

    bound = read_bindings(bindings or ())
    given = read_one(spec)
    check_all_used(bound, [given])
    _, route = given.route(bound)
    written = save(route, output, view=view)
    if as_json:
        data_json({"file": str(written), "route": str(route)})
    else:
        data(str(written))
