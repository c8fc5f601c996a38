"""Data flow: what a spec's operations are, which state each of them reads, and whose weights it has."""

import copy
import pickle
from types import MappingProxyType

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph import syntax as tree
from depthgraph.flow import trace
from depthgraph.operations import (
    Add,
    DataFlow,
    Execution,
    Exit,
    Gate,
    Load,
    Mean,
    Mix,
    Save,
    StopGradient,
    Sum,
    numbered,
    rebuilt,
    walk,
)
from depthgraph.parser import Limits, parse_definition
from depthgraph.route import Route
from depthgraph.schemes import Scheme
from depthgraph.source import Source

from oracle import NoRouteError, layers_of, program, resolve, run_spec
from strategies import flow_routes, flow_specs

WORDS = {Save: "save", Load: "load", Add: "add", Mix: "mix", Gate: "gate", Mean: "mean", Sum: "sum"}
WORDS |= {StopGradient: "stopgrad", Exit: "exit", Execution: "run"}


def _as_items(operations):
    """Return operations in the form of the interpreter's items, with sites in place of what they are told by."""
    items = []
    for each in operations:
        match each:
            case Execution(layer=layer):
                items.append(layer)
            case Mean(branches) | Sum(branches):
                items.append((WORDS[type(each)], [_as_items(branch) for branch in branches]))
            case Mix(register, site) | Gate(register, site):
                items.append((WORDS[type(each)], register, site))
            case StopGradient() | Exit():
                items.append((WORDS[type(each)],))
            case _:
                items.append((WORDS[type(each)], each.register))
    return items


def _with_sites(items, known=None):
    """Number the weights of the interpreter's items in the order in which they first run."""
    known = {"mix": {}, "gate": {}} if known is None else known
    result = []
    for item in items:
        match item:
            case ("mean" | "sum", branches):
                result.append((item[0], [_with_sites(branch, known) for branch in branches]))
            case ("mix" | "gate", name, key):
                sites = known[item[0]]
                result.append((item[0], name, sites.setdefault(key, len(sites) + 1)))
            case _:
                result.append(item)
    return result


def _as_states(flow):
    """Return the states of a flow in the form of the interpreter's."""
    states = []
    for state in flow.states:
        word, reads = WORDS[type(state.operation)] if state.operation else "input", [each.state for each in state.reads]
        match state.operation:
            case Execution(layer=layer):
                states.append((word, layer, *reads))
            case Mix(site=site) | Gate(site=site):
                states.append((word, site, *reads))
            case Mean() | Sum():
                states.append((word, tuple(reads)))
            case _:
                states.append((word, *reads))
    return states, flow.output.state


def _expected(spec, depth):
    """Return the items that a spec runs, or the code of its error."""
    try:
        items = program(spec, depth, dg.schemes())
        run = set(layers_of(items))
        if any(layer not in run for layer in range(1, (depth or max(run)) + 1)) and "drop(" not in str(spec):
            return "unused-layer"
        resolve(items)
    except NoRouteError as error:
        return str(error)
    return items


def _registers(items):
    for item in items:
        if isinstance(item, tuple):
            yield from [item[1]] if item[0] in ("save", "load", "add", "mix", "gate") else []
            yield from _registers([each for branch in item[1] for each in branch] if item[0] in ("mean", "sum") else [])


def _renamed(items, route):
    """Give registers of library schemes the names that they have in a route: any, but no two the same."""
    pairs = set(zip(_registers(items), _registers(_as_items(route.operations)), strict=True))
    names = dict(pairs)
    assert len(pairs) == len(names) == len(set(names.values()))
    assert all(old == new for old, new in pairs if isinstance(old, str))

    def change(item):
        match item:
            case ("mean" | "sum", branches):
                return (item[0], [list(map(change, branch)) for branch in branches])
            case (word, name, *key):
                return (word, names[name], *key)
            case _:
                return item

    return [change(item) for item in items]


