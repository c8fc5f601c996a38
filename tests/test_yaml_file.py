"""YAML files that remember where each value stands."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.yaml_file import parse_yaml, read_yaml


def found(document):
    return [value.keys for value in document.values("route")]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("seed: 3\nmodel:\n  route: block(2..7)x2\n", 3, 19),
        ("route: block(2..7)x2 # why\n", 1, 17),
        ('route: "block(2..7)x2"\n', 1, 18),
        ("route: 'block(2..7)x2'\n", 1, 18),
        ("route: >\n  1..2\n  block(2..7)x2\n\nb: 3\n", 3, 12),
        ("route: |\n  1..2\n  block(2..7)x2\n", 3, 12),
        ("route: 1..2\n   3  block(2..7)x2\n", 2, 16),
        ("- [{route: block(2..7)x2}]\n", 1, 21),
        ('route: "1 -> \\\n   7"\n', 2, 4),
        ("a: é\nroute: 1 7 1\n", 2, 10),
    ],
)
def test_a_spec_keeps_its_place_in_the_file(text, line, column):
    document = parse_yaml(text, "a.yaml")
    (value,) = document.values("route")
    with pytest.raises(dg.SpecError) as caught:
        dg.route(document.source_at(value.node), N=6)
    place = caught.value.location
    assert (place.line, place.column) == (line, column)
    assert str(caught.value).startswith(f"a.yaml:{line}:{column}: error[unknown-layer]: layer 7")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\na: 2", "a.yaml:2:1: error[invalid-yaml]: the key `a` stands here for the second time"),
        ("b:\n  a: 1\n  c: 2\n  a: 2", "a.yaml:4:3: error[invalid-yaml]"),
        ("2: 1\n0x2: 2", "a.yaml:2:1: error[invalid-yaml]: the key `0x2` stands here for the second time"),
        ("true: 1\nyes: 2", "a.yaml:2:1: error[invalid-yaml]: the key `yes` stands here for the second time"),
        ("a: &a [1]\nb: {<<: *a}", "a.yaml:1:8: error[invalid-yaml]: this is not valid YAML: `<<` names mappings only"),
        ("a: [1", "a.yaml:1:6: error[invalid-yaml]: this is not valid YAML"),
        ("a: *b", "a.yaml:1:4: error[invalid-yaml]"),
        (
            "--- 1\n--- 2",
            "a.yaml:2:1: error[invalid-yaml]: a second YAML document begins here\n   2 | --- 2\n     | ^\nhelp: put it",
        ),
        ("a: !!python/object:os.system 1", "a.yaml:1:4: error[invalid-yaml]"),
        ("a: !!int", "error[invalid-yaml]: a.yaml is not valid YAML: a value does not fit its tag"),
        ("a: !!bool x", "error[invalid-yaml]: a.yaml is not valid YAML: a value does not fit its tag"),
        ("a: 2020-99-99", "error[invalid-yaml]: a.yaml is not valid YAML"),
        ("a: \x00", "error[invalid-yaml]"),
        ("- " * 3000 + "1", "error[invalid-yaml]: a.yaml is nested too deep"),
    ],
)
def test_what_is_not_yaml_is_refused(text, place):
    with pytest.raises(dg.ConfigError) as caught:
        parse_yaml(text, "a.yaml")
    assert str(caught.value).startswith(place)


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(dg.ConfigError, match="missing-file"):
        read_yaml(tmp_path / "no.yaml")
    for name in ("a\0b.yaml", "a" * 300 + ".yaml", "."):
        with pytest.raises(dg.ConfigError, match="missing-file"):
            read_yaml(tmp_path / name)
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(dg.ConfigError, match="not text in UTF-8"):
        read_yaml(path)


def test_anchors_and_merges_are_read():
    document = parse_yaml("base: &b {route: 1 7}\nother:\n  <<: *b\n  r: 2\n", "a.yaml")
    assert document.data["other"] == {"route": "1 7", "r": 2}
    assert found(document) == [("base", "route"), ("other", "route")]
    assert document.source_of(("other", "route")).text == "1 7"


def test_a_recursive_alias_ends():
    document = parse_yaml("a: &a [*a, {route: 1 2}]", "a.yaml")
    assert found(document) == [("a", 1, "route")]
    assert found(parse_yaml("a: &a {<<: *a, route: 1 2}", "a.yaml")) == [("a", "route")]


KEYS = ["plain", '"quoted"', "true", "0x2", "1.5", ".inf", "null", "2020-01-01", "1:30", "=", "!!binary aGk="]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "form", ["? {}\n: route: 1 2", "a:\n- ? {}\n  : [route: 1 2]", "? {}\n: !!omap [b: {{route: 1 2}}]"]
)
def test_a_value_is_found_below_every_kind_of_key(key, form):
    document = parse_yaml(form.format(key), "a.yaml")
    (value,) = document.values("route")
    assert document.source_at(value.node).text == "1 2"
    assert value.around[-1].value[0][1] is value.node


MERGES = [
    ("a: &a {r: 1, s: 2}\nb: {<<: *a, r: 3}", {"r": 3, "s": 2}),
    ("a: &a {r: 1}\nc: &c {r: 2, s: 3}\nb: {<<: [*a, *c]}", {"r": 1, "s": 3}),
    ("a: &a {r: 1}\nc: &c {<<: *a, s: 3}\nb: {t: 4, <<: *c}", {"r": 1, "s": 3, "t": 4}),
    ("a: &a {r: 1}\nb: {<<: {<<: *a, s: 3}}", {"r": 1, "s": 3}),
    ("a: &a {r: 1}\nb: {<<: [*a, {<<: *a, r: 2}], s: 3}", {"r": 1, "s": 3}),
    ("a: &a {2: 1}\nb: {<<: *a, 0x2: 3}", {2: 3}),
]


@pytest.mark.parametrize(("text", "merged"), MERGES)
def test_merges_say_what_the_loader_of_pyyaml_says(text, merged):
    document = parse_yaml(text, "a.yaml")
    assert document.data["b"] == merged == yaml.safe_load(text)["b"]
    for key in merged:
        source, span = document.place_of(("b", key))
        assert int(source.text[span.start : span.end]) == merged[key]


@pytest.mark.parametrize(
    "more", ["[*a{0}, *a{0}]", "{{x: *a{0}, y: *a{0}}}", "{{<<: [*a{0}, *a{0}]}}", "{{<<: *a{0}, z{0}: *a{0}}}"]
)
def test_many_aliases_of_aliases_are_read_once(more):
    """Written out, the last line of this file has 2 ** 60 routes."""
    lines = ["a0: &a0 {route: 1 2}", *(f"a{i}: &a{i} {more.format(i - 1)}" for i in range(1, 61))]
    document = parse_yaml("\n".join(lines), "a.yaml")
    assert found(document)[0] == ("a0", "route")
    assert len(found(document)) <= 61


@given(st.text(alphabet=st.sampled_from("ab:-[]{}'\"&*!|>%#\n 1.") | st.characters(), max_size=40))
def test_any_text_is_a_document_or_an_error_of_ours(text):
    try:
        document = parse_yaml(text, "a.yaml")
    except dg.ConfigError as error:
        assert str(error)
    else:
        for value in document.values("route"):
            source, span = document.place_at(value.node)
            assert 0 <= span.start <= span.end <= len(source.text) + 1


PLAIN = st.lists(st.sampled_from(["1..2", "(3)x2", "lft(5)", "4"]), min_size=1, max_size=6)


@given(PLAIN, st.sampled_from(["{}", "'{}'", '"{}"', "|\n  {}", ">\n  {}"]), st.sampled_from([" ", "  ", "\n  "]))
def test_every_character_is_found_where_it_stands(words, style, gap):
    text = "route: " + style.format(gap.join(words)) + "\n"
    source = parse_yaml(text, "a.yaml").source_of(("route",))
    for index, character in enumerate(source.text):
        found = text[source.offsets[index]]
        assert found == character or (found.isspace() and character.isspace())
