"""DOT text: quoting, and the lines of a graph whose parts have fixed places.

The pictures place every node and edge themselves (`layout=nop2`), so they look the same under every version of
Graphviz. Without the line that says so, Graphviz lays the same graph out in its own way.
"""

from collections.abc import Iterable, Mapping

from depthgraph.draw.geometry import Point, at, number
from depthgraph.draw.palette import FONT, INK, LINE, PAPER

#: an attribute's value: a text for the reader, or a length.
Value = str | float

_NODES: Mapping[str, Value] = {
    "shape": "box",
    "style": "rounded,filled",
    "fixedsize": "true",
    "fontname": FONT,
    "fontsize": 12.0,
    "fontcolor": INK,
    "color": LINE,
    "penwidth": 0.8,
}
_EDGES: Mapping[str, Value] = {
    "fontname": FONT,
    "fontsize": 10.0,
    "fontcolor": LINE,
    "color": LINE,
    "arrowsize": 0.6,
}


def quoted(text: str) -> str:
    r"""Return a text as a DOT string that is shown as it is.

    A backslash would start an escape, and an ampersand a character entity; a string in quotes is never markup,
    whatever it looks like.

    Examples:
        >>> print(quoted('attn:0 "a\\N" <b>'))
        "attn:0 \"a\\N\" <b>"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return f'"{escaped}"'


def attributes(values: Mapping[str, Value]) -> str:
    """Return an attribute list in brackets."""
    parts = (f"{key}={quoted(v) if isinstance(v, str) else number(v)}" for key, v in values.items())
    return f"[{', '.join(parts)}]"


def node(name: str, centre: Point, size: Point, values: Mapping[str, Value]) -> str:
    """Return the line of a node with a place; sizes are in points, which DOT wants in inches."""
    place: dict[str, Value] = {"pos": at(centre), "width": size[0] / 72, "height": size[1] / 72}
    return f"{quoted(name)} {attributes({**values, **place})};"


def edge(tail: str, head: str, values: Mapping[str, Value]) -> str:
    """Return the line of an edge."""
    return f"{quoted(tail)} -> {quoted(head)} {attributes(values)};"


def digraph(lines: Iterable[str], title: str, title_at: Point) -> str:
    """Return a whole graph in fixed places, with a line of text at one of them."""
    graph: dict[str, Value] = {"layout": "nop2", "bgcolor": PAPER, "pad": 0.15, "label": title}
    graph |= {"lp": at(title_at), "fontname": FONT, "fontsize": 10.0, "fontcolor": LINE}
    common = {"graph": graph, "node": _NODES, "edge": _EDGES}
    head = [f"{kind} {attributes(defaults)};" for kind, defaults in common.items()]
    return "\n".join(["digraph route {", *(f"  {line}" for line in [*head, *lines]), "}", ""])