@given(flow_specs(), st.sampled_from([None, None, None, 4, 5]))
def test_a_spec_is_what_an_independent_interpreter_says_or_the_same_error(spec, depth):
    expected = _expected(spec, depth)
    try:
        route = spec.expand(**({"N": depth} if depth else {}))
    except dg.SpecError as error:
        assert error.code == expected or (error.code == "unused-layer" and depth)
    else:
        assert _as_items(route.operations) == _with_sites(_renamed(expected, route))
        assert _as_states(route.flow) == resolve(_with_sites(expected))
        assert route.path == tuple(layers_of(expected))


def test_the_interpreter_computes_what_data_flow_means():
    """The oracle itself, by hand: every form, over numbers."""

    def value(text, h=1):
        layers, mix, gate = (lambda k, h: 10 * h + k), (lambda _, h, a: 1000 * h + a), (lambda _, h, a: h + a / 2)
        return run_spec(dg.parse(text), layers, mix, gate, h)

    assert value("1 2") == (112, ())
    assert value("save(a) 1 add(a)") == (12, ())
    assert value("save(a) 1 mix(a)") == (11001, ())
    assert value("save(a) 1 gate(a)") == (11.5, ())
    assert value("1 save(a) 2 exit load(a) 3") == (113, (112,))
    assert value("mean(1 | 2 | 3)") == (12, ())
    assert value("sum(1 | 2 exit) stopgrad") == (23, (12,))
    assert value("save(a) (add(a) 1)x2") == (221, ())
    assert value("1 save(a) mean(save(a) 2 add(a) | add(a) 3) add(a)") == ((112 + 11 + 223) / 2 + 11, ())
    with pytest.raises(NoRouteError, match="unused-result"):
        value("save(a) 1 load(a)")


@given(flow_routes())
def test_a_route_by_program_is_its_operations(route):
    assert Route(route.parameter_depth, route.operations, route.dropped) == route
    assert Route.of_operations(route.operations, route.parameter_depth) == route
    assert numbered(route.operations) == route.operations == rebuilt(route.operations, lambda each: each)
    assert _as_states(route.flow) == resolve(_as_items(route.operations))


@given(flow_routes())
def test_measures_count_the_executions_of_all_branches(route):
    assert route.path == tuple(layers_of(_as_items(route.operations)))
    assert route.execution_depth == sum(route.reuse_map) == len(route.executions)
    assert [each.position for each in route.executions] == list(range(1, route.execution_depth + 1))
    assert route.is_chain == all(isinstance(each, Execution) for each in walk(route.operations))
    assert len(route.data_flow) + len(route.executions) == len(list(walk(route.operations)))
    assert [each.index for each in route.exits] == list(range(1, len(route.exits) + 1))
    assert set(route.path) | set(route.dropped) == set(range(1, route.parameter_depth + 1))


# Whose weights.


def _sites(text, **bindings):
    return [
        (WORDS[type(each)], each.site) for each in dg.route(text, bindings).data_flow if isinstance(each, Mix | Gate)
    ]


def test_a_loop_shares_its_weights():
    assert _sites("save(e) (mix(e) 1)x3") == [("mix", 1)] * 3
    assert _sites("save(e) ((gate(e) 1)x2 1)x2") == [("gate", 1)] * 4


def test_a_comprehension_shares_its_weights():
    assert _sites("save(e) (mix(e) i for i in 1..3)") == [("mix", 1)] * 3


def test_two_places_have_weights_of_their_own():
    assert _sites("save(e) mix(e) 1 mix(e) 1") == [("mix", 1), ("mix", 2)]
    assert _sites("save(e) mean(1 mix(e) | 1 mix(e))") == [("mix", 1), ("mix", 2)]


def test_places_with_one_name_share_their_weights():
    assert _sites("save(e) mix(e,w) 1 mix(e) 1 mix(e,w)") == [("mix", 1), ("mix", 2), ("mix", 1)]
    assert _sites("save(a) 1 save(b) gate(a,w) 1 gate(b,w)") == [("gate", 1), ("gate", 1)]


