"""What one iteration of a loop hands on to the next: registers, and the hidden state."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from depthgraph.syntax import (
    Access,
    Arithmetic,
    Call,
    Comprehension,
    Definition,
    Drop,
    Element,
    Fill,
    Integer,
    Join,
    Layer,
    Name,
    Repeat,
    Reverse,
    Sequence,
    children,
)


def carried_by(body: Element, defined: Mapping[str, Definition]) -> tuple[list[str], bool]:
    """Return the registers that an iteration hands on to the next one, and whether it hands on h.

    A register is handed on if the body reads it before it saves it, and saves it where the next iteration sees it. h
    is not, if the first thing that a body does is `load`: what would be detached is thrown away.
    """
    reading = _Reading(defined)
    reading.walk(body, reading.saved)
    return [name for name in reading.read_first if name in reading.saved], reading.starts_from_h is not False


@dataclass
class _Reading:
    """What a body does with registers, in the order of the text.

    Attributes:
        defined: what `where` defines.
        saved: the registers saved so far, outside branches.
        read_first: those that were read before they were saved.
        starts_from_h: whether the first operation uses h; None while there was none.
    """

    defined: Mapping[str, Definition]
    saved: set[str] = field(default_factory=set)
    read_first: dict[str, None] = field(default_factory=dict)
    starts_from_h: bool | None = None

    def walk(self, node: Element | Definition, saved: set[str]) -> None:
        match node:
            case Access("save", register):
                saved.add(register)
            case Access(_, register) if register not in saved:
                self.read_first[register] = None
            case Layer(Name(text)) | Call(text) if text in self.defined:
                self.walk(self.defined[text], saved)
                return
            case Join(_, branches):
                for branch in branches:
                    self.walk(branch, set(saved))
            case Sequence() | Definition() | Repeat() | Reverse() | Comprehension():
                for child in children(node):
                    if not isinstance(child, Integer | Name | Arithmetic):
                        self.walk(child, saved)
                return
            case Drop() | Fill():
                return
        if self.starts_from_h is None:
            self.starts_from_h = not (isinstance(node, Access) and node.word == "load")
