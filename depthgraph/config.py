"""What users write in files: pydantic models, and the checks that need no torch."""

from typing import Any

from depthgraph.errors import SpecError
from depthgraph.expand import route_from_text
from depthgraph.route import Route


def route_schema() -> Any:
    """Return the pydantic schema of `Route`: a spec or a route in, the route in Python, its text in JSON.

    A spec that is no route becomes an error of pydantic's own, whose message is ours, with the caret.
    """
    from pydantic_core import PydanticCustomError, core_schema

    def read(value: object) -> Route:
        if isinstance(value, Route):
            return value
        if not isinstance(value, str):
            raise PydanticCustomError("route", "a route is a spec, a string; found {kind}", {"kind": type(value).__name__})
        try:
            return route_from_text(value)
        except SpecError as error:
            raise PydanticCustomError("route", "{error}", {"error": error.render()}) from error

    return core_schema.no_info_plain_validator_function(
        read,
        serialization=core_schema.to_string_ser_schema(when_used="json"),
        json_schema_input_schema=core_schema.str_schema(),
    )
