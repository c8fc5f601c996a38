"""YAML files that remember where each value stands, so that an error in a spec shows its place in the file."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from depthgraph.errors import ConfigError
from depthgraph.source import Source, Span

Keys = tuple[str | int, ...]

#: Tags: of `<<`; of a string; of the lone `=`, which as a key is a string.
MERGE, TEXT, SIGN = (f"tag:yaml.org,2002:{name}" for name in ("merge", "str", "value"))


@dataclass(frozen=True)
class Value:
    """A value that stands behind some key.

    Attributes:
        keys: the keys, as they are written, and list indexes that lead to it.
        node: it.
        around: the mappings that it stands in, the outermost first.
    """

    keys: Keys
    node: yaml.Node
    around: tuple[yaml.MappingNode, ...]


@dataclass(frozen=True)
class Document:
    """One YAML file.

    Attributes:
        name: the file's name, as it stands in errors.
        text: the whole file.
        data: what it says, as plain dicts, lists and scalars; None for an empty file.
        root: the same as nodes with their places, what `<<` merges written out; None for an empty file.
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
        return self.source_at(self._node(keys))

    def source_at(self, node: yaml.Node) -> Source:
        """Return the text of a scalar, with its place in the file."""
        assert isinstance(node, yaml.ScalarNode), node
        start, end = node.start_mark.index, node.end_mark.index
        return Source(node.value, self.name, self.text, tuple(_offsets(node.value, self.text, start, end)))

    def place_of(self, keys: Keys, *, of_key: bool = False) -> tuple[Source, Span]:
        """Return the place of a value, or of its key; of what is around it, if it is not there."""
        while keys:
            try:
                return self.place_at(self._node(keys, of_key=of_key))
            except KeyError:
                keys = keys[:-1]
        return Source(self.text, self.name), Span(0, 0)

    def place_at(self, node: yaml.Node) -> tuple[Source, Span]:
        """Return the place of a node."""
        end = max(node.start_mark.index + 1, len(self.text[: node.end_mark.index].rstrip()))
        return Source(self.text, self.name), Span(node.start_mark.index, end)

    def values(self, key: str) -> Iterator[Value]:
        """Yield the values that stand behind a key, at any depth, in the order of the file.

        A value that several aliases name is one place in the file, and comes once.
        """
        yield from _find(self.root, key, (), (), set())

    def _node(self, keys: Keys, *, of_key: bool = False) -> yaml.Node:
        node, named = self.root, self.root
        for key in keys:
            if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                named = node = node.value[key]
            elif isinstance(node, yaml.MappingNode):
                named, node = entry(node, key) or (None, None)
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
    return parse_yaml(read_text(path, "invalid-yaml"), str(path))


def read_text(path: str | Path, not_text: str) -> str:
    """Read a text file.

    Args:
        path: the file.
        not_text: the kind of error that a file is which is not text.

    Raises:
        ConfigError: it is not there, or cannot be read as text.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(not_text, f"{path} is not text in UTF-8") from None
    except (OSError, ValueError) as error:
        # ValueError: a name that no file can have, with a NUL or with letters that this locale lacks
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError("missing-file", f"cannot read {path}: {reason}") from None


def parse_yaml(text: str, name: str) -> Document:
    """Parse the text of a YAML file; `read_yaml` reads one."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        _write_out(root, text, name)
        data = built(root)
    except yaml.MarkedYAMLError as error:
        raise _invalid(error, text, name) from None
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError("invalid-yaml", f"{name} is not valid YAML: {reason}") from None
    except LookupError:  # PyYAML looks into a value as its tag lets it expect one: `!!int`, `!!bool x`
        raise ConfigError("invalid-yaml", f"{name} is not valid YAML: a value does not fit its tag") from None
    except RecursionError:
        raise ConfigError("invalid-yaml", f"{name} is nested too deep") from None
    return Document(name, text, data, root)


def _invalid(error: yaml.MarkedYAMLError, text: str, name: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    at = min(mark.index, len(text)) if mark else 0
    message = f"this is not valid YAML: {error.problem or error.context}"
    help = "quote the value if it has a `: ` or begins with one of [ { * & ! % @ > |"
    if error.problem == "but found another document":
        message, help = "a second YAML document begins here", "put it into a file of its own, or delete it"
    return ConfigError("invalid-yaml", message, Source(text, name), Span(at, at + 1), help=help)


def built(node: yaml.Node | None) -> Any:
    """Return what a node says, as plain dicts, lists and scalars."""
    return None if node is None else yaml.SafeLoader("").construct_document(node)


def entry(mapping: yaml.MappingNode, wanted: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the nodes of a key and its value; None where it is not there."""
    return next((pair for pair in mapping.value if _identity(pair[0]) == wanted), None)


def _write_out(root: yaml.Node | None, text: str, name: str) -> None:
    """Refuse keys that stand twice, and write out merges; each node once, in the order of the file.

    An alias stands behind what it names, so what a mapping merges by one has been written out before.
    """
    todo, seen = [root], set[int]()
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            todo += reversed(node.value)
        elif isinstance(node, yaml.MappingNode):
            todo += [child for pair in reversed(node.value) for child in reversed(pair)]
            _refuse_twins(node, text, name)
            _merge(node)


def _refuse_twins(mapping: yaml.MappingNode, text: str, name: str) -> None:
    """Refuse a key that stands twice in one mapping: YAML loaders keep the last one and say nothing."""
    keys: set[Any] = set()
    for key, _ in mapping.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
            if _identity(key) in keys:
                span = Span(key.start_mark.index, key.end_mark.index)
                message = f"the key `{key.value}` stands here for the second time"
                raise ConfigError("invalid-yaml", message, Source(text, name), span, help="delete one of them")
            keys.add(_identity(key))


def _merge(mapping: yaml.MappingNode) -> None:
    """Put what `<<` names into a mapping, each key once: the mapping's own, then that of what is named first."""
    merged = [value for key, value in mapping.value if key.tag == MERGE]
    # first, for a mapping may name itself
    mapping.value = [pair for pair in mapping.value if pair[0].tag != MERGE]
    known = {_identity(key) for key, _ in mapping.value}
    for value in reversed(merged):
        for other in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            if not isinstance(other, yaml.MappingNode):
                raise yaml.MarkedYAMLError(problem="`<<` names mappings only", problem_mark=other.start_mark)
            _merge(other)
            for pair in other.value:
                if _identity(pair[0]) not in known:
                    known.add(_identity(pair[0]))
                    mapping.value.append(pair)


def _identity(key: yaml.Node) -> Any:
    """Return what makes a key equal to another one in a dict: 2 and 0x2 are one key, "2" is another."""
    if not isinstance(key, yaml.ScalarNode):
        return key
    return key.value if key.tag in (TEXT, SIGN) else built(key)


def _find(
    node: yaml.Node | None, key: str, path: Keys, around: tuple[yaml.MappingNode, ...], seen: set[int]
) -> Iterator[Value]:
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _find(item, key, (*path, index), around, seen)
    elif isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            keys = (*path, name.value if isinstance(name, yaml.ScalarNode) else "[…]")
            if name.tag == TEXT and name.value == key:
                yield Value(keys, value, (*around, node))
            else:
                yield from _find(value, key, keys, (*around, node), seen)


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
