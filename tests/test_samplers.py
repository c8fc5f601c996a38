"""Loop counts for training: their distributions, the same in every process, and what a config may say."""

import math
import random
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from depthgraph.loops import Loop
from depthgraph.samplers import (
    Fixed,
    PoissonLogNormal,
    Schedule,
    Uniform,
    draw_counts,
    generator_of,
    poisson,
)

STEPS = 20_000


class Grid:
    """A generator whose numbers are the middles of n equal parts of [0, 1), one after the other."""

    def __init__(self, n):
        self.numbers = iter([(index + 0.5) / n for index in range(n)])

    def random(self):
        return next(self.numbers)


def poisson_probability(rate, count):
    return math.exp(count * math.log(rate) - rate - math.lgamma(count + 1))


def huginn_probability(mean, sigma, count):
    """By the trapezoidal rule over the normal distribution of τ: exact to many digits for a smooth integrand."""
    mu, step, total = math.log(mean) - sigma**2 / 2, 0.02, 0.0
    for index in range(-400, 401):
        z = index * step
        total += poisson_probability(math.exp(mu + sigma * z), count - 1) * math.exp(-z * z / 2)
    return total * step / math.sqrt(2 * math.pi)


def drawn(sampler, seed=0, steps=STEPS):
    return Counter(sampler.draw(generator_of(seed, step, "r"), step, steps) for step in range(1, steps + 1))


def distance(counts, probability):
    """Pearson's χ² over its degrees of freedom, of the counts that are expected 10 times and of the rest together."""
    total = sum(counts.values())
    common = [count for count in range(1, 200) if total * probability(count) >= 10]
    expected = [total * probability(count) for count in common]
    found = [counts[count] for count in common]
    rest = total - sum(expected)
    if rest > 10:
        expected.append(rest)
        found.append(total - sum(found))
    return sum((o - e) ** 2 / e for o, e in zip(found, expected, strict=True)) / (len(expected) - 1), len(expected)


@pytest.mark.parametrize("rate", [0.1, 1.0, 7.5, 60.0, 480.0])
def test_poisson_draws_are_the_inverse_of_the_distribution(rate):
    n = 20_000
    grid = Grid(n)
    counts = Counter(poisson(rate, grid) for _ in range(n))
    cumulated, found = 0.0, 0
    for count in range(max(counts) + 1):
        cumulated += poisson_probability(rate, count)
        found += counts[count]
        assert abs(found / n - cumulated) <= 1 / n + 1e-9


def test_large_rates_are_drawn_in_parts():
    generator = random.Random(3)
    draws = [poisson(2_000.0, generator) for _ in range(2_000)]
    assert sum(draws) / len(draws) == pytest.approx(2_000, abs=4 * math.sqrt(2_000 / 2_000))
    spread = sum((draw - 2_000) ** 2 for draw in draws) / len(draws)
    assert spread == pytest.approx(2_000, rel=0.15)


def test_a_draw_over_the_limit_becomes_the_limit_at_once():
    assert poisson(1e300, random.Random(0), most=7) == 7
    assert poisson(0.0, random.Random(0)) == 0


@pytest.mark.parametrize(("mean", "sigma"), [(8.0, 0.5), (32.0, 0.5), (3.0, 1.0), (4.0, 0.0)])
def test_huginns_counts_have_their_distribution(mean, sigma):
    sampler = PoissonLogNormal(mean=mean, sigma=sigma)
    found, cells = distance(drawn(sampler), lambda count: huginn_probability(mean, sigma, count))
    assert cells > 8
    assert found < 1 + 4 * math.sqrt(2 / (cells - 1))
    # and a wrong one would be seen
    wrong, _ = distance(drawn(sampler), lambda count: huginn_probability(mean * 1.1, sigma, count))
    assert wrong > 1 + 6 * math.sqrt(2 / (cells - 1))


def test_huginns_counts_have_the_mean_of_the_paper_plus_one():
    counts = drawn(PoissonLogNormal(mean=32.0))
    mean = sum(count * often for count, often in counts.items()) / STEPS
    # the variance of a Poisson mixture: mean + mean² (e^(σ²) - 1)
    error = math.sqrt((32 + 32**2 * (math.exp(0.25) - 1)) / STEPS)
    assert mean == pytest.approx(33, abs=3 * error)
    below = sum(often for count, often in counts.items() if count <= 33) / STEPS
    assert 0.5 < below < 0.65  # most draws are below the mean, with a heavy tail above
    assert max(counts) > 100


def test_max_cuts_the_tail_off_and_nothing_else():
    free, cut = (PoissonLogNormal(mean=8.0, max=most) for most in (None, 12))
    for step in range(1, 500):
        one, other = (each.draw(generator_of(1, step), step, 500) for each in (free, cut))
        assert other == min(one, 12)


