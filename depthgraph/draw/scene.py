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
from depthgraph.draw.palette import BAND, FAINT, FLOW, GRID, INK, LINE, LOOP, PAPER

#: role → its colour on light and on dark paper.
ROLES: Mapping[str, tuple[str, str]] = {
    "paper": (PAPER, "#0d1117"),
    "ink": (INK, "#e6edf3"),
    "line": (LINE, "#9da7b3"),
    "faint": (FAINT, "#8b949e"),
    "grid": (GRID, "#21262d"),
    "band": (BAND, "#1b1a2b"),
    "loop": (LOOP, "#b794f6"),
    "flow": (FLOW, "#5fd3bc"),
}
#: roles that only some pictures have.
RARE = frozenset({"flow"})
#: the dashes of a line, in points.
DASHES = "4 3"
#: bytes of a string in DOT; Graphviz reads 16,384.
LONGEST_STRING = 15_000
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
    dashed: bool = False


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
        f"<style>{_style(RARE.difference(shape.colour for shape in scene.shapes))}</style>",
        f'<rect class="dg-paper" width="{width}" height="{height}" rx="6"/>',
        *(part for kind, shapes in groupby(scene.shapes, type) for part in _SVG[kind](shapes)),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _style(unused: frozenset[str]) -> str:
    """Both themes; classes start with dg-, for a notebook puts this into the page around it."""
    roles = {role: colours for role, colours in ROLES.items() if role not in unused}

    def rules(theme: int) -> str:
        fills = (f".depthgraph .dg-{role}{{fill:{colours[theme]}}}" for role, colours in roles.items())
        strokes = (f".depthgraph .dg-s-{role}{{stroke:{colours[theme]}}}" for role, colours in roles.items())
        return "".join((*fills, *strokes))

    return f"{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}"


def _svg_rects(rects: Iterable[Rect]) -> Iterator[str]:
    for colour, same in _by_colour(rects).items():
        pieces = (tuple(map(number, (r.x, r.y, r.width, r.height))) for r in same)
        path = "".join(f"M{x} {y}h{width}v{height}h-{width}z" for x, y, width, height in pieces)
        yield f'<path {_paint(colour)} d="{path}"/>'


def _by_colour(rects: Iterable[Rect]) -> dict[str, Iterable[Rect]]:
    """Group rectangles by colour and leave out those that cover one another: long routes stay small files."""
    groups: defaultdict[str, dict[tuple[float, float], Rect]] = defaultdict(dict)
    for r in rects:
        groups[r.colour][round(r.x, 1 if r.width <= 1 else 2), round(r.y, 2)] = r
    return {colour: same.values() for colour, same in groups.items()}


def _paint(colour: str) -> str:
    return f'class="dg-{colour}"' if colour in ROLES else f'fill="{colour}"'


def _svg_lines(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        points = " ".join(f"{number(x)},{number(y)}" for x, y in line.points)
        style = f'fill="none" stroke-width="{number(line.width)}"'
        style += f' stroke-dasharray="{DASHES}"' if line.dashed else ""
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
    groups = groupby(scene.shapes, type)
    pieces = (piece for kind, shapes in groups for piece in _XDOT[kind](shapes, scene.height))
    background = "\n    + ".join(f'"{string}"' for string in _strings(pieces))
    lines = [
        f"graph {graph};",
        f"graph [_background={background}];",
        f"canvas {attributes({**canvas, **size, **place})};",
    ]
    return "\n".join([f"digraph {quoted('staircase')} {{", *(f"  {line}" for line in lines), "}", ""])


def _strings(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the pieces joined to strings that Graphviz reads: up to 16 kB each, of which it joins any number."""
    chunk: list[str] = []
    size = 0
    for piece in pieces:
        escaped = piece.replace('"', '\\"')
        size += len(escaped.encode())
        if size > LONGEST_STRING:
            yield "".join(chunk)
            chunk, size = [], len(escaped.encode())
        chunk.append(escaped)
    yield "".join(chunk)


def _light(colour: str) -> str:
    return ROLES[colour][0] if colour in ROLES else colour


def _xdot_points(points: Iterable[tuple[float, float]], height: float) -> str:
    written = [f"{number(x)} {number(height - y)}" for x, y in points]
    return f"{len(written)} {' '.join(written)}"


def _xdot_rects(rects: Iterable[Rect], height: float) -> Iterator[str]:
    for colour, same in _by_colour(rects).items():
        # the border has the colour of nothing, or cells that are close would touch
        yield f"c 9 -#ffffff00 C 7 -{_light(colour)} "
        for r in same:
            right, low = r.x + r.width, r.y + r.height
            yield f"P {_xdot_points(((r.x, r.y), (right, r.y), (right, low), (r.x, low)), height)} "


def _xdot_lines(lines: Iterable[Line], height: float) -> Iterator[str]:
    for line in lines:
        style = f"setlinewidth({number(line.width)})"
        drawn = f"S {len(style)} -{style} c 7 -{_light(line.colour)} L {_xdot_points(line.points, height)} "
        yield f"S 6 -dashed {drawn}S 5 -solid " if line.dashed else drawn


def _xdot_texts(texts: Iterable[Text], height: float) -> Iterator[str]:
    for text in texts:
        family = _FONTS[text.font][1]
        # A DOT string cannot hold a backslash for xdot safely: the sign for set difference looks the same.
        shown = text.text.replace("\\", "\u2216")
        place = f"{number(text.x)} {number(height - text.y)} {_ANCHORS[text.anchor][1]} 0"
        yield (
            f"c 7 -{_light(text.colour)} F {number(text.size)} {len(family)} -{family} "
            f"T {place} {len(shown.encode())} -{shown} "
        )


_XDOT: Mapping[type, Callable[..., Iterator[str]]] = {Rect: _xdot_rects, Line: _xdot_lines, Text: _xdot_texts}
