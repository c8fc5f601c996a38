"""The rules that a graph must keep, as a table.

They hold for every graph that `build_graph` makes, and protect graphs that users build or edit by hand. All failures
are reported, not the first. Every rule is linear in the size of the graph.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from depthgraph.errors import GraphError, shown
from depthgraph.facts import Facts
from depthgraph.graph import EXECUTION, HIDDEN, INPUT, OUTPUT, read_graph, read_iterations
from depthgraph.route import Route

if TYPE_CHECKING:
    from depthgraph.facts import Graph

#: How many failures a message lists.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Failure:
    """One way in which a graph breaks one rule.

    Attributes:
        rule: a key of `RULES`.
        message: what was found.
        nodes: the nodes it is about.
    """

    rule: str
    message: str
    nodes: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"[{self.rule}] {self.message}"


def verify(graph: "Graph") -> "Graph":
    """Return the graph unchanged if it keeps every rule.

    Raises:
        GraphError: it does not; the message and `failures` list every failure, each with its rule.

    Examples:
        >>> import depthgraph as dg
        >>> graph = dg.graph(dg.route("1 2"))
        >>> graph.remove_edge("L1.1", "L2.1")
        >>> for failure in failures(graph):
        ...     print(failure)
        [arity] `L2.1` has 0 inputs and takes 1
        [reachable] `L2.1`, `output` cannot be reached from the input
        [used] `input`, `L1.1` do not lead to the output
    """
    found = failures(graph)
    if found:
        count = f"{len(found)} rule failure{'s' if len(found) > 1 else ''}"
        listed = "\n  ".join(str(failure) for failure in found[:SHOWN])
        more = f"\n  … and {len(found) - SHOWN} more, in `failures` of this error" if len(found) > SHOWN else ""
        help = "`dg.renumbered(graph)` numbers visits anew" if any(f.rule == "visits" for f in found) else ""
        raise GraphError(
            "invalid-graph",
            f"this graph is no route: {count}\n  {listed}{more}",
            help=help,
            failures=tuple(found),
        )
    return graph


def route_of(graph: "Graph") -> Route:
    """Return the route of a graph: `dg.from_graph`.

    Raises:
        GraphError: the graph breaks a rule.
    """
    return read_graph(verify(graph))


def failures(graph: "Graph") -> list[Failure]:
    """Return every failure of every rule, in the order of `RULES`."""
    import networkx as nx

    if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
        return [Failure("digraph", f"a route's graph is a networkx.DiGraph, and this is a {type(graph).__name__}")]
    facts = Facts(graph)
    return [Failure(name, *found) for name, rule in RULES.items() for found in rule(facts)]


Found = Iterator[tuple[str, tuple[Any, ...]]]


def _attributes(facts: Facts) -> Found:
    """The graph and its nodes say what they are."""
    if facts.depth is None:
        found = facts.graph.graph.get("parameter_depth", "nothing")
        yield f"graph attribute `parameter_depth` is the number of layers, at least 1; found {shown(found)}", ()
    if facts.dropped is None:
        yield f"graph attribute `dropped` lists layers; found {shown(facts.graph.graph['dropped'])}", ()
    kinds = ", ".join(map(repr, ARITY))
    for node, kind in facts.kinds.items():
        if kind is None or kind not in ARITY:
            found = shown(facts.nodes[node].get("kind"))
            yield f"{_names([node])} has kind {found}; the kinds are {kinds}", (node,)
    for node, numbers in facts.executions.items():
        data = facts.nodes[node]
        if None in numbers:
            for name, number in zip(("layer", "visit"), numbers, strict=True):
                if number is None:
                    yield f"{_names([node])} has {name} {shown(data.get(name))}, which is not an integer", (node,)
        if read_iterations(data.get("iterations", ())) is None:
            yield f"{_names([node])} has iterations that are no list of (loop, number, count)", (node,)


def _one_input(facts: Facts) -> Found:
    """Exactly one node is the input."""
    nodes = facts.of_kind(INPUT)
    if len(nodes) != 1:
        yield f"there are {len(nodes)} input nodes, and a route has 1", tuple(nodes)


def _one_output(facts: Facts) -> Found:
    """Exactly one node is the output."""
    nodes = facts.of_kind(OUTPUT)
    if len(nodes) != 1:
        yield f"there are {len(nodes)} output nodes, and a route has 1", tuple(nodes)


def _acyclic(facts: Facts) -> Found:
    """No execution comes before itself."""
    if facts.order is None:
        import networkx as nx

        nodes = tuple(edge[0] for edge in nx.find_cycle(facts.graph))
        round_trip = f"{_names(nodes, ' → ')} → {_names(nodes[:1])}"
        yield f"{round_trip} is a cycle; a loop is one node per execution", nodes


#: How many inputs a node of each kind takes.
ARITY = {INPUT: 0, EXECUTION: 1, OUTPUT: 1}


def _arity(facts: Facts) -> Found:
    """A node has the inputs that its kind takes; the output feeds nothing; edges carry hidden states."""
    for node, starts in facts.incoming.items():
        wanted = ARITY.get(facts.kinds[node] or "")
        if wanted is not None and len(starts) != wanted:
            plural = "s" if len(starts) != 1 else ""
            yield f"{_names([node])} has {len(starts)} input{plural} and takes {wanted}", (node,)
    for node in facts.of_kind(OUTPUT):
        if facts.outgoing[node]:
            yield f"{_names([node])} is an output and feeds {_names(facts.outgoing[node])}", (node,)
    for start, end, kind in facts.odd_edges:
        yield (
            f"the edge {_names([start, end], ' → ')} has kind {shown(kind)}; the kinds are {HIDDEN!r}",
            (start, end),
        )


def _reachable(facts: Facts) -> Found:
    """Everything is computed from the input."""
    missed = _missed(facts.kinds, facts.of_kind(INPUT), facts.outgoing)
    if missed:
        yield f"{_names(missed)} cannot be reached from the input", missed


def _used(facts: Facts) -> Found:
    """Everything that is computed leads to the output."""
    missed = _missed(facts.kinds, facts.of_kind(OUTPUT), facts.incoming)
    if missed:
        verb = "does" if len(missed) == 1 else "do"
        yield f"{_names(missed)} {verb} not lead to the output", missed


def _known_layer(facts: Facts) -> Found:
    """Every layer is one of 1 … N."""
    if facts.depth is None:
        return
    for node, layer, _ in facts.layers:
        if not 1 <= layer <= facts.depth:
            yield f"{_names([node])} runs layer {layer}, and the layers are 1..{facts.depth}", (node,)
    for layer in facts.dropped or ():
        if not 1 <= layer <= facts.depth:
            yield f"layer {layer} is dropped, and the layers are 1..{facts.depth}", ()


def _every_layer(facts: Facts) -> Found:
    """Every layer is run, or dropped, and not both."""
    if facts.depth is None:
        return
    run, dropped = {layer for _, layer, _ in facts.layers}, set(facts.dropped or ())
    missing = _missing(run | dropped, facts.depth)
    if missing:
        verb = "is" if len(missing) == 1 and ".." not in missing[0] else "are"
        listed = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more stretches" if len(missing) > 8 else "")
        yield f"of the layers 1..{facts.depth}, {listed} {verb} neither run nor in the attribute `dropped`", ()
    for layer in sorted(run & dropped):
        yield f"layer {layer} is dropped and run", ()


def _missing(known: set[int], depth: int) -> list[str]:
    """Return the stretches of 1 … N that are not among some layers, without counting through them."""
    edges = [0, *sorted(layer for layer in known if 1 <= layer <= depth), depth + 1]
    gaps = [(before + 1, after - 1) for before, after in pairwise(edges) if after - before > 1]
    return [str(first) if first == last else f"{first}..{last}" for first, last in gaps]


def _visits(facts: Facts) -> Found:
    """The visits of a layer are numbered 1, 2, … in topological order."""
    seen: Counter[int] = Counter()
    for node in facts.order or ():
        layer, visit = facts.executions.get(node, (None, None))
        if layer is None:
            continue
        seen[layer] += 1
        if visit != seen[layer]:
            found = shown(facts.nodes[node].get("visit"))
            yield (
                f"{_names([node])} is visit {seen[layer]} of layer {layer}, and its attribute `visit` says {found}",
                (node,),
            )


#: Every rule by name, in the order in which they are reported. docs/architecture.md has the list.
RULES: Mapping[str, Callable[[Facts], Found]] = {
    "attributes": _attributes,
    "one-input": _one_input,
    "one-output": _one_output,
    "acyclic": _acyclic,
    "arity": _arity,
    "reachable": _reachable,
    "used": _used,
    "known-layer": _known_layer,
    "every-layer": _every_layer,
    "visits": _visits,
}


def _missed(nodes: Iterable[Any], starts: list[Any], adjacency: Mapping[Any, Iterable[Any]]) -> tuple[Any, ...]:
    """Return the nodes that cannot be reached from `starts`."""
    reached = set(starts)
    todo = list(starts)
    while todo:
        for node in adjacency[todo.pop()]:
            if node not in reached:
                reached.add(node)
                todo.append(node)
    return tuple(node for node in nodes if node not in reached)


def _names(nodes: Iterable[Any], separator: str = ", ") -> str:
    names = [f"`{node if isinstance(node, str) else shown(node)}`" for node in nodes]
    return separator.join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
