"""What the rules of `verify` ask of a graph, found in one pass over it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from depthgraph.errors import shown
from depthgraph.graph import BRANCH, EXECUTION, HIDDEN, REGISTER, read_dropped, text_order
from depthgraph.route import as_integer
from depthgraph.words import is_name

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
        self.inputs: dict[Any, Counter[str]] = {node: Counter() for node in self.nodes}
        self.ends: dict[Any, list[int]] = {}
        self.odd_edges: list[tuple[Any, Any, str]] = []
        for start, ends in self.outgoing.items():
            for end, data in ends.items():
                self.incoming[end].append(start)
                self._count_edge(start, end, data)

    def _count_edge(self, start: Any, end: Any, data: "Mapping[str, Any]") -> None:
        """Count what an edge brings to its end, and note what is odd about it."""
        kind, counts = text_of(data.get("kind")), self.inputs[end]
        if kind == BRANCH:
            numbers = _branch_numbers(data.get("branches"))
            if numbers is None:
                self.odd_edges.append((start, end, f"has branches {shown(data.get('branches'))}, no list of numbers"))
            counts[BRANCH] += len(numbers or ())
            self.ends.setdefault(end, []).extend(numbers or ())
        elif kind == REGISTER:
            counts[REGISTER] += 1
        else:
            counts[HIDDEN] += 1
            counts[REGISTER] += data.get("register") is not None
        if kind not in (HIDDEN, REGISTER, BRANCH):
            kinds = ", ".join(map(repr, (HIDDEN, REGISTER, BRANCH)))
            self.odd_edges.append((start, end, f"has kind {shown(data.get('kind'))}; the kinds are {kinds}"))
        for name in ("load", "register"):
            if data.get(name) is not None and not is_name(data[name]):
                self.odd_edges.append((start, end, f"has {name} {shown(data[name])}, which cannot be a name"))

    def of_kind(self, kind: str) -> list[Any]:
        """Return the nodes of a kind."""
        return [node for node, found in self.kinds.items() if found == kind]

    @cached_property
    def order(self) -> list[Any] | None:
        """The nodes in the order of the text; None if there is a cycle."""
        order = text_order(self.nodes, self.incoming)
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


def _branch_numbers(value: object) -> list[int] | None:
    """Return the edge attribute `branches`; None if it is no list of numbers from 1."""
    if not isinstance(value, list | tuple) or not value:
        return None
    numbers = [as_integer(each) for each in value]
    return None if any(each is None or each < 1 for each in numbers) else [each for each in numbers if each]


def text_of(value: object) -> str | None:
    """Return a value if it is a text; attributes of nodes can be anything."""
    return value if isinstance(value, str) else None
