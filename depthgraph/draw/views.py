"""The pictures there are: which views, in which formats; drawing and saving them."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from depthgraph.draw.folded import folded_dot
from depthgraph.draw.labels import Names
from depthgraph.draw.mermaid import folded_mermaid, unrolled_mermaid
from depthgraph.draw.render import FORMATS, render
from depthgraph.draw.staircase import staircase_dot, staircase_svg
from depthgraph.draw.staircase_text import staircase_text
from depthgraph.draw.unrolled import unrolled_dot
from depthgraph.errors import DrawError
from depthgraph.route import Route
from depthgraph.verify import route_of
from depthgraph.whole_file import check_place, write_whole

if TYPE_CHECKING:
    import networkx as nx

    from depthgraph.draw.picture import GraphvizPicture, SvgPicture

View = Literal["folded", "unrolled", "staircase"]
#: makes one kind of picture of a route.
Drawer = Callable[[Route, Names | None], str | bytes]

DOT: Mapping[str, Callable[[Route, Names | None], str]] = {
    "folded": folded_dot,
    "unrolled": unrolled_dot,
    "staircase": staircase_dot,
}


def _rendered(view: str, format: str, route: Route, names: Names | None) -> bytes:
    return render(DOT[view](route, names), format)


def _as_text(route: Route, names: Names | None) -> str:
    return staircase_text(route, names=names)


#: (view, format) → what makes it. A format is the ending of a file's name.
PICTURES: Mapping[tuple[str, str], Drawer] = {
    **{(view, format): partial(_rendered, view, format) for view in DOT for format in FORMATS},
    **{(view, "dot"): drawer for view, drawer in DOT.items()},
    ("folded", "mmd"): folded_mermaid,
    ("unrolled", "mmd"): unrolled_mermaid,
    ("staircase", "svg"): staircase_svg,
    ("staircase", "txt"): _as_text,
}
#: format → the view that a file in it has when the caller names none; `folded` for the others.
DEFAULT_VIEWS: Mapping[str, str] = {"txt": "staircase"}


def draw(
    route: "Route | nx.DiGraph[Any]", view: View = "folded", *, names: Names | None = None
) -> "GraphvizPicture | SvgPicture":
    """Draw a route as a value that shows itself in a notebook.

    Args:
        route: the route, or its graph.
        view: `folded` has a node per layer and walks loops once, `unrolled` a node per execution, `staircase`
            positions across and layers up.
        names: labels for the layers, a mapping from their numbers or one for each; `L1` … without.

    Returns:
        a `graphviz.Source`, for the staircase a value with the SVG text; both have it as `source`.

    Raises:
        DrawError: `unknown-view`; `too-large-to-draw` with the views that would fit; `not-a-route`.
        GraphError: the graph breaks rules.
    """
    from depthgraph.draw.picture import GraphvizPicture, SvgPicture

    route = _as_route(route)
    if view == "staircase":
        return SvgPicture(staircase_svg(route, names))
    if view not in DOT:
        raise DrawError("unknown-view", f"there is no view `{view}`", help=f"views are {', '.join(DOT)}")
    return GraphvizPicture(DOT[view](route, names))


def save(
    route: "Route | nx.DiGraph[Any]",
    path: str | os.PathLike[str],
    view: View | None = None,
    names: Names | None = None,
) -> Path:
    """Save a picture of a route, in the format that the path's ending names.

    The file appears whole or not at all: it is written beside its place and then moved there.

    Args:
        route: the route, or its graph.
        path: ends in `.svg`, `.png`, `.pdf`, `.dot`, `.mmd` (Mermaid) or `.txt`.
        view: as in `draw`; `folded` by default, for `.txt` `staircase`.
        names: as in `draw`.

    Returns:
        the path.

    Raises:
        DrawError: `unknown-view`, for a view or an ending that does not exist, or not together; `missing-file`,
            for a folder that does not exist or a file that cannot be written; `missing-dot`;
            `too-large-to-draw`; `not-a-route`.
        GraphError: the graph breaks rules.
    """
    route = _as_route(route)
    target = Path(path)
    drawer = _drawer(target, view)
    check_place(target, DrawError)
    picture = drawer(route, names)
    write_whole(target, picture.encode() if isinstance(picture, str) else picture, DrawError)
    return target


def _as_route(route: "Route | nx.DiGraph[Any]") -> Route:
    if isinstance(route, Route):
        return route
    import networkx as nx

    if isinstance(route, nx.Graph):
        return route_of(route)
    message = f"a {type(route).__name__} is given where a route is needed"
    raise DrawError("not-a-route", message, help="dg.route(text) makes a route from a spec")


def _drawer(target: Path, view: str | None) -> Drawer:
    format = target.suffix.lower().removeprefix(".")
    chosen = view or DEFAULT_VIEWS.get(format, "folded")
    if (chosen, format) in PICTURES:
        return PICTURES[chosen, format]
    views = [v for v, f in PICTURES if f == format]
    formats = [f".{f}" for v, f in PICTURES if v == chosen]
    if not formats:
        raise DrawError("unknown-view", f"there is no view `{chosen}`", help=f"views are {', '.join(DOT)}")
    if not views:
        message = f"the ending of {target.name} is not that of a picture"
        raise DrawError("unknown-view", message, help=f"a {chosen} view can end in {', '.join(formats)}")
    message = f"there is no {chosen} view as .{format}"
    suggestion = f"as .{format} there is {' or '.join(views)}; a {chosen} view can end in {', '.join(formats)}"
    raise DrawError("unknown-view", message, help=suggestion)
