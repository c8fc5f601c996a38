"""Notations of other projects: what is read is what they mean, and what is written has the fewest parts that say it."""

import itertools
import json
import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph import formats
from depthgraph.formats import NOTATIONS

#: What `read` and `write` have to be told.
READS = {"list": {"base": 0}}
WRITES = {"list": {"base": 0}, "mergekit": {"model": "some/model"}}

NAMES = sorted(NOTATIONS)


def read(name, value, depth=None, **options):
    return formats.read(name, value, N=depth, **{**READS.get(name, {}), **options})


def write(name, route, **options):
    return formats.write(name, route, **{**WRITES.get(name, {}), **options})


def paths(most=5, longest=9):
    """N and a path over its layers, from 1; often close to the standard order, which more notations can say."""

    def of(depth):
        layers = st.integers(1, depth)
        jumps = st.lists(st.tuples(layers, layers, st.integers(1, 3)), max_size=3)
        near = jumps.map(lambda found: _repeated(depth, found))
        return st.tuples(st.just(depth), st.one_of(st.lists(layers, min_size=1, max_size=longest), near))

    return st.integers(1, most).flatmap(of)


def _repeated(depth, jumps):
    path = list(range(1, depth + 1))
    for first, last, count in jumps:
        first, last = sorted((first, last))
        path = [
            each
            for layer in path
            for each in ([layer] if layer != last else [layer, *[*range(first, last + 1)] * count])
        ]
        path = path[:20]
    return path


routes = paths().map(lambda pair: dg.Route.of(pair[1], pair[0]))


