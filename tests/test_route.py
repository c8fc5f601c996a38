"""The Route type: measures, equality, order, copies."""

import copy
import pickle

import pydantic
import pytest
from hypothesis import given

import depthgraph as dg
from depthgraph.operations import Execution
from depthgraph.route import Route

from strategies import routes


@given(routes)
def test_the_execution_depth_is_the_sum_of_the_reuse_map(route):
    assert route.execution_depth == sum(route.reuse_map) == len(route.path) == len(route.executions)
    assert route.multiplier == route.execution_depth / route.parameter_depth
    assert route.is_chain


@given(routes)
def test_visits_count_the_runs_of_each_layer(route):
    seen = {}
    for position, each in enumerate(route.executions, 1):
        seen[each.layer] = seen.get(each.layer, 0) + 1
        assert (each.position, each.visit) == (position, seen[each.layer])
        assert each.name == f"L{each.layer}.{each.visit}"


@given(routes)
def test_every_layer_runs_or_is_dropped(route):
    assert set(route.path) | set(route.dropped) == set(range(1, route.parameter_depth + 1))
    assert not set(route.path) & set(route.dropped)


def test_how_a_route_was_written_takes_no_part_in_equality():
    one, two = dg.route("(1..2)x2"), dg.route("1 2 1 2")
    assert one == two
    assert hash(one) == hash(two)
    assert one.executions[0].iterations != two.executions[0].iterations


def test_routes_of_other_depths_or_orders_differ():
    assert dg.route("1 2 1") != dg.route("1 1 2")
    assert dg.route("1..2 drop(3)") != dg.route("1..2")
    assert dg.route("1..2") != "1..2"


def test_routes_are_ordered_by_their_text():
    texts = ["1..3", "1x2 2..3", "(1..3)x2"]
    assert [str(route) for route in sorted(map(dg.route, texts))] == sorted(texts)
    assert dg.route("1") < dg.route("1..2") or dg.route("1") > dg.route("1..2")
    with pytest.raises(TypeError):
        _ = dg.route("1") < 3


@given(routes)
def test_copies_and_pickles_are_equal(route):
    _ = str(route)
    for again in (pickle.loads(pickle.dumps(route)), copy.deepcopy(route), copy.copy(route)):
        assert again == route
        assert [each.iterations for each in again.executions] == [each.iterations for each in route.executions]


def test_a_route_is_frozen():
    with pytest.raises(AttributeError):
        dg.route("1").parameter_depth = 2


def test_a_path_by_program_drops_what_it_does_not_run():
    route = Route.of((1, 3), 4)
    assert route == dg.route("1 drop(2) 3 drop(4)")
    assert Route.of(iter([2, 1])) == dg.route("2 1")


@pytest.mark.parametrize(("path", "depth"), [((), 3), ((0, 1), None), ((1, 5), 4), ((), None)])
def test_a_path_outside_the_layers_is_refused(path, depth):
    with pytest.raises(ValueError, match="a path runs layers of 1"):
        Route.of(path, depth)


@pytest.mark.parametrize(
    ("path", "depth"), [([True], None), ([1.0], None), (["1"], None), ([1], "3"), ([1], 10**9), ([1], 10**7)]
)
def test_a_path_of_something_else_is_refused(path, depth):
    with pytest.raises(ValueError, match=r"layers are integers|over the limit"):
        Route.of(path, depth)


@pytest.mark.parametrize(
    ("depth", "operations", "dropped"),
    [
        (1, (), ()),
        (2, (Execution(1, 1, 1),), ()),
        (1, (Execution(2, 1, 1),), ()),
        (1, (Execution(1, 1, 2),), ()),
        (1, (Execution(1, 1, 1),), (1,)),
        (2, (Execution(1, 1, 1),), (2, 2)),
        (0, (Execution(1, 1, 1),), ()),
    ],
)
def test_a_route_that_no_spec_could_mean_is_refused(depth, operations, dropped):
    with pytest.raises(ValueError, match=r"execution|every layer"):
        Route(depth, operations, dropped)


def test_the_repr_is_short():
    assert repr(dg.route("lft(5)")) == "Route('1..2 (i..i+2 for i in 1..3)', N=5, E=11)"
    assert len(repr(Route.of([1, 3, 2, 5, 1, 4, 4, 2] * 3 + [5, 2, 1] * 40 + [1, 3] * 9 + list(range(1, 99))))) < 150


def test_a_route_shows_itself_in_a_notebook():
    assert dg.route("lft(5)")._repr_svg_().startswith("<svg")


class Config(pydantic.BaseModel):
    route: dg.Route


def test_a_route_is_a_pydantic_field():
    config = Config(route="lft(5)")
    assert config.route == dg.route("lft(5)")
    assert config.model_dump_json() == '{"route":"1..2 (i..i+2 for i in 1..3)"}'
    assert Config.model_validate_json(config.model_dump_json()) == config
    assert Config(route=config.route).route is config.route
    assert Config.model_json_schema()["properties"]["route"]["type"] == "string"


@pytest.mark.parametrize(("value", "message"), [("1..2 4", r"unused-layer.*\n.*1\.\.2 4\n.*\^"), (3, "found int")])
def test_a_wrong_route_is_a_validation_error_with_our_text(value, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        Config(route=value)


def test_an_execution_is_its_position_layer_and_visit():
    assert Execution(1, 2, 1, ((1, 1, 1),)) == Execution(1, 2, 1)
    assert Execution(1, 2, 1) != Execution(2, 2, 1)
