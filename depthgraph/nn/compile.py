"""From a route and layers to a torch module: one node an execution, one set of weights a layer."""

import builtins
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never, final, get_args

from torch import Tensor, fx, nn

from depthgraph.errors import CompileError
from depthgraph.nn.checks import check_layers, check_shapes
from depthgraph.nn.inputs import Constants, Input, bind_constants, choose_inputs
from depthgraph.nn.module import RoutedModule
from depthgraph.nn.runtime import device_of, hidden_of, moved_to
from depthgraph.nn.signature import LayerSignature, Returns, kind_of, read_signature
from depthgraph.operations import Execution
from depthgraph.route import Route
from depthgraph.verify import route_of

if TYPE_CHECKING:
    import networkx as nx


def compile(
    route: "Route | nx.DiGraph[Any]",
    layers: Iterable[nn.Module],
    *,
    inputs: Iterable[str] | None = None,
    per_execution: Callable[[Execution], Constants | None] | None = None,
    returns: Returns = "auto",
    allow_shared: bool = False,
    example: Tensor | None = None,
) -> RoutedModule:
    """Compile a route over layers to a module that runs them in the route's order.

    The module is an `fx.GraphModule` with one `call_module` node an execution, named after it (`L2_1` is layer
    2, first visit); all executions of a layer call one submodule. Its state dict has the layers' own keys,
    `layers.0.…`, the same under every route. What it computes equals a loop over the layers to the last bit.

    `forward(hidden, **inputs)` takes the hidden state that the first execution gets, and gives that of the last
    one. The other inputs are what the layers' forwards take beside it; each goes, by name, to every execution
    of every layer that takes it. Only layers that run count.

    Where layers are on several devices when this is called, the hidden state and the inputs are moved to each
    layer's device as they reach it; so place layers first, then compile.

    Args:
        route: a route, or a graph of one in networkx, which is verified.
        layers: the N layers. They are registered, not copied, and nothing is changed in them.
        inputs: the names of the inputs, when not all of the layers' parameters are wanted, or to reach a
            `**kwargs`. A name without a default that its layers share is required.
        per_execution: returns constants for an execution, parameter → value; they stand in the generated code
            and take the place of inputs there.
        returns: whether layers return the hidden state (`tensor`) or a tuple that starts with it (`tuple`).
            `auto` reads their annotations, and looks at run time where these say nothing. An annotation is
            believed even where a hook changes what comes out: say `tuple` for hooks that make tuples.
        allow_shared: whether one module object may be several layers.
        example: a hidden state (of the meta device, if you like) to check the layers' shapes with.

    Raises:
        CompileError: `not-a-route`, `bad-layers`, `layer-count`, `shared-layer`, `layer-inputs`,
            `bad-constant`, `layer-shape` or `layer-output`.
        GraphError: the networkx graph breaks rules.

    Examples:
        >>> import torch
        >>> from depthgraph.route import Route
        >>> layers = [torch.nn.Linear(8, 8) for _ in range(2)]
        >>> model = compile(Route.of([1, 2, 1]), layers)
        >>> [(node.name, node.target) for node in model.graph.nodes if node.op == "call_module"]
        [('L1_1', 'layers.0'), ('L2_1', 'layers.1'), ('L1_2', 'layers.0')]
        >>> list(model.state_dict())
        ['layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'layers.1.bias']
    """
    route = _as_route(route)
    if returns not in get_args(Returns):
        raise ValueError(f"returns is one of {', '.join(get_args(Returns))}; found {returns!r}")
    modules = check_layers(route, layers, allow_shared)
    running = {number: modules[number - 1] for number in sorted(set(route.path))}
    signatures = {number: read_signature(number, module) for number, module in running.items()}
    constants = bind_constants(route, signatures, per_execution)
    chosen = choose_inputs(route, signatures, constants, inputs)
    if example is not None:
        check_shapes(example, running, signatures, returns)
    moves = len({device_of(module) for module in running.values()} - {None}) > 1
    writer = _Writer(signatures, chosen, returns, moves)
    return RoutedModule.build(route, nn.ModuleList(modules), writer.write(route, constants))


