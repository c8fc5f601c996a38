"""The config class of a model with a route: its own class, and four fields more.

This file is written into folders that load without this package (`standalone`), so it asks for nothing of it.
"""

from typing import Any

#: What `config.json` calls a model with a route.
MODEL_TYPE = "depthgraph_routed"

#: What `config.json` says where others expect `use_cache`, a bool. A class of transformers that is called by its name,
#: `LlamaForCausalLM`, loads a checkpoint of any `model_type` with a warning, and would run another route. A setting of
#: another type it refuses, and its error says this.
FOR_OTHERS = "these layers run under a route: import depthgraph.hf, and load them with AutoModelForCausalLM"


class Routed:
    """What a routed config has beside its model's settings: the fields of `Settings`."""

    route: str
    loop_counts: dict[str, int] | None
    route_bindings: dict[str, int] | None
    kv_cache: str

    #: What `config.json` says for whoever reads it, and no config in memory does.
    _of_the_file = ("base_model_type", "base_use_cache")

    def to_diff_dict(self) -> dict[str, Any]:
        """Return what `config.json` says: the model's settings under a type that nothing else runs, and the route."""
        found: dict[str, Any] = super().to_diff_dict()  # type: ignore[misc]
        if found.get("architectures"):  # tools look for a class of this name in transformers: there must be none
            found["architectures"] = [f"Routed{name.removeprefix('Routed')}" for name in found["architectures"]]
        sub_configs = getattr(self, "sub_configs", {})
        text = self.get_text_config(decoder=True)  # type: ignore[attr-defined]
        part = next((found[name] for name in sub_configs if getattr(self, name, None) is text), found)
        if "use_cache" in part:
            part["base_use_cache"] = part["use_cache"]
        part["use_cache"] = FOR_OTHERS
        return {**found, "model_type": MODEL_TYPE, "base_model_type": type(self).model_type}  # type: ignore[attr-defined]

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **named: Any) -> Any:
        """Make a config; a route that is given by keyword comes without the counts of the one that is stored."""
        kept = {name: cls._of_memory(value) for name, value in cls._of_memory(config_dict).items()}
        kept["model_type"] = cls.model_type  # type: ignore[attr-defined]
        if "route" in named:
            kept |= {"loop_counts": None, "route_bindings": None}
        return super().from_dict(kept, **named)  # type: ignore[misc]

    @classmethod
    def _of_memory(cls, part: Any) -> Any:
        """Return a part of what a file says as it is in memory."""
        if not isinstance(part, dict):
            return part
        kept = {name: value for name, value in part.items() if name not in cls._of_the_file}
        if kept.get("use_cache") == FOR_OTHERS:
            del kept["use_cache"]
        return kept | ({"use_cache": part["base_use_cache"]} if "base_use_cache" in part else {})
