"""Syntax tree and bindings → route, within bounds.

Two steps: `evaluate` turns the tree into a term, whose size is known by arithmetic, and the term is written out
only when it is within the limits and every layer of it exists.
"""

from collections.abc import Mapping

from depthgraph.errors import Fault, SpecError
from depthgraph.evaluate import Evaluation
from depthgraph.listing import operations_of
from depthgraph.names import Uses, check_names, free_names
from depthgraph.operations import executions_of
from depthgraph.parser import DEFAULT_LIMITS, Limits, parse
from depthgraph.route import Route, assembled, ranges
from depthgraph.scope import read_bindings
from depthgraph.source import Source
from depthgraph.syntax import RouteSpec
from depthgraph.terms import Run, close_gaps, has_flow, merged
from depthgraph.well_formed import check_tree

__all__ = ["expand", "free_names", "route_from_text"]


def route_from_text(
    text: str | Source,
    bindings: Mapping[str, int] | None = None,
    /,
    *,
    limits: Limits = DEFAULT_LIMITS,
    **names: int,
) -> Route:
    """Parse a spec and expand it: `dg.route`.

    Args:
        text: the spec.
        bindings: values of its names, `N` among them.
        limits: what is refused at once. (A name `limits` of a spec is bound by `bindings`.)
        names: more bindings, as keywords.

    Raises:
        SpecError: the spec or a binding means no route; the error has the place and what to do.

    Examples:
        >>> route_from_text("block(2..4)x2", N=5).path
        (1, 2, 3, 4, 2, 3, 4, 5)
    """
    if not isinstance(limits, Limits):
        raise TypeError("limits is a dg.Limits; bind a name `limits` by the mapping: dg.route(text, {'limits': 3})")
    spec = parse(text, limits)
    twice = sorted(set(bindings or {}) & set(names))
    if twice:
        message = f"`{twice[0]}` is bound twice, by the mapping and by a keyword"
        raise SpecError("bad-binding", message, spec.source, spec.body.span, help="bind it once")
    return expand(spec, {**(bindings or {}), **names}, limits)


def expand(spec: RouteSpec, bindings: Mapping[str, int], limits: Limits = DEFAULT_LIMITS) -> Route:
    """Bind a spec's names and return its route.

    Args:
        spec: a parsed spec, or a tree built by program.
        bindings: values of its names; `N`, the parameter depth, is the highest layer that the spec names
            where it is not given.
        limits: what is refused at once.

    Raises:
        SpecError: as `route_from_text`.
    """
    check_tree(spec)
    if not spec.source.text:
        # places matter: they are what tells the weights of one `mix` from those of another
        spec = parse(Source(str(spec), "<tree>"), limits)
    uses = Uses(spec)
    bound = read_bindings(uses, bindings, limits)
    check_names(uses, bound)
    evaluation = Evaluation(uses, bound, limits)
    written = evaluation.term(spec.body)
    depth = bound.get("N") or max(written.highest, *(part.last for part in evaluation.dropped), 0)
    term = close_gaps(written, depth)
    evaluation.integers.check_size(term.size, spec.body, has_flow=has_flow(term))
    if not term.count:
        raise _runs_nothing(spec, needs_depth=not depth and (written.gap is not None or not has_flow(written)))
    operations = operations_of(term)
    run = {each.layer for each in executions_of(operations)}
    dropped = _check_coverage(spec, run, evaluation.dropped, depth)
    try:
        return assembled(operations, depth, dropped)
    except Fault as fault:
        raise fault.at(spec.source) from None


def _runs_nothing(spec: RouteSpec, *, needs_depth: bool) -> SpecError:
    if needs_depth:
        message, help = "`N` is not bound: nothing here says how many layers there are", "bind it: N=…"
        return SpecError("missing-binding", message, spec.source, spec.body.span, help=help)
    return SpecError("empty-route", "this route runs no layer", spec.source, spec.body.span)


def _check_coverage(spec: RouteSpec, run: set[int], drops: list[Run], depth: int) -> tuple[int, ...]:
    """Refuse layers that are not run or dropped, or both, and return those that are dropped."""
    dropped: set[int] = set()
    for drop in merged(drops):
        dropped.update(range(drop.first, drop.last + 1))
    both = run & dropped
    for drop in drops:
        twice = sorted(both.intersection(range(drop.first, drop.last + 1)) if both else ())
        if twice:
            message = f"{_layers(twice)} {'is' if len(twice) == 1 else 'are'} dropped and run"
            help = "delete this drop, or the part that runs it (a fill `...` runs every layer between its ends)"
            raise SpecError("dropped-layer-runs", message, spec.source, drop.span, help=help)
    unused = [layer for layer in range(1, depth + 1) if layer not in run and layer not in dropped]
    if unused:
        message = f"{_layers(unused)} {'is' if len(unused) == 1 else 'are'} never run"
        parts = [f"drop({item})" for item in ranges(unused)]
        shown = " ".join(parts[:8]) + (" …" if len(parts) > 8 else "")
        them = "it" if len(unused) == 1 else "them"
        layers = f"{depth} layer{'s' if depth > 1 else ''}"
        help = f"this model has {layers}; run {them}, or add `{shown}` to leave {them} out on purpose"
        raise SpecError("unused-layer", message, spec.source, spec.body.span, help=help)
    return tuple(sorted(dropped))


def _layers(layers: list[int]) -> str:
    parts = ranges(layers)
    shown = ", ".join(parts[:8]) + (f" and {len(parts) - 8} more stretches" if len(parts) > 8 else "")
    return f"layer{'s' if len(layers) > 1 else ''} {shown}"
