"""Families of routes: a pattern is a spec with free names, each of which takes every integer of a range."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from depthgraph.errors import ExploreError, meant
from depthgraph.parser import parse
from depthgraph.schemes import LAYER_COUNT, library
from depthgraph.source import Source
from depthgraph.syntax import (
    Access,
    Call,
    Definition,
    Element,
    Expression,
    Ilr,
    Join,
    Mark,
    Name,
    Repeat,
    RouteSpec,
    children,
)

#: Every order of executions, and every reuse map with a layer's executions in a row: families that are counted by
#: arithmetic, and not by trying the values of names.
ANY, ILR = "any", "ilr"

#: name → the pattern that it stands for, where that is not a call of the scheme of that name.
FAMILIES: Mapping[str, str] = {
    "looped": "1..p (p+1..q) x r q+1..N",
    "windows": "(s*i+1..s*i+w for i in 0..(N-w)//s)",
}

TAIL = re.compile(r"^(?P<body>.*\S)\s+for\s+(?P<tail>[A-Za-z_]\w*\s+in\s[^()]*)$", re.DOTALL)
RANGE = re.compile(r"\s*([A-Za-z_]\w*)\s+in\s+(\d{1,9})\s*\.\.\s*(\d{1,9}|N)\s*", re.ASCII)


@dataclass(frozen=True)
class Pattern:
    """A spec and the values of its names.

    Attributes:
        text: as it was given.
        spec: the spec, N among its names.
        numbers: name → its values, for the names that say which layers run.
        counts: name → its values, for the names that are nothing but counts of a repeat: with a larger one no route
            is shorter.
        has_data_flow: whether its routes may have more than executions.
    """

    text: str
    spec: RouteSpec
    numbers: dict[str, range]
    counts: dict[str, range]
    has_data_flow: bool


def read_pattern(text: str, parameter_depth: int, longest: int) -> Pattern:
    """Read a pattern.

    Args:
        text: a spec, a name in `FAMILIES` or of a scheme (whose `n` is N then), and behind it ranges, if any:
            `1..p (p+1..q)x r q+1..N for p in 0..2, r in 2..8`. A name that is given none takes 1 to `longest` where it
            is nothing but a count, and else 0 to N.
        parameter_depth: N.
        longest: the most executions.

    Raises:
        SpecError: it is no spec.
        ExploreError: `invalid-pattern`, for ranges that do not fit it, or a name that stands for nothing.
    """
    found = TAIL.match(text)
    body, tail = found.group("body", "tail") if found else (text, "")
    spec = parse(_spelled(body))
    given = _ranges(text, tail, parameter_depth)
    roles = _roles(spec)
    _check_names(text, given, roles)
    numbers = {name: given.get(name, range(parameter_depth + 1)) for name, counts in roles.items() if not counts}
    counts = {name: given.get(name, range(1, longest + 1)) for name, counts in roles.items() if counts}
    return Pattern(text, spec, numbers, counts, _has_data_flow(spec))


def _has_data_flow(spec: RouteSpec) -> bool:
    """Whether a spec, or a scheme of the library that it calls, has anything else than executions."""
    bodies: list[Element | Expression] = [spec.body, *(item.body for item in spec.definitions)]
    seen: set[str] = set()
    while bodies:
        match bodies.pop():
            case Access() | Join() | Mark():
                return True
            case Call(name) as call:
                bodies += children(call)
                if name in library() and name not in seen:
                    seen.add(name)
                    bodies.append(library()[name].definition.body)
            case node:
                bodies += children(node)
    return False


def _spelled(body: str) -> str | Source:
    """Return what a bare name stands for; anything else is a spec itself."""
    name = body.strip()
    if name in FAMILIES:
        return FAMILIES[name]
    if name in library():
        parameters = library()[name].definition.parameters
        return f"{name}({','.join('N' if each == LAYER_COUNT else each for each in parameters)})"
    if name.isidentifier():
        known = list(dict.fromkeys([ANY, ILR, *FAMILIES, *library()]))
        help = meant(name, known, f"families are {', '.join(known)}; a spec is one too")
        raise ExploreError("invalid-pattern", f"there is no family of routes `{name}`", help=help)
    return Source(body, "<pattern>")


def _ranges(text: str, tail: str, N: int) -> dict[str, range]:
    given: dict[str, range] = {}
    for part in tail.split(",") if tail else ():
        found = RANGE.fullmatch(part)
        if not found:
            help = "ranges stand behind the pattern: `… for p in 0..2, r in 1..8`; the last end may be N"
            raise ExploreError("invalid-pattern", f"`{part.strip()}` in `{text}` is no range of a name", help=help)
        name, first, last = found.groups()
        values = range(int(first), (N if last == "N" else int(last)) + 1)
        if name in given or not values:
            what = "two ranges" if name in given else "a range without values"
            raise ExploreError("invalid-pattern", f"`{name}` has {what} in `{text}`")
        given[name] = values
    return given


def _check_names(text: str, given: Mapping[str, range], roles: Mapping[str, bool]) -> None:
    for name in given:
        if name not in roles:
            names = ", ".join(roles) or "none"
            help = f"the names that it leaves free are: {names}"
            raise ExploreError("invalid-pattern", f"`{text}` has no free name `{name}`", help=help)
        if roles[name] and given[name][0] < 1:
            raise ExploreError("invalid-pattern", f"`{name}` is a count in `{text}`, and a count is at least 1")


def _roles(spec: RouteSpec) -> dict[str, bool]:
    """Return for each free name whether it is nothing but a count."""
    definitions = {item.name: item for item in spec.definitions}
    seen: dict[str, bool] = {}
    for body in (spec.body, *(item.body for item in spec.definitions)):
        for name, counts in _uses(body, definitions):
            # a name that is used by a definition may stand anywhere in the route
            seen[name] = seen.get(name, True) and counts and body is spec.body
    return {name: seen[name] for name in spec.free_names if name != "N"}


def _uses(node: Element | Expression, definitions: Mapping[str, Definition]) -> Iterator[tuple[str, bool]]:
    """Yield the names below a node, each with whether it is a count there and nothing else."""
    match node:
        case Name(text):
            yield text, False
        case Repeat(body, Name(text)):
            yield text, True
            yield from _uses(body, definitions)
        case Ilr(counts):
            for count in counts:
                yield from [(count.text, True)] if isinstance(count, Name) else _uses(count, definitions)
        case Call(name, arguments):
            counted = _counted_parameters(name, definitions)
            for place, argument in enumerate(arguments):
                if isinstance(argument, Name) and place < len(counted):
                    yield argument.text, counted[place]
                else:
                    yield from _uses(argument, definitions)
        case _:
            for child in children(node):
                yield from _uses(child, definitions)


def _counted_parameters(name: str, definitions: Mapping[str, Definition]) -> tuple[bool, ...]:
    """Return which parameters of a library scheme are nothing but counts; a spec's own schemes are not followed."""
    if name in definitions or name not in library():
        return ()
    definition = library()[name].definition
    uses = list(_uses(definition.body, {}))
    return tuple(all(counts for used, counts in uses if used == parameter) for parameter in definition.parameters)
