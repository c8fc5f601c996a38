"""The routes of YAML files, and what the mappings around a route bind."""

from collections.abc import Iterable, Iterator, Mapping

import yaml

from depthgraph.cli.inputs import Given, other_name
from depthgraph.errors import ConfigError, DepthGraphError
from depthgraph.source import Source
from depthgraph.yaml_file import Document, Value, built, entry, read_yaml

#: Keys beside `route`, or further out, that say N, in the order in which they are believed.
DEPTH_KEYS = ("N", "parameter_depth")
#: Keys that only a training config has: `check` reads a file with one of them as `train` does.
TRAIN_KEYS = ("batch", "length", "steps", "out")


def routes_in(path: str) -> Iterator[Given | ConfigError]:
    """Yield every `route` in a YAML file, and each error around them once.

    Raises:
        ConfigError: it cannot be read, or has no route.
    """
    document = read_yaml(path)
    values = list(document.values("route"))
    if not values and is_train_config(document.data):
        yield _standard(document)
        return
    if not values:
        source, span = document.place_of(())
        raise ConfigError("invalid-config", f"there is no `route` in {path}", source, span, help="add `route: lft(5)`")
    items = [_given(document, value) for value in values]
    # what stands around several routes is wrong for each of them, and is reported once
    yield from {str(item) if isinstance(item, ConfigError) else id(item): item for item in items}.values()
    routes = [(value, item) for value, item in zip(values, items, strict=True) if isinstance(item, Given)]
    if len(routes) == len(items):
        yield from _unused(document, routes)


def _given(document: Document, value: Value) -> Given | ConfigError:
    try:
        if not isinstance(built(value.node), str):
            number = isinstance(built(value.node), int)
            help = 'quote a route that is a lone number: `route: "1"`' if number else ""
            raise _wrong(document, value.node, "a route is a spec, a string", help)
        title = f"{document.name}: {'.'.join(map(str, value.keys))}"
        return Given(title, document.source_at(value.node), _bindings(document, value.around))
    except ConfigError as error:
        return error


def _standard(document: Document) -> Given:
    """Return the standard route of a training config that names none: `train` runs every layer once then."""
    root = document.root
    assert isinstance(root, yaml.MappingNode)
    _, model = entry(root, "model") or (None, None)
    around = [node for node in (root, model) if isinstance(node, yaml.MappingNode)]
    title = f"{document.name}: model, which names no route"
    return Given(title, Source("...", document.name), _bindings(document, around))


def is_train_config(data: object) -> bool:
    """Whether a file says what only `train` reads."""
    return (
        isinstance(data, Mapping) and isinstance(data.get("model"), Mapping) and any(key in data for key in TRAIN_KEYS)
    )


def _wrong(document: Document, node: yaml.Node, message: str, help: str = "") -> ConfigError:
    source, span = document.place_at(node)
    return ConfigError("invalid-config", message, source, span, help=help)


def _bindings(document: Document, around: Iterable[yaml.MappingNode]) -> dict[str, int]:
    """Return what the mappings around a route bind: N beside it, `bindings` and `loops` beside it or further out."""
    bound: dict[str, int] = {}
    for mapping in around:
        for key, value in _bound_by(document, mapping):
            bound[key.value] = _integer(document, value, key.value)
        bound |= _loop_counts(mapping)
        bound |= _depth(document, mapping)
    return bound


def _bound_by(document: Document, mapping: yaml.MappingNode) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    _, bindings = entry(mapping, "bindings") or (None, None)
    if bindings is None:
        return []
    if not isinstance(bindings, yaml.MappingNode):
        raise _wrong(document, bindings, "`bindings` is a mapping from names to integers", "write `bindings: {r: 4}`")
    for key, _ in bindings.value:
        if not isinstance(built(key), str):
            raise _wrong(document, key, "what `bindings` binds is a name", "write `bindings: {r: 4}`")
    return list(bindings.value)


def _loop_counts(mapping: yaml.MappingNode) -> dict[str, int]:
    """Return the counts at which `loops` of a training config are evaluated, where it says them; `train` checks it."""
    _, loops = entry(mapping, "loops") or (None, None)
    told = loops.value if isinstance(loops, yaml.MappingNode) else []
    counts: dict[str, int] = {}
    for key, loop in told:
        found = [entry(loop, name) for name in ("eval", "count")] if isinstance(loop, yaml.MappingNode) else []
        value = next((built(value) for _, value in filter(None, found)), None)
        if isinstance(value, int) and not isinstance(value, bool):
            counts[key.value] = value
    return counts


def _depth(document: Document, mapping: yaml.MappingNode) -> dict[str, int]:
    for name in DEPTH_KEYS:
        _, value = entry(mapping, name) or (None, None)
        if value is not None:
            return {"N": _integer(document, value, name)}
    _, preset = entry(mapping, "preset") or (None, None)
    if isinstance(preset, yaml.ScalarNode):
        from depthgraph.decoder_config import PRESETS

        known = PRESETS.get(preset.value)
        return {"N": known.parameter_depth} if known else {}
    return {}


def _integer(document: Document, node: yaml.Node, name: str) -> int:
    value = built(node)
    if not isinstance(value, int) or isinstance(value, bool):
        help = f"write it as one, without quotes: `{name}: 6`"
        raise _wrong(document, node, f"`{name}` is an integer", help)
    return value


def _unused(document: Document, routes: Iterable[tuple[Value, Given]]) -> Iterator[ConfigError]:
    """Yield an error for each entry of a `bindings` whose name no route below has."""
    keys: dict[int, yaml.ScalarNode] = {}
    names: dict[int, set[str]] = {}
    for value, given in routes:
        for mapping in value.around:
            for key, _ in _bound_by(document, mapping):
                keys[id(key)] = key
                names.setdefault(id(key), set()).update(_names(given, key.value))
    for number, key in keys.items():
        if key.value not in names[number]:
            message = f"no route that these bindings are for has a name `{key.value}`"
            yield _wrong(document, key, message, other_name(key.value, names[number]))


def _names(given: Given, wanted: str) -> Iterable[str]:
    try:
        return given.names
    except DepthGraphError:
        # a spec that cannot be read is reported on its own, and could have any name
        return (wanted,)


def train_errors(path: str) -> Iterator[ConfigError]:
    """Yield what `train` has against a file, where it is a training config and its route is not to blame."""
    from depthgraph.config import load_train_config

    if not is_train_config(read_yaml(path).data):
        return
    try:
        load_train_config(path)
    except ConfigError as error:
        yield error
    except DepthGraphError:
        # of a route, which is checked on its own with the bindings of the command line
        return
