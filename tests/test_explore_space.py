"""Facts on spaces of routes, against every path that can be written down."""

import copy
import pickle
import random
from collections import Counter
from itertools import islice, product

import numpy
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.explore import RouteSpace

from explore_spaces import spaces


def every_path(space):
    """The paths of a space, by trying all of them."""
    low, high = space.executions if isinstance(space.executions, tuple) else (space.executions,) * 2
    cost = space.costs or (1,) * space.N
    least, most = space.flops if isinstance(space.flops, tuple) else (0, 10**9 if space.flops is None else space.flops)
    for path in (p for E in range(low, high + 1) for p in product(range(1, space.N + 1), repeat=E)):
        visits = Counter(path)
        paid = sum(cost[layer - 1] for layer in path)
        if (
            (not space.every_layer or len(visits) == space.N)
            and max(visits.values()) <= (space.max_visits or len(path))
            and 5 * least * sum(cost) - 1e-6 <= 5 * paid <= 5 * most * sum(cost) + 1e-6
            and (space.patterns != "ilr" or list(path) == sorted(path))
        ):
            yield path


@settings(deadline=None)
@given(spaces())
def test_a_space_has_every_route_within_its_bounds_once(space):
    routes = list(space.enumerate())
    assert space.count() == len(routes)
    assert {route.path for route in routes} == set(every_path(space))
    assert len({route.text for route in islice(routes, 200)}) == len(routes[:200])
    keys = [(route.execution_depth, route.reuse_map, route.path) for route in routes]
    assert keys == sorted(set(keys))


@settings(deadline=None)
@given(spaces(), st.data())
def test_index_and_at_take_each_other_back(space, data):
    assume(space.count())
    index = data.draw(st.integers(0, space.count() - 1))
    route = space.at(index)
    assert route == next(islice(space.enumerate(), index, None))
    assert space.index(route) == index
    assert route in space


def test_index_and_at_take_each_other_back_in_a_space_that_no_machine_could_list():
    space = RouteSpace(24, executions=(24, 60), max_visits=5, flops=(1.1, 2.4), costs=(*(3,) * 12, *(5,) * 12))
    assert space.count() > 10**60
    source = random.Random(3)
    for _ in range(50):
        index = source.randrange(space.count())
        route = space.at(index)
        assert space.index(route) == index
        assert set(route.reuse_map) <= {1, 2, 3, 4, 5}
        assert (
            1.1 * 96
            <= sum(cost * visits for cost, visits in zip(space.costs, route.reuse_map, strict=True))
            <= 2.4 * 96
        )


def test_routes_of_a_space_are_those_that_a_path_makes():
    for route in RouteSpace(3, executions=(1, 4), every_layer=False):
        made = dg.Route.of(route.path, 3)
        assert (route, route.dropped, route.executions) == (made, made.dropped, made.executions)
        assert dg.route(route.text, N=3) == route


@pytest.mark.parametrize("generator", [random.Random, numpy.random.default_rng])
@pytest.mark.parametrize(
    "space", [RouteSpace(4, executions=(4, 6)), RouteSpace(40, executions=(40, 100), max_visits=4)]
)
def test_a_seed_decides_what_is_drawn(generator, space):
    def drawn(seed):
        source = generator(seed)
        return [space.sample(source) for _ in range(20)] + list(space.sample_distinct(source, 20))

    assert drawn(1) == drawn(1) != drawn(2)
    assert all(route in space for route in drawn(1))
    assert len(set(drawn(1)[20:])) == 20


def test_drawing_as_many_routes_as_there_are_gives_each_of_them():
    space = RouteSpace(3, executions=(3, 5))
    assert set(space.sample_distinct(random.Random(0), space.count())) == set(space)


def test_a_sample_is_the_route_at_a_drawn_index():
    space = RouteSpace(30, executions=(30, 60))
    assert space.sample(random.Random(5)) == space.at(random.Random(5).randrange(space.count()))


@pytest.mark.parametrize("count", [1, 2, 3, 2**63 - 1, 2**63, 2**63 + 1, 2**200 - 1, 2**200, 10**40])
def test_numbers_below_any_count_are_drawn_up_to_its_ends(count):
    from depthgraph.explore.generators import below

    class Bytes:
        """A generator whose bytes are all the same."""

        def __init__(self, byte):
            self.byte = byte

        def integers(self, high):
            return min(high - 1, self.byte)

        def bytes(self, size):
            byte, self.byte = self.byte, 0
            return bytes([byte]) * size

    assert 0 <= below(Bytes(255), count) < count
    assert below(Bytes(0), count) == 0
    assert all(0 <= below(numpy.random.default_rng(seed), count) < count for seed in range(20))


def test_a_generator_is_asked_for():
    with pytest.raises(TypeError, match=r"a generator is a random.Random or a numpy.random.Generator; found a int"):
        RouteSpace(3, executions=4).sample(0)


@settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(spaces(st.sampled_from([None, "ilr", "looped", ("self_merge", "ilr"), "any"])), st.integers(0, 999))
def test_edits_stay_in_the_space_and_undo_one_another(space, seed):
    assume(space.count())
    source = random.Random(seed)
    route, other = space.sample(source), space.sample(source)
    near = space.neighbours(route)
    assert set(near) <= set(space) - {route}
    assert len(set(near)) == len(near)
    assert all(route in space.neighbours(each) for each in near[:: max(1, len(near) // 5)])
    mutant = space.mutate(route, source)
    assert mutant in near or (not near and mutant in space)
    assert space.crossover(route, other, source) in space


def test_the_neighbours_of_a_route_are_its_edits():
    space = RouteSpace(3, executions=(3, 6))
    near = {route.path for route in space.neighbours(dg.route("1 2 3 2 3"))}
    assert (1, 2, 3) in near  # a second run of a stretch taken away
    assert (1, 2, 3, 2, 3, 3) in near  # one execution more
    assert (2, 1, 3, 2, 3) in near  # one moved
    assert (1, 2, 3, 1, 3) in near  # one of another layer
    assert (1, 2, 3, 2) in near  # one less
    assert (3, 2, 1) not in near


def test_a_step_of_one_name_is_an_edit():
    space = RouteSpace(6, executions=(6, 18), patterns="looped")
    steps = (
        "1 (2..4)x2 5..6",
        "1 (2..4)x4 5..6",
        "1 (2..5)x3 6",
        "1 (2..3)x3 4..6",
        "1..2 (3..4)x3 5..6",
        "(1..4)x3 5..6",
    )
    assert {dg.route(text) for text in steps} <= set(space.neighbours(dg.route("1 (2..4)x3 5..6")))


def test_crossover_takes_a_beginning_from_one_and_an_end_from_the_other():
    space = RouteSpace(4, executions=(4, 8))
    one, other = dg.route("1x3 2 3 4"), dg.route("1 2 3 4x3")
    for seed in range(30):
        child = space.crossover(one, other, random.Random(seed))
        cuts = [(one.path[:i], other.path[j:]) for i in range(7) for j in range(7)]
        assert child.path in {begin + end for begin, end in cuts}
        assert child not in (one, other)


def test_crossover_mixes_the_names_of_a_pattern():
    pattern = "1..p save(e) (p+1..q add(e)) x r q+1..N"
    space = RouteSpace(6, executions=(6, 24), patterns=pattern)
    one, other = (dg.route(pattern, N=6, p=p, q=q, r=r) for p, q, r in ((1, 3, 2), (2, 4, 5)))
    mixed = {dg.route(pattern, N=6, p=p, q=q, r=r) for p in (1, 2) for q in (3, 4) for r in (2, 5)}
    children = {space.crossover(one, other, random.Random(seed)) for seed in range(60)}
    assert children == (mixed & set(space)) - {one, other}


def test_mutation_reaches_every_route():
    space = RouteSpace(3, executions=(3, 4))
    source = random.Random(0)
    route = dg.route("1..3")
    seen = {route}
    for _ in range(2_000):
        route = space.mutate(route, source)
        seen.add(route)
    assert seen == set(space)


def test_a_space_is_a_value():
    one, two = (RouteSpace(3, executions=[3, 4], patterns=["ilr"]) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one.executions == (3, 4)


def test_a_space_travels_without_its_tables():
    space = RouteSpace(6, executions=(6, 14), patterns=("ilr", "looped"))
    assert space.count()
    pickled = pickle.dumps(space)
    assert len(pickled) < 500
    assert list(pickle.loads(pickled)) == list(copy.deepcopy(space)) == list(space)


def test_flops_alone_or_visits_alone_bound_a_space():
    assert RouteSpace(4, flops=1.5).count() == RouteSpace(4, executions=(4, 6)).count()
    assert RouteSpace(3, max_visits=2).count() == RouteSpace(3, executions=(3, 6), max_visits=2).count()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"N": 0, "executions": 3}, "N is an integer of 1 to 1,000,000; found 0"),
        ({"N": 3}, "nothing says how long a route of this space may be"),
        ({"N": 3, "executions": (4, 3)}, "has its larger end first"),
        ({"N": 3, "executions": 2.5}, "executions is an integer of 1 to 100,000; found a float"),
        ({"N": 3, "executions": 5, "max_visits": 0}, "max_visits is an integer"),
        ({"N": 3, "flops": -1}, "flops is the highest ratio"),
        ({"N": 3, "flops": (2, 1)}, "has its larger end first"),
        ({"N": 3, "executions": 5, "costs": (1, 2)}, "costs has one number for each of the 3 layers; found 2 numbers"),
        ({"N": 2, "executions": 5, "costs": (1, 0)}, "a cost is an integer of at least 1; found 0"),
        ({"N": 2, "executions": 5, "patterns": ()}, "patterns are texts, at least one"),
        ({"N": 2, "executions": 5, "patterns": 5}, "patterns are texts, at least one; found 5"),
        ({"N": 2, "executions": 5, "patterns": ("ilr", None)}, "patterns are texts, at least one"),
        ({"N": "2", "executions": 5}, "N is an integer of 1 to 1,000,000; found a str"),
        ({"N": 2, "executions": (1, 2, 3)}, "executions is an integer of 1 to 100,000; found a tuple"),
        ({"N": 2, "executions": 5, "max_visits": True}, "max_visits is an integer"),
        ({"N": 2, "executions": 5, "flops": float("nan")}, "flops is the highest ratio"),
        ({"N": 2, "executions": 5, "flops": "2"}, "flops is the highest ratio"),
        ({"N": 2, "executions": 5, "costs": (1, 1.5)}, "a cost is an integer of at least 1; found 1.5"),
    ],
)
def test_bounds_that_are_none_are_refused(settings, words):
    with pytest.raises(dg.ExploreError, match=words) as caught:
        RouteSpace(**settings)
    assert caught.value.code == "invalid-space"


