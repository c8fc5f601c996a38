"""Routes: the executions of a model's layers in order, and what can be measured on them."""

import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, total_ordering
from itertools import chain, repeat
from typing import Any, NamedTuple

from depthgraph.source import Span


class Iteration(NamedTuple):
    """One run of a loop.

    Attributes:
        loop: which loop of the route, numbered from 1 in the order in which they are entered; a loop inside
            another one is entered anew in every iteration of it.
        number: which iteration, from 1.
        count: how many iterations the loop has.
    """

    loop: int
    number: int
    count: int  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of one layer.

    Its identity is (layer, visit): that pair is the same under every route over the same layers, and addresses
    all that belongs to a run and not to a layer.

    Attributes:
        position: 1 … E.
        layer: 1 … N.
        visit: 1st, 2nd … run of that layer.
        iterations: the iteration of every loop around it, outermost first; no part of equality.
        span: where the spec names it; no part of equality.
    """

    position: int
    layer: int
    visit: int
    iterations: tuple[Iteration, ...] = field(default=(), compare=False)
    span: Span | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The name of its node in graphs and generated code, `L2.1` for layer 2, first visit."""
        return f"L{self.layer}.{self.visit}"


#: As many layers as a path by program may have.
MOST_LAYERS = 1_000_000

#: What a route consists of. The data-flow operations join this union.
Operation = Execution


@total_ordering
@dataclass(frozen=True, repr=False)
class Route:
    """The whole ordered program over N layers.

    Two routes are equal when they have the same N and the same operations in the same order, however they were
    written. `str(route)` is the canonical text, and routes are ordered by it.

    Attributes:
        parameter_depth: N, the number of layers of the model.
        operations: the executions in order.
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
    def of(
        cls,
        path: Iterable[int],
        parameter_depth: int | None = None,
        iterations: Iterable[tuple[Iteration, ...]] = (),
        spans: Iterable[Span | None] = (),
    ) -> "Route":
        """Build a route from the layers in the order in which they run.

        Layers of 1 … N that the path does not have are dropped: a caller who lists a path by program has said
        what runs. (A spec has to say `drop` itself.)

        Args:
            path: layer numbers, from 1.
            parameter_depth: N; the highest layer of the path by default.
            iterations: the loops around each execution, if known.
            spans: where each execution is named in a spec, if known.

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
        route = object.__new__(cls)  # without the checks of __post_init__, which hold by construction
        route.__dict__.update(
            parameter_depth=depth, operations=tuple(_executions(path, iterations, spans)), dropped=dropped
        )
        return route

    def __post_init__(self) -> None:
        """Refuse what no spec could mean, so that every route has a canonical text.

        Raises:
            ValueError: positions or visits are not numbered from 1 in order, or a layer is neither run nor dropped.
        """
        seen: dict[int, int] = {}
        for position, each in enumerate(self.operations, 1):
            seen[each.layer] = visit = seen.get(each.layer, 0) + 1
            if each.position != position or each.visit != visit:
                raise ValueError(f"execution {position} is visit {visit} of layer {each.layer}; found {each}")
        every = tuple(sorted([*seen, *self.dropped]))
        if not seen or every != tuple(range(1, self.parameter_depth + 1)):
            raise ValueError(f"every layer of 1..{self.parameter_depth} is run or dropped; these are: {every[:20]}")

    @property
    def executions(self) -> tuple[Execution, ...]:
        """The executions in order."""
        return self.operations

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
        return all(isinstance(operation, Execution) for operation in self.operations)

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


def _executions(
    path: tuple[int, ...],
    iterations: Iterable[tuple[Iteration, ...]],
    spans: Iterable[Span | None],
) -> Iterator[Execution]:
    visits = dict.fromkeys(path, 0)
    around, places = chain(iterations, repeat(())), chain(spans, repeat(None))
    for position, (layer, loops, place) in enumerate(zip(path, around, places, strict=False), 1):
        visits[layer] = visit = visits[layer] + 1
        yield Execution(position, layer, visit, loops, place)


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
