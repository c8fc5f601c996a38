"""What every picture says about its route, and when a picture has too many parts to be one."""

from depthgraph.errors import DrawError
from depthgraph.route import Route

#: the most nodes of a Graphviz picture.
MOST_NODES = 2_000


def facts(route: Route) -> str:
    """Return the measures of a route in one line.

    Examples:
        >>> facts(Route.of((1, 2, 1, 2, 3)))
        'N = 3 · E = 5 · E/N = 1.67'
    """
    multiplier = f"{route.multiplier:,.2f}".rstrip("0").rstrip(".")
    parts = [f"N = {route.parameter_depth:,}", f"E = {route.execution_depth:,}", f"E/N = {multiplier}"]
    if route.dropped:
        parts.append(f"dropped: {ranges(route.dropped)}")
    return " · ".join(parts)


def ranges(layers: tuple[int, ...]) -> str:
    """Return ascending numbers with stretches as ranges.

    Examples:
        >>> ranges((2, 5, 6, 7))
        '2, 5..7'
    """
    stretches: list[list[int]] = []
    for layer in layers:
        if stretches and layer == stretches[-1][-1] + 1:
            stretches[-1].append(layer)
        else:
            stretches.append([layer])
    return ", ".join(f"{s[0]}..{s[-1]}" if len(s) > 1 else f"{s[0]}" for s in stretches)


def refuse_large(count: int, parts: str, view: str, others: tuple[str, ...], most: int = MOST_NODES) -> None:
    """Refuse a picture with more parts than anybody can read.

    Raises:
        DrawError: `too-large-to-draw`; the help names the views that fit.
    """
    if count > most:
        message = f"{count:,} {parts} are too many for the {view} view, which takes {most:,}"
        choice = " or ".join(f'view="{other}"' for other in others)
        raise DrawError("too-large-to-draw", message, help=f"draw it with {choice}")
