"""Facts on the difference of two routes: what is aligned, what is said, what is drawn."""

import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.explore import diff
from depthgraph.explore.alignment import _best, _quick, align
from depthgraph.explore.picture import MOST_COLUMNS
from depthgraph.symbols import is_flow

from strategies import flow_routes, routes

DOCS = Path(__file__).parent.parent / "docs"

symbols = st.lists(st.integers(1, 4), max_size=12).map(tuple)
few = st.lists(st.integers(1, 3), max_size=5).map(tuple)
paths = st.lists(st.integers(1, 5), min_size=1, max_size=14)


def common(one, other):
    """The length of the longest common subsequence, by its definition."""

    @cache
    def best(a, b):
        if a == len(one) or b == len(other):
            return 0
        both = 1 + best(a + 1, b + 1) if one[a] == other[b] else 0
        return max(both, best(a + 1, b), best(a, b + 1))

    return best(0, 0)


def stretches(pairs, one, other):
    """How many stretches of either sequence stand between pairs."""
    corners = [(-1, -1), *pairs, (len(one), len(other))]
    return sum((b[0] - a[0] > 1) + (b[1] - a[1] > 1) for a, b in pairwise(corners))


@given(symbols, symbols)
def test_as_much_as_possible_is_aligned(one, other):
    pairs = align(one, other)
    assert len(pairs) == common(one, other)
    assert all(one[a] == other[b] for a, b in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))


@given(few, few)
def test_what_is_not_aligned_stands_in_as_few_stretches_as_possible(one, other):
    size = common(one, other)
    every = (
        list(zip(a, b, strict=True))
        for a in combinations(range(len(one)), size)
        for b in combinations(range(len(other)), size)
        if [one[n] for n in a] == [other[n] for n in b]
    )
    assert stretches(_best(one, other), one, other) == min(stretches(pairs, one, other) for pairs in every)


@given(symbols, symbols)
def test_long_routes_are_aligned_too(one, other):
    pairs = _quick(one, other)
    assert all(one[a] == other[b] for a, b in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))


def test_two_routes_over_the_largest_table_are_compared():
    found = diff(dg.route("(1..3)x800 4 (5 6)x400"), dg.route("1..3 4 (6 5)x400 5"))
    assert found.edits[0].kind == "same"
    assert found.edits[-1].other.stop == len(found.other.path)


