"""The compiled route of one Hugging Face model, and the weights that the route has of its own."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from depthgraph.errors import CompileError
from depthgraph.expand import route_from_text
from depthgraph.hf.find import Layers
from depthgraph.hf.parts import WEIGHTS
from depthgraph.hf.running import Run, Step
from depthgraph.hf.settings import Settings
from depthgraph.hf.slots import Slots
from depthgraph.nn.compile import compile_route
from depthgraph.nn.dynamic import DynamicModule, compile_dynamic
from depthgraph.nn.module import RoutedModule
from depthgraph.nn.weights import name_of, weighted
from depthgraph.operations import Execution
from depthgraph.route import Route


class Routing:
    """A route, compiled over the layers of a model.

    It is no module: the layers stay the model's, under the keys that they always had.

    Attributes:
        layers: where they are.
        config: of the model.
        settings: what the config says.
        options: of `compile`.
        takes_tuple: whether the model's loop takes hidden states out of tuples; known from the first forward on.
    """

    def __init__(self, layers: Layers, config: Any, settings: Settings, options: Mapping[str, Any]) -> None:
        self.layers = layers
        self.config = config
        self.settings = settings
        self.options = dict(options)
        self.takes_tuple = False
        self.has_warned = False
        self._build(layers.modules)

    def _build(self, modules: tuple[nn.Module, ...]) -> None:
        weights = _own(self.layers.owner)
        options = {**self.options, "per_execution": _position, "returns": "tensor"}
        steps = [Step(module, index) for index, module in enumerate(modules)]
        settings, N = self.settings, len(modules)
        self.body: RoutedModule | DynamicModule
        if settings.counts is None:
            route = route_from_text(settings.route, N=N)
            options["weights"] = {name: weights[name] for name in names_of_weights(route) if name in weights}
            self.body = compile_route(route, steps, **options)
        else:
            cut = options.pop("backprop_last", None)
            self.body = compile_dynamic(
                settings.route, steps, settings.counts, bindings=settings.bindings, backprop_last=cut, **options
            )  # fmt: skip
            self._take(weights)
        self._modules = modules
        self._register()
        first = self.body.at() if isinstance(self.body, DynamicModule) else self.body
        self._default = first, self._slots(first)
        self._prepared = SimpleNamespace()

    def _take(self, weights: Mapping[str, nn.Module]) -> None:
        for name in self.body._modules:
            if name in weights:
                self.body._modules[name] = weights[name]

    def _register(self) -> None:
        owner = self.layers.owner
        own = {name: module for name, module in self.body.named_children() if name != "layers"}
        self._own = own
        if own:
            holder = nn.Module()
            for name, module in own.items():
                holder.add_module(name, module)
            owner.add_module(WEIGHTS, holder.train(owner.training))
        else:
            owner._modules.pop(WEIGHTS, None)

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the loop counts that are chosen at every call."""
        return () if self.settings.counts is None else tuple(self.settings.counts)

    def at(self, counts: Mapping[str, int]) -> RoutedModule:
        """Return the compiled route at some counts, over the layers that the model has now.

        Raises:
            CompileError: `loop-count` for counts that the model does not have.
        """
        self._check_fresh()
        if isinstance(self.body, DynamicModule):
            return self.body.at(**counts)
        if counts:
            message = f"the model has no loop count {', '.join(f'`{name}`' for name in counts)}"
            raise CompileError("loop-count", message, help="its route is fixed: leave the counts out")
        return self.body

    def is_over(self, owner: nn.Module) -> bool:
        """Return whether the route is over the layers of this module."""
        return self.layers.owner is owner

    def over(self, owner: nn.Module) -> "Routing":
        """Return the same route over the layers of another module, a copy, and its weights of `mix` and `gate`."""
        layers = replace(self.layers, owner=owner, modules=layers_in(owner, self.layers.name))
        return Routing(layers, self.config, self.settings, self.options)

    def slots_at(self, counts: Mapping[str, int]) -> Slots:
        """Return the slots of the cache that the route needs at some counts."""
        return self._slots(self.at(counts))

    def _slots(self, body: RoutedModule) -> Slots:
        if "slots" not in body.meta:
            route = body.route
            body.meta["slots"] = Slots.of(route.path, route.parameter_depth, self.settings.kv_cache, str(route))
        return body.meta["slots"]  # type: ignore[no-any-return]

    def run(self, counts: Mapping[str, int]) -> Run:
        """Return a forward that is about to run.

        Raises:
            CompileError: `route-mismatch`: somebody changed what the config says since the route was compiled.
        """
        self.check_config()
        self._check_fresh()
        body, slots = self._default
        if counts and not torch.compiler.is_compiling():
            body = self.at(counts)
            slots = self._slots(body)
        elif counts:
            body, slots = self._traced_at({name: len(tuple(range(count))) for name, count in counts.items()})
        return Run(self.layers.owner, body, slots, self.takes_tuple)

    def _traced_at(self, counts: Mapping[str, int]) -> tuple[RoutedModule, Slots]:
        """Return the compiled route at some counts where a compiler traces: it reads what `_prepare` put there."""
        name = "_".join([f"{name}={count}" for name, count in counts.items()])
        self._prepare(name, **counts)
        return getattr(self._prepared, name)  # type: ignore[no-any-return]

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _prepare(self, name: str, /, **counts: int) -> bool:
        """Compile the route at some counts: it runs, untraced, when a compiler meets a count for the first time."""
        body = self.at(counts)
        setattr(self._prepared, name, (body, self._slots(body)))
        return True

    def check_config(self) -> None:
        """Refuse a config that says something else than the model runs.

        Raises:
            CompileError: `route-mismatch`.
        """
        config, said = vars(self.config), self.settings  # configs look every name up in a table first
        now = config["route"], config["kv_cache"], config["loop_counts"] or None
        if now != (said.route, said.kv_cache, said.counts):
            counts = "".join(f", {name}={count}" for name, count in (now[2] or {}).items())
            message = (
                f"the config says `{now[0]}` ({now[1]}{counts}), and the model runs `{said.route}` ({said.kv_cache})"
            )
            raise CompileError("route-mismatch", message, help="dg.hf.reroute(model, route) changes both")

    def _check_fresh(self) -> None:
        """Compile again where a layer was replaced by another module, as wrappers of data-parallel training do."""
        now = layers_in(self.layers.owner, self.layers.name)
        if len(now) == len(self._modules) and all(map(_is, now, self._modules)):
            own = self.layers.owner._modules.get(WEIGHTS)
            if own is None or all(own._modules.get(name) is module for name, module in self._own.items()):
                return
        if len(now) != len(self._modules):
            message = f"the model has {len(now)} layers now, and its route is over {len(self._modules)}"
            raise CompileError("layer-count", message, help="re-route it again")
        self._build(now)


def layers_in(owner: nn.Module, name: str) -> tuple[Any, ...]:
    """Return the layers in a module's list, which others replace: by one of wrapped layers, or by a dict of them."""
    layers = owner._modules.get(name)
    return tuple(layers._modules.values()) if isinstance(layers, nn.ModuleList | nn.ModuleDict) else ()


def _own(owner: nn.Module) -> dict[str, nn.Module]:
    """Return a module's weights of `mix` and `gate` by name, out of the wrapper that torch.compile puts around them."""
    holder = owner._modules.get(WEIGHTS)
    while holder is not None and "_orig_mod" in holder._modules:
        holder = holder._modules["_orig_mod"]
    return {} if holder is None else dict(holder.named_children())


def _position(execution: Execution) -> dict[str, int]:
    return {"position": execution.position - 1}


def _is(one: object, other: object) -> bool:
    return one is other


def names_of_weights(route: Route) -> set[str]:
    """Return the names of the modules that a route's `mix` and `gate` have."""
    return {name_of(each) for each in weighted(route)}
