"""Routes before they are written out: terms whose size is known by arithmetic, whatever they stand for.

A term of `x1000000000` is as small as one of `x2`. Its count of executions, its size (the operations of data flow
counted too), its first and its highest layer are known when it is built, so that limits hold and fills find their ends
before anything is expanded.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from depthgraph.operations import Add, Exit, Gate, Load, Mix, Save, StopGradient
from depthgraph.source import Span


class Run(NamedTuple):
    """The layers from `first` to `last`, ascending or descending, one execution each; `run` makes one."""

    first: int
    last: int
    span: Span
    count: int  # type: ignore[assignment]
    head: int
    highest: int
    gap: None = None

    @property
    def size(self) -> int:
        """As many operations as executions."""
        return self.count


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of data flow that is no join.

    Attributes:
        operation: it, with no iterations and, where it has weights, with site 0.
        weights: whose weights those of `mix` and `gate` are: equal for operations that share them.
    """

    operation: Save | Load | Add | Mix | Gate | StopGradient | Exit
    weights: Hashable = None
    count: int = 0
    size: int = 1
    head: None = None
    highest: int = 0
    gap: None = None


@dataclass(frozen=True, slots=True)
class Split:
    """Branches from one hidden state that are joined again."""

    word: str
    branches: tuple["Term", ...]
    span: Span
    count: int
    size: int
    head: int | None
    highest: int
    gap: None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A fill, whose ends are known when the terms around it are; `gap` is where it is written."""

    gap: Span
    count: int = 0
    size: int = 0
    head: int | None = None
    highest: int = 0


@dataclass(frozen=True, slots=True)
class Chain:
    """Terms one after the other, none of them empty."""

    parts: tuple["Term", ...]
    count: int
    size: int
    head: int | None
    highest: int
    gap: Span | None


@dataclass(frozen=True, slots=True)
class Loop:
    """All of `bodies` one after the other, `times` over; each is one iteration."""

    bodies: tuple["Term", ...]
    times: int
    count: int
    size: int
    head: int | None
    highest: int
    gap: None = None


Term = Run | Step | Split | Gap | Chain | Loop

EMPTY = Chain((), 0, 0, None, 0, None)


def has_flow(term: Term) -> bool:
    """Whether a term has operations of data flow."""
    return term.size > term.count


def run(first: int, last: int, span: Span) -> Run:
    """Return the run from one layer to another, both included."""
    if last >= first:
        return Run(first, last, span, last - first + 1, first, last)
    return Run(first, last, span, first - last + 1, first, first)


def chain(terms: Iterable["Term"]) -> "Term":
    """Return terms one after the other as one term."""
    parts: list[Term] = []
    count = size = highest = 0
    head: int | None = None
    gap: Span | None = None
    for term in terms:
        if not term.size and term.gap is None:
            continue
        parts.append(term)
        count += term.count
        size += term.size
        head = head or term.head
        gap = gap or term.gap
        if term.highest > highest:
            highest = term.highest
    return parts[0] if len(parts) == 1 else Chain(tuple(parts), count, size, head, highest, gap)


def loop(bodies: list[Term], times: int) -> Term:
    """Return a loop. A body that does nothing is no iteration of it: there are never more of them than operations."""
    bodies = [body for body in bodies if body.size]
    if not bodies:
        return EMPTY
    count, size = (times * sum(each) for each in zip(*((body.count, body.size) for body in bodies), strict=True))
    return Loop(tuple(bodies), times, count, size, _head(bodies), max(body.highest for body in bodies))


def split(word: str, branches: list[Term], span: Span) -> Split:
    """Return branches joined by `word`, which is one operation itself."""
    count, size = (sum(each) for each in zip(*((one.count, one.size) for one in branches), strict=True))
    return Split(word, tuple(branches), span, count, size + 1, _head(branches), max(one.highest for one in branches))


def _head(terms: Iterable[Term]) -> int | None:
    return next((term.head for term in terms if term.head), None)


def reversed_term(term: Term) -> Term:
    """Return the term whose executions are those of `term` in reverse order; it has no data flow."""
    match term:
        case Run(first, last, span):
            return run(last, first, span)
        case Chain(parts):
            return chain([reversed_term(part) for part in reversed(parts)])
        case Loop(bodies, times):
            return loop([reversed_term(body) for body in reversed(bodies)], times)
        case Gap() | Step() | Split():
            return term


def close_gaps(term: Term, depth: int) -> Term:
    """Put runs in place of the fills: the layers between the highest run so far and the next one that runs.

    Args:
        term: a term whose fills stand in no loop.
        depth: N; the last fill ends there.
    """
    parts = list(_flat(term))
    following = [depth + 1]
    for part in reversed(parts):
        following.append(part.head or following[-1])
    following.reverse()
    closed: list[Term] = []
    highest = 0
    for part, next_layer in zip(parts, following[1:], strict=True):
        if not isinstance(part, Gap):
            closed.append(part)
        elif highest + 1 < next_layer:
            closed.append(run(highest + 1, next_layer - 1, part.gap))
        highest = max(highest, closed[-1].highest if closed else 0)
    return chain(closed)


def runs(term: Term) -> Iterator[Run]:
    """Yield the runs of a term, those of a loop once."""
    match term:
        case Run():
            yield term
        case Chain(parts):
            for part in parts:
                yield from runs(part)
        case Loop(bodies):
            for body in bodies:
                yield from runs(body)
        case Split(branches=branches):
            for branch in branches:
                yield from runs(branch)
        case Gap() | Step():
            return


def _flat(term: Term) -> Iterator[Term]:
    if isinstance(term, Chain) and term.gap:
        for part in term.parts:
            yield from _flat(part)
    else:
        yield term


def merged(parts: Iterable[Run]) -> Iterator[Run]:
    """Yield ascending runs that together have the layers of some ascending runs, each layer once."""
    last = 0
    for part in sorted(parts):
        if part.last > last:
            yield run(max(part.first, last + 1), part.last, part.span)
            last = part.last
