"""The scheme library: every entry is complete, and its formula counts right."""

import pytest

import depthgraph as dg

#: scheme → (arguments, executions by the formula of its entry), for several arguments.
FORMULAS = {
    "std": lambda n: n,
    "lft": lambda n: 3 * n - 4 if n >= 2 else 1,
    "cycle": lambda n, k: n * k,
    "sequence": lambda n, k: n * k,
    "cycle_rev": lambda n: 2 * n,
    "middle_cycle": lambda n, k: 2 + (n - 2) * k if n >= 2 else 1,
    "middle_sequence": lambda n, k: 2 + (n - 2) * k if n >= 2 else 1,
    "looped": lambda p, c, q, r: p + c * r + q,
    "self_merge": lambda n, i, j: j + n - i + 1,
    "injected": lambda n, k: n * k,
    "ouro": lambda n, k: n * k,
    "huginn": lambda p, c, q, r: p + c * r + q,
    "restarted": lambda p, c, q, r: p + c * r + q,
    "hrm": lambda low, high, m, k: (low * m + high) * k,
    "trm": lambda n, m, k: n * (m + 1) * k,
}
#: Schemes whose last parameter, a count, is at least 2.
FROM_TWO = {"injected", "restarted"}
ARGUMENTS = {
    1: [(1,), (2,), (3,), (12,)],
    2: [(1, 1), (1, 3), (2, 2), (3, 1), (12, 3)],
    3: [(5, 2, 3), (80, 46, 52), (4, 1, 4)],
    4: [(2, 4, 2, 8), (1, 1, 1, 1)],
}

#: Published routes that the catalogue names: call, first executions, E.
PUBLISHED = [
    ("std(6)", "1 2 3 4 5 6", 6),
    ("lft(5)", "1 2 1 2 3 2 3 4 3 4 5", 11),
    ("cycle(6,2)", "1 2 3 4 5 6 1 2 3 4 5 6", 12),
    ("sequence(6,2)", "1 1 2 2 3 3 4 4 5 5 6 6", 12),
    ("cycle_rev(6)", "1 2 3 4 5 6 6 5 4 3 2 1", 12),
    ("cycle(1,12)", "1 1 1 1", 12),
    ("cycle(6,12)", "1 2 3 4 5 6 1", 72),
    ("middle_cycle(12,3)", "1 2 3 4 5 6 7 8 9 10 11 2", 32),
    ("middle_cycle(17,2)", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 2", 32),
    ("middle_cycle(9,4)", "1 2 3 4 5 6 7 8 2", 30),
    ("middle_sequence(12,3)", "1 2 2 2 3 3 3", 32),
    ("looped(2,4,2,4)", "1 2 3 4 5 6 3", 20),
    ("self_merge(80,46,52)", "1 2 3", 87),
    ("self_merge(32,12,16)", "1 2 3", 37),
]


def test_every_scheme_has_a_formula_here():
    assert list(FORMULAS) == list(dg.schemes())


@pytest.mark.parametrize("name", list(FORMULAS))
def test_the_execution_count_is_that_of_the_formula(name):
    scheme = dg.schemes()[name]
    for arguments in ARGUMENTS[len(scheme.definition.parameters)]:
        if (name in FROM_TWO and arguments[-1] == 1) or FORMULAS[name](*arguments) > 50_000:
            continue
        route = dg.route(f"{name}({','.join(map(str, arguments))})")
        assert route.execution_depth == FORMULAS[name](*arguments), arguments


@pytest.mark.parametrize("name", list(FORMULAS))
def test_the_entry_is_complete(name):
    scheme = dg.schemes()[name]
    assert scheme.summary
    assert scheme.executions
    assert scheme.origin
    assert scheme.example.startswith(f"{name}(")
    assert dg.route(scheme.example).execution_depth >= 1


@pytest.mark.parametrize(("call", "begin", "e"), PUBLISHED)
def test_published_routes(call, begin, e):
    route = dg.route(call)
    path = " ".join(map(str, route.path))
    assert path == begin or path.startswith(begin + " ")
    assert route.execution_depth == e


@pytest.mark.parametrize("name", [name for name, s in dg.schemes().items() if "n" in s.definition.parameters])
def test_a_layer_count_also_takes_a_range(name):
    parameters = dg.schemes()[name].definition.parameters
    rest = ",".join(["2"] * (len(parameters) - 1))
    counted = dg.route(f"{name}(4{',' + rest if rest else ''})")
    shifted = dg.route(f"drop(1..2) {name}(3..6{',' + rest if rest else ''})")
    assert shifted.path == tuple(layer + 2 for layer in counted.path)
    whole = dg.route(f"{name}(1..4{',' + rest if rest else ''})")
    assert whole == counted
