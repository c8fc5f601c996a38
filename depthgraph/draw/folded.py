"""The folded view: one node a layer, loops walked once.

The layers stand in one column, the first at the bottom as in drawings of transformers, and the operations of data
flow as small nodes between them. A step to the next node goes straight up; one that skips nodes bends to the right,
one that goes back bends to the left, and so does the way back of a loop, which says ×k. Numbers on the lines are the
order in which they are taken. What a register gives is a dashed line with its name; an exit leaves at the left.
Branches of nothing but layers stand side by side between two bars.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from depthgraph.draw.column import FORK, Rows, arrange
from depthgraph.draw.dot import Value, digraph, edge, node
from depthgraph.draw.folding import folded
from depthgraph.draw.geometry import at, spline
from depthgraph.draw.labels import Names, labels, text_width
from depthgraph.draw.lanes import Column, place
from depthgraph.draw.palette import FAINT, FLOW, LINE, LOOP, PAPER, TERMINAL, fill
from depthgraph.draw.summary import facts, refuse_large
from depthgraph.draw.walked import Folded, step_list
from depthgraph.draw.words import register_name
from depthgraph.route import Route

INSTEAD = 'draw it with view="staircase"'
#: what the lines look like, by their kind.
LINES: dict[str, dict[str, Value]] = {
    "hop": {},
    "rung": {},
    "back": {"color": LOOP, "fontcolor": LOOP, "fontsize": 12.0, "penwidth": 1.6},
    "wire": {"color": FLOW, "fontcolor": FLOW, "style": "dashed"},
    "outlet": {"color": FLOW},
}


class Line(NamedTuple):
    """A line of a folded picture.

    Attributes:
        end: the id of the node at its end, where that is no node of the walk.
    """

    tail: int
    head: int
    label: str
    kind: Literal["hop", "back", "wire", "outlet"]
    end: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a folded picture is made of: the route, its walk, and where everything stands.

    Attributes:
        shown: the labels of input, layers and output.
        links: the ids of the two nodes of each line, by its `order`.
    """

    route: Route
    plan: Folded
    shown: tuple[str, ...]
    rows: Rows
    column: Column
    links: tuple[tuple[str, str], ...]

    def name(self, number: int) -> str:
        """Return the id of a node."""
        return node_name(number, self.route.parameter_depth, self.plan)


def folded_dot(route: Route, names: Names | None = None) -> str:
    """Return the folded view as DOT text.

    Raises:
        DrawError: `too-large-to-draw`, for more layers than can be read.
    """
    sheet = folded_sheet(route, names)
    parts = [*_nodes(sheet), *_edges(sheet)]
    return digraph(parts, facts(route), (0.0, sheet.column.edge(-1, 0.5) + 20))


def folded_sheet(route: Route, names: Names | None = None) -> Sheet:
    """Return the places of everything in the folded view.

    Raises:
        DrawError: `too-large-to-draw`.
    """
    refuse_large(route.parameter_depth, "layers", "folded", INSTEAD)
    shown = ("input", *labels(route, names), "output")
    plan = folded(route)
    refuse_large(route.parameter_depth + len(plan.places), "nodes", "folded", INSTEAD)
    lines = tuple(lines_of(plan))
    refuse_large(len(lines), "edges", "folded", INSTEAD)
    depth = route.parameter_depth
    rows = arrange(plan, depth, max(54.0, 20 + max(text_width(name, 12) for name in shown)))
    arcs = [rows.arc(order, line.tail, line.head, line.label, line.kind) for order, line in enumerate(lines)]
    links = tuple((node_name(line.tail, depth, plan), line.end or node_name(line.head, depth, plan)) for line in lines)
    return Sheet(route, plan, shown, rows, place(arcs, rows.rows), links)


def lines_of(plan: Folded) -> Iterator[Line]:
    """Yield every line of a folded picture with what is written at it."""
    for hop in plan.hops:
        yield Line(hop.tail, hop.head, step_list(hop.steps), "hop")
    for back in plan.backs:
        yield Line(back.tail, back.head, plan.back_label(back), "back")
    for wire in plan.wires:
        yield Line(wire.tail, wire.head, ", ".join(map(register_name, wire.registers)), "wire")
    for outlet in plan.outlets:
        yield Line(outlet.tail, outlet.tail, outlet.label, "outlet", f"exit.{outlet.indices[0]}")


def node_name(number: int, parameter_depth: int, plan: Folded) -> str:
    """Return the id of a node of the folded view."""
    if number > parameter_depth + 1:
        return plan.places[number - parameter_depth - 2].name
    return {0: "input", parameter_depth + 1: "output"}.get(number, f"L{number}")


def _nodes(sheet: Sheet) -> Iterator[str]:
    column = sheet.column
    for number in range(sheet.route.parameter_depth + 2 + len(sheet.plan.places)):
        cell = sheet.rows.cells[number]
        centre = (cell.x, column.middles[cell.row])
        yield node(sheet.name(number), centre, (cell.width, column.heights[cell.row]), _look(sheet, number))
    for drawn in column.drawn:
        if drawn.arc.kind == "outlet":
            look: dict[str, Value] = {"label": drawn.arc.label, **EXIT_LOOK}
            yield node(sheet.links[drawn.arc.order][1], drawn.label_at, (drawn.arc.width, 14.0), look)


def _look(sheet: Sheet, number: int) -> dict[str, Value]:
    depth = sheet.route.parameter_depth
    if number > depth + 1:
        place = sheet.plan.places[number - depth - 2]
        is_bar = sheet.column.heights[sheet.rows.cells[number].row] == FORK
        return {"label": place.label, **OPERATION_LOOK} if place.label else FORK_LOOK if is_bar else FORK_BOX
    style: dict[str, Value] = {"label": sheet.shown[number]}
    if number in (0, depth + 1):
        return style | {"fillcolor": TERMINAL}
    if number in sheet.route.dropped:
        return style | {"fillcolor": PAPER, "style": "rounded,dashed", "color": FAINT, "fontcolor": FAINT}
    return style | {"fillcolor": fill(number, depth)}


#: what operations of data flow, forks and exits look like, here and in the unrolled view.
OPERATION_LOOK: dict[str, Value] = {"fillcolor": PAPER, "color": FLOW, "fontcolor": FLOW, "fontsize": 10.0}
FORK_LOOK: dict[str, Value] = {"label": "", "fillcolor": LINE, "style": "filled"}
#: where several lines meet, a fork is no bar and says what it is.
FORK_BOX: dict[str, Value] = {"label": "fork", "fillcolor": TERMINAL, "style": "filled", "fontsize": 10.0}
EXIT_LOOK: dict[str, Value] = {"shape": "none", "style": "solid", "fontcolor": FLOW, "fontsize": 10.0}


def _edges(sheet: Sheet) -> Iterable[str]:
    for drawn in sheet.column.drawn:
        style: dict[str, Value] = {"pos": spline(drawn.corners)}
        if drawn.arc.kind != "outlet":
            style = {"label": drawn.arc.label, "lp": at(drawn.label_at), **style}
        yield edge(*sheet.links[drawn.arc.order], style | LINES[drawn.arc.kind])
