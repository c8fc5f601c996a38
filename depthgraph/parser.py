"""Text → syntax tree. The grammar is `grammars/route.lark`; lark's errors become ours in `misread`."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from depthgraph import misread
from depthgraph import syntax as tree
from depthgraph.build import Builder
from depthgraph.errors import NO_SPAN, Fault, SpecError
from depthgraph.route import Route
from depthgraph.source import Source

if TYPE_CHECKING:
    from lark import Lark

__all__ = ["DEFAULT_LIMITS", "Limits", "parse", "parse_definition"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a spec may ask for; all of it is checked before anything is built.

    Attributes:
        characters: the length of a spec.
        executions: E, and the number of iterations of a comprehension.
    """

    characters: int = 65_536
    executions: int = 100_000


DEFAULT_LIMITS = Limits()


def parse(text: str | Source, limits: Limits = DEFAULT_LIMITS) -> tree.RouteSpec:
    """Parse a route spec.

    Args:
        text: the spec, or a `Source` that also knows the file it stands in.
        limits: what is refused at once.

    Raises:
        SpecError: the text is not a spec; the error has the place and what is expected there.

    Examples:
        >>> parse("block(2..4)x2").body.elements
        (Repeat(body=Block(layers=Range(first=Integer(value=2), last=Integer(value=4))), count=Integer(value=2)),)
    """
    if not isinstance(text, str | Source):
        help = "a route needs no parsing; dg.parse and dg.route read text" if isinstance(text, Route) else ""
        message = f"a spec is text; found {type(text).__name__}"
        raise SpecError("not-a-spec", message, Source(""), NO_SPAN, help=help)
    source = text if isinstance(text, Source) else Source(text)
    body, definitions = _parsed(source, "spec", limits)
    return tree.RouteSpec(body, definitions, source, span=body.span)


def parse_definition(source: Source) -> tree.Definition:
    """Parse one definition, a line of the scheme library."""
    definition: tree.Definition = _parsed(source, "definition", DEFAULT_LIMITS)
    return definition


def _parsed(source: Source, start: str, limits: Limits) -> Any:
    """Return what `Builder` makes of the start rule."""
    from lark.exceptions import UnexpectedInput

    misread.check_text(source, limits.characters)
    try:
        return _grammar().parse(source.text, start=start)
    except UnexpectedInput as error:
        raise misread.explain(error, source) from None
    except Fault as fault:
        raise fault.at(source) from None


@cache
def _grammar() -> "Lark":
    from lark import Lark

    text = (files("depthgraph.grammars") / "route.lark").read_text(encoding="utf-8")
    starts = ["spec", "definition"]
    return Lark(text, parser="lalr", lexer="basic", start=starts, transformer=Builder(), maybe_placeholders=False)
