"""Graphs with data flow: built from routes, read back, edited by hand, and the rules that they must keep."""

import json

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import depthgraph as dg

from strategies import flow_routes

HUGINN = "1 save(e) (mix(e) 2..3)x2 4"


def _edges(graph):
    return {(start, end): data for start, end, data in graph.edges(data=True)}


def _same(one, other):
    """Whether two graphs have equal nodes and edges; the names of registers are no part of what they compute."""
    labels = ("load", "register")
    plain = [
        {pair: {key: bool(value) if key in labels else value for key, value in data.items() if key != "load"}
         for pair, data in _edges(graph).items()}
        for graph in (one, other)
    ]  # fmt: skip
    return dict(one.nodes(data=True)) == dict(other.nodes(data=True)) and plain[0] == plain[1]


@given(flow_routes())
def test_a_graph_reads_back_as_a_route_with_the_same_graph(route):
    graph = dg.graph(route)
    again = dg.from_graph(graph)
    assert _same(dg.graph(again), graph)
    assert dg.from_graph(dg.graph(again)) == again
    assert again.path == route.path
    assert [each.iterations for each in again.executions] == [each.iterations for each in route.executions]
    assert again.exits == route.exits


@given(flow_routes())
def test_a_graph_survives_json(route):
    graph = dg.graph(route)
    data = json.loads(json.dumps(nx.node_link_data(graph, edges="edges")))
    assert dg.from_graph(nx.node_link_graph(data, edges="edges")) == dg.from_graph(graph)


@given(flow_routes(), st.randoms(use_true_random=False))
def test_neither_names_nor_the_order_of_nodes_matter(route, random):
    graph = dg.graph(route)
    nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True))
    random.shuffle(nodes)
    random.shuffle(edges)
    shuffled = nx.DiGraph(**graph.graph)
    shuffled.add_nodes_from(nodes)
    shuffled.add_edges_from(edges)
    names = {name: index for index, (name, _) in enumerate(nodes)}
    assert dg.from_graph(nx.relabel_nodes(shuffled, names)) == dg.from_graph(graph)


@pytest.mark.parametrize(
    "text",
    [
        HUGINN,
        "1 save(a) 2 save(b) 3..4 gate(b) 5 gate(a) 6",
        "1 mean(2 | 3 4 | sum(5 | 6) 7)x2 8",
        "save(a) save(b) 1 save(c) load(a) 2 add(b) mix(c)",
        "1 save(a) 2 save(b) load(a) mean(3 | 4) add(b)",
        "1 save(a) mean(2 save(b) 3 add(b) | 4 add(a))",
        "1 save(a) add(a) exit 2 exit stopgrad",
        "1 save(a) mix(a,w1) 2 mix(a,w1) gate(a)",
        "(1..2 exit)x3",
    ],
)
def test_a_route_whose_saves_stand_where_they_are_needed_reads_back_as_it_is(text):
    route = dg.route(text)
    assert dg.from_graph(dg.graph(route)) == route


def test_the_nodes_and_edges_of_data_flow():
    graph = dg.graph(dg.route("1 save(a) 2 mix(a) mean(3 | 4) exit"))
    assert list(graph.nodes) == ["input", "L1.1", "L2.1", "mix.1", "L3.1", "L4.1", "mean.1", "exit.1", "output"]
    assert graph.nodes["mix.1"] == {"kind": "mix", "site": 1, "position": 2, "iterations": (), "step": 1}
    assert graph.nodes["exit.1"] == {"kind": "exit", "index": 1, "position": 4, "iterations": (), "step": 2}
    edges = _edges(graph)
    assert edges["L1.1", "mix.1"] == {"kind": "register", "register": "a"}
    assert edges["L2.1", "mix.1"] == {"kind": "hidden"}
    assert edges["L3.1", "mean.1"] == {"kind": "branch", "branches": (1,)}
    assert edges["mean.1", "exit.1"] == edges["mean.1", "output"] == {"kind": "hidden"}


def test_a_loaded_state_says_from_which_register():
    edges = _edges(dg.graph(dg.route("1 save(a) 2 save(b) load(a) 3 add(b)")))
    assert edges["L1.1", "L3.1"] == {"kind": "hidden", "load": "a"}
    assert edges["L2.1", "add.1"] == {"kind": "register", "register": "b"}


