"""Facts on data flow in pictures: every view has every register, branch and exit, and they can be told apart."""

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pygraphviz
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_draw_names import HOSTILE

import depthgraph as dg
from depthgraph.draw import staircase_svg, staircase_text
from depthgraph.draw.flow import PlacedGroup, PlacedStack, leaves
from depthgraph.draw.folded import folded_dot, folded_sheet
from depthgraph.draw.labels import text_width
from depthgraph.draw.mermaid import folded_mermaid, unrolled_mermaid
from depthgraph.draw.palette import FLOW, LOOP
from depthgraph.draw.staircase import staircase, staircase_dot
from depthgraph.draw.structure import Branches, Loop, joins, loop_spans, steps_of, tree
from depthgraph.draw.summary import facts
from depthgraph.draw.tracks import score_of
from depthgraph.draw.unrolled import unrolled_dot, unrolled_sheet, ways
from depthgraph.draw.words import label_of
from depthgraph.flow import State
from depthgraph.operations import Execution, Exit
from depthgraph.route import Route

from strategies import flow_routes, flow_specs

HUGINN = "1..2 save(e) (mix(e) 3..6)x4 7..8"
UNET = "1 save(a) 2 save(b) 3 4 gate(b) 5 gate(a) 6"
PARALLEL = "1..4 (mean(5 | 6 | 7 | 8))x3 9..12"
OURO = "(1..24 exit)x4"
HRM = "save(e) save(h) save(l) ((load(l) add(h) add(e) 1..4 save(l))x2 load(h) add(l) 5..8 save(h))x2"
MIXED = (
    "save(a) 1 mean(exit 3 | mean(load(a) 1 | 2) | 4 add(a) 5) exit save(b) load(a) exit add(b) sum(1 | 2) stopgrad 5"
)
ROUTES = (HUGINN, UNET, PARALLEL, OURO, HRM, MIXED)

#: The few examples that are drawn at random are large: pictures are slow to read back.
FEW = settings(max_examples=40, deadline=None)


def states(route):
    return (*route.flow.states, State("output", hidden=route.flow.output))


def reads(route):
    """Every state that is read: by name, and through which register."""
    known = route.flow.states
    return sorted((known[r.state].name, state.name, r.register or "") for state in states(route) for r in state.reads)


@st.composite
def flows(draw):
    """Routes of specs, whose loops are written, and routes built by program, whose loops are found."""
    if draw(st.booleans()):
        try:
            return draw(flow_specs()).expand()
        except dg.DepthGraphError:
            pass  # a few of these specs have a fault
    return draw(flow_routes())


# the structure


def test_branches_are_in_the_tree_with_their_join():
    (before, loop, after) = tree(dg.route("1 (mean(2 3x2 | 4))x2 5"))
    assert isinstance(loop, Loop)
    assert loop.title == "×2"
    ((branches,), _) = loop.iterations
    assert isinstance(branches, Branches)
    assert branches.join.state.name == "mean.1"
    assert [[step.state.name for step in steps_of(part)] for part in branches.branches] == [
        ["L2.1", "L3.1", "L3.2"],
        ["L4.1"],
    ]
    assert isinstance(branches.branches[0][1], Loop)
    assert (before.state.name, after.state.name) == ("L1.1", "L5.1")


def test_loops_of_data_flow_have_their_columns():
    assert [(s.title, s.first, s.last) for s in loop_spans(tree(dg.route("1 save(a) (add(a) 2 exit)x2 3")))] == [
        ("×2", 2, 7)
    ]


def test_a_loop_that_starts_from_a_register_after_the_first_iteration_still_repeats():
    (_, loop) = tree(dg.route("1 save(a) (add(a) 2 save(b) load(a) add(b) save(a))x2"))
    assert loop.title == "×2"


def test_loops_of_data_flow_built_by_program_are_those_of_its_text():
    written = dg.route(HUGINN)
    built = Route.of_operations(written.operations)
    bare = Route.of_operations(
        [type(o)(**{name: getattr(o, name) for name in o.__match_args__ if name not in ("iterations", "span")})
         if not isinstance(o, Execution) else Execution(1, o.layer, 1) for o in written.operations]
    )  # fmt: skip
    assert not any(o.iterations for o in bare.operations)
    assert folded_dot(bare) == folded_dot(built) == folded_dot(written)


