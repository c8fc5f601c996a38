"""Facts on families of routes: a spec with free names stands for all that its names can mean."""

from itertools import product

import pytest

import depthgraph as dg
from depthgraph.explore import RouteSpace
from depthgraph.explore.patterns import FAMILIES, read_pattern


def by_trying(text, N, low, high, **ranges):
    """Every route of a spec, all values tried one by one."""
    found = set()
    for values in product(*ranges.values()):
        try:
            route = dg.route(text, N=N, **dict(zip(ranges, values, strict=True)))
        except dg.SpecError:
            continue
        if low <= route.execution_depth <= high:
            found.add(route)
    return found


ALL, COUNTS = range(6), range(1, 11)


@pytest.mark.parametrize(
    ("pattern", "text", "ranges"),
    [
        ("looped", "1..p (p+1..q)x r q+1..N", {"p": ALL, "q": ALL, "r": COUNTS}),
        ("looped(p,c,q,r)", "looped(p,c,q,r)", {"p": ALL, "c": ALL, "q": ALL, "r": COUNTS}),
        ("windows", "(s*i+1..s*i+w for i in 0..(N-w)//s)", {"s": ALL, "w": ALL}),
        ("self_merge", "1..j i..N", {"i": ALL, "j": ALL}),
        ("cycle", "(1..N)x k", {"k": COUNTS}),
        ("lft", "lft(N)", {}),
        ("1..a lft(a+1..b) b+1..N", "1..a lft(a+1..b) b+1..N", {"a": ALL, "b": ALL}),
        ("ilr[a,b,1,1,a+1]", "ilr[a,b,1,1,a+1]", {"a": ALL, "b": COUNTS}),
        ("(1..N)x(k-1)", "(1..N)x(k-1)", {"k": ALL}),
        ("((1..p)x a p+1..N)x b", "((1..p)x a p+1..N)x b", {"p": ALL, "a": COUNTS, "b": COUNTS}),
        ("1..p (p+1..q)x r q+1..N for p in 1..2, r in 2..3", "1..p (p+1..q)x r q+1..N", {"p": (1, 2), "q": ALL, "r": (2, 3)}),
        ("core x r p+1..N where core=1..p", "(1..p)x r p+1..N", {"p": ALL, "r": COUNTS}),
        ("1..p save(e) (p+1..q add(e))x r q+1..N", "1..p save(e) (p+1..q add(e))x r q+1..N", {"p": ALL, "q": ALL, "r": COUNTS}),
        ("1..p mean(p+1..q|q+1..4) 5 for q in 1..N", "1..p mean(p+1..q|q+1..4) 5", {"p": ALL, "q": ALL}),
        ("1..2 (add(a))x r save(a) 3..5 add(a) for r in 1..3", "0", {}),
    ],
)  # fmt: skip
def test_a_pattern_is_every_value_of_its_names(pattern, text, ranges):
    space = RouteSpace(5, executions=(5, 10), patterns=pattern)
    try:
        routes = list(space)
    except dg.SpecError as error:  # what no value mends
        assert error.code == "unknown-register"
        return
    assert set(routes) == by_trying(text, 5, 5, 10, **ranges)
    assert len(routes) == space.count() == len(set(routes))


def test_a_space_of_several_patterns_has_the_routes_of_each_once():
    families = ("ilr", "looped", "self_merge", "windows")
    space = RouteSpace(5, executions=(5, 9), patterns=families)
    alone = [set(RouteSpace(5, executions=(5, 9), patterns=family)) for family in families]
    assert set(space) == set.union(*alone)
    assert space.count() == len(list(space)) == len(set(space)) < sum(map(len, alone))
    for index, route in enumerate(space):
        assert space.index(route) == index
        assert space.at(index) == route


def test_any_holds_all_chains_and_leaves_the_rest_to_patterns():
    flow = "1..p save(e) p+1..N add(e)"
    plain = RouteSpace(3, executions=(3, 4))
    both = RouteSpace(3, executions=(3, 4), patterns=("any", "looped", flow))
    assert RouteSpace(3, executions=(3, 4), patterns=("ilr", "any")).count() == plain.count()
    assert both.count() == plain.count() + 4
    assert [route for route in both if not route.is_chain] == list(RouteSpace(3, executions=(3, 4), patterns=flow))


def test_a_pattern_may_drop_layers_where_the_space_lets_it():
    pattern = "1..a drop(a+1..b) b+1..N for a in 1..2, b in 2..4"
    assert RouteSpace(5, executions=(1, 5), patterns=pattern).count() == 1
    texts = [route.text for route in RouteSpace(5, executions=(1, 5), every_layer=False, patterns=pattern)]
    assert texts == [
        "1 5 drop(2..4)",
        "1 4..5 drop(2..3)",
        "1..2 5 drop(3..4)",
        "1 3..5 drop(2)",
        "1..2 4..5 drop(3)",
        "1..5",
    ]