def test_a_state_that_is_added_to_itself_is_one_edge():
    edges = _edges(dg.graph(dg.route("1 save(a) add(a)")))
    assert edges["L1.1", "add.1"] == {"kind": "hidden", "register": "a"}


def _leads_nowhere_else(graph):
    graph.remove_edge("L3.1", "mean.1")
    graph.add_edge("L2.1", "mean.1", kind="branch", branches=(2,))
    graph.remove_node("L3.1")
    graph.graph["dropped"] = (3,)


#: rule → route, edit that breaks the rule, message.
EDITS = {
    "arity": [
        (HUGINN, lambda g: g.remove_edge("L1.1", "mix.1"), "`mix.1` has 0 inputs and takes 1"),
        (HUGINN, lambda g: g.remove_edge("L1.1", "mix.2"), "`mix.2` has 0 operands and takes 1"),
        (HUGINN, lambda g: g.add_edge("L1.1", "L4.1", kind="register"), "`L4.1` has 1 operand and takes 0"),
        ("mean(1 | 2)", lambda g: g.remove_edge("L2.1", "mean.1"), "`mean.1` has 1 branch and takes 2"),
        ("1 exit 2", lambda g: g.add_edge("exit.1", "L2.1", kind="hidden"), "`exit.1` is an exit and feeds `L2.1`"),
        (
            HUGINN,
            lambda g: g.edges["L1.1", "mix.2"].update(register="3 a"),
            "the edge `L1.1` → `mix.2` has register '3 a', which cannot be a name",
        ),
        (
            "mean(1 | 2)",
            lambda g: g.edges["L1.1", "mean.1"].update(branches="1"),
            "the edge `L1.1` → `mean.1` has branches '1', no list of numbers",
        ),
    ],
    "used": [("1 exit 2", lambda g: g.remove_node("exit.1") or g.remove_edge("L2.1", "output"), None)],
    "numbers": [
        (HUGINN, lambda g: g.nodes["mix.1"].update(site=2), "`mix.1` has site 2, and the next one is 1"),
        (HUGINN, lambda g: g.nodes["mix.2"].update(site=3), "`mix.2` has site 3, and the next one is 2, or one before it"),
        (HUGINN, lambda g: g.nodes["mix.2"].pop("site"), "`mix.2` has site None, and the next one is 2, or one before it"),
        ("1 exit 2 exit", lambda g: g.nodes["exit.2"].update(index=1), "`exit.2` has index 1, and the next one is 2"),
    ],
    "branches": [
        (
            "mean(1 | 2)",
            lambda g: g.edges["L2.1", "mean.1"].update(branches=(3,)),
            "`mean.1` has branches 1, 3, and they are numbered from 1",
        ),
        (
            "1 2 mean(3 | 4)",
            _leads_nowhere_else,
            None,
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "text", "edit", "message"), [(rule, *case) for rule, cases in EDITS.items() for case in cases]
)
def test_each_rule_finds_what_breaks_it(rule, text, edit, message):
    graph = dg.graph(dg.route(text))
    edit(graph)
    found = [(failure.rule, failure.message) for failure in dg.failures(graph)]
    assert (rule, message) in found if message else rule in dict(found)
    with pytest.raises(dg.GraphError, match="invalid-graph"):
        dg.from_graph(graph)


def test_a_branch_needs_an_execution_that_leads_nowhere_else():
    graph = dg.graph(dg.route("1 mean(2 | 3)"))
    graph.add_node("add", kind="add", position=3)
    graph.remove_edge("mean.1", "output")
    graph.add_edge("mean.1", "add", kind="hidden")
    graph.add_edge("L2.1", "add", kind="register", register="a")
    graph.add_edge("add", "output", kind="hidden")
    (failure,) = dg.failures(graph)
    assert str(failure) == (
        "[branches] branch 1 of `mean.1` runs no layer; a branch has executions that lead nowhere else"
    )


def test_states_are_joined_by_hand():
    graph = dg.graph(dg.route("1 2 3"))
    graph.remove_edge("L3.1", "output")
    graph.add_node("skip", kind="add")
    graph.add_edge("L3.1", "skip", kind="hidden")
    graph.add_edge("L1.1", "skip", kind="register", register="early")
    graph.add_edge("skip", "output", kind="hidden")
    assert dg.from_graph(graph) == dg.route("1 save(early) 2 3 add(early)")
    assert list(dg.renumbered(graph).nodes)[-2] == "add.1"


def test_branches_by_hand_stay_together_without_positions():
    graph = nx.DiGraph(parameter_depth=5, dropped=())
    for name in "13524":  # in an order that is not that of the branches
        graph.add_node(name, kind="execution", layer=int(name), visit=1)
    graph.add_node("in", kind="input")
    graph.add_node("out", kind="output")
    graph.add_node("join", kind="mean")
    graph.add_edges_from([("in", "1"), ("1", "2"), ("2", "3"), ("1", "4"), ("4", "5"), ("join", "out")], kind="hidden")
    graph.add_edge("3", "join", kind="branch", branches=[1])
    graph.add_edge("5", "join", kind="branch", branches=[2])
    assert dg.from_graph(graph) in (dg.route("1 mean(2..3 | 4..5)"), dg.route("1 mean(4..5 | 2..3)"))
    assert dg.from_graph(graph) == dg.from_graph(dg.renumbered(graph))


def test_an_edited_graph_gets_its_sites_and_exits_numbered_anew():
    graph = dg.graph(dg.route("1 save(a) 2 gate(a) exit 3 gate(a) exit 4"))
    graph.remove_edges_from([("L2.1", "gate.1"), ("L1.1", "gate.1"), ("gate.1", "exit.1"), ("gate.1", "L3.1")])
    graph.remove_nodes_from(["gate.1", "exit.1"])
    graph.add_edge("L2.1", "L3.1", kind="hidden")
    assert {failure.rule for failure in dg.failures(graph)} == {"numbers"}
    assert dg.from_graph(dg.renumbered(graph)) == dg.route("1 save(a) 2 3 gate(a) exit 4")


def test_too_deep_branches_are_a_failure_and_no_crash():
    graph = nx.DiGraph(parameter_depth=1, dropped=())
    graph.add_node("in", kind="input")
    last = "in"
    for visit in range(1, 71):
        graph.add_node(f"a{visit}", kind="execution", layer=1, visit=visit, position=visit)
        graph.add_edge("in", f"a{visit}", kind="hidden")
        if last != "in":
            graph.add_node(f"j{visit}", kind="sum", position=visit)
            graph.add_edge(last, f"j{visit}", kind="branch", branches=(1,))
            graph.add_edge(f"a{visit}", f"j{visit}", kind="branch", branches=(2,))
            last = f"j{visit}"
        else:
            last = "a1"
    graph.add_node("out", kind="output")
    graph.add_edge(last, "out", kind="hidden")
    (failure,) = dg.failures(graph)
    assert str(failure) == "[branches] branches are nested 69 deep, and at most 32"


@given(flow_routes(), st.data())
def test_any_edit_gives_a_route_or_named_failures(route, data):
    graph = dg.graph(route)
    nodes = list(graph.nodes)
    for _ in range(data.draw(st.integers(1, 3))):
        a, b = data.draw(st.sampled_from(nodes)), data.draw(st.sampled_from(nodes))
        kind = data.draw(st.sampled_from(["hidden", "register", "branch"]))
        match data.draw(st.sampled_from(["add", "remove", "drop", "set", "edge"])):
            case "add":
                graph.add_edge(a, b, kind=kind, branches=(data.draw(st.integers(1, 3)),))
            case "remove" if graph.has_edge(a, b):
                graph.remove_edge(a, b)
            case "drop" if a in graph:
                graph.remove_node(a)
            case "set" if a in graph:
                key = data.draw(st.sampled_from(["layer", "visit", "kind", "site", "index", "position"]))
                graph.nodes[a][key] = data.draw(st.sampled_from([1, 2, None, "execution", "add", "mean", "exit"]))
            case "edge" if graph.has_edge(a, b):
                key = data.draw(st.sampled_from(["kind", "register", "load", "branches"]))
                graph.edges[a, b][key] = data.draw(
                    st.sampled_from([None, "a", "hidden", "branch", (1,), [2], [1, 2], "register"])
                )
    try:
        again = dg.from_graph(graph)
    except dg.GraphError as error:
        assert error.failures
    else:
        assert _same(dg.graph(dg.from_graph(dg.graph(again))), dg.graph(again))
