"""A heat map for a terminal: a sign for each block of layers, which a colour repeats."""

from collections.abc import Iterator
from dataclasses import dataclass

from depthgraph.draw.heat import Heat

#: The sign of each level: letters for better, digits for worse.
SIGNS: dict[int | None, str] = {level: sign for level, sign in zip(range(-5, 6), "edcba.12345", strict=True)}
SIGNS[None] = "?"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a line.

    Attributes:
        text: what stands there.
        level: of the value that it is; None for text that is no value.
    """

    text: str
    level: int | None = None


def heat_lines(heat: Heat, width: int) -> Iterator[list[Piece]]:
    """Yield the lines of a heat map: a row a first layer, a column a last layer, and what the signs mean.

    Args:
        heat: the map.
        width: of the screen. Cells are two characters wide, or one where there is no room; wider maps are left out.
    """
    yield [Piece(heat.title)]
    for note in heat.notes:
        yield [Piece(note)]
    margin = max(len("first"), len(str(heat.rows[-1]))) + 1
    cell = 2 if margin + 2 * len(heat.columns) <= width else 1
    if margin + cell * len(heat.columns) > width:
        yield [Piece(f"the map is {margin + len(heat.columns)} characters wide: see the picture")]
        return
    yield []
    yield [Piece(" " * margin + "last layer")]
    yield [Piece("first".ljust(margin) + _numbers(heat.columns, cell))]
    for first in heat.rows:
        yield [Piece(str(first).rjust(margin - 1) + " "), *_row(heat, first, cell)]
    yield []
    for level in heat.levels:
        yield [Piece(SIGNS[level].ljust(cell), level), Piece(f" {heat.meaning(level)}")]


def _row(heat: Heat, first: int, cell: int) -> Iterator[Piece]:
    for last in heat.columns:
        value = heat.values.get((first, last))
        level = None if value is None else heat.level(value)
        yield Piece((" " if value is None else SIGNS[level]).ljust(cell), level)


def _numbers(columns: tuple[int, ...], cell: int) -> str:
    """Return the numbers above the columns, as many as fit: each begins where its column does."""
    line = ""
    for index, layer in enumerate(columns):
        if len(line) <= cell * index:
            line = line.ljust(cell * index) + f"{layer} "
    return line.rstrip()
