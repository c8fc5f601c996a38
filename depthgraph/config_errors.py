"""pydantic's errors in our words, each at its place in the file."""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from depthgraph.errors import ConfigError
from depthgraph.yaml_file import Document, Keys

#: pydantic's type of an error → what we say about it. `{name}` is the dotted setting, `{found}` its value.
SENTENCES: Mapping[str, str] = {
    "missing": "the setting `{name}` is missing",
    "extra_forbidden": "there is no setting `{name}`",
    "greater_than": "`{name}` is above {gt}; found {found}",
    "greater_than_equal": "`{name}` is at least {ge}; found {found}",
    "less_than": "`{name}` is below {lt}; found {found}",
    "less_than_equal": "`{name}` is at most {le}; found {found}",
    "finite_number": "`{name}` is a finite number; found {found}",
    "literal_error": "`{name}` is {expected}; found {found}",
    "int_type": "`{name}` is a whole number; found {found}",
    "int_parsing": "`{name}` is a whole number; found {found}",
    "int_from_float": "`{name}` is a whole number; found {found}",
    "float_type": "`{name}` is a number; found {found}",
    "float_parsing": "`{name}` is a number; found {found}",
    "string_type": "`{name}` is a string; found {found}",
    "dict_type": "`{name}` is a group of settings; found {found}",
    "model_type": "`{name}` is a group of settings; found {found}",
    "tuple_type": "`{name}` is a list; found {found}",
    "too_short": "`{name}` has at least {min_length} entry",
    "union_tag_invalid": "`{name}.kind` is one of {expected_tags}; found `{tag}`",
    "union_tag_not_found": "`{name}` says no `kind`",
    "value_error": "{error}",
    "setting": "{message}",
}


def config_error(document: Document, error: ValidationError, model: type[BaseModel]) -> ConfigError:
    """Return the first error of a file as ours, and say how many more there are.

    Args:
        document: the file.
        error: what pydantic found in it.
        model: the model of the whole file.
    """
    errors = error.errors(include_url=False)
    for each in errors:
        each["loc"] = _plain(each["loc"], document.data)
    found = sorted(errors, key=lambda details: _order(document, details))
    details = found[0]
    name = _name(details["loc"])
    help = _HELP.get(details["type"], _no_help)(details, model)
    if len(found) > 1:
        others = ", ".join(dict.fromkeys(f"`{_name(other['loc'])}`" for other in found[1:6]))
        help = f"{help}\nand {len(found) - 1} more wrong or missing: {others}".strip()
    source, span = document.place_of(_keys(details), of_key=details["type"] == "extra_forbidden")
    return ConfigError("invalid-config", _sentence(details, name), source, span, help=help)


def _plain(keys: Keys, data: Any) -> Keys:
    """Return the keys of a place without the tags of unions, which pydantic puts between them."""
    plain: list[str | int] = []
    for index, key in enumerate(keys):
        if isinstance(data, int | float | str):  # a short form, which the model wrote out
            break
        there = (isinstance(data, Mapping) and key in data) or (isinstance(data, list) and isinstance(key, int))
        tag = isinstance(data, Mapping) and not there and data.get("kind") == key and index + 1 < len(keys)
        plain += [] if tag else [key]
        data = data[key] if there else data if tag else None
    return tuple(plain)


def _order(document: Document, details: ErrorDetails) -> tuple[bool, int]:
    # a misspelt setting is also a missing one: the misspelling says more
    return details["type"] == "missing", document.place_of(_keys(details))[1].start


def _keys(details: ErrorDetails) -> Keys:
    return details["loc"][:-1] if details["type"] == "missing" else details["loc"]


def _name(keys: Keys) -> str:
    return ".".join(map(str, keys)) or "this file"


def _sentence(details: ErrorDetails, name: str) -> str:
    kind, context = details["type"], details.get("ctx", {})
    found = f"`{details['input']}`" if isinstance(details["input"], str | int | float) else _kind(details["input"])
    if kind not in SENTENCES:
        return f"`{name}`: {details['msg'][:1].lower()}{details['msg'][1:]}; found {found}"
    return SENTENCES[kind].format_map({"message": details["msg"], **context, "name": name, "found": found})


def _kind(value: object) -> str:
    names = {type(None): "nothing", dict: "a group of settings", list: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")


def _no_help(details: ErrorDetails, model: type[BaseModel]) -> str:
    return ""


def _quote(details: ErrorDetails, model: type[BaseModel]) -> str:
    value = details["input"]
    return f'put quotes around it: "{value}"' if isinstance(value, int | float) else ""


def _similar(details: ErrorDetails, model: type[BaseModel]) -> str:
    """Name the setting that was meant: one of the same group, or of any other."""
    *around, wrong = map(str, details["loc"])
    settings = list(_settings(model))
    group = {name: keys for name, *keys in (tuple(reversed(s)) for s in settings) if keys[::-1] == around}
    close = get_close_matches(wrong, group, n=1)
    if close:
        return f"did you mean `{'.'.join([*around, close[0]])}`?"
    elsewhere = {keys[-1]: ".".join(keys) for keys in settings}
    close = get_close_matches(wrong, elsewhere, n=1, cutoff=0.8)
    if close:
        return f"did you mean `{elsewhere[close[0]]}`?"
    return f"the settings here are {', '.join(group)}" if group else ""


def _settings(model: type[BaseModel], around: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        yield (*around, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _settings(field.annotation, (*around, name))


_HELP: Mapping[str, Callable[[ErrorDetails, type[BaseModel]], str]] = {
    "extra_forbidden": _similar,
    "string_type": _quote,
}
