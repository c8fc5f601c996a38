"""Facts on the unrolled view."""

from itertools import combinations, pairwise

import pygraphviz
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.draw.flow import GAP, TITLE_SIZE, Group, Leaf, PlacedGroup, flow, leaves
from depthgraph.draw.labels import text_width
from depthgraph.draw.palette import fill
from depthgraph.draw.unrolled import ROOM, corners, title_middle, unrolled_dot
from depthgraph.graph import build_graph


def graph(route):
    return pygraphviz.AGraph(string=unrolled_dot(route))


@pytest.mark.parametrize("spec", ["lft(24)", "(1 2x2)x3", "(1..4)x64", "1..24 9..32", "1..4 drop(5) 6"])
def test_it_has_the_nodes_and_edges_of_the_graph(spec):
    route = dg.route(spec)
    drawn, real = graph(route), build_graph(route)
    assert set(drawn.nodes()) == set(real.nodes)
    assert sorted(tuple(edge) for edge in drawn.edges()) == sorted(real.edges)


def test_a_node_names_its_layer_and_visit_in_the_colour_of_the_layer():
    parsed = graph(dg.route("1 2 1 2"))
    assert parsed.get_node("L2.2").attr["label"] == "L2·2"
    assert {parsed.get_node(name).attr["fillcolor"] for name in ("L2.1", "L2.2")} == {fill(2, 2)}


def frames(parsed):
    """The titles of frames, inner ones in a list behind theirs."""
    return [[frame.graph_attr["label"], *frames(frame)] for frame in parsed.subgraphs()]


def test_loops_are_frames_in_frames():
    inner = ["×2", ["iteration 1 of 2"], ["iteration 2 of 2"]]
    assert frames(graph(dg.route("(1 2x2)x2 3"))) == [["×2", ["iteration 1 of 2", inner], ["iteration 2 of 2", inner]]]


def test_a_shifting_loop_says_so():
    assert frames(graph(dg.route("lft(5)")))[0][0] == "3 iterations"


def test_no_line_is_wider_than_a_page():
    parsed = graph(dg.route("lft(24)"))
    places = [node.attr["pos"].split(",") for node in parsed.nodes()]
    assert max(float(x) for x, _ in places) < ROOM
    assert len({y for _, y in places}) < 12


def test_too_many_executions_are_refused_with_the_views_that_fit():
    with pytest.raises(dg.DrawError) as caught:
        unrolled_dot(dg.route("(1..4)x501"))
    message = "2,004 executions are too many for the unrolled view, which takes 2,000"
    assert (caught.value.code, caught.value.message) == ("too-large-to-draw", message)
    assert caught.value.help == 'draw it with view="folded" or view="staircase"'


leaf = st.builds(Leaf, st.just("x"), st.floats(40, 90), st.just(26.0))
groups = st.recursive(
    leaf,
    lambda inner: st.builds(Group, st.just("×2"), st.booleans(), st.lists(inner, min_size=1, max_size=5).map(tuple)),
)


def _box(placed):
    if isinstance(placed, PlacedGroup):
        return placed.left, placed.top, placed.right, placed.bottom
    half = placed.leaf.height / 2
    return placed.left, placed.y - half, placed.right, placed.y + half


def _all_groups(placed):
    for one in placed:
        if isinstance(one, PlacedGroup):
            yield one
            yield from _all_groups(one.boxes)


def _apart(a, b):
    return a[2] <= b[0] + 1e-6 or b[2] <= a[0] + 1e-6 or a[3] <= b[1] + 1e-6 or b[3] <= a[1] + 1e-6


@given(st.lists(groups, min_size=1, max_size=8).map(tuple), st.sampled_from([120.0, 400.0, 900.0]))
@settings(max_examples=60)
def test_boxes_lie_apart_and_in_their_frames(boxes, room):
    placed, right, _ = flow(boxes, 0.0, 0.0, room)
    assert all(_apart(_box(a), _box(b)) for a, b in combinations(placed, 2))
    assert max(_box(one)[2] for one in placed) <= right + 1e-6
    for group in _all_groups(placed):
        inner = [_box(one) for one in group.boxes]
        assert all(_apart(a, b) for a, b in combinations(inner, 2))
        left, top, end, low = _box(group)
        assert all(left < x1 and top < y1 and x2 < end and y2 < low for x1, y1, x2, y2 in inner)


@given(st.lists(groups, min_size=1, max_size=8).map(tuple))
@settings(max_examples=60)
def test_nodes_of_a_line_keep_their_distance(boxes):
    placed, _, _ = flow(boxes, 0.0, 0.0, 400.0)
    line = list(leaves(placed))
    for a, b in pairwise(line):
        if a.y == b.y:
            assert b.left - a.right >= GAP - 1e-6
        else:
            assert b.y > a.floor


def _title(group):
    x, y = title_middle(group)
    reach = text_width(group.group.title, TITLE_SIZE) / 2
    return x - reach, -y - TITLE_SIZE / 2, x + reach, -y + TITLE_SIZE / 2


@given(st.lists(groups, min_size=1, max_size=8).map(tuple), st.sampled_from([120.0, 400.0, 900.0]))
@settings(max_examples=60)
def test_no_line_crosses_a_node_or_a_title(boxes, room):
    placed, _, _ = flow(boxes, 0.0, 0.0, room)
    nodes = list(leaves(placed))
    closed = [_box(one) for one in nodes] + [_title(group) for group in _all_groups(placed)]
    for a, b in pairwise(nodes):
        way = [(x, -y) for x, y in corners(a, b)]
        for (x1, y1), (x2, y2) in pairwise(way):
            line = min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)
            assert all(_apart(line, box) for box in closed)
