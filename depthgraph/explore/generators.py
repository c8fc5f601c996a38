"""Random numbers of any size, from the caller's own generator: nothing here draws from a global one."""

import random
from math import log10
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    import numpy

#: What every function that draws takes: it is moved on by each draw, so equal seeds give equal routes.
Generator = Union[random.Random, "numpy.random.Generator"]

#: numpy draws integers below this.
NUMPY_LIMIT = 2**63


def below(generator: Generator, count: int) -> int:
    """Return an integer of 0 … count - 1, each as likely as the others.

    Spaces of routes are larger than machine integers: numpy's bytes are drawn until they are below the count.

    Args:
        generator: a `random.Random` or a `numpy.random.Generator`.
        count: at least 1; of any size.

    Raises:
        TypeError: the generator is neither.

    Examples:
        >>> below(random.Random(0), 10**30) < 10**30
        True
    """
    if isinstance(generator, random.Random):
        return generator.randrange(count)
    if not (hasattr(generator, "integers") and hasattr(generator, "bytes")):
        found = type(generator).__name__
        raise TypeError(f"a generator is a random.Random or a numpy.random.Generator; found a {found}")
    if count < NUMPY_LIMIT:
        return int(generator.integers(count))
    bits = (count - 1).bit_length()
    while True:
        drawn = int.from_bytes(generator.bytes(-(-bits // 8)), "big") >> (-bits % 8)
        if drawn < count:
            return drawn


def shown_count(count: int) -> str:
    """Return a count as messages show it: whole, or with three digits where it is larger than anybody reads.

    Examples:
        >>> shown_count(12_345), shown_count(123 * 10**5000)
        ('12,345', '1.23e5002')
    """
    if count < 10**15:
        return f"{count:,}"
    power = int(log10(count))
    power += (count >= 10 ** (power + 1)) - (count < 10**power)  # the logarithm is rounded
    digits = count // 10 ** (power - 2)
    return f"{digits // 100}.{digits % 100:02d}e{power}"


def distinct_below(generator: Generator, count: int, number: int) -> list[int]:
    """Return different integers of 0 … count - 1: every set of them is equally likely.

    Robert Floyd's method (Bentley, Programming Pearls, CACM 30(9), 1987): as many draws as there are results, and no
    list of all candidates.

    Args:
        generator: as in `below`.
        count: how many candidates there are.
        number: how many are drawn, at most `count`.
    """
    chosen: dict[int, None] = {}
    for top in range(count - number, count):
        drawn = below(generator, top + 1)
        chosen[drawn if drawn not in chosen else top] = None
    return list(chosen)
