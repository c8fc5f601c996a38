"""`depthgraph show`: what a spec means, and each stage of the road."""

from typing import Annotated, Literal

import typer

from depthgraph.cli import stages
from depthgraph.cli.console import console, data, data_json, plain
from depthgraph.cli.inputs import BindingArguments, JsonOption, SpecArgument, check_all_used, read_bindings, read_one

EmitOption = Annotated[
    Literal["tree", "route", "graph", "code"] | None,
    typer.Option("--emit", help="Print one stage of the road instead."),
]


def show(
    spec: SpecArgument, bindings: BindingArguments = None, emit: EmitOption = None, as_json: JsonOption = False
) -> None:
    """Show what a spec means: its measures, reuse map, executions, canonical text and expanded schemes."""
    bound = read_bindings(bindings or ())
    given = read_one(spec)
    check_all_used(bound, [given])
    tree, route = given.route(bound)
    if emit is not None:
        as_text, as_data = stages.STAGES[emit]
        if as_json:
            data_json(as_data(tree, route))
        else:
            data(as_text(tree, route))
    elif as_json:
        data_json(stages.measures(tree, route))
    else:
        data(stages.summary(tree, route, console().width, ascii=plain()))
