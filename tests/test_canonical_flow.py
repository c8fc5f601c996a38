"""Canonical text of routes with data flow, and of bodies in which some layers move with the index and others do not."""

import random
import re
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_canonical import LARGE, survives_yaml

import depthgraph as dg
from depthgraph.operations import Add, Execution, Exit, Gate, Join, Load, Mean, Mix, Save, StopGradient, Sum
from depthgraph.route import Route
from depthgraph.stretches import FEWEST, stretches
from depthgraph.symbols import FLOW

from strategies import flow_routes, flow_specs


@given(flow_routes())
def test_the_text_of_a_route_with_data_flow_means_that_route(route):
    again = dg.route(str(route), N=route.parameter_depth, limits=LARGE)
    assert again == route
    assert str(again) == str(route)


@given(flow_specs())
def test_the_text_of_what_a_spec_means_is_the_same_route(spec):
    try:
        route = spec.expand()
    except dg.SpecError:
        assume(False)
    assert dg.route(str(route), N=route.parameter_depth, limits=LARGE) == route


def _spelled_out(operations):
    """One operation after the other, and a name for all weights."""
    for each in operations:
        match each:
            case Execution(layer=layer):
                yield f"L{layer}"
            case Save(register) | Load(register) | Add(register):
                yield f"{type(each).__name__.lower()}({register})"
            case Mix(register, site) | Gate(register, site):
                word = type(each).__name__.lower()
                yield f"{word}({register}, of_{word}_{site})"
            case Mean(branches) | Sum(branches):
                inner = " | ".join(" -> ".join(_spelled_out(branch)) for branch in branches)
                yield f"{type(each).__name__.lower()}({inner})"
            case Exit():
                yield "exit"
            case StopGradient():
                yield "stopgrad"


@given(flow_routes())
def test_equal_routes_have_equal_texts_however_they_are_written(route):
    text = " ".join([*_spelled_out(route.operations), *(f"drop({layer})" for layer in route.dropped)])
    again = dg.route(text, limits=LARGE)
    assert again == route
    assert str(again) == str(route)
    assert len(str(route)) <= len(text) + 10


@given(flow_routes())
def test_weights_have_a_name_only_where_they_stand_at_several_places(route):
    named = re.findall(r"(mix|gate)\(\w+,(\w+)\)", str(route))
    assert all(count > 1 for count in Counter(name for _, name in named).values())
    assert len(set(named)) == len({name for _, name in named})
    assert not {name for _, name in named} & {each.register for each in route.data_flow if isinstance(each, Save)}


@given(flow_routes())
def test_the_text_survives_yaml(route):
    survives_yaml(str(route))


SAME = [
    "save(e) 1..4 (add(e) 1..4)x7",
    "1..2 save(e) (mix(e) 3..6)x32 7..8",
    "1..2 save(e) (mix(e,w1) 3..6)x4 7 mix(e,w1) 8",
    "save(e) mix(e) 1 mix(e) 2 mix(e) 3",
    "save(e) (mix(e) i for i in 1..24)",
    "1..4 save(a) 5 save(b) 6 gate(b) 7 gate(a) 8",
    "(i exit for i in 1..24)",
    "(exit i for i in 1..24)",
    "save(e) (add(e) i for i in 1..8)",
    "(save(a) i add(a) for i in 1..12)",
    "(stopgrad i exit for i in 1..6)x3",
    "1..4 exit 5..8 11..14 exit 15..18 drop(9..10)",
    "1 stopgrad x2 2 exit x3",
    "(mean(i | i+1) for i in 1..3)",
    "(mean(i | i+1 exit) for i in 1..12)",
    "(mean(i | mean(i+1 | 3)) for i in 1..5)",
    "(sum((i 9)x2 | i) for i in 1..8)",
    "mean(5 | 6)x3 drop(1..4)",
    "mean(1..2 mean(1..2 | 3) | 4)x3",
    "1 (mean(2 | 3) 4)x5",
    "sum(1..4 | (5..6)x3 | 7 save(a) 8 add(a))",
    "save(i) 1 save(j) (add(i) add(j) k for k in 1..9)",
    "save(w1) 1..2 (mix(w1,w2) 3)x2 4 mix(w1,w2) 5",
]


