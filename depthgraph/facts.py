"""What the rules of `verify` ask of a graph, found in one pass over it."""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from depthgraph.graph import EXECUTION, HIDDEN, read_dropped
from depthgraph.route import as_integer

if TYPE_CHECKING:
    import networkx as nx

    Graph = nx.DiGraph[Any]


class Facts:
    """What several rules ask of one graph, found in one pass over it."""

    def __init__(self, graph: "Graph") -> None:
        self.graph = graph
        self.nodes = dict(graph.nodes(data=True))
        self.kinds = {node: text_of(data.get("kind")) for node, data in self.nodes.items()}
        self.executions = {
            node: (as_integer(data.get("layer")), as_integer(data.get("visit")))
            for node, data in self.nodes.items()
            if self.kinds[node] == EXECUTION
        }
        self.outgoing = dict(graph.adjacency())
        self.incoming: dict[Any, list[Any]] = {node: [] for node in self.nodes}
        self.odd_edges: list[tuple[Any, Any, Any]] = []
        for start, ends in self.outgoing.items():
            for end, data in ends.items():
                self.incoming[end].append(start)
                if text_of(data.get("kind")) != HIDDEN:
                    self.odd_edges.append((start, end, data.get("kind")))

    def of_kind(self, kind: str) -> list[Any]:
        """Return the nodes of a kind."""
        return [node for node, found in self.kinds.items() if found == kind]

    @cached_property
    def order(self) -> list[Any] | None:
        """The nodes in topological order; None if there is a cycle. (Kahn's algorithm.)"""
        waiting = {node: len(starts) for node, starts in self.incoming.items()}
        order = [node for node, count in waiting.items() if not count]
        for node in order:
            for end in self.outgoing[node]:
                waiting[end] -= 1
                if not waiting[end]:
                    order.append(end)
        return order if len(order) == len(self.nodes) else None

    @property
    def layers(self) -> Iterator[tuple[Any, int, int | None]]:
        """The executions whose layer is an integer: node, layer, visit."""
        return ((node, layer, visit) for node, (layer, visit) in self.executions.items() if layer is not None)

    @cached_property
    def depth(self) -> int | None:
        """N, if the graph says it."""
        depth = as_integer(self.graph.graph.get("parameter_depth"))
        return depth if depth is not None and depth >= 1 else None

    @cached_property
    def dropped(self) -> tuple[int, ...] | None:
        """The layers that the graph drops; None if that cannot be read."""
        return read_dropped(self.graph.graph.get("dropped", ()))


def text_of(value: object) -> str | None:
    """Return a value if it is a text; attributes of nodes can be anything."""
    return value if isinstance(value, str) else None
