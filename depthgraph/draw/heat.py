"""A heat map over blocks of layers: the first layer down, the last one across, a colour for each change of the loss."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from depthgraph.draw.labels import text_width
from depthgraph.draw.palette import FAINT, INK, PAPER
from depthgraph.draw.scene import Line, Rect, Scene, Shape, Text
from depthgraph.draw.staircase import ticks

#: Paul Tol's "sunset" scheme, made for values on both sides of a middle: blue for better, red for worse, apart for
#: colour-blind readers too (https://personal.sron.nl/~pault).
COLOURS = (
    "#364b9a", "#4a7bb7", "#6ea6cd", "#98cae1", "#c2e4ef", "#eaeccc",
    "#feda8b", "#fdb366", "#f67e4b", "#dd3d2d", "#a50026",
)  # fmt: skip
#: Levels on each side of the middle one.
SIDE = 5
#: On colours of these levels text is white.
DARK = frozenset({-5, -4, 4, 5})
#: Changes at which a level can begin; `SIDE` of them in a row are used, around the median change.
STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
#: Points: all cells in one direction, the largest cell, the least that a number fits in, the margin, a legend's row.
ROOM, LARGEST, NUMBERED, MARGIN, ROW = 660.0, 26.0, 19.0, 14.0, 17.0


@dataclass(frozen=True)
class Heat:
    """Values over blocks of layers.

    Attributes:
        values: (first layer, last layer) → the change; not a number where there is none.
        title: what is done with the blocks.
        notes: more lines above the map.
    """

    values: Mapping[tuple[int, int], float]
    title: str
    notes: tuple[str, ...] = ()

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The first layers."""
        return tuple(sorted({first for first, _ in self.values}))

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The last layers."""
        return tuple(sorted({last for _, last in self.values}))

    @cached_property
    def steps(self) -> tuple[float, ...]:
        """The changes at which the levels 1 … 5 begin: close to one another where the values are.

        Examples:
            >>> Heat({(1, 1): 0.2, (1, 2): 0.4, (2, 2): 5.0}, "").steps
            (0.03, 0.1, 0.3, 1.0, 3.0)
        """
        sizes = [abs(value) for value in self.values.values() if math.isfinite(value) and value]
        middle = math.log(median(sizes)) if sizes else 0.0
        nearest = min(range(len(STEPS)), key=lambda index: abs(math.log(STEPS[index]) - middle))
        first = min(max(0, nearest - SIDE // 2), len(STEPS) - SIDE)
        return STEPS[first : first + SIDE]

    def level(self, value: float) -> int | None:
        """Return the level of a value: 0 for hardly a change, 1 to 5 for worse, -1 to -5 for better; None for none."""
        if not math.isfinite(value):
            return None
        size = sum(abs(value) >= step for step in self.steps)
        return size if value > 0 else -size

    @cached_property
    def levels(self) -> range:
        """The levels that occur, and those between them, from the best."""
        found = [level for level in map(self.level, self.values.values()) if level is not None] or [0]
        return range(min(*found, 0), max(*found, 0) + 1)

    def meaning(self, level: int) -> str:
        """Return what a level says.

        Examples:
            >>> heat = Heat({(1, 1): 0.2}, "")
            >>> [heat.meaning(level) for level in (-5, 0, 1, 5)]
            ['better by 3 or more', 'within 0.03', 'worse by 0.03 to 0.1', 'worse by 3 or more']
        """
        if level == 0:
            return f"within {self.steps[0]:g}"
        edges = [f"{step:g}" for step in self.steps]
        size = abs(level)
        reach = f"{edges[size - 1]} to {edges[size]}" if size < SIDE else f"{edges[-1]} or more"
        return f"{'worse' if level > 0 else 'better'} by {reach}"

    @cached_property
    def best(self) -> tuple[int, int] | None:
        """The block with the lowest value."""
        found = {block: value for block, value in self.values.items() if math.isfinite(value)}
        return min(found, key=lambda block: found[block]) if found else None


def heat_scene(heat: Heat) -> Scene:
    """Return a heat map as a drawing, for SVG or, by Graphviz, PNG and PDF."""
    cell = min(LARGEST, ROOM / max(len(heat.rows), len(heat.columns)))
    left = MARGIN + text_width(str(heat.rows[-1]), 10) + 8
    top = 22 + 15 * len(heat.notes) + 46
    right = left + cell * len(heat.columns)
    legend = max(text_width(heat.meaning(level), 10) for level in heat.levels) + 30
    lines = max(text_width(heat.title, 13), *(text_width(note, 10) for note in heat.notes), 0.0)
    width = max(right + 24 + legend, MARGIN + 0.9 * lines) + MARGIN
    height = max(top + cell * len(heat.rows) + 16, top + ROW * (len(heat.levels) + 2)) + MARGIN
    shapes = (
        Text(MARGIN, 24, heat.title, size=13, colour="ink"),
        *(Text(MARGIN, 42 + 15 * number, note) for number, note in enumerate(heat.notes)),
        *_cells(heat, left, top, cell),
        *_axes(heat, left, top, cell),
        *_legend(heat, right + 24, top),
    )
    return Scene(width, height, ": ".join((heat.title, *heat.notes[:1])), shapes)


def _cells(heat: Heat, left: float, top: float, cell: float) -> Iterator[Shape]:
    across = {layer: left + cell * index for index, layer in enumerate(heat.columns)}
    down = {layer: top + cell * index for index, layer in enumerate(heat.rows)}
    side = cell - min(1.0, 0.1 * cell)
    for (first, last), value in heat.values.items():
        level = heat.level(value)
        colour = FAINT if level is None else COLOURS[level + SIDE]
        yield Rect(across[last], down[first], side, side, colour)
    if cell >= NUMBERED:
        for (first, last), value in heat.values.items():
            level = heat.level(value)
            colour = PAPER if level is None or level in DARK else INK
            x, y = across[last] + side / 2, down[first] + side / 2 + 2.6
            yield Text(x, y, written(value), "middle", 7.5, colour)
    if heat.best is not None:
        x, y = across[heat.best[1]], down[heat.best[0]]
        yield Line(((x, y), (x + side, y), (x + side, y + side), (x, y + side), (x, y)), "ink", 1.6)


def written(value: float) -> str:
    """Return a change as a cell of the map says it, in at most four characters.

    Examples:
        >>> [written(value) for value in (0.136, -0.02, 5.82, 12.3, 0.001, float("nan"))]
        ['.14', '-.02', '5.8', '12', '.00', '?']
    """
    if not math.isfinite(value):
        return "?"
    if abs(value) < 0.995:
        return f"{value:.2f}".replace("0.", ".", 1).replace("-.00", ".00")
    return f"{value:.1f}" if abs(value) < 9.95 else f"{value:.0f}"


def _axes(heat: Heat, left: float, top: float, cell: float) -> Iterator[Text]:
    yield Text(left, top - 24, "last layer of the block", size=9, colour="faint")
    needed = text_width(str(heat.columns[-1]), 10) + 4
    for index in ticks(len(heat.columns), cell, needed):
        x = left + cell * (index - 0.5)
        yield Text(x, top - 7, str(heat.columns[index - 1]), "middle", 10)
    begins = {first: min(last for row, last in heat.values if row == first) for first in heat.rows}
    for index in ticks(len(heat.rows), cell, 12):
        first = heat.rows[index - 1]
        x = left + cell * heat.columns.index(begins[first])
        yield Text(x - 5, top + cell * (index - 0.5) + 3.5, str(first), "right", 10)
    yield Text(left, top + cell * len(heat.rows) + 12, "first layer: beside its row", size=9, colour="faint")


def _legend(heat: Heat, x: float, top: float) -> Iterator[Shape]:
    for row, level in enumerate(heat.levels):
        yield Rect(x, top + ROW * row, 16, ROW - 3, COLOURS[level + SIDE])
    for row, level in enumerate(heat.levels):
        yield Text(x + 22, top + ROW * row + 11, heat.meaning(level))
    if heat.best is not None:
        first, last = heat.best
        y = top + ROW * len(heat.levels) + 8
        yield Line(((x, y), (x + 16, y), (x + 16, y + 14), (x, y + 14), (x, y)), "ink", 1.6)
        yield Text(x + 22, y + 11, f"best: {first}..{last}, {heat.values[heat.best]:+.3f}")
