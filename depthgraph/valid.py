"""What the operations of every route must keep, also of one that is built by program."""

from depthgraph.errors import shown
from depthgraph.operations import DataFlow, Execution, Exit, Gate, Join, Mix, Operation, Reading, Save, walk
from depthgraph.words import LONGEST_NAME, is_name

#: How deep branches may be nested.
MOST_NESTED = 64


def check_operations(operations: tuple[Operation, ...]) -> dict[int, int]:
    """Check operations and what they are numbered with.

    Returns:
        How often each layer runs.

    Raises:
        ValueError: positions, visits, sites or exits are not numbered from 1 in order; a join has one branch; a
            register has no name; something is no operation.
    """
    _check_nesting(operations)
    return _check_numbers(operations)


def _check_nesting(operations: tuple[Operation, ...]) -> None:
    level, depth = list(operations), 0
    while joins := [each for each in level if isinstance(each, Join)]:
        depth += 1
        if depth > MOST_NESTED:
            raise ValueError(f"branches are nested more than {MOST_NESTED} deep")
        if any(len(join.branches) < 2 for join in joins):
            raise ValueError("a join has at least two branches")
        level = [each for join in joins for branch in join.branches for each in branch]


def _check_numbers(operations: tuple[Operation, ...]) -> dict[int, int]:
    """Check that everything is numbered from 1 in order, and return the visits of each layer."""
    position = exits = 0
    seen: dict[int, int] = {}
    sites = {Mix: 0, Gate: 0}
    for each in walk(operations):
        match each:
            case Execution():
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
                if not 1 <= site <= known + 1:
                    raise ValueError(f"the next new site is {known + 1}; found {each}")
                sites[type(each)] = max(known, site)
            case _ if not isinstance(each, DataFlow):
                raise ValueError(f"a {type(each).__name__} stands where an operation is needed")
            case _:
                pass
        if isinstance(each, Save | Reading):
            _check_register(each.register)
    return seen


def _check_register(name: object) -> None:
    if not is_name(name):
        raise ValueError(f"a register's name is of up to {LONGEST_NAME} letters, digits and _; found {shown(name)}")
