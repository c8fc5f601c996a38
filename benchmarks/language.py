"""What the road costs from text to verified graph, and how that grows.

    python benchmarks/language.py [--rounds 15]

Ratios come from one process, sizes alternating. `noise` is one measurement against itself in the same rounds. Python's
garbage collector is left on, as users have it: it is what makes the largest size grow a little faster. The command line
is measured as whole processes, in CPU seconds.
"""

import argparse
import gc
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import depthgraph as dg

SMALL = "lft(24)"
#: shape → the spec of it with about that many executions.
SHAPES: dict[str, Callable[[int], str]] = {
    "lft(n)": lambda size: f"lft({(size + 4) // 3})",
    "(1..1000)xk": lambda size: f"(1..1000)x{size // 1000}",
    "(i x10 for i …)": lambda size: f"(i x10 for i in 1..{size // 10})",
}
SIZES = (1_000, 10_000, 100_000)


def to_verified_graph(text: str) -> None:
    dg.graph(dg.route(text))


def canonical_of(path: list[int]) -> str:
    return str(dg.Route.of(path, 8))


def seconds(run: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def small(rounds: int) -> None:
    def many() -> None:
        for _ in range(100):
            to_verified_graph(SMALL)

    many()
    times = [seconds(many) / 100 for _ in range(rounds)]
    spread = f"{min(times) * 1e3:.2f} to {max(times) * 1e3:.2f}"
    print(f"{SMALL}, text to verified graph: {statistics.median(times) * 1e3:.2f} ms (of {rounds} rounds: {spread})")


def growth(rounds: int) -> None:
    for shape, spec in SHAPES.items():
        times: dict[int, list[float]] = {size: [] for size in SIZES}
        noise = []
        for _ in range(rounds):
            for size in SIZES:
                times[size].append(seconds(partial(to_verified_graph, spec(size))))
            noise.append(seconds(partial(to_verified_graph, spec(SIZES[1]))) / times[SIZES[1]][-1])
        medians = [statistics.median(times[size]) for size in SIZES]
        shown = ", ".join(f"{size:,}: {median:.4f} s" for size, median in zip(SIZES, medians, strict=True))
        factors = ", ".join(f"×{b / a:.1f}" for a, b in pairwise(medians))
        middle = statistics.quantiles(noise, n=4)
        print(f"{shape}: {shown} ({factors} for ×10; noise {middle[0]:.2f} to {middle[2]:.2f})")


def canonical(rounds: int) -> None:
    source = random.Random(0)
    for size in SIZES:
        path = [source.randint(1, 8) for _ in range(size)]
        times = [seconds(partial(canonical_of, path)) for _ in range(max(1, rounds * 1_000 // size))]
        print(f"canonical text of a random route, {size:,} executions: {statistics.median(times):.4f} s")


def command_line(rounds: int) -> None:
    for arguments in (["--help"], ["show", SMALL]):
        times = []
        for _ in range(rounds):
            before = os.times()
            subprocess.run([sys.executable, "-m", "depthgraph", *arguments], capture_output=True, check=True)
            after = os.times()
            spent = after.children_user - before.children_user + after.children_system - before.children_system
            times.append(spent)
        command = " ".join(["depthgraph", *arguments])
        print(f"{command}: {statistics.median(times):.2f} s of CPU (of {rounds}: {min(times):.2f} to {max(times):.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    small(rounds)
    growth(rounds)
    canonical(rounds)
    command_line(rounds)


if __name__ == "__main__":
    main()