def test_uniform_counts_are_equally_frequent():
    counts = drawn(Uniform(low=3, high=9))
    assert set(counts) == set(range(3, 10))
    found, cells = distance(counts, lambda count: (3 <= count <= 9) / 7)
    assert cells == 7
    assert found < 1 + 4 * math.sqrt(2 / 6)


def test_a_schedule_goes_from_stage_to_stage():
    stages = [
        {"until": 0.25, "count": 1},
        {"until": 0.5, "count": {"kind": "uniform", "low": 5, "high": 6}},
        {"count": 3},
    ]
    schedule = Schedule.model_validate({"stages": stages})
    counts = [schedule.draw(generator_of(0, step), step, 100) for step in range(1, 101)]
    assert counts[:25] == [1] * 25
    assert set(counts[25:50]) == {5, 6}
    assert counts[50:] == [3] * 50
    assert schedule.bounds == (1, 6)
    assert [schedule.draw(generator_of(0, 1), 1, 1), schedule.draw(generator_of(0, 3), 3, 3)] == [3, 3]


@given(
    st.integers(1, 10**6),
    st.integers(0, 2**31 - 1),
    st.sampled_from([Fixed(count=4), Uniform(low=2, high=5), PoissonLogNormal(mean=6, max=9)]),
)
def test_a_draw_is_a_function_of_seed_and_step_and_within_its_bounds(step, seed, sampler):
    one, other = (sampler.draw(generator_of(seed, step, "r"), step, 10**6) for _ in range(2))
    low, high = sampler.bounds
    assert low <= one == other <= high


def test_two_loops_and_two_steps_and_two_seeds_draw_on_their_own():
    wide = Uniform(low=1, high=10**6)
    draws = {generator_of(seed, step, name).random() for seed in (0, 1) for step in (1, 2) for name in ("r", "k")}
    assert len(draws) == 8
    counts = draw_counts({"r": wide, "k": wide}, seed=0, step=1, steps=9)
    assert counts["r"] != counts["k"]


def test_every_process_draws_the_same():
    code = (
        "from depthgraph.samplers import PoissonLogNormal, generator_of\n"
        "import sys\n"
        "print([PoissonLogNormal(mean=8).draw(generator_of(3, step, 'r'), step, 20) for step in range(1, 21)])\n"
        "assert 'torch' not in sys.modules"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    ]
    here = [PoissonLogNormal(mean=8).draw(generator_of(3, step, "r"), step, 20) for step in range(1, 21)]
    assert outputs == [f"{here}\n"] * 2


LOOP = TypeAdapter(Loop)


@pytest.mark.parametrize(
    ("settings", "bounds", "usual"),
    [
        ({"kind": "fixed", "count": 3}, (3, 3), 3),
        ({"kind": "uniform", "high": 4}, (1, 4), None),
        ({"kind": "uniform", "low": 4, "high": 4}, (4, 4), 4),
        ({"kind": "poisson_lognormal", "mean": 8}, (1, None), None),
        ({"kind": "poisson_lognormal", "mean": 8, "max": 20, "backprop_last": 4, "eval": 8}, (1, 20), None),
        ({"kind": "schedule", "stages": [{"until": 0.5, "count": 1}, {"count": 3}]}, (1, 3), None),
    ],
)
def test_a_loop_is_read_and_written(settings, bounds, usual):
    loop = LOOP.validate_python(settings)
    assert (loop.bounds, loop.usual) == (bounds, usual)
    assert LOOP.validate_python(LOOP.dump_python(loop, mode="json")) == loop
    assert loop.backprop_last == settings.get("backprop_last")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kind": "poison"},
        {"kind": "fixed"},
        {"kind": "fixed", "count": 0},
        {"kind": "fixed", "count": 2.0},
        {"kind": "fixed", "count": 2, "low": 1},
        {"kind": "uniform", "low": 3, "high": 2},
        {"kind": "poisson_lognormal", "mean": 0},
        {"kind": "poisson_lognormal", "mean": math.inf},
        {"kind": "poisson_lognormal", "mean": 2, "sigma": -1},
        {"kind": "schedule", "stages": []},
        {"kind": "schedule", "stages": [{"until": 0.5, "count": 1}]},
        {"kind": "schedule", "stages": [{"until": 0.5, "count": 1}, {"until": 0.5, "count": 2}, {"count": 1}]},
        {"kind": "schedule", "stages": [{"count": "3"}]},
        {"kind": "schedule", "stages": [{"count": {"kind": "schedule", "stages": [{"count": 1}]}}]},
        {"kind": "fixed", "count": 2, "backprop_last": 0},
    ],
)
def test_a_loop_that_means_nothing_is_refused(settings):
    with pytest.raises(ValidationError):
        LOOP.validate_python(settings)
