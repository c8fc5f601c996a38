"""A route's operations as one sequence of integers, in which repeats are searched.

A layer stands for itself. An operation of data flow is a number far from all layers and from all other operations; a
join is two brackets with its branches between them: mean( … | … ). So a stretch of operations that runs twice is a
stretch of equal numbers, branches and all, and one that runs on shifted layers differs in its layers alone. Operations
with weights are one symbol only where they share them, so no loop ever folds two sets of weights into one.
"""

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
FLOW = 1 << 40
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


def inside(x: Sequence[int]) -> bytearray:
    """Say of each place in x, and of its end, whether it stands inside a join, where no element of x begins."""
    flags, depth = bytearray(len(x) + 1), 0
    for place, symbol in enumerate(x):
        flags[place] = depth > 0
        depth += (symbol in JOINS) - (symbol == CLOSE)
    return flags


def branches_at(x: Sequence[int], place: int) -> tuple[list[tuple[int, int]], int]:
    """Return the begins and ends of the branches of the join that opens at a place, and the place behind it."""
    branches: list[tuple[int, int]] = []
    start, depth = place + 1, 0
    for at in range(place + 1, len(x)):
        symbol = x[at]
        if depth == 0 and symbol in (BAR, CLOSE):
            branches.append((start, at))
            start = at + 1
        if symbol in JOINS:
            depth += 1
        elif symbol == CLOSE:
            if depth == 0:
                return branches, at + 1
            depth -= 1
    raise AssertionError("a join that has no end")
