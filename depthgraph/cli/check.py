"""`depthgraph check`: are these specs and files valid routes?"""

from typing import Annotated

import typer

from depthgraph.cli.console import data, data_json, note, report
from depthgraph.cli.inputs import Given, JsonOption, check_all_used, is_binding, read_all, read_bindings
from depthgraph.errors import ConfigError, DepthGraphError

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="SPEC|FILE|NAME=INTEGER", show_default=False, help="Specs, YAML files, `-`, and bindings: N=6 r=8."
    ),
]


def check(words: Words, as_json: JsonOption = False) -> None:
    """Check specs, and every `route` in YAML files; print what is wrong, with its place in the file."""
    bound = read_bindings(word for word in words if is_binding(word))
    found: list[Given | DepthGraphError] = []
    for word in words:
        if not is_binding(word):
            found += _read(word)
    if not found:
        raise ConfigError("wrong-usage", "there is nothing to check", help='name a spec or a file: `check "lft(5)"`')
    check_all_used(bound, [item for item in found if isinstance(item, Given)])
    results = [_checked(item, bound) for item in found]
    if as_json:
        data_json(results)
    else:
        _list([result for result in results if result["valid"]])
    failed = sum(not result["valid"] for result in results)
    if failed:
        note(f"{failed} of {len(results)} failed")
        raise typer.Exit(1)


def _list(results: list[dict[str, object]]) -> None:
    width = max((len(str(result["title"])) for result in results), default=0)
    for result in results:
        sizes = f"N={result['parameter_depth']} E={result['execution_depth']}"
        data(f"ok  {result['title']:<{width}}  {sizes}  {result['route']}")


def _read(word: str) -> list[Given | DepthGraphError]:
    try:
        return list(read_all(word))
    except DepthGraphError as error:
        return [error]


def _checked(item: Given | DepthGraphError, bound: dict[str, int]) -> dict[str, object]:
    """Return one result; an error of it is also reported, with its place."""
    if isinstance(item, DepthGraphError):
        report(item)
        return {"title": item.source.name if item.source else "", "valid": False, "error": item.as_json()}
    try:
        _, route = item.route(bound)
    except DepthGraphError as error:
        report(error)
        return {"title": item.title, "valid": False, "error": error.as_json()}
    return {
        "title": item.title,
        "valid": True,
        "route": str(route),
        "parameter_depth": route.parameter_depth,
        "execution_depth": route.execution_depth,
    }
