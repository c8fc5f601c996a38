"""The module that a route compiles to, and how it is copied and stored."""

import copy
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from typing import Any, cast

from torch import fx, nn

from depthgraph.nn.conditioning_parts import OwnExecution
from depthgraph.route import Route

#: What `torch.compile(module)` puts before the names of a module's tensors.
COMPILED_PREFIX = "_orig_mod."

#: The entries of `node.meta` that are stored: what this package put there.
STORED_META = ("execution", "operation", "conditions", "returns", "is_wrapped")


class Layers(nn.ModuleList):
    """The layers of a compiled route: a list that is also read as a dict, as torchtitan reads a model's layers.

    Examples:
        >>> layers = Layers([nn.Linear(2, 2), nn.Tanh()])
        >>> [(name, type(layer).__name__) for name, layer in layers.items()]
        [('0', 'Linear'), ('1', 'Tanh')]
    """

    def keys(self) -> KeysView[str]:
        """Return the names of the layers in the state dict."""
        return self._modules.keys()

    def values(self) -> ValuesView[nn.Module]:
        """Return the layers."""
        return cast(ValuesView[nn.Module], self._modules.values())

    def items(self) -> ItemsView[str, nn.Module]:
        """Return the layers with their names."""
        return cast(ItemsView[str, nn.Module], self._modules.items())


