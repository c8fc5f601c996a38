"""Facts on drawing and saving: which pictures there are, with and without a Graphviz, and the same bytes every time."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import graphviz
import pytest

import depthgraph as dg
from depthgraph.draw import draw, save
from depthgraph.draw.views import DEFAULT_VIEWS, PICTURES

ROUTE = dg.route("1 (2..4)x2 5")
BEGINS = {"svg": b"<", "png": b"\x89PNG", "pdf": b"%PDF", "dot": b"digraph", "mmd": b"flowchart", "txt": b"N = 5"}
NEEDS_GRAPHVIZ = [pair for pair in PICTURES if pair[1] in ("svg", "png", "pdf") and pair != ("staircase", "svg")]


@pytest.fixture
def no_program(monkeypatch, tmp_path):
    """A machine without a `dot` program; pygraphviz is left."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))


@pytest.fixture
def no_graphviz(monkeypatch, no_program):
    """A machine without any Graphviz."""
    monkeypatch.setitem(sys.modules, "pygraphviz", None)


def program(folder, script):
    """A `dot` program that does what the shell script says."""
    path = folder / "dot"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(("view", "format"), PICTURES)
def test_every_picture_is_saved_without_a_dot_program(tmp_path, no_program, view, format):
    path = tmp_path / f"route.{format}"
    assert save(ROUTE, path, view) == path
    assert path.read_bytes().startswith(BEGINS[format])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", path.name]


@pytest.mark.parametrize(("view", "format"), NEEDS_GRAPHVIZ)
def test_every_picture_is_saved_on_this_machine(tmp_path, view, format):
    save(ROUTE, tmp_path / f"route.{format}", view)
    assert (tmp_path / f"route.{format}").read_bytes().startswith(BEGINS[format])


def test_a_dot_program_comes_first(tmp_path, monkeypatch, no_program):
    program(tmp_path / "empty", "printf drawn-by-program")
    save(ROUTE, tmp_path / "route.png")
    assert (tmp_path / "route.png").read_bytes() == b"drawn-by-program"


def test_a_dot_program_that_fails_is_as_good_as_none(tmp_path, no_program):
    program(tmp_path / "empty", "echo 'Format: png not recognized' >&2; exit 1")
    save(ROUTE, tmp_path / "route.png")
    assert (tmp_path / "route.png").read_bytes().startswith(BEGINS["png"])


@pytest.mark.parametrize(("view", "format"), NEEDS_GRAPHVIZ)
def test_without_any_graphviz_one_message_says_what_to_install(tmp_path, no_graphviz, view, format):
    with pytest.raises(dg.DrawError) as caught:
        save(ROUTE, tmp_path / f"route.{format}", view)
    assert str(caught.value) == (
        "error[missing-dot]: no working Graphviz is installed, so this picture cannot be rendered\n"
        'help: run `pip install "depthgraph[draw]"`, or install the system\'s package graphviz; '
        "files that end in .dot, .mmd or .txt, and the staircase as .svg, need neither"
    )
    assert not (tmp_path / f"route.{format}").exists()


@pytest.mark.parametrize(("view", "format"), [pair for pair in PICTURES if pair not in NEEDS_GRAPHVIZ])
def test_the_others_need_no_graphviz(tmp_path, no_graphviz, view, format):
    save(ROUTE, tmp_path / f"route.{format}", view)
    assert (tmp_path / f"route.{format}").read_bytes().startswith(BEGINS[format])


def test_the_view_is_folded_but_for_text(tmp_path):
    for format in ("dot", "txt", "mmd"):
        save(ROUTE, tmp_path / f"a.{format}")
        save(ROUTE, str(tmp_path / f"b.{format.upper()}"), DEFAULT_VIEWS.get(format, "folded"))
        assert (tmp_path / f"a.{format}").read_bytes() == (tmp_path / f"b.{format.upper()}").read_bytes()


