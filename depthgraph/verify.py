"""Whether a graph is a route: every rule is asked, and all failures are reported, not the first.

The rules hold for every graph that `build_graph` makes, and protect graphs that users build or edit by hand.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from depthgraph.errors import GraphError
from depthgraph.facts import Facts
from depthgraph.reading import read_graph
from depthgraph.route import Route
from depthgraph.rules import RULES

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
