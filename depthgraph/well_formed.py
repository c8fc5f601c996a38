"""What every syntax tree must keep, also one that is built by program: then it has a text form, and a bounded size."""

from depthgraph.errors import SpecError
from depthgraph.source import Source
from depthgraph.syntax import (
    DEEPEST,
    TOO_DEEP_HELP,
    Access,
    Arithmetic,
    Call,
    Comprehension,
    Definition,
    Integer,
    Join,
    Mark,
    Name,
    Node,
    RouteSpec,
    children,
)
from depthgraph.words import JOIN_WORDS, LONGEST_NAME, MARK_WORDS, REGISTER_WORDS, WEIGHTED_WORDS, is_name

DIGITS = 9

#: A tree has at most as many nodes as the longest spec has characters.
MOST_NODES = 65_536

SUM, PRODUCT = frozenset("+-"), frozenset({"*", "//"})


def check_tree(spec: RouteSpec) -> None:
    """Refuse what the parser would never make.

    Raises:
        SpecError: `syntax` for something that has no text form, `too-deep`, or `spec-too-long` for more nodes
            than the longest spec has characters (a tree whose parts are shared counts each use).
    """
    todo: list[tuple[object, int]] = [(spec.body, 0), *((item, 0) for item in spec.definitions)]
    seen = 0
    while todo:
        node, depth = todo.pop()
        seen += 1
        if seen > MOST_NODES:
            raise _refused("spec-too-long", f"this tree has more than {MOST_NODES:,} nodes", node)
        if depth > DEEPEST:
            raise _refused("too-deep", "this spec is nested too deep", node, TOO_DEEP_HELP)
        if not isinstance(node, Node):
            raise _refused("syntax", f"a {type(node).__name__} stands where a node of the syntax tree is needed", node)
        todo += [(child, depth + 1) for child in _parts(node)]
        fault = _fault(node)
        if fault:
            raise _refused("syntax", fault, node)


def _refused(code: str, message: str, node: object, help: str = "") -> SpecError:
    place = node.span if isinstance(node, Node) else Node().span
    return SpecError(code, message, Source("<tree>"), place, help=help)


def _fault(node: Node) -> str:
    """Say what is wrong with one node, if anything is."""
    match node:
        case Integer(value) if type(value) is not int or not 0 <= value < 10**DIGITS:
            return f"an integer is written with up to {DIGITS} digits and no sign"
        case Arithmetic(_, rest):
            signs = {sign for sign, _ in rest}
            return "" if signs and (signs <= SUM or signs <= PRODUCT) else "an operation joins + and -, or * and //"
        case Name(text):
            return "" if text == "N" else _name_fault(text)
        case Call(name, _) | Comprehension(_, name, _):
            return _name_fault(name)
        case Access(word, register, weights):
            if word not in (REGISTER_WORDS if weights is None else WEIGHTED_WORDS):
                return f"{word!r} is no operation on a register{'' if weights is None else ' with weights'}"
            return next(filter(None, map(_name_fault, (register, *([weights] if weights else [])))), "")
        case Join(word, branches):
            return (
                "" if word in JOIN_WORDS and len(branches) > 1 else "a join is `mean` or `sum` of two branches or more"
            )
        case Mark(word):
            return "" if word in MARK_WORDS else f"{word!r} is neither `stopgrad` nor `exit`"
        case Definition(name, parameters, _):
            return next(filter(None, map(_name_fault, (name, *parameters))), "")
        case _:
            return ""


def _name_fault(name: object) -> str:
    return "" if is_name(name) else f"{str(name)[:LONGEST_NAME]!r} cannot be a name"


def _parts(node: Node) -> tuple[object, ...]:
    try:
        return tuple(children(node))  # type: ignore[arg-type]
    except (AssertionError, TypeError, ValueError):
        raise _refused("syntax", f"a {type(node).__name__} is not made of what it says", node) from None