def test_data_flow_counts_as_nothing_but_its_executions():
    space = RouteSpace(3, executions=(3, 6), max_visits=2, patterns="1 save(e) (add(e) 2) x r 3")
    assert [route.reuse_map for route in space] == [(1, 1, 1), (1, 2, 1)]


def test_names_that_are_nothing_but_counts_are_told_apart():
    def counts(text):
        return set(read_pattern(text, 6, 12).counts)

    assert counts("1..p (p+1..q)x r q+1..N") == {"r"}
    assert counts("ilr[a,b,1,1,1,1]") == {"a", "b"}
    assert counts("looped") == {"r"}
    assert counts("looped(p,c,q,r)") == {"r"}
    assert counts("(1..r)x r r+1..N") == set()
    assert counts("(1..N)x(r+1)") == set()
    assert counts("f(r) where f(k)=(1..N)x k") == set()
    assert set(read_pattern("f(r) where f(k)=(1..N)x k", 6, 12).numbers) == {"r"}


def test_every_family_is_a_spec():
    for name, text in FAMILIES.items():
        assert RouteSpace(4, executions=(4, 8), patterns=name) != RouteSpace(4, executions=(4, 8), patterns=text)
        assert set(RouteSpace(4, executions=(4, 8), patterns=name)) == set(
            RouteSpace(4, executions=(4, 8), patterns=text)
        )


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("loopd", "there is no family of routes `loopd`"),
        ("1..p p+1..N for q in 1..2", "has no free name `q`"),
        ("1..p p+1..N for p in 2..1", "`p` has a range without values"),
        ("1..p p+1..N for p in 1..2, p in 3..4", "`p` has two ranges"),
        ("1..p p+1..N for p in 1..", "`p in 1..` in `1..p p.1..N for p in 1..` is no range of a name"),
        ("(1..N)x r for r in 0..2", "`r` is a count"),
    ],
)
def test_patterns_that_do_not_fit_are_refused(pattern, words):
    with pytest.raises(dg.ExploreError, match=words) as caught:
        RouteSpace(4, executions=(4, 8), patterns=pattern)
    assert caught.value.code == "invalid-pattern"


def test_a_pattern_that_never_means_a_route_is_an_error_and_not_an_empty_space():
    never = ("1..p (2..N", "syntax"), ("lfft(p)", "unknown-name"), ("1..p save(e) p+1..N", "unused-register")
    for text, code in (*never, ("1..p add(e) p+1..N", "unknown-register"), ("1 save(e) 2..N load(e)", "unused-result")):
        with pytest.raises(dg.SpecError) as caught:
            RouteSpace(4, executions=(4, 8), patterns=text).count()
        assert caught.value.code == code


def test_the_families_that_are_offered_are_named_once():
    with pytest.raises(dg.ExploreError, match="there is no family of routes `zzz`") as caught:
        RouteSpace(4, executions=4, patterns="zzz")
    offered = caught.value.help.partition(";")[0].removeprefix("families are ").split(", ")
    assert len(set(offered)) == len(offered)
    assert {"any", "ilr", *FAMILIES, *dg.schemes()} == set(offered)


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (
            "1 save(e) (add(e) i for i in 2..q) q+1..N",
            ["1 save(e) add(e) 2..4", "1 save(e) add(e) 2 add(e) 3..4", "1 save(e) add(e) 2 add(e) 3 add(e) 4"],
        ),
        ("1 save(e) p..q load(e) 2..N for p in 2..2", ["1 save(e) load(e) 2..4"]),
        ("1 (save(e) i for i in 2..q) add(e) q+1..N for q in 1..2", ["1 save(e) 2 add(e) 3..4"]),
    ],
    ids=["never read at some", "thrown away at some", "read before it is saved at some"],
)
def test_values_at_which_the_data_flow_means_nothing_are_left_out(pattern, texts):
    assert set(RouteSpace(4, executions=(4, 4), patterns=pattern)) == {dg.route(text, N=4) for text in texts}


def test_too_many_values_to_try_are_refused_with_what_to_do():
    with pytest.raises(dg.ExploreError, match=r"`1..a b..c d..N` has 390,625 choices of values") as caught:
        RouteSpace(24, executions=(24, 48), patterns="1..a b..c d..N").count()
    assert caught.value.code == "space-too-large"
    assert "for a in 0..4" in caught.value.help
    assert RouteSpace(
        24, executions=(24, 48), patterns="1..a b..c d..N for a in 24..24, b in 20..24, c in 22..24"
    ).count()