def test_weights_of_mix_and_of_gate_are_numbered_apart():
    assert _sites("save(e) mix(e) 1 gate(e) 1 mix(e)") == [("mix", 1), ("gate", 1), ("mix", 2)]


def test_a_definition_is_one_place():
    assert _sites("save(e) core 1 core where core=mix(e) 1") == [("mix", 1)] * 2
    assert _sites("save(e) f(1) f(2) where f(k)=mix(e) k") == [("mix", 1)] * 2


def test_a_node_that_a_tree_has_twice_is_two_places():
    mix, layer = tree.Access("mix", "e"), tree.Layer(tree.Integer(1))
    spec = tree.RouteSpec(tree.Sequence((tree.Access("save", "e"), mix, layer, mix)))
    assert [each.site for each in spec.expand().data_flow if isinstance(each, Mix)] == [1, 2]


LIBRARY = [
    "one(n) = save(e) (mix(e) 1..n)x2",
    "two(n) = save(e) (mix(e) 1..n)x2",
    "both(n) = one(n) two(n)",
    "named(n) = save(e) mix(e,w) 1..n mix(e,w)",
    "pair(n) = save(e) 1..n save(e2) add(e) add(e2)",
]


@pytest.fixture
def library(monkeypatch):
    """A scheme library of these lines; two of them have a `mix` in the same column."""
    definitions = [parse_definition(Source(line)) for line in LIBRARY]
    read = MappingProxyType({each.name: Scheme(each, str(each), "", "", "", "") for each in definitions})
    for module in ("evaluate", "names"):
        monkeypatch.setattr(f"depthgraph.{module}.library", lambda: read)


@pytest.mark.usefixtures("library")
def test_each_call_of_a_library_scheme_is_a_place_of_its_own():
    assert _sites("one(2) one(2)") == [("mix", site) for site in (1, 1, 2, 2)]
    assert _sites("(one(2))x2") == [("mix", 1)] * 4
    assert _sites("core core where core=one(2)") == [("mix", 1)] * 4
    assert _sites("both(2)") == [("mix", site) for site in (1, 1, 2, 2)]


@pytest.mark.usefixtures("library")
def test_names_of_weights_in_a_library_scheme_are_those_of_its_call():
    assert _sites("save(a) mix(a,w) named(2) mix(a,w) named(2)") == [("mix", site) for site in (1, 2, 2, 1, 3, 3)]


@pytest.mark.usefixtures("library")
def test_registers_of_a_library_scheme_are_none_of_the_specs():
    route = dg.route("1 save(e) 2 pair(2) add(e)")
    assert route.flow.states[-1].operand.state == 1
    assert [each.register for each in route.data_flow] == ["e", "e2", "e22", "e2", "e22", "e"]
    with pytest.raises(dg.SpecError, match="unknown-register"):
        dg.route("pair(2) add(e)")


# What is visible where.


def test_a_register_has_what_was_saved_last():
    flow = dg.route("1 save(a) 2 save(a) 3 add(a)").flow
    assert flow.states[-1].operand == (2, "a")


def test_a_branch_sees_the_registers_around_it():
    flow = dg.route("1 save(a) mean(add(a) 2 | 3 sum(4 add(a) | 5))").flow
    assert [state.operand for state in flow.states if state.operand] == [(1, "a"), (1, "a")]


def test_a_branch_keeps_what_it_saves():
    flow = dg.route("1 save(a) mean(2 save(a) 3 add(a) | 4 add(a)) add(a)").flow
    assert [state.operand.state for state in flow.states if state.operand] == [2, 1, 1]


