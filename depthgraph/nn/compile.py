"""From a route and layers to a torch module: one node an execution, one set of weights a layer."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_args

from torch import Tensor, nn

from depthgraph.errors import CompileError
from depthgraph.nn.checks import check_layers, check_shapes
from depthgraph.nn.conditioning import Option
from depthgraph.nn.conditioning_build import Conditioning, condition
from depthgraph.nn.inputs import Constants, bind_constants, choose_inputs
from depthgraph.nn.module import RoutedModule
from depthgraph.nn.runtime import device_of
from depthgraph.nn.signature import Returns, read_signature
from depthgraph.nn.weights import weights_of
from depthgraph.nn.writer import Writer
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
    width: int | None = None,
    weights: Mapping[str, nn.Module] | None = None,
    conditioning: Conditioning | Iterable[Option] | None = None,
    allow_shared: bool = False,
    example: Tensor | None = None,
) -> RoutedModule:
    """Compile a route over layers to a module that runs them in the route's order.

    The module is an `fx.GraphModule` with one `call_module` node an execution, named after it (`L2_1` is layer
    2, first visit); all executions of a layer call one submodule. Its state dict has the layers' own keys,
    `layers.0.…`, the same under every route, and `mix_1.weight`, `gate_1.weight` … where the route has them. What it
    computes equals plain Python over the layers to the last bit.

    `forward(hidden, **inputs)` takes the hidden state that the route starts with, and gives the one that it ends with.
    Of a route with exits it gives a pair: that hidden state, and a tuple of those at the exits.

    The other inputs are what the layers' forwards take beside the hidden state; each goes, by name, to every execution
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
        width: d, the last dimension of the hidden state; new weights of `mix` and `gate` and step embeddings need it,
            unless `example` says it.
        weights: existing modules for `mix` and `gate`, under their names in this module: `{"mix_1": adapter}`. Each is
            called with h and the register.
        conditioning: what single executions have of their own: `StepEmbedding`, `Norm`, `Scale`, `Lora` of
            `depthgraph.nn`; or a `Conditioning`, which several routes over the same layers share.
        allow_shared: whether one module object may be several layers.
        example: a hidden state (of the meta device, if you like) to check the layers' shapes with.

    Raises:
        CompileError: `not-a-route`, `bad-layers`, `layer-count`, `shared-layer`, `layer-inputs`,
            `bad-constant`, `layer-shape`, `layer-output`, `unknown-width` or `unknown-weights`; of conditioning those
            that `Conditioning.bind` names.
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
    width = example.shape[-1] if width is None and example is not None and example.ndim else width
    own = weights_of(route, running.values(), width, weights)
    moves = len({device_of(module) for module in (*running.values(), *own.values())} - {None}) > 1
    conditioned = condition(route, running, conditioning, width)
    graph = Writer(signatures, chosen, returns, moves, conditioned.calls).write(route, constants)
    return RoutedModule.build(route, nn.ModuleList(modules), graph, {**own, **conditioned.modules})


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