def test_names_reach_every_picture(tmp_path, no_program):
    for view, format in PICTURES:
        if format not in ("png", "pdf"):
            save(ROUTE, tmp_path / f"r.{format}", view, {2: "attention"})
            assert b"attention" in (tmp_path / f"r.{format}").read_bytes(), (view, format)


@pytest.mark.parametrize(
    ("name", "view", "message", "help"),
    [
        (
            "r.txt",
            "folded",
            "there is no folded view as .txt",
            "as .txt there is staircase; a folded view can end in .svg, .png, .pdf, .dot, .mmd",
        ),
        (
            "r.mmd",
            "staircase",
            "there is no staircase view as .mmd",
            "as .mmd there is folded or unrolled; a staircase view can end in .svg, .png, .pdf, .dot, .txt",
        ),
        (
            "r.jpg",
            None,
            "the ending of r.jpg is not that of a picture",
            "a folded view can end in .svg, .png, .pdf, .dot, .mmd",
        ),
        (
            "r",
            None,
            "the ending of r is not that of a picture",
            "a folded view can end in .svg, .png, .pdf, .dot, .mmd",
        ),
        ("r.svg", "wheel", "there is no view `wheel`", "views are folded, unrolled, staircase"),
    ],
)
def test_a_picture_that_does_not_exist_is_refused_with_those_that_do(tmp_path, name, view, message, help):
    with pytest.raises(dg.DrawError) as caught:
        save(ROUTE, tmp_path / name, view)
    assert (caught.value.code, caught.value.message, caught.value.help) == ("unknown-view", message, help)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(dg.DrawError) as caught:
        save(ROUTE, tmp_path / "no" / "r.svg")
    message = f"the folder {tmp_path / 'no'} does not exist, so r.svg cannot be saved in it"
    assert (caught.value.code, caught.value.message) == ("missing-file", message)


@pytest.mark.parametrize("name", ["folder.svg", "a\0b.svg", "a" * 300 + ".svg", "file/a.svg", "a\0b/a.svg"])
def test_a_place_where_no_file_can_be_written_is_refused(tmp_path, name):
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(dg.DrawError) as caught:
        save(ROUTE, tmp_path / name)
    assert caught.value.code == "missing-file"
    assert caught.value.help
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder.svg"]


def test_a_file_system_that_takes_no_files_is_named():
    with pytest.raises(dg.DrawError, match=r"cannot write '/proc/x\.svg'"):
        save(ROUTE, "/proc/x.svg")


def test_the_graph_of_a_route_is_drawn_as_the_route(tmp_path):
    graph = dg.graph(ROUTE)
    for view in ("folded", "unrolled", "staircase"):
        assert draw(graph, view).source == draw(ROUTE, view).source
        assert save(graph, tmp_path / "a.dot", view).read_bytes() == save(ROUTE, tmp_path / "b.dot", view).read_bytes()


@pytest.mark.parametrize("given", ["lft(5)", dg.parse("lft(5)"), None, [1, 2], object()])
def test_what_is_no_route_is_not_drawn(tmp_path, given):
    for call in (lambda: draw(given), lambda: draw(given, "staircase"), lambda: save(given, tmp_path / "a.svg")):
        with pytest.raises(dg.DrawError) as caught:
            call()
        assert caught.value.code == "not-a-route"
        assert "dg.route(text)" in caught.value.help


def test_a_graph_that_breaks_rules_is_not_drawn():
    graph = dg.graph(ROUTE)
    graph.remove_node("L1.1")
    with pytest.raises(dg.GraphError):
        draw(graph)


def test_a_file_is_never_half_written(tmp_path, monkeypatch):
    target = tmp_path / "r.dot"
    target.write_text("before")

    def fail(path, content):
        path.write_text(content[:5].decode())
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(dg.DrawError, match="disk full"):
        save(ROUTE, target)
    assert [p.name for p in tmp_path.iterdir()] == ["r.dot"]
    assert target.read_text() == "before"