@given(paths, paths)
def test_the_edits_make_one_route_of_the_other(before, after):
    one, other = dg.Route.of(before, 5), dg.Route.of(after, 5)
    found = diff(one, other)
    assert [n for edit in found.edits for n in edit.one] == list(range(len(before)))
    assert [n for edit in found.edits for n in edit.other] == list(range(len(after)))
    for number, edit in enumerate(found.edits):
        gone, new = ([path[n] for n in places] for path, places in ((before, edit.one), (after, edit.other)))
        match edit.kind:
            case "same":
                assert gone == new
            case "removed" | "moved away" | "shortened":
                assert gone
                assert not new
            case "added" | "moved here" | "repeated":
                assert new
                assert not gone
            case "replaced":
                assert gone
                assert new
        if edit.kind == "moved away":
            partner = found.edits[edit.partner]
            assert (partner.kind, partner.partner) == ("moved here", number)
            assert gone == [after[n] for n in partner.other]
        if edit.kind in ("repeated", "shortened"):
            whole, places = (after, edit.other) if edit.kind == "repeated" else (before, edit.one)
            begin = places.start - edit.unit
            stretch = whole[begin : places.start]
            assert whole[begin : places.stop] == stretch * (1 + len(places) // edit.unit)
    assert found.same == (before == after) == (not found.changes)


@given(flow_routes() | routes, flow_routes() | routes)
def test_routes_with_data_flow_are_compared_whole(one, other):
    found = diff(one, other)
    for route, symbols, which in zip((one, other), found.symbols, ("one", "other"), strict=True):
        assert [n for edit in found.edits for n in getattr(edit, which)] == list(range(len(symbols)))
        assert [symbol for symbol in symbols if not is_flow(symbol)] == list(route.path)
    for edit in found.edits:
        stretches = (
            found.symbols[0][edit.one.start : edit.one.stop],
            found.symbols[1][edit.other.start : edit.other.stop],
        )
        assert (edit.kind == "same") == (stretches[0] == stretches[1])
    layers = (one.parameter_depth, one.dropped) == (other.parameter_depth, other.dropped)
    assert found.same == (layers and not found.changes)
    assert str(found).splitlines()[1:] if not found.same else str(found).endswith("the routes are equal")
    drawn = [word for row in rows(found.draw()) for _, word in row]
    assert sorted(word for word in drawn if word.isdigit()) == sorted(map(str, one.path + other.path))


TEXTS = [
    ("1..6", "1..4 2..6", ["after execution 4: `2..4` once more", "layers 2..4: 1 → 2 visits",
        "E 6 → 9, multiplier 1 → 1.5, max visits 1 → 2, longest return 0 → 3"]),
    ("1..2 (3..4)x2 5", "1..2 (3..4)x4 5", ["after execution 6: `3..4` twice more", "layers 3..4: 2 → 4 visits",
        "E 7 → 11, multiplier 1.4 → 2.2, max visits 2 → 4"]),
    ("1..2 (3..4)x5 5", "1..2 (3..4)x2 5", ["executions 7..12: `3..4` 3 times less", "layers 3..4: 5 → 2 visits",
        "E 13 → 7, multiplier 2.6 → 1.4, max visits 5 → 2"]),
    ("1..6", "1..2 4..6 3", ["execution 3: `3` is after execution 6 instead"]),
    ("1..4", "4 1..3", ["execution 4: `4` is at the start instead"]),
    ("1..6 3 2 6", "1..6 4 5 6", ["executions 7..8: `4..5` instead of `3 2`", "layers 2..3: 2 → 1 visit",
        "layers 4..5: 1 → 2 visits", "longest return 6 → 3"]),
    ("1..6", "1..8", ["N 6 → 8", "after execution 6: `7..8` is new", "layers 7..8: 0 → 1 visit", "E 6 → 8"]),
    ("1..6", "1..3 drop(4) 5..6", ["execution 4: `4` is gone", "layer 4 is dropped", "layer 4: 1 → 0 visits",
        "E 6 → 5, multiplier 1 → 0.83"]),
    ("1..3 drop(4..5)", "1..5", ["after execution 3: `4..5` is new", "layers 4..5 are no longer dropped",
        "layers 4..5: 0 → 1 visit", "E 3 → 5, multiplier 0.6 → 1"]),
    ("1..3", "1 save(a) 2 add(a) 3", ["the first is a chain, the second has data flow",
        "after execution 1: `save(a)` is new", "after execution 2: `add(a)` is new"]),
    ("1 save(a) 2 add(a) 3 stopgrad 3", "1 2 3 stopgrad exit 3", ["after execution 1: `save(a)` is gone",
        "after execution 2: `add(a)` is gone", "after execution 3: `exit` is new"]),
    ("1 mean(2 | 3) 4", "1 sum(2 | 3) 4", ["after execution 1: `sum(` instead of `mean(`"]),
    ("1 mean(2 | 3) 4", "1 mean(2 | 3 2) 4", ["after execution 3: `2` is new", "layer 2: 1 → 2 visits",
        "E 4 → 5, multiplier 1 → 1.25, max visits 1 → 2, longest return 0 → 2"]),
    ("1..3", "1..2 mean(3 | 1..2 3)", ["the first is a chain, the second has data flow",
        "execution 3: `mean(3 | 1..3)` instead of `3`", "layers 1..3: 1 → 2 visits",
        "E 3 → 6, multiplier 1 → 2, max visits 1 → 2, longest return 0 → 3"]),
    ("1..3", "1..2 3", ["the routes are equal"]),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "lines"), TEXTS)
def test_a_difference_is_said_in_words(one, other, lines):
    one, other = dg.route(one), dg.route(other)
    found = diff(one, other)
    assert str(found).splitlines() == [f"{one.text} → {other.text}", *lines]


