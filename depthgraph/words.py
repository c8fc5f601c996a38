"""The words of the language, and what may be a name in it."""

import re

LONGEST_NAME = 64

#: The words of data flow: those with a register, those of them with weights of their own, joins, and the rest.
REGISTER_WORDS = frozenset({"save", "load", "add", "mix", "gate"})
WEIGHTED_WORDS = frozenset({"mix", "gate"})
JOIN_WORDS = frozenset({"mean", "sum"})
MARK_WORDS = frozenset({"stopgrad", "exit"})
DATA_FLOW = REGISTER_WORDS | JOIN_WORDS | MARK_WORDS

#: Words that no name can be.
RESERVED = DATA_FLOW | {"for", "in", "where", "rev", "block", "ilr", "drop", "x", "N"}


def is_name(value: object) -> bool:
    """Whether something can be a name: of an integer, a sequence, a scheme, a register or shared weights.

    Examples:
        >>> [is_name(text) for text in ("core", "_a1", "L2", "x2", "save", "N", "")]
        [True, True, False, False, False, False, False]
    """
    valid = isinstance(value, str) and re.fullmatch(r"(?![Lx][0-9])[A-Za-z_][A-Za-z0-9_]*", value)
    return bool(valid) and value not in RESERVED and len(str(value)) <= LONGEST_NAME
