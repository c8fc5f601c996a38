"""The scheme library and the published routes: `grammars/schemes.route` and `grammars/catalogue.route`."""

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


@dataclass(frozen=True, slots=True)
class Published:
    """One route of the catalogue, `grammars/catalogue.route`.

    Attributes:
        title: its name.
        text: the spec; it has no free names.
        parameter_depth: N, as the source has it.
        execution_depth: E.
        origin: the paper or project that it comes from.
        note: what of the original is not a matter of the route; empty where there is nothing to say.
    """

    title: str
    text: str
    parameter_depth: int
    execution_depth: int
    origin: str
    note: str


@cache
def library() -> Mapping[str, Scheme]:
    """Return the scheme library by name, in the order of its file.

    Examples:
        >>> library()["lft"].signature
        'lft(n)'
    """
    return MappingProxyType({each.definition.name: each for each in map(_scheme, _entries("schemes.route"))})


@cache
def catalogue() -> tuple[Published, ...]:
    """Return the published routes, in the order of their file.

    Examples:
        >>> [each.text for each in catalogue() if each.title == "Huginn"]
        ['huginn(2,4,2,32)']
    """
    return tuple(map(_published, _entries("catalogue.route")))


#: A line of a file, and the comment above it: its facts, and the rest of it as one text.
Entry = tuple[Source, dict[str, str], str]

FACTS = ("N", "E", "Source", "Example", "Note")


def _entries(name: str) -> Iterator[Entry]:
    """Read the lines of a file with the comment above each."""
    text = (files("depthgraph.grammars") / name).read_text(encoding="utf-8")
    comments: list[str] = []
    start = 0
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            comments.append(line[1:].strip())
        else:
            if line.strip():
                yield Source(line.rstrip("\n"), name, text, range(start, start + len(line) + 1)), *_facts(comments)
            comments = []
        start += len(line)


def _facts(comments: list[str]) -> tuple[dict[str, str], str]:
    facts: dict[str, str] = dict.fromkeys(FACTS, "")
    rest = []
    for line in comments:
        key, _, value = line.partition(": ")
        if key in facts:
            facts[key] = value
        else:
            rest.append(line)
    return facts, " ".join(rest)


def _scheme(entry: Entry) -> Scheme:
    source, facts, summary = entry
    definition = parse_definition(source)
    return Scheme(definition, source.text.strip(), summary, facts["E"], facts["Source"], facts["Example"])


def _published(entry: Entry) -> Published:
    source, facts, title = entry
    return Published(title, source.text.strip(), int(facts["N"]), int(facts["E"]), facts["Source"], facts["Note"])
