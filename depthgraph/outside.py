"""What to say of a layer that does not exist, and what was probably meant."""

from depthgraph import syntax as tree
from depthgraph.scope import Scope
from depthgraph.source import Source


def no_such_layer(
    layer: int, depth: int | None, end: tree.Expression, node: tree.Node, scope: Scope, source: Source
) -> tuple[str, str]:
    """Return message and help for a layer outside 1 … N.

    Args:
        layer: its number.
        depth: N, if it is known.
        end: the expression that has that value.
        node: the element that the expression stands in.
        scope: what names mean there.
        source: the spec.
    """
    if depth is None:
        message, help = f"layer {layer} does not exist", "layers are numbered from 1"
    else:
        message = f"layer {layer} does not exist in this model of {depth} layer{'s' if depth > 1 else ''}"
        help = f"layers are 1..{depth} and both ends of a range are included"
    indexes = [f"{name} = {value}" for name, value in scope.integers.items()]
    if indexes and not isinstance(end, tree.Integer):
        help += f"; here {', '.join(indexes)}"
    elif isinstance(node, tree.Layer) and isinstance(end, tree.Arithmetic):
        help += "; this is arithmetic: a path is written with blanks or `->`, a count with `x`"
    if scope.offset:
        help += f"; the scheme's layers are shifted by {scope.offset}"
    return message, help + _suggestion(depth, end, node, scope, source)


def _suggestion(depth: int | None, end: tree.Expression, node: tree.Node, scope: Scope, source: Source) -> str:
    """Return the spec with the last layer in place of one above it, when that is all that is wrong."""
    match node:
        case tree.Range(tree.Integer(first), tree.Integer(last)) if (
            scope.site is None and depth is not None and first <= depth < last
        ):
            text = source.text
            mended = " ".join(f"{text[: end.span.start]}{depth}{text[end.span.end :]}".split())
            return f"; did you mean `{mended if len(mended) <= 60 else f'{first}..{depth}'}`?"
        case _:
            return ""
