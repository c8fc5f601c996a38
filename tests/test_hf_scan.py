"""Facts on scans over blocks of layers, and on their pictures."""

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import depthgraph as dg
import depthgraph.hf
from depthgraph.draw import scene
from depthgraph.draw.heat import COLOURS, SIDE, Heat, heat_scene, written
from depthgraph.draw.heat_text import heat_lines
from depthgraph.errors import ConfigError
from depthgraph.hf.evaluate import evaluate
from depthgraph.hf.results import Results
from depthgraph.hf.scan import blocks, scan
from depthgraph.hf.windows import Windows

from hf_models import MAIN, tiny

N = 4

pytestmark = pytest.mark.usefixtures("one_thread")


def windows(count=3, length=8):
    torch.manual_seed(0)
    tokens = torch.randint(3, 64, (2, count, length))
    return Windows(tokens[0], tokens[1], None, False)


@given(st.integers(1, 12), st.integers(1, 14), st.integers(1, 5), st.sampled_from(["repeat", "skip"]))
def test_blocks_are_all_stretches_between_the_steps(depth, width, step, kind):
    edges = {*range(0, depth, step), depth}
    expected = {
        (low + 1, high)
        for low in edges
        for high in edges
        if 0 < high - low <= width and (kind, high - low) != ("skip", depth)
    }
    if not expected:
        with pytest.raises(ConfigError, match="no block"):
            blocks(depth, kind, step=step, max_width=width)
        return
    found = blocks(depth, kind, step=step, max_width=width)
    assert {(block.first, block.last) for block in found} == expected
    assert len(found) == len(expected)
    for block in found:
        inside = tuple(range(block.first, block.last + 1))
        before, after = tuple(range(1, block.first)), tuple(range(block.last + 1, depth + 1))
        assert block.route.path == before + (inside + inside if kind == "repeat" else ()) + after
        assert block.route.dropped == (() if kind == "repeat" else inside)
        assert block.route.parameter_depth == depth


def test_all_blocks_of_thirty_layers():
    assert len(blocks(30, "repeat")) == 30 * 31 // 2
    assert len(blocks(30, "skip")) == 30 * 31 // 2 - 1


@pytest.mark.parametrize("kind", ["repeat", "skip"])
@pytest.mark.parametrize("name", MAIN)
def test_a_scan_gives_the_losses_of_the_whole_routes_to_the_last_bit(name, kind):
    todo, model = blocks(N, kind), tiny(name)
    scanned, whole = Results(None, {}), Results(None, {})
    scan(model, todo, windows(), scanned, batch=2)
    evaluate(model, [dg.route("1..N", N=N), *(block.route for block in todo)], windows(), whole, batch=2)
    assert {text: done.losses for text, done in scanned.routes.items()} == {
        text: done.losses for text, done in whole.routes.items()
    }


def test_a_scan_leaves_the_model_as_it_was():
    model, original = tiny("llama"), tiny("llama")
    scan(model, blocks(N, "repeat"), windows(), Results(None, {}))
    assert type(model) is type(original)
    with torch.no_grad():
        assert torch.equal(model(windows().inputs).logits, original(windows().inputs).logits)


def test_a_scan_runs_fewer_layers_than_its_routes():
    model, calls = tiny("llama"), []
    for layer in model.model.layers:
        layer.register_forward_hook(lambda *call: calls.append(1))
    todo = blocks(N, "repeat")
    scan(model, todo, windows(1), Results(None, {}))
    assert len(calls) == N + sum(N - block.first + 1 for block in todo) == 34
    assert N + sum(block.route.execution_depth for block in todo) == 64


def test_only_missing_blocks_are_run():
    model, todo, told = tiny("llama"), blocks(N, "skip"), []
    results = Results(None, {})
    scan(model, todo[:3], windows(), results)
    scan(model, todo, windows(4), results, batch=3, report=lambda *report: told.append(report))
    by_route = {text: sum(count for route, count in told if route == text) for text, _ in told}
    assert by_route == {"1..4": 1} | {block.route.text: 1 if place < 3 else 4 for place, block in enumerate(todo)}
    assert {len(done.losses) for done in results.routes.values()} == {4}


