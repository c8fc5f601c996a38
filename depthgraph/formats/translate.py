"""From a value in another project's notation to a route, and back."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from depthgraph.errors import FormatError, meant, shown
from depthgraph.formats.asked import Asked
from depthgraph.formats.given import Given
from depthgraph.formats.notation import Notation
from depthgraph.formats.table import NOTATIONS
from depthgraph.formats.values import Item, UnreadableError, from_object, read_literal
from depthgraph.operations import Execution, Operation, StopGradient, walk
from depthgraph.parser import DEFAULT_LIMITS, Limits
from depthgraph.route import Route, as_integer
from depthgraph.source import Source, Span


@dataclass(frozen=True)
class Reading:
    """What a value says.

    Attributes:
        route: the route.
        options: what else it says, as options of `write`: mergekit's model, the base of a list …
    """

    route: Route
    options: Mapping[str, object]


def read(
    notation: str, value: object, *, N: int | None = None, limits: Limits = DEFAULT_LIMITS, **options: object
) -> Route:
    """Return the route that a value says in another project's notation.

    Args:
        notation: a name of `NOTATIONS`.
        value: the project's own value, or its text: Python, JSON, YAML or what the notation has; where the
            project has config files, the whole file works too. A `Source` keeps the name of the file for errors.
        N: how many layers the model has. Without it the model ends with the highest layer that is named, which
            notations with open ends do not tell. Layers that do not run are dropped.
        limits: what is refused at once.
        options: what the notation has to be told beside: `base` for a list, `entries` for x-transformers.

    Raises:
        FormatError: `unknown-notation`; `notation-option`, for N or an option that is missing or wrong;
            `invalid-notation`, with its place in the text; `too-many-executions`. Each says how the notation
            counts and ends its ranges.

    Examples:
        >>> from depthgraph import formats
        >>> formats.read("exllamav3", "0..15,11..", N=32).execution_depth
        37
        >>> print(formats.read("list", "0 1 1 2", base=0))
        1 2x2 3
    """
    given = _given(notation, value, N, limits, options)
    return given.notation.read(given)


def reading(
    notation: str, value: object, *, N: int | None = None, limits: Limits = DEFAULT_LIMITS, **options: object
) -> Reading:
    """Return the route that a value says, and the options with which `write` says the same again; as `read`."""
    given = _given(notation, value, N, limits, options)
    return Reading(given.notation.read(given), {**given.options, **given.notation.read_options(given)})


def write(notation: str, route: Route, **options: object) -> object:
    """Return the value with the fewest ranges that says a route in another project's notation, one for equal routes.

    `read` of it, with the same N, is the route again.

    Args:
        notation: a name of `NOTATIONS`.
        route: the route.
        options: what the notation has to be told beside: `base` for a list, `model` for mergekit.

    Raises:
        FormatError: `unknown-notation`; `notation-option`; `unsayable-route`, which says what it is that the
            notation cannot say; `not-a-route`.

    Examples:
        >>> import depthgraph as dg
        >>> dg.formats.write("peft", dg.route("1..4 3..5"))
        [[0, 4], [2, 5]]
        >>> dg.formats.write("ilr", dg.route("ilr[4,2,1,1]"))
        [4, 2, 1, 1]
    """
    known = _notation(notation)
    if not isinstance(route, Route):
        help = "dg.route(text) makes a route from a spec"
        raise FormatError("not-a-route", f"a {type(route).__name__} is given where a route is needed", help=help)
    asked = Asked(known, route, _options(known, options, "writes"))
    if not route.is_chain:
        words = ", ".join(f"`{word}`" for word in dict.fromkeys(map(_word, walk(route.operations))) if word)
        help = "no notation of another project has data flow: each is an order of layers alone"
        raise asked.unsayable(f"it has {words}", help)
    return known.write(asked)


def write_text(notation: str, route: Route, **options: object) -> str:
    """Return what `write` returns as the text that one types or saves: Python, JSON, YAML …

    Examples:
        >>> import depthgraph as dg
        >>> dg.formats.write_text("executorch", dg.route("1..2 (3..4)x2 5"))
        '[{"start": 2, "end": 3, "count": 2}]'
    """
    value = write(notation, route, **options)
    return NOTATIONS[notation].text(value)


def _word(operation: Operation) -> str:
    """Return the word of a data-flow operation; none for an execution."""
    match operation:
        case Execution():
            return ""
        case StopGradient():
            return "stopgrad"
        case _:
            return type(operation).__name__.lower()


def _notation(name: str) -> Notation:
    if name in NOTATIONS:
        return NOTATIONS[name]
    help = meant(str(name), NOTATIONS, f"the notations are {', '.join(NOTATIONS)}")
    raise FormatError("unknown-notation", f"there is no notation {shown(name)}", help=help)


def _given(name: str, value: object, depth: int | None, limits: Limits, options: Mapping[str, object]) -> Given:
    notation = _notation(name)
    source = Source(value, "<value>") if isinstance(value, str) else value if isinstance(value, Source) else None
    given = Given(notation, Item(None), source, None, limits, _options(notation, options, "reads"))
    try:
        item = from_object(value) if source is None else _from_text(notation, source)
    except UnreadableError as error:
        raise given.wrong(error.message, error.span, error.help) from None
    return replace(given, item=_behind_key(given, item), depth=_depth(notation, depth, limits))


def _from_text(notation: Notation, source: Source) -> Item:
    if not source.text.strip():
        raise UnreadableError("there is no value here")
    if notation.syntax == "text":
        return Item(source.text, Span(0, len(source.text.rstrip())))
    return read_literal(source)


def _behind_key(given: Given, item: Item) -> Item:
    """Return the value itself, where a config file of the project is given that holds it."""
    key = given.notation.key
    if key is None or not isinstance(item.value, dict):
        return item
    if key not in item.value:
        raise given.wrong(f"this mapping has no `{key}`", item)
    value: Item = item.value[key]
    return value


def _depth(notation: Notation, depth: int | None, limits: Limits) -> int | None:
    if depth is None:
        return None
    number = as_integer(depth)
    if number is None or not 1 <= number <= limits.executions:
        message = f"N is an integer of 1..{limits.executions:,}; found {shown(depth)}"
        raise FormatError("notation-option", message, help=notation.convention)
    return number


def _options(notation: Notation, given: Mapping[str, object], way: Literal["reads", "writes"]) -> dict[str, object]:
    """Return the options that a notation takes this way, with those that are given."""
    taken = {name: option for name, option in notation.options.items() if getattr(option, way)}
    for name, value in given.items():
        if name not in taken:
            help = f"it takes {', '.join(f'`{each}`' for each in taken) or 'none'} here\n{notation.convention}"
            raise FormatError("notation-option", f"{notation.title} has no option `{name}`", help=help)
        if not taken[name].check(value):
            help = f"`{name}` is {taken[name].help}\n{notation.convention}"
            raise FormatError("notation-option", f"`{name}` cannot be {shown(value)}", help=help)
    for name, option in taken.items():
        if option.required and name not in given:
            help = f"`{name}` is {option.help}\n{notation.convention}"
            raise FormatError("notation-option", f"{notation.title} needs the option `{name}`", help=help)
    return {name: given.get(name, option.default) for name, option in taken.items()}