@pytest.mark.parametrize("text", SAME)
def test_known_texts(text):
    assert str(dg.route(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "(9 i for i in 1..24)",
        "(i 24 for i in 1..24)",
        "(25-i 3 for i in 1..24)",
        "(i..i+1 1x2 for i in 1..24)",
        "(i..i+1 8..9 for i in 1..7)",
        "(i x3 9x2 for i in 1..12)",
        "(2*i-1 9 for i in 1..9) (2*i for i in 1..8)",
        "((1 i)x2 for i in 2..20)",
        "(1..40 i for i in 50..60) drop(41..49)",
        "(i 1..40 i+1 for i in 41..60)",
        "(save(a) 12 i add(a) for i in 1..12)",
        "(mean(i | 13) for i in 1..12)",
    ],
)
def test_some_layers_of_a_body_move_and_others_do_not(text):
    assert str(dg.route(text)) == text


def test_a_dead_save_is_kept():
    text = "1 save(a) 2 save(a) 3 add(a) 4"
    assert str(dg.route(text)) == text


def test_a_route_by_program_with_shared_weights():
    operations = [
        Save("e"),
        Mix("e", 1),
        Execution(1, 1, 1),
        Gate("e", 1),
        Mix("e", 2),
        Execution(1, 2, 1),
        Mix("e", 1),
    ]
    text = str(Route.of_operations(operations))
    assert text == "save(e) mix(e,w1) 1 gate(e) mix(e) 2 mix(e,w1)"


def test_joins_in_joins():
    operations = [Execution(1, 1, 1)]
    for _ in range(30):
        operations = [Mean(((*operations, Execution(1, 1, 1), Exit(1)), (Execution(1, 2, 1), StopGradient())))]
    route = Route.of_operations(operations)
    assert str(route).startswith("mean(" * 30 + "1x2 exit | 2 stopgrad) 1 exit | 2 stopgrad)")
    assert dg.route(str(route)) == route


symbols = st.sampled_from([1, 2, 3, 4, 5 * FLOW, 6 * FLOW])
sequences = st.lists(symbols, min_size=1, max_size=14)


def _copies(x, start, end, period, slopes):
    """Whether x repeats itself there, with slopes that are allowed together."""
    found = set()
    for at in range(start, end - period):
        before, after = x[at], x[at + period]
        if max(before, after) < FLOW:
            found.add((slopes == "own" and at % period, after - before))
        elif before != after:
            return False
    per_place = len({place for place, _ in found}) == len(found)
    if slopes == "own":
        values = {slope for _, slope in found}
        return per_place and len(values) == 2 and 0 in values and end - start >= 3 * period
    return per_place and end - start >= max(2 * period, FEWEST if period == 1 else 0)


def _maximal(x, slopes):
    found = set()
    for period in range(1, len(x) // 2 + 1):
        holds = {
            (start, end)
            for start in range(len(x))
            for end in range(start + 2, len(x) + 1)
            if _copies(x, start, end, period, slopes)
        }
        found |= {(start, end) for start, end in holds if not {(start - 1, end), (start, end + 1)} & holds}
    return found


@given(sequences)
def test_every_even_stretch_is_found(x):
    assert {(each.start, each.end) for each in stretches(x) if not each.mixed} == _maximal(x, "one")


@given(sequences)
def test_every_mixed_stretch_is_found(x):
    assert {(each.start, each.end) for each in stretches(x) if each.mixed} == _maximal(x, "own")


def _random_operations(source, count, depth=0):
    for _ in range(count):
        kind = source.random()
        if kind < 0.6:
            yield Execution(1, source.randint(1, 8), 1)
        elif kind < 0.9:
            register, site = source.choice("abc"), source.randint(1, 4)
            yield source.choice([Add(register), Mix(register, site), Gate(register, site), Exit(1)])
        elif depth < 4:
            branches = [[*_random_operations(source, 4, depth + 1), Execution(1, 1, 1)] for _ in range(2)]
            yield source.choice([Mean, Sum])(tuple(map(tuple, branches)))


def test_a_random_route_of_a_thousand_operations():
    source = random.Random(0)
    saves = [Save(name) for name in "abc"]
    ends = [*(Add(name) for name in "abc"), Execution(1, 1, 1)]
    route = Route.of_operations([*saves, *_random_operations(source, 1_000), *ends])
    assert any(isinstance(each, Join) for each in route.operations)
    assert dg.route(str(route), N=route.parameter_depth, limits=LARGE) == route
