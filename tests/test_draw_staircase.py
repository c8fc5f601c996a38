"""Facts on the staircase, as SVG, as DOT and as text."""

import re
from xml.etree import ElementTree

import pygraphviz
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.draw import staircase_svg, staircase_text
from depthgraph.draw.scene import Rect, Text
from depthgraph.draw.staircase import staircase, staircase_dot
from depthgraph.draw.staircase_text import terminal_width
from depthgraph.route import Route


def texts(scene, colour=None):
    return [s.text for s in scene.shapes if isinstance(s, Text) and colour in (None, s.colour)]


def cells(scene):
    return [s for s in scene.shapes if isinstance(s, Rect) and s.colour != "band"]


def test_there_is_a_cell_for_each_execution_further_right_and_at_the_height_of_its_layer():
    route = dg.route("lft(24)")
    drawn = cells(staircase(route))
    assert len(drawn) == route.execution_depth
    assert [c.x for c in drawn] == sorted({c.x for c in drawn})
    heights = sorted({c.y for c in drawn}, reverse=True)
    assert [heights.index(c.y) + 1 for c in drawn] == list(route.path)


def test_its_title_is_the_route_and_its_measures():
    shown = texts(staircase(dg.route("lft(5)")))
    assert shown[:2] == [str(dg.route("lft(5)")), "N = 5 · E = 11 · E/N = 2.2"]


def test_a_long_title_is_clipped_to_the_picture():
    scene = staircase(Route.of([3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 8, 7, 8, 1, 7, 2, 3, 8] * 2 + [1, 3]))
    assert texts(scene)[0].endswith("…") or len(texts(scene)[0]) * 6.7 < scene.width


def test_loops_have_brackets_and_labels_where_there_is_room():
    assert texts(staircase(dg.route("(1 2x2)x3")), "loop") == ["×2", "×2", "×2", "×3"]
    assert texts(staircase(dg.route("(1..4 5x2)x200")), "loop") == ["×200"]


def test_dropped_layers_are_said_to_be_dropped():
    assert texts(staircase(dg.route("1..2 drop(3) 4"))).count("dropped") == 1


def test_the_svg_is_xml_with_its_own_colours_for_dark_pages():
    text = staircase_svg(dg.route("block(2..4)x2", N=5))
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme:dark" in text
    used = set(re.findall(r'class="(dg-[a-z-]+)"', text))
    assert used
    assert all(f".depthgraph .{name}{{" in text for name in used)


def test_every_part_lies_in_the_picture():
    scene = staircase(dg.route("(1..3 (4..6)x3 7..9)x2"), {9: "a name that is long but not too long"})
    assert all(c.x >= 0 and c.x + c.width <= scene.width for c in cells(scene))
    assert all(0 <= s.y <= scene.height for s in scene.shapes if isinstance(s, Text))


def test_long_routes_stay_small_files():
    assert len(staircase_svg(dg.route("(1..80)x100"))) < 300_000


def test_as_dot_it_is_one_picture_that_graphviz_reads():
    parsed = pygraphviz.AGraph(string=staircase_dot(dg.route("(1..80)x100")))
    assert (parsed.number_of_nodes(), parsed.number_of_edges()) == (1, 0)


TEXT = """\
N = 5  E = 11  E/N = 2.2

         ╭─ 3 iterations ─╮
L5 │                     █▌
L4 │               █▌  █▌
L3 │         █▌  █▌  █▌
L2 │   █▌  █▌  █▌
L1 │ █▌  █▌
   └─┴───────┴─────────┴───
     1       5         10
"""
ASCII = """\
N = 4  E = 8  E/N = 2

          +- x4 -++x2+
     L4 |               #
     L3 |             #
attn??0 |         # #
     L1 | # # # #
        +-+-+-+-+-+-+-+-+-
          1 2 3 4 5 6 7 8
"""
WRAPPED = """\
N = 4  E = 16  E/N = 4

     ╭─── ×4 ────
L4 │    █   █   █
L3 │   █   █   █
L2 │  █   █   █
L1 │ █   █   █
   └─┴───┴────┴──
     1   5    10

     ─×4╮
L4 │    █
L3 │   █
L2 │  █
L1 │ █
   └───┴─
       15
"""


def test_text_for_lft():
    assert staircase_text(dg.route("1..2 (i..i+2 for i in 1..3)")) == TEXT


def test_ascii_only():
    text = staircase_text(dg.route("ilr[4,2,1,1]"), ascii=True, names={2: "attn日本0"})
    assert text == ASCII
    assert text.isascii()


def test_a_route_wider_than_the_terminal_goes_on_below():
    assert staircase_text(dg.route("(1..4)x4"), width=17) == WRAPPED


def test_of_many_layers_a_block_shows_those_that_run():
    lines = staircase_text(Route.of([1, 66, 64, 2], 66)).splitlines()
    assert [line.split("│")[0].strip() for line in lines[2:8]] == ["L66", "⋮", "L64", "⋮", "L2", "L1"]


def test_dropped_layers_are_marked_in_text():
    assert " L5 │ dropped" in staircase_text(dg.route("1..4 drop(5) 6..10")).splitlines()


def test_a_long_name_is_clipped_and_says_so():
    assert "x" * 23 + "…" in staircase_text(dg.route("1..2"), names={1: "x" * 40})


@given(st.lists(st.integers(1, 9), min_size=1, max_size=80), st.integers(1, 120), st.booleans())
@settings(max_examples=60)
def test_no_execution_is_lost_in_the_text(path, width, ascii):
    route = Route.of(path, 9)
    text = staircase_text(route, width, ascii)
    full = "#" if ascii else "█"
    assert text.count(full) == len(path)
    blocks = [block.splitlines() for block in text.split("\n\n")[1:]]
    found = []
    for block in blocks:
        rows = {int(line[1]): line[5:] for line in block if re.match(r"L\d [│|]", line)}
        columns = sorted((i, layer) for layer, row in rows.items() for i, sign in enumerate(row) if sign == full)
        found += [layer for _, layer in columns]
    assert found == path
    assert max(terminal_width(line) for block in blocks for line in block) <= max(width, 20)


@pytest.mark.parametrize("spec", ["1..100000", "(1 50000)x20000 2..49999"])
def test_the_largest_routes_are_drawn_in_seconds(spec):
    assert staircase_text(dg.route(spec)).count("█") > 89_000
