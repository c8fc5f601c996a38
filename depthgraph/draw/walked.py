"""What a folded picture consists of: the lines of a walk, the places of data flow in it, and their labels."""

from dataclasses import dataclass

from depthgraph.draw.words import register_name

#: step numbers that are written out on one edge; longer lists are abbreviated.
WRITTEN_OUT = 4


@dataclass(frozen=True, slots=True)
class Hop:
    """A line of the walk, from one node to another, with the steps that take it."""

    tail: int
    head: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Back:
    """The way back of a loop, from its last node to its first, with the steps that it repeats.

    Attributes:
        load: the register that the next iteration starts from; None where it starts from h.
    """

    tail: int
    head: int
    count: int
    steps: tuple[int, int]
    load: str | None = None


@dataclass(frozen=True, slots=True)
class Wire:
    """A state that is read through registers."""

    tail: int
    head: int
    registers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outlet:
    """A state that is given out by exits.

    Attributes:
        register: through which they read it; None for h.
    """

    tail: int
    indices: tuple[int, ...]
    register: str | None = None

    @property
    def label(self) -> str:
        """What a picture writes at its end."""
        load = f" load({register_name(self.register)})" if self.register else ""
        return f"exit {step_list(self.indices)}{load}"


@dataclass(frozen=True, slots=True)
class Place:
    """An operation of data flow, or a fork, which gives one state to several branches.

    Attributes:
        name: the id of its node, that of its first state in `Flow`; `fork.1` …
        label: what a picture writes on it; nothing on a fork.
    """

    number: int
    name: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """Branches in the walk: their fork, the nodes of each, and the join; `plain` if they run nothing but layers."""

    fork: int
    branches: tuple[tuple[int, ...], ...]
    join: int
    plain: bool


@dataclass(frozen=True, slots=True)
class Folded:
    """A route with every loop walked once.

    Attributes:
        order: the layers and places in the order of the walk.
    """

    hops: tuple[Hop, ...]
    backs: tuple[Back, ...]
    wires: tuple[Wire, ...] = ()
    outlets: tuple[Outlet, ...] = ()
    places: tuple[Place, ...] = ()
    splits: tuple[Split, ...] = ()
    order: tuple[int, ...] = ()

    def back_label(self, back: Back) -> str:
        """Return `×k`, with the steps where another loop goes back between the same two nodes."""
        ends = [(other.tail, other.head) for other in self.backs]
        first, last = back.steps
        label = f"×{back.count}" + (f" load({register_name(back.load)})" if back.load else "")
        if ends.count((back.tail, back.head)) == 1:
            return label
        return f"{label} (step {first})" if first == last else f"{label} (steps {first}–{last})"


def step_list(steps: tuple[int, ...]) -> str:
    """Return step numbers as an edge shows them.

    Examples:
        >>> step_list((1, 3)), step_list((2, 5, 8, 11, 14)), step_list((1, 2, 5, 9, 14))
        ('1, 3', '2, 5 … 14', '1, 2 … 14 (5 steps)')
    """
    if len(steps) <= WRITTEN_OUT:
        return ", ".join(map(str, steps))
    first, second, last = steps[0], steps[1], steps[-1]
    even = steps == tuple(range(first, last + 1, second - first))
    return f"{first}, {second} … {last}" + ("" if even else f" ({len(steps)} steps)")
