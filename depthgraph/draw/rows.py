"""The rows of data flow below a staircase, as shapes."""

from collections.abc import Callable, Iterator, Mapping

from depthgraph.draw.labels import text_width
from depthgraph.draw.scene import Line, Rect, Shape, Text
from depthgraph.draw.tracks import Mark, Score, Span, Track, has_registers

#: points: the height of a row, the room above the first one, the least distance of two marks of one kind.
ROW, ABOVE, LEAST = 16.0, 6.0, 1.5
#: points: half the width of an arrow head, and the least width of a cell in which one has room.
HEAD, ROOM = 3.0, 9.0
#: points that the last mark may use beyond the last column: no more than the picture's margin.
SPILL = 14.0
#: where in a column a state is loaded, read and saved: its own state is there last.
PLACES: Mapping[str, float] = {"load": 0.22, "read": 0.5, "save": 0.75}
#: what the legend says of each mark, in the order in which it says it.
LEGEND = (("save", "saved"), ("read", "read"), ("load", "loaded as h"))

#: where a column begins.
Across = Callable[[float], float]


def rows_height(score: Score) -> float:
    """Return how high all rows are together."""
    return ABOVE + ROW * len(score.tracks) if score.tracks else 0.0


def rows(score: Score, x: Across, left: float, top: float) -> Iterator[Shape]:
    """Yield the rows below the height `top`, with their names at the left."""
    size = x(1) - x(0)
    for index, track in enumerate(score.tracks):
        middle = top + ABOVE + ROW * (index + 0.5)
        yield Text(left - 7, middle + 3.5, track.label, "right", 10, "flow")
        yield Line(((left - 3, middle), (x(score.last + 1), middle)), "grid")
        yield from _lines(track, x, middle)
        marks = list(_apart(track, x))
        room = {mark.sign: x(score.last + 1) + max(size, SPILL) for mark in marks}
        for mark in reversed(marks):
            at = x(mark.column)
            yield from _mark(mark, x, middle, size, max(size, room[mark.sign] - at))
            room[mark.sign] = at


def _apart(track: Track, x: Across) -> Iterator[Mark]:
    """Yield the marks but those that would lie on one another: long routes stay small files."""
    before: dict[str, float] = {}
    for span in track.spans:
        for mark in span.marks:
            at = x(mark.column)
            if at - before.get(mark.sign, -LEAST) >= LEAST:
                before[mark.sign] = at
                yield mark


def _lines(track: Track, x: Across, middle: float) -> Iterator[Line]:
    for left, right in _merged(track, x):
        if right > left:
            yield Line(((left, middle), (right, middle)), "flow", 1.2, dashed=track.is_register)


def _merged(track: Track, x: Across) -> Iterator[tuple[float, float]]:
    """Yield where the lines of a row begin and end; those too short to be seen apart are one."""
    begin = end = None
    for span in track.spans:
        left, right = _ends(span, track.is_register, x)
        if end is not None and left - end < LEAST and right - left < LEAST:
            end = right
            continue
        if begin is not None and end is not None:
            yield begin, end
        begin, end = left, right
    if begin is not None and end is not None:
        yield begin, end


def _ends(span: Span, is_register: bool, x: Across) -> tuple[float, float]:
    if is_register:
        return x(span.first + PLACES["save"]), x(span.last + PLACES[span.marks[-1].sign])
    return x(span.first), x(span.last + 0.5) if span.last > span.first else x(span.first)


def _mark(mark: Mark, x: Across, middle: float, size: float, room: float) -> Iterator[Shape]:
    match mark.sign:
        case "operation" | "join":
            width = max(1.0, size - min(1.5, size * 0.12))
            yield Rect(x(mark.column), middle - 5, width, 10, "flow")
        case "exit":
            yield from _exit(mark, x(mark.column), middle, room)
        case "fork":
            yield Line(((x(mark.column), middle - 5), (x(mark.column), middle + 5)), "flow", 1.2)
        case "save":
            width = min(5.0, size / 2)
            yield Rect(x(mark.column + PLACES["save"]) - width / 2, middle - 2.5, width, 5, "flow")
        case "read" | "load":
            yield from _arrow(x(mark.column + PLACES[mark.sign]), middle, room >= ROOM, mark.sign == "load")


def _exit(mark: Mark, left: float, middle: float, room: float) -> Iterator[Shape]:
    """An arrow down, out of the picture, and the exit's number where there is room for it."""
    number, x = str(mark.number), left + min(HEAD + 1, room / 2)
    yield Line(((x, middle - 5), (x, middle + 5)), "flow", 1.2)
    if room >= ROOM:
        yield Line(((x - HEAD, middle + 2), (x, middle + 5), (x + HEAD, middle + 2)), "flow", 1.2)
    if room >= 2 * HEAD + 2 + text_width(number, 8):
        yield Text(x + HEAD + 1, middle + 3, number, size=8, colour="flow")


def _arrow(x: float, middle: float, has_room: bool, is_load: bool) -> Iterator[Shape]:
    """An arrow up to the column that reads; with a bar on top, where the state becomes h."""
    yield Line(((x, middle), (x, middle - 6)), "flow", 1.2)
    if has_room:
        yield Line(((x - HEAD, middle - 3), (x, middle - 6), (x + HEAD, middle - 3)), "flow", 1.2)
        if is_load:
            yield Line(((x - HEAD, middle - 7.5), (x + HEAD, middle - 7.5)), "flow", 1.2)


def legend(score: Score, left: float, y: float) -> Iterator[Shape]:
    """Yield what the marks of registers mean, at the right of the axis's name; nothing without registers."""
    if not has_registers(score):
        return
    x = left + text_width("execution", 9) + 16
    for sign, text in LEGEND:
        if sign == "save":
            yield Rect(x, y - 5.5, 5, 5, "flow")
        else:
            yield from _arrow(x + HEAD, y, True, sign == "load")
        yield Text(x + 10, y, text, size=9, colour="faint")
        x += 10 + text_width(text, 9) + 10


def legend_width(score: Score) -> float:
    """Return how wide the axis's name and the legend are."""
    if not has_registers(score):
        return 0.0
    return text_width("execution", 9) + 16 + sum(20 + text_width(text, 9) for _, text in LEGEND)
