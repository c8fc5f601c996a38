"""What a notation cannot say, and what is no value of it: each an error that says how the notation counts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph import formats
from depthgraph.formats import NOTATIONS

OPTIONS = {"list": {"base": 0}, "mergekit": {"model": "m"}}
SLICE = "slices: [{sources: [{model: m, layer_range: [0, 2]}]}]\nmerge_method: passthrough\n"

#: notation, value, N, line:column or nothing, what the message has.
INVALID = [
    ("peft", "[[0, 4], [2, 9]]", 5, "1:14", "a range up to 9 runs layer 8; 4 is the last layer of this model of 5"),
    ("peft", [[0, 4], [2, 9]], 5, None, "a range up to 9 runs layer 8"),
    ("peft", "[[-1, 3]]", 5, "1:3", "there is no layer -1"),
    ("peft", "[[4, 4]]", 5, "1:2", "a range from 4 to 4 names no layer"),
    ("peft", "[[4, 2]]", 5, "1:2", "a range from 4 to 2 names no layer"),
    ("peft", "[[0, 4, 5]]", 5, "1:2", "a range is a pair"),
    ("peft", "[]", 5, "1:1", "is empty"),
    ("peft", "[[]]", 5, "1:2", "is empty"),
    ("peft", "", 5, "1:1", "there is no value here"),
    ("peft", "# nothing\n", 5, "1:1", "there is no value here"),
    ("peft", "[[0, 4]", 5, "1:8", "this is not valid YAML"),
    ("peft", "[[0, 4)]", 5, "1:7", "`)` closes nothing that is open here"),
    ("peft", "((0), 4)", 5, "1:2", "a number in parentheses is no tuple"),
    ("peft", "[[0, 1.0]]", 5, "1:6", "is an integer"),
    ("peft", "[[0, 010]]", 20, "1:6", "is an integer"),
    ("peft", "[[0, 0x4]]", 20, "1:6", "is an integer"),
    ("peft", "[[0, 1_0]]", 20, "1:6", "is an integer"),
    ("peft", "[[0, '4']]", 20, "1:6", "is an integer"),
    ("peft", [[0, True]], 20, None, "is an integer"),
    ("peft", [[0, None]], 20, None, "is an integer"),
    ("peft", "[[0, 10000000000]]", None, "1:6", "is an integer of at most 9 digits"),
    ("peft", "[[0, 200000]]", None, "1:6", "runs layer 199999; 99999 is the most that the limits allow"),
    ("peft", "{r: 8}", None, "1:1", "this mapping has no `layer_replication`"),
    ("peft", '{"layer_replication": null}', None, "1:23", "`layer_replication` is a list; found None"),
    ("peft", 5, None, None, "`layer_replication` is a list; found 5"),
    ("peft", b"[[0, 4]]", None, None, "`layer_replication` is a list"),
    ("peft", dg.route("1 2"), None, None, "`layer_replication` is a list"),
    ("peft", "{a: 1, a: 2}", None, "1:8", "for the second time"),
    ("peft", "[[0, 2]]\n---\n[[0, 3]]", None, "2:1", "a second YAML document begins here"),
    ("peft", "&a [*a]", None, "1:1", "has more parts than any value of a notation"),
    ("x-transformers", "(0, 1, 3, 2)", 2, "1:8", "entry 3 stands where 2 would go on with the layer"),
    ("x-transformers", "(0, 1, 2)", 2, "1:8", "after entry 2 the layer is not finished"),
    ("x-transformers", "(0, 1, 4, 5)", 2, "1:8", "there is no layer 2; this model of 2 layers has 0..1"),
    ("x-transformers", "(-2, -1)", 2, "1:2", "there is no layer -1"),
    ("x-transformers-repeat", "((3, 2), 2)", 5, "1:3", "a range from 3 to 2 goes down"),
    ("x-transformers-repeat", "((2, 5), 2)", 5, "1:6", "there is no layer 5"),
    ("x-transformers-repeat", "((2, 3), 0)", 5, "1:10", "a count is at least 1; found 0"),
    ("x-transformers-repeat", "((0, 2, 1), ((1, 3), 2))", 5, "1:2", "an entry is a pair"),
    ("x-transformers-repeat", "(((0, 2), 2), ((1, 3), 2))", 5, "1:15", "two ranges share layer 1"),
    ("x-transformers-repeat", "((0, 1, 2), 2)", 5, "1:2", "a range is a block or a pair"),
    ("executorch", '[{"start": 0, "end": 1}]', 5, "1:2", "an entry lacks `count`"),
    ("executorch", '[{"start": 0, "end": 1, "count": 2, "kv": 1}]', 5, "1:43", "an entry has no `kv`"),
    ("executorch", '[{"start": 0, "end": 5, "count": 2}]', 5, "1:22", "there is no layer 5"),
    ("executorch", '[{"start": 0, "end": 3, "count": 2}, {"start": 3, "end": 4, "count": 2}]', 5, "1:38", "two ranges share layer 3"),
    ("executorch", "[5]", 5, "1:2", "an entry is a mapping of start, end, count; found 5"),
    ("ilr", "[4, 0, 1]", None, "1:5", "a count is at least 1; found 0"),
    ("ilr", "[4, -1, 1]", None, "1:5", "a count is at least 1; found -1"),
    ("ilr", "[4, 2, 1]", 4, "1:1", "there are 3 counts for 4 layers"),
    ("exllamav3", "0..3,", 5, "1:6", "`` is no layer and no range"),
    ("exllamav3", "0..3,2-4", 5, "1:6", "`2-4` is no layer and no range"),
    ("exllamav3", "0...3", 5, "1:1", "`0...3` is no layer and no range"),
    ("exllamav3", "0..3, 2..5", 5, "1:7", "there is no layer 5; this model of 5 layers has 0..4"),
    ("exllamav3", "-1", 5, "1:1", "there is no layer -1"),
    ("exllamav3", "0..٣", 5, "1:1", "is no layer and no range"),
    ("exllamav3", [0, 1], 5, None, "a layer map is a text; found [0, 1]"),
    ("rys", "layers:0,,1", 5, "1:10", "`` is no layer"),
    ("rys", "layers:0,1;2", 5, "1:10", "`1;2` is no layer"),
    ("rys", "layers:0,5", 5, "1:10", "there is no layer 5"),
    ("rys", "blocks:2,4;4,3", 5, "1:12", "there is no block 4,3"),
    ("rys", "blocks:2,6", 5, "1:8", "there is no block 2,6"),
    ("rys", "blocks:2,4;", 5, "1:12", "`` is no block"),
    ("rys", "(2,4", 5, "1:1", "`(2,4` is no block"),
    ("rys", "0,1,2", 5, "1:1", "`0,1,2` is no block"),
    ("list", "[0, 1, x]", None, "1:8", "`x` is no layer"),
    ("list", "0,,1", None, "1:3", "`,` is no layer"),
    ("list", "[0, 1", None, "1:1", "`[0` is no layer"),
    ("list", "[]", None, "1:1", "nothing runs"),
    ("list", "0 1 -1", None, "1:5", "there is no layer -1"),
    ("list", [0, 1.5], None, None, "a layer is an integer"),
    ("mergekit", SLICE.replace("passthrough", "slerp"), None, "2:15", "`merge_method` is 'slerp', not 'passthrough'"),
    ("mergekit", SLICE.split("\n")[0], None, "1:1", "`merge_method` is None"),
    ("mergekit", "merge_method: passthrough", None, "1:1", "the config has no `slices`"),
    ("mergekit", SLICE + "parameters: {scale: 2}", None, "3:13", "`parameters` is not a matter of a route"),
    ("mergekit", SLICE.replace("[0, 2]", "[0, 2], parameters: {scale: 0.5}"), None, "1:65", "`parameters` is not a matter of a route"),
    ("mergekit", SLICE + "slizes: []", None, "3:9", "a config has no `slizes`"),
    ("mergekit", "models: [{model: m}]\nmerge_method: passthrough", None, "1:9", "`models` is not a matter of a route"),
    ("mergekit", SLICE.replace("}]}", "}, {model: m, layer_range: [0, 2]}]}"), None, "1:20", "has one source; this one has 2"),
    ("mergekit", SLICE.replace("}]}", "}]}, {sources: [{model: n, layer_range: [0, 1]}]}"), None, "1:75", "of two models, 'm' and 'n'"),
    ("mergekit", SLICE.replace("[0, 2]", "[2, 2]"), None, "1:45", "`layer_range` from 2 to 2 names no layer"),
    ("mergekit", SLICE.replace("model: m, ", ""), None, "1:21", "a source lacks `model`"),
    ("mergekit", "[1]", None, "1:1", "a config is a mapping"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "depth", "place", "message"), INVALID, ids=lambda value: str(value)[:40])
def test_what_is_no_value_of_a_notation_is_an_error_at_its_place(name, value, depth, place, message):
    with pytest.raises(dg.FormatError) as caught:
        formats.read(name, value, N=depth, **({"base": 0} if name == "list" else {}))
    error = caught.value
    assert error.code == "invalid-notation"
    assert message in error.message
    assert error.help.endswith(NOTATIONS[name].convention)
    assert isinstance(value, str) == (error.location is not None)
    if place is not None:
        assert f"{error.location.line}:{error.location.column}" == place


#: notation, spec, what the message has.
UNSAYABLE = [
    ("x-transformers-repeat", "1..4 drop(5)", "layer 5 does not run"),
    ("x-transformers-repeat", "1..2 drop(3) 4", "execution 3 is layer 4, where layer 3 comes next"),
    ("x-transformers-repeat", "1..3 rev(1..3)", "execution 5 is layer 2, where the last layer has run"),
    ("x-transformers-repeat", "lft(5)", "execution 6 is layer 2, where layer 4 comes next"),
    ("x-transformers-repeat", "1..4 2..3 5", "execution 5 goes back to layer 2, and 2..4 does not run again"),
    ("executorch", "(1 2x2)x2", "execution 4 is layer 1, where the last layer has run"),
    ("executorch", "1..4 3..5 4..5", "execution 8 is layer 4, where the last layer has run"),
    ("ilr", "(1..2)x2", "layer 1 runs where layer 3 comes next"),
    ("ilr", "1x2 drop(2) 3", "layer 3 runs where layer 2 comes next"),
    ("ilr", "1 2 drop(3)", "layer 3 does not run"),
]


@pytest.mark.parametrize(("name", "spec", "message"), UNSAYABLE)
def test_what_a_notation_cannot_say_is_an_error_that_says_what(name, spec, message):
    with pytest.raises(dg.FormatError) as caught:
        formats.write(name, dg.route(spec))
    assert caught.value.code == "unsayable-route"
    assert caught.value.message == f"{NOTATIONS[name].title} cannot say this route: {message}"
    assert caught.value.help.endswith(NOTATIONS[name].convention)


@pytest.mark.parametrize("name", NOTATIONS)
def test_data_flow_is_in_no_notation(name):
    route = dg.route("1 save(a) mean(2 | 3 stopgrad) add(a) mix(a) gate(a) exit 4 save(b) load(a) sum(4 | 5) add(b)")
    with pytest.raises(dg.FormatError) as caught:
        formats.write(name, route, **OPTIONS.get(name, {}))
    assert caught.value.code == "unsayable-route"
    assert "it has `save`, `stopgrad`, `mean`, `add`, `mix`, `gate`, `exit`, `load`, `sum`" in caught.value.message
    assert caught.value.help.endswith(NOTATIONS[name].convention)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("exllamav3", "0..2,1.."), ("exllamav3", ".."), ("rys", "blocks:2,4"), ("rys", "blocks:0,0"),
        ("executorch", [{"start": 0, "end": 1, "count": 2}]), ("x-transformers-repeat", "((0, 1), 2)"),
    ],
)  # fmt: skip
def test_open_ends_need_n(name, value):
    with pytest.raises(dg.FormatError, match="N is needed") as caught:
        formats.read(name, value)
    assert caught.value.code == "notation-option"
    assert caught.value.help.endswith(NOTATIONS[name].convention)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("list", {}, "a list of numbers needs the option `base`"),
        ("list", {"base": 2}, "`base` cannot be 2"),
        ("list", {"base": True}, "`base` cannot be True"),
        ("list", {"base": 0, "bass": 1}, "a list of numbers has no option `bass`"),
        ("peft", {"base": 0}, "PEFT `layer_replication` has no option `base`"),
        ("mergekit", {"model": "m"}, "mergekit passthrough slices has no option `model`"),
        ("x-transformers", {"entries": 0}, "`entries` cannot be 0"),
        ("peft", {"N": 0}, "N is an integer of 1..100,000; found 0"),
        ("peft", {"N": "5"}, "N is an integer of 1..100,000; found '5'"),
        ("peft", {"N": 10**6}, "N is an integer of 1..100,000; found 1000000"),
    ],
)
def test_options_that_are_missing_or_wrong_are_errors(name, options, message):
    with pytest.raises(dg.FormatError) as caught:
        formats.read(name, "0", **options)
    assert (caught.value.code, caught.value.message) == ("notation-option", message)
    assert caught.value.help.endswith(NOTATIONS[name].convention)


def test_writing_needs_what_the_value_needs():
    for name in ("list", "mergekit"):
        with pytest.raises(dg.FormatError, match="needs the option"):
            formats.write(name, dg.route("1 2"))


@pytest.mark.parametrize(
    ("name", "help"), [("pfet", "did you mean `peft`?"), ("", "the notations are"), (5, "the notations are")]
)
def test_a_notation_that_does_not_exist_is_an_error_with_those_that_do(name, help):
    for call in (lambda: formats.read(name, "0"), lambda: formats.write(name, dg.route("1"))):
        with pytest.raises(dg.FormatError) as caught:
            call()
        assert caught.value.code == "unknown-notation"
        assert help in caught.value.help


def test_what_is_no_route_is_not_written():
    with pytest.raises(dg.FormatError) as caught:
        formats.write("peft", "lft(5)")
    assert caught.value.code == "not-a-route"


@pytest.mark.parametrize(
    ("name", "value", "depth"),
    [
        ("ilr", [999_999_999], None),
        ("x-transformers-repeat", ((0, 1), 999_999_999), 2),
        ("executorch", [{"start": 0, "end": 0, "count": 999_999_999}], 1),
        ("peft", [[0, 60_000], [0, 60_000]], None),
        ("exllamav3", "0..99999,0", None),
        ("rys", "blocks:" + ";".join(["0,99999"] * 3), 100_000),
    ],
)
def test_sizes_are_refused_before_anything_is_built(name, value, depth):
    with pytest.raises(dg.FormatError) as caught:
        formats.read(name, value, N=depth)
    assert caught.value.code == "too-many-executions"


def test_limits_are_settings():
    small = dg.Limits(executions=5)
    assert formats.read("peft", [[0, 5]], limits=small) == dg.route("1..5")
    for value in ([[0, 6]], [[0, 3], [0, 3]]):
        with pytest.raises(dg.FormatError):
            formats.read("peft", value, limits=small)


#: Pieces that values are made of, so that arbitrary text is not refused at its first character each time.
PIECES = ["0", "1", "2", "10", "-1", "+3", "[", "]", "(", ")", "{", "}", ",", ";", ":", "..", " ", "\n", "- ", "layers:", "blocks:", '"start": ', '"end": ', '"count": ', "slices: ", "sources: ", "model: ", "layer_range: ", "merge_method: passthrough", "&a ", "*a", "é", "\t", "'", "#", "!!int ", "0x1", "<<: "]  # fmt: skip
texts = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
objects = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["start", "end", "count", "slices", "sources", "model", "layer_range", "merge_method", "loop_map", 1]), inner, max_size=4),
    ),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize("name", NOTATIONS)
@settings(max_examples=300)
@given(value=st.one_of(texts, objects), depth=st.one_of(st.none(), st.integers(1, 6)))
def test_arbitrary_input_is_a_route_or_our_error(name, value, depth):
    limits = dg.Limits(executions=1_000)
    try:
        route = formats.read(name, value, N=depth, limits=limits, **({"base": 0} if name == "list" else {}))
    except dg.DepthGraphError as error:
        assert isinstance(error, dg.FormatError)
        assert NOTATIONS[name].convention in error.help
        assert len(error.render()) < 3_000
        return
    assert depth in (None, route.parameter_depth)
    assert formats.write(name, route, **OPTIONS.get(name, {})) is not None


def test_deep_and_wide_values_are_refused():
    for value in ("[" * 1_500, "(" * 150 + ")" * 150, "a: &a [*a]", "x: &x {y: *x}"):
        with pytest.raises(dg.FormatError):
            formats.read("peft", value)
    nested = []
    for _ in range(10_000):
        nested = [nested]
    with pytest.raises(dg.FormatError, match="nested deeper"):
        formats.read("peft", nested)
    bomb = "\n".join(
        [
            "a0: &a0 [0, 1]",
            *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)),
            "layer_replication: *a8",
        ]
    )
    with pytest.raises(dg.FormatError, match="more parts"):
        formats.read("peft", bomb)
