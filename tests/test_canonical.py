"""Route → canonical text."""

import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from ruamel.yaml import YAML

import depthgraph as dg
from depthgraph.repeats import repeats
from depthgraph.route import Route
from depthgraph.stretches import SHORT

from strategies import routes

LARGE = dg.Limits(characters=10**7)


@given(routes)
def test_the_text_of_a_route_means_that_route(route):
    again = dg.route(str(route))
    assert again == route
    assert str(again) == str(route)
    assert again.parameter_depth == route.parameter_depth


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1", "L1"),
        ("1 2", "1..2"),
        ("1 1", "1x2"),
        ("1 -> 2 -> 1 -> 2", "(1..2)x2"),
        ("lft(24)", "1..2 (i..i+2 for i in 1..22)"),
        ("lft(5)", "1..2 (i..i+2 for i in 1..3)"),
        ("lft(3)", "1..2 1..3"),
        ("ilr[4,2,1,1]", "1x4 2x2 3..4"),
        ("ilr[2,2,2,2]", "1x2 2x2 3x2 4x2"),
        ("sequence(12,2)", "(i x2 for i in 1..12)"),
        ("block(2..4)x2 5", "1..4 2..5"),
        ("looped(2,4,2,8)", "1..2 (3..6)x8 7..8"),
        ("cycle_rev(12)", "1..12 (13-i for i in 1..12)"),
        ("(lft(9))x3", "(1..2 (i..i+2 for i in 1..7))x3"),
        ("((1 2x2)x3 3)x5", "((1 2x2)x3 3)x5"),
        ("1..3 drop(4..6) 7 drop(8)", "1..3 7 drop(4..6) drop(8)"),
        ("(2*i-1 for i in 1..12) (2*i for i in 1..12)", "(2*i-1 for i in 1..12) (2*i for i in 1..12)"),
        ("1..20 11..30 21..40 31..50 41..60 51..70 61..80", "(10*i-9..10*i+10 for i in 1..7)"),
        ("1..24 9..32", "1..24 9..32"),
        ("1..52 46..80", "1..52 46..80"),
    ],
)
def test_known_texts(text, canonical):
    assert str(dg.route(text)) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("4 3 2 1 drop(5..7) 8", "4 3 2 1 8 drop(5..7)"),
        ("(2*i for i in 1..4) drop(1) drop(3) drop(5) drop(7)", "2 4 6 8 drop(1) drop(3) drop(5) drop(7)"),
        ("(2*i-1 for i in 1..6) (2*i for i in 1..6)", "1 3 5 7 9 11 2 4 6 8 10 12"),
        ("1..6 rev(1..6)", "1..5 6x2 5 4 3 2 1"),
        ("(5-i for i in 1..4)x4", "(4 3 2 1)x4"),
        ("1..4 (3..4)x2 5..8 (7..8)x2", "1..4 3..4 3..6 (7..8)x3"),
        ("lft(4)", "1..2 1..3 2..4"),
    ],
)
def test_a_comprehension_has_to_be_shorter_unless_it_goes_up_by_one_layer(text, canonical):
    assert str(dg.route(text)) == canonical


def test_a_lone_comprehension_is_repeated_without_a_second_pair_of_parentheses():
    assert str(dg.route("(rev(1..12))x4")) == "(13-i for i in 1..12)x4"
    assert str(dg.route("(lft(9))x2 (rev(1..12))x3 1")) == "(1..2 (i..i+2 for i in 1..7))x2 (13-i for i in 1..12)x3 1"


@given(st.integers(3, 12), st.integers(2, 9))
def test_a_repeat_of_one_layer_begins_anywhere_in_its_run(times, more):
    """The run begins within the last copy of another repeat."""
    text = str(Route.of([2, 3, 1, 2] * times + [2] * more))
    assert text == f"(2..3 1..2)x{times} 2x{more}"


@pytest.mark.parametrize(
    "text",
    ["(1..2)x10 3 ((1..2)x20 3)x5", "11..20 (1..20)x5", "51..100 (1..100)x5", "3x9 4 (3x50 4)x7 drop(1..2)"],
)
def test_a_repeat_begins_where_a_shorter_one_ends(text):
    """What stands before it is a part of its body too."""
    assert str(dg.route(text)) == text


