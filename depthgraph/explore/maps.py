"""All reuse maps within bounds, in order, with how many routes each stands for: what makes spaces countable."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from math import comb

from depthgraph.explore.bounds import Bounds
from depthgraph.explore.tallies import Tallies, tallies


class ReuseMaps:
    """The reuse maps of a space, ascending by executions, then by the visits of layer 1, of layer 2 and so on.

    Attributes:
        bounds: what each keeps.
        ordered: whether a map stands for all orders of its executions, or for one.
    """

    def __init__(self, bounds: Bounds, ordered: bool) -> None:
        self.bounds, self.ordered = bounds, ordered
        self._running: dict[tuple[int, int, int], list[int]] = {}

    @cached_property
    def _tallies(self) -> Tallies:
        return tallies(self.bounds, self.ordered)

    @cached_property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """(executions, routes), for every number of executions that some route has."""
        if self.bounds.shortest > self.bounds.longest:
            return ()
        lengths = range(self.bounds.shortest, self.bounds.longest + 1)
        sizes = ((E, self._tallies.ways(0, E, 0)) for E in lengths)
        return tuple((E, ways) for E, ways in sizes if ways)

    @cached_property
    def count(self) -> int:
        """How many routes all maps stand for."""
        return sum(ways for _, ways in self.sizes)

    def at(self, index: int) -> tuple[tuple[int, ...], int, int]:
        """Return the map of the route at an index, where the route stands among the map's own, and how many those are.

        Args:
            index: from 0, below `count`.
        """
        left, spent, mixed = 0, 0, 1
        for left, ways in self.sizes:  # noqa: B007
            if index < ways:
                break
            index -= ways
        visits: list[int] = []
        for layer, cost in enumerate(self.bounds.costs, 1):
            sums = self._sums(layer, left, spent)
            more = bisect_right(sums, index // mixed) - 1
            index -= mixed * sums[more]
            times = self.bounds.fewest + more
            visits.append(times)
            mixed *= comb(left, times) if self.ordered else 1
            left, spent = left - times, spent + times * cost
        return tuple(visits), index, mixed

    def index(self, visits: Sequence[int]) -> int:
        """Return where the first route of a map stands; the map is one of these."""
        left, spent, mixed, index = sum(visits), 0, 1, 0
        for E, ways in self.sizes:
            if left == E:
                break
            index += ways
        for layer, (cost, times) in enumerate(zip(self.bounds.costs, visits, strict=True), 1):
            index += mixed * self._sums(layer, left, spent)[times - self.bounds.fewest]
            mixed *= comb(left, times) if self.ordered else 1
            left, spent = left - times, spent + times * cost
        return index

    def _sums(self, layer: int, left: int, spent: int) -> list[int]:
        """Return, for each number of visits of a layer, how many routes have fewer; and how many there are.

        Args:
            layer: whose visits are next.
            left: executions of this layer and those after it.
            spent: what the layers before it cost.
        """
        key = (layer, left, spent)
        sums = self._running.get(key)
        if sums is None:
            cost, choices = self.bounds.costs[layer - 1], self._choices(left)
            mixed = [comb(left, times) if self.ordered else 1 for times in choices]
            after = [self._tallies.ways(layer, left - times, spent + times * cost) for times in choices]
            sums = self._running[key] = list(accumulate(map(int.__mul__, mixed, after), initial=0))
        return sums

    def begins(self, visits: Sequence[int]) -> bool:
        """Whether some map begins with these visits."""
        used, spent = sum(visits), sum(map(int.__mul__, visits, self.bounds.costs))
        ways = (self._tallies.ways(len(visits), E - used, spent) for E, _ in self.sizes if used <= E)
        return any(ways)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        for E, _ in self.sizes:
            visits: list[int] | None = self._filled([], E)
            while visits is not None:
                yield tuple(visits)
                visits = self._next(visits)

    def _choices(self, left: int) -> range:
        return range(self.bounds.fewest, min(self.bounds.most, left) + 1)

    def _filled(self, visits: list[int], left: int) -> list[int]:
        """Return the first map that begins with these visits; there is one."""
        visits = list(visits)
        spent = sum(map(int.__mul__, visits, self.bounds.costs))
        for layer in range(len(visits) + 1, self.bounds.parameter_depth + 1):
            cost = self.bounds.costs[layer - 1]
            fits = (t for t in self._choices(left) if self._tallies.ways(layer, left - t, spent + t * cost))
            times = next(fits)
            visits.append(times)
            left, spent = left - times, spent + times * cost
        return visits

    def _next(self, visits: list[int]) -> list[int] | None:
        """Return the map after this one with as many executions: the last layer that can run more often does."""
        left, spent = 0, sum(map(int.__mul__, visits, self.bounds.costs))
        for layer in range(len(visits), 0, -1):
            cost, now = self.bounds.costs[layer - 1], visits[layer - 1]
            left, spent = left + now, spent - now * cost
            for times in range(now + 1, min(self.bounds.most, left) + 1):
                if self._tallies.ways(layer, left - times, spent + times * cost):
                    return self._filled([*visits[: layer - 1], times], left - times)
        return None
