"""A route over the layers of a loaded Hugging Face model: on, off, and from a folder."""

import copy
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from depthgraph.errors import CompileError, ConfigError
from depthgraph.hf.auto import registered
from depthgraph.hf.classes import RoutedTop, install, routed_class, uninstall
from depthgraph.hf.config_class import Routed
from depthgraph.hf.find import find_layers, unroutable
from depthgraph.hf.parts import routing_of
from depthgraph.hf.routing import Routing
from depthgraph.hf.settings import Settings, set_route
from depthgraph.hf.slots import CachePolicy
from depthgraph.route import Route
from depthgraph.source import Source
from depthgraph.syntax import RouteSpec

if TYPE_CHECKING:
    import networkx as nx

M = TypeVar("M", bound=nn.Module)

#: Keywords of `from_pretrained` that say where its files are.
FOR_FILES = (
    "revision",
    "token",
    "cache_dir",
    "subfolder",
    "local_files_only",
    "force_download",
    "trust_remote_code",
    "code_revision",
)

#: Those that a config has too, and that the model's own `from_pretrained` has to see.
NO_SETTINGS = ("dtype", "torch_dtype", "quantization_config")


def reroute(
    model: M,
    route: "str | Source | RouteSpec | Route | nx.DiGraph[Any]",
    *,
    dynamic: Iterable[str] | Mapping[str, int] | None = None,
    bindings: Mapping[str, int] | None = None,
    kv_cache: CachePolicy = "per_execution",
    backprop_last: int | Mapping[str, int] | None = None,
) -> M:
    """Run a loaded Hugging Face model's layers in the order of a route, in place; return the model.

    Its parameters stay what and where they are, under the same names: the optimiser, adapters and checkpoints know it
    as before. Weights of the route itself (`mix`, `gate`) are new modules in it, `model.depthgraph.mix_1`, and start
    by changing nothing. A model that has a route gets the new one instead.

    Args:
        model: any model of transformers whose layers are called one after the other.
        route: a spec, with layers from 1; or a route, or its graph.
        dynamic: names of the spec that are loop counts at run time, with the counts that it is trained with:
            `{"r": 4}`. Then `model(ids, r=8)` and `model.generate(ids, r=8)`.
        bindings: values of the spec's other names.
        kv_cache: `per_execution` keeps keys and values for every execution, and a cached forward computes what one
            without a cache does. `last_visit` keeps those of each layer's last visit alone, as much memory as without
            a route, and **changes the result**: earlier visits see the past as the last one left it.
        backprop_last: with `dynamic`, the iterations of a loop that the gradient goes through.

    Raises:
        SpecError: the text means no route over this model's layers.
        CompileError: `unroutable-model`, with the reason; `not-a-route`, `loop-count`.
        ConfigError: `invalid-config` for an unknown `kv_cache`.
    """
    if backprop_last is not None and dynamic is None:
        message = "`backprop_last` is for loop counts at run time, and `dynamic` names none"
        raise CompileError(
            "loop-count", message, help='write `stopgrad` in the route, or name the count: dynamic={"r": 4}'
        )
    if not isinstance(model, nn.Module):
        raise unroutable(model, "it is no torch module", "load it first; or dg.hf.from_pretrained(folder, route)")
    inner = unwrapped(model)
    before = routing_of(inner, None)
    layers = before.layers if before is not None else find_layers(inner)
    settings = Settings.of(route, len(layers.modules), dynamic, bindings, kv_cache)
    install(inner, settings, {} if backprop_last is None else {"backprop_last": backprop_last})
    registered(type(inner.config).__mro__[2])
    return model


def unwrapped(model: nn.Module) -> Any:
    """Return the Hugging Face model in a wrapper, as data-parallel training, torch.compile and PEFT make them."""
    return next((part for part in model.modules() if isinstance(part, PreTrainedModel)), model)


def restore(model: M) -> M:
    """Take the route off a model, in place; return the model, which is what it was.

    Weights of the route itself (`mix`, `gate`) go with it.

    Raises:
        CompileError: `no-compiled-route` for a model without a route.
    """
    routing_or_error(model)
    uninstall(unwrapped(model))
    return model


def routing_or_error(model: nn.Module) -> Routing:
    """Return the compiled route of a model.

    Raises:
        CompileError: `no-compiled-route` if it has none.
    """
    routing = routing_of(model, None) if isinstance(model, nn.Module) else None
    if routing is None:
        message = f"this {type(model).__name__} has no route"
        raise CompileError("no-compiled-route", message, help="dg.hf.reroute(model, route) gives it one")
    return routing  # type: ignore[no-any-return]


