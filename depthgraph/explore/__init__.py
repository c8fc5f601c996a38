"""Routes as something to explore by program: spaces, measures, matching, differences, search. Needs no torch."""

from depthgraph.explore.difference import Diff, Edit, diff
from depthgraph.explore.matching import Change, Match, match
from depthgraph.explore.measuring import Measures, Scale, measures, relative, scale_of
from depthgraph.explore.patterns import FAMILIES
from depthgraph.explore.search import suggest_route, trial_parameters
from depthgraph.explore.space import RouteSpace

__all__ = [
    "FAMILIES",
    "Change",
    "Diff",
    "Edit",
    "Match",
    "Measures",
    "RouteSpace",
    "Scale",
    "diff",
    "match",
    "measures",
    "relative",
    "scale_of",
    "suggest_route",
    "trial_parameters",
]
