"""What `draw` returns: values that show themselves in a notebook."""

from collections.abc import Iterable
from dataclasses import dataclass

import graphviz

from depthgraph.draw.render import render
from depthgraph.errors import DrawError


class GraphvizPicture(graphviz.Source):  # type: ignore[misc]
    """DOT text that shows itself: `graphviz.Source`, also where there is no `dot` program but pygraphviz."""

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None, **_: object
    ) -> dict[str, str]:
        """Return what a notebook shows; without any Graphviz, the text and what to install."""
        wanted = {"image/svg+xml"} if include is None else {"image/svg+xml"}.intersection(include)
        if not wanted.difference(exclude or ()):
            return {}
        try:
            return {"image/svg+xml": render(self.source, "svg").decode()}
        except DrawError as error:
            return {"text/plain": f"{error}\n\n{self.source}"}


@dataclass(frozen=True)
class SvgPicture:
    """SVG text that shows itself; it needs no program.

    Attributes:
        source: the SVG document.
    """

    source: str

    def _repr_svg_(self) -> str:
        return self.source

    def __str__(self) -> str:
        return self.source
