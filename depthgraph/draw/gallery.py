"""Many routes at a glance: one small staircase each, all alike.

A staircase, and not the folded view: it tells every kind of route from the others at a small size, shows loops, data
flow and branches without lines that cross, and needs no Graphviz, so that its bytes are the same on every machine.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from depthgraph.draw import scene
from depthgraph.draw.labels import clean
from depthgraph.draw.scene import Text
from depthgraph.draw.staircase import MARGIN, Size, staircase
from depthgraph.errors import DrawError
from depthgraph.route import Route
from depthgraph.whole_file import check_place, write_whole

SMALL = Size(across=340.0, up=190.0, largest=13.0, least=410.0)
#: the height of the base lines of title and source.
TITLE, SOURCE = 22.0, 37.0
#: characters of a file's name.
LONGEST = 60


class Entry(NamedTuple):
    """A route of a gallery.

    Attributes:
        title: its name.
        source: where it comes from.
        text: how it is written.
        route: the route.
    """

    title: str
    source: str
    text: str
    route: Route


def gallery(entries: Iterable[Entry | tuple[str, str, str, Route]], folder: str | os.PathLike[str]) -> list[Path]:
    """Write one small picture for each route, as SVG.

    The same entries give the same files with the same bytes. The names of the files come from the titles; of equal
    ones, the second has a `-2`.

    Args:
        entries: title, source, text and route of each.
        folder: where the files go; it exists.

    Returns:
        the files, in the order of the entries.

    Raises:
        DrawError: `missing-file`, for a folder that does not exist or a file that cannot be written;
            `too-large-to-draw`.
    """
    listed = [Entry(*entry) for entry in entries]
    targets = [Path(folder) / f"{name}.svg" for name in _names(entry.title for entry in listed)]
    for target in targets:
        check_place(target, DrawError)
    for entry, target in zip(listed, targets, strict=True):
        write_whole(target, thumbnail(entry).encode(), DrawError)
    return targets


def thumbnail(entry: Entry) -> str:
    """Return the small picture of one route as an SVG document."""
    above = (
        Text(MARGIN, TITLE, clean(entry.title), size=13, colour="ink"),
        Text(MARGIN, SOURCE, clean(entry.source), size=9, colour="faint"),
    )
    spec = clean(" ".join(entry.text.split()))
    return scene.svg(staircase(entry.route, size=SMALL, above=above, spec=spec))


def _names(titles: Iterable[str]) -> Iterator[str]:
    """Yield a name for the file of each title: small ASCII letters, digits and hyphens, each name once."""
    used: set[str] = set()
    for title in titles:
        base = re.sub(r"[^a-z0-9]+", "-", title.lower())[:LONGEST].strip("-") or "route"
        name, number = base, 1
        while name in used:
            number += 1
            name = f"{base}-{number}"
        used.add(name)
        yield name
