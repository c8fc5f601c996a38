"""Graphs: built from routes, read back, edited by hand, and the rules that they must keep."""

import json
import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.verify import RULES

from strategies import routes


@given(routes)
def test_a_graph_has_one_node_an_execution_and_reads_back(route):
    graph = dg.graph(route)
    executions = [node for node, kind in graph.nodes(data="kind") if kind == "execution"]
    assert executions == [each.name for each in route.executions]
    assert graph.number_of_edges() == route.execution_depth + 1
    assert nx.is_directed_acyclic_graph(graph)
    again = dg.from_graph(graph)
    assert again == route
    assert [each.iterations for each in again.executions] == [each.iterations for each in route.executions]


def test_the_attributes_of_nodes_and_edges():
    graph = dg.graph(dg.route("1 (2)x2 drop(3)"))
    assert graph.graph == {"parameter_depth": 3, "dropped": (3,)}
    assert graph.nodes["L2.2"] == {
        "kind": "execution",
        "layer": 2,
        "visit": 2,
        "position": 3,
        "iterations": ((1, 2, 2),),
    }
    assert graph.nodes["input"] == {"kind": "input"}
    assert set(nx.get_edge_attributes(graph, "kind").values()) == {"hidden"}


def _graph(text="1 2 1 3"):
    return dg.graph(dg.route(text))


def _without_depth(graph):
    del graph.graph["parameter_depth"]


def _odd_attributes(graph):
    graph.graph["dropped"] = "3"
    graph.nodes["L1.1"]["kind"] = "exec"
    graph.nodes["L2.1"]["layer"] = 2.0
    graph.nodes["L3.1"]["visit"] = True


def _cycle(graph):
    graph.remove_edge("L1.2", "L3.1")
    graph.add_edge("L1.2", "L2.1", kind="hidden")
    graph.add_edge("L1.1", "L3.1", kind="hidden")


#: rule → edits that break it, and the message of that rule.
EDITS = {
    "attributes": [
        (_without_depth, "graph attribute `parameter_depth` is the number of layers, at least 1; found 'nothing'"),
        (_odd_attributes, "graph attribute `dropped` lists layers; found '3'"),
        (_odd_attributes, "`L1.1` has kind 'exec'; the kinds are 'input', 'execution', 'output', 'add', 'mix', 'gate', 'mean', 'sum', 'stopgrad', 'exit'"),
        (_odd_attributes, "`L2.1` has layer 2.0, which is not an integer"),
        (_odd_attributes, "`L3.1` has visit True, which is not an integer"),
        (
            lambda g: g.nodes["L1.1"].update(iterations=3),
            "`L1.1` has iterations that are no list of (loop, number, count)",
        ),
    ],
    "one-input": [
        (lambda g: g.remove_node("input"), "there are 0 input nodes, and a route has 1"),
        (lambda g: g.add_node("in2", kind="input"), "there are 2 input nodes, and a route has 1"),
    ],
    "one-output": [(lambda g: g.remove_node("output"), "there are 0 output nodes, and a route has 1")],
    "acyclic": [(_cycle, "`L2.1` → `L1.2` → `L2.1` is a cycle; a loop is one node per execution")],
    "arity": [
        (lambda g: g.add_edge("L1.1", "L3.1", kind="hidden"), "`L3.1` has 2 inputs and takes 1"),
        (lambda g: g.remove_edge("L1.1", "L2.1"), "`L2.1` has 0 inputs and takes 1"),
        (lambda g: g.add_edge("L1.1", "input", kind="hidden"), "`input` has 1 input and takes 0"),
        (lambda g: g.add_edge("output", "L3.1", kind="hidden"), "`output` is an output and feeds `L3.1`"),
        (lambda g: g.add_edge("L1.1", "L2.1", kind="x"), "the edge `L1.1` → `L2.1` has kind 'x'; the kinds are 'hidden', 'register', 'branch'"),
    ],
    "reachable": [(lambda g: g.remove_edge("L1.1", "L2.1"), "`L2.1`, `L1.2`, `L3.1`, `output` cannot be reached from the input")],
    "used": [(lambda g: g.remove_edge("L3.1", "output"), "`input`, `L1.1`, `L2.1`, `L1.2`, `L3.1` do not lead to the output")],
    "known-layer": [
        (lambda g: g.nodes["L3.1"].update(layer=4), "`L3.1` runs layer 4, and the layers are 1..3"),
        (lambda g: g.graph.update(dropped=(9,)), "layer 9 is dropped, and the layers are 1..3"),
    ],
    "every-layer": [
        (lambda g: g.graph.update(parameter_depth=4), "of the layers 1..4, 4 is neither run nor in the attribute `dropped`"),
        (lambda g: g.graph.update(dropped=(2,)), "layer 2 is dropped and run"),
    ],
    "visits": [
        (
            lambda g: g.nodes["L1.2"].update(visit=3),
            "`L1.2` is visit 2 of layer 1, and its attribute `visit` says 3",
        )
    ],
    "numbers": [],  # tests/test_verify_flow.py breaks the rules of data flow
    "branches": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "edit", "message"), [(rule, *case) for rule, cases in EDITS.items() for case in cases]
)
def test_each_rule_finds_what_breaks_it(rule, edit, message):
    graph = _graph()
    edit(graph)
    assert (rule, message) in [(failure.rule, failure.message) for failure in dg.failures(graph)]
    with pytest.raises(dg.GraphError) as caught:
        dg.verify(graph)
    assert f"[{rule}] {message}" in str(caught.value)
    assert caught.value.failures == tuple(dg.failures(graph))


