"""How many ways there are to run the layers from one on: the numbers that counting and drawing read.

With m the most visits of a layer and l (0 or 1) the fewest, the paths of e executions over j layers are counted by the
exponential generating function p(x)^j, where p(x) = Σ x^r / r! over r from l to m. Since p' = p + l - x^m / m!, the
derivative of p^j, j p^(j-1) p', gives each number from three others:

    B_j(e) = j (B_j(e-1) + l B_(j-1)(e-1) - C(e-1, m) B_(j-1)(e-1-m))

Read: the last execution is of one of j layers, which has run before, or has not; less those in which it has then run
m + 1 times. Reuse maps, where order plays no part, are counted by (x^l + … + x^m)^j in the same way.
"""

from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate
from math import comb, log2
from typing import Protocol

from depthgraph.errors import ExploreError
from depthgraph.explore.bounds import Bounds

#: The largest tables: numbers, bytes of those numbers (a space has as many digits as E · log N), and sums of costs.
MOST_CELLS, MOST_BYTES, MOST_SUMS = 250_000, 100_000_000, 500_000


class Tallies(Protocol):
    """Counts how a route can be continued."""

    def ways(self, layer: int, left: int, spent: int) -> int:
        """Return in how many ways the layers after `layer` can run `left` executions, when `spent` is paid already."""


class EqualTallies:
    """Where every execution costs the same: a table over layers and executions."""

    def __init__(self, bounds: Bounds, ordered: bool) -> None:
        N, E = bounds.parameter_depth, bounds.longest
        size = E * log2(N + 1) / 16 if ordered else 8  # bytes of a number, half of that of the largest
        if N * (E + 1) > MOST_CELLS or N * (E + 1) * size > MOST_BYTES:
            raise too_large(f"{N:,} layers and up to {E:,} executions")
        row = _next_paths if ordered else _next_maps
        self.N = N
        self.rows = [[1] + [0] * E]
        for j in range(1, N + 1):
            self.rows.append(row(self.rows[-1], j, bounds.fewest, bounds.most))

    def ways(self, layer: int, left: int, spent: int) -> int:
        """As `Tallies`; `spent` plays no part."""
        return self.rows[self.N - layer][left]


def _next_paths(below: list[int], j: int, fewest: int, most: int) -> list[int]:
    row = [0 if fewest else 1]
    for e in range(len(below) - 1):
        over = comb(e, most) * below[e - most] if e >= most else 0
        row.append(j * (row[e] + fewest * below[e] - over))
    return row


def _next_maps(below: list[int], j: int, fewest: int, most: int) -> list[int]:
    row = []
    running = 0
    for e in range(len(below)):
        running += below[e - fewest] if e >= fewest else 0
        running -= below[e - most - 1] if e > most else 0
        row.append(running)
    return row


class CostedTallies:
    """Where executions cost differently: for the layers from one on, the ways by executions and by cost."""

    def __init__(self, bounds: Bounds, ordered: bool) -> None:
        self.bounds, self.ordered = bounds, ordered

    def ways(self, layer: int, left: int, spent: int) -> int:
        """As `Tallies`."""
        costs, sums = self._tables[layer].get(left, ((), (0,)))
        first = bisect_left(costs, self.bounds.cheapest - spent)
        return max(0, sums[bisect_right(costs, self.bounds.dearest - spent)] - sums[first])

    @cached_property
    def _tables(self) -> list[dict[int, tuple[tuple[int, ...], tuple[int, ...]]]]:
        """For each layer, executions → the costs that they can have, ascending, and the running sums of their ways."""
        ways: dict[int, dict[int, int]] = {0: {0: 1}}
        tables = [_with_sums(ways)]
        for layer in range(self.bounds.parameter_depth, 0, -1):
            ways = self._with_layer(ways, self.bounds.costs[layer - 1])
            if sum(map(len, ways.values())) > MOST_SUMS:
                raise too_large("so many different sums of costs", "give costs in larger units, so that more are equal")
            tables.append(_with_sums(ways))
        return tables[::-1]

    def _with_layer(self, after: dict[int, dict[int, int]], cost: int) -> dict[int, dict[int, int]]:
        found: dict[int, dict[int, int]] = {}
        for used, sums in after.items():
            for times in range(self.bounds.fewest, min(self.bounds.most, self.bounds.longest - used) + 1):
                mixed = comb(used + times, times) if self.ordered else 1
                into = found.setdefault(used + times, {})
                for spent, ways in sums.items():
                    total = spent + times * cost
                    if total <= self.bounds.dearest:
                        into[total] = into.get(total, 0) + mixed * ways
        return found


def _with_sums(ways: dict[int, dict[int, int]]) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    found = {}
    for used, sums in ways.items():
        costs = tuple(sorted(sums))
        found[used] = costs, tuple(accumulate((sums[cost] for cost in costs), initial=0))
    return found


def too_large(what: str, help: str = "give narrower bounds") -> ExploreError:
    """Return the error for tables that would not fit."""
    return ExploreError("space-too-large", f"a space of {what} cannot be counted here", help=help)


def tallies(bounds: Bounds, ordered: bool) -> Tallies:
    """Return what counts the routes within bounds.

    Args:
        bounds: of the space.
        ordered: whether executions may come in any order, or a layer's executions come in a row.

    Raises:
        ExploreError: `space-too-large`.
    """
    return EqualTallies(bounds, ordered) if bounds.equal_costs else CostedTallies(bounds, ordered)