@FEW
@given(flows())
def test_the_tree_has_every_state_in_order(route):
    steps = list(steps_of(tree(route)))
    assert [step.column for step in steps] == list(range(1, len(route.flow.states)))
    assert [step.state.name for step in steps] == [state.name for state in route.flow.states[1:]]


def test_the_summary_names_registers_and_counts_branches_and_exits():
    assert facts(dg.route(MIXED)) == "N = 5 · E = 9 · E/N = 1.8 · registers: a, b · branches: 7 · exits: 3"
    many = " ".join(f"save(r{i})" for i in range(9)) + " 1 " + " ".join(f"add(r{i})" for i in range(9))
    assert "registers: r0, r1, r2, r3, r4, r5 … (9 in all)" in facts(dg.route(many))


# the folded view


def drawn(source):
    """The edges of DOT text: tail, head, label, kind."""
    parsed = pygraphviz.AGraph(string=source)
    for edge in parsed.edges():
        dashed, back = edge.attr["style"] == "dashed", edge.attr["color"] == LOOP
        kind = "wire" if dashed else "back" if back else "exit" if edge.attr["color"] == FLOW else "hop"
        yield edge[0], edge[1], edge.attr["label"] or "", kind


def folded_name(state):
    """What a state is called in the folded view where nodes of one label are taken as one."""
    match state.operation:
        case None:
            return state.name
        case Execution(_, layer):
            return f"L{layer}"
        case operation:
            return label_of(operation)


def folded_reads(route):
    known = route.flow.states
    return {
        (folded_name(known[r.state]), folded_name(state), r.register or "")
        for state in states(route)
        for r in state.reads
        if not isinstance(state.operation, Exit)
    }


def folded_edges(route):
    """The edges of the folded view in the same words; a fork is no node of a route, and gives on what it gets."""
    parsed = pygraphviz.AGraph(string=folded_dot(route))
    labels = {str(node): node.attr["label"] or "" for node in parsed.nodes()}
    forks = {name for name in labels if name.startswith("fork.")}
    direct = [(a, b, text, kind) for a, b, text, kind in drawn(folded_dot(route)) if not b.startswith("exit.")]
    called = {name: name if re.match(r"L\d", name) else labels[name] for name in labels}
    found = set()

    def ends(name):
        return {e for a, b, _, _ in direct if a == name for e in ends(b)} if name in forks else {called[name]}

    for a, b, text, kind in direct:
        if a in forks or (kind == "back" and "load" in text):
            continue
        registers = text.split(", ") if kind == "wire" else [""]
        found |= {(called[a], end, register) for end in ends(b) for register in registers}
    return found


@pytest.mark.parametrize("spec", ROUTES)
def test_the_folded_view_has_every_read_and_no_other(spec):
    route = dg.route(spec)
    assert folded_edges(route) == folded_reads(route)


@FEW
@given(flows())
def test_the_folded_view_of_any_route_has_every_read_and_no_other(route):
    assert folded_edges(route) == folded_reads(route)


@FEW
@given(flows())
def test_every_exit_leaves_the_folded_view_at_what_it_gives_out(route):
    known, found = route.flow.states, 0
    exits = {(folded_name(known[s.hidden.state]), s.hidden.register) for s in known if isinstance(s.operation, Exit)}
    outlets = folded_sheet(route).plan.outlets
    assert len(outlets) == len({(o.tail, o.register) for o in outlets})
    assert {o.register for o in outlets} == {register for _, register in exits}
    assert sorted(i for o in outlets for i in o.indices) == [each.index for each in route.exits]
    for _, head, _, kind in drawn(folded_dot(route)):
        found += head.startswith("exit.") and kind in ("exit", "wire")
    assert found == len(outlets)


