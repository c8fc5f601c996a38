"""The names of a spec: which it uses, which are free, and what was probably meant by an unknown one."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

from depthgraph.errors import SpecError
from depthgraph.schemes import library
from depthgraph.source import Source, Span
from depthgraph.syntax import (
    Access,
    Call,
    Comprehension,
    Definition,
    Element,
    Expression,
    Name,
    RouteSpec,
    Sequence,
    check_depth,
    children,
)
from depthgraph.words import JOIN_WORDS, MARK_WORDS, REGISTER_WORDS

FORMS = ("rev", "block", "ilr", "drop")
NO_SOURCE = Source("<tree>")


@dataclass(frozen=True, slots=True)
class Body:
    """What one body of a spec has: the spec's own, or that of a definition.

    Attributes:
        definition: whose body it is; None for the spec's own.
        nodes: all that is written in it, in the order of the text, but for names that are bound in it.
        uses: the names and calls among them.
    """

    definition: Definition | None
    nodes: tuple["Walked", ...]
    uses: tuple[Name | Call, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of its definition."""
        return self.definition.parameters if self.definition else ()


class Uses:
    """The names of a spec, from one walk through it."""

    def __init__(self, spec: RouteSpec) -> None:
        self.spec = spec
        self.defined = {item.name: item for item in spec.definitions}
        self.bodies = (_body(spec.body), *(_body(item.body, item) for item in spec.definitions))

    @property
    def unbound(self) -> Iterator[Name]:
        """The uses of names that the caller has to bind."""
        for body in self.bodies:
            yield from (use for use in body.uses if isinstance(use, Name) and use.text not in self.defined)

    @property
    def free(self) -> tuple[str, ...]:
        """The names that the caller has to bind, each once, in the order of the text."""
        return tuple(dict.fromkeys(name.text for name in self.unbound))

    @property
    def registers(self) -> frozenset[str]:
        """The registers that the spec writes itself."""
        return frozenset(access.register for access in self.accesses)

    @property
    def accesses(self) -> Iterator[Access]:
        """The operations with registers that the spec writes itself."""
        return (node for body in self.bodies for node in body.nodes if isinstance(node, Access))


def _body(body: Sequence, definition: Definition | None = None) -> Body:
    nodes = _walk(body, frozenset(definition.parameters if definition else ()))
    return Body(definition, nodes, tuple(node for node in nodes if isinstance(node, Name | Call)))


def free_names(spec: RouteSpec) -> tuple[str, ...]:
    """Return the names that the caller has to bind, in the order of the text."""
    return Uses(spec).free


def check_names(uses: Uses, bound: Iterable[str]) -> None:
    """Refuse names without a meaning, before anything is evaluated.

    Raises:
        SpecError: an unknown scheme, a definition that is not used or uses itself, names that are not bound.
    """
    _check_shadows(uses)
    _check_calls(uses)
    _check_weights(uses)
    bound = set(bound)
    missing = [name for name in uses.unbound if name.text not in bound]
    if missing:
        raise _missing(missing, uses)
    _check_definitions(uses)


def _check_definitions(uses: Uses) -> None:
    spec, defined = uses.spec, uses.defined
    own, *others = (_definitions_used(body, defined) for body in uses.bodies)
    used = dict(zip(defined, others, strict=True))
    reached: dict[str, None] = {}
    _reach(own, used, reached)
    for name, item in defined.items():
        if name not in reached:
            help = "use it in the spec, or delete it"
            raise SpecError("unused-name", f"`{name}` is defined and never used", spec.source, item.span, help=help)
    try:
        TopologicalSorter(used).prepare()
    except CycleError as error:
        name = error.args[1][0]
        message, help = f"`{name}` is defined by itself", "repeat with `x` instead"
        raise SpecError("recursive-definition", message, spec.source, defined[name].span, help=help) from None


def _definitions_used(body: Body, defined: Mapping[str, object]) -> list[str]:
    names = [use.text if isinstance(use, Name) else use.name for use in body.uses]
    return [name for name in names if name in defined]


def _reach(names: Iterable[str], uses: Mapping[str, list[str]], reached: dict[str, None]) -> None:
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in reached:
            reached[name] = None
            todo += uses[name]


def _check_calls(uses: Uses) -> None:
    for use in (use for body in uses.bodies for use in body.uses):
        if isinstance(use, Call) and use.name not in uses.defined and use.name not in library():
            span = Span(use.span.start, use.span.start + len(use.name))
            known = [*uses.defined, *library(), *FORMS, *sorted(REGISTER_WORDS | JOIN_WORDS)]
            message = f"there is no scheme `{use.name}`"
            raise SpecError("unknown-name", message, uses.spec.source, span, help=_meant(use.name, known))


