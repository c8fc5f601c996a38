"""Names from users are shown as they are, and change nothing else, in any format."""

import re
from xml.etree import ElementTree

import pygraphviz
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.draw import staircase_svg
from depthgraph.draw.folded import folded_dot
from depthgraph.draw.labels import clean, clipped
from depthgraph.draw.mermaid import folded_mermaid, unrolled_mermaid
from depthgraph.draw.render import render
from depthgraph.draw.staircase import LONGEST_NAME, staircase_dot
from depthgraph.draw.unrolled import unrolled_dot

ROUTE = dg.route("1 (2 3)x2 drop(4)")
HOSTILE = [
    'attn "0"',
    "back\\slash \\N \\G \\",
    "two\nlines\r\n",
    "<b>bold</b>",
    "<<b>markup</b>>",
    "<>",
    "attn:0",
    "a::b",
    "{x|y}",
    "a; b -> c; }",
    '"]; x -> y; z ["',
    '"] --> x; y["',
    "end",
    "`code` **bold** $$x$$",
    "&amp; &#35; #35; %%",
    "日本語 é 🙂",
    "]]>",
    "\x00\x1b\ud800\uffff\u202e",
    " ",
    "x" * 20_000,
]
names = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=())))
several = st.lists(names, min_size=4, max_size=4)


def every_hostile_name(test):
    for name in HOSTILE:
        test = example([name] * 4)(test)
    return test


def shown(name, layer):
    return clean(name) or f"L{layer}"


def label(value):
    """The text that Graphviz shows for the value of a label."""
    return (value or "").replace("&amp;", "&").replace("\\\\", "\\")


@every_hostile_name
@given(several)
@settings(max_examples=60)
def test_dot_has_the_same_nodes_edges_and_attributes(texts):
    for draw, title in ((folded_dot, "{}"), (unrolled_dot, "{}·")):
        plain, named = (pygraphviz.AGraph(string=draw(ROUTE, given)) for given in (None, texts))
        assert named.nodes() == plain.nodes()
        assert named.edges() == plain.edges()
        for node in named.nodes():
            assert set(node.attr) == set(plain.get_node(node).attr)
            layer = re.match(r"L(\d)", node)
            if layer:
                number = int(layer[1])
                assert label(node.attr["label"]).startswith(title.format(shown(texts[number - 1], number)))
            else:
                assert label(node.attr["label"]) == node


@every_hostile_name
@given(several)
@settings(max_examples=60)
def test_svg_has_the_same_elements(texts):
    plain, named = (ElementTree.fromstring(staircase_svg(ROUTE, given)) for given in (None, texts))
    assert [element.tag for element in named.iter()] == [element.tag for element in plain.iter()]
    assert [sorted(element.attrib) for element in named.iter()] == [sorted(e.attrib) for e in plain.iter()]
    found = {element.text for element in named.iter()}
    assert {clipped(shown(text, layer), LONGEST_NAME) for layer, text in enumerate(texts, 1)} <= found


@every_hostile_name
@given(several)
@settings(max_examples=60)
def test_mermaid_has_the_same_lines(texts):
    label_of_node = re.compile(r'(L\d(?:_\d)?\(")[^"`\n<>&]*("\))')
    for draw in (folded_mermaid, unrolled_mermaid):
        plain, named = (label_of_node.sub(r"\1\2", draw(ROUTE, given)) for given in (None, texts))
        assert named == plain


@every_hostile_name
@given(several)
@settings(max_examples=30)
def test_the_staircase_as_dot_is_one_node(texts):
    parsed = pygraphviz.AGraph(string=staircase_dot(ROUTE, texts))
    assert parsed.nodes() == ["canvas"]
    drawing = parsed.graph_attr["_background"].encode()
    assert drawing.count(b" -" + ROUTE.text.encode()) == 1
    assert _xdot_texts(drawing) >= {
        clipped(shown(text, layer), LONGEST_NAME).replace("\\", "\u2216") for layer, text in enumerate(texts, 1)
    }


def _xdot_texts(drawing):
    """Read every text by its length in bytes, as Graphviz does; what follows has to be the next operation."""
    found = set()
    for start in re.finditer(rb"T [-\d.]+ [-\d.]+ -?[01] 0 (\d+) -", drawing):
        end = start.end() + int(start[1])
        assert drawing[end : end + 1] == b" "
        assert drawing[end + 1 : end + 2] in b"cCSPLFT"
        found.add(drawing[start.end() : end].decode())
    return found


@pytest.mark.parametrize("name", HOSTILE[:-1])
@pytest.mark.parametrize("draw", [folded_dot, unrolled_dot])
def test_graphviz_shows_the_name_as_it_is(draw, name):
    picture = render(draw(dg.route("1"), [name]), "svg").decode()
    texts = [element.text for element in ElementTree.fromstring(picture).iter() if element.tag.endswith("text")]
    visit = "" if draw is folded_dot else "·1"
    assert (clean(name) + visit).strip() in [text.replace("\u00a0", " ").strip() for text in texts if text]


def test_an_empty_name_is_no_name():
    parsed = pygraphviz.AGraph(string=folded_dot(ROUTE, {2: ""}))
    assert parsed.get_node("L2").attr["label"] == "L2"