def test_huginn_folded():
    edges = set(drawn(folded_dot(dg.route(HUGINN))))
    assert ("L2", "mix.1", "e", "wire") in edges
    assert ("L2", "mix.1", "3", "hop") in edges
    assert ("L6", "mix.1", "×4", "back") in edges
    assert len(edges) == 12


def test_a_way_back_that_drops_h_says_what_is_loaded():
    backs = {edge for edge in drawn(folded_dot(dg.route(HRM))) if edge[3] == "back"}
    assert backs == {("L4", "add.1", "×2 load(l)", "back"), ("L8", "add.1", "×2 load(l)", "back")}


def test_a_loop_of_branches_that_ends_in_a_load_says_so():
    route = dg.route("save(a) 1 (mean(2 | 3) exit load(a))x2 4")
    assert ("mean.1", "fork.1", "×2 load(a)", "back") in set(drawn(folded_dot(route)))
    assert folded_edges(route) == folded_reads(route)


def test_a_loop_of_branches_that_starts_from_a_register_goes_back_to_each_branch():
    route = dg.route("save(a) 1 exit load(a) (mean(2 | 3))x2 4")
    backs = {edge for edge in drawn(folded_dot(route)) if edge[3] == "back"}
    assert {(tail, head) for tail, head, _, _ in backs} == {("mean.1", "L2"), ("mean.1", "L3")}
    assert folded_edges(route) == folded_reads(route)


@pytest.mark.parametrize("spec", ["mean(1x2 | 2 1) 1", "(mean(1x2 | 2) 3)x2", "1 (mean(2 | mean(3 | 4) 5))x2 6"])
def test_a_loop_goes_back_to_what_is_in_it(spec):
    route = dg.route(spec)
    assert folded_edges(route) == folded_reads(route)


def test_all_exits_of_one_layer_are_one_arrow():
    parsed = pygraphviz.AGraph(string=folded_dot(dg.route(OURO)))
    assert parsed.get_node("exit.1").attr["label"] == "exit 1, 2, 3, 4"
    assert parsed.has_edge("L24", "exit.1")


def places(source, *names):
    parsed = pygraphviz.AGraph(string=source)
    return [tuple(map(float, parsed.get_node(name).attr["pos"].split(","))) for name in names]


def test_branches_of_layers_stand_side_by_side_between_their_fork_and_their_join():
    source = folded_dot(dg.route(PARALLEL))
    points = places(source, "L5", "L6", "L7", "L8")
    assert len({y for _, y in points}) == 1
    assert [x for x, _ in points] == sorted({x for x, _ in points})
    (_, fork), (_, join), (_, before), (_, after) = places(source, "fork.1", "mean.1", "L4", "L9")
    assert before < fork < points[0][1] < join < after


@pytest.mark.parametrize(
    "spec", ["1 mean(2 | 1) 3", "1 save(a) mean(2 add(a) | 3) 4", "1 mean(2 | 3) 2", "1 mean(2 exit | 3) 4"]
)
def test_branches_that_other_lines_meet_stand_in_the_column(spec):
    route = dg.route(spec)
    points = places(folded_dot(route), *(f"L{layer}" for layer in range(1, route.parameter_depth + 1)))
    assert {x for x, _ in points} == {0}
    assert [y for _, y in points] == sorted({y for _, y in points})


def test_layers_keep_their_order_in_the_column():
    points = places(folded_dot(dg.route(HRM)), "input", "add.1", "add.2", "L1", "L4", "add.5", "L5", "L8", "output")
    assert [y for _, y in points] == sorted(y for _, y in points)


def label_boxes(column):
    for one in column.drawn:
        width, reach = one.arc.width, 6 if one.arc.is_back else 5
        x, y = one.label_at
        yield one, (x - width / 2, y - reach, x + width / 2, y + reach)


