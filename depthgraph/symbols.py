"""A route's operations as one sequence of integers, in which repeats are searched.

A layer stands for itself. An operation of data flow is a number far from all layers and from all other operations; a
join is two brackets with its branches between them: mean( … | … ). So a stretch of operations that runs twice is a
stretch of equal numbers, branches and all, and one that runs on shifted layers differs in its layers alone. Operations
with weights are one symbol only where they share them, so no loop ever folds two sets of weights into one.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from depthgraph.operations import (
    Add,
    Execution,
    Exit,
    Gate,
    Load,
    Mean,
    Mix,
    Operation,
    Save,
    StopGradient,
    Sum,
)

#: In a comprehension, a layer that does not move with the index is `CONSTANT` + its number.
CONSTANT = 1 << 30

#: The distance of two symbols of data flow; these four are brackets.
FLOW = 1 << 34
MEAN, SUM, BAR, CLOSE = FLOW, 2 * FLOW, 3 * FLOW, 4 * FLOW

#: What opens a join → its word.
JOINS = {MEAN: "mean", SUM: "sum"}

Symbols = tuple[int, ...]

#: An operation of data flow that is no join: its word, its register, and whose weights it has.
Action = tuple[str, str, int]

WORDS: dict[type[Save | Load | Add | Mix | Gate], str] = {
    Save: "save", Load: "load", Add: "add", Mix: "mix", Gate: "gate",
}  # fmt: skip


def is_flow(symbol: int) -> bool:
    """Whether a symbol is an operation of data flow or a bracket, and no layer."""
    return symbol >= FLOW


class Alphabet:
    """The symbols of one route; equal actions have equal symbols.

    Attributes:
        actions: symbol → what it does, for all that is no layer and no bracket.
    """

    def __init__(self) -> None:
        self.actions: dict[int, Action] = {}
        self._symbols: dict[Action, int] = {}

    def symbols(self, operations: Iterable[Operation]) -> Iterator[int]:
        """Yield the symbols of operations, in the order of the text."""
        for operation in operations:
            match operation:
                case Execution(layer=layer):
                    yield layer
                case Mean(branches):
                    yield from self._join(MEAN, branches)
                case Sum(branches):
                    yield from self._join(SUM, branches)
                case Save(register) | Load(register) | Add(register):
                    yield self._symbol(WORDS[type(operation)], register, 0)
                case Mix(register, site) | Gate(register, site):
                    yield self._symbol(WORDS[type(operation)], register, site)
                case StopGradient():
                    yield self._symbol("stopgrad", "", 0)
                case Exit():
                    yield self._symbol("exit", "", 0)
                case _:
                    assert_never(operation)

    def _join(self, opening: int, branches: Iterable[Iterable[Operation]]) -> Iterator[int]:
        for number, branch in enumerate(branches):
            yield BAR if number else opening
            yield from self.symbols(branch)
        yield CLOSE

    def _symbol(self, *action: *Action) -> int:
        symbol = self._symbols.setdefault(action, CLOSE + FLOW * (len(self._symbols) + 1))
        self.actions[symbol] = action
        return symbol


def levels(x: Sequence[int]) -> bytes:
    """Return how deep each symbol stands in joins: twice their number, and one more for the `|` and `)` of a join.

    So a stretch holds whole elements of one sequence when it begins and ends at its lowest level, and that is even.
    """
    found, level = bytearray(len(x)), 0
    for place, symbol in enumerate(x):
        if symbol == CLOSE:
            level -= 2
        found[place] = level + (symbol in (BAR, CLOSE)) - 2 * (symbol == BAR)
        if symbol in JOINS:
            level += 2
    return bytes(found)


Branches = list[tuple[int, int]]


def joins(x: Sequence[int]) -> dict[int, tuple[Branches, int]]:
    """Return, for the place at which each join opens, where its branches begin and end, and the place behind it."""
    found: dict[int, tuple[Branches, int]] = {}
    around: list[tuple[int, list[int]]] = []
    for place, symbol in enumerate(x):
        if symbol in JOINS:
            around.append((place, [place]))
        elif symbol in (BAR, CLOSE):
            around[-1][1].append(place)
            if symbol == CLOSE:
                opening, ends = around.pop()
                found[opening] = [(start + 1, end) for start, end in itertools.pairwise(ends)], place + 1
    return found
