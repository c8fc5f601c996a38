"""Facts on the gallery: one small picture for each route, the same files every time."""

from xml.etree import ElementTree

import pytest
from test_draw_names import HOSTILE

import depthgraph as dg
from depthgraph.draw import gallery
from depthgraph.draw.gallery import SMALL
from depthgraph.schemes import catalogue

SVG = "{http://www.w3.org/2000/svg}"


def entries(*specs):
    return [(f"Route {spec}", "a paper", spec, dg.route(spec)) for spec in specs]


def test_there_is_a_picture_for_each_route_in_order(tmp_path):
    paths = gallery(entries("lft(5)", "(1..4)x2", "1 save(a) 2 gate(a) 3"), tmp_path)
    assert [path.name for path in paths] == ["route-lft-5.svg", "route-1-4-x2.svg", "route-1-save-a-2-gate-a-3.svg"]
    assert sorted(paths) == sorted(tmp_path.iterdir())


def test_a_picture_shows_title_source_spec_and_measures(tmp_path):
    (path,) = gallery([("Layer feedback", "Banaxi-Tech", "lft(5)", dg.route("lft(5)"))], tmp_path)
    texts = [element.text for element in ElementTree.parse(path).iter(f"{SVG}text")]
    assert texts[:4] == ["Layer feedback", "Banaxi-Tech", "lft(5)", "N = 5 · E = 11 · E/N = 2.2"]
    title = ElementTree.parse(path).find(f"{SVG}title")
    assert title.text == "Layer feedback: lft(5): N = 5 · E = 11 · E/N = 2.2"


def test_equal_titles_have_files_of_their_own(tmp_path):
    route = dg.route("1..2")
    titles = ["ILR", "ilr!", "ilr-2", "", "日本"]
    paths = gallery([(title, "", "1..2", route) for title in titles], tmp_path)
    assert [path.stem for path in paths] == ["ilr", "ilr-2", "ilr-2-2", "route", "route-2"]


def test_the_published_routes_have_small_pictures_of_one_width(tmp_path):
    listed = [(each.title, each.origin, each.text, dg.route(each.text, N=each.parameter_depth)) for each in catalogue()]
    paths = gallery(listed, tmp_path)
    assert len(set(paths)) == len(listed)
    widths = set()
    for path in paths:
        root = ElementTree.parse(path).getroot()
        widths.add(root.get("width"))
        assert float(root.get("height")) < 2.5 * SMALL.up
        assert path.stat().st_size < 40_000
    assert len(widths) == 1


def test_the_same_entries_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    pictures = [gallery(entries("1..2 save(e) (mix(e) 3..6)x4 7..8"), tmp_path / name)[0] for name in ("a", "b")]
    assert pictures[0].read_bytes() == pictures[1].read_bytes()


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_that_are_no_markup_stay_texts(tmp_path, text):
    (path,) = gallery([(text, text, text, dg.route("1..2"))], tmp_path)
    root = ElementTree.parse(path).getroot()
    plain = ElementTree.parse(gallery([("a", "b", "c", dg.route("1..2"))], tmp_path)[0]).getroot()
    assert [element.tag for element in root.iter()] == [element.tag for element in plain.iter()]


def test_no_text_is_wider_than_the_picture(tmp_path):
    (path,) = gallery([("title " * 40, "source " * 60, "1 " * 400, dg.route("1..2"))], tmp_path)
    root = ElementTree.parse(path).getroot()
    texts = [element for element in root.iter(f"{SVG}text")][:3]
    assert all(element.text.endswith("…") for element in texts)
    assert float(root.get("width")) < 450


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(dg.DrawError) as caught:
        gallery(entries("1..2"), tmp_path / "no")
    assert caught.value.code == "missing-file"
