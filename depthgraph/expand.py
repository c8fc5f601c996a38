"""Syntax tree and bindings → route, within bounds.

Two steps: `evaluate` turns the tree into a term, whose size is known by arithmetic, and the term is written out
only when it is within the limits and every layer of it exists.
"""

from collections.abc import Mapping

from depthgraph.errors import SpecError
from depthgraph.evaluate import Evaluation
from depthgraph.names import check_names, free_names
from depthgraph.parser import DEFAULT_LIMITS, Limits, parse
from depthgraph.route import Route, ranges
from depthgraph.scope import check_bindings
from depthgraph.source import Source
from depthgraph.syntax import RouteSpec
from depthgraph.terms import close_gaps, listing

__all__ = ["expand", "free_names", "route_from_text"]


def route_from_text(
    text: str | Source,
    bindings: Mapping[str, int] | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    **names: int,
) -> Route:
    """Parse a spec and expand it: `dg.route`.

    Args:
        text: the spec.
        bindings: values of its names, `N` among them.
        limits: what is refused at once.
        names: more bindings, as keywords.

    Raises:
        SpecError: the spec or a binding means no route; the error has the place and what to do.

    Examples:
        >>> route_from_text("block(2..4)x2", N=5).path
        (1, 2, 3, 4, 2, 3, 4, 5)
    """
    return expand(parse(text, limits), {**(bindings or {}), **names}, limits)


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
    check_bindings(spec, bindings, limits)
    check_names(spec, bindings)
    evaluation = Evaluation(spec, bindings, limits)
    term = evaluation.term(spec.body)
    depth = bindings.get("N") or max(term.highest, max(evaluation.dropped, default=0))
    term = close_gaps(term, depth)
    evaluation.check_count(term.count, spec.body)
    if not term.count:
        raise _runs_nothing(spec, depth)
    listed = listing(term)
    _check_coverage(spec, set(listed.path), evaluation.dropped, depth)
    return Route.of(listed.path, depth, listed.iterations, listed.spans)


def _runs_nothing(spec: RouteSpec, depth: int) -> SpecError:
    if not depth:
        message, help = "`N` is not bound: nothing here says how many layers there are", "bind it: N=…"
        return SpecError("missing-binding", message, spec.source, spec.body.span, help=help)
    return SpecError("empty-route", "this route runs no layer", spec.source, spec.body.span)


def _check_coverage(spec: RouteSpec, run: set[int], dropped: Mapping[int, object], depth: int) -> None:
    both = sorted(run.intersection(dropped))
    if both:
        named, verb = ranges(both), "is" if len(both) == 1 else "are"
        message = f"{_layers(both)} {verb} dropped and run"
        help = f"delete `drop({named[0]})`, or the part that runs it (a fill `...` runs every layer between its ends)"
        raise SpecError("dropped-layer-runs", message, spec.source, spec.body.span, help=help)
    unused = [layer for layer in range(1, depth + 1) if layer not in run and layer not in dropped]
    if unused:
        message = f"{_layers(unused)} {'is' if len(unused) == 1 else 'are'} never run"
        drops = " ".join(f"drop({item})" for item in ranges(unused))
        them = "it" if len(unused) == 1 else "them"
        help = f"this model has {depth} layers; run {them}, or add `{drops}` to leave {them} out on purpose"
        raise SpecError("unused-layer", message, spec.source, spec.body.span, help=help)


def _layers(layers: list[int]) -> str:
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(ranges(layers))}"