def test_what_is_too_much_to_count_is_refused():
    with pytest.raises(dg.ExploreError, match="cannot be counted here") as caught:
        RouteSpace(1_000, executions=(1_000, 2_000)).count()
    assert caught.value.code == "space-too-large"
    with pytest.raises(dg.ExploreError, match="cannot be counted here"):
        RouteSpace(2, executions=(2, 100_000)).count()
    costs = tuple(1 + 7**n for n in range(24))
    with pytest.raises(dg.ExploreError, match="different sums of costs") as caught:
        RouteSpace(24, executions=(24, 48), flops=3, costs=costs).count()
    assert caught.value.code == "space-too-large"


def test_routes_with_too_many_edits_are_refused():
    space = RouteSpace(2, executions=(2, 2_000))
    long = dg.route("(1 2)x1000")
    for call in (space.neighbours, lambda route: space.crossover(route, route, random.Random(0))):
        with pytest.raises(dg.ExploreError, match="too many") as caught:
            call(long)
        assert caught.value.code == "space-too-large"


def test_nothing_is_drawn_from_a_space_without_routes():
    empty = RouteSpace(4, executions=3)
    assert (empty.count(), list(empty)) == (0, [])
    with pytest.raises(dg.ExploreError, match="1 routes are drawn from a space that has 0"):
        empty.sample(random.Random(0))
    with pytest.raises(dg.ExploreError, match="25 routes are drawn from a space that has 24"):
        RouteSpace(4, executions=4).sample_distinct(random.Random(0), 25)
    with pytest.raises(IndexError):
        empty.at(0)


@pytest.mark.parametrize(
    ("text", "N", "words"),
    [
        ("1..4", 4, "it is over 4 layers, the space over 3"),
        ("1 2 drop(3)", 3, "it drops layers 3"),
        ("1x3 2..3", 3, "it runs a layer 3 times"),
        ("1x2 2x2 3x2", 3, "it has 6 executions"),
        ("1 2 3x2", 3, "it costs 1.5 times as much as the standard route"),
        ("1 2 1 3", 3, "no pattern of the space means it"),
        ("1 save(a) 2 add(a) 3", 3, "it has data flow, and no pattern of the space means it"),
    ],
)
def test_a_route_outside_is_refused_with_the_bound_that_it_breaks(text, N, words):
    space = RouteSpace(3, executions=(3, 5), max_visits=2, flops=1.45, costs=(1, 1, 2), patterns="ilr")
    for call in (space.index, space.neighbours, lambda route: space.mutate(route, random.Random(0))):
        with pytest.raises(dg.ExploreError, match=words) as caught:
            call(dg.route(text, N=N))
        assert caught.value.code == "not-in-space"


@pytest.mark.parametrize("given", ["1..3", dg.parse("1..3"), [1, 2, 3], None], ids=["text", "spec", "path", "nothing"])
def test_what_is_no_route_is_refused_wherever_one_is_needed(given):
    space, route, generator = RouteSpace(3, executions=3), dg.route("1..3"), random.Random(0)
    calls = [
        lambda: space.index(given),
        lambda: space.neighbours(given),
        lambda: space.mutate(given, generator),
        lambda: space.crossover(route, given, generator),
        lambda: dg.explore.trial_parameters(given, space),
        lambda: dg.measures(given),
        lambda: dg.diff(given, route),
        lambda: dg.diff(route, given),
        lambda: dg.match(given, "lft-2.5m"),
        lambda: dg.renumbered(given),
    ]
    for call in calls:
        with pytest.raises(dg.DepthGraphError, match=f"a {type(given).__name__} is given where") as caught:
            call()
        assert caught.value.code == "not-a-route"
    assert given not in space
