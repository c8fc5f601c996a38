"""Routes and values that are given to the peers: published ones, and random ones that are the same in every run."""

import random

import depthgraph as dg

#: Published routes (chains), and corner cases.
SPECS = [
    "1", "1..2", "1..6", "lft(5)", "ilr[4,2,1,1]", "ilr[1,1,2,4]", "(1..4)x2", "(1..6)x2", "sequence(6,2)", "1..6 rev(1..6)",
    "1x12", "1 (2..11)x3 12", "1..4 3..5", "1..16 12..32", "1..6 5..6 7..11", "1..4 (5..6)x3 7..11", "1..6 (4..6)x2 7..11",
    "1..3 (4..6)x3 7..9", "(1..3)x2 (4..6)x2", "1..4 drop(5..8) 9..12", "1..4 rev(5..8) 9..12",
    "1..4 drop(5) drop(7..8) 6x4 9..12", "1 9 2 3 9 4 5 9 6 7 9 8", "drop(1) 2",
]  # fmt: skip
RANDOM = random.Random(0)


def _random_route() -> dg.Route:
    depth = RANDOM.randint(1, 7)
    return dg.Route.of([RANDOM.randint(1, depth) for _ in range(RANDOM.randint(1, 14))], depth)


def _random_loops() -> dg.Route:
    """Return 1..N with some ranges repeated whole."""
    path: list[int] = []
    layer = 1
    for _ in range(RANDOM.randint(1, 4)):
        size = RANDOM.randint(1, 3)
        path += list(range(layer, layer + size)) * RANDOM.choice([1, 1, 2, 3])
        layer += size
    return dg.Route.of(path)


ROUTES = [*map(dg.route, SPECS), *(_random_route() for _ in range(16))]
LOOPS = [*(_random_loops() for _ in range(16))]


def sayable(notation: str, **options: object) -> list[dg.Route]:
    """Return the routes that a notation can say."""
    found = []
    for route in [*ROUTES, *LOOPS]:
        try:
            dg.formats.write(notation, route, **options)
        except dg.FormatError as error:
            assert error.code == "unsayable-route"
        else:
            found.append(route)
    return found


def random_ranges() -> tuple[int, list[list[int]]]:
    """Return N and ranges [start, end], ends left out, as a person could write them: not the fewest."""
    depth = RANDOM.randint(1, 7)
    pairs = [sorted(RANDOM.sample(range(depth + 1), 2)) for _ in range(RANDOM.randint(1, 5))]
    return depth, pairs
