"""The config class of a model with a route: its own class, and four fields more.

This file is written into folders that load without this package (`standalone`), so it asks for nothing of it.
"""

from typing import Any

#: What `config.json` calls a model with a route.
MODEL_TYPE = "depthgraph_routed"


class Routed:
    """What a routed config has beside its model's settings: the fields of `Settings`."""

    route: str
    loop_counts: dict[str, int] | None
    route_bindings: dict[str, int] | None
    kv_cache: str

    #: What `config.json` says for whoever reads it, and no config in memory does.
    _of_the_file = ("base_model_type",)

    def to_diff_dict(self) -> dict[str, Any]:
        """Return what `config.json` says: the model's settings under a type that nothing else runs, and the route."""
        found: dict[str, Any] = super().to_diff_dict()  # type: ignore[misc]
        if found.get("architectures"):  # tools look for a class of this name in transformers: there must be none
            found["architectures"] = [f"Routed{name.removeprefix('Routed')}" for name in found["architectures"]]
        return {**found, "model_type": MODEL_TYPE, "base_model_type": type(self).model_type}  # type: ignore[attr-defined]

    @classmethod
    def get_config_dict(cls, *args: Any, **named: Any) -> Any:
        """Return what a file says under the model's own type, which is this class's: there is nothing to warn of."""
        found, rest = super().get_config_dict(*args, **named)  # type: ignore[misc]
        if found.get("base_model_type") == cls.model_type:  # type: ignore[attr-defined]
            found = {**found, "model_type": cls.model_type}  # type: ignore[attr-defined]
        return found, rest

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **named: Any) -> Any:
        """Make a config; a route that is given by keyword comes without the counts of the one that is stored."""
        kept = {name: value for name, value in config_dict.items() if name not in cls._of_the_file}
        kept["model_type"] = cls.model_type  # type: ignore[attr-defined]
        if "route" in named:
            kept |= {"loop_counts": None, "route_bindings": None}
        return super().from_dict(kept, **named)  # type: ignore[misc]
