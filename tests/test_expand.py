"""What specs mean: syntax tree and bindings → route."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import depthgraph as dg

from oracle import NoRouteError, path_of
from strategies import meaningful_specs


@given(meaningful_specs, st.one_of(st.none(), st.integers(4, 9)))
def test_a_spec_runs_what_an_independent_interpreter_says(spec, depth):
    bindings = {} if depth is None else {"N": depth}
    try:
        expected = path_of(spec, depth, dg.schemes())
    except NoRouteError:
        with pytest.raises(dg.SpecError) as caught:
            spec.expand(**bindings)
        assert caught.value.code in {"unknown-layer", "fill-in-loop", "bad-count"}
        return
    known = depth or max(expected, default=0)
    unused = sorted(set(range(1, known + 1)).difference(expected))
    if not expected:
        code = "empty-route" if depth else "missing-binding"
    elif unused:
        code = "unused-layer"
    else:
        route = spec.expand(**bindings)
        assert route.path == tuple(expected)
        assert route.parameter_depth == known
        return
    with pytest.raises(dg.SpecError) as caught:
        spec.expand(**bindings)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "bindings", "path"),
    [
        ("1 2 1", {}, "1 2 1"),
        ("2..4 1", {}, "2 3 4 1"),
        ("1..N", {"N": 3}, "1 2 3"),
        ("1..3 (4..N for i in 1..1)", {"N": 3}, "1 2 3"),
        ("(1 2)x3", {}, "1 2 1 2 1 2"),
        ("1 x 3", {}, "1 1 1"),
        ("1x(r-1)", {"r": 3}, "1 1"),
        ("1 (2..3)x2 4", {}, "1 2 3 2 3 4"),
        ("1..3 rev(1..3)", {}, "1 2 3 3 2 1"),
        ("rev((1 2x2)x2 3)", {}, "3 2 2 1 2 2 1"),
        ("rev(rev(1 2))", {}, "1 2"),
        ("... (3..4)x2 ...", {"N": 6}, "1 2 3 4 3 4 5 6"),
        ("...", {"N": 3}, "1 2 3"),
        ("... ... 3", {}, "1 2 3"),
        ("1 ... 4 ... 2", {}, "1 2 3 4 2"),
        ("4 ... 1..3", {}, "4 1 2 3"),
        ("block(2..4)x2", {"N": 5}, "1 2 3 4 2 3 4 5"),
        ("block(2..4)", {"N": 5}, "1 2 3 4 5"),
        ("block(2..3)x2 block(5..6)x2", {"N": 7}, "1 2 3 2 3 4 5 6 5 6 7"),
        ("ilr[4,2,1,1]", {}, "1 1 1 1 2 2 3 4"),
        ("ilr[r,r-1]", {"r": 2}, "1 1 2"),
        ("1 2 drop(3) 4", {}, "1 2 4"),
        ("drop(1..2) 3", {}, "3"),
        ("1 drop(2..3)", {}, "1"),
        ("1..2 drop(core) 4 where core=3 5", {}, "1 2 4"),
        ("1..2 drop(core) where core=(3..4)x2", {}, "1 2"),
        ("1..2 drop(core) where core=rev(3..4)", {}, "1 2"),
        ("(i..1 for i in 1..3)", {}, "1"),
        ("... ... (2)x2 ... ...", {"N": 3}, "1 2 2 3"),
        ("1 (i i-1 i for i in 2..N-1) N", {"N": 4}, "1 2 1 2 3 2 3 4"),
        ("((i j for i in 1..2) for j in 1..2)", {}, "1 1 2 1 1 2 2 2"),
        ("(1..i for i in 1..3)", {}, "1 1 2 1 2 3"),
        ("pre core x2 coda where pre=1..2, core=3..4, coda=5", {}, "1 2 3 4 3 4 5"),
        ("f(2,1) where f(p,q)=p q p", {}, "2 1 2"),
        ("1..2 (3..4)x r where r=2", {}, "1 2 3 4 3 4"),
        ("1..2 (3..4)x r where r=2", {"r": 1}, "1 2 3 4"),
        ("1..k where k=a+1, a=2", {}, "1 2 3"),
        ("1..k where k=a+1, a=2", {"a": 1}, "1 2"),
        ("f(2..4) 1 where f(n)=(i for i in 1..n) 1", {}, "2 3 4 2 1"),
        ("lft(5)", {}, "1 2 1 2 3 2 3 4 3 4 5"),
        ("1..2 lft(3..6) 7", {}, "1 2 3 4 3 4 5 4 5 6 7"),
        ("f(1..3) where f(n)=lft(n)", {}, "1 2 1 2 3"),
        ("1 f(2..4) where f(n)=1 std(2..n)", {}, "1 2 3 4"),
        ("lft(3) where lft(n)=1..n", {}, "1 2 3"),
        ("1 k", {"k": 2}, "1 2"),
    ],
)
def test_forms(text, bindings, path):
    assert " ".join(map(str, dg.route(text, bindings).path)) == path


def test_the_parameter_depth_is_given_or_the_highest_layer_named():
    assert dg.route("1..2 drop(3)").parameter_depth == 3
    assert dg.route("block(2..4)x2").parameter_depth == 4
    assert dg.route("...", N=7).parameter_depth == 7


@given(st.integers(1, 40))
def test_the_execution_depth_of_lft(n):
    assert dg.route(f"lft({n})").execution_depth == (3 * n - 4 if n >= 2 else 1)


@pytest.mark.parametrize(("n", "e"), [(3, 5), (5, 11), (6, 14), (8, 20), (11, 29), (12, 32), (24, 68)])
def test_the_table_of_the_lft_paper(n, e):
    route = dg.route(f"lft({n})")
    assert route.execution_depth == e
    assert route.multiplier == pytest.approx(3 - 4 / n)


def test_lft_is_the_papers_own_loop():
    def paper(n):
        path = [0]
        for i in range(1, n):
            path.append(i)
            if i < n - 1:
                path += [i - 1, i]
        return tuple(layer + 1 for layer in path)

    for n in range(1, 30):
        assert dg.route(f"lft({n})").path == paper(n)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_the_execution_depth_of_ilr_is_the_sum_of_its_map(counts):
    route = dg.route(f"ilr[{','.join(map(str, counts))}]")
    assert route.reuse_map == tuple(counts)
    assert route.execution_depth == sum(counts)


@given(st.data())
def test_the_execution_depth_of_a_block(data):
    depth = data.draw(st.integers(1, 12))
    a = data.draw(st.integers(1, depth))
    b = data.draw(st.integers(a, depth))
    k = data.draw(st.integers(1, 5))
    assert dg.route(f"block({a}..{b})x{k}", N=depth).execution_depth == depth + (k - 1) * (b - a + 1)


def test_iterations_say_which_run_of_which_loop():
    executions = dg.route("(1 2x2)x2 3").executions
    assert [each.iterations for each in executions] == [
        ((1, 1, 2),),
        ((1, 1, 2), (2, 1, 2)),
        ((1, 1, 2), (2, 2, 2)),
        ((1, 2, 2),),
        ((1, 2, 2), (3, 1, 2)),
        ((1, 2, 2), (3, 2, 2)),
        (),
    ]


def test_an_execution_knows_where_it_is_written():
    text = "1 lft(2..4) (3)x2"
    executions = dg.route(text).executions
    written = [text[each.span.start : each.span.end] for each in executions]
    assert written == ["1"] + ["lft(2..4)"] * 5 + ["3", "3"]


def test_a_spec_has_free_names_until_they_are_bound():
    spec = dg.parse("1..k (3..N)x r where k=2")
    assert spec.free_names == ("N", "r")
    assert spec.expand(N=4, r=2).path == (1, 2, 3, 4, 3, 4)


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(0, 6),
)
def test_a_comprehension_runs_what_its_iterations_would_run_one_by_one(parts, first, more):
    """Bodies that move evenly with the index are worked out in a shorter way; errors and places are the same."""

    def body(index):
        ends = [f"{'+'.join([index] * s) or 0}+{c}" if s >= 0 else f"{c}{f'-{index}' * -s}" for s, c, _ in parts]
        return " ".join(f"{end}..{end}+{width}" for end, (_, _, width) in zip(ends, parts, strict=True))

    last = first + more
    swept = f"({body('i')} for i in {first}..{last}) ..."
    plain = " ".join(f"({body(str(value))})" for value in range(first, last + 1)) + " ..."
    try:
        expected = dg.route(plain, N=20)
    except dg.SpecError as error:
        with pytest.raises(dg.SpecError) as caught:
            dg.route(swept, N=20)
        assert caught.value.code == error.code
        assert caught.value.message == error.message
    else:
        route = dg.route(swept, N=20)
        assert route == expected
        assert [each.iterations[0].number for each in route.executions if each.iterations] == [
            value for value in range(1, more + 2) for part in parts for _ in range(part[2] + 1)
        ]


def test_an_iteration_that_runs_nothing_is_none():
    executions = dg.route("(2..i for i in 1..3) 1").executions
    assert [each.iterations for each in executions] == [((1, 1, 2),), ((1, 2, 2),), ((1, 2, 2),), ()]


def test_integers_of_numpy_and_torch_are_integers():
    assert dg.route("1..r", r=np.int64(3)) == dg.route("1..r", r=torch.tensor(3)) == dg.route("1..3")
    assert dg.Route.of(np.array([1, 2, 1])) == dg.route("1 2 1")
    assert {type(layer) for layer in dg.Route.of(np.array([1, 2, 1])).path} == {int}


def test_names_that_are_also_parameters_of_dg_route():
    assert dg.route("1 text self", text=2, self=3).path == (1, 2, 3)
    assert dg.parse("1 text self").expand(text=2, self=3).path == (1, 2, 3)
    assert dg.route("1 limits bindings", {"limits": 2, "bindings": 3}).path == (1, 2, 3)
    with pytest.raises(TypeError, match="bind a name `limits` by the mapping"):
        dg.route("1 limits", limits=2)
    with pytest.raises(dg.SpecError, match="bound twice"):
        dg.route("1..N", {"N": 3}, N=4)


def test_bindings_come_as_a_mapping_or_as_keywords():
    assert dg.route("1..r", {"r": 2}) == dg.route("1..r", r=2) == dg.route("1..2")
