"""What every picture says about its route, and when a picture has too many parts to be one."""

from depthgraph.errors import DrawError
from depthgraph.route import Route

#: the most nodes of a Graphviz picture.
MOST_NODES = 2_000
#: stretches of layers that are written out; longer lists are abbreviated.
WRITTEN_OUT = 6


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
    written = [f"{s[0]}..{s[-1]}" if len(s) > 1 else f"{s[0]}" for s in stretches]
    if len(written) > WRITTEN_OUT:
        return f"{written[0]}, {written[1]} … {written[-1]} ({len(layers)} layers)"
    return ", ".join(written)


def refuse_large(count: int, parts: str, view: str, instead: str, most: int = MOST_NODES) -> None:
    """Refuse a picture with more parts than anybody can read.

    Args:
        count: how many parts it would have.
        parts: what they are.
        view: the picture's name.
        instead: what to do, for the error's help.
        most: how many it may have.

    Raises:
        DrawError: `too-large-to-draw`.
    """
    if count > most:
        message = f"{count:,} {parts} are too many for the {view} view, which takes {most:,}"
        raise DrawError("too-large-to-draw", message, help=instead)