def said(name, route):
    """Return what a notation writes for a route, or nothing."""
    try:
        return write(name, route)
    except dg.FormatError as error:
        assert error.code == "unsayable-route"
        assert NOTATIONS[name].convention in error.help
        return None


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_notation_is_its_route_and_is_what_is_written(name):
    notation, route = NOTATIONS[name], dg.route(NOTATIONS[name].spec)
    assert read(name, notation.example, route.parameter_depth) == route
    assert (
        formats.write_text(name, route, **{**WRITES.get(name, {}), **({"model": "NAME"} if name == "mergekit" else {})})
        == notation.example
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_notation_says_everything_of_itself(name):
    notation = NOTATIONS[name]
    assert notation.name == name
    for text in (notation.title, notation.ends, notation.weights, notation.cannot, notation.example):
        assert text
        assert text.isascii()
    assert notation.checked or name == "list"
    assert ("from the base that is given" if name == "list" else "from 0") in notation.convention
    assert notation.ends in notation.convention


@pytest.mark.parametrize("name", NAMES)
@given(route=routes)
def test_what_is_written_reads_as_the_route(name, route):
    value = said(name, route)
    if value is None:
        return
    depth = route.parameter_depth
    assert read(name, value, depth) == route
    text = NOTATIONS[name].text(value)
    assert read(name, text, depth) == route
    assert read(name, dg.Source(text, "a file"), depth) == route


@pytest.mark.parametrize("name", ["x-transformers", "exllamav3", "rys", "peft", "mergekit", "list"])
@given(route=routes)
def test_every_order_of_layers_can_be_said(name, route):
    assert said(name, route) is not None


@given(route=routes, base=st.integers(0, 1))
def test_a_list_is_the_path_from_its_base(route, base):
    value = formats.write("list", route, base=base)
    assert value == [layer - 1 + base for layer in route.path]
    for text in (str(value), " ".join(map(str, value)), ",".join(map(str, value)), f"({', '.join(map(str, value))},)"):
        assert formats.read("list", text, base=base, N=route.parameter_depth) == route


@given(route=routes, entries=st.integers(1, 4))
def test_x_transformers_has_an_entry_for_each_part_of_a_layer(route, entries):
    value = formats.write("x-transformers", route, entries=entries)
    assert [entry // entries + 1 for entry in value[::entries]] == list(route.path)
    assert [entry % entries for entry in value] == list(range(entries)) * len(route.path)
    assert formats.read("x-transformers", value, entries=entries, N=route.parameter_depth) == route


def rises(path):
    """Count the pieces of a path in which each layer is followed by the next one."""
    return 1 + sum(after != before + 1 for before, after in itertools.pairwise(path))


@given(route=routes)
def test_ranges_are_as_few_as_can_be(route):
    value = formats.write("peft", route)
    assert len(value) == rises(route.path)
    assert [layer for start, end in value for layer in range(start + 1, end + 1)] == list(route.path)
    config = write("mergekit", route)
    assert [each["sources"][0]["layer_range"] for each in config["slices"]] == value


@given(route=routes)
def test_a_layer_map_has_the_fewest_parts_of_all(route):
    path = route.path
    fewest = [0] * (len(path) + 1)
    for end in range(1, len(path) + 1):
        fewest[end] = min(fewest[start] + 1 for start in range(end) if _is_run(path[start:end]))
    assert len(formats.write("exllamav3", route).split(",")) == fewest[-1]


def _is_run(piece):
    return len({after - before for before, after in itertools.pairwise(piece)} | {0} - {0}) <= 1 and (
        len(piece) == 1 or abs(piece[1] - piece[0]) == 1
    )


pairs = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(sorted).filter(lambda pair: pair[0] < pair[1])


@given(ranges=st.lists(pairs, min_size=1, max_size=5))
def test_ranges_are_read_one_after_the_other(ranges):
    expected = [layer + 1 for start, end in ranges for layer in range(start, end)]
    for value in (
        ranges,
        tuple(map(tuple, ranges)),
        str(ranges),
        str(tuple(map(tuple, ranges))),
        yaml.safe_dump(ranges),
    ):
        route = read("peft", value, 5)
        assert list(route.path) == expected
        assert route.parameter_depth == 5
    normal = formats.write("peft", read("peft", ranges))
    assert formats.write("peft", read("peft", normal)) == normal


ends = st.one_of(st.just(""), st.integers(0, 4).map(str), st.integers(0, 4).map("+{}".format))
map_parts = st.one_of(st.integers(0, 4).map(str), st.tuples(ends, st.sampled_from(["..", " .. "]), ends).map("".join))


@given(parts=st.lists(map_parts, min_size=1, max_size=4))
def test_a_layer_map_is_read_part_by_part(parts):
    expected = []
    for part in parts:
        first, dots, last = part.partition("..")
        start = int(first) if first.strip() else 0
        end = (int(last) if last.strip() else 4) if dots else start
        expected += range(start, end + 1) if start <= end else range(start, end - 1, -1)
    assert list(read("exllamav3", ",".join(parts), 5).path) == [layer + 1 for layer in expected]


def inserted(depth, blocks):
    """What RYS says of its blocks: the first jumps back, each further one goes behind the last run of its end."""
    path = list(range(depth))
    for first, end in blocks:
        at = max(index for index, layer in enumerate(path) if layer == end - 1)
        path = [*path[: at + 1], *range(first, end), *path[at + 1 :]]
    return path


@given(depth=st.integers(1, 5), data=st.data())
def test_blocks_of_rys_are_inserted_one_by_one(depth, data):
    block = st.tuples(st.integers(0, depth), st.integers(0, depth)).filter(lambda pair: pair[0] < pair[1])
    blocks = data.draw(st.lists(block, max_size=3))
    text = "blocks:" + (";".join(f"{first},{end}" for first, end in blocks) or "0,0")
    route = read("rys", text, depth)
    assert list(route.path) == [layer + 1 for layer in inserted(depth, blocks)]
    if len(blocks) == 1:
        assert read("rys", f" ( {blocks[0][0]} , {blocks[0][1]} ) ", depth) == route
    # whatever the order in which they were listed, one text says it
    written = formats.write("rys", route)
    assert len(written) <= len("layers:" + ",".join(map(str, route.path)))
    assert written.startswith("layers:") or written.count(",") == max(1, len(blocks))


def test_rys_takes_the_form_that_is_shorter():
    assert formats.write("rys", dg.route("1..52 46..80")) == "blocks:45,52"
    assert formats.write("rys", dg.route("1..6")) == "blocks:0,0"
    assert formats.write("rys", dg.route("1..2")) == "blocks:0,0"
    assert formats.write("rys", dg.route("1")) == "layers:0"
    assert formats.write("rys", dg.route("1x5")) == "layers:0,0,0,0,0"
    assert formats.write("rys", dg.route("1..3 rev(1..3)")) == "layers:0,1,2,2,1,0"


def looped(depth, most):
    """Every path that is 1..N with some ranges run up to `most` times, each with its ranges."""
    if depth == 0:
        yield (), ()
        return
    for size in range(1, depth + 1):
        for path, blocks in looped(depth - size, most):
            last = tuple(range(depth - size, depth))
            if size == 1:
                yield path + last, blocks
            for count in range(2, most + 1):
                yield path + last * count, (*blocks, (depth - size, depth - 1, count))


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_ranges_repeated_whole_are_all_that_executorch_and_repeat_blocks_say(depth):
    known = dict(looped(depth, 3))
    for length in range(1, 7):
        for path in itertools.product(range(depth), repeat=length):
            route = dg.Route.of([layer + 1 for layer in path], depth)
            blocks = known.get(path)
            entries, repeated = said("executorch", route), said("x-transformers-repeat", route)
            if max(route.reuse_map) > 3:
                continue
            assert (entries is None) == (repeated is None) == (blocks is None), path
            if blocks is not None:
                assert [(each["start"], each["end"], each["count"]) for each in entries] == list(blocks)


def test_repeat_blocks_are_written_as_short_as_forward_takes_them():
    assert formats.write("x-transformers-repeat", dg.route("1..5")) == ()
    assert formats.write("x-transformers-repeat", dg.route("1..2 3x4 4")) == (2, 4)
    assert formats.write("x-transformers-repeat", dg.route("(1..2)x2 3 4x2")) == (((0, 1), 2), (3, 2))
    assert formats.read("x-transformers-repeat", "((3, 2), ((0, 1), 2))", N=4) == dg.route("(1..2)x2 3 4x2")
    assert formats.read("x-transformers-repeat", [[[0, 0], 1], [1, 3]], N=3) == dg.route("1 2x3 3")


@given(route=routes)
def test_a_loop_map_is_the_reuse_map_of_a_route_that_goes_on_layer_by_layer(route):
    in_order = list(route.path) == sorted(route.path) and not route.dropped
    assert said("ilr", route) == (list(route.reuse_map) if in_order else None)


def test_without_n_a_model_ends_with_the_highest_layer_that_is_named():
    assert formats.read("peft", [[0, 4], [2, 5]]).parameter_depth == 5
    assert str(formats.read("peft", [[0, 4], [2, 5]], N=7)) == "1..4 3..5 drop(6..7)"
    assert formats.read("rys", "layers:0,2").dropped == (2,)
    assert formats.read("exllamav3", "0..15,11..", N=32) == dg.route("1..16 12..32")


CONFIG = """\
# a comment
slices:
  - sources:
      - {model: &name NousResearch/Llama-2-7b-hf, layer_range: [0, 4]}
  - sources: [{layer_range: [2, 5], model: *name}]
merge_method: passthrough
dtype: bfloat16
tokenizer_source: base
"""


def test_a_mergekit_config_carries_its_model_and_settings():
    found = formats.reading("mergekit", CONFIG)
    assert found.route == dg.route("1..4 3..5")
    assert found.options == {"model": "NousResearch/Llama-2-7b-hf", "dtype": "bfloat16", "tokenizer_source": "base"}
    again = formats.write("mergekit", found.route, **found.options)
    assert again == {**yaml.safe_load(CONFIG), "slices": again["slices"]}
    assert formats.reading("mergekit", again) == found
    assert formats.reading("mergekit", formats.write_text("mergekit", found.route, **found.options)) == found


def test_a_model_that_is_a_mapping_is_written_without_aliases():
    model = {"model": {"path": "a", "revision": "main"}, "lora": {"path": "b"}}
    text = formats.write_text("mergekit", dg.route("lft(4)"), model=model)
    assert "&" not in text
    assert formats.reading("mergekit", text).options == {"model": model}


@pytest.mark.parametrize(
    ("name", "text", "depth", "route"),
    [
        (
            "peft",
            json.dumps({"r": 8, "target_modules": ".*(q|v", "layer_replication": [[0, 4], [2, 5]]}),
            None,
            "1..4 3..5",
        ),
        (
            "executorch",
            '{"dim": 8, "transformer_block_repeat_config": [{"start": 0, "end": 1, "count": 3}]}',
            3,
            "(1..2)x3 3",
        ),
        ("ilr", "loop_map: [2, 1]\nn_embd: 128\n", None, "1x2 2"),
        ("x-transformers", "layers_execute_order: [0, 1, 0, 1]\n", None, "1x2"),
        ("x-transformers-repeat", "repeat_blocks: [[0, 1], 2]\n", 3, "(1..2)x2 3"),
        ("peft", "- [0, 4]\n- [2, 5]\n", None, "1..4 3..5"),
    ],
)
def test_a_config_file_of_the_project_is_read_whole(name, text, depth, route):
    assert read(name, text, depth) == dg.route(route)


def test_integers_of_any_library_are_integers():
    numpy = pytest.importorskip("numpy")
    assert formats.read("peft", [[numpy.int64(0), 4], (2, numpy.int32(5))], N=numpy.int64(5)) == dg.route("1..4 3..5")
    assert formats.read("list", range(3), base=0) == dg.route("1..3")


def test_importing_the_package_does_not_load_the_notations():
    script = "import sys, depthgraph; print('depthgraph.formats' in sys.modules); depthgraph.formats.NOTATIONS"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
