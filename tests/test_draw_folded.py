"""Facts on the folded view."""

import re
from itertools import combinations

import pygraphviz
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.draw.folded import folded_dot, folded_sheet
from depthgraph.draw.folding import folded
from depthgraph.draw.labels import text_width
from depthgraph.draw.walked import Back, Hop, step_list
from depthgraph.route import Route


def graph(route, names=None):
    return pygraphviz.AGraph(string=folded_dot(route, names))


def edges(parsed):
    return sorted((tail, head, edge.attr["label"]) for edge in parsed.edges() for tail, head in [edge])


def test_a_loop_is_walked_once_and_its_way_back_says_how_often():
    plan = folded(dg.route("1 (2..4)x2 5"))
    assert plan.hops == tuple(Hop(step - 1, step, (step,)) for step in range(1, 7))
    assert plan.backs == (Back(4, 2, 2, (2, 4)),)


def test_lft_shows_in_which_order_its_edges_are_taken():
    assert edges(graph(dg.route("1 2 1 2 3 2 3 4 3 4 5"))) == [
        ("L1", "L2", "2, 4"),
        ("L2", "L1", "3"),
        ("L2", "L3", "5, 7"),
        ("L3", "L2", "6"),
        ("L3", "L4", "8, 10"),
        ("L4", "L3", "9"),
        ("L4", "L5", "11"),
        ("L5", "output", "12"),
        ("input", "L1", "1"),
    ]


def test_64_iterations_are_one_mark():
    for route in (dg.route("(1..4)x64"), Route.of([1, 2, 3, 4] * 64)):
        source = folded_dot(route)
        assert source.count("×64") == 1
        assert source.count("×") == 1
        assert len(edges(graph(route))) == 6


def test_repeats_of_one_layer_are_loops_at_the_layer():
    assert [e for e in edges(graph(dg.route("ilr[4,2,1,1]"))) if e[0] == e[1]] == [
        ("L1", "L1", "×4"),
        ("L2", "L2", "×2"),
    ]


def test_nested_loops_are_marked_once_each():
    assert folded(dg.route("(1 2x2)x3")).backs == (Back(2, 2, 2, (2, 2)), Back(2, 1, 3, (1, 2)))


def test_two_loops_over_the_same_layers_say_which_steps_they_repeat():
    labels = [label for _, _, label in edges(graph(dg.route("(1..2)x2 3 (1..2)x3"))) if "×" in label]
    assert labels == ["×2 (steps 1–2)", "×3 (steps 4–5)"]


def test_loops_alike_in_all_are_drawn_beside_each_other():
    assert len(edges(graph(dg.route("((1x2)x2)x2")))) == 5


def test_dropped_layers_are_dashed_and_unconnected():
    parsed = graph(dg.route("1..4 drop(5) drop(7..8) 6x4 9..12"))
    dashed = {node for node in parsed.nodes() if "dashed" in (node.attr["style"] or "")}
    assert dashed == {"L5", "L7", "L8"}
    assert all(parsed.degree(node) == 0 for node in dashed)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ((1,), "1"),
        ((1, 3, 9, 12), "1, 3, 9, 12"),
        (tuple(range(2, 66, 3)), "2, 5 … 65"),
        ((1, 2, 4, 8, 16), "1, 2 … 16 (5 steps)"),
    ],
)
def test_long_lists_of_steps_are_short(steps, text):
    assert step_list(steps) == text


@pytest.mark.parametrize(
    ("route", "message"),
    [
        (dg.route("1..2001"), "2,001 layers are too many for the folded view, which takes 2,000"),
        (
            Route.of([layer for i in range(1, 51) for j in range(1, 51) for layer in (i, j)]),
            "2,5xx edges are too many for the folded view, which takes 2,000",
        ),
    ],
)
def test_what_nobody_can_read_is_refused(route, message):
    with pytest.raises(dg.DrawError) as caught:
        folded_dot(route)
    # how many of the edges are ways back depends on the loops of the canonical text
    assert re.sub(r"2,5\d\d", "2,5xx", caught.value.message) == message
    assert caught.value.code == "too-large-to-draw"
    assert caught.value.help == 'draw it with view="staircase"'


paths = st.integers(1, 7).flatmap(lambda n: st.lists(st.integers(1, n), min_size=1, max_size=25))


@given(paths)
@settings(max_examples=60)
def test_the_walk_takes_every_step_once(path):
    plan = folded(Route.of(path))
    taken = sorted(step for hop in plan.hops for step in hop.steps)
    assert taken == list(range(1, len(taken) + 1))
    assert len({(hop.tail, hop.head) for hop in plan.hops}) == len(plan.hops)


def _label_boxes(column):
    for drawn in column.drawn:
        size = 12 if drawn.arc.is_back else 10
        width = text_width(drawn.arc.label, size)
        (x, y), reach = drawn.label_at, size / 2
        yield drawn, (x - width / 2, y - reach, x + width / 2, y + reach)


def _segments(drawn):
    for (x1, y1), (x2, y2) in zip(drawn.corners, drawn.corners[1:], strict=False):
        yield min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def _meet(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@given(paths)
@settings(max_examples=60)
def test_no_label_meets_a_line_or_another_label(path):
    column = folded_sheet(Route.of(path, 7)).column
    boxes = list(_label_boxes(column))
    assert not [pair for pair in combinations(boxes, 2) if _meet(pair[0][1], pair[1][1])]
    for _, box in boxes:
        assert not [s for drawn in column.drawn for s in _segments(drawn) if _meet(box, s)]
