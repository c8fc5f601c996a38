"""Every kind of error in a spec: its place and its whole text, against a golden file.

After a change that is meant, `python tests/test_errors.py` writes the file anew; read the difference.
"""

import pickle
import re
from pathlib import Path

import pytest

import depthgraph as dg
from depthgraph.errors import KINDS

GOLDEN = Path(__file__).parent / "golden" / "errors.txt"
PAGE = Path(__file__).parent.parent / "docs" / "errors.md"

DEEP = "(" * 65 + "1" + ")" * 65

#: code, spec, bindings. Line and column are asserted by the golden text, and once more against the span below.
CASES = [
    ("not-a-spec", None, {}),
    ("not-a-spec", 5, {}),
    ("not-a-spec", b"1", {}),
    ("not-a-spec", dg.route("1 2"), {}),
    ("empty-spec", "", {}),
    ("empty-spec", " \n ", {}),
    ("bad-character", "1 2 × 3", {}),
    ("bad-character", "1 ２", {}),
    ("bad-character", "1 ٣", {}),
    ("bad-character", "1\u00a02", {}),
    ("bad-character", "1…3", {}),
    ("bad-character", "1 é", {}),
    ("bad-character", "1 # two", {}),
    ("bad-character", "1.5", {}),
    ("bad-character", "1 \u202e 2", {}),
    ("bad-number", "3xr", {}),
    ("bad-number", "12a", {}),
    ("bad-number", "1 L2a3 0x1F", {}),
    ("syntax", "block(2..4)x", {}),
    ("syntax", "1..", {}),
    ("syntax", "1..6 2...4", {}),
    ("syntax", "rev 1..3", {}),
    ("bad-character", "{1}", {}),
    ("bad-character", "'1'", {}),
    ("syntax", "(1..3", {}),
    ("syntax", "1 2)", {}),
    ("syntax", "1, 2", {}),
    ("syntax", "lft [5]", {}),
    ("syntax", "ilr(4,2)", {}),
    ("syntax", "(N-1)*2", {}),
    ("syntax", "1 -> -> 2", {}),
    ("syntax", "(1 for i in 3)", {}),
    ("syntax", "1 where", {}),
    ("syntax", "1\n2\n3 =", {}),
    ("ambiguous-repeat", "2..4x2", {}),
    ("missing-binding", "1..Nx2", {}),
    ("ambiguous-repeat", "1..N x 2", {}),
    ("ambiguous-repeat", "1..2x3", {}),
    ("ambiguous-repeat", "3x2x3", {}),
    ("ambiguous-repeat", "(i-1x2 for i in 2..3)", {}),
    ("ambiguous-repeat", "1 ...x2", {}),
    ("ambiguous-repeat", "drop(3)x2", {}),
    ("reserved-name", "1 where x=3", {}),
    ("reserved-name", "1 where save=3", {}),
    ("reserved-name", "1 where N=3", {}),
    ("reserved-name", "(1 for rev in 1..2)", {}),
    ("duplicate-name", "a where a=1, a=2", {}),
    ("duplicate-name", "f(1,2) where f(p,p)=p", {}),
    ("duplicate-name", "((i for i in 1..2) for i in 1..2)", {}),
    ("duplicate-name", "i (i for i in 1..2)", {"i": 3}),
    ("duplicate-name", "1 p f(2) where p=2, f(p)=p", {}),
    ("spec-too-long", "1 " * 40_000, {}),
    ("name-too-long", "a" * 65, {}),
    ("name-too-long", "abc" * 20_000, {}),
    ("bad-number", "1" * 65_000 + "a", {}),
    ("name-too-long", "a" * 60_000 + " 2 )", {}),
    ("too-deep", DEEP, {}),
    ("too-deep", "a0 where a0=a1" + "".join(f", a{i}=a{i + 1}" for i in range(1, 300)) + ", a300=1", {}),
    ("number-too-large", "1x1000000000", {}),
    ("number-too-large", "999999999*999999999", {}),
    ("too-many-executions", "1x100001", {}),
    ("too-many-executions", "((1x1000)x1000)x1000", {}),
    ("too-many-executions", "lft(50000)", {}),
    ("too-many-executions", "(1 for i in 1..999999999)", {}),
    ("too-many-executions", "999999", {}),
    ("unknown-name", "lfft(5)", {}),
    ("unknown-name", "blok(2..4)x2", {}),
    ("unknown-name", "zzz(1)", {}),
    ("unknown-name", "LFT(5)", {}),
    ("missing-binding", "l3 1", {}),
    ("unused-name", "1..2 where core=1..2", {}),
    ("missing-binding", "1..2 (3..6)x r q", {}),
    ("missing-binding", "lft(N)", {}),
    ("missing-binding", "...", {}),
    ("missing-binding", "lft", {}),
    ("missing-binding", "pre coer x2 where pre=1, core=2", {}),
    ("missing-binding", "(1 2)xr", {}),
    ("unknown-binding", "1..r", {"r": 2, "rr": 3}),
    ("unknown-binding", "1..2", {"n": 2}),
    ("unknown-binding", "block(2..7)xr", {"r": 4}),
    ("bad-binding", "1..r", {"r": "two"}),
    ("bad-binding", "1..r", {"r": True}),
    ("bad-binding", "1..r", {1: 2}),
    ("unknown-binding", "1..r", {"R": 2, "r": 1}),
    ("bad-binding", "1..r", {"r": 10**9}),
    ("bad-binding", "...", {"N": 0}),
    ("bad-binding", "core where core=1..2", {"core": 3}),
    ("wrong-arguments", "lft(2,3)", {}),
    ("wrong-arguments", "cycle(3,1..2)", {}),
    ("wrong-arguments", "block(3)", {}),
    ("wrong-arguments", "core(1) where core=1..2", {}),
    ("wrong-arguments", "f where f(p)=p", {}),
    ("not-an-integer", "1 core..4 where core=2..3", {}),
    ("not-an-integer", "1x f where f(p)=p", {}),
    ("recursive-definition", "a where a=b, b=1 a", {}),
    ("bad-count", "1x0", {}),
    ("bad-count", "1 x r", {"r": -1}),
    ("bad-count", "lft(0)", {}),
    ("bad-count", "ilr[1,0]", {}),
    ("division-by-zero", "1..4//(2-2)", {}),
    ("descending-range", "4..2", {}),
    ("descending-range", "(i for i in 3..1)", {}),
    ("fill-in-loop", "(1 ...)x2", {"N": 3}),
    ("fill-in-loop", "(block(2..3)x2)x2", {"N": 3}),
    ("fill-in-loop", "rev(... 3)", {}),
    ("fill-in-loop", "(i ... for i in 1..2)", {"N": 3}),
    ("unknown-layer", "block(2..7)x2", {"N": 6}),
    ("unknown-layer", "0..3", {}),
    ("unknown-layer", "1-2-3", {}),
    ("unknown-layer", "(i-2 for i in 2..4)", {}),
    ("unknown-layer", "1..2 lft(3..9)", {"N": 6}),
    ("unknown-layer", "ilr[1,1,1]", {"N": 2}),
    ("unknown-layer", "1 drop(2..3)", {"N": 2}),
    ("unused-layer", "1..2 4..5", {}),
    ("unused-layer", "1..20 11..28", {"N": 30}),
    ("unused-layer", "2 4 7..8", {"N": 9}),
    ("dropped-layer-runs", "1..3 drop(2)", {}),
    ("dropped-layer-runs", "1..3 drop(2..4) 5", {}),
    ("dropped-layer-runs", "1..3 drop(core) where core=rev(2..3)", {}),
    ("wrong-arguments", "1..3 drop(core) where core=...", {"N": 3}),
    ("dropped-layer-runs", "... drop(2..3)", {"N": 4}),
    ("empty-route", "drop(1..3)", {}),
    ("empty-route", "exit x2", {}),
    ("unknown-register", "1 add(a)", {}),
    ("unknown-register", "save(a) 1 add(b) add(a)", {}),
    ("unknown-register", "(mix(e) 1 save(e))x3", {}),
    ("unknown-register", "mean(save(a) 1 add(a) | 2) add(a)", {}),
    ("unknown-register", "mean(save(a) 1 add(a) | 2 add(a))", {}),
    ("unused-register", "1 save(a) 2", {}),
    ("unused-register", "1 save(a) mean(2 save(a) add(a) | 3)", {}),
    ("unused-register", "mean(1 save(b) | 2)", {}),
    ("unused-result", "save(a) 1 load(a) 2", {}),
    ("unused-result", "1 save(a) 2 mean(load(a) 3 | load(a) 4)", {}),
    ("unused-result", "1 save(a) mean(2 | 3) stopgrad load(a) 4", {}),
    ("empty-branch", "1 mean(2 | exit)", {}),
    ("empty-branch", "1 sum(2 | drop(3))", {}),
    ("empty-branch", "(sum(1 | i..2) for i in 1..3)", {}),
    ("fill-in-loop", "1 mean(... 3 | 4)", {}),
    ("data-flow-in-rev", "rev(1 exit)", {}),
    ("data-flow-in-rev", "rev(core) where core=1 mean(2 | 3)", {}),
    ("duplicate-name", "(save(i) i add(i) for i in 1..2)", {}),
    ("duplicate-name", "save(e) f(2) where f(p)=(mix(e,p) 1)x p", {}),
    ("duplicate-name", "save(e) 1 mix(e,w) gate(e,w)", {}),
    ("wrong-arguments", "1 exit(3)", {}),
    ("wrong-arguments", "1 stopgrad()", {}),
    ("wrong-arguments", "1 drop(core) where core=2 exit", {}),
    ("too-many-executions", "1 (exit)x999999999", {}),
    ("too-many-executions", "mean(1x60000 | 1x60000)", {}),
    ("reserved-name", "save(N) 1", {}),
    ("reserved-name", "save(for) 1", {}),
    ("reserved-name", "save(a) 1 mix(a,gate)", {}),
    ("reserved-name", "1 where f(exit)=1", {}),
    ("reserved-name", "(1 for mean in 1..2)", {}),
    ("reserved-name", "lft(exit)", {}),
    ("missing-binding", "1 exitx2", {}),
    ("missing-binding", "1 stop_grad 2", {}),
    ("unknown-name", "SAVE(a) 1", {}),
    ("syntax", "save 1", {}),
    ("syntax", "save(3) 1", {}),
    ("syntax", "save(a,b) 1", {}),
    ("syntax", "save() 1", {}),
    ("syntax", "save[a] 1", {}),
    ("syntax", "1 save(a", {}),
    ("syntax", "1 add(a+1)", {}),
    ("syntax", "1 mix(a,b,c)", {}),
    ("syntax", "1 gate(a,2)", {}),
    ("syntax", "mean(5)", {}),
    ("syntax", "mean()", {}),
    ("syntax", "mean(1, 2)", {}),
    ("syntax", "mean(1 | )", {}),
    ("syntax", "mean(1 || 2)", {}),
    ("syntax", "mean(1 | 2", {}),
    ("syntax", "mean 1 | 2", {}),
    ("syntax", "mean(i for i in 1..2 | 3)", {}),
    ("syntax", "1 | 2", {}),
    ("syntax", "(1 | 2)", {}),
    ("syntax", "avg(1 | 2)", {}),
    ("syntax", "1..save", {}),
    ("syntax", "1x exit", {}),
    ("syntax", "exit..3", {}),
]


