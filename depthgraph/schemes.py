"""The scheme library, `grammars/schemes.route`, read through the parser of the language."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from depthgraph.parser import parse_definition
from depthgraph.source import Source
from depthgraph.syntax import Definition

#: The parameter that is a layer count, and so takes a range too.
LAYER_COUNT = "n"


@dataclass(frozen=True, slots=True)
class Scheme:
    """One entry of the library.

    Attributes:
        definition: its syntax tree.
        text: the line that defines it.
        summary: what it does.
        executions: its number of executions, as a formula in its parameters.
        origin: the paper or project that it comes from.
        example: a call of it.
    """

    definition: Definition
    text: str
    summary: str
    executions: str
    origin: str
    example: str

    @property
    def signature(self) -> str:
        """`name(parameters)`."""
        return self.definition.signature


@cache
def library() -> Mapping[str, Scheme]:
    """Return the scheme library by name, in the order of its file.

    Examples:
        >>> library()["lft"].signature
        'lft(n)'
    """
    text = (files("depthgraph.grammars") / "schemes.route").read_text(encoding="utf-8")
    return MappingProxyType({scheme.definition.name: scheme for scheme in _read(text)})


def _read(text: str) -> Iterator[Scheme]:
    comments: list[str] = []
    start = 0
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            comments.append(line[1:].strip())
        elif line.strip():
            offsets = range(start, start + len(line) + 1)
            source = Source(line.rstrip("\n"), "schemes.route", text, offsets)
            yield _scheme(parse_definition(source), line.strip(), comments)
            comments = []
        else:
            comments = []
        start += len(line)


def _scheme(definition: Definition, text: str, comments: list[str]) -> Scheme:
    facts = {"E": "", "Source": "", "Example": ""}
    summary = []
    for line in comments:
        key, _, value = line.partition(": ")
        if key in facts:
            facts[key] = value
        else:
            summary.append(line)
    return Scheme(definition, text, " ".join(summary), facts["E"], facts["Source"], facts["Example"])