def test_shared_weights_are_part_of_a_difference():
    one, other = (dg.route(f"1 save(a) 2 mix(a) 3 mix(a{w}) 4") for w in ("", ",w"))
    shared = dg.route("1 save(a) 2 mix(a,w) 3 mix(a,w) 4")
    assert diff(one, other).same
    assert [edit.kind for edit in diff(one, shared).changes] == ["replaced"]


def test_long_stretches_are_clipped_in_words():
    text = str(diff(dg.route("1..3"), dg.route(" ".join(map(str, [1, 2, 3] + [3, 1] * 60 + [2, 1])))))
    assert max(map(len, text.splitlines())) < 160


def rows(picture):
    """The numbers in the cells of the two rows, with where they stand."""
    found = {}
    for text in ElementTree.fromstring(picture.source).iter("{http://www.w3.org/2000/svg}text"):
        if text.get("font-size") == "10":
            found.setdefault(float(text.get("y")), []).append((float(text.get("x")), text.text))
    return list(found.values())


def test_a_picture_has_what_is_the_same_below_one_another():
    top, bottom = rows(diff(dg.route("1..6"), dg.route("1..4 2..6")).draw())
    assert [word for _, word in top] == list("123456")
    assert [word for _, word in bottom] == list("123423456")
    assert [place for place, _ in top] == [place for place, _ in bottom[:4] + bottom[7:]]


@given(paths, paths)
def test_a_picture_has_every_execution_of_both_routes(before, after):
    drawn = rows(diff(dg.Route.of(before, 5), dg.Route.of(after, 5)).draw())
    assert sorted(word for row in drawn for _, word in row) == sorted(map(str, before + after))


def test_a_long_picture_goes_on_in_the_next_line():
    drawn = rows(diff(dg.route("lft(24)"), dg.route("1..24")).draw())
    assert len(drawn) == 4
    assert all(place < 790 for row in drawn for place, _ in row)


def test_operations_of_data_flow_are_drawn_as_they_are_written():
    found = diff(dg.route("1..3"), dg.route("1 save(a) 2 add(a) mean(3 | 3)"))
    words = {word for row in rows(found.draw()) for _, word in row}
    assert {"save(a)", "add(a)", "mean(", "|", ")"} <= words


def test_the_picture_in_the_docs_is_the_one_that_is_drawn():
    page = (DOCS / "exploring.md").read_text(encoding="utf-8")
    one, other = re.search(r'dg.diff\(dg.route\("([^"]+)"\), dg.route\("([^"]+)"\)\)', page).groups()
    shown = (DOCS / "images" / "diff.svg").read_text(encoding="utf-8")
    assert shown == diff(dg.route(one), dg.route(other)).draw().source


def test_a_notebook_shows_the_picture():
    found = diff(dg.route("1..3"), dg.route("1..3 3"))
    assert found._repr_svg_() == found.draw().source


@pytest.mark.parametrize(
    ("ending", "begin"),
    [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("dot", b"digraph"), ("txt", b"1..3")],
)
def test_a_difference_is_saved_in_the_format_of_the_ending(tmp_path, ending, begin):
    path = tmp_path / f"a.{ending}"
    assert diff(dg.route("1..3"), dg.route("1..2 (3)x2")).save(path) == path
    assert path.read_bytes().startswith(begin)


def test_what_cannot_be_drawn_or_saved_is_refused(tmp_path):
    small = diff(dg.route("1..3"), dg.route("1..2 3x2"))
    for call, code in (
        (lambda: diff(dg.route("(1..2)x501"), dg.route("(1..2)x502")).draw(), "too-large-to-draw"),
        (lambda: small.save(tmp_path / "a.mmd"), "unknown-view"),
        (lambda: small.save(tmp_path / "none" / "a.svg"), "missing-file"),
    ):
        with pytest.raises(dg.DrawError) as caught:
            call()
        assert caught.value.code == code
    assert MOST_COLUMNS == 1_000
