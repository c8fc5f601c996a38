"""From DOT text to pictures: by the `dot` program, or by the Graphviz inside pygraphviz."""

import warnings
from contextlib import redirect_stderr
from io import StringIO
from subprocess import CalledProcessError

from depthgraph.errors import DrawError

#: the formats that Graphviz makes, by the name that it has for them.
FORMATS = ("svg", "png", "pdf")

MISSING = "no working Graphviz is installed, so this picture cannot be rendered"
HELP = (
    'run `pip install "depthgraph[draw]"`, or install the system\'s package graphviz; '
    "files that end in .dot, .mmd or .txt, and the staircase as .svg, need neither"
)


def render(source: str, format: str) -> bytes:
    """Return a picture of DOT text.

    Args:
        source: DOT text.
        format: one of `FORMATS`.

    Raises:
        DrawError: `missing-dot`, when there is neither a `dot` program nor pygraphviz.
    """
    for road in (_by_program, _in_process):
        picture = road(source, format)
        if picture is not None:
            return picture
    raise DrawError("missing-dot", MISSING, help=HELP)


def _by_program(source: str, format: str) -> bytes | None:
    """Return what the `dot` program makes of it, or nothing where there is none that works."""
    import graphviz

    try:
        return bytes(graphviz.Source(source).pipe(format=format, quiet=True))
    except (graphviz.ExecutableNotFound, CalledProcessError):
        return None


def _in_process(source: str, format: str) -> bytes | None:
    """Return what pygraphviz makes of it, or nothing where it is not installed."""
    try:
        import pygraphviz
    except ImportError:
        return None
    with redirect_stderr(StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about fonts that this machine lacks, and graphs of over 1,000 nodes
        return bytes(pygraphviz.AGraph(string=source).draw(format=format, prog="dot"))
