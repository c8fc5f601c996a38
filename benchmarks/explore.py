"""What 100,000 distinct routes with their measures cost, listed or drawn.

    python benchmarks/explore.py [--rounds 5] [--routes 100000]

Every route is built, measured and put into a set by its path, so that the number of distinct ones is counted and not
assumed. `mutate` and `crossover` are timed one call at a time, texts and comparisons in a row.
"""

import argparse
import gc
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterable

import depthgraph as dg

SPACES = {
    "N = 6, E = 6..14": dg.RouteSpace(6, executions=(6, 14)),
    "N = 12, E = 12..32, at most 4 visits": dg.RouteSpace(12, executions=(12, 32), max_visits=4),
    "N = 24, E = 24..64": dg.RouteSpace(24, executions=(24, 64)),
    "N = 12, E = 12..32, FLOPs at most × 2, layers of two costs": dg.RouteSpace(
        12, executions=(12, 32), flops=2.0, costs=(3,) * 6 + (5,) * 6
    ),
    "N = 12, E = 12..24, ilr": dg.RouteSpace(12, executions=(12, 24), patterns="ilr"),
}


def measured(routes: Iterable[dg.Route]) -> int:
    """Measure routes and return how many different ones there are."""
    seen = {}
    for route in routes:
        seen[route.path] = dg.measures(route)
    return len(seen)


def report(what: str, run: Callable[[], object], rounds: int, per: int = 1) -> None:
    """Print the median of CPU seconds, which a busy neighbour changes least, with the extremes and the wall clock."""
    spent, waited = [], []
    for _ in range(rounds):
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        run()
        spent.append((time.process_time() - cpu) / per)
        waited.append((time.perf_counter() - wall) / per)
    unit, scale = ("s", 1.0) if spent[0] > 0.1 else ("ms", 1e3)
    middle, low, high, clock = (
        f"{value * scale:.2f}"
        for value in (statistics.median(spent), min(spent), max(spent), statistics.median(waited))
    )
    print(f"{what}: {middle} {unit} of CPU (of {rounds}: {low} to {high}), {clock} {unit} by the clock", flush=True)


def many(rounds: int, most: int) -> None:
    for name, space in SPACES.items():
        number = min(most, space.count())
        # the first use of a space fills its tables, which is part of the time
        fresh = dg.RouteSpace(
            space.N, space.executions, space.flops, space.max_visits, True, space.patterns, space.costs
        )

        def listed(space: dg.RouteSpace = fresh, number: int = number) -> None:
            assert measured(itertools.islice(space.enumerate(), number)) == number

        def drawn(space: dg.RouteSpace = fresh, number: int = number) -> None:
            assert measured(space.sample_distinct(random.Random(0), number)) == number

        report(f"{name}: {number:,} listed", listed, rounds)
        report(f"{name}: {number:,} drawn", drawn, rounds)


def single(rounds: int) -> None:
    space = SPACES["N = 12, E = 12..32, at most 4 visits"]
    source = random.Random(0)
    routes = [space.sample(source) for _ in range(20)]
    report("N = 12: mutate", lambda: [space.mutate(route, source) for route in routes], rounds, 20)
    pairs = list(itertools.pairwise(routes))
    report("N = 12: crossover", lambda: [space.crossover(a, b, source) for a, b in pairs], rounds, 19)
    report("N = 12: diff", lambda: [str(dg.diff(a, b)) for a, b in pairs], rounds, 19)
    text = "looped"
    report("N = 24, E = 24..64, looped: count", lambda: dg.RouteSpace(24, (24, 64), patterns=text).count(), rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--routes", type=int, default=100_000)
    arguments = parser.parse_args()
    many(arguments.rounds, arguments.routes)
    single(arguments.rounds)


if __name__ == "__main__":
    main()
