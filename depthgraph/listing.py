"""A term written out: the operations that it stands for, one by one."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import assert_never

from depthgraph.operations import Execution, Exit, Gate, Iteration, Join, Mean, Mix, Operation, Sum
from depthgraph.terms import Chain, Gap, Loop, Run, Split, Step, Term

JOINS: dict[str, type[Join]] = {"mean": Mean, "sum": Sum}

Around = tuple[Iteration, ...]


def operations_of(term: Term) -> tuple[Operation, ...]:
    """Write a term out, in time and memory that grow with its size; everything is numbered in the order of the text.

    Args:
        term: a term whose fills are closed.
    """
    return tuple(_Writer().write(term, ()))


@dataclass(slots=True)
class _Writer:
    """What has been counted so far."""

    position: int = 0
    loops: int = 0
    exits: int = 0
    visits: dict[int, int] = field(default_factory=dict)
    sites: dict[type, dict[object, int]] = field(default_factory=lambda: {Mix: {}, Gate: {}})

    def write(self, term: Term, around: Around) -> Iterator[Operation]:
        match term:
            case Run():
                yield from self._run(term, around)
            case Chain(parts):
                for part in parts:
                    yield from self.write(part, around)
            case Loop():
                yield from self._loop(term, around)
            case Step():
                yield self._step(term, around)
            case Split(word, branches, span):
                inner = tuple(tuple(self.write(branch, around)) for branch in branches)
                yield JOINS[word](inner, iterations=around, span=span)
            case Gap():
                raise AssertionError("a fill is still open")
            case _:
                assert_never(term)

    def _run(self, term: Run, around: Around) -> Iterator[Execution]:
        step = 1 if term.last >= term.first else -1
        visits = self.visits
        for layer in range(term.first, term.last + step, step):
            self.position += 1
            visits[layer] = visit = visits.get(layer, 0) + 1
            yield Execution(self.position, layer, visit, around, term.span)

    def _loop(self, term: Loop, around: Around) -> Iterator[Operation]:
        self.loops += 1
        number, total = self.loops, len(term.bodies) * term.times
        for index in range(total):
            iteration = Iteration(number, index + 1, total)
            yield from self.write(term.bodies[index % len(term.bodies)], (*around, iteration))

    def _step(self, term: Step, around: Around) -> Operation:
        operation = term.operation
        match operation:
            case Mix() | Gate():
                known = self.sites[type(operation)]
                site = known.setdefault(term.weights, len(known) + 1)
                return replace(operation, iterations=around, site=site)
            case Exit():
                self.exits += 1
                return replace(operation, iterations=around, index=self.exits)
            case _:
                return replace(operation, iterations=around)
