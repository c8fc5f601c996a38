"""Facts on the measures of routes, and on what makes a standard model equal to one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.decoder_config import PRESETS
from depthgraph.decoder_cost import decoder_cost
from depthgraph.explore import match, measures, relative, scale_of
from depthgraph.explore.matching import MEASURED, changed, nearest, standard_route
from depthgraph.explore.measuring import NAMES, longest_return

SMALL = PRESETS["lft-2.5m"]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12))
def test_measures_are_those_of_the_path(path):
    route = dg.Route.of(path, 5)
    found = measures(route)
    assert (found.executions, found.layers, found.parameters) == (len(path), len(set(path)), len(set(path)))
    assert found.multiplier == found.flops == len(path) / 5
    assert found.max_visits == max(path.count(layer) for layer in path)
    returns = [
        b - a
        for a in range(len(path))
        for b in range(a + 1, len(path))
        if path[a] == path[b] and path[a] not in path[a + 1 : b]
    ]
    assert found.longest_return == longest_return(tuple(path)) == max(returns, default=0)


def test_layers_may_cost_differently():
    assert measures(dg.route("1 2x3"), relative(2, (1, 4))).flops == 13 / 5


@pytest.mark.parametrize("preset", PRESETS)
def test_with_a_model_flops_cache_and_parameters_are_the_decoders(preset):
    config = PRESETS[preset]
    route = dg.Route.of(random.Random(0).choices(range(1, config.parameter_depth + 1), k=40), config.parameter_depth)
    cost = decoder_cost(config, route, 100)
    found = measures(route, scale_of(config, 100))
    assert found.flops == cost.forward_flops
    assert found.kv == 2 * cost.kv_elements
    dropped = changed(config, parameter_depth=config.parameter_depth - len(route.dropped))
    assert found.parameters == dropped.parameter_count


def test_data_flow_is_measured_by_its_executions():
    found = measures(dg.route("1 save(a) (2 add(a))x3 mean(3 | 4)"))
    assert (found.executions, found.flops, found.max_visits, found.longest_return) == (6, 1.5, 3, 1)


def test_every_measure_has_a_name():
    assert (*measures(dg.route("1 2"))._fields, "text_length") == NAMES


@given(
    st.sampled_from(["parameters", "flops", "executions", "kv"]), st.integers(1, 12), st.integers(1, 30), st.booleans()
)
def test_no_neighbouring_size_is_closer(equal, N, E, with_tokens):
    route = dg.Route.of([1 + n % N for n in range(E)], N)
    tokens = 1_000_000 if with_tokens and equal == "flops" else None
    found = match(route, SMALL, equal, tokens=tokens)
    measured = MEASURED[equal][0]

    def error(config):
        value = measured(config, standard_route(config), SMALL.context)
        return abs(value * (3 * tokens / SMALL.context if tokens else 1) - found.target)

    sizes = {"depth": ("parameter_depth", 1), "ffn_width": ("ffn_width", 1)}
    for change in found.changes:
        assert change.error == pytest.approx(change.value / found.target - 1)
        assert change.parameters == change.config.parameter_count
        if change.what not in sizes:
            continue
        name, step = sizes[change.what]
        size = getattr(change.config, name)
        others = [changed(SMALL, **{name: other}) for other in (size - step, size + step) if other > 0]
        assert all(error(change.config) <= error(other) for other in others)
        assert changed(change.config, **{name: getattr(SMALL, name)}) == SMALL
    assert found.best.error == min((change.error for change in found.changes), key=abs)


def test_the_pair_of_the_paper_has_a_standard_model_with_its_flops():
    found = match(dg.route("lft(6)"), "lft-2.5m", "flops", tokens=500_000_000)
    assert found.change("depth").config == changed(SMALL, parameter_depth=14)
    assert found.change("depth").error == 0
    ratio = decoder_cost(SMALL, dg.route("lft(6)")).forward_flops / decoder_cost(SMALL, dg.route("1..6")).forward_flops
    assert found.change("tokens").tokens == round(500_000_000 * ratio)
    width = found.change("width").config
    assert width.width % (2 * width.heads) == 0
    assert width.ffn_width == 3 * width.width
    assert abs(found.change("width").error) < 0.02
    assert found.target / found.now == pytest.approx(ratio)


def test_nothing_changes_where_all_is_equal():
    found = match(dg.route("...", N=6), "lft-2.5m", "flops", tokens=100)
    assert all((change.error, change.config) == (0, SMALL) for change in found.changes)
    assert found.change("tokens").tokens == 100
    assert match(dg.route("lft(6)"), SMALL, "parameters").best.config == SMALL


def test_a_route_over_other_layers_runs_in_the_baseline_with_as_many():
    assert match(dg.route("(1..3)x4"), SMALL, "executions").best.config.parameter_depth == 12
    assert match(dg.route("(1..3)x4"), SMALL, "parameters").best.config.parameter_depth == 3


def test_a_match_reads_as_a_table():
    lines = str(match(dg.route("(1..6)x2"), SMALL, "kv")).splitlines()
    assert lines[0] == "kv: 2,949,120 for `(1..6)x2`, 1,474,560 for the standard model"
    assert lines[3].split() == ["12", "layers", "2,949,120", "exact", "4,489,120"]


@pytest.mark.parametrize(("target", "found"), [(1, 1), (0.2, 1), (50, 7), (56, 7), (57, 8), (10**6, 1000)])
def test_the_nearest_size_is_found(target, found):
    assert nearest(lambda n: n * n, target, 0) == found


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: match(dg.route("1 2"), "lft-2.5", "flops"), "there is no preset `lft-2.5`"),
        (lambda: match(dg.route("1 2"), SMALL, "depth"), "there is no measure `depth`"),
        (lambda: match(dg.route("1 2"), SMALL, "kv").change("ffn_width"), "ffn_width does not make kv equal"),
        (lambda: match(dg.route("1 2"), SMALL).change("tokens"), "tokens does not make flops equal"),
    ],
)
def test_what_nothing_can_equal_is_refused(call, words):
    with pytest.raises(dg.ExploreError, match=words) as caught:
        call()
    assert caught.value.code == "unknown-measure"


def test_lengths_and_tokens_are_at_least_one():
    for settings in ({"length": 0}, {"tokens": 0}):
        with pytest.raises(dg.ExploreError, match="length and tokens are at least 1"):
            match(dg.route("1 2"), SMALL, **settings)


def test_data_flow_is_refused_where_the_arithmetic_is_for_chains():
    with pytest.raises(dg.CostError, match="data flow"):
        match(dg.route("1 save(a) 2 add(a)"), SMALL)