def _caught(text, bindings):
    with pytest.raises(dg.SpecError) as caught:
        dg.route(text, bindings)
    assert len(str(caught.value)) < 1_000
    return caught.value


def _golden():
    blocks = []
    for code, text, bindings in CASES:
        long = isinstance(text, str) and len(text) >= 200
        shown = f"{text[:20]!r} and so on, {len(text)} characters" if long else repr(text)
        bound = "".join(f", {name}={value!r}" for name, value in bindings.items())
        error = _caught(text, bindings)
        assert error.code == code, (text, error.code)
        blocks.append(f"### {shown}{bound}\n{error.render()}\n")
    return "\n".join(blocks)


@pytest.fixture(scope="module")
def golden():
    return GOLDEN.read_text(encoding="utf-8").split("\n### ")


@pytest.mark.parametrize("index", range(len(CASES)))
def test_the_text_of_each_error(golden, index):
    code, text, bindings = CASES[index]
    error = _caught(text, bindings)
    assert error.code == code
    assert golden[index].partition("\n")[2].rstrip("\n") == error.render()


@pytest.mark.parametrize(("code", "text", "bindings"), [case for case in CASES if isinstance(case[1], str)])
def test_line_column_and_width_are_those_of_the_span(code, text, bindings):
    error = _caught(text, bindings)
    place, span = error.location, error.span
    before = text[: span.start]
    assert place.line == before.count("\n") + 1
    assert place.column == span.start - (before.rfind("\n") + 1) + 1
    assert 1 <= place.width <= max(1, span.end - span.start)
    assert error.render().startswith(f"<spec>:{place.line}:{place.column}: error[{code}]: ")


