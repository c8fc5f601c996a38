"""What the operations of every route must keep, also of one that is built by program."""

from depthgraph.errors import shown
from depthgraph.operations import (
    Execution,
    Exit,
    Gate,
    Mix,
    Operation,
    Reading,
    Save,
    check_nesting,
    walk,
)
from depthgraph.words import LONGEST_NAME, is_name


def check_operations(operations: tuple[Operation, ...]) -> dict[int, int]:
    """Check operations and what they are numbered with.

    Returns:
        How often each layer runs.

    Raises:
        ValueError: positions, visits, sites or exits are not numbered from 1 in order; joins are as `check_nesting`
            refuses them; a register has no name; something is no operation.
    """
    if not isinstance(operations, tuple):
        raise ValueError(f"the operations of a route are a tuple; found a {type(operations).__name__}")
    check_nesting(operations)
    return _check_numbers(operations)


def _check_numbers(operations: tuple[Operation, ...]) -> dict[int, int]:
    """Check that everything is numbered from 1 in order, and return the visits of each layer."""
    position = exits = 0
    seen: dict[int, int] = {}
    sites = {Mix: 0, Gate: 0}
    for each in walk(operations):
        match each:
            case Execution():
                if type(each.layer) is not int:
                    raise ValueError(f"layers are integers from 1; found a {type(each.layer).__name__}")
                position += 1
                seen[each.layer] = visit = seen.get(each.layer, 0) + 1
                if each.position != position or each.visit != visit:
                    raise ValueError(f"execution {position} is visit {visit} of layer {each.layer}; found {each}")
            case Exit(index):
                exits += 1
                if index != exits:
                    raise ValueError(f"exit {exits} has index {index}")
            case Mix(_, site) | Gate(_, site):
                known = sites[type(each)]
                if type(site) is not int or not 1 <= site <= known + 1:
                    raise ValueError(f"the next new site is {known + 1}; found {each}")
                sites[type(each)] = max(known, site)
            case _ if not isinstance(each, Operation):
                raise ValueError(f"a {type(each).__name__} stands where an operation is needed")
            case _:
                pass
        if isinstance(each, Save | Reading):
            _check_register(each.register)
    return seen


def _check_register(name: object) -> None:
    if not is_name(name):
        raise ValueError(f"a register's name is of up to {LONGEST_NAME} letters, digits and _; found {shown(name)}")
