"""`depthgraph check`: are these specs and files valid routes?"""

from collections.abc import Iterable
from typing import Annotated

import typer

from depthgraph.cli.console import data, data_json, note, report, status
from depthgraph.cli.inputs import Given, JsonOption, check_all_used, is_binding, is_file, read_all, read_bindings
from depthgraph.errors import ConfigError, DepthGraphError
from depthgraph.route import Route

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="SPEC|FILE|NAME=INTEGER",
        show_default=False,
        help="Specs, YAML files, `-` for specs on standard input, one a line, and bindings: N=6 r=8.",
    ),
]


def check(words: Words, as_json: JsonOption = False) -> None:
    """Check specs, and every `route` in YAML files; print what is wrong, with its place in the file.

    A training config is checked as a whole, as `train` reads it.
    """
    bound = read_bindings(word for word in words if is_binding(word))
    found: list[Given | DepthGraphError] = []
    for word in words:
        if not is_binding(word):
            found += _read(word)
    if not found:
        raise ConfigError("wrong-usage", "there is nothing to check", help='name a spec or a file: `check "lft(5)"`')
    check_all_used(bound, [item for item in found if isinstance(item, Given)])
    results = [_checked(item, bound) for item in found]
    for _, result in results:
        if isinstance(result, DepthGraphError):
            report(result)
    if as_json:
        data_json([_as_data(title, result) for title, result in results])
    else:
        _list([(title, result) for title, result in results if isinstance(result, Route)])
    errors = [result for _, result in results if isinstance(result, DepthGraphError)]
    if errors:
        note(f"{len(errors)} of {len(results)} failed")
        raise typer.Exit(max(map(status, errors)))


def _list(routes: Iterable[tuple[str, Route]]) -> None:
    rows = [(title, f"N={route.parameter_depth} E={route.execution_depth}", route) for title, route in routes]
    width = max((len(title) for title, _, _ in rows), default=0)
    for title, sizes, route in rows:
        data(f"ok  {title:<{width}}  {sizes}  {route}")


def _read(word: str) -> list[Given | DepthGraphError]:
    try:
        found: list[Given | DepthGraphError] = list(read_all(word, by_line=True))
    except DepthGraphError as error:
        return [error]
    if is_file(word):
        from depthgraph.cli.files import train_errors

        places = [item.location for item in found if isinstance(item, DepthGraphError)]
        found += [error for error in train_errors(word) if error.location not in places]
    return found


def _checked(item: Given | DepthGraphError, bound: dict[str, int]) -> tuple[str, Route | DepthGraphError]:
    if isinstance(item, DepthGraphError):
        return item.source.name if item.source else "", item
    try:
        return item.title, item.route(bound)[1]
    except DepthGraphError as error:
        return item.title, error


def _as_data(title: str, result: Route | DepthGraphError) -> dict[str, object]:
    if isinstance(result, DepthGraphError):
        return {"title": title, "valid": False, "error": result.as_json()}
    return {
        "title": title,
        "valid": True,
        "route": str(result),
        "parameter_depth": result.parameter_depth,
        "execution_depth": result.execution_depth,
    }