def test_every_branch_starts_from_the_same_state():
    flow = dg.route("1 sum(2 | 3 | 4) 5").flow
    assert [(state.name, state.reads) for state in flow.states[2:]] == [
        ("L2.1", ((1, None),)),
        ("L3.1", ((1, None),)),
        ("L4.1", ((1, None),)),
        ("sum.1", ((2, None), (3, None), (4, None))),
        ("L5.1", ((5, None),)),
    ]


def test_load_and_save_compute_nothing():
    flow = dg.route("1 save(a) save(b) load(a) load(b) 2 exit").flow
    assert [state.name for state in flow.states] == ["input", "L1.1", "L2.1", "exit.1"]
    assert flow.states[2].reads == ((1, "b"),)
    assert flow.output.state == 2


def test_an_exit_is_a_reader_and_passes_nothing_on():
    route = dg.route("save(a) 1 exit load(a) 2")
    assert [state.reads for state in route.flow.states[1:]] == [((0, None),), ((1, None),), ((0, "a"),)]


@pytest.mark.parametrize(
    "text",
    [
        "save(a) 1 add(a)",
        "save(a) (add(a) 1 save(a))x3",
        "1 save(a) mean(2 | 3) add(a)",
        "mean(save(a) 1 add(a) | save(a) 2 add(a))",
        "(save(a) 1 add(a) for i in 1..3)",
        "save(a) 1 exit load(a)",
        "1 exit exit stopgrad",
        "save(l) save(h) ((load(l) add(h) 1 save(l))x2 load(h) add(l) 2 save(h))x2",
    ],
)
def test_data_flow_that_means_a_route(text):
    route = dg.route(text)
    assert _as_states(route.flow) == resolve(_with_sites(program(dg.parse(text))))


# Places, loops, limits.


def test_an_operation_knows_where_it_is_written():
    text = "1 save(e) (mix(e) mean(2 | 3 exit) stopgrad)x2 core where core=gate(e)"
    operations = list(walk(dg.route(text).operations))
    written = [text[each.span.start : each.span.end] for each in operations]
    loop = ["mix(e)", "2", "3", "exit", "mean(2 | 3 exit)", "stopgrad"]
    assert written == ["1", "save(e)", *loop, *loop, "gate(e)"]


def test_positions_and_visits_count_in_the_order_of_the_text():
    executions = dg.route("1 mean(2 1 | sum(1 | 2)) 1").executions
    assert [(each.position, each.layer, each.visit) for each in executions] == [
        (1, 1, 1),
        (2, 2, 1),
        (3, 1, 2),
        (4, 1, 3),
        (5, 2, 2),
        (6, 1, 4),
    ]


def test_operations_say_which_iteration_of_which_loop_they_are():
    operations = list(walk(dg.route("(save(a) mean(1x2 | add(a) 2))x2 exit").operations))
    assert [(WORDS[type(each)], each.iterations) for each in operations][:7] == [
        ("save", ((1, 1, 2),)),
        ("run", ((1, 1, 2), (2, 1, 2))),
        ("run", ((1, 1, 2), (2, 2, 2))),
        ("add", ((1, 1, 2),)),
        ("run", ((1, 1, 2),)),
        ("mean", ((1, 1, 2),)),
        ("save", ((1, 2, 2),)),
    ]
    assert operations[-1].iterations == ()


def test_a_loop_of_data_flow_alone_has_iterations():
    exits = dg.route("1 (exit)x2").exits
    assert [each.iterations for each in exits] == [((1, 1, 2),), ((1, 2, 2),)]


def test_a_fill_goes_on_behind_the_layers_of_all_branches():
    assert dg.route("... mean(2 | 4 3) ... 7").path == (1, 2, 4, 3, 5, 6, 7)
    assert dg.route("exit ... save(a) 3 add(a) ...", N=4).path == (1, 2, 3, 4)


def test_a_branch_may_drop_layers():
    assert dg.route("mean(1 drop(3) | 2)").dropped == (3,)


