"""The orders in which layers with given visits can run: permutations of a multiset, in lexicographic order."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from math import factorial, prod


def count_orders(visits: Sequence[int]) -> int:
    """Return how many orders there are: E! / ∏ visits!.

    Examples:
        >>> count_orders((2, 1, 1))
        12
    """
    return factorial(sum(visits)) // prod(map(factorial, visits))


def first_order(visits: Sequence[int]) -> list[int]:
    """Return the first order: every layer's executions in a row, layers ascending."""
    return [layer for layer, times in enumerate(visits, 1) for _ in range(times)]


def orders(visits: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every order once, ascending.

    Examples:
        >>> list(orders((2, 1)))
        [(1, 1, 2), (1, 2, 1), (2, 1, 1)]
    """
    path = first_order(visits)
    last = len(path) - 1
    while True:
        yield tuple(path)
        at = last - 1
        while at >= 0 and path[at] >= path[at + 1]:
            at -= 1
        if at < 0:
            return
        other = last
        while path[other] <= path[at]:
            other -= 1
        path[at], path[other] = path[other], path[at]
        path[at + 1 :] = path[:at:-1]


def order_at(visits: Sequence[int], index: int, count: int) -> tuple[int, ...]:
    """Return the order that stands at an index of `orders`.

    Of the orders that are left, a layer with v of the n executions to come begins v / n: so the index itself, scaled to
    n, is a place in the sorted list of what is to come.

    Args:
        visits: of layers 1 … N.
        index: from 0.
        count: `count_orders(visits)`.
    """
    rest = first_order(visits)
    times = [0, *visits]
    path = []
    for left in range(len(rest), 0, -1):
        layer = rest.pop(index * left // count)
        index -= count * bisect_left(rest, layer) // left
        count = count * times[layer] // left
        times[layer] -= 1
        path.append(layer)
    return tuple(path)


def index_of_order(path: Sequence[int], count: int) -> int:
    """Return where an order stands among the `count` orders of its layers."""
    rest = sorted(path)
    index = 0
    for layer in path:
        left = len(rest)
        begin = bisect_left(rest, layer)
        times = bisect_right(rest, layer, begin) - begin
        del rest[begin]
        index += count * begin // left
        count = count * times // left
    return index
