"""Routes as something to explore by program: spaces of them, comparison, search. Needs no torch."""

from depthgraph.explore.space import RouteSpace

__all__ = ["RouteSpace"]