def test_every_rule_is_tested_and_explained():
    assert list(EDITS) == list(RULES)
    assert all(rule.__doc__ for rule in RULES.values())


def test_a_cycle_names_exactly_its_nodes():
    graph = _graph()
    _cycle(graph)
    (cycle,) = [failure for failure in dg.failures(graph) if failure.rule == "acyclic"]
    assert set(cycle.nodes) == {"L2.1", "L1.2"}


@pytest.mark.parametrize("graph", [nx.Graph(), nx.MultiDiGraph(), None, "lft(5)", nx.DiGraph()])
def test_what_is_no_graph_of_a_route_is_refused(graph):
    with pytest.raises(dg.GraphError, match="invalid-graph"):
        dg.verify(graph)


def test_a_huge_depth_costs_nothing():
    graph = _graph()
    graph.graph["parameter_depth"] = 10**9 - 1
    (failure,) = dg.failures(graph)
    assert failure.message == "of the layers 1..999999999, 4..999999999 are neither run nor in the attribute `dropped`"


class Shy:
    def __repr__(self):
        raise OSError


@pytest.mark.parametrize(
    "value",
    [[1], {}, 10**5000, Shy(), float("nan"), None, "1", b"1", lambda: 1],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("place", ["kind", "layer", "visit", "iterations", "edge", "dropped", "parameter_depth"])
def test_any_attribute_is_read_or_refused_by_a_rule(place, value):
    graph = _graph()
    match place:
        case "edge":
            graph.edges["L1.1", "L2.1"]["kind"] = value
        case "dropped" | "parameter_depth":
            graph.graph[place] = value
        case _:
            graph.nodes["L2.1"][place] = value
    if (place, type(value)) in {("iterations", list), ("dropped", list)}:
        return
    with pytest.raises(dg.GraphError) as caught:
        dg.verify(graph)
    assert len(str(caught.value)) < 2_000


def test_integers_of_numpy_are_integers():
    graph = _graph("1 2 1 3 drop(4)")
    for node in ("L1.1", "L1.2"):
        graph.nodes[node].update(layer=np.int64(1), visit=np.int32(graph.nodes[node]["visit"]))
    graph.graph.update(parameter_depth=np.int64(4), dropped=[np.int64(4), 4])
    route = dg.from_graph(graph)
    assert route == dg.route("1 2 1 3 drop(4)")
    assert {type(each.layer) for each in route.executions} == {int}


@pytest.mark.parametrize("value", ["lft(5)", None, 5, nx.DiGraph()])
def test_a_graph_is_made_of_a_route_alone(value):
    with pytest.raises(dg.GraphError, match="not-a-route"):
        dg.graph(value)


@given(routes, st.data())
def test_an_edited_graph_is_a_route_or_refused(route, data):
    graph = dg.graph(route)
    nodes = [*graph.nodes, "new"]
    for _ in range(data.draw(st.integers(1, 4))):
        a, b = data.draw(st.sampled_from(nodes)), data.draw(st.sampled_from(nodes))
        match data.draw(st.sampled_from(["add", "remove", "drop", "relabel", "set"])):
            case "add":
                graph.add_edge(a, b, kind="hidden")
            case "remove" if graph.has_edge(a, b):
                graph.remove_edge(a, b)
            case "drop" if a in graph:
                graph.remove_node(a)
            case "relabel" if a in graph and b not in graph:
                graph = nx.relabel_nodes(graph, {a: b})
            case "set" if a in graph:
                graph.nodes[a][data.draw(st.sampled_from(["layer", "visit", "kind", "iterations"]))] = data.draw(
                    st.sampled_from([1, 2, None, "execution"])
                )
    try:
        again = dg.from_graph(graph)
    except dg.GraphError as error:
        assert error.failures
    else:
        assert dg.route(str(again)) == again


def test_an_execution_inserted_by_hand_is_numbered_anew():
    graph = _graph("1 2 3")
    graph.remove_edge("L2.1", "L3.1")
    graph.add_node("again", kind="execution", layer=1)
    graph.add_edge("L2.1", "again")
    graph.add_edge("again", "L3.1")
    with pytest.raises(dg.GraphError):
        dg.verify(graph)
    renumbered = dg.renumbered(graph)
    assert dg.from_graph(renumbered).path == (1, 2, 1, 3)
    assert list(renumbered.nodes) == ["input", "L1.1", "L2.1", "L1.2", "L3.1", "output"]
    assert "again" in graph


def test_names_of_nodes_do_not_matter():
    graph = nx.relabel_nodes(_graph(), {"L1.1": 'a"b:c\\', "input": 0})
    assert dg.from_graph(graph) == dg.route("1 2 1 3")


def test_a_graph_survives_json():
    graph = dg.graph(dg.route("(1 2x2)x2 drop(3)"))
    data = json.loads(json.dumps(nx.node_link_data(graph, edges="edges")))
    again = dg.from_graph(nx.node_link_graph(data, edges="edges"))
    assert again == dg.from_graph(graph)
    assert [each.iterations for each in again.executions] == [
        each.iterations for each in dg.from_graph(graph).executions
    ]


@pytest.mark.parametrize("name", [0, ("L", 1), 2.5, Shy()], ids=lambda value: type(value).__name__)
def test_a_failure_names_nodes_of_any_kind(name):
    graph = nx.relabel_nodes(_graph(), {"L1.1": name})
    graph.remove_edge("input", name)
    (arity,) = [failure for failure in dg.failures(graph) if failure.rule == "arity"]
    shown = re.escape(repr(name)) if not isinstance(name, Shy) else ".*Shy.*"
    assert re.fullmatch(f"`{shown}` has 0 inputs and takes 1", arity.message)
    assert arity.nodes == (name,)
    graph.add_edge("L2.1", name, kind="hidden")
    (cycle,) = [failure for failure in dg.failures(graph) if failure.rule == "acyclic"]
    assert re.search(f"`{shown}`.* is a cycle", cycle.message)
    assert set(cycle.nodes) == {name, "L2.1"}


def test_verify_changes_nothing():
    graph = _graph()
    before = nx.node_link_data(graph, edges="edges")
    assert dg.verify(graph) is graph
    assert nx.node_link_data(graph, edges="edges") == before
