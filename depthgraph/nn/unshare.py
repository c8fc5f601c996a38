"""Copies of a compiled model in which the weights of single executions are the layers' own."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch
from torch import fx, nn

from depthgraph.errors import CompileError
from depthgraph.nn.capture import find_routed
from depthgraph.nn.conditioning_parts import CONDITIONING, OWNER, OwnExecution, tree_of
from depthgraph.nn.module import Layers, RoutedModule
from depthgraph.nn.runtime import moved_to
from depthgraph.operations import Execution, Operation, rebuilt
from depthgraph.route import Route

M = TypeVar("M", bound=nn.Module)


def unshare(model: M) -> M:
    """Return a copy of a model in which every execution has a layer of its own: N becomes E.

    Its route runs layers 1..E once each, with the same data flow and exits. What an execution ran with in the place of
    its layer's weights (`Lora`, `Norm`) are the weights of its layer now; step embeddings and scales are carried over,
    under the new executions. Weights of `mix` and `gate` stay shared between their places. The copy computes what the
    model computes, to the last bit, and nothing in it is shared with the model.

    A weight that no execution could train (a frozen base) does not require a gradient in the copy; one with an update
    that could be trained does, as a whole.

    Args:
        model: a compiled route, or a module that contains one; then the whole module is copied.

    Raises:
        CompileError: `no-compiled-route`; `cannot-unshare` when somebody put other calls of layers into the graph.

    Examples:
        >>> from depthgraph.nn.compile import compile
        >>> model = compile(Route.of([1, 2, 1]), [nn.Linear(8, 8), nn.Linear(8, 8)])
        >>> unshared, hidden = unshare(model), torch.ones(2, 8)
        >>> print(unshared.route, torch.equal(unshared(hidden), model(hidden)))
        1..3 True
    """
    routed = _routed(model)
    places = {each: Execution(each.position, each.position, 1, each.iterations, each.span) for each in _run(routed)}
    route = Route.of_operations(_renumbered(routed.route, places), len(places))
    layers = [_own_layer(routed, each) for each in places]
    return _replaced(model, routed, _Rewriter(routed, route, layers, places).write())


def merge(model: M) -> M:
    """Return a copy of a model with the weights of single executions (`Lora`, `Norm`) merged into its layers.

    That is possible where each of these layers runs once. Scales and step embeddings stay what they are.

    Args:
        model: a compiled route, or a module that contains one; then the whole module is copied.

    Raises:
        CompileError: `cannot-merge` when a layer with such weights runs more than once: its visits compute with
            different weights, and one weight cannot be all of them. Otherwise as `unshare`.
    """
    routed = _routed(model)
    exchanging = {each.layer: each for each in _run(routed) if _changes(_part(routed, each))}
    for layer, execution in exchanging.items():
        visits = routed.route.reuse_map[layer - 1]
        if visits > 1:
            raise CompileError(
                "cannot-merge",
                f"layer {layer} runs {visits} times, and {execution.name} runs with weights that its other visits "
                "do not have: one weight cannot be all of them",
                help="dg.nn.unshare(model) gives a copy in which every execution has a layer of its own",
            )
    layers = list(copy.deepcopy(routed.layers))
    for execution in _run(routed):
        original, twin = (each[execution.layer - 1] for each in (routed.layers, layers))
        _take_over(_part(routed, execution), original, twin)
    return _replaced(
        model, routed, _Rewriter(routed, routed.route, layers, {each: each for each in _run(routed)}).write()
    )


def _routed(model: nn.Module) -> RoutedModule:
    """Return the compiled route that is copied: the model itself, whatever its layers are, or the one in it."""
    return model if isinstance(model, RoutedModule) else find_routed(model)


def _run(routed: RoutedModule) -> tuple[Execution, ...]:
    return routed.route.executions


def _renumbered(route: Route, places: dict[Execution, Execution]) -> tuple[Operation, ...]:
    return rebuilt(route.operations, lambda each: places[each] if isinstance(each, Execution) else each)


def _replaced(model: M, routed: RoutedModule, twin: RoutedModule) -> M:
    """Return a copy of a model with another compiled route in the place of its own."""
    return copy.deepcopy(model, {id(routed): twin})


def _part(routed: RoutedModule, execution: Execution) -> OwnExecution | None:
    """Return what an execution runs its layer with; None where the layer runs as it is."""
    tree = routed._modules.get(CONDITIONING)
    part = None if tree is None else tree._modules.get(f"L{execution.layer}_{execution.visit}")
    return part if isinstance(part, OwnExecution) and part.exchange is not None else None


def _changes(part: OwnExecution | None) -> bool:
    return part is not None and part.exchange is not None and bool(part.exchange.adapted or part.exchange.replaced)


def _own_layer(routed: RoutedModule, execution: Execution) -> nn.Module:
    original = routed.layers[execution.layer - 1]
    twin = copy.deepcopy(original)
    _take_over(_part(routed, execution), original, twin)
    return twin


def _take_over(part: OwnExecution | None, original: nn.Module, twin: nn.Module) -> None:
    """Write the weights with which an execution ran its layer into a copy of the layer."""
    if part is None:
        return
    with torch.enable_grad():
        weights = part.weights(original)
    with torch.no_grad():
        for name, weight in weights.items():
            twin.get_parameter(name).requires_grad_(weight.requires_grad).copy_(weight)


@dataclass
class _Rewriter:
    """Writes the graph of a compiled route anew, for layers whose weights are their own.

    Attributes:
        routed: the module.
        route: that of the new one.
        layers: the new layers.
        places: execution → what it is in the new route.
        copies: for copying what is not a layer; all of it once.
    """

    routed: RoutedModule
    route: Route
    layers: list[nn.Module]
    places: dict[Execution, Execution]
    graph: fx.Graph = field(default_factory=fx.Graph)
    nodes: dict[fx.Node, fx.Node] = field(default_factory=dict)
    moved: dict[tuple[fx.Node, int], fx.Node] = field(default_factory=dict)
    parts: dict[str, nn.Module] = field(default_factory=dict)
    copies: dict[int, Any] = field(default_factory=dict)

    def write(self) -> RoutedModule:
        """Return the new module."""
        self.graph.set_codegen(copy.deepcopy(self.routed.graph._codegen))
        for node in self.routed.graph.nodes:
            if not _belongs_to_layer(node):
                self.nodes[node] = self._copied(node)
        others = {
            name: copy.deepcopy(module, self.copies)
            for name, module in self.routed.named_children()
            if name not in ("layers", CONDITIONING)
        }
        if self.parts:
            others[CONDITIONING] = tree_of(self.parts, {})
        return RoutedModule.build(self.route, Layers(self.layers), self.graph, others)

    def _copied(self, node: fx.Node) -> fx.Node:
        execution = node.meta.get("execution", node.meta.get("conditions"))
        if execution is None:
            if node.op in ("call_module", "get_attr") and str(node.target).startswith("layers."):
                raise CompileError(
                    "cannot-unshare",
                    f"node {node.name} uses {node.target} and is no execution of the route",
                    help="unshare the model before its graph is edited",
                )
            return self.graph.node_copy(node, lambda each: self._argument(each, None))
        place = self.places[execution]
        args, kwargs = (fx.map_arg(each, self._arguments_of(place)) for each in self._given(node))
        twin = self.graph.create_node("call_module", self._target(node, place), args, kwargs, self._name(node, place))
        key = "execution" if "execution" in node.meta else "conditions"
        twin.meta.update(copy.copy(node.meta))
        twin.meta[key] = place
        return twin

    def _given(self, node: fx.Node) -> tuple[Any, Any]:
        """Return the arguments of a call without the layer, which is the first one where weights are exchanged."""
        has_layer = "execution" in node.meta and str(node.target).startswith(CONDITIONING)
        return node.args[1:] if has_layer else node.args, node.kwargs

    def _arguments_of(self, place: Execution) -> Callable[[fx.Node], fx.Node]:
        return lambda node: self._argument(node, place)

    def _argument(self, node: fx.Node, place: Execution | None) -> fx.Node:
        """Return the new node for an argument; what is moved to a layer's device is moved to that of the new layer."""
        if node in self.nodes:
            return self.nodes[node]
        if place is None or node.target is not moved_to:
            raise CompileError("cannot-unshare", f"node {node.name} is used outside an execution of its layer")
        key = (node, place.layer)
        if key not in self.moved:
            layer = self.graph.create_node("get_attr", f"layers.{place.layer - 1}", name=f"layer_{place.layer}")
            value = self._argument(cast(fx.Node, node.args[1]), place)
            self.moved[key] = self.graph.call_function(moved_to, (layer, value))
            self.moved[key].meta["is_wrapped"] = True
        return self.moved[key]

    def _name(self, node: fx.Node, place: Execution) -> str:
        return place.name if "execution" in node.meta else OWNER.sub(f"L{place.layer}_{place.visit}", node.name)

    def _target(self, node: fx.Node, place: Execution) -> str:
        """Return the name of the submodule that is called, and copy it if it belongs to executions."""
        if "execution" in node.meta:
            return f"layers.{place.layer - 1}"
        _, owner, *rest = str(node.target).split(".")
        if OWNER.fullmatch(owner):
            owner = f"L{place.layer}_{place.visit}"
        path = ".".join((owner, *rest))
        if path not in self.parts:
            self.parts[path] = copy.deepcopy(self.routed.get_submodule(str(node.target)), self.copies)
        return f"{CONDITIONING}.{path}"


def _belongs_to_layer(node: fx.Node) -> bool:
    """Return whether a node names a layer for the call of an execution, or moves a value to its device."""
    if node.op == "get_attr":
        return str(node.target).startswith("layers.") and all(
            user.target is moved_to or "execution" in user.meta for user in node.users
        )
    layer = node.args[0] if node.target is moved_to else None
    return isinstance(layer, fx.Node) and _belongs_to_layer(layer)