def test_operations_of_data_flow_count_towards_the_limit():
    assert len(dg.route("1 (exit)x10", limits=Limits(executions=11)).operations) == 11
    for text in ("1 (exit)x11", "mean(1x5 | 2x6)", "1 (save(a) add(a))x6", "(1 exit for i in 1..6)"):
        with pytest.raises(dg.SpecError, match="too-many-executions"):
            dg.route(text, limits=Limits(executions=11))


def test_the_limit_is_kept_by_arithmetic():
    for text in ("1 (exit)x999999999", "(mean(1 | 2))x999999999", "1 (((exit)x999)x999)x999"):
        with pytest.raises(dg.SpecError, match="too-many-executions"):
            dg.route(text)


def test_branches_nest_half_as_deep_as_parentheses():
    def nested(depth):
        return "mean(" * depth + "1" + " | 1)" * depth

    assert dg.route(nested(32)).execution_depth == 33
    with pytest.raises(dg.SpecError, match="too-deep"):
        dg.route(nested(33))


# Equality, copies, order.


def test_how_data_flow_was_written_takes_no_part_in_equality():
    one, two = dg.route("save(e) (mix(e) 1)x2"), dg.route("save(e) mix(e,w) 1 mix(e,w) 1")
    assert one == two
    assert hash(one) == hash(two)


@pytest.mark.parametrize(
    "text",
    [
        "save(e) mix(e) 1 mix(e) 1",
        "save(a) (mix(a) 1)x2",
        "save(e) (gate(e) 1)x2",
        "save(e) (mix(e) 1)x2 stopgrad",
        "save(e) (mix(e) 1)x2 exit",
        "(save(e) mix(e) 1)x2",
    ],
)
def test_other_data_flow_is_another_route(text):
    assert dg.route(text) != dg.route("save(e) (mix(e) 1)x2")


def test_the_order_of_branches_is_part_of_a_route():
    assert dg.route("mean(1 | 2)") != dg.route("mean(2 | 1)")
    assert dg.route("mean(1 | 2)") != dg.route("sum(1 | 2)")


@given(flow_specs())
def test_copies_and_pickles_keep_operations_and_where_they_come_from(spec):
    try:
        route = spec.expand()
    except dg.SpecError:
        return
    _ = route.flow
    for again in (pickle.loads(pickle.dumps(route)), copy.deepcopy(route), copy.copy(route)):
        assert again == route
        assert hash(again) == hash(route)
        places = [(each.iterations, each.span) for each in walk(again.operations)]
        assert places == [(each.iterations, each.span) for each in walk(route.operations)]


class Config(pydantic.BaseModel):
    route: dg.Route


def test_a_route_with_data_flow_is_a_pydantic_field():
    config = Config(route="1 save(a) (mix(a) 2)x2 exit")
    assert Config.model_validate_json(config.model_dump_json()) == config
    with pytest.raises(pydantic.ValidationError, match="unused-register"):
        Config(route="1 save(a) 2")


def test_routes_with_data_flow_are_ordered_by_their_text():
    routes = [dg.route(text) for text in ("mean(1 | 2)", "1 exit 2", "1..2", "save(a) 1..2 add(a)")]
    assert [str(route) for route in sorted(routes)] == sorted(map(str, routes))


# Routes by program.

RUN = Execution(1, 1, 1)


