"""The order of the nodes of a folded picture, from the bottom up, and which of them stand side by side."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from depthgraph.draw.labels import text_width
from depthgraph.draw.lanes import Arc, Row
from depthgraph.draw.walked import Folded, Hop, Split, step_list

#: points: the heights of an operation and of a fork, and the room beside the text of an operation.
OPERATION, FORK, BESIDE = 20.0, 8.0, 16.0
#: points: how wide branches side by side may be, and the least room between two of them.
WIDEST, APART = 900.0, 14.0


@dataclass(frozen=True, slots=True)
class Cell:
    """Where a node stands: its row, the middle of its width, and its width."""

    row: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a folded picture, the lowest first, and the place of each node in them.

    Attributes:
        beside: the nodes that stand side by side with others.
    """

    rows: tuple[Row, ...]
    cells: dict[int, Cell]
    beside: frozenset[int]

    def arc(self, order: int, tail: int, head: int, label: str, kind: Literal["hop", "back", "wire", "outlet"]) -> Arc:
        """Return a line between two nodes as one between their rows."""
        low, high = self.cells[tail], self.cells[head]
        inner = next((node for node in (tail, head) if node in self.beside), None)
        if inner is not None:
            return Arc(order, low.row, high.row, label, "rung", self.cells[inner].x)
        return Arc(order, low.row, high.row, label, kind)


#: What has a place in the order: a node, or branches that stand side by side.
_Unit = int | Split


def arrange(plan: Folded, depth: int, width: float) -> Rows:
    """Give every node its row.

    Layers stand in the order of their numbers. A place of data flow is below the layer that runs next where that one is
    higher than the layer that ran before, and else above the one that ran before.

    Args:
        plan: the walk.
        depth: N.
        width: of the layers.
    """
    splits = [split for split in plan.splits if _fits(split, plan, width)]
    rows: list[Row] = []
    cells: dict[int, Cell] = {}
    for unit in _order(plan, depth, splits):
        if isinstance(unit, Split):
            rows += _side_by_side(unit, plan, width, len(rows), cells)
            continue
        row = Row(width)
        if unit > depth + 1:
            label = plan.places[unit - depth - 2].label
            row = Row(text_width(label, 10) + BESIDE, OPERATION) if label else Row(width, FORK)
        cells[unit] = Cell(len(rows), 0.0, row.width)
        rows.append(row)
    return Rows(tuple(rows), cells, frozenset(node for split in splits for branch in split.branches for node in branch))


def _fits(split: Split, plan: Folded, width: float) -> bool:
    """Whether branches can stand side by side: no line but the straight ones meets their layers."""
    if not split.plain:
        return False
    inner = {node for branch in split.branches for node in branch}
    runs = Counter(plan.order)
    if any(runs[node] > 1 for node in inner):
        return False
    met = {node for wire in plan.wires for node in (wire.tail, wire.head)}
    met |= {outlet.tail for outlet in plan.outlets}
    return not inner & met and _width(split, plan, width)[1] <= WIDEST


def _width(split: Split, plan: Folded, width: float) -> tuple[float, float]:
    """Return how far branches stand apart, and how wide they are together."""
    label = max(text_width(step_list(hop.steps), 10) for hop in _rungs(split, plan))
    apart = APART + label
    return apart, len(split.branches) * (width + apart) + apart


def _rungs(split: Split, plan: Folded) -> Iterator[Hop]:
    inner = {node for branch in split.branches for node in branch}
    return (hop for hop in plan.hops if hop.tail in inner or hop.head in inner)


def _order(plan: Folded, depth: int, splits: list[Split]) -> Iterator[_Unit]:
    by_fork = {split.fork: split for split in splits}
    hidden = {node for split in splits for branch in split.branches for node in branch}
    hidden |= {split.join for split in splits}
    units: list[_Unit] = [by_fork.get(node, node) for node in plan.order if node not in hidden]
    above: dict[int, list[_Unit]] = {}
    below: dict[int, list[_Unit]] = {}
    before, waiting = 0, list[_Unit]()
    for unit in [*units, depth + 1]:
        if isinstance(unit, Split) or unit > depth + 1:
            if unit not in waiting:
                waiting.append(unit)
            continue
        if waiting:
            (below.setdefault(unit, []) if unit > before else above.setdefault(before, [])).extend(waiting)
        before, waiting = unit, []
    for layer in range(depth + 2):
        yield from below.get(layer, ())
        if layer not in hidden:
            yield layer
        yield from above.get(layer, ())


def _side_by_side(split: Split, plan: Folded, width: float, first: int, cells: dict[int, Cell]) -> Iterator[Row]:
    """Yield the rows of branches between their fork and their join, and note the places of their nodes."""
    apart, whole = _width(split, plan, width)
    levels = max(map(len, split.branches))
    cells[split.fork] = Cell(first, 0.0, whole)
    cells[split.join] = Cell(first + levels + 1, 0.0, whole)
    for index, branch in enumerate(split.branches):
        x = (width - whole) / 2 + apart + index * (width + apart)
        for level, node in enumerate(branch, 1):
            cells[node] = Cell(first + level, x, width)
    yield Row(whole, FORK)
    for _ in range(levels):
        yield Row(whole)
    yield Row(whole, OPERATION)
