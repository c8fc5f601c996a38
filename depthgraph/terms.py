"""Routes before they are written out: terms whose size is known by arithmetic, whatever they stand for.

A term of `x1000000000` is as small as one of `x2`. Its count, its first and its highest layer are known when it is
built, so that limits hold and fills find their ends before anything is expanded.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from depthgraph.route import Iteration
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


@dataclass(frozen=True, slots=True)
class Gap:
    """A fill, whose ends are known when the terms around it are; `gap` is where it is written."""

    gap: Span
    count: int = 0
    head: int | None = None
    highest: int = 0


@dataclass(frozen=True, slots=True)
class Chain:
    """Terms one after the other, none of them empty."""

    parts: tuple["Term", ...]
    count: int
    head: int | None
    highest: int
    gap: Span | None


@dataclass(frozen=True, slots=True)
class Loop:
    """All of `bodies` one after the other, `times` over; each is one iteration."""

    bodies: tuple["Term", ...]
    times: int
    count: int
    head: int | None
    highest: int
    gap: None = None


Term = Run | Gap | Chain | Loop

EMPTY = Chain((), 0, None, 0, None)


def run(first: int, last: int, span: Span) -> Run:
    """Return the run from one layer to another, both included."""
    if last >= first:
        return Run(first, last, span, last - first + 1, first, last)
    return Run(first, last, span, first - last + 1, first, first)


def chain(terms: Iterable["Term"]) -> "Term":
    """Return terms one after the other as one term."""
    parts: list[Term] = []
    count = highest = 0
    head: int | None = None
    gap: Span | None = None
    for term in terms:
        if not term.count and term.gap is None:
            continue
        parts.append(term)
        count += term.count
        head = head or term.head
        gap = gap or term.gap
        if term.highest > highest:
            highest = term.highest
    return parts[0] if len(parts) == 1 else Chain(tuple(parts), count, head, highest, gap)


def loop(bodies: list[Term], times: int) -> Term:
    """Return a loop. A body that runs nothing is no iteration of it: there are never more of them than executions."""
    bodies = [body for body in bodies if body.count]
    if not bodies:
        return EMPTY
    count = times * sum(body.count for body in bodies)
    return Loop(tuple(bodies), times, count, bodies[0].head, max(body.highest for body in bodies))


def reversed_term(term: Term) -> Term:
    """Return the term whose executions are those of `term` in reverse order."""
    match term:
        case Run(first, last, span):
            return run(last, first, span)
        case Chain(parts):
            return chain([reversed_term(part) for part in reversed(parts)])
        case Loop(bodies, times):
            return loop([reversed_term(body) for body in reversed(bodies)], times)
        case Gap():
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
        case Gap():
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


@dataclass(slots=True)
class Listing:
    """A term written out: for each execution its layer, the loops around it, and where it is named."""

    path: list[int] = field(default_factory=list)
    iterations: list[tuple[Iteration, ...]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    loops: int = 0


def listing(term: Term) -> Listing:
    """Write a term out, in time and memory that grow with its count."""
    result = Listing()
    _list(term, (), result)
    return result


def _list(term: Term, around: tuple[Iteration, ...], into: Listing) -> None:
    if isinstance(term, Run) and term.count == 1:
        into.path.append(term.first)
        into.iterations.append(around)
        into.spans.append(term.span)
    elif isinstance(term, Run):
        step = 1 if term.last >= term.first else -1
        into.path += range(term.first, term.last + step, step)
        into.iterations += [around] * term.count
        into.spans += [term.span] * term.count
    elif isinstance(term, Chain):
        for part in term.parts:
            _list(part, around, into)
    elif isinstance(term, Loop):
        into.loops += 1
        number, total = into.loops, len(term.bodies) * term.times
        for index in range(total):
            iteration = Iteration(number, index + 1, total)
            _list(term.bodies[index % len(term.bodies)], (*around, iteration), into)