def test_operations_by_program_are_numbered_anew():
    run, exit = Execution(9, 1, 9), Exit(5)
    mix, other = Mix("e", 7), Mix("e", 3)
    route = Route.of_operations(
        [Save("e"), run, mix, exit, other, run, mix, exit, Gate("e", 7), Mean(((run,), (run,)))]
    )
    assert route == dg.route("save(e) 1 mix(e,w) exit mix(e) 1 mix(e,w) exit gate(e) mean(1 | 1)")
    assert Route.of_operations(iter([run, Execution(1, 3, 1)])) == dg.route("1 drop(2) 3")
    assert Route.of_operations([run], 3) == dg.route("1 drop(2..3)")


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([RUN], "are a tuple; found a list"),
        ((RUN, "exit"), "a str stands where an operation is needed"),
        ((RUN, DataFlow()), "a DataFlow stands where"),
        ((Execution(1, "1", 1),), "layers are integers"),
        ((Execution(1, True, 1),), "layers are integers"),
        ((Execution(2, 1, 1),), "execution 1 is visit 1 of layer 1"),
        ((Mean(((Execution(2, 1, 2),), (RUN,))),), "execution 1 is visit 1"),
        ((RUN, Exit(2)), "exit 1 has index 2"),
        ((Save("e"), RUN, Mix("e", 2)), "the next new site is 1"),
        ((Save("e"), RUN, Gate("e", 0)), "the next new site is 1"),
        ((Save("e"), RUN, Gate("e", "w")), "the next new site is 1"),
        ((Save("e"), Mix("e", 1), RUN, Gate("e", 2)), "the next new site is 1"),
        ((Mean(((RUN,),)),), "at least two branches"),
        ((Mean([(RUN,), (RUN,)]),), "each a tuple"),
        ((Mean(([RUN], (RUN,))),), "each a tuple"),
        ((Mean(((RUN,), (StopGradient(),))),), "this branch of a join runs no layer; a branch runs one layer at least"),
        ((Mean(((), ())),), "every layer of 1..1 is run or dropped"),
        ((Save("for"), RUN, Add("for")), "a register's name is of up to 64 letters"),
        ((Save(None), RUN, Add(None)), "a register's name"),
        ((Save("x2"), RUN, Add("x2")), "a register's name"),
        ((RUN, Add("e")), "register `e` is read before it is saved; write `save"),
        ((Save("e"), RUN), "register `e` is saved and never read; delete"),
        ((Save("e"), RUN, Load("e")), "the result of layer 1 is thrown away"),
        ((Save("e"), RUN, Exit(1), StopGradient(), Load("e")), "the result of this `stopgrad` is thrown away"),
    ],
)
def test_operations_that_no_spec_could_mean_are_refused(operations, message):
    with pytest.raises(ValueError, match=message):
        Route(1, operations)


def test_operations_that_run_nothing_are_refused():
    with pytest.raises(ValueError, match="every layer"):
        Route.of_operations([Exit(1)])


def _deep(levels):
    join = Mean(((RUN,), (RUN,)))
    for _ in range(levels):
        join = Sum(((join,), (RUN,)))
    return join


def _shared(levels):
    """A join as large as 2 ** levels, of as many objects as levels."""
    join = Mean(((RUN,), (RUN,)))
    for _ in range(levels):
        join = Sum(((join,), (join,)))
    return join


def test_joins_that_are_nested_too_deep_are_refused_and_not_a_recursion_error():
    assert Route.of_operations([_deep(31)]).execution_depth == 33
    for make in (Route.of_operations, lambda operations: Route(1, tuple(operations))):
        with pytest.raises(ValueError, match="nested more than 32 deep"):
            make([_deep(5_000)])


def test_joins_that_share_their_parts_cost_what_they_say():
    assert Route.of_operations([_shared(5)]).execution_depth == 64
    for make in (Route.of_operations, lambda operations: Route(1, tuple(operations))):
        with pytest.raises(ValueError, match="more than 1,000,000 operations"):
            make([_shared(60)])


def test_walking_and_rebuilding_go_through_branches_before_their_join():
    operations = dg.route("1 sum(2 mean(3 | 4) | 5) 6").operations
    seen = []
    assert rebuilt(operations, lambda each: seen.append(each) or each) == operations
    assert seen == list(walk(operations))
    assert [WORDS[type(each)] for each in seen] == ["run", "run", "run", "run", "mean", "run", "sum", "run"]


def test_operations_can_be_traced_without_a_route():
    assert trace([Save("a"), RUN, Add("a")]).states[-1].reads == ((1, None), (0, "a"))
