"""The common comprehension, whose layers move evenly with its index: worked out twice, and then only moved.

`(i i-1 i for i in 2..9999)` needs no evaluation of three expressions for each value: the first two values say where
each run begins and by how much it moves.
"""

from collections.abc import Mapping

from depthgraph import syntax as tree
from depthgraph.terms import Chain, Run, Term, chain, run


def moves_evenly(body: tree.Sequence, names: Mapping[str, int]) -> bool:
    """Whether a body is layers and ranges alone, whose ends are sums and differences of integers and `names`."""
    for element in body.elements:
        match element:
            case tree.Layer(number) if _is_even(number, names):
                continue
            case tree.Range(first, last) if _is_even(first, names) and _is_even(last, names):
                continue
            case _:
                return False
    return True


def _is_even(node: tree.Expression, names: Mapping[str, int]) -> bool:
    match node:
        case tree.Integer():
            return True
        case tree.Name(text):
            return text in names
        case tree.Arithmetic(first, rest):
            parts = [first, *(operand for _, operand in rest)]
            return rest[0][0] in "+-" and all(_is_even(part, names) for part in parts)


def swept(one: Term, two: Term, elements: int, iterations: int, highest: int) -> list[Term] | None:
    """Return the terms of all iterations, from those of the first two.

    Args:
        one: what the first iteration runs.
        two: what the second one runs.
        elements: of the body.
        iterations: how many there are.
        highest: no layer may be above it.

    Returns:
        None where they do not move evenly within 1 … highest: then each has to be evaluated, which also finds the place
        of an error.
    """
    before, after = _runs(one), _runs(two)
    if before is None or after is None or not len(before) == len(after) == elements:
        return None
    moves = [new.first - old.first for old, new in zip(before, after, strict=True)]
    if any(new.count != old.count for old, new in zip(before, after, strict=True)):
        return None
    last = [_moved(part, move * (iterations - 1)) for part, move in zip(before, moves, strict=True)]
    if any(part.first < 1 or part.last > highest for part in last):
        return None
    pairs = list(zip(before, moves, strict=True))
    return [chain(_moved(part, move * by) for part, move in pairs) for by in range(iterations)]


def _runs(term: Term) -> tuple[Run, ...] | None:
    if isinstance(term, Run):
        return (term,)
    if isinstance(term, Chain) and all(isinstance(part, Run) for part in term.parts):
        return tuple(part for part in term.parts if isinstance(part, Run))
    return None


def _moved(term: Run, by: int) -> Run:
    return run(term.first + by, term.last + by, term.span)