def segments(corners):
    for (x1, y1), (x2, y2) in pairwise(corners):
        yield min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def meet(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@FEW
@given(flows())
def test_no_label_meets_a_line_another_label_or_a_node(route):
    sheet = folded_sheet(route)
    boxes = list(label_boxes(sheet.column))
    nodes = [
        (c.x - c.width / 2, sheet.column.edge(c.row, -0.5), c.x + c.width / 2, sheet.column.edge(c.row, 0.5))
        for c in sheet.rows.cells.values()
    ]
    outlets = [one for one, _ in boxes if one.arc.kind == "outlet"]
    beside = [pair for pair in combinations(boxes, 2) if {pair[0][0].arc.kind, pair[1][0].arc.kind} != {"outlet"}]
    assert not [pair for pair in beside if meet(pair[0][1], pair[1][1])]
    assert len({one.label_at[1] for one in outlets}) == len(outlets)
    for _, box in boxes:
        assert not [s for one in sheet.column.drawn for s in segments(one.corners) if meet(box, s)]
        assert not [node for node in nodes if meet(box, node)]


# the unrolled view


@FEW
@given(flows())
def test_the_unrolled_view_has_every_read_once_and_no_other(route):
    edges = list(drawn(unrolled_dot(route)))
    labels = pygraphviz.AGraph(string=unrolled_dot(route))
    loaded = re.compile(r"load\((\w+)\)")
    found = []
    for tail, head, text, kind in edges:
        exit_load = loaded.search(labels.get_node(head).attr["label"]) if head.startswith("exit.") else None
        register = exit_load[1] if exit_load else text
        assert (kind == "wire") == bool(register)
        found.append((tail, head, register))
    assert sorted(found) == reads(route)


@pytest.mark.parametrize("spec", ROUTES)
def test_the_unrolled_view_has_the_nodes_of_the_graph(spec):
    route = dg.route(spec)
    assert set(pygraphviz.AGraph(string=unrolled_dot(route)).nodes()) == set(dg.graph(route).nodes)


def test_branches_of_layers_stand_above_one_another():
    source = unrolled_dot(dg.route(PARALLEL))
    points = places(source, "L5.1", "L6.1", "L7.1", "L8.1")
    assert len({x for x, _ in points}) == 1
    assert [y for _, y in points] == sorted({y for _, y in points}, reverse=True)
    ((join, _),) = places(source, "mean.1")
    assert join > points[0][0]


def frames(parsed):
    return [[frame.graph_attr["label"], *frames(frame)] for frame in parsed.subgraphs()]


def test_branches_that_registers_lead_into_have_frames():
    found = frames(pygraphviz.AGraph(string=unrolled_dot(dg.route("1 save(a) mean(2 add(a) 3 | 4) 5"))))
    assert found == [["mean", ["branch 1 of 2"], ["branch 2 of 2"]]]


def test_branches_that_begin_a_branch_start_from_a_state_further_away_and_have_frames():
    found = frames(pygraphviz.AGraph(string=unrolled_dot(dg.route("1 mean(2 | mean(3 | 4) 5) 6"))))
    assert found == [["mean", ["branch 1 of 2"], ["branch 2 of 2", ["mean", ["branch 1 of 2"], ["branch 2 of 2"]]]]]


def test_exits_stand_above_what_they_give_out():
    source = unrolled_dot(dg.route("(1..2 exit)x2"))
    for name, at in (("exit.1", "L2.1"), ("exit.2", "L2.2")):
        (_, high), (_, low) = places(source, name, at)
        assert high > low


def placed_boxes(placed):
    """Every node with its border, and the titles' frames."""
    for one in leaves(placed):
        half = one.leaf.height / 2
        yield one.left, -one.y - half, one.right, -one.y + half


def inside(segment, box):
    x1, y1, x2, y2 = segment
    return x1 < box[2] - 0.01 and x2 > box[0] + 0.01 and y1 < box[3] - 0.01 and y2 > box[1] + 0.01


@FEW
@given(flows())
def test_no_line_crosses_a_node_of_the_unrolled_view(route):
    sheet = unrolled_sheet(route)
    lines = [corners for _, _, corners in ways(sheet)] + [routed.corners for routed in sheet.router.routed()]
    boxes = list(placed_boxes(sheet.placed))
    assert not [(s, box) for corners in lines for s in segments(corners) for box in boxes if inside(s, box)]


@FEW
@given(flows())
def test_lines_of_two_states_do_not_lie_on_each_other(route):
    router = unrolled_sheet(route).router
    found = [(routed.wire.net, s) for routed in router.routed() for s in segments(routed.corners)]
    for (net, a), (other, b) in combinations(found, 2):
        if net == other:
            continue
        across = a[1] == a[3] == b[1] == b[3] and a[0] < b[2] and b[0] < a[2]
        upright = a[0] == a[2] == b[0] == b[2] and a[1] < b[3] and b[1] < a[3]
        assert not across
        assert not upright


@FEW
@given(flows())
def test_the_names_of_registers_keep_their_distance_in_the_unrolled_view(route):
    sheet = unrolled_sheet(route)
    labels = []
    for routed in sheet.router.routed():
        half = text_width(routed.wire.label, 9) / 2
        x, y = routed.label_at
        labels.append((x - half, y - 4.5, x + half, y + 4.5))
    labels = [label for label in labels if label[0] < label[2]]
    assert not [pair for pair in combinations(labels, 2) if meet(*pair)]
    assert not [(label, box) for label in labels for box in placed_boxes(sheet.placed) if meet(label, box)]


def boxed(placed):
    for one in placed:
        match one:
            case PlacedGroup():
                yield one.left, one.top, one.right, one.bottom
                yield from boxed(one.boxes)
            case PlacedStack():
                for branch in one.branches:
                    yield from boxed(branch)


@FEW
@given(flows())
def test_frames_hold_each_other_or_lie_apart(route):
    for a, b in combinations(list(boxed(unrolled_sheet(route).placed)), 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        holds = a[0] < b[0] and a[1] < b[1] and b[2] < a[2] and b[3] < a[3]
        assert apart or holds


# Mermaid

EDGE = re.compile(r'^  (\w+) (-->|==>|-\.->)(?:\|"([^"]*)"\|)? (\w+)$', re.M)
LINE = re.compile(
    r'  +(?:\w+(?:\("[^"]+"\)|\(\["[^"]+"\]\)|\(\(" "\)\)|>"[^"]+"\])'
    r'|\w+ (?:-->|==>|-\.->)(?:\|"[^"]+"\|)? \w+'
    r'|classDef \w+ [\w#:,\- ]+|class [\w,]+ \w+|linkStyle [\d,]+ [\w#:,]+|subgraph \w+\["[^"]+"\]|end)'
)


def plain(text):
    return re.sub(r"#(\d+);", lambda code: chr(int(code[1])), text or "")


@FEW
@given(flows())
def test_mermaid_unrolled_has_every_read(route):
    text = unrolled_mermaid(route)
    known = {"start": "input", "finish": "output"}
    found = sorted(
        (*(known.get(name, re.sub(r"_(?=\d+$)", ".", name)) for name in (a, b)), plain(label))
        for a, _, label, b in EDGE.findall(text)
    )
    assert found == reads(route)
    assert {bool(label) == (arrow == "-.->") for _, arrow, label, _ in EDGE.findall(text)} == {True}


@FEW
@given(flows())
def test_mermaid_folded_has_the_edges_of_the_folded_view(route):
    arrows = {"hop": "-->", "exit": "-->", "back": "==>", "wire": "-.->"}
    ends = {"input": "start", "output": "finish"}
    expected = sorted(
        (
            *(ends.get(name, name.replace(".", "_")) for name in (a, b)),
            label,
            "-->" if b[:5] == "exit." else arrows[kind],
        )
        for a, b, label, kind in drawn(folded_dot(route))
    )
    found = EDGE.findall(folded_mermaid(route))
    assert sorted((a, b, plain(label), arrow) for a, arrow, label, b in found) == expected


@FEW
@given(flows())
def test_mermaid_has_lines_of_known_forms_only(route):
    for text in (folded_mermaid(route), unrolled_mermaid(route)):
        first, *lines = text.splitlines()
        assert re.fullmatch(r"flowchart (BT|LR|TB)", first)
        assert [line for line in lines if not LINE.fullmatch(line)] == []
        assert text.count("subgraph ") == sum(line.strip() == "end" for line in lines)


def test_mermaid_colours_the_lines_of_registers_and_ways_back():
    text = folded_mermaid(dg.route(HUGINN))
    edges = EDGE.findall(text)
    for arrow, colour in (("-.->", FLOW), ("==>", LOOP)):
        numbers = ",".join(str(i) for i, edge in enumerate(edges) if edge[1] == arrow)
        assert f"linkStyle {numbers} stroke:{colour},color:{colour}" in text


# the staircase


@FEW
@given(flows())
def test_the_rows_of_the_staircase_have_every_read_and_every_join(route):
    items = tree(route)
    score = score_of(route, items)
    tracks = [track for track in score.tracks if track.is_register]
    found = [
        (span.first, mark.column, track.label, mark.sign)
        for track in tracks for span in track.spans for mark in span.marks[1:]
    ]  # fmt: skip
    expected = [
        (read.state, column, read.register, "read" if read is state.operand else "load")
        for column, state in enumerate(states(route)) for read in state.reads if read.register
    ]  # fmt: skip
    assert sorted(found) == sorted(expected)
    marks = [mark for track in score.tracks if not track.is_register for span in track.spans for mark in span.marks]
    branches = [branch for item in joins(items) for branch in item.branches]
    assert sum(mark.sign == "fork" for mark in marks) == len(branches)
    computed = [c for c, s in enumerate(route.flow.states) if s.operation and not isinstance(s.operation, Execution)]
    assert sorted(mark.column for mark in marks if mark.sign != "fork") == computed


@FEW
@given(flows())
def test_spans_of_one_row_do_not_overlap(route):
    for track in score_of(route, tree(route)).tracks:
        assert all(a.last < b.first + track.is_register for a, b in pairwise(track.spans))


@FEW
@given(flows())
def test_the_text_has_a_sign_for_every_read_in_its_row_and_column(route):
    text = staircase_text(route, width=10_000)
    first = score_of(route, tree(route)).first
    rows = [line.split(" │ ", 1) for line in text.splitlines() if " │ " in line]

    def signs(label, place):
        at = 2 * (place[0] - first) + place[1]
        return {row[at : at + 1] for name, row in rows if name.strip() == label}

    for column, state in enumerate(states(route)):
        for read in state.reads:
            if read.register:
                assert {"▲" if read is state.operand else "△", "■"} & signs(read.register, (column, 0))
                assert "●" in signs(read.register, (read.state, 1))
        if isinstance(state.operation, Execution):
            assert "█" in signs(f"L{state.operation.layer}", (column, 0))
        elif state.operation is not None:
            sign = str(state.operation.index)[0] if isinstance(state.operation, Exit) else "◆"
            assert sign in signs(state.name.split(".")[0], (column, 0))


@FEW
@given(flows())
def test_ascii_text_is_ascii_and_as_wide_as_the_terminal(route):
    text = staircase_text(route, width=40, ascii=True).split("\n", 1)[1]
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 40


@FEW
@given(flows())
def test_the_svg_is_xml_whose_colours_are_all_said_for_both_themes(route):
    text = staircase_svg(route)
    root = ElementTree.fromstring(text)
    assert root.find("{http://www.w3.org/2000/svg}title").text
    light, dark = text.split("prefers-color-scheme:dark")
    for name in set(re.findall(r'class="(dg-[a-z-]+)"', text)):
        assert f".depthgraph .{name}{{" in light
        assert f".depthgraph .{name}{{" in dark
    assert pygraphviz.AGraph(string=staircase_dot(route)).nodes() == ["canvas"]


def test_the_lines_of_registers_are_dashed_and_their_rows_named():
    scene = staircase(dg.route(UNET))
    dashed = [shape for shape in scene.shapes if getattr(shape, "dashed", False)]
    assert len(dashed) == 2
    assert {"a", "b", "gate"} <= {getattr(shape, "text", None) for shape in scene.shapes}
    assert staircase_svg(dg.route(UNET)).count("stroke-dasharray") == 2


def test_a_register_that_keeps_the_input_has_a_column_for_it():
    score = score_of(*(lambda route: (route, tree(route)))(dg.route("save(a) 1 add(a) 2")))
    assert (score.first, score.last) == (0, 3)
    assert score.executed == (1, 3)


TEXT = """\
N = 5  E = 6  E/N = 1.2  register: e  branches: 2  exits: 2

           ╭─── ×2 ───╮
  L5 │                   █▌
  L4 │                 █▌
  L3 │       █▌    █▌
  L2 │   █▌
  L1 │ █▌
 add │     ◆     ◆
mean │                 ├─┼─◆
exit │         1     2
   e │    ●▲╌╌╌╌╌▲
     └─┴─┴───┴─────┴───┴─┴───
       1 2   3     4   5 6

● saved  ▲ read
"""


def test_text_of_data_flow():
    assert staircase_text(dg.route("1..2 save(e) (add(e) 3 exit)x2 mean(4 | 5)")) == TEXT


def test_one_register_can_be_loaded_and_read_at_once():
    lines = staircase_text(dg.route("1 save(e) exit load(e) add(e) save(e) 2 add(e)"), ascii=True).splitlines()
    assert "   e |  o..%o..^" in lines
    assert lines[-1] == "o saved  ^ read  = loaded as h  % both"


# size, names


def test_long_routes_with_data_flow_stay_small_files():
    assert len(staircase_svg(dg.route("1..2 save(e) (mix(e) 3..6 exit)x1000 7..8"))) < 300_000


@pytest.mark.parametrize(
    ("draw", "spec"),
    [
        (folded_dot, "1 save(a) " + "gate(a) 1 " * 2_100),
        (unrolled_dot, "1 save(a) (add(a) 1)x1001"),
        (staircase_svg, " ".join(f"save(r{i})" for i in range(2_001)) + " 1 " + " ".join(f"add(r{i})" for i in range(2_001))),
        (folded_mermaid, "1 save(a) " + "gate(a) 1 " * 300),
        (unrolled_mermaid, "1 save(a) (add(a) 1)x200"),
    ],
)  # fmt: skip
def test_what_nobody_can_read_is_refused(draw, spec):
    with pytest.raises(dg.DrawError) as caught:
        draw(dg.route(spec))
    assert caught.value.code == "too-large-to-draw"


def test_a_long_name_of_a_register_is_clipped():
    name = "r" * 60
    route = dg.route(f"1 save({name}) 2 add({name}) 3")
    for draw in (folded_dot, unrolled_dot, folded_mermaid, unrolled_mermaid, staircase_text):
        assert "r" * 15 in draw(route)
        assert "r" * 17 not in draw(route)


@pytest.mark.parametrize("name", ["end", "graph", "subgraph", "class", "style", "click", "_", "a_b", "default"])
def test_names_of_registers_that_mean_something_elsewhere_are_shown_as_they_are(name):
    route = dg.route(f"1 save({name}) 2 add({name}) 3")
    assert (("L1", "add.1", name, "wire")) in set(drawn(folded_dot(route)))
    assert [plain(label) for _, arrow, label, _ in EDGE.findall(folded_mermaid(route)) if arrow == "-.->"] == [name]
    assert [line for line in folded_mermaid(route).splitlines()[1:] if not LINE.fullmatch(line)] == []


@pytest.mark.parametrize("text", HOSTILE)
def test_names_of_layers_change_nothing_but_labels(text):
    route, names = dg.route("1 save(a) mean(2 | 3) add(a) exit 2"), [text] * 3
    for draw in (folded_dot, unrolled_dot):
        plain_picture, named = (pygraphviz.AGraph(string=draw(route, given)) for given in (None, names))
        assert (named.nodes(), named.edges()) == (plain_picture.nodes(), plain_picture.edges())
    assert len(list(ElementTree.fromstring(staircase_svg(route, names)).iter())) == len(
        list(ElementTree.fromstring(staircase_svg(route)).iter())
    )
    for draw in (folded_mermaid, unrolled_mermaid):
        assert len(draw(route, names).splitlines()) == len(draw(route).splitlines())
