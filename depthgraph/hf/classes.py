"""The classes of models with a route, made from the models' own classes, under the same names.

Much of the ecosystem asks a model for the name of its class: which loss it has, what its outputs are, how it is
wrapped. So a `LlamaForCausalLM` with a route is a subclass of that name, and whoever asks gets the answer of the
original.
"""

import copy
import functools
import types
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from depthgraph.errors import shown
from depthgraph.hf.config_class import Routed
from depthgraph.hf.count_names import check_count_names
from depthgraph.hf.find import Layers, find_layers, unroutable
from depthgraph.hf.parts import WEIGHTS, OwnerPart, Part, TopPart, forward_of, list_property, routing_of, top_forward_of
from depthgraph.hf.routing import Routing
from depthgraph.hf.settings import Settings, routed_config_class, set_route, unset_route
from depthgraph.route import Route

#: Where a module's bound forward may stand on the object itself.
FORWARDS = ("forward", "_old_forward")


class RoutedPart(Part):
    """What all classes with a route have: how they are pickled."""

    _base: Any
    _list: str | None
    _is_top: bool

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _blank, (self._base, self._list, self._is_top), self.__dict__


class RoutedOwner(RoutedPart, OwnerPart):
    """The module with the list of layers, whose route is compiled."""

    _routing: Routing

    def _run(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        counts = {name: named[name] for name in self._routing.counts if name in named}
        if counts and not self.training:  # type: ignore[attr-defined]
            _warn_once(self._routing, counts)
        return super()._run(args, named)

    def extra_repr(self) -> str:
        """Say the route."""
        return f"route={self._routing.settings.route}"


class RoutedTop(RoutedPart, TopPart):
    """The model that a user holds: it is built with its route."""

    def __init__(self, config: Any, *inputs: Any, **named: Any) -> None:
        """Build the model, and put the config's route over its layers.

        Raises:
            SpecError: the config's route means none over these layers; before anything is built or loaded.
        """
        settings = Settings.of_config(config)
        super().__init__(config, *inputs, **named)  # type: ignore[call-arg]
        install(self, settings, {})

    def save_pretrained(self, *args: Any, **named: Any) -> Any:
        """Save the model, unless its config says another route than it runs.

        Raises:
            CompileError: `route-mismatch`.
        """
        self.routing.check_config()
        return super().save_pretrained(*args, **named)  # type: ignore[misc]

    @property
    def route(self) -> Route:
        """The route that runs; with loop counts at run time, that of the counts that it was trained with."""
        routing: Routing = self.routing
        return routing.at({}).route


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
    if list_name is None:
        space["forward"] = top_forward_of(base)
    else:
        parts.append(RoutedOwner)
        space |= {list_name: list_property(list_name), "forward": forward_of(base)}
    return type(base.__name__, (*parts, base), space)


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
    config, copies = _config_of_its_own(model)
    width = {"width": config.get_text_config(decoder=True).hidden_size}
    owner: Any = layers.owner
    check_forward(model, owner)
    if settings.counts:
        check_count_names(settings.counts, base_class(model).forward, base_class(owner).forward)
    with torch.inference_mode(False):  # weights of the route are to be trained, wherever this is called
        routing = Routing(layers, config, settings, {**width, **options})
    for module in model.modules():
        vars(module).update({name: copies[id(value)] for name, value in vars(module).items() if id(value) in copies})
    set_route(config, settings)
    if owner is not model:
        _change_class(model, routed_class(base_class(model), None, True))
    _change_class(owner, routed_class(base_class(owner), layers.name, owner is model))
    owner.__dict__["_routing"] = routing


def _config_of_its_own(model: PreTrainedModel) -> tuple[Any, dict[int, Any]]:
    """Return the config that a model is to have: a copy, because other models may have been built of the same object.

    They run without the route, and would be saved with it.

    Returns:
        the config; and the copies of it and of the configs in it, by the id of what they are copies of.
    """
    if isinstance(model.config, Routed) or model.base_model is model:  # a base model may be a part of another
        return model.config, {}
    made: dict[int, Any] = {}
    config = copy.deepcopy(model.config, made)
    return config, {key: value for key, value in made.items() if isinstance(value, PreTrainedConfig)}


def check_forward(model: nn.Module, owner: nn.Module) -> None:
    """Refuse an owner whose forward was replaced on the object, past which no class could get.

    accelerate does that too, and keeps what it replaced as `_old_forward`: that one is bound anew.

    Raises:
        CompileError: `unroutable-model`.
    """
    if "forward" in vars(owner) and not any(_is_own(owner, name, type(owner).forward) for name in FORWARDS):
        reason = f"the forward of its {type(owner).__name__} was replaced by {shown(vars(owner)['forward'])}"
        raise unroutable(model, reason, "re-route it before it is wrapped")


def _change_class(module: Any, kind: Any) -> None:
    """Give a module another class, and bind its forward anew where accelerate keeps a bound one."""
    before = type(module).forward
    module.__class__ = kind
    for name in FORWARDS:
        if _is_own(module, name, before):
            module.__dict__[name] = types.MethodType(kind.forward, module)


def _is_own(module: nn.Module, name: str, forward: Any) -> bool:
    bound = vars(module).get(name)
    return isinstance(bound, types.MethodType) and bound.__self__ is module and bound.__func__ is forward


def _as_now(layers: Layers) -> Layers:
    modules = tuple(layers.owner._modules[layers.name].children())  # type: ignore[union-attr]
    return Layers(layers.owner, layers.path, layers.name, modules)


def uninstall(model: PreTrainedModel) -> None:
    """Undo `install`."""
    owner: Any = routing_of(model).layers.owner
    owner._modules.pop(WEIGHTS, None)
    del owner.__dict__["_routing"]
    for module in (owner, model):
        _change_class(module, base_class(module))
    unset_route(model.config)
