"""pydantic's errors in our words, each at its place in the file."""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args

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
    "model_attributes_type": "`{name}` is a group of settings; found {found}",
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
    help = _HELP.get(details["type"], _no_help)(details, model, document.data)
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


def _no_help(details: ErrorDetails, model: type[BaseModel], data: Any) -> str:
    return ""


def _quote(details: ErrorDetails, model: type[BaseModel], data: Any) -> str:
    value = details["input"]
    return f'put quotes around it: "{value}"' if isinstance(value, int | float) else ""


def _kinds(details: ErrorDetails, model: type[BaseModel], data: Any) -> str:
    """Name the kinds that there are of a group which does not say its own."""
    fields = (each.model_fields.get("kind") for each in _groups(model, details["loc"], data))
    kinds = [str(field.default) for field in fields if field is not None]
    return f"kinds are {', '.join(kinds)}" if kinds else ""


def _similar(details: ErrorDetails, model: type[BaseModel], data: Any) -> str:
    """Name the setting that was meant: one of the same group, or of any other."""
    *around, wrong = map(str, details["loc"])
    group = list(
        dict.fromkeys(name for each in _groups(model, details["loc"][:-1], data) for name in each.model_fields)
    )
    close = get_close_matches(wrong, group, n=1)
    if close:
        return f"did you mean `{'.'.join([*around, close[0]])}`?"
    elsewhere = {keys[-1]: ".".join(keys) for keys in _settings(model)}
    close = get_close_matches(wrong, elsewhere, n=1, cutoff=0.8)
    if close:
        return f"did you mean `{elsewhere[close[0]]}`?"
    return f"the settings here are {', '.join(group)}" if group else ""


def _groups(model: type[BaseModel], keys: Keys, data: Any) -> list[type[BaseModel]]:
    """Return the models that a group of settings may be: one, or those of a union whose kind it does not say."""
    found = [model]
    for key in keys:
        fields = [each.model_fields[key] for each in found if key in each.model_fields]
        # other keys are the names and places in dicts and lists, whose values are models already
        found = [part for field in fields for part in _models(field.annotation)] or found
        there = (isinstance(data, Mapping) and key in data) or (isinstance(data, list) and isinstance(key, int))
        data = data[key] if there else None
        kind = data.get("kind") if isinstance(data, Mapping) else None
        said = [each for each in found if "kind" in each.model_fields and each.model_fields["kind"].default == kind]
        found = said or found
    return found


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in an annotation: itself, or the members of unions, dicts and lists."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [part for each in get_args(annotation) for part in _models(each)]


def _settings(model: type[BaseModel], around: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        yield (*around, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _settings(field.annotation, (*around, name))


_HELP: Mapping[str, Callable[[ErrorDetails, type[BaseModel], Any], str]] = {
    "extra_forbidden": _similar,
    "string_type": _quote,
    "union_tag_not_found": _kinds,
    "model_attributes_type": _kinds,
}
