"""A graph's nodes in the order of the text, what each reads, and which of them are the branches of a join."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from depthgraph.flow import KINDS
from depthgraph.graph import BRANCH, HIDDEN, REGISTER, read_iterations, text_order
from depthgraph.operations import Exit, Iteration, Mean, Sum

if TYPE_CHECKING:
    import networkx as nx

JOINS = (KINDS[Mean], KINDS[Sum])


@dataclass(frozen=True, slots=True)
class Source:
    """A state that a node reads: its index in the order, and the register that the graph names, if any."""

    state: int
    register: str | None


class Plan:
    """A graph's nodes in the order of the text, and what each reads.

    Attributes:
        order: the nodes.
        kinds: of each, its kind.
        hidden: of each, its h; None for the input and for joins.
        operand: of each add, mix and gate, what it reads through a register.
        ends: of each join, the results of its branches.
        branches: of each join, the stretches of the order that its branches are.
    """

    def __init__(self, graph: "nx.DiGraph[Any]") -> None:
        self.order = text_order(dict(graph.nodes(data=True)), graph.pred)
        self.data = [graph.nodes[node] for node in self.order]
        self.kinds = [data["kind"] for data in self.data]
        self.hidden: dict[int, Source] = {}
        self.operand: dict[int, Source] = {}
        self.ends: dict[int, list[Source]] = {}
        index = {node: number for number, node in enumerate(self.order)}
        self._readers: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, node in enumerate(self.order):
            for start, edge in graph.pred[node].items():
                self._read(number, index[start], edge)
        self.branches = {number: self._stretches(number) for number, kind in enumerate(self.kinds) if kind in JOINS}

    @property
    def nesting(self) -> int:
        """How deep branches are nested."""
        depth: dict[int, int] = {}
        for join in sorted(self.branches):
            inner = (depth.get(place, 0) for stretch in self.branches[join] for place in stretch)
            depth[join] = 1 + max(inner, default=0)
        return max(depth.values(), default=0)

    def loops(self, number: int) -> tuple[Iteration, ...]:
        """Return the loops around a node."""
        return read_iterations(self.data[number].get("iterations", ())) or ()

    def _read(self, number: int, start: int, edge: dict[str, Any]) -> None:
        load, register = edge.get("load"), edge.get("register")
        if edge["kind"] == BRANCH:
            ends = self.ends.setdefault(number, [])
            for branch in edge["branches"]:
                ends += [Source(-1, None)] * (branch - len(ends))
                ends[branch - 1] = Source(start, load)
                self._readers[start].append((number, branch))
            return
        self._readers[start].append((number, 0))
        if edge["kind"] == HIDDEN:
            self.hidden[number] = Source(start, load)
        if register is not None or edge["kind"] == REGISTER:
            self.operand[number] = Source(start, register)

    def _stretches(self, join: int) -> list[range]:
        """Return what each branch of a join runs: nodes one behind the other that lead to its end alone."""
        found: list[range] = []
        end = join
        for branch in range(len(self.ends[join]), 0, -1):
            start, inside = end, {(join, branch)}
            while start and all(reader in inside for reader in self._readers[start - 1]):
                start -= 1
                inside |= {(start, one) for one in range(len(self.ends.get(start, ())) + 1)}
            while start < end and self.kinds[start] == KINDS[Exit]:
                start += 1  # it stands before the branches, as well as at the start of one
            found.append(range(start, end))
            end = start
        return found[::-1]