class RoutedModule(fx.GraphModule):
    """A graph module that runs layers in the order of a route.

    A plain `fx.GraphModule` keeps only the submodules that it calls, forgets node names and metadata when it is
    pickled, and loses its hooks when it is copied. This one keeps all of them: its state dict has the same keys
    under every route over the same layers, and a copy is the same model.

    Attributes:
        layers: all N layers, those that the route drops too. Layer k is `layers[k - 1]`.
    """

    layers: Layers

    @classmethod
    def build(
        cls, route: Route, layers: Layers, graph: fx.Graph, weights: Mapping[str, nn.Module] | None = None
    ) -> "RoutedModule":
        """Put a graph whose `call_module` targets are `layers.0` … and the names of weights over the modules."""
        weights = weights or {}
        root = nn.Module()
        root.layers = layers
        for name, module in weights.items():
            root.add_module(name, module)
        root.training = any(layer.training for layer in layers)
        module = cls(root, graph, cls.__name__)
        for name, part in {"layers": layers, **weights}.items():
            module._modules.pop(name, None)  # fx copied only what the graph calls, in that order, into plain Modules
            module.add_module(name, part)
        layers.training = root.training
        module.meta["route"] = route
        return module

    @property
    def route(self) -> Route:
        """The route that this module was compiled from."""
        return cast(Route, self.meta["route"])

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that the graph gives no gradient.

        They are those of the dropped layers; of all whose results reach the output, or an exit, through a `stopgrad`
        alone; and of conditioning: a frozen base, norms that every visit has copies of, and what belongs to visits of
        other routes. `DistributedDataParallel` waits for a gradient from every
        parameter that requires it, so freeze them (`requires_grad_(False)`) before wrapping, or ask it to find unused
        parameters.
        """
        learning = _learning(self.graph)
        used = {id(parameter) for node in learning for parameter in self._read_by(node)}
        return tuple(name for name, parameter in self.named_parameters() if id(parameter) not in used)

    def _read_by(self, node: fx.Node) -> Iterator[nn.Parameter]:
        """Yield the parameters that get a gradient from a node."""
        if node.op != "call_module":
            return
        module = self.get_submodule(str(node.target))
        yield from module.parameters()
        if isinstance(module, OwnExecution):
            yield from module.reads(self.layers[node.meta["execution"].layer - 1])

    def forward(self, *args: Any, **named: Any) -> Any:
        """Run the graph of a module that has no code yet.

        fx writes a module's code into the class of that one module when it is built. Those who copy a module attribute
        by attribute (accelerate's `compile_regions`) make one that was never built.
        """
        self.recompile()
        return self.forward(*args, **named)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the graph as rows of plain data: a graph of nodes is too deep to pickle."""
        return _state(self) | {"_graph": record_graph(self.graph)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        graph = state.pop("_graph")
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.graph = graph if isinstance(graph, fx.Graph) else replay_graph(graph)

    def __reduce__(self) -> tuple[Any, ...]:
        return _blank, _identity(self), self.__getstate__()

    def __deepcopy__(self, memo: dict[int, Any]) -> "RoutedModule":
        """Copy everything, hooks and attributes too; the frozen route is shared."""
        twin = _blank(*_identity(self))
        memo[id(self)] = twin
        memo[id(self.route)] = self.route
        twin.__setstate__({name: copy.deepcopy(value, memo) for name, value in _state(self).items()})
        for hook in self._deepcopy_hooks:
            hook(twin)
        return twin

    def __copy__(self) -> "RoutedModule":
        """Copy the module and its graph; layers and parameters are the same objects."""
        twin = _blank(*_identity(self))
        state = _state(self).items()
        shallow = {name: copy.copy(value) if isinstance(value, dict) else value for name, value in state}
        twin.__setstate__(shallow | {"_graph": copy.deepcopy(self.graph)})
        return twin

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        match_compiled_keys(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _learning(graph: fx.Graph) -> Iterator[fx.Node]:
    """Yield the nodes that a gradient of the output comes back to: not those that lead to a `detach` alone."""
    reached: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in reached:
            yield node
            if (node.op, node.target) != ("call_method", "detach"):
                reached.update(node.all_input_nodes)


def match_compiled_keys(module: nn.Module, state_dict: dict[str, Any], prefix: str) -> None:
    """Rename keys that `torch.compile`'s wrapper prefixed to the module's own, in a state dict being loaded.

    `torch.compile(model)` wraps, and the wrapper's state dict says `_orig_mod.layers.0…`; `model.compile()`
    does not. Both load into a plain model. torch hands `_load_from_state_dict` a copy of its own, so nothing of
    the caller's changes.
    """
    modules = (f"{name}." for name, _ in module.named_modules())
    if not any(COMPILED_PREFIX in name for name in (*state_dict, *modules)):
        return
    own = {name.replace(COMPILED_PREFIX, ""): name for name in module.state_dict()}
    for key in [key for key in state_dict if key.startswith(prefix)]:
        name = key.removeprefix(prefix)
        wanted = own.get(name.replace(COMPILED_PREFIX, ""), name)
        if wanted != name:
            state_dict[prefix + wanted] = state_dict.pop(key)


@dataclass(frozen=True, slots=True)
class _Reference:
    """A node, in stored arguments: its index among the rows."""

    index: int


@dataclass(frozen=True, slots=True)
class _Row:
    """A node as plain data."""

    op: str
    name: str
    target: Any
    args: Any
    kwargs: Any
    type: Any
    meta: dict[str, Any]


def record_graph(graph: fx.Graph) -> tuple[Any, tuple[_Row, ...]]:
    """Return a graph as a flat tuple of rows, and its code generator; `replay_graph` is the inverse.

    fx itself stores the generated code and traces it again: that loses names, metadata and the graph's edits
    that were not recompiled, and it traces into functions that look at values.
    """
    references = {node: _Reference(index) for index, node in enumerate(graph.nodes)}
    rows = tuple(_row(node, references.__getitem__) for node in graph.nodes)
    return graph._codegen, rows


def _row(node: fx.Node, reference: Callable[[fx.Node], _Reference]) -> _Row:
    as_reference = cast(Callable[[fx.Node], Any], reference)
    args = fx.map_arg(node.args, as_reference)
    kwargs = fx.map_arg(node.kwargs, as_reference)
    meta = {name: node.meta[name] for name in STORED_META if name in node.meta}
    return _Row(node.op, node.name, node.target, args, kwargs, node.type, meta)


def replay_graph(record: tuple[Any, tuple[_Row, ...]]) -> fx.Graph:
    """Build the graph that `record_graph` recorded, with the same names and our metadata."""
    codegen, rows = record
    graph = fx.Graph()
    graph.set_codegen(codegen)
    nodes: list[fx.Node] = []

    def resolve(value: Any) -> Any:
        return nodes[value.index] if isinstance(value, _Reference) else value

    for row in rows:
        args, kwargs = (fx.node.map_aggregate(part, resolve) for part in (row.args, row.kwargs))
        node = graph.create_node(
            row.op, row.target, cast(Any, args), cast(Any, kwargs), name=row.name, type_expr=row.type
        )
        node.meta.update(row.meta)
        nodes.append(node)
    return graph


def _state(module: nn.Module) -> dict[str, Any]:
    """Return the module's attributes without its compiled call, which belongs to the process."""
    return cast(dict[str, Any], nn.Module.__getstate__(module))  # type: ignore[no-untyped-call]


def _identity(module: RoutedModule) -> tuple[type[RoutedModule], str]:
    """Return the class that the user sees (fx puts a private one for each instance below it), and its name."""
    return type(module).__mro__[1], type(module).__name__


def _blank(kind: type[RoutedModule], name: str) -> RoutedModule:
    """Return an instance with no state, to be filled by `__setstate__`."""
    module = kind.__new__(kind)
    type(module).__name__ = name
    return module
