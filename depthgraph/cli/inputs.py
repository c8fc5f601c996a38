"""What commands are given: specs, YAML files, standard input, and the bindings behind them."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from depthgraph.errors import ConfigError, DepthGraphError
from depthgraph.expand import expand
from depthgraph.parser import parse
from depthgraph.route import Route
from depthgraph.source import Source
from depthgraph.syntax import RouteSpec

SpecArgument = Annotated[
    str, typer.Argument(metavar="SPEC", help="A route spec, a YAML file with one, or `-` for standard input.")
]
BindingArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=INTEGER", show_default=False, help="Names of the spec: N=6 r=8."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]

BINDING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(-?[0-9]+)")
FILE_ENDINGS = (".yaml", ".yml")

#: Keys beside `route` in a file that say N, in the order in which they are believed.
DEPTH_KEYS = ("N", "parameter_depth")


@dataclass(frozen=True)
class Given:
    """One spec that a command was given.

    Attributes:
        title: how to speak of it.
        source: its text and place.
        bindings: what the file around it binds.
    """

    title: str
    source: Source
    bindings: Mapping[str, int] = field(default_factory=dict)

    def route(self, bound: Mapping[str, int]) -> tuple[RouteSpec, Route]:
        """Parse and expand it; of the caller's bindings it takes those whose names it has."""
        spec = parse(self.source)
        names = {*spec.free_names, *(item.name for item in spec.definitions), "N"}
        taken = {name: value for name, value in bound.items() if name in names}
        return spec, expand(spec, {**self.bindings, **taken})


def read_bindings(words: Iterable[str]) -> dict[str, int]:
    """Read `N=6 r=8`.

    Raises:
        ConfigError: `wrong-usage`, for a word of another form, or a name that is bound twice.
    """
    bound: dict[str, int] = {}
    for word in words:
        found = BINDING.fullmatch(word)
        if not found:
            help = "a binding is a name, `=` and an integer, as in N=6; quote a spec that has blanks"
            raise ConfigError("wrong-usage", f"`{word}` is not a binding", help=help)
        name, value = found.groups()
        if name in bound:
            raise ConfigError("wrong-usage", f"`{name}` is bound twice", help="give one value to a name")
        bound[name] = int(value[:20])
    return bound


def is_binding(word: str) -> bool:
    """Whether a word of the command line is meant as a binding, right or wrong."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=\S*", word) is not None


def read_one(word: str) -> Given:
    """Return the one spec that a word stands for.

    Raises:
        ConfigError: it is a file with no route, or with several.
    """
    given = list(read_all(word))
    if len(given) > 1:
        places = ", ".join(item.title for item in given)
        raise ConfigError("wrong-usage", f"{word} has {len(given)} routes: {places}", help="give one of them as a spec")
    return given[0]


def read_all(word: str) -> Iterator[Given]:
    """Yield the specs that a word stands for: itself, standard input, or every `route` in a YAML file."""
    if word == "-":
        yield Given("standard input", Source(_standard_input(), "<stdin>"))
    elif word.lower().endswith(FILE_ENDINGS):
        yield from _in_file(word)
    else:
        yield Given(word, Source(word))


def check_all_used(bound: Mapping[str, int], given: Iterable[Given]) -> None:
    """Refuse a binding whose name no spec has."""
    names: set[str] = {"N"}
    for item in given:
        try:
            spec = parse(item.source)
        except DepthGraphError:
            # a spec that cannot be read is reported on its own, and could have any name
            return
        names |= {*spec.free_names, *(definition.name for definition in spec.definitions)}
    for name in bound:
        if name not in names:
            close = get_close_matches(name, names, n=1)
            help = f"did you mean `{close[0]}`?" if close else f"the names are {', '.join(sorted(names))}"
            raise ConfigError("wrong-usage", f"no spec has a name `{name}` to bind", help=help)


def _standard_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise ConfigError("wrong-usage", "standard input is not text in UTF-8") from None


def _in_file(path: str) -> Iterator[Given]:
    from depthgraph.yaml_file import read_yaml

    document = read_yaml(path)
    places = list(document.strings("route"))
    if not places:
        source, span = document.place_of(())
        raise ConfigError("invalid-config", f"there is no `route` in {path}", source, span, help="add `route: lft(5)`")
    for keys in places:
        value = _at(document.data, keys)
        if not isinstance(value, str):
            source, span = document.place_of(keys)
            help = 'quote a route that is a lone number: `route: "1"`' if isinstance(value, int) else ""
            raise ConfigError("invalid-config", "a route is a spec, a string", source, span, help=help)
        title = f"{path}: {'.'.join(map(str, keys))}"
        around = [_at(document.data, keys[:length]) for length in range(len(keys))]
        yield Given(title, document.source_of(keys), _bindings(around))


def _bindings(around: Iterable[Any]) -> dict[str, int]:
    """Return what the mappings around a route bind: N beside it, `bindings` beside it or further out."""
    bound: dict[str, int] = {}
    for mapping in around:
        if isinstance(mapping, Mapping):
            bound.update(mapping["bindings"] if isinstance(mapping.get("bindings"), Mapping) else {})
            bound.update(_depth(mapping))
    return bound


def _depth(mapping: Mapping[Any, Any]) -> dict[str, int]:
    for key in DEPTH_KEYS:
        if isinstance(mapping.get(key), int):
            return {"N": mapping[key]}
    if isinstance(mapping.get("preset"), str):
        from depthgraph.decoder_config import PRESETS

        preset = PRESETS.get(mapping["preset"])
        return {"N": preset.parameter_depth} if preset else {}
    return {}


def _at(data: Any, keys: Iterable[Any]) -> Any:
    for key in keys:
        data = data[key]
    return data
