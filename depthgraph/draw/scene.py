"""Flat drawings: rectangles, lines and texts, written as SVG or as DOT that looks the same.

Coordinates are points from the upper left corner. Colours are roles, which SVG gives dark values where the
reader's screen is dark, or the `#rrggbb` of layers, which carry dark text on any screen.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import groupby

from depthgraph.draw.dot import attributes, quoted
from depthgraph.draw.geometry import number
from depthgraph.draw.palette import BAND, FAINT, GRID, INK, LINE, LOOP, PAPER

#: role → its colour on light and on dark paper.
ROLES: Mapping[str, tuple[str, str]] = {
    "paper": (PAPER, "#0d1117"),
    "ink": (INK, "#e6edf3"),
    "line": (LINE, "#9da7b3"),
    "faint": (FAINT, "#8b949e"),
    "grid": (GRID, "#21262d"),
    "band": (BAND, "#1b1a2b"),
    "loop": (LOOP, "#b794f6"),
}
#: anchor → SVG's word and xdot's number for it.
_ANCHORS: Mapping[str, tuple[str, int]] = {"left": ("start", -1), "middle": ("middle", 0), "right": ("end", 1)}
_FONTS: Mapping[str, tuple[str, str]] = {
    "sans": ("Helvetica,Arial,sans-serif", "Helvetica"),
    "mono": ("ui-monospace,Menlo,Consolas,monospace", "Courier"),
}


@dataclass(frozen=True, slots=True)
class Rect:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    colour: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points."""

    points: tuple[tuple[float, float], ...]
    colour: str
    width: float = 1.0


@dataclass(frozen=True, slots=True)
class Text:
    """A text on one line; y is its base line."""

    x: float
    y: float
    text: str
    anchor: str = "left"
    size: float = 10.0
    colour: str = "line"
    font: str = "sans"


Shape = Rect | Line | Text


@dataclass(frozen=True, slots=True)
class Scene:
    """A whole drawing; its shapes stand from the back to the front."""

    width: float
    height: float
    title: str
    shapes: tuple[Shape, ...]


def svg(scene: Scene) -> str:
    """Return the drawing as an SVG document that needs nothing around it."""
    width, height = number(scene.width), number(scene.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="depthgraph" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" style="max-width:100%;height:auto">',
        f"<title>{escape(scene.title)}</title>",
        f"<style>{_style()}</style>",
        f'<rect class="dg-paper" width="{width}" height="{height}" rx="6"/>',
        *(part for kind, shapes in groupby(scene.shapes, type) for part in _SVG[kind](shapes)),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _style() -> str:
    """Both themes; classes start with dg-, for a notebook puts this into the page around it."""

    def rules(theme: int) -> str:
        fills = (f".depthgraph .dg-{role}{{fill:{colours[theme]}}}" for role, colours in ROLES.items())
        strokes = (f".depthgraph .dg-s-{role}{{stroke:{colours[theme]}}}" for role, colours in ROLES.items())
        return "".join((*fills, *strokes))

    return f"{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}"


def _svg_rects(rects: Iterable[Rect]) -> Iterator[str]:
    """One path for each colour: a long route stays a small file."""
    by_colour: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for r in rects:
        x, y, width, height = (number(v) for v in (r.x, r.y, r.width, r.height))
        by_colour[r.colour][f"M{x} {y}h{width}v{height}h-{width}z"] = None
    for colour, pieces in by_colour.items():
        yield f'<path {_paint(colour)} d="{"".join(pieces)}"/>'


def _paint(colour: str) -> str:
    return f'class="dg-{colour}"' if colour in ROLES else f'fill="{colour}"'


def _svg_lines(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        points = " ".join(f"{number(x)},{number(y)}" for x, y in line.points)
        style = f'fill="none" stroke-width="{number(line.width)}"'
        yield f'<polyline class="dg-s-{line.colour}" {style} points="{points}"/>'


def _svg_texts(texts: Iterable[Text]) -> Iterator[str]:
    for text in texts:
        place = f'x="{number(text.x)}" y="{number(text.y)}" text-anchor="{_ANCHORS[text.anchor][0]}"'
        font = f'font-family="{_FONTS[text.font][0]}" font-size="{number(text.size)}"'
        yield f"<text {_paint(text.colour)} {place} {font}>{escape(text.text)}</text>"


_SVG: Mapping[type, Callable[..., Iterator[str]]] = {Rect: _svg_rects, Line: _svg_lines, Text: _svg_texts}


def dot(scene: Scene) -> str:
    """Return the drawing as DOT text: one invisible node as large as the picture, and the drawing behind it."""
    graph = attributes({"layout": "nop2", "bgcolor": PAPER, "pad": 0.0})
    size = {"width": scene.width / 72, "height": scene.height / 72}
    canvas = {"shape": "box", "style": "invis", "fixedsize": "true", "label": ""}
    place = {"pos": f"{number(scene.width / 2)},{number(scene.height / 2)}"}
    pieces = (_XDOT[type(shape)](shape, scene.height).replace('"', '\\"') for shape in scene.shapes)
    # Graphviz reads no string over 16 kB, but joins any number of them
    background = "\n    + ".join(f'"{piece}"' for piece in pieces)
    lines = [
        f"graph {graph};",
        f"graph [_background={background}];",
        f"canvas {attributes({**canvas, **size, **place})};",
    ]
    return "\n".join([f"digraph {quoted('staircase')} {{", *(f"  {line}" for line in lines), "}", ""])


def _light(colour: str) -> str:
    return ROLES[colour][0] if colour in ROLES else colour


def _xdot_points(points: Iterable[tuple[float, float]], height: float) -> str:
    written = [f"{number(x)} {number(height - y)}" for x, y in points]
    return f"{len(written)} {' '.join(written)}"


def _xdot_rect(r: Rect, height: float) -> str:
    corners = ((r.x, r.y), (r.x + r.width, r.y), (r.x + r.width, r.y + r.height), (r.x, r.y + r.height))
    # the border has the colour of nothing, or cells that are close would touch
    return f"c 9 -#ffffff00 C 7 -{_light(r.colour)} P {_xdot_points(corners, height)} "


def _xdot_line(line: Line, height: float) -> str:
    style = f"setlinewidth({number(line.width)})"
    return f"S {len(style)} -{style} c 7 -{_light(line.colour)} L {_xdot_points(line.points, height)} "


def _xdot_text(text: Text, height: float) -> str:
    family = _FONTS[text.font][1]
    # A DOT string cannot hold a backslash for xdot safely: the sign for set difference looks the same.
    shown = text.text.replace("\\", "\u2216")
    place = f"{number(text.x)} {number(height - text.y)} {_ANCHORS[text.anchor][1]} 0"
    return (
        f"c 7 -{_light(text.colour)} F {number(text.size)} {len(family)} -{family} "
        f"T {place} {len(shown.encode())} -{shown} "
    )


_XDOT: Mapping[type, Callable[..., str]] = {Rect: _xdot_rect, Line: _xdot_line, Text: _xdot_text}
