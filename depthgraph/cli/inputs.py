"""What commands are given: specs, YAML files, standard input, and the bindings behind them."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Annotated

import typer

from depthgraph.errors import ConfigError, DepthGraphError, meant
from depthgraph.expand import expand
from depthgraph.parser import parse
from depthgraph.route import Route
from depthgraph.source import Source
from depthgraph.syntax import RouteSpec

SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC", help="A route spec, a YAML file with one, or `-`: all of standard input is one spec."
    ),
]
BindingArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=INTEGER", show_default=False, help="Names of the spec: N=6 r=8."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]

BINDING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(-?)([0-9]+)")
FILE_ENDINGS = (".yaml", ".yml")
#: More digits than any limit lets through, and few enough for `int` to read.
DIGITS = 20


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

    @property
    def names(self) -> frozenset[str]:
        """What may be bound: N, the free names of the spec, and those that it defines.

        Raises:
            SpecError: the text is not a spec.
        """
        return _names(parse(self.source))

    def route(self, bound: Mapping[str, int]) -> tuple[RouteSpec, Route]:
        """Parse and expand it; of the bindings of its file and of the caller it takes those whose names it has."""
        spec = parse(self.source)
        names = _names(spec)
        return spec, expand(spec, {n: value for n, value in {**self.bindings, **bound}.items() if n in names})


def _names(spec: RouteSpec) -> frozenset[str]:
    return frozenset({"N", *spec.free_names, *(item.name for item in spec.definitions)})


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
        name, sign, digits = found.groups()
        if name in bound:
            raise ConfigError("wrong-usage", f"`{name}` is bound twice", help="give one value to a name")
        bound[name] = int(sign + (digits.lstrip("0")[:DIGITS] or "0"))
    return bound


def is_binding(word: str) -> bool:
    """Whether a word of the command line is meant as a binding, right or wrong."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=\S*", word) is not None


def read_one(word: str) -> Given:
    """Return the one spec that a word stands for.

    Raises:
        ConfigError: it is a file with no route, or with several, or with wrong bindings.
    """
    given = list(read_all(word))
    for item in given:
        if isinstance(item, DepthGraphError):
            raise item
    if len(given) > 1:
        places = ", ".join(item.title for item in given if isinstance(item, Given))
        raise ConfigError("wrong-usage", f"{word} has {len(given)} routes: {places}", help="give one of them as a spec")
    assert isinstance(given[0], Given)
    return given[0]


def read_all(word: str, *, by_line: bool = False) -> Iterator[Given | ConfigError]:
    """Yield the specs that a word stands for: itself, standard input, or every `route` in a YAML file.

    Args:
        word: what the command was given.
        by_line: every line of standard input that is not empty is a spec, and not all of it one.
    """
    if word == "-":
        text = standard_input()
        yield from _lines(text) if by_line and text.strip() else [Given("standard input", Source(text, "<stdin>"))]
    elif is_file(word):
        from depthgraph.cli.files import routes_in

        yield from routes_in(word)
    else:
        text = decoded(word)
        yield Given(text, Source(text))


def is_file(word: str) -> bool:
    """Whether a word names a YAML file."""
    return word.lower().endswith(FILE_ENDINGS)


def decoded(word: str) -> str:
    """Return a command's word as UTF-8, which it is also where the locale says ASCII and Python left bytes in it."""
    try:
        return os.fsencode(word).decode()
    except UnicodeError:
        return word


def check_all_used(bound: Mapping[str, int], given: Iterable[Given]) -> None:
    """Refuse a binding whose name no spec has."""
    try:
        names = frozenset({"N"}).union(*(item.names for item in given))
    except DepthGraphError:
        # a spec that cannot be read is reported on its own, and could have any name
        return
    for name in bound:
        if name not in names:
            raise ConfigError("wrong-usage", f"no spec has a name `{name}` to bind", help=other_name(name, names))


def other_name(name: str, names: Iterable[str]) -> str:
    """Return the help for a name that no spec has."""
    known = sorted(names)
    return meant(name, known, f"the names are {', '.join(known)}")


def standard_input() -> str:
    """Return all of standard input, with line ends as on Unix.

    Raises:
        ConfigError: `wrong-usage`: it is not UTF-8.
    """
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        help = "save it as UTF-8; a spec itself is ASCII"
        raise ConfigError("wrong-usage", "standard input is not text in UTF-8", help=help) from None
    return StringIO(text, newline=None).read()


def _lines(text: str) -> Iterator[Given]:
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield Given(f"<stdin>:{number}", Source(line, "<stdin>", text, range(at, at + len(line) + 1)))
        at += len(line) + 1
