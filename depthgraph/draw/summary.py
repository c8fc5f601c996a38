"""What every picture says about its route, and when a picture has too many parts to be one."""

from depthgraph.draw.words import register_name
from depthgraph.errors import DrawError
from depthgraph.operations import Join, Save
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
        >>> import depthgraph as dg
        >>> facts(dg.route("save(a) mean(1 | 2) add(a) exit 3"))
        'N = 3 · E = 3 · E/N = 1 · register: a · branches: 2 · exits: 1'
    """
    multiplier = f"{route.multiplier:,.2f}".rstrip("0").rstrip(".")
    parts = [f"N = {route.parameter_depth:,}", f"E = {route.execution_depth:,}", f"E/N = {multiplier}"]
    if route.dropped:
        parts.append(f"dropped: {ranges(route.dropped)}")
    return " · ".join([*parts, *_flow_facts(route)])


def _flow_facts(route: Route) -> list[str]:
    registers = list(dict.fromkeys(each.register for each in route.data_flow if isinstance(each, Save)))
    branches = sum(len(each.branches) for each in route.data_flow if isinstance(each, Join))
    parts = []
    if registers:
        shown = ", ".join(register_name(name) for name in registers[:WRITTEN_OUT])
        more = f" … ({len(registers)} in all)" if len(registers) > WRITTEN_OUT else ""
        parts.append(f"register{'s' if len(registers) > 1 else ''}: {shown}{more}")
    if branches:
        parts.append(f"branches: {branches:,}")
    if route.exits:
        parts.append(f"exits: {len(route.exits):,}")
    return parts


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
