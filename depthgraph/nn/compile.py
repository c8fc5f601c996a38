"""From a route and layers to a torch module: one node an execution, one set of weights a layer."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast, get_args, overload

from torch import Tensor, nn

from depthgraph.errors import CompileError
from depthgraph.nn.checks import check_layers, check_shapes, known_width
from depthgraph.nn.conditioning import Option
from depthgraph.nn.conditioning_build import Conditioning, condition
from depthgraph.nn.inputs import Constants, bind_constants, choose_inputs
from depthgraph.nn.module import Layers, RoutedModule
from depthgraph.nn.runtime import device_of
from depthgraph.nn.signature import Returns, read_signature
from depthgraph.nn.weights import weights_of
from depthgraph.nn.writer import Writer
from depthgraph.operations import Execution
from depthgraph.route import Route
from depthgraph.source import Source
from depthgraph.syntax import RouteSpec
from depthgraph.verify import route_of

if TYPE_CHECKING:
    import networkx as nx

    from depthgraph.nn.dynamic import DynamicModule


@overload
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
) -> RoutedModule: ...


@overload
def compile(
    route: str | Source | RouteSpec,
    layers: Iterable[nn.Module],
    *,
    dynamic: Iterable[str] | Mapping[str, int],
    bindings: Mapping[str, int] | None = None,
    backprop_last: int | Mapping[str, int] | None = None,
    inputs: Iterable[str] | None = None,
    per_execution: Callable[[Execution], Constants | None] | None = None,
    returns: Returns = "auto",
    width: int | None = None,
    weights: Mapping[str, nn.Module] | None = None,
    conditioning: Conditioning | Iterable[Option] | None = None,
    allow_shared: bool = False,
    example: Tensor | None = None,
) -> "DynamicModule": ...


def compile(
    route: "Route | nx.DiGraph[Any] | str | Source | RouteSpec",
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
    dynamic: Iterable[str] | Mapping[str, int] | None = None,
    bindings: Mapping[str, int] | None = None,
    backprop_last: int | Mapping[str, int] | None = None,
) -> "RoutedModule | DynamicModule":
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

    With `dynamic` the first argument is a spec, and the counts of its loops are arguments of the module: one set of
    weights for all of them, `model(hidden, r=8)` (docs/loops.md).

    Args:
        route: a route, or a graph of one in networkx, which is verified; with `dynamic`, a spec.
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
        dynamic: names of the spec that are counts at run time; a mapping gives their defaults, as `where` does.
        bindings: with `dynamic`, values of the spec's other names.
        backprop_last: with `dynamic`, k, for every count or by name: the gradient goes through the last k iterations
            of its loops and no further (see `depthgraph.truncation`).

    Raises:
        CompileError: `not-a-route`, `bad-layers`, `layer-count`, `shared-layer`, `layer-inputs`,
            `bad-constant`, `layer-shape`, `layer-output`, `unknown-width`, `unknown-weights` or `loop-count`; of
            conditioning those that `Conditioning.bind` names.
        SpecError: with `dynamic`, the spec means no route over these layers.
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
    if dynamic is not None:
        from depthgraph.nn.dynamic import compile_dynamic

        return compile_dynamic(
            route,
            layers,
            dynamic,
            bindings=bindings,
            backprop_last=backprop_last,
            inputs=inputs if inputs is None else tuple(inputs),
            per_execution=per_execution,
            returns=returns,
            width=width,
            weights=weights,
            conditioning=conditioning,
            allow_shared=allow_shared,
            example=example,
        )
    if bindings is not None or backprop_last is not None:
        message = "`bindings` and `backprop_last` are for counts at run time, and `dynamic` names none"
        raise CompileError("loop-count", message, help="bind names where the route is made: dg.route(spec, k=2)")
    return compile_route(
        as_route(route),
        layers,
        inputs=inputs,
        per_execution=per_execution,
        returns=returns,
        width=width,
        weights=weights,
        conditioning=conditioning,
        allow_shared=allow_shared,
        example=example,
    )


def compile_route(
    route: Route,
    layers: Iterable[nn.Module],
    loops: Route | None = None,
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
    """Compile a route of fixed counts; the arguments are those of `compile`, and `loops`.

    `loops` is a route with the same executions, and says in which iterations of which loops they stand: what is made
    for single executions is made for its ones. A loop that is cut in two for its gradient is still one loop there.
    """
    told = loops or route
    if returns not in get_args(Returns):
        raise ValueError(f"returns is one of {', '.join(get_args(Returns))}; found {returns!r}")
    modules = check_layers(route, layers, allow_shared)
    running = {number: modules[number - 1] for number in sorted(set(route.path))}
    signatures = {number: read_signature(number, module) for number, module in running.items()}
    constants = bind_constants(told, signatures, per_execution)
    chosen = choose_inputs(route, signatures, constants, inputs)
    if example is not None:
        check_shapes(example, running, signatures, returns)
    width = known_width(width, example)
    own = weights_of(route, running.values(), width, weights)
    moves = len({device_of(module) for module in (*running.values(), *own.values())} - {None}) > 1
    conditioned = condition(told, running, conditioning, width)
    graph = Writer(signatures, chosen, returns, moves, conditioned.calls).write(route, constants)
    return RoutedModule.build(route, Layers(modules), graph, {**own, **conditioned.modules})


def as_route(route: object) -> Route:
    """Return a route, or the route of a graph in networkx, which is verified.

    Raises:
        CompileError: `not-a-route` for anything else.
        GraphError: the graph breaks rules.
    """
    if isinstance(route, Route):
        return route
    import networkx as nx

    if isinstance(route, nx.Graph):
        return route_of(cast(Any, route))
    raise CompileError(
        "not-a-route",
        f"a {type(route).__name__} is given where a route is needed",
        help="dg.route(text) makes a route from a spec",
    )
