"""Which hidden state each operation reads: the operations of a route in single-assignment form.

`save` and `load` compute nothing. They say which state is read, and here they are gone: what is left are the states,
each with what it is computed from.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from depthgraph.errors import NO_SPAN, Fault
from depthgraph.operations import (
    MOST_NESTED,
    Add,
    Execution,
    Exit,
    Gate,
    Join,
    Load,
    Mean,
    Mix,
    Operation,
    Reading,
    Save,
    StopGradient,
    Sum,
    executions_of,
)

EMPTY_BRANCH = "this branch of a join runs no layer"
BRANCH_HELP = "a branch runs one layer at least; `add` adds a state that is already there"


class Read(NamedTuple):
    """A state that is read.

    Attributes:
        state: its index in `Flow.states`.
        register: the register through which it is read; None for h as the operation before left it.
    """

    state: int
    register: str | None = None


#: The operations that compute a state.
Computing = Execution | Add | Mix | Gate | Mean | Sum | StopGradient | Exit


@dataclass(frozen=True, slots=True)
class State:
    """One hidden state, or an exit, which is computed by passing one on.

    Attributes:
        name: of its node: `L2.1`, `add.1`, `mean.2`; `input` for the first one.
        operation: what computes it; None for the input.
        hidden: what is its h; None for the input and for joins.
        operand: what a register gives to `add`, `mix` and `gate`.
        ends: of a join, the result of each branch.
    """

    name: str
    operation: Computing | None = None
    hidden: Read | None = None
    operand: Read | None = None
    ends: tuple[Read, ...] = ()

    @property
    def reads(self) -> tuple[Read, ...]:
        """All that it is computed from."""
        return tuple(read for read in (self.hidden, self.operand, *self.ends) if read is not None)


class Flow(NamedTuple):
    """The states of a route in the order of the text, the input first, and which one is the output."""

    states: list[State]
    output: Read


#: What the nodes of data flow are called, before their number.
KINDS: dict[type, str] = {
    Add: "add", Mix: "mix", Gate: "gate", Mean: "mean", Sum: "sum", StopGradient: "stopgrad", Exit: "exit",
}  # fmt: skip


def trace(operations: Iterable[Operation]) -> Flow:
    """Follow the hidden state and the registers through operations.

    Raises:
        Fault: a register is read before it is saved, or is never read; a branch runs no layer; a state is computed
            and nothing reads it.
    """
    tracer = _Tracer()
    output = tracer.run(operations, Read(0), tracer.scopes[0])
    for scope in tracer.scopes:
        scope.check()
    flow = Flow(tracer.states, output)
    if tracer.scopes[0].records or len(tracer.scopes) > 1:
        _check_used(flow)
    return flow


@dataclass(slots=True)
class _Record:
    """The saves of one register in one scope."""

    first: Save
    is_read: bool = False


@dataclass(slots=True)
class _Scope:
    """The registers that can be read at one place: those of the branch, and those from outside it.

    Attributes:
        registers: name → state, and the record of who saved it.
        records: of the registers that were saved in this branch.
        seen_in_branches: the names that were saved in branches which have ended.
    """

    registers: dict[str, tuple[int, _Record]] = field(default_factory=dict)
    records: dict[str, _Record] = field(default_factory=dict)
    seen_in_branches: set[str] = field(default_factory=set)

    def save(self, operation: Save, state: int) -> None:
        record = self.records.setdefault(operation.register, _Record(operation))
        self.registers[operation.register] = state, record

    def read(self, operation: Reading) -> Read:
        name = operation.register
        if name not in self.registers:
            raise self._unknown(operation)
        state, record = self.registers[name]
        record.is_read = True
        return Read(state, name)

    def _unknown(self, operation: Reading) -> Fault:
        name = operation.register
        message, help = f"register `{name}` is read before it is saved", f"write `save({name})` where its state is h"
        if name in self.seen_in_branches:
            message = f"register `{name}` was saved in a branch, and is not visible outside it"
            help = "save it before the join, or where it is read"
        elif self.registers:
            help = f"{help}; saved here: {', '.join(f'`{each}`' for each in sorted(self.registers)[:8])}"
        return Fault("unknown-register", message, operation.span or NO_SPAN, help)

    def branch(self) -> "_Scope":
        return _Scope(dict(self.registers), seen_in_branches=set(self.seen_in_branches))

    def check(self) -> None:
        for name, record in self.records.items():
            if not record.is_read:
                message, help = f"register `{name}` is saved and never read", "delete this `save`, or read the register"
                raise Fault("unused-register", message, record.first.span or NO_SPAN, help)


class _Tracer:
    def __init__(self) -> None:
        self.states = [State("input")]
        self.scopes = [_Scope()]
        self._counts: Counter[str] = Counter()
        self._depth = 0

    def run(self, operations: Iterable[Operation], hidden: Read, scope: _Scope) -> Read:
        """Follow operations from h on, and return the h behind them."""
        for operation in operations:
            match operation:
                case Execution():
                    hidden = self._new(State(operation.name, operation, hidden))
                case Save():
                    scope.save(operation, hidden.state)
                case Load():
                    hidden = scope.read(operation)
                case Add() | Mix() | Gate():
                    hidden = self._new(State(self._name(operation), operation, hidden, scope.read(operation)))
                case StopGradient():
                    hidden = self._new(State(self._name(operation), operation, hidden))
                case Exit():
                    self._new(State(self._name(operation), operation, hidden))
                case Mean() | Sum():
                    ends = self._branches(operation, hidden, scope)
                    hidden = self._new(State(self._name(operation), operation, ends=ends))
                case _:
                    assert_never(operation)
        return hidden

    def _new(self, state: State) -> Read:
        self.states.append(state)
        return Read(len(self.states) - 1)

    def _name(self, operation: Operation) -> str:
        kind = KINDS[type(operation)]
        self._counts[kind] += 1
        return f"{kind}.{self._counts[kind]}"

    def _branches(self, join: Join, hidden: Read, scope: _Scope) -> tuple[Read, ...]:
        self._depth += 1
        if self._depth > MOST_NESTED:
            message = f"branches are nested more than {MOST_NESTED} deep"
            raise Fault("too-deep", message, join.span or NO_SPAN, "save states, and join them one after the other")
        ends = []
        for branch in join.branches:
            if not executions_of(branch):
                raise Fault("empty-branch", EMPTY_BRANCH, join.span or NO_SPAN, BRANCH_HELP)
            inner = scope.branch()
            self.scopes.append(inner)
            ends.append(self.run(branch, hidden, inner))
            scope.seen_in_branches |= inner.records.keys() | inner.seen_in_branches
        self._depth -= 1
        return tuple(ends)


def _check_used(flow: Flow) -> None:
    used = {read.state for state in flow.states for read in state.reads} | {flow.output.state}
    for index, state in enumerate(flow.states[1:], 1):
        if index not in used and not isinstance(state.operation, Exit):
            message = f"the result of {_called(state)} is thrown away: nothing reads it before `load` replaces it"
            place = state.operation.span if state.operation else None
            help = "save it and read it later, or delete what computes it"
            raise Fault("unused-result", message, place or NO_SPAN, help)


def _called(state: State) -> str:
    if isinstance(state.operation, Execution):
        return f"layer {state.operation.layer}"
    return f"this `{KINDS[type(state.operation)]}`"
