"""Where the layers of a Hugging Face model are, or why no route can run there."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from depthgraph.errors import CompileError

#: Settings of models whose layers do more than pass a hidden state on: what they say, and what that means for a route.
REFUSED: dict[str, str] = {
    "is_encoder_decoder": "it has an encoder and a decoder",
    "add_cross_attention": "its layers attend to an encoder",
    "num_kv_shared_layers": "its layers read each other's keys and values",
    "kv_sharing_modes": "its layers read each other's keys and values",
}


@dataclass(frozen=True)
class Layers:
    """The list of layers of a model.

    Attributes:
        owner: the module that has the list, and whose forward runs it.
        path: the owner's name in the model; empty where it is the model itself.
        name: of the list in the owner, `layers` or `h`.
        modules: the N layers.
    """

    owner: nn.Module
    path: str
    name: str
    modules: tuple[nn.Module, ...]

    @property
    def prefix(self) -> str:
        """What the layers' names in the state dict start with, `model.layers.`."""
        return ".".join(filter(None, (self.path, self.name))) + "."


def find_layers(model: nn.Module) -> Layers:
    """Find the one list that has as many modules as the model's config says that it has layers.

    Raises:
        CompileError: `unroutable-model`, with the reason.
    """
    config: Any = getattr(model, "config", None)
    if not hasattr(config, "get_text_config"):
        raise unroutable(model, "it is no Hugging Face model with a config", "dg.compile takes any list of layers")
    config = config.get_text_config(decoder=True)
    if config.model_type == "depthgraph":
        raise unroutable(model, "it has a route of its own", "load it with another: from_pretrained(path, route=…)")
    for name, reason in REFUSED.items():
        value = getattr(config, name, None)
        if value and (name != "kv_sharing_modes" or "reuse" in value):
            raise unroutable(model, f"{reason} (`{name}` of its config)", "re-route a model that only decodes")
    N = getattr(config, "num_hidden_layers", None)
    if not isinstance(N, int):
        raise unroutable(model, "its config says no `num_hidden_layers`", "dg.compile takes any list of layers")
    every = list(_lists(model, N))
    inside = tuple(f"{path}.{name}.".lstrip(".") for path, name, _ in every)
    found = [each for each in every if not f"{each[0]}.".startswith(inside)]
    if len(found) != 1:
        names = ", ".join(f"`{'.'.join(filter(None, (path, name)))}`" for path, name, _ in found) or "no list"
        message = f"its {N} layers are to be in one list of modules; found {names}"
        raise unroutable(model, message, "dg.compile takes any list of layers")
    [(path, name, modules)] = found
    owner = model.get_submodule(path)
    _check_apart(model, modules)
    return Layers(owner, path, name, modules)


def _check_apart(model: nn.Module, modules: tuple[nn.Module, ...]) -> None:
    if len(set(map(id, modules))) != len(modules):
        raise unroutable(model, "one module stands at several places of its list of layers", "give each its own place")
    kept = next((name for layer in modules for part in layer.modules() for name in _states(part)), None)
    if kept is not None:
        message = f"its layers keep the states of the past themselves (`{kept}`), where all visits would share them"
        raise unroutable(model, message, "re-route a model that keeps them in its cache")


def _lists(model: nn.Module, N: int) -> Iterator[tuple[str, str, tuple[nn.Module, ...]]]:
    for path, module in model.named_modules():
        for name, child in module.named_children():
            if isinstance(child, nn.ModuleList) and len(child) == N and type(module).forward is not nn.Module.forward:
                yield path, name, tuple(child)


def _states(part: nn.Module) -> Iterator[str]:
    """Yield the attributes in which a module keeps what it saw, as recurrent layers from before caches do."""
    for name, value in vars(part).items():
        if name.endswith(("_state", "_states")) and (value is None or isinstance(value, Tensor)):
            yield name


def unroutable(model: nn.Module, reason: str, help: str) -> CompileError:
    """Return the error for a model that cannot run under a route."""
    return CompileError("unroutable-model", f"{type(model).__name__} cannot be re-routed: {reason}", help=help)
