"""Routes: the executions of a model's layers in order, and what can be measured on them."""

import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, total_ordering
from typing import Any

from depthgraph.errors import Fault
from depthgraph.flow import Flow, trace
from depthgraph.operations import (
    DataFlow,
    Execution,
    Exit,
    Operation,
    executions_of,
    numbered,
    walk,
)
from depthgraph.valid import check_operations

#: As many layers as a path by program may have.
MOST_LAYERS = 1_000_000


@total_ordering
@dataclass(frozen=True, repr=False)
class Route:
    """The whole ordered program over N layers.

    Two routes are equal when they have the same N and the same operations in the same order, however they were
    written. `str(route)` is the canonical text, and routes are ordered by it.

    Attributes:
        parameter_depth: N, the number of layers of the model.
        operations: the executions in order, and the operations of data flow between them.
        dropped: the layers that the route leaves out on purpose, ascending.

    Examples:
        >>> import depthgraph as dg
        >>> route = dg.route("lft(5)")
        >>> route.path
        (1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5)
        >>> route.execution_depth, route.multiplier, route.reuse_map
        (11, 2.2, (2, 3, 3, 2, 1))
        >>> route == dg.route("1 2 1 2 3 2 3 4 3 4 5")
        True
    """

    parameter_depth: int
    operations: tuple[Operation, ...]
    dropped: tuple[int, ...] = ()

    @classmethod
    def of(cls, path: Iterable[int], parameter_depth: int | None = None) -> "Route":
        """Build a route from the layers in the order in which they run.

        Layers of 1 … N that the path does not have are dropped: a caller who lists a path by program has said
        what runs. (A spec has to say `drop` itself.)

        Args:
            path: layer numbers, from 1.
            parameter_depth: N; the highest layer of the path by default.

        Raises:
            ValueError: the path is empty, or has something that is no integer of 1 … N; or N is over 1,000,000.
        """
        path = tuple(path)
        if set(map(type, path)) != {int}:
            path = tuple(map(_layer, path))
        depth = max(path, default=0) if parameter_depth is None else _layer(parameter_depth)
        if depth > MOST_LAYERS:
            raise ValueError(f"a model of {depth:,} layers is over the limit of {MOST_LAYERS:,}")
        wrong = next((layer for layer in path if not 1 <= layer <= depth), None)
        if wrong is not None or not path:
            found = "nothing" if wrong is None else f"layer {wrong}"
            raise ValueError(f"a path runs layers of 1..{depth}, at least one; this one has {found}")
        dropped = tuple(sorted(set(range(1, depth + 1)).difference(path)))
        return assembled(tuple(_executions(path)), depth, dropped)

    @classmethod
    def of_operations(
        cls, operations: Iterable[Operation], parameter_depth: int | None = None, dropped: Iterable[int] | None = None
    ) -> "Route":
        """Build a route from operations, whose positions, visits, sites and exits are numbered anew.

        Args:
            operations: executions and data flow, in the order of the text.
            parameter_depth: N; the highest layer that runs by default.
            dropped: the layers that are left out on purpose; by default, all that do not run.

        Raises:
            ValueError: as for `Route(…)`.

        Examples:
            >>> from depthgraph.operations import Add, Execution, Save
            >>> print(Route.of_operations([Save("e"), Execution(1, 1, 1), Add("e"), Execution(1, 1, 1)]))
            save(e) 1 add(e) 1
        """
        renumbered = numbered(operations)
        run = {execution.layer for execution in executions_of(renumbered)}
        depth = max(run, default=0) if parameter_depth is None else _layer(parameter_depth)
        left = set(range(1, min(depth, MOST_LAYERS) + 1)).difference(run) if dropped is None else dropped
        return cls(depth, renumbered, tuple(sorted(left)))

    def __post_init__(self) -> None:
        """Refuse what no spec could mean, so that every route has a canonical text.

        Raises:
            ValueError: something is not numbered from 1 in order; a layer is neither run nor dropped; a register is
                read before it is saved, or never; a result is thrown away; a branch runs nothing.
        """
        seen = check_operations(self.operations)
        every = tuple(sorted([*seen, *self.dropped]))
        if not seen or every != tuple(range(1, self.parameter_depth + 1)):
            raise ValueError(f"every layer of 1..{self.parameter_depth} is run or dropped; these are: {every[:20]}")
        try:
            _ = self.flow
        except Fault as fault:
            raise ValueError(f"{fault.message}; {fault.help}") from None

    @cached_property
    def flow(self) -> Flow:
        """The hidden states that the operations compute, each with those that it is computed from."""
        return trace(self.operations)

    @cached_property
    def executions(self) -> tuple[Execution, ...]:
        """The executions in order, those in branches too."""
        return executions_of(self.operations)

    @cached_property
    def data_flow(self) -> tuple[DataFlow, ...]:
        """The operations that are no executions, in the order of the text; a join stands behind its branches."""
        if self.executions is self.operations:
            return ()
        return tuple(each for each in walk(self.operations) if not isinstance(each, Execution))

    @property
    def exits(self) -> tuple[Exit, ...]:
        """The early exits, in order."""
        return tuple(each for each in self.data_flow if isinstance(each, Exit))

    @cached_property
    def path(self) -> tuple[int, ...]:
        """The layers in the order of execution."""
        return tuple(execution.layer for execution in self.executions)

    @property
    def execution_depth(self) -> int:
        """E, the number of executions."""
        return len(self.path)

    @property
    def multiplier(self) -> float:
        """E / N."""
        return self.execution_depth / self.parameter_depth

    @cached_property
    def reuse_map(self) -> tuple[int, ...]:
        """Executions per layer, for layers 1 … N (arXiv 2505.01855)."""
        visits = Counter(self.path)
        return tuple(visits[layer] for layer in range(1, self.parameter_depth + 1))

    @property
    def is_chain(self) -> bool:
        """Whether each operation feeds the next one and nothing else."""
        return not self.data_flow

    @cached_property
    def text(self) -> str:
        """The canonical text: equal routes have the same one, and parsing it gives an equal route."""
        from depthgraph.canonical import canonical_text

        return canonical_text(self)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 100 else self.text[:100] + "…"
        return f"Route({text!r}, N={self.parameter_depth}, E={self.execution_depth})"

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Route):
            return NotImplemented
        return self.text < other.text

    def __getstate__(self) -> dict[str, object]:
        """Leave the cached measures out of pickles."""
        return {name: self.__dict__[name] for name in ("parameter_depth", "operations", "dropped")}

    def _repr_svg_(self) -> str:
        from depthgraph.draw.staircase import staircase_svg

        return staircase_svg(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Let a pydantic model have a field of this type: the text in, the text out."""
        from depthgraph.config import route_schema

        return route_schema()


def as_integer(value: object) -> int | None:
    """Return an integer of any library (numpy, torch …) as Python's own; None for what is none, or is huge."""
    if type(value) is int:
        return value if -(10**9) < value < 10**9 else None
    if isinstance(value, bool):
        return None
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # no integer, or an array of some
        return None
    return number if -(10**9) < number < 10**9 else None


def _layer(value: object) -> int:
    layer = as_integer(value)
    if layer is None:
        raise ValueError(f"layers are integers from 1; found a {type(value).__name__}")
    return layer


def _executions(path: tuple[int, ...]) -> Iterator[Execution]:
    visits = dict.fromkeys(path, 0)
    for position, layer in enumerate(path, 1):
        visits[layer] = visit = visits[layer] + 1
        yield Execution(position, layer, visit)


def assembled(operations: tuple[Operation, ...], parameter_depth: int, dropped: tuple[int, ...]) -> Route:
    """Return a route whose numbers and layers are right by construction; its data flow is still checked.

    Raises:
        Fault: as `depthgraph.flow.trace`.
    """
    route = object.__new__(Route)
    route.__dict__.update(parameter_depth=parameter_depth, operations=operations, dropped=dropped)
    if route.data_flow:
        _ = route.flow
    return route


def ranges(layers: Iterable[int]) -> list[str]:
    """Return ascending layers as the ranges that they form.

    Examples:
        >>> ranges([1, 2, 3, 5])
        ['1..3', '5']
    """
    found: list[list[int]] = []
    for layer in layers:
        if found and found[-1][1] == layer - 1:
            found[-1][1] = layer
        else:
            found.append([layer, layer])
    return [str(first) if first == last else f"{first}..{last}" for first, last in found]
