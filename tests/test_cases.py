"""Reports from users of comparable tools, each as the kind of fault that is impossible here. The numbers are theirs."""

import copy
import pickle

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.draw.folded import folded_dot
from depthgraph.draw.staircase_text import staircase_text
from depthgraph.yaml_file import parse_yaml


def _refused(text, **bindings):
    with pytest.raises(dg.SpecError) as caught:
        dg.route(text, bindings)
    return caught.value


@given(st.integers(1, 60), st.integers(1, 9))
def test_1_both_ends_are_included_and_the_error_says_so(depth, over):
    assert dg.route(f"block(1..{depth})", N=depth).path == tuple(range(1, depth + 1))
    error = _refused(f"block(1..{depth + over})", N=depth)
    assert error.code == "unknown-layer"
    assert f"1..{depth} and both ends of a range are included" in error.help
    assert f"`block(1..{depth})`" in error.help


def test_2_a_config_too_deep_for_the_model_is_refused_when_the_route_is_bound():
    document = parse_yaml("model:\n  route: block(1..40)\n", "forty.yaml")
    source = document.source_of(("model", "route"))
    with pytest.raises(dg.SpecError) as caught:
        dg.route(source, N=32)
    assert str(caught.value).startswith("forty.yaml:2:19: error[unknown-layer]: layer 40 does not exist")
    assert "32" in caught.value.message


def test_3_two_ranges_run_one_after_the_other_and_show_prints_it():
    route = dg.route("1..24 9..32")
    assert route.execution_depth == 48
    assert route.path == (*range(1, 25), *range(9, 33))
    top, *_, bottom = [line for line in staircase_text(route, width=120).splitlines() if line.startswith(("L", " L"))]
    assert top.startswith("L32")
    assert bottom.startswith(" L1")


@given(st.sets(st.integers(1, 12), min_size=1))
def test_4_a_hole_is_an_error_that_offers_drop(layers):
    text = " ".join(map(str, sorted(layers)))
    missing = set(range(1, max(layers) + 1)) - layers
    if missing:
        error = _refused(text)
        assert error.code == "unused-layer"
        drops = error.help.partition("`")[2].partition("`")[0]
        assert dg.route(f"{text} {drops}").dropped == tuple(sorted(missing))
    else:
        assert dg.route(text).dropped == ()


def test_4_the_report():
    error = _refused("1..2 4..5", N=5)
    assert error.message == "layer 3 is never run"
    assert "drop(3)" in error.help


def test_5_nothing_is_extended():
    assert str(dg.route("1..20 11..30")) != str(dg.route("1..20 11..28 drop(29..30)", N=30))
    assert _refused("1..20 11..28", N=30).message == "layers 29..30 are never run"


def test_6_a_count_repeats_what_stands_before_it():
    route = dg.route("(1 2x2)x3")
    assert route.reuse_map == (3, 6)
    assert route.execution_depth == 9


@pytest.mark.parametrize(("text", "e"), [("1..3 (4..6)x3 7..9", 15), ("1..2 (3..4)x5 5..6", 14)])
def test_7_executions_are_counted(text, e):
    assert dg.route(text).execution_depth == e


def test_9_five_thousand_parentheses():
    error = _refused("(" * 5000 + "1" + ")" * 5000)
    assert (error.code, error.location.column) == ("too-deep", 65)


def test_11_errors_have_no_token_names():
    error = _refused("block(2..4)x")
    assert (error.location.line, error.location.column) == (1, 13)
    assert "expected a repeat count after `x`" in error.message
    assert "^" in str(error)


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_14_a_layer_name_changes_no_edge(one, two):
    pygraphviz = pytest.importorskip("pygraphviz")
    plain = pygraphviz.AGraph(string=folded_dot(dg.route("1 2 1 2"), None))
    named = pygraphviz.AGraph(string=folded_dot(dg.route("1 2 1 2"), {1: one, 2: two}))
    assert sorted(named.nodes()) == sorted(plain.nodes())
    assert sorted(named.edges()) == sorted(plain.edges())


def test_15_a_long_loop_is_drawn_once():
    dot = folded_dot(dg.route("(1..4)x64"), None)
    assert dot.count("×64") == 1
    assert dot.count("->") < 10


def test_16_a_long_graph_is_copied_and_its_original_stays():
    graph = dg.graph(dg.route("1x2000"))
    for again in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        again.remove_node("L1.7")
        again.nodes["L1.8"]["layer"] = 9
        assert "L1.7" in graph
        assert graph.nodes["L1.8"]["layer"] == 1
    assert nx.is_directed_acyclic_graph(graph)
