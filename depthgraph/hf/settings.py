"""What a model's config says of its route, and the Hugging Face configs that say it.

A routed config is the model's own config class with four fields more. In memory it is a `LlamaConfig` to whatever asks;
in `config.json` its `model_type` is `depthgraph_routed`, so that nothing that does not know the route runs another one.
`num_hidden_layers` is N everywhere: the config counts layers, the route executions.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, get_args

from depthgraph.errors import CompileError, ConfigError, shown
from depthgraph.expand import expand
from depthgraph.hf.config_class import Routed
from depthgraph.hf.slots import CachePolicy
from depthgraph.nn.compile import as_route
from depthgraph.nn.recipe import Recipe
from depthgraph.parser import parse
from depthgraph.source import Source
from depthgraph.syntax import RouteSpec


@dataclass(frozen=True)
class Settings:
    """What a config says of a route.

    Attributes:
        route: its canonical text, or the spec as it is written where counts are chosen at run time.
        counts: of the loops whose count is chosen at run time, with those that the model was trained with.
        bindings: of the spec's other names, N left out.
        kv_cache: which executions share a slot of the cache.
    """

    route: str
    counts: Mapping[str, int] | None = None
    bindings: Mapping[str, int] | None = None
    kv_cache: CachePolicy = "per_execution"

    @classmethod
    def of(
        cls,
        route: object,
        depth: int,
        dynamic: Iterable[str] | Mapping[str, int] | None,
        bindings: Mapping[str, int] | None,
        kv_cache: str,
    ) -> "Settings":
        """Check a route, or a spec with counts, over `depth` layers, and return what the config is to say.

        Raises:
            SpecError: the text means no route over these layers.
            CompileError: `loop-count`, `not-a-route`, or a `kv_cache` that is no policy.
        """
        policy = checked_policy(kv_cache)
        _check_names(dynamic, bindings)
        if dynamic is not None:
            recipe = Recipe.of(_spec(route), depth, dynamic, bindings or {}, None, {})
            counts = {name: _known(recipe, name) for name in recipe.names}
            recipe.route(counts)
            return cls(str(recipe.spec), counts, dict(bindings or {}) or None, policy)
        if isinstance(route, str | Source | RouteSpec):
            spec = route if isinstance(route, RouteSpec) else parse(route)
            route = expand(spec, {"N": depth, **(bindings or {})})
        elif bindings:
            raise CompileError("loop-count", "a route has no names to bind", help="give the spec as text")
        return cls(str(as_route(route)), None, None, policy)

    @classmethod
    def of_config(cls, config: Any) -> "Settings":
        """Return the checked settings of a routed config.

        Raises:
            ConfigError: `invalid-config`: the route is no text.
            SpecError: it means no route over the config's layers.
        """
        if not isinstance(config.route, str):
            raise ConfigError(
                "invalid-config", f"`route` is text in a config; found {shown(config.route)}", help="str(route)"
            )
        depth = config.get_text_config(decoder=True).num_hidden_layers
        return cls.of(config.route, depth, config.loop_counts or None, config.route_bindings, config.kv_cache)


def _check_names(dynamic: object, bindings: object) -> None:
    """Refuse loop counts and bindings that are none, which `config.json` may say too."""
    if not isinstance(dynamic, Iterable | None):
        message = f"`dynamic` names the loop counts that are chosen at run time; found {shown(dynamic)}"
        raise CompileError("loop-count", message, help='say them, and what the model is trained with: {"r": 4}')
    if not isinstance(bindings, Mapping | None):
        message = f"`bindings` are values of the spec's names; found {shown(bindings)}"
        raise CompileError("loop-count", message, help='a dict: {"r": 4}')
    if bindings and "N" in bindings:
        message = f"`N` is the number of the model's layers, and `bindings` say {shown(bindings['N'])}"
        raise CompileError("loop-count", message, help="leave it out")


def _spec(route: object) -> "str | Source | RouteSpec":
    if isinstance(route, str | Source | RouteSpec):
        return route
    message = f"`dynamic` names counts in a spec, and a {type(route).__name__} is given"
    raise CompileError("not-a-route", message, help='give the text: reroute(model, "1 (2 3)x r 4", dynamic={"r": 4})')


def _known(recipe: Recipe, name: str) -> int:
    if name not in recipe.defaults:
        message = f"the loop count `{name}` has no default, and a model needs the one that it is trained with"
        raise CompileError("loop-count", message, help=f"say it: dynamic={{'{name}': 4}}")
    return recipe.defaults[name]


def checked_policy(kv_cache: str) -> CachePolicy:
    """Return a policy of the cache.

    Raises:
        ConfigError: `invalid-config` for anything else.
    """
    policies = get_args(CachePolicy)
    if kv_cache not in policies:
        message = f"`kv_cache` is one of {', '.join(policies)}; found {shown(kv_cache)}"
        raise ConfigError(
            "invalid-config", message, help="per_execution computes what the model computes without a cache"
        )
    return kv_cache  # type: ignore[return-value]


@functools.cache
def routed_config_class(base: Any) -> Any:
    """Return a config class with a route, by the name of the class that it is made from."""
    if issubclass(base, Routed):
        return base
    fields = {
        "route": (str, "..."),
        "loop_counts": (dict[str, int] | None, None),
        "route_bindings": (dict[str, int] | None, None),
        "kv_cache": (str, "per_execution"),
    }
    space: dict[str, Any] = {name: default for name, (_, default) in fields.items()}
    space |= {"__annotations__": {name: kind for name, (kind, _) in fields.items()}}
    space |= {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    # TRL reads `auto_map` of a config whose architecture transformers does not have, whether there is one or not
    space |= {"auto_map": MappingProxyType({})}
    space |= {"__reduce_ex__": _reduced, "_of_the_file": (*Routed._of_the_file, "auto_map")}
    return type(base.__name__, (Routed, base), space)


def _reduced(config: Any, protocol: Any) -> Any:
    return _blank, (type(config).__mro__[2],), config.__dict__


def _blank(base: Any) -> Any:
    kind = routed_config_class(base)
    return kind.__new__(kind)


def set_route(config: Any, settings: Settings) -> None:
    """Make a config one with a route, in place."""
    kind: Any = type(config)
    config.__class__ = routed_config_class(kind)
    config.route = settings.route
    config.loop_counts = None if settings.counts is None else dict(settings.counts)
    config.route_bindings = None if settings.bindings is None else dict(settings.bindings)
    config.kv_cache = settings.kv_cache


def unset_route(config: Any) -> None:
    """Undo `set_route`."""
    config.__class__ = type(config).__mro__[2]
    for name in ("route", "loop_counts", "route_bindings", "kv_cache"):
        config.__dict__.pop(name, None)
    if config.architectures:
        config.architectures = [name.removeprefix("Routed") for name in config.architectures]