def _as_route(route: "Route | nx.DiGraph[Any]") -> Route:
    if isinstance(route, Route):
        return route
    import networkx as nx

    if isinstance(route, nx.Graph):
        return route_of(route)
    raise CompileError(
        "not-a-route",
        f"a {type(route).__name__} is given where a route is needed",
        help="dg.route(text) makes a route from a spec",
    )


@final
@dataclass
class _Writer:
    """Writes the fx graph of one route.

    Attributes:
        signatures: of the layers that run.
        inputs: the module's inputs beside the hidden state.
        returns: the caller's word on what layers return.
        moves: whether values are moved between devices.
    """

    signatures: Mapping[int, LayerSignature]
    inputs: tuple[Input, ...]
    returns: Returns
    moves: bool
    graph: fx.Graph = field(default_factory=fx.Graph)
    nodes: dict[str, fx.Node] = field(default_factory=dict)
    moved: dict[tuple[str, int], fx.Node] = field(default_factory=dict)

    def write(self, route: Route, constants: tuple[Constants, ...]) -> fx.Graph:
        """Write the whole graph and return it."""
        hidden = self.graph.placeholder("hidden", type_expr=Tensor)
        for given, name in zip(self.inputs, node_names([one.name for one in self.inputs]), strict=True):
            default = () if given.required else (given.default,)
            self.nodes[given.name] = self.graph.create_node("placeholder", given.name, default, name=name)
        bound = dict(zip(route.executions, constants, strict=True))
        for operation in route.operations:
            match operation:
                case Execution():
                    hidden = self._execution(operation, hidden, bound[operation])
                case _:
                    assert_never(operation)
        self.graph.output(hidden, type_expr=Tensor)
        return self.graph

    def _execution(self, execution: Execution, hidden: fx.Node, bound: Constants) -> fx.Node:
        layer, signature = execution.layer, self.signatures[execution.layer]
        target = f"layers.{layer - 1}"
        names = [given.name for given in self.inputs if given.reaches(signature) and given.name not in bound]
        given = {name: self._input(name, layer) for name in names}
        if self.moves:
            hidden = self._call(moved_to, self._layer(layer), hidden)
        node = self.graph.create_node("call_module", target, (hidden,), {**given, **bound}, name=execution.name)
        returns = kind_of(signature, self.returns)
        node.meta.update(execution=execution, returns=returns)
        match returns:
            case "tensor":
                return node
            case "tuple":
                return self.graph.call_function(operator.getitem, (node, 0))
            case "auto":
                return self._call(hidden_of, node, signature.title)

    def _input(self, name: str, layer: int) -> fx.Node:
        """Return the node of an input, on the layer's device: all executions of a layer share the move."""
        if not self.moves:
            return self.nodes[name]
        if (name, layer) not in self.moved:
            self.moved[name, layer] = self._call(moved_to, self._layer(layer), self.nodes[name])
        return self.moved[name, layer]

    def _layer(self, layer: int) -> fx.Node:
        return self.graph.create_node("get_attr", f"layers.{layer - 1}", name=f"layer_{layer}")

    def _call(self, function: Callable[..., Any], *arguments: fx.Node | str) -> fx.Node:
        node = self.graph.call_function(function, arguments)
        node.meta["is_wrapped"] = True  # fx then keeps the call when the generated code is traced again
        return node


def node_names(inputs: list[str]) -> list[str]:
    """Return the names of the inputs' nodes: their own, or new ones where fx or an execution needs those.

    Generated code reads every input into the variable of its node before anything runs. So no node may have the
    name of another input, which would be overwritten before it is read; and a name that fx would change (of a
    builtin, or not ASCII) could be changed into one.

    Examples:
        >>> node_names(["mask", "L1_1", "L1_1_input", "len"])
        ['mask', 'L1_1_input_', 'L1_1_input', 'len_input']
    """
    taken = set(inputs)
    names = []
    for name in inputs:
        if not name.isascii() or hasattr(builtins, name) or re.fullmatch(r"L\d+_\d+", name):
            plain = re.sub(r"\W", "_", name, flags=re.ASCII)
            names.append(next(one for one in _spellings(plain) if one not in taken))
            taken.add(names[-1])
        else:
            names.append(name)
    return names


def _spellings(name: str) -> Iterator[str]:
    return (f"{name}_input{'_' * count}" for count in itertools.count())
