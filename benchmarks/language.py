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
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import depthgraph as dg
from depthgraph.canonical import canonical_text
from depthgraph.operations import Add, Execution, Exit, Gate, Mean, Mix, Operation, Save

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


def random_chain(source: random.Random, size: int) -> dg.Route:
    return dg.Route.of([source.randint(1, 8) for _ in range(size)], 8)


def random_flow(source: random.Random, size: int) -> dg.Route:
    """Return a route of about so many executions, and half as many operations of data flow; some in nested joins."""
    registers = ["a", "b", "c"]
    inner = list(random_operations(source, registers, size * 5 // 4, 0))
    saves, reads = [Save(name) for name in registers], [Add(name) for name in registers]
    return dg.Route.of_operations([*saves, *inner, *reads, *(Execution(1, layer, 1) for layer in range(1, 9))])


def random_operations(source: random.Random, registers: list[str], count: int, depth: int) -> Iterator[Operation]:
    while count > 0:
        kind = source.random()
        if kind < 0.62:
            yield Execution(1, source.randint(1, 8), 1)
        elif kind < 0.96 or depth > 3:
            register, site = source.choice(registers), source.randint(1, 4)
            choices: list[Operation] = [Add(register), Mix(register, site), Gate(register, site), Exit(1)]
            yield source.choice(choices)
        else:
            branches = [tuple(random_operations(source, registers, 4, depth + 1)) for _ in range(2)]
            yield Mean(tuple((*branch, Execution(1, source.randint(1, 8), 1)) for branch in branches))
            count -= 10
        count -= 1


#: what is random → how it is made, for so many executions.
RANDOM: dict[str, Callable[[random.Random, int], dg.Route]] = {"chain": random_chain, "data flow": random_flow}

#: So many random routes are measured, once each.
SEEDS = 20


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
    for name, make in RANDOM.items():
        for size in SIZES:
            seeds = range(SEEDS if size == SIZES[0] else max(1, rounds * 1_000 // size))
            routes = [make(random.Random(seed), size) for seed in seeds]
            times = [seconds(partial(canonical_text, route)) for route in routes]
            executions = statistics.median(route.execution_depth for route in routes)
            shown = f"{statistics.median(times):.4f} s, worst of {len(times)}: {max(times):.4f} s"
            print(f"canonical text of a random route, {name}, {executions:,.0f} executions: {shown}")


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
