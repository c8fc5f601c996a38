"""YAML files that remember where each value stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import depthgraph as dg
from depthgraph.yaml_file import parse_yaml, read_yaml


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
    (keys,) = document.strings("route")
    with pytest.raises(dg.SpecError) as caught:
        dg.route(document.source_of(keys), N=6)
    place = caught.value.location
    assert (place.line, place.column) == (line, column)
    assert str(caught.value).startswith(f"a.yaml:{line}:{column}: error[unknown-layer]: layer 7")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\na: 2", "a.yaml:2:1: error[invalid-yaml]: the key `a` stands here for the second time"),
        ("b:\n  a: 1\n  c: 2\n  a: 2", "a.yaml:4:3: error[invalid-yaml]"),
        ("a: [1", "a.yaml:1:6: error[invalid-yaml]: this is not valid YAML"),
        ("a: *b", "a.yaml:1:4: error[invalid-yaml]"),
        ("--- 1\n--- 2", "a.yaml:2:1: error[invalid-yaml]"),
        ("a: !!python/object:os.system 1", "a.yaml:1:4: error[invalid-yaml]"),
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
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(dg.ConfigError, match="not text in UTF-8"):
        read_yaml(path)


def test_anchors_and_merges_are_read():
    document = parse_yaml("base: &b {route: 1 7}\nother:\n  <<: *b\n  r: 2\n", "a.yaml")
    assert document.data["other"] == {"route": "1 7", "r": 2}
    assert list(document.strings("route")) == [("base", "route"), ("other", "route")]


def test_a_recursive_alias_ends():
    document = parse_yaml("a: &a [*a, {route: 1 2}]", "a.yaml")
    assert list(document.strings("route")) == [("a", 1, "route")]


@given(st.text(alphabet=st.sampled_from("ab:-[]{}'\"&*!|>%#\n 1.") | st.characters(), max_size=40))
def test_any_text_is_a_document_or_an_error_of_ours(text):
    try:
        document = parse_yaml(text, "a.yaml")
    except dg.ConfigError as error:
        assert str(error)
    else:
        for keys in document.strings("route"):
            source, span = document.place_of(keys)
            assert 0 <= span.start <= span.end <= len(source.text) + 1


PLAIN = st.lists(st.sampled_from(["1..2", "(3)x2", "lft(5)", "4"]), min_size=1, max_size=6)


@given(PLAIN, st.sampled_from(["{}", "'{}'", '"{}"', "|\n  {}", ">\n  {}"]), st.sampled_from([" ", "  ", "\n  "]))
def test_every_character_is_found_where_it_stands(words, style, gap):
    text = "route: " + style.format(gap.join(words)) + "\n"
    source = parse_yaml(text, "a.yaml").source_of(("route",))
    for index, character in enumerate(source.text):
        found = text[source.offsets[index]]
        assert found == character or (found.isspace() and character.isspace())
