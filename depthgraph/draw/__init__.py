"""Pictures of routes: folded, unrolled, staircase; as Graphviz, SVG, Mermaid or text."""

from depthgraph.draw.gallery import gallery
from depthgraph.draw.staircase import staircase_svg
from depthgraph.draw.staircase_text import staircase_text
from depthgraph.draw.views import View, draw, save

__all__ = ["View", "draw", "gallery", "save", "staircase_svg", "staircase_text"]
