"""The rows below a staircase: what data flow happens in which column, and how long a register keeps a state.

A column of a staircase is one state of `Route.flow`. Operations, joins and exits have rows under their words; every
register has one under its name, from where a state is saved to where it is last read.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from depthgraph.draw.structure import Item, ends, joins
from depthgraph.draw.words import register_name
from depthgraph.flow import KINDS, State
from depthgraph.operations import Execution, Exit, Mean, Save, Sum
from depthgraph.route import Route

#: `fork` is where a branch begins, `read` what add, mix and gate read, `load` what is read as h.
Sign = Literal["operation", "exit", "fork", "join", "save", "read", "load"]


class Mark(NamedTuple):
    """What happens in one column; `number` is that of an exit."""

    column: int
    sign: Sign
    number: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """Columns that belong together: one operation, branches with their join, or one state in a register."""

    marks: tuple[Mark, ...]

    @property
    def first(self) -> int:
        """Its first column."""
        return self.marks[0].column

    @property
    def last(self) -> int:
        """Its last column."""
        return self.marks[-1].column


@dataclass(frozen=True, slots=True)
class Track:
    """A row; spans of one name that overlap have several rows of that name."""

    label: str
    is_register: bool
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """The columns of a staircase and the rows below it.

    Attributes:
        first: the first column: 1, or 0 where a register keeps the input.
        last: the last column: one behind the last state where the output comes from a register.
        executed: the column of each execution, by its position - 1.
        tracks: none for a chain.
    """

    first: int
    last: int
    executed: tuple[int, ...]
    tracks: tuple[Track, ...]

    @property
    def length(self) -> int:
        """How many columns there are."""
        return self.last - self.first + 1


def score_of(route: Route, items: tuple[Item, ...]) -> Score:
    """Return the columns and rows of a route, whose structure is `items`."""
    states = route.flow.states
    executed = tuple(column for column, state in enumerate(states) if isinstance(state.operation, Execution))
    if route.is_chain:
        return Score(1, len(executed), executed, ())
    registers = list(_registers(route))
    first = min([1, *(span.first for _, span in registers)])
    last = max([len(states) - 1, *(span.last for _, span in registers)])
    tracks = (*_tracks(_operations(route, items), False), *_tracks(registers, True))
    return Score(first, last, executed, tracks)


def has_registers(score: Score) -> bool:
    """Whether any row is that of a register."""
    return any(track.is_register for track in score.tracks)


def _tracks(spans: Iterable[tuple[str, Span]], is_register: bool) -> Iterator[Track]:
    by_label: defaultdict[str, list[list[Span]]] = defaultdict(list)
    for label, span in spans:
        rows = by_label[label]
        # a register can be read and saved in one column: reading comes first
        row = next((row for row in rows if row[-1].last < span.first + is_register), None)
        if row is None:
            rows.append([span])
        else:
            row.append(span)
    return (Track(label, is_register, tuple(row)) for label, rows in by_label.items() for row in rows)


def _operations(route: Route, items: tuple[Item, ...]) -> Iterator[tuple[str, Span]]:
    """Yield what stands in the rows of operations, those of one word in order, exits last."""
    found: dict[str, list[Span]] = {word: [] for word in KINDS.values()}
    for column, state in enumerate(route.flow.states):
        match state.operation:
            case None | Execution() | Mean() | Sum():
                pass
            case Exit(index):
                found[KINDS[Exit]].append(Span((Mark(column, "exit", index),)))
            case operation:
                found[KINDS[type(operation)]].append(Span((Mark(column, "operation"),)))
    for item in joins(items):
        forks = (Mark(ends(branch)[0], "fork") for branch in item.branches)
        found[KINDS[type(item.join.operation)]].append(Span((*forks, Mark(item.join.column, "join"))))
    for word, spans in found.items():
        yield from ((word, span) for span in sorted(spans, key=lambda one: (one.first, -one.last)))


def _registers(route: Route) -> Iterator[tuple[str, Span]]:
    """Yield each state in a register, with all that read it there."""
    reads: defaultdict[tuple[int, str], list[Mark]] = defaultdict(list)
    for column, state in enumerate((*route.flow.states, State("output", hidden=route.flow.output))):
        for read in state.reads:
            if read.register is not None:
                sign: Sign = "read" if read is state.operand else "load"
                reads[read.state, read.register].append(Mark(column, sign))
    saves = [each.register for each in route.data_flow if isinstance(each, Save)]
    order = {register: index for index, register in enumerate(dict.fromkeys(saves))}
    for (source, register), marks in sorted(reads.items(), key=lambda one: (one[0][0], order[one[0][1]])):
        yield register_name(register), Span((Mark(source, "save"), *marks))