def test_draw_returns_a_graphviz_source_that_shows_itself(no_program):
    picture = draw(ROUTE, "folded", names=["a"] * 5)
    assert isinstance(picture, graphviz.Source)
    assert set(picture._repr_mimebundle_()) == {"image/svg+xml"}
    assert picture._repr_mimebundle_(include=["text/html"]) == {}
    assert picture._repr_mimebundle_(exclude=["image/svg+xml"]) == {}


def test_without_any_graphviz_a_notebook_shows_what_to_install(no_graphviz):
    shown = draw(ROUTE)._repr_mimebundle_()["text/plain"]
    assert shown.startswith("error[missing-dot]")
    assert "digraph" in shown


def test_the_staircase_and_a_route_show_themselves_without_any_graphviz(no_graphviz):
    picture = draw(ROUTE, "staircase")
    assert picture._repr_svg_() == str(picture) == picture.source == ROUTE._repr_svg_()


def test_there_is_no_other_view():
    with pytest.raises(dg.DrawError, match="there is no view `wheel`"):
        draw(ROUTE, "wheel")


SCRIPT = """
import hashlib, sys
import depthgraph as dg
from depthgraph.draw.views import PICTURES
for spec in ("lft(5)", "1..4 drop(5) drop(7..8) 6x4 9..12", "1 ((2 3x2)x2 4)x2 5",
             "1 save(a) (mean(2 exit | 3 add(a)))x2 sum(4 | 5) mix(a)"):
    for (view, format), drawer in PICTURES.items():
        if format in ("dot", "mmd", "txt") or (view, format) == ("staircase", "svg"):
            text = drawer(dg.route(spec), {1: "first", 2: "second"})
            print(view, format, hashlib.sha256(text.encode()).hexdigest())
assert not {"graphviz", "pygraphviz"} & set(sys.modules)
"""


def test_the_same_route_gives_the_same_bytes_under_every_hash_seed_and_loads_no_graphviz():
    def run(seed):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment
        )
        return done.stdout

    first, *others = (run(seed) for seed in ("0", "1", "4321"))
    assert first.count("\n") == 28
    assert others == [first, first]


def test_equal_routes_built_alike_give_the_same_rendered_bytes(tmp_path, no_program):
    pictures = []
    for name in ("a.png", "b.png"):
        save(dg.route("lft(5)"), tmp_path / name)
        pictures.append((tmp_path / name).read_bytes())
    assert pictures[0] == pictures[1]


#: Of routes without data flow, with the layers' own names and with others: the same pictures as before there was any.
CHAINS = {
    ("folded", "dot"): "505a91a4fdb9bdef",
    ("unrolled", "dot"): "61cf733f86b1a86b",
    ("staircase", "dot"): "0acfb3a7dfeac62e",
    ("folded", "mmd"): "1af964f1b5359da3",
    ("unrolled", "mmd"): "9d3a5904ca1de088",
    ("staircase", "svg"): "e8ab29b252e08ddd",
    ("staircase", "txt"): "852677a17c2bcdf8",
}


@pytest.mark.parametrize(("view", "format"), CHAINS)
def test_pictures_of_chains_are_what_they_were_without_data_flow(view, format):
    specs = ("lft(5)", "1..2 (3..6)x64 7..8", "1..4 drop(5) drop(7..8) 6x4 9..12", "1 ((2 3x2)x2 4)x2 5")
    specs = (*specs, "ilr[4,2,1,1]", "(1..3 (4..6)x3 7..9)x2")
    pictures = (PICTURES[view, format](dg.route(spec), names) for spec in specs for names in (None, {1: "first <b>"}))
    hashes = "".join(hashlib.sha256(picture.encode()).hexdigest() for picture in pictures)
    assert hashlib.sha256(hashes.encode()).hexdigest()[:16] == CHAINS[view, format]
