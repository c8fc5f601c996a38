"""Route ⇄ networkx graph in single-assignment form: one node an execution, one edge a hidden state.

The nodes are `"input"`, the executions under their names (`"L2.1"` is layer 2, first visit), and `"output"`. A
node's attributes are those of its `Execution`, and `kind`; an edge's `kind` is `hidden`. Graph attributes:
`parameter_depth` and `dropped`. Any networkx algorithm works on it, and a graph edited by hand compiles when
`verify` accepts it.
"""

import operator
from collections import Counter
from typing import TYPE_CHECKING, Any

from depthgraph.errors import GraphError
from depthgraph.operations import Execution, Iteration
from depthgraph.route import Route, as_integer

if TYPE_CHECKING:
    import networkx as nx

INPUT, EXECUTION, OUTPUT = "input", "execution", "output"

#: The kinds of edge.
HIDDEN = "hidden"


def build_graph(route: Route) -> "nx.DiGraph[str]":
    """Return a route's graph; `dg.graph` also verifies it."""
    if not isinstance(route, Route):
        message = f"a graph is made of a route, and this is a {type(route).__name__}"
        raise GraphError("not-a-route", message, help="dg.route(text) makes a route from a spec")
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph(parameter_depth=route.parameter_depth, dropped=route.dropped)
    names = [execution.name for execution in route.executions]
    graph.add_node(INPUT, kind=INPUT)
    graph.add_nodes_from(zip(names, map(_attributes, route.executions), strict=True))
    graph.add_node(OUTPUT, kind=OUTPUT)
    graph.add_edges_from(zip([INPUT, *names], [*names, OUTPUT], strict=True), kind=HIDDEN)
    return graph


def _attributes(execution: Execution) -> dict[str, Any]:
    return {
        "kind": EXECUTION,
        "layer": execution.layer,
        "visit": execution.visit,
        "position": execution.position,
        "iterations": execution.iterations,
    }


def read_graph(graph: "nx.DiGraph[Any]") -> Route:
    """Return the route of a graph that `verify` has accepted; `dg.from_graph` does both.

    The order is that of the edges; node names and `position` attributes do not matter.
    """
    executions: list[Execution] = []
    node: Any = next(node for node, data in graph.nodes(data=True) if data["kind"] == INPUT)
    while True:
        (node,) = graph.adj[node]
        data = graph.nodes[node]
        if data["kind"] == OUTPUT:
            break
        loops = read_iterations(data.get("iterations", ()))
        assert loops is not None
        layer, visit = operator.index(data["layer"]), operator.index(data["visit"])
        executions.append(Execution(len(executions) + 1, layer, visit, loops))
    dropped = read_dropped(graph.graph.get("dropped", ())) or ()
    return Route(operator.index(graph.graph["parameter_depth"]), tuple(executions), dropped)


def read_dropped(value: object) -> tuple[int, ...] | None:
    """Return the graph attribute `dropped`, ascending and each layer once; None if it is no list of layers."""
    if not isinstance(value, list | tuple | set | frozenset | range):
        return None
    layers = {as_integer(each) for each in value}
    return None if None in layers else tuple(sorted(layer for layer in layers if layer is not None))


def read_iterations(value: object) -> tuple[Iteration, ...] | None:
    """Return the `iterations` of a node, also after a trip through JSON; None if it is something else."""
    if not isinstance(value, tuple | list):
        return None
    if all(type(each) is Iteration for each in value):
        return tuple(value)
    if all(isinstance(each, tuple | list) and [type(part) for part in each] == [int] * 3 for each in value):
        return tuple(Iteration(*each) for each in value)
    return None


def renumbered(graph: "nx.DiGraph[Any]") -> "nx.DiGraph[str]":
    """Return an edited graph with names, visits and positions given anew, in topological order.

    Who inserts or removes executions by hand says only `kind="execution"` and `layer` of a new node; this does the
    bookkeeping. Nothing else is repaired: the result still has to pass `verify`.

    Args:
        graph: an acyclic graph; its own nodes may have any names. It is not changed.

    Raises:
        networkx.NetworkXUnfeasible: the graph has a cycle.
    """
    import networkx as nx

    names: dict[Any, str] = {}
    attributes: dict[str, dict[str, Any]] = {}
    visits: Counter[Any] = Counter()
    for node in nx.topological_sort(graph):
        data = dict(graph.nodes[node])
        names[node] = str(node)
        if data.get("kind") == EXECUTION:
            visits[data.get("layer")] += 1
            data["visit"], data["position"] = visits[data.get("layer")], sum(visits.values())
            data.setdefault("iterations", ())
            names[node] = f"L{data.get('layer')}.{data['visit']}"
        attributes[names[node]] = data
    result: nx.DiGraph[str] = nx.DiGraph(**graph.graph)
    result.add_nodes_from(attributes.items())
    result.add_edges_from((names[a], names[b], {"kind": HIDDEN, **data}) for a, b, data in graph.edges(data=True))
    return result