def test_every_kind_of_spec_error_has_a_case():
    source = "".join(path.read_text("utf-8") for path in (Path(dg.__file__).parent).glob("*.py"))
    spec_kinds = {code for code in KINDS if re.search(rf'(error|Fault|SpecError)\(\s*"{code}"', source)}
    spec_kinds -= {"invalid-yaml", "invalid-graph", "invalid-config", "missing-file"}
    covered = {code for code, _, _ in CASES}
    assert {code for code in spec_kinds if code not in covered and _is_of_spec(code)} == set()
    assert len(covered) >= 25


def _is_of_spec(code):
    kinds = list(KINDS)
    return kinds.index(code) <= kinds.index("data-flow-in-rev")


def test_every_kind_of_error_has_an_entry_in_the_docs():
    entries = re.findall(r"(?m)^### `([a-z-]+)`$", PAGE.read_text(encoding="utf-8"))
    assert entries == list(KINDS)


def test_errors_pickle_whole():
    error = _caught("block(2..7)x2", {"N": 6})
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.render(), copy.as_json()) == (type(error), error.render(), error.as_json())


def test_an_error_as_json_has_place_and_help():
    assert _caught("block(2..7)x2", {"N": 6}).as_json() == {
        "code": "unknown-layer",
        "message": "layer 7 does not exist in this model of 6 layers",
        "help": "layers are 1..6 and both ends of a range are included; did you mean `block(2..6)x2`?",
        "file": "<spec>",
        "line": 1,
        "column": 10,
        "width": 1,
    }


def test_no_message_has_an_internal_name():
    for _, text, bindings in CASES:
        rendered = _caught(text, bindings).render()
        assert not re.search(r"\b(LPAR|RPAR|INT|NAME|DOTS|RANGE|\$END|Token|__\w+)\b", rendered), rendered


if __name__ == "__main__":
    GOLDEN.write_text(_golden(), encoding="utf-8")
