"""The classes of models with a route, made from the models' own classes, under the same names.

Much of the ecosystem asks a model for the name of its class: which loss it has, what its outputs are, how it is
wrapped. So a `LlamaForCausalLM` with a route is a subclass of that name, and whoever asks gets the answer of the
original.
"""

import functools
import warnings
from collections.abc import Mapping
from typing import Any

from torch import nn
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from depthgraph.hf.find import Layers, find_layers
from depthgraph.hf.routing import WEIGHTS, Routing
from depthgraph.hf.running import CACHE_NAMES, TakesTupleError, layers_or_stand_ins, run_route
from depthgraph.hf.settings import Settings, routed_config_class, set_route, unset_route
from depthgraph.hf.slots import give_slots
from depthgraph.nn.weights import Gated, Mixer
from depthgraph.route import Route


class RoutedPart:
    """What all classes with a route have: how they are pickled, and how weights of a route start."""

    _base: Any
    _list: str | None
    _is_top: bool

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, Mixer | Gated):
            module.reset_parameters()
        else:
            super()._init_weights(module)  # type: ignore[misc]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _blank, (self._base, self._list, self._is_top), self.__dict__


class RoutedOwner(RoutedPart):
    """The module with the list of layers: its forward runs them in the order of the route."""

    _routing: Routing

    def _run(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        routing = self._routing
        counts = {name: named.pop(name) for name in routing.counts if name in named}
        if counts and not self.training:  # type: ignore[attr-defined]
            _warn_once(routing, counts)
        run = routing.run(counts)
        chosen = named.get("output_hidden_states")
        if isinstance(chosen, int | list | tuple) and not isinstance(chosen, bool):
            named["output_hidden_states"] = _from_the_front(chosen, run.body.route.execution_depth + 1)
        forward = functools.partial(self._base.forward, self)
        try:
            return run_route(run, forward, args, named)
        except TakesTupleError:
            routing.takes_tuple = True
            return run_route(routing.run(counts), forward, args, named)

    def extra_repr(self) -> str:
        """Say the route."""
        return f"route={self._routing.settings.route}"


class RoutedTop(RoutedPart):
    """The model that a user holds: it is built with its route, and generates with it."""

    def __init__(self, config: Any, *inputs: Any, **named: Any) -> None:
        """Build the model, and put the config's route over its layers.

        Raises:
            SpecError: the config's route means none over these layers; before anything is built or loaded.
        """
        settings = Settings.of_config(config)
        super().__init__(config, *inputs, **named)  # type: ignore[call-arg]
        install(self, settings, {})

    @property
    def routing(self) -> Routing:
        """The compiled route."""
        return routing_of(self)  # type: ignore[no-any-return, arg-type]

    @property
    def route(self) -> Route:
        """The route that runs; with loop counts at run time, that of the counts that it was trained with."""
        return self.routing.at({}).route

    def _validate_model_kwargs(self, model_kwargs: dict[str, Any]) -> None:
        counts = self.routing.counts
        super()._validate_model_kwargs(  # type: ignore[misc]
            {name: value for name, value in model_kwargs.items() if name not in counts}
        )

    def _prepare_cache_for_generation(self, generation_config: Any, model_kwargs: dict[str, Any], *rest: Any) -> Any:
        found = super()._prepare_cache_for_generation(generation_config, model_kwargs, *rest)  # type: ignore[misc]
        routing = self.routing
        route = routing.at({name: model_kwargs[name] for name in routing.counts if name in model_kwargs}).route
        for name in CACHE_NAMES & model_kwargs.keys():
            if isinstance(model_kwargs[name], Cache):
                give_slots(model_kwargs[name], routing.slots(route))
        return found


def _from_the_front(chosen: Any, count: int) -> list[int]:
    """Return indexes of hidden states from the front; a route has one more of them than executions."""
    indexes = [chosen] if isinstance(chosen, int) else list(chosen)
    return [index + count if -count <= index < 0 else index for index in indexes]


def _warn_once(routing: Routing, counts: Mapping[str, int]) -> None:
    trained = routing.settings.counts or {}
    other = {name: count for name, count in counts.items() if count != trained[name]}
    if other and not routing.has_warned:
        routing.has_warned = True
        said = ", ".join(f"{name}={count}, and it was trained with {trained[name]}" for name, count in other.items())
        warnings.warn(f"the model runs with {said}; this is said once", UserWarning, stacklevel=2)


@functools.cache
def routed_class(base: Any, list_name: str | None, is_top: bool) -> Any:
    """Return a model class with a route.

    Args:
        base: the model's own class.
        list_name: the name of its list of layers, if it has it itself.
        is_top: whether it is what the user holds.
    """
    parts: list[type] = [RoutedTop] if is_top else []
    space: dict[str, Any] = {"_base": base, "_list": list_name, "_is_top": is_top}
    space |= {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    if is_top and base.config_class is not None:
        space["config_class"] = routed_config_class(base.config_class)
    if list_name is not None:
        parts.append(RoutedOwner)
        space |= {list_name: _list_property(list_name), "forward": _forward_of(base)}
    return type(base.__name__, (*parts, base), space)


def _list_property(name: str) -> property:
    def layers(self: nn.Module) -> Any:
        return layers_or_stand_ins(self, name)

    return property(layers, doc="The N layers; during a forward, their stand-ins.")


def _forward_of(base: Any) -> Any:
    @functools.wraps(base.forward)
    def forward(self: RoutedOwner, *args: Any, **named: Any) -> Any:
        return self._run(args, named)

    return forward


def _blank(base: Any, list_name: str | None, is_top: bool) -> Any:
    kind = routed_class(base, list_name, is_top)
    return kind.__new__(kind)


def base_class(module: nn.Module) -> Any:
    """Return the class that a module has without a route."""
    return module._base if isinstance(module, RoutedPart) else type(module)


def install(model: PreTrainedModel, settings: Settings, options: Mapping[str, Any]) -> None:
    """Put a compiled route over a model's layers, in place; nothing is changed if that fails.

    Raises:
        CompileError: `unroutable-model`, or whatever `compile` raises.
    """
    before = routing_of(model, None)
    layers = find_layers(model) if before is None else _as_now(before.layers)
    config = model.config
    width = {"width": config.get_text_config(decoder=True).hidden_size}
    routing = Routing(layers, config, settings, {**width, **options})
    owner: Any = layers.owner
    set_route(config, settings)
    if owner is not model:
        model.__class__ = routed_class(base_class(model), None, True)
    owner.__class__ = routed_class(base_class(owner), layers.name, owner is model)
    owner.__dict__["_routing"] = routing


def _as_now(layers: Layers) -> Layers:
    modules = tuple(layers.owner._modules[layers.name].children())  # type: ignore[union-attr]
    return Layers(layers.owner, layers.path, layers.name, modules)


def uninstall(model: PreTrainedModel) -> None:
    """Undo `install`."""
    owner: Any = routing_of(model).layers.owner
    owner._modules.pop(WEIGHTS, None)
    del owner.__dict__["_routing"]
    for module in (owner, model):
        module.__class__ = base_class(module)
    unset_route(model.config)


def routing_of(model: nn.Module, *default: Any) -> Any:
    """Return the compiled route of a model, or of the one inside a wrapper; the default where there is none."""
    found = [part._routing for part in model.modules() if isinstance(part, RoutedOwner) and "_routing" in vars(part)]
    if found:
        return found[0]
    if default:
        return default[0]
    raise LookupError("a model without a route")
