"""Facts on the loops that pictures show, on colours, labels and lines."""

from itertools import pairwise

import pytest

import depthgraph as dg
from depthgraph.draw.geometry import spline
from depthgraph.draw.labels import clean, labels
from depthgraph.draw.palette import ANCHORS, INK, fill
from depthgraph.draw.staircase import ticks
from depthgraph.draw.structure import Loop, LoopSpan, executions, loop_spans, tree
from depthgraph.draw.summary import facts
from depthgraph.operations import Execution, Iteration
from depthgraph.route import Route


def shape(items):
    """The tree as numbers and (count, body of the first iteration)."""
    return [(i.count, shape(i.iterations[0])) if isinstance(i, Loop) else i.operation.layer for i in items]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("1 (2..3)x2 4", [1, (2, [2, 3]), 4]),
        ("(1 2x2)x3", [(3, [1, (2, [2])])]),
        ("(1 2)x1 3", [1, 2, 3]),
        ("(1..2)x2 (1..2)x3", [(2, [1, 2]), (3, [1, 2])]),
    ],
)
def test_the_loops_are_those_of_the_text(spec, expected):
    assert shape(tree(dg.route(spec))) == expected


def test_the_tree_has_every_execution_in_order():
    route = dg.route("1 ((2 3x2)x2 4)x2 5")
    assert tuple(executions(tree(route))) == route.executions


def test_loops_of_a_route_built_by_program_are_those_of_its_text():
    assert shape(tree(Route.of([1, 2, 3, 4] * 64))) == [(64, [1, 2, 3, 4])]


def test_loops_that_the_caller_names_are_kept():
    named = [(Iteration(1, 1, 2),), (Iteration(1, 1, 2),), (Iteration(1, 2, 2),), (Iteration(1, 2, 2),)]
    executions = [Execution(1, layer, 1, loops) for layer, loops in zip([1, 2, 1, 2], named, strict=True)]
    assert shape(tree(Route.of_operations(executions))) == [(2, [1, 2])]


def test_a_text_too_long_to_parse_is_drawn_without_loops(monkeypatch):
    def refuse(*_args, **_names):
        raise dg.DepthGraphError("spec-too-long", "over the limit")

    monkeypatch.setattr("depthgraph.expand.route_from_text", refuse)
    assert shape(tree(Route.of([1, 2, 1, 2]))) == [1, 2, 1, 2]


def test_a_loop_whose_layers_shift_does_not_repeat():
    shifting = next(item for item in tree(dg.route("lft(5)")) if isinstance(item, Loop))
    assert not shifting.repeats
    assert shifting.title == f"{shifting.count} iterations"


def test_where_the_loops_are():
    assert loop_spans(tree(dg.route("(1 2x2)x2 3"))) == (
        LoopSpan("×2", 0, 2, 3),
        LoopSpan("×2", 0, 5, 6),
        LoopSpan("×2", 1, 1, 6),
    )


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("depth", [1, 2, 3, 7, 24, 80])
def test_dark_text_reads_on_the_colour_of_every_layer(depth):
    for layer in range(1, depth + 1):
        assert (luminance(fill(layer, depth)) + 0.05) / (luminance(INK) + 0.05) > 4.5


def test_the_ends_of_the_palette_are_the_first_and_the_last_layer():
    assert [fill(layer, 7) for layer in range(1, 8)] == list(ANCHORS)
    assert len({fill(layer, 80) for layer in range(1, 81)}) == 80


def test_names_are_a_mapping_or_one_for_each_layer():
    route = dg.route("1..3")
    assert labels(route) == ("L1", "L2", "L3")
    assert labels(route, {2: "middle"}) == ("L1", "middle", "L3")
    assert labels(route, ["a", "b", ""]) == ("a", "b", "L3")


@pytest.mark.parametrize(
    ("names", "code", "message", "help"),
    [
        ({4: "x"}, "unknown-layer", "a name is given for layer 4, which does not exist", "1..3"),
        (["x"], "layer-count", "1 names are given for the 3 layers of this route", "one for each layer"),
    ],
)
def test_names_that_do_not_fit_are_refused(names, code, message, help):
    with pytest.raises(dg.DrawError) as caught:
        labels(dg.route("1..3"), names)
    assert (caught.value.code, caught.value.message) == (code, message)
    assert help in caught.value.help


def test_what_no_picture_can_show_is_replaced():
    assert clean("a\nb\tc\x00\ud800\ufffe\u202e") == "a↵b c" + "\ufffd" * 4
    assert clean("x" * 300) == "x" * 199 + "…"


def test_the_summary_of_a_route_has_its_measures():
    assert facts(dg.route("1..4 drop(5..8) 9..12")) == "N = 12 · E = 8 · E/N = 0.67 · dropped: 5..8"
    every_other = Route.of(range(1, 41, 2), 40)
    assert facts(every_other).endswith("dropped: 2, 4 … 40 (20 layers)")


def test_a_line_is_rounded_at_its_corners_and_ends_in_an_arrow():
    line = spline([(0, 0), (20, 0), (20, 40)], radius=4)
    assert line.startswith("e,20,40 0,0 ")
    assert line.endswith(" 20,34")
    assert len(line.split()) == 2 + 3 * 3


@pytest.mark.parametrize(("count", "size"), [(1, 5), (12, 30), (68, 11), (256, 3), (100_000, 0.0076)])
def test_numbers_on_an_axis_have_room(count, size):
    shown = list(ticks(count, size, 20))
    assert shown[0] == 1
    assert all((b - a) * size >= 20 for a, b in pairwise(shown))
    assert shown[-1] <= count
