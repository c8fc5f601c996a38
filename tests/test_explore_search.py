"""Facts on routes for hyperparameter search, with Optuna itself."""

import random

import optuna
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

import depthgraph as dg
from depthgraph.explore import RouteSpace, suggest_route, trial_parameters

from explore_spaces import spaces

optuna.logging.set_verbosity(optuna.logging.ERROR)

SPACES = {
    "paths": RouteSpace(4, executions=(4, 8), max_visits=3),
    "costs": RouteSpace(4, executions=(4, 8), flops=(1.2, 1.8), costs=(1, 2, 3, 4)),
    "some layers": RouteSpace(4, executions=(1, 6), every_layer=False),
    "ilr": RouteSpace(4, executions=(4, 8), patterns="ilr"),
    "ilr, costs": RouteSpace(4, executions=(5, 9), flops=1.9, costs=(1, 2, 3, 4), patterns="ilr"),
    "looped": RouteSpace(6, executions=(6, 12), patterns="looped"),
    "several": RouteSpace(6, executions=(6, 12), patterns=("ilr", "looped", "1 save(a) 2..N-1 add(a) N")),
}


def same_space(trials):
    return {tuple(sorted((name, repr(kind)) for name, kind in trial.distributions.items())) for trial in trials}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_every_trial_has_a_route_of_the_space_and_the_same_parameters(space):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))

    def objective(trial):
        route = suggest_route(trial, space)
        assert route in space
        assert trial.user_attrs["route"] == route.text
        return route.execution_depth

    study.optimize(objective, n_trials=40)
    assert len(same_space(study.trials)) == 1
    assert len({trial.user_attrs["route"] for trial in study.trials}) > 5


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_the_parameters_of_a_route_mean_it(space):
    for route in space.sample_distinct(random.Random(0), 12):
        trial = optuna.trial.FixedTrial(trial_parameters(route, space))
        assert suggest_route(trial, space) == route


@settings(deadline=None)
@given(spaces(), st.integers(0, 99), st.data())
def test_all_values_mean_a_route(space, seed, data):
    assume(space.count())
    route = space.sample(random.Random(seed))
    named = trial_parameters(route, space)
    study = optuna.create_study()
    trial = study.ask()
    suggest_route(trial, space)
    assert set(trial.params) == set(named)
    drawn = {name: data.draw(st.integers(kind.low, kind.high)) for name, kind in trial.distributions.items()}
    assert suggest_route(optuna.trial.FixedTrial(drawn), space) in space
    assert all(trial.distributions[name]._contains(value) for name, value in named.items())


def test_a_value_that_no_route_can_have_stands_for_the_next_one():
    space = RouteSpace(3, executions=4, max_visits=2)
    path = {"executions": 4, "position_1": 3, "position_2": 3, "position_3": 3, "position_4": 3}
    assert suggest_route(optuna.trial.FixedTrial(path), space).path == (3, 3, 1, 2)
    maps = RouteSpace(3, executions=(3, 5), patterns="ilr")
    visits = {"visits_1": 1, "visits_2": 3, "visits_3": 3}
    assert suggest_route(optuna.trial.FixedTrial(visits), maps).reuse_map == (1, 3, 1)


def test_a_trial_may_have_several_routes():
    space = RouteSpace(3, executions=(3, 5), patterns="ilr")
    one, other = space.at(0), space.at(space.count() - 1)
    named = trial_parameters(one, space, "a.") | trial_parameters(other, space, "b.")
    trial = optuna.trial.FixedTrial(named)
    assert (suggest_route(trial, space, "a."), suggest_route(trial, space, "b.")) == (one, other)
    assert trial.user_attrs == {"a.route": one.text, "b.route": other.text}


@pytest.mark.parametrize("name", ["paths", "ilr"])
def test_tpe_prunes_and_goes_on_from_storage(name, tmp_path):
    space = SPACES[name]
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "study.log")))
    first = space.at(3)

    def objective(trial):
        route = suggest_route(trial, space)
        for step, visits in enumerate(route.reuse_map):
            trial.report(visits, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return abs(route.execution_depth - 7)

    for total in (12, 24):
        study = optuna.create_study(
            study_name="routes", storage=storage, load_if_exists=True,
            sampler=optuna.samplers.TPESampler(seed=total, n_startup_trials=5), pruner=optuna.pruners.MedianPruner(5),
        )  # fmt: skip
        if total == 12:
            study.enqueue_trial(trial_parameters(first, space))
        study.optimize(objective, n_trials=12)
        assert len(study.trials) == total
    assert study.trials[0].user_attrs["route"] == first.text
    assert len(same_space(study.trials)) == 1
    assert all(dg.route(trial.user_attrs["route"], N=space.N) in space for trial in study.trials)


def test_a_space_without_routes_has_nothing_to_suggest():
    with pytest.raises(dg.ExploreError, match="a trial has no route to take") as caught:
        suggest_route(optuna.trial.FixedTrial({}), RouteSpace(4, executions=3))
    assert caught.value.code == "empty-space"


def test_several_patterns_with_too_many_routes_are_refused():
    space = RouteSpace(20, executions=(20, 40), patterns=("any", "1 save(a) 2..N add(a)"))
    with pytest.raises(dg.ExploreError, match="too many for one parameter") as caught:
        suggest_route(optuna.trial.FixedTrial({}), space)
    assert caught.value.code == "space-too-large"


def test_parameters_are_those_of_a_route_of_the_space():
    with pytest.raises(dg.ExploreError, match="it has 4 executions") as caught:
        trial_parameters(dg.route("1 2 1 2"), RouteSpace(2, executions=3))
    assert caught.value.code == "not-in-space"
