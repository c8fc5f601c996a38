"""depthgraph: a small language for which layers of a transformer run, in which order, how often.

One road, one direction: text → spec → route → graph → module.

    >>> import depthgraph as dg
    >>> route = dg.route("block(2..4)x2", N=6)
    >>> route.path
    (1, 2, 3, 4, 2, 3, 4, 5, 6)
    >>> route.reuse_map
    (1, 2, 2, 2, 1, 1)
    >>> print(dg.route("1 -> 2 -> 1 -> 2"))
    (1..2)x2

Importing this package loads neither torch nor networkx; `compile`, `graph` and `draw` load what they need when they
are called. Several functions have the name of the module that they come from: the modules are imported first, so that
the functions keep the names.
"""

import importlib
from typing import TYPE_CHECKING, Any

from depthgraph.draw import draw, save
from depthgraph.errors import (
    CompileError,
    ConfigError,
    CostError,
    DepthGraphError,
    DrawError,
    ExploreError,
    FormatError,
    GraphError,
    MissingPackageError,
    SpecError,
)
from depthgraph.expand import route_from_text as route
from depthgraph.graph import build_graph, renumbered
from depthgraph.operations import Execution, Iteration
from depthgraph.parser import Limits, parse
from depthgraph.route import Route
from depthgraph.schemes import catalogue
from depthgraph.schemes import library as schemes
from depthgraph.source import Source, Span
from depthgraph.syntax import RouteSpec
from depthgraph.verify import failures, verify
from depthgraph.verify import route_of as from_graph

if TYPE_CHECKING:
    import networkx as nx

    from depthgraph.explore import RouteSpace as RouteSpace
    from depthgraph.explore import diff as diff
    from depthgraph.explore import match as match
    from depthgraph.explore import measures as measures
    from depthgraph.explore import suggest_route as suggest_route
    from depthgraph.nn.capture import capture as capture
    from depthgraph.nn.compile import compile as compile
    from depthgraph.nn.cost import cost as cost

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "ConfigError",
    "CostError",
    "DepthGraphError",
    "DrawError",
    "Execution",
    "ExploreError",
    "FormatError",
    "GraphError",
    "Iteration",
    "Limits",
    "MissingPackageError",
    "Route",
    "RouteSpace",
    "RouteSpec",
    "Source",
    "Span",
    "SpecError",
    "capture",
    "catalogue",
    "compile",
    "cost",
    "diff",
    "draw",
    "failures",
    "from_graph",
    "graph",
    "match",
    "measures",
    "parse",
    "renumbered",
    "route",
    "save",
    "schemes",
    "suggest_route",
    "verify",
]


def graph(route: Route) -> "nx.DiGraph[str]":
    """Return a route's graph, verified: one node an execution, one edge a hidden state.

    Examples:
        >>> import depthgraph as dg
        >>> list(dg.graph(dg.route("1 2 1")))
        ['input', 'L1.1', 'L2.1', 'L1.2', 'output']
    """
    return verify(build_graph(route))


#: What is imported at its first use; most of it needs torch.
_LATE = {
    "compile": "depthgraph.nn",
    "capture": "depthgraph.nn",
    "cost": "depthgraph.nn",
    "nn": "depthgraph.nn",
    "hf": "depthgraph.hf",
    "lab": "depthgraph.lab",
    "formats": "depthgraph.formats",
    "explore": "depthgraph.explore",
    "RouteSpace": "depthgraph.explore",
    "diff": "depthgraph.explore",
    "match": "depthgraph.explore",
    "measures": "depthgraph.explore",
    "suggest_route": "depthgraph.explore",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'depthgraph' has no attribute {name!r}")
    module = importlib.import_module(_LATE[name])
    value = module if name in ("nn", "hf", "lab", "formats", "explore") else getattr(module, name)
    globals()[name] = value
    return value
