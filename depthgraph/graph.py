"""Route → networkx graph in single-assignment form: one node for each hidden state that is computed.

The nodes are `"input"`, the executions under their names (`"L2.1"` is layer 2, first visit), one for each operation of
data flow that computes something (`"add.1"`, `"mix.1"`, `"gate.1"`, `"mean.1"`, `"sum.1"`, `"stopgrad.1"`), the exits
(`"exit.1"`), and `"output"`. `save` and `load` are no nodes: they say which state an edge carries.

Node attributes: `kind`; `layer` and `visit` of executions, `site` of mix and gate, `index` of exits; `position`, of
data flow the number of executions before it, and `step`, which operation behind that execution it is, from 1;
`iterations`. Edge attributes: `kind`, and what belongs to it.

| kind | the state is | beside it |
|---|---|---|
| `hidden` | the h of the node | `load`, the register that it was loaded from, if it was |
| `register` | the operand of add, mix or gate | `register`, by which name |
| `branch` | the result of a branch of mean or sum | `branches`, which ones, from 1; `load` |

A state that is both h and operand of one node is one edge of the kind `hidden` that has a `register`. Graph attributes:
`parameter_depth` and `dropped`. Any networkx algorithm works on it, and a graph edited by hand compiles when `verify`
accepts it.
"""

from collections import Counter
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from depthgraph.errors import GraphError
from depthgraph.flow import KINDS, Read, State
from depthgraph.operations import Execution, Exit, Gate, Iteration, Mix
from depthgraph.route import Route, as_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import networkx as nx

INPUT, EXECUTION, OUTPUT = "input", "execution", "output"

#: The kinds of edge.
HIDDEN, REGISTER, BRANCH = "hidden", "register", "branch"


def build_graph(route: Route) -> "nx.DiGraph[str]":
    """Return a route's graph; `dg.graph` also verifies it."""
    if not isinstance(route, Route):
        message = f"a graph is made of a route, and this is a {type(route).__name__}"
        raise GraphError("not-a-route", message, help="dg.route(text) makes a route from a spec")
    import networkx as nx

    states, output = route.flow
    graph: nx.DiGraph[str] = nx.DiGraph(parameter_depth=route.parameter_depth, dropped=route.dropped)
    position = step = 0
    for state in states:
        position, step = (position + 1, 0) if isinstance(state.operation, Execution) else (position, step + 1)
        graph.add_node(state.name, **_attributes(state, position, step))
    graph.add_node(OUTPUT, kind=OUTPUT)
    for state in (*states, State(OUTPUT, hidden=output)):
        _add_edges(graph, state, states)
    return graph


def _attributes(state: State, position: int, step: int) -> dict[str, Any]:
    operation = state.operation
    if operation is None:
        return {"kind": INPUT}
    place = {"position": position, "iterations": operation.iterations}
    match operation:
        case Execution(_, layer, visit):
            return {"kind": EXECUTION, "layer": layer, "visit": visit, **place}
        case Mix(_, site) | Gate(_, site):
            return {"kind": KINDS[type(operation)], "site": site, **place, "step": step}
        case Exit(index):
            return {"kind": KINDS[Exit], "index": index, **place, "step": step}
        case _:
            return {"kind": KINDS[type(operation)], **place, "step": step}


def _add_edges(graph: "nx.DiGraph[str]", state: State, states: list[State]) -> None:
    name = state.name
    if state.hidden is not None:
        graph.add_edge(states[state.hidden.state].name, name, kind=HIDDEN, **_loaded(state.hidden))
    if state.operand is not None:
        start = states[state.operand.state].name
        if graph.has_edge(start, name):
            graph.edges[start, name]["register"] = state.operand.register
        else:
            graph.add_edge(start, name, kind=REGISTER, register=state.operand.register)
    for number, end in enumerate(state.ends, 1):
        start = states[end.state].name
        before = graph.edges[start, name]["branches"] if graph.has_edge(start, name) else ()
        graph.add_edge(start, name, kind=BRANCH, branches=(*before, number), **_loaded(end))


def _loaded(read: Read) -> dict[str, str]:
    return {} if read.register is None else {"load": read.register}


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