def _listing(path):
    """The layers and ranges of a path, one after the other."""
    starts = [0, *(at for at in range(1, len(path)) if path[at] != path[at - 1] + 1), len(path)]
    parts = [path[start:end] for start, end in pairwise(starts)]
    return " ".join(f"{part[0]}..{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)


@given(routes)
def test_no_form_makes_the_text_longer_than_a_listing_by_more_than_a_few_characters(route):
    text = str(route).partition(" drop(")[0]
    allowed = 1 + 10 * text.count(" for ") + 4 * text.count("x") + text.count("..")
    assert len(text) <= len(_listing(route.path)) + allowed


def _fibonacci(count):
    before, word = [1], [1, 2]
    while len(word) < count:
        before, word = word, word + before
    return word[:count]


@pytest.mark.parametrize(
    "path",
    [
        [layer for length in range(1, 100) for layer in [1] * length + [2]],
        [layer for length in range(1, 100) for layer in range(1, length)],
        [layer for length in range(1, 70) for layer in [*range(1, length), *range(length, 0, -1)]],
        _fibonacci(5_000),
        [1 + number.bit_count() % 2 for number in range(5_000)],
        [1] * 5_000,
        [1, 2] * 2_500,
        list(dg.route("((1x20 2)x20 3)x12").path),
    ],
)
def test_few_repeats_are_offered_of_a_route_with_many(path):
    """The time that a text takes is about that number, times the length of the bodies."""
    offered = repeats(path)
    assert sum(map(len, offered.values())) <= 4 * len(path)
    assert max(map(len, offered.values()), default=0) <= SHORT
    assert dg.route(str(Route.of(path)), limits=LARGE).path == tuple(path)


@given(st.integers(5, 400))
def test_a_repeat_with_shifted_layers_stays_short_at_any_depth(n):
    assert str(dg.route(f"lft({n})")) == f"1..2 (i..i+2 for i in 1..{n - 2})"


@given(st.lists(st.integers(1, 30), min_size=40, max_size=200, unique=False), st.integers(2, 4))
def test_a_long_period_is_found(body, times):
    """A body longer than the periods that are compared one by one, and without shorter repeats of its own."""
    once = len(str(Route.of(body)))
    assert len(str(Route.of(body * times))) <= once + 20


@given(routes)
def test_the_canonical_text_has_one_index_and_no_scheme(route):
    text = str(route)
    assert set(re.findall(r"[A-Za-z_]+", text)) <= {"i", "x", "for", "in", "drop", "L"}
    comprehensions = re.findall(r"\(([^()]*(?:\([^()]*\)x\d+[^()]*)*) for i in", text)
    assert all(" for " not in body for body in comprehensions)


@given(routes)
def test_equal_routes_have_equal_texts_however_they_are_written(route):
    spelled_out = " ".join(f"L{layer}" for layer in route.path)
    spelled_out += "".join(f" drop({layer})" for layer in route.dropped)
    assert str(dg.route(spelled_out)) == str(route)


def survives_yaml(text):
    assert not re.search(r": | #|\$\{", text)
    assert text[0] not in "[{*&!%@>|'\"- ?"
    assert yaml.safe_load(yaml.safe_dump({"route": text})) == {"route": text}
    assert yaml.safe_load(f"route: {text}") == {"route": text}
    ruamel = YAML(typ="safe")
    assert ruamel.load(f"route: {text}\n") == {"route": text}
    config = OmegaConf.create({"route": text})
    assert OmegaConf.create(OmegaConf.to_yaml(config, resolve=True)).route == text
    assert OmegaConf.create(f"route: {text}\n").route == text


@given(routes)
def test_the_canonical_text_survives_yaml(route):
    survives_yaml(str(route))


@pytest.mark.parametrize("text", ["L1", "(1..2)x2 3", "drop(1) 2", "mean(1 | 2 save(a) 1 add(a))"])
def test_ruamel_dumps_and_loads_it(text, tmp_path):
    ruamel, path = YAML(), tmp_path / "config.yaml"
    ruamel.dump({"route": str(dg.route(text))}, path)
    assert dg.route(ruamel.load(path)["route"]) == dg.route(text)


def test_a_random_route_of_a_thousand_executions():
    source = random.Random(0)
    for layers in (2, 3, 8, 100):
        route = Route.of([source.randint(1, layers) for _ in range(1_000)], layers)
        assert dg.route(str(route), limits=LARGE) == route


@pytest.mark.parametrize("text", ["lft(3000)", "((lft(90))x3 lft(20))x20", "1x9000", "(i x10 for i in 1..900)"])
def test_large_routes_keep_a_short_text(text):
    route = dg.route(text)
    assert len(str(route)) < 100
    assert dg.route(str(route)) == route


SCRIPT = """
import depthgraph as dg
from torch import nn
from depthgraph.draw import staircase_svg
from depthgraph.draw.folded import folded_dot
from depthgraph.draw.mermaid import folded_mermaid
from depthgraph.draw.unrolled import unrolled_dot
route = dg.route("1 (2..3)x2 lft(3..9) rev(1..4) drop(10)")
graph = dg.graph(route)
print(route, list(graph.edges), *[draw(route) for draw in (folded_dot, unrolled_dot, folded_mermaid, staircase_svg)])
print(dg.route("save(b) save(a) 1 mix(a,v) 2 gate(b,w) 3 mix(b,v) gate(a,w) exit"))
print(dg.compile(route, [nn.Linear(2, 2) for _ in range(10)]).code)
graph.remove_node("L3.2")
print(*dg.failures(graph))
try:
    dg.route("1..2 (3..6)x r q s t zz")
except dg.SpecError as error:
    print(error)
"""


def _output(seed):
    env = {"PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, check=True).stdout


def test_the_same_spec_gives_the_same_bytes_under_twenty_hash_seeds():
    """Canonical text, graph, pictures, generated code and messages."""
    with ThreadPoolExecutor(2) as pool:
        outputs = set(pool.map(_output, range(20)))
    assert len(outputs) == 1
    assert len(outputs.pop()) > 5_000
