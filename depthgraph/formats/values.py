"""Values of other projects as trees of items that know their place: from text, or from Python's own objects."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from depthgraph.errors import ConfigError
from depthgraph.route import as_integer
from depthgraph.source import Source, Span

if TYPE_CHECKING:
    import yaml

#: No value of a notation is nested deeper, or has more parts; aliases in YAML could make both.
DEEPEST, MOST_ITEMS = 12, 250_000

INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,8})")
INTEGER_TAG = "tag:yaml.org,2002:int"
PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Item:
    """A part of a value.

    Attributes:
        value: an integer, a text, a tuple of items, a mapping from names to items, or whatever else it is.
        span: its place in the text, if it comes from one.
    """

    value: object
    span: Span | None = None


class UnreadableError(Exception):
    """A text or an object that is no value at all; its caller says of which notation.

    Attributes:
        message: what was found.
        span: where.
        help: what to do.
    """

    def __init__(self, message: str, span: Span | None = None, help: str = "") -> None:
        super().__init__(message)
        self.message, self.span, self.help = message, span, help


def read_literal(source: Source) -> Item:
    """Read a value in the syntax of Python, JSON or YAML.

    Python's tuples are read as lists: no notation tells them apart.

    Raises:
        UnreadableError: it is none.
    """
    from depthgraph.yaml_file import parse_yaml

    try:
        document = parse_yaml(_without_tuples(source.text), source.name)
    except ConfigError as error:
        raise UnreadableError(error.message, error.span, error.help) from None
    if document.root is None:
        raise UnreadableError("there is no value here")
    return _Nodes().item(document.root, 0)


def _without_tuples(text: str) -> str:
    """Return a literal with its tuples written as lists, each character in its place."""
    if not text.lstrip().startswith(("(", "[")):
        return text
    lone = re.search(r"\(\s*[+-]?[0-9]+\s*\)", text)
    if lone:
        number = lone[0].strip("() \t\n")
        help = f"in Python `({number})` is the number {number}: write `{number}`, or `({number},)` for a tuple of it"
        raise UnreadableError("a number in parentheses is no tuple", Span(*lone.span()), help)
    open_ones: list[str] = []
    for bracket in re.finditer(r"[][(){}]", text):
        if bracket[0] not in PAIRS:
            open_ones.append(bracket[0])
        elif not open_ones or open_ones.pop() != PAIRS[bracket[0]]:
            raise UnreadableError(f"`{bracket[0]}` closes nothing that is open here", Span(*bracket.span()))
    return text.replace("(", "[").replace(")", "]")


class _Nodes:
    """Turns YAML's nodes into items, and bounds how many: aliases can name one node again and again."""

    def __init__(self) -> None:
        self.count = 0

    def item(self, node: "yaml.Node", depth: int) -> Item:
        import yaml

        span = Span(node.start_mark.index, max(node.start_mark.index + 1, node.end_mark.index))
        self.count += 1
        if depth > DEEPEST or self.count > MOST_ITEMS:
            raise UnreadableError("this has more parts than any value of a notation", span)
        if isinstance(node, yaml.SequenceNode):
            return Item(tuple(self.item(each, depth + 1) for each in node.value), span)
        if isinstance(node, yaml.MappingNode):
            return Item({_key(key): self.item(each, depth + 1) for key, each in node.value}, span)
        return Item(_scalar(node), span)


def _key(node: "yaml.Node") -> str:
    if not isinstance(node.value, str):
        raise UnreadableError("the key of a mapping is a name", Span(node.start_mark.index, node.end_mark.index))
    return node.value


def _scalar(node: "yaml.Node") -> object:
    """Return what a scalar says; an integer that YAML would read otherwise than Python (010, 1_0) is a text."""
    from depthgraph.yaml_file import built

    if node.tag != INTEGER_TAG:
        return built(node)
    return int(node.value) if INTEGER.fullmatch(node.value) else str(node.value)


def from_object(value: object, depth: int = 0) -> Item:
    """Return an object of Python as an item: lists and tuples, mappings, integers of any library, texts.

    Raises:
        UnreadableError: it is nested deeper than any value.
    """
    if depth > DEEPEST:
        raise UnreadableError("this is nested deeper than any value of a notation")
    if isinstance(value, str | bytes):
        return Item(value)
    if isinstance(value, Mapping):
        return Item({str(key): from_object(each, depth + 1) for key, each in value.items()})
    if isinstance(value, Sequence):
        return Item(tuple(from_object(each, depth + 1) for each in value))
    number = as_integer(value)
    return Item(value if number is None else number)


def plain(item: Item) -> object:
    """Return an item as plain data, lists and dicts."""
    if isinstance(item.value, tuple):
        return [plain(each) for each in item.value]
    if isinstance(item.value, dict):
        return {key: plain(each) for key, each in item.value.items()}
    return item.value


def brief(item: Item) -> str:
    """Return an item as messages show it, short."""
    from depthgraph.errors import shown

    return shown(plain(item))
