"""What pictures write on operations of data flow."""

from depthgraph.draw.labels import clipped
from depthgraph.flow import KINDS, Computing
from depthgraph.operations import Add, Exit, Gate, Mix

#: longer names of registers are clipped.
LONGEST_REGISTER = 16


def register_name(name: str) -> str:
    """Return a register's name as pictures write it."""
    return clipped(name, LONGEST_REGISTER)


def label_of(operation: Computing) -> str:
    """Return what a picture writes on an operation of data flow: the words of the language.

    Examples:
        >>> from depthgraph.operations import StopGradient
        >>> label_of(Mix("e", 1)), label_of(StopGradient()), label_of(Exit(2))
        ('mix(e)', 'stopgrad', 'exit 2')
    """
    match operation:
        case Add(register) | Mix(register, _) | Gate(register, _):
            return f"{KINDS[type(operation)]}({register_name(register)})"
        case Exit(index):
            return f"exit {index}"
        case _:
            return KINDS[type(operation)]