def text_order(nodes: "Mapping[Any, Mapping[str, Any]]", starts: "Mapping[Any, Iterable[Any]]") -> list[Any]:
    """Return the nodes in a topological order, which is that of the text where their positions say so.

    A node without a `position` comes as soon as it can, and first behind the node that has just come: so a branch
    stays together. Nodes on a cycle, and behind one, are left out.

    Args:
        nodes: each with its attributes.
        starts: for each node, where its edges start.
    """
    waiting = {node: len(set(before)) for node, before in starts.items()}
    ends: dict[Any, list[Any]] = {node: [] for node in nodes}
    for node, before in starts.items():
        for start in set(before):
            ends[start].append(node)
    rank = {node: index for index, node in enumerate(nodes)}
    places: dict[Any, float] = {}
    heap: list[tuple[float, float, int, int, Any]] = []
    order: list[Any] = []

    def ready(node: Any) -> None:
        data = nodes[node]
        position = as_integer(data.get("position"))
        place = max((places[start] for start in starts[node]), default=0) if position is None else position
        places[node] = float("inf") if data.get("kind") == OUTPUT else place
        step = 0 if data.get("kind") == EXECUTION else as_integer(data.get("step"))
        heappush(heap, (places[node], float("inf") if step is None else step, -len(order), rank[node], node))

    for node, count in waiting.items():
        if not count:
            ready(node)
    while heap:
        node = heappop(heap)[-1]
        order.append(node)
        for end in ends[node]:
            waiting[end] -= 1
            if not waiting[end]:
                ready(end)
    return order


def renumbered(graph: "nx.DiGraph[Any]") -> "nx.DiGraph[str]":
    """Return an edited graph with names, visits, positions, sites and exits numbered anew, in topological order.

    Who inserts or removes executions by hand says only `kind="execution"` and `layer` of a new node, and of data flow
    its `kind`; this does the bookkeeping. Operations with equal sites keep sharing them, one without a site gets its
    own. Nothing else is repaired: the result still has to pass `verify`.

    Args:
        graph: an acyclic graph; its own nodes may have any names. It is not changed.

    Raises:
        GraphError: `not-a-route` for anything else than a graph.
        networkx.NetworkXUnfeasible: the graph has a cycle.
    """
    import networkx as nx

    if not isinstance(graph, nx.DiGraph):
        message = f"a {type(graph).__name__} is given where the graph of a route is needed"
        raise GraphError("not-a-route", message, help="dg.graph(route) makes a graph from a route")
    order = text_order(dict(graph.nodes(data=True)), graph.pred)
    if len(order) < len(graph):
        raise nx.NetworkXUnfeasible("the graph has a cycle")
    names: dict[Any, str] = {}
    result: nx.DiGraph[str] = nx.DiGraph(**graph.graph)
    counts: Counter[Any] = Counter()
    sites: dict[tuple[Any, Any], int] = {}
    for node in order:
        data = dict(graph.nodes[node])
        names[node] = _number(str(node), data, counts, sites)
        result.add_node(names[node], **data)
    result.add_edges_from((names[a], names[b], {"kind": HIDDEN, **data}) for a, b, data in graph.edges(data=True))
    return result


def _number(name: str, data: dict[str, Any], counts: Counter[Any], sites: dict[tuple[Any, Any], int]) -> str:
    """Number one node in place, and return its new name."""
    kind, layer = data.get("kind"), data.get("layer")
    if kind == EXECUTION:
        counts[layer] += 1
        counts["position"] += 1
        counts["step"] = 0
        data.update(visit=counts[layer], position=counts["position"])
        name = f"L{layer}.{data['visit']}"
    elif kind in KINDS.values():
        counts[kind] += 1
        counts["step"] += 1
        data.update(position=counts["position"], step=counts["step"])
        name = f"{kind}.{counts[kind]}"
        if kind in (KINDS[Mix], KINDS[Gate]):
            key = kind, data.get("site", object())
            if key not in sites:
                counts[kind, "sites"] += 1
                sites[key] = counts[kind, "sites"]
            data["site"] = sites[key]
        elif kind == KINDS[Exit]:
            data["index"] = counts[kind]
    else:
        return name
    data.setdefault("iterations", ())
    return name
