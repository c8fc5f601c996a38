"""The folded view: one node a layer, loops walked once.

The layers stand in one column, the first at the bottom as in drawings of transformers. A step to the next
layer goes straight up; one that skips layers bends to the right, one that goes back bends to the left, and so
does the way back of a loop, which says ×k. Numbers on the lines are the order in which they are taken.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from depthgraph.draw.dot import digraph, edge, node
from depthgraph.draw.geometry import at, spline
from depthgraph.draw.labels import Names, labels, text_width
from depthgraph.draw.lanes import Arc, Column, place
from depthgraph.draw.palette import FAINT, LOOP, PAPER, TERMINAL, fill
from depthgraph.draw.structure import Item, Loop, tree
from depthgraph.draw.summary import facts, refuse_large
from depthgraph.operations import Execution
from depthgraph.route import Route

INSTEAD = 'draw it with view="staircase"'
#: step numbers that are written out on one edge; longer lists are abbreviated.
WRITTEN_OUT = 4


@dataclass(frozen=True, slots=True)
class Hop:
    """An edge of the folded walk: from one layer to another; 0 is the input and N + 1 the output."""

    tail: int
    head: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Back:
    """The way back of a loop, from its last layer to its first, with the steps that it repeats."""

    tail: int
    head: int
    count: int
    steps: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Folded:
    """A route with every loop walked once."""

    hops: tuple[Hop, ...]
    backs: tuple[Back, ...]

    def back_label(self, back: Back) -> str:
        """Return `×k`, with the steps where another loop goes back between the same two layers."""
        ends = [(other.tail, other.head) for other in self.backs]
        first, last = back.steps
        if ends.count((back.tail, back.head)) == 1:
            return f"×{back.count}"
        return f"×{back.count} (step {first})" if first == last else f"×{back.count} (steps {first}–{last})"


def folded(route: Route) -> Folded:
    """Walk a route with each loop walked once, and number the steps of that walk.

    A loop whose layers shift from one iteration to the next is not folded: it is walked in full.
    """
    walk, backs = _walk(tree(route), 1)
    steps: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    path = [0, *walk, route.parameter_depth + 1]
    for step, pair in enumerate(pairwise(path), 1):
        steps[pair].append(step)
    hops = tuple(Hop(tail, head, tuple(taken)) for (tail, head), taken in steps.items())
    return Folded(hops, tuple(backs))


def _walk(items: tuple[Item, ...], step: int) -> tuple[list[int], list[Back]]:
    layers: list[int] = []
    backs: list[Back] = []
    for item in items:
        match item:
            case Execution():
                layers.append(item.layer)
            case Loop():
                folds = item.repeats
                for body in item.iterations[:1] if folds else item.iterations:
                    start = step + len(layers)
                    inner, inner_backs = _walk(body, start)
                    layers += inner
                    backs += inner_backs
                    if folds:
                        backs.append(Back(inner[-1], inner[0], item.count, (start, start + len(inner) - 1)))
    return layers, backs


def step_list(steps: tuple[int, ...]) -> str:
    """Return step numbers as an edge shows them.

    Examples:
        >>> step_list((1, 3)), step_list((2, 5, 8, 11, 14)), step_list((1, 2, 5, 9, 14))
        ('1, 3', '2, 5 … 14', '1, 2 … 14 (5 steps)')
    """
    if len(steps) <= WRITTEN_OUT:
        return ", ".join(map(str, steps))
    first, second, last = steps[0], steps[1], steps[-1]
    even = steps == tuple(range(first, last + 1, second - first))
    return f"{first}, {second} … {last}" + ("" if even else f" ({len(steps)} steps)")


def folded_dot(route: Route, names: Names | None = None) -> str:
    """Return the folded view as DOT text.

    Raises:
        DrawError: `too-large-to-draw`, for more layers than can be read.
    """
    refuse_large(route.parameter_depth, "layers", "folded", INSTEAD)
    shown = ("input", *labels(route, names), "output")
    plan = folded(route)
    refuse_large(len(plan.hops) + len(plan.backs), "edges", "folded", INSTEAD)
    lines = [(h.tail, h.head, step_list(h.steps), False) for h in plan.hops]
    lines += [(b.tail, b.head, plan.back_label(b), True) for b in plan.backs]
    arcs = [Arc(order, *line) for order, line in enumerate(lines)]
    column = place(arcs, len(shown), max(54.0, 20 + max(text_width(name, 12) for name in shown)))
    parts = [*_nodes(route, shown, column), *_edges(route, column)]
    return digraph(parts, facts(route), (0.0, column.edge(-1, 0.5) + 20))


def node_name(number: int, parameter_depth: int) -> str:
    """Return the id of a node of the folded view."""
    return {0: "input", parameter_depth + 1: "output"}.get(number, f"L{number}")


def _nodes(route: Route, shown: tuple[str, ...], column: Column) -> Iterable[str]:
    depth = route.parameter_depth
    ends = {0, depth + 1}
    for number, label in enumerate(shown):
        style: dict[str, str | float] = {"label": label}
        if number in ends:
            style |= {"fillcolor": TERMINAL}
        elif number in route.dropped:
            style |= {"fillcolor": PAPER, "style": "rounded,dashed", "color": FAINT, "fontcolor": FAINT}
        else:
            style |= {"fillcolor": fill(number, depth)}
        yield node(
            node_name(number, depth), (0.0, column.middles[number]), (column.width, column.heights[number]), style
        )


def _edges(route: Route, column: Column) -> Iterable[str]:
    depth = route.parameter_depth
    for drawn in column.drawn:
        style: dict[str, str | float] = {
            "label": drawn.arc.label,
            "lp": at(drawn.label_at),
            "pos": spline(drawn.corners),
        }
        if drawn.arc.is_back:
            style |= {"color": LOOP, "fontcolor": LOOP, "fontsize": 12.0, "penwidth": 1.6}
        yield edge(node_name(drawn.arc.tail, depth), node_name(drawn.arc.head, depth), style)