def routed_top(model: nn.Module) -> Any:
    """Return the model of transformers that has the route, out of its wrapper.

    Raises:
        CompileError: `no-compiled-route`: there is none, or in a part of the model only.
    """
    routing_or_error(model)
    top = unwrapped(model)
    if not isinstance(top, RoutedTop):
        message = f"a {type(top).__name__} is given, and a model inside it has the route"
        raise CompileError("no-compiled-route", message, help="give that model; of an adapter, `merge_and_unload()`")
    return top


def from_pretrained(
    name: str | os.PathLike[str],
    route: "str | Source | RouteSpec | Route | nx.DiGraph[Any] | None" = None,
    *,
    dynamic: Iterable[str] | Mapping[str, int] | None = None,
    bindings: Mapping[str, int] | None = None,
    kv_cache: CachePolicy | None = None,
    auto_class: Any = AutoModelForCausalLM,
    **named: Any,
) -> PreTrainedModel:
    """Load a checkpoint, with or without a route of its own, under a route.

    Args:
        name: a folder, or a name on the hub.
        route: instead of the checkpoint's own; None for that one.
        dynamic: as for `reroute`; of the checkpoint's own route if no other is given.
        bindings: as `dynamic`.
        kv_cache: as for `reroute`; None for the checkpoint's own, or `per_execution`.
        auto_class: of transformers; or the class of a model.
        named: what its `from_pretrained` takes: `dtype`, `device_map`, settings of the config …

    Raises:
        SpecError: the text means no route over the checkpoint's layers; before weights are read.
        CompileError: `no-compiled-route` if neither the checkpoint nor the caller says a route.
    """
    config = _config_of(name, named)
    if config.model_type == "depthgraph":  # the reference decoder, whose config has always a route
        _set_on_decoder(config, route, dynamic, bindings, kv_cache)
        return auto_class.from_pretrained(name, config=config, **named)
    if route is None and isinstance(config, Routed) and not (dynamic is None and bindings is None):
        route = config.route  # with other counts, or other values of its names
        dynamic = config.loop_counts if dynamic is None else dynamic
        bindings = config.route_bindings if bindings is None else bindings
    if route is not None:
        depth = config.get_text_config(decoder=True).num_hidden_layers
        policy = kv_cache or (config.kv_cache if isinstance(config, Routed) else "per_execution")
        registered(base_config_class(config))
        set_route(config, Settings.of(route, depth, dynamic, bindings, policy))
    elif not isinstance(config, Routed):
        message = f"the checkpoint {os.fspath(name)!r} says no route, and none is given"
        raise CompileError("no-compiled-route", message, help='give one: from_pretrained(name, "block(2..4)x2")')
    elif kv_cache is not None:
        config.kv_cache = kv_cache
    return _with_route(auto_class).from_pretrained(name, config=config, **named)


def _set_on_decoder(config: Any, route: Any, dynamic: Any, bindings: Any, kv_cache: CachePolicy | None) -> None:
    """Give the config of a reference decoder another route, or other counts of its own."""
    if kv_cache == "last_visit":
        message = "the reference decoder keeps keys and values of every execution, and `last_visit` is asked for"
        raise ConfigError("invalid-config", message, help="leave `kv_cache` out")
    if route is None and dynamic is None and bindings is None:
        return
    if route is not None:
        config.backprop_last = None  # of the counts of another spec
    elif dynamic is None:
        dynamic = config.loop_counts
    if route is None and bindings is None:
        bindings = config.route_bindings
    said = config.route if route is None else route
    settings = Settings.of(said, config.num_hidden_layers, dynamic, bindings, kv_cache or "per_execution")
    config.route, config.loop_counts, config.route_bindings = settings.route, settings.counts, settings.bindings


def _with_route(auto_class: Any) -> Any:
    """Return an auto class as it is; of the class of a model that with a route, since it would load none itself."""
    is_model = isinstance(auto_class, type) and issubclass(auto_class, PreTrainedModel)
    return routed_class(auto_class, None, True) if is_model and not issubclass(auto_class, RoutedTop) else auto_class


def _config_of(name: str | os.PathLike[str], named: dict[str, Any]) -> Any:
    """Return a checkpoint's config, or a copy of the one that is given, with the settings among the keywords.

    Args:
        name: of the checkpoint.
        named: the keywords of `from_pretrained`, out of which settings of the config are taken.
    """
    passed = {key: named[key] for key in FOR_FILES if key in named}
    given = named.pop("config", None)
    config = AutoConfig.from_pretrained(name, **passed) if given is None else copy.deepcopy(given)
    for key in [key for key in named if key not in NO_SETTINGS and hasattr(config, key)]:
        setattr(config, key, named.pop(key))
    return config


def base_config_class(config: Any) -> Any:
    """Return the class that a config has without a route."""
    return type(config).__mro__[2] if isinstance(config, Routed) else type(config)