VALUES = {(1, 1): 0.2, (1, 2): 6.0, (2, 2): -0.05, (1, 3): math.nan, (2, 3): 0.31, (3, 3): 0.001}


def test_levels_lie_around_the_values():
    heat = Heat(VALUES, "a title")
    assert heat.steps == (0.03, 0.1, 0.3, 1.0, 3.0)
    assert [heat.level(value) for value in VALUES.values()] == [2, 5, -1, None, 3, 0]
    assert heat.levels == range(-1, 6)
    assert heat.best == (2, 2)


@given(st.dictionaries(st.tuples(st.integers(1, 9), st.integers(1, 9)), st.floats(), min_size=1))
def test_every_value_has_a_level_that_says_so(values):
    heat = Heat(values, "")
    for value in values.values():
        level = heat.level(value)
        if level is None:
            assert not math.isfinite(value)
        elif level == 0:
            assert abs(value) < heat.steps[0]
        else:
            assert level * value > 0
            assert heat.steps[abs(level) - 1] <= abs(value)
            assert abs(level) == SIDE or abs(value) < heat.steps[abs(level)]
        assert len(written(value)) <= 4 or abs(value) >= 1000


def test_a_picture_has_a_cell_for_each_block_in_its_colour():
    heat = Heat(VALUES, "a <title>", ("a note",))
    svg = scene.svg(heat_scene(heat))
    assert "a &lt;title&gt;" in svg
    cells = {colour: path.count("M") for colour, path in re.findall(r'<path fill="(#\w+)" d="([^"]*)"', svg)}
    in_legend = 1
    for level in (-1, 0, 2, 3, 5):
        assert COLOURS[level + SIDE] in cells
    assert sum(svg.count(f">{written(value)}<") for value in VALUES.values()) == len(VALUES)
    assert cells[COLOURS[SIDE + 1]] == in_legend
    assert "best: 2..2, -0.050" in svg


@pytest.mark.parametrize("count", [1, 2, 30, 90])
def test_pictures_of_all_sizes_hold_their_texts(count):
    heat = Heat({(i, j): 0.01 * (j - i) for i in range(1, count + 1) for j in range(i, count + 1)}, "title", ("note",))
    drawing = heat_scene(heat)
    for shape in drawing.shapes:
        if isinstance(shape, scene.Text):
            assert 0 <= shape.x <= drawing.width
            assert 0 < shape.y <= drawing.height
        if isinstance(shape, scene.Rect):
            assert shape.x + shape.width <= drawing.width
            assert shape.y + shape.height <= drawing.height
    assert drawing.width < 1_100


def test_a_text_map_has_a_sign_for_each_block():
    lines = ["".join(piece.text for piece in line).rstrip() for line in heat_lines(Heat(VALUES, "title"), 80)]
    assert lines[:7] == ["title", "", "      last layer", "first 1 2 3", "    1 2 5 ?", "    2   a 3", "    3     ."]
    assert lines[8:] == [
        "a  better by 0.03 to 0.1", ".  within 0.03", "1  worse by 0.03 to 0.1", "2  worse by 0.1 to 0.3",
        "3  worse by 0.3 to 1", "4  worse by 1 to 3", "5  worse by 3 or more",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [30, 50, 100])
def test_a_text_map_is_no_wider_than_the_screen(width):
    heat = Heat({(i, i): 0.1 for i in range(1, 31)}, "title")
    lines = ["".join(piece.text for piece in line).rstrip() for line in heat_lines(heat, width)]
    if width == 30:
        assert lines == ["title", "the map is 36 characters wide: see the picture"]
    else:
        assert max(map(len, lines)) <= width
        assert len(lines) == 1 + 3 + 30 + 2 + (len(heat.levels) - 1)