def _check_weights(uses: Uses) -> None:
    """Refuse one name for the matrix of a `mix` and the vector of a `gate`: it would look like sharing, and be none."""
    words: dict[str, str] = {}
    for node in uses.accesses:
        if node.weights and words.setdefault(node.weights, node.word) != node.word:
            message = f"`{node.weights}` names the weights of a `mix` and of a `gate`, which cannot share them"
            help = "give one of them another name"
            raise SpecError("duplicate-name", message, uses.spec.source, node.span, help=help)


def _check_shadows(uses: Uses) -> None:
    """Refuse an index or a parameter with the name of something that it would hide."""
    spec, free = uses.spec, set(uses.free)
    for item in spec.definitions:
        for parameter in item.parameters:
            if parameter in uses.defined:
                message = f"the parameter `{parameter}` of `{item.name}` hides another `{parameter}`"
                help = "give the parameter a name of its own"
                raise SpecError("duplicate-name", message, spec.source, item.span, help=help)
    for body in uses.bodies:
        for node in body.nodes:
            if isinstance(node, Comprehension):
                inner = [each.index for each in _walk(node.body) if isinstance(each, Comprehension)]
                if node.index in {*uses.defined, *body.parameters, *inner, *free}:
                    message = f"the index `{node.index}` hides another `{node.index}`"
                    help = "give the index a name of its own"
                    raise SpecError("duplicate-name", message, spec.source, node.span, help=help)


def _missing(missing: list[Name], uses: Uses) -> SpecError:
    spec, defined = uses.spec, uses.defined
    names = list(dict.fromkeys(name.text for name in missing))
    listed = ", ".join(f"`{name}`" for name in names)
    message = f"{listed} {'is' if len(names) == 1 else 'are'} not bound"
    help = f"bind {'it' if len(names) == 1 else 'them'}: {' '.join(f'{name}=…' for name in names)}"
    scheme = library().get(names[0])
    meant = _meant(names[0], [*defined, *library(), *sorted(MARK_WORDS)])
    if scheme is not None:
        help = f"`{names[0]}` is a scheme: write {scheme.signature}, for example `{scheme.example}`"
    elif run_together := _run_together(names[0], [*defined, "N", *MARK_WORDS]):
        before, count = run_together
        help = f"for a count write `{before} x {count}`; or {help}".replace("` x", "`x")
    elif meant and names[0] != "N":
        help = f"{meant} Or {help}"
    elif re.fullmatch(r"l[0-9]+", names[0]):
        help = f"did you mean layer `{names[0].upper()}`? Or {help}"
    return SpecError("missing-binding", message, spec.source, missing[0].span, help=help)


def _run_together(name: str, known: Iterable[str]) -> tuple[str, str] | None:
    """Return what is repeated and the count, where a name looks like both in one word."""
    found = re.fullmatch(r"(\w*)x(\w+)", name)
    if found and (found[1] in ("", *known) or found[2].isdigit()):
        return found[1], found[2]
    return None


def unknown_binding(name: str, spec: RouteSpec) -> SpecError:
    """Return the error for a binding of a name that the spec does not have."""
    known = [*free_names(spec), *(item.name for item in spec.definitions), "N"]
    message = f"this spec has no name `{name}` to bind"
    listed = ", ".join(f"`{each}`" for each in dict.fromkeys(known))
    help = _meant(name, known) or f"its names are {listed}"
    if f"x{name}" in known:
        help = f"`x{name}` is one name there: a count is written `x {name}`"
    return SpecError("unknown-binding", message, spec.source, spec.body.span, help=help)


def _meant(name: str, known: Iterable[str]) -> str:
    folded = {each.casefold(): each for each in known}
    close = get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.55)
    return f"did you mean `{folded[close[0]]}`?" if close else ""


Walked = Element | Expression


def _walk(root: Walked, local: frozenset[str] = frozenset()) -> tuple[Walked, ...]:
    """Return a node and all below it; names that are in `local`, or indexes around them, are left out."""
    found: list[Walked] = []
    todo: list[tuple[Walked, frozenset[str], int]] = [(root, local, 0)]
    while todo:
        node, local, depth = todo.pop()
        check_depth(depth, node, NO_SOURCE)
        if not (isinstance(node, Name) and node.text in local):
            found.append(node)
        if isinstance(node, Comprehension):
            todo += [(node.values, local, depth + 1), (node.body, local | {node.index}, depth + 1)]
        else:
            todo += [(child, local, depth + 1) for child in reversed(children(node))]
    return tuple(found)
