"""YAML files that remember where each value stands, so that an error in a spec shows its place in the file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from depthgraph.errors import ConfigError
from depthgraph.source import Source, Span

Keys = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """One YAML file.

    Attributes:
        name: the file's name, as it stands in errors.
        text: the whole file.
        data: what it says, as plain dicts, lists and scalars; None for an empty file.
    """

    name: str
    text: str
    data: Any
    root: yaml.Node | None

    def source_of(self, keys: Keys) -> Source:
        """Return the text of a string value, with its place in the file.

        Args:
            keys: the keys and list indexes that lead to it.
        """
        node = self._node(keys)
        assert isinstance(node, yaml.ScalarNode), keys
        start, end = node.start_mark.index, node.end_mark.index
        return Source(node.value, self.name, self.text, tuple(_offsets(node.value, self.text, start, end)))

    def place_of(self, keys: Keys, *, of_key: bool = False) -> tuple[Source, Span]:
        """Return the place of a value, or of its key; of what is around it, if it is not there."""
        source = Source(self.text, self.name)
        while keys:
            try:
                node = self._node(keys, of_key=of_key)
            except KeyError:
                keys = keys[:-1]
            else:
                end = max(node.start_mark.index + 1, len(self.text[: node.end_mark.index].rstrip()))
                return source, Span(node.start_mark.index, end)
        return source, Span(0, 0)

    def strings(self, key: str) -> Iterator[Keys]:
        """Yield where the values of a key stand, at any depth, in the order of the file."""
        yield from _find(self.data, key, (), set())

    def _node(self, keys: Keys, *, of_key: bool = False) -> yaml.Node:
        node, named = self.root, self.root
        for key in keys:
            if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                named = node = node.value[key]
            elif isinstance(node, yaml.MappingNode):
                named, node = _entry(node, key)
            else:
                raise KeyError(keys)
        found = named if of_key else node
        if found is None:
            raise KeyError(keys)
        return found


def read_yaml(path: str | Path) -> Document:
    """Read a YAML file.

    Raises:
        ConfigError: it is not there, cannot be read as text, is not valid YAML, or has a key twice.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError("missing-file", f"cannot read {path}: {reason}") from None
    except UnicodeDecodeError:
        raise ConfigError("invalid-yaml", f"{path} is not text in UTF-8") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str) -> Document:
    """Parse the text of a YAML file; `read_yaml` reads one."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_twins(root, text, name)
        data = yaml.load(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _invalid(error, text, name) from None
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError("invalid-yaml", f"{name} is not valid YAML: {reason}") from None
    except RecursionError:
        raise ConfigError("invalid-yaml", f"{name} is nested too deep") from None
    return Document(name, text, data, root)


def _invalid(error: yaml.MarkedYAMLError, text: str, name: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    at = min(mark.index, len(text)) if mark else 0
    message = f"this is not valid YAML: {error.problem or error.context}"
    help = "quote the value if it has a `: ` or begins with one of [ { * & ! % @ > |"
    return ConfigError("invalid-yaml", message, Source(text, name), Span(at, at + 1), help=help)


def _refuse_twins(root: yaml.Node | None, text: str, name: str) -> None:
    """Refuse a key that stands twice in one mapping: YAML loaders keep the last one and say nothing."""
    todo, seen = [root], set[int]()
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            todo += node.value
        elif isinstance(node, yaml.MappingNode):
            keys: set[tuple[str, str]] = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if (key.tag, key.value) in keys:
                        span = Span(key.start_mark.index, key.end_mark.index)
                        message = f"the key `{key.value}` stands here for the second time"
                        raise ConfigError("invalid-yaml", message, Source(text, name), span, help="delete one of them")
                    keys.add((key.tag, key.value))
                todo += [key, value]


def _entry(node: yaml.MappingNode, wanted: str | int) -> tuple[yaml.Node, yaml.Node]:
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value == str(wanted):
            return key, value
    raise KeyError(wanted)


def _find(data: Any, key: str, path: Keys, around: set[int]) -> Iterator[Keys]:
    if not isinstance(data, dict | list) or id(data) in around:
        return
    around = around | {id(data)}
    pairs: Any = data.items() if isinstance(data, Mapping) else enumerate(data)
    for name, value in pairs:
        if name == key and isinstance(data, Mapping):
            yield (*path, name)
        elif isinstance(name, str | int):
            yield from _find(value, key, (*path, name), around)


def _offsets(value: str, text: str, start: int, end: int) -> Iterator[int]:
    """Yield where in the file each character of a scalar's value is written, and where its last one ends.

    Quotes, indentation and the folding of lines stand between them: a stretch of blanks is matched with a
    stretch of blanks, however long. What is written by an escape is found at or after the one before it.
    """
    at = start
    if text[start : start + 1] in ("|", ">"):
        at = text.find("\n", start, end) + 1 or end
    for stretch in re.findall(r"\s+|\S+", value):
        if stretch.isspace():
            blanks = re.compile(r"\s*").match(text, at, end)
            last = max(at, blanks.end() - 1) if blanks else at
            yield from (min(at + index, last) for index in range(len(stretch)))
            at = blanks.end() if blanks else at
            continue
        for character in stretch:
            found = text.find(character, at, end)
            yield found if found >= 0 else min(at, max(start, end - 1))
            at = found + 1 if found >= 0 else at
    yield at
