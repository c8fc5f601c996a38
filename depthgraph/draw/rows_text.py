"""The rows of data flow below a staircase, as text: two characters a column, what is read and what is saved."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile

from depthgraph.draw.tracks import Mark, Score, Span, Track


@dataclass(frozen=True, slots=True)
class FlowSigns:
    """The characters that rows of data flow are made of."""

    operation: str
    exit: str
    fork: str
    next_fork: str
    line: str
    save: str
    read: str
    load: str
    both: str
    kept: str


FLOW_UNICODE = FlowSigns("◆", "▽", "├", "┼", "─", "●", "▲", "△", "■", "╌")
FLOW_ASCII = FlowSigns("*", "v", "+", "+", "-", "o", "^", "=", "%", ".")
#: writes a sign at a place.
Put = Callable[[int, str], None]
#: the largest number that a column has room for.
LARGEST = 99


def track_row(track: Track, start: int, length: int, signs: FlowSigns) -> str:
    """Return the columns `start` … `start + length - 1` of a row."""
    line = [" "] * (2 * length)

    def put(place: int, sign: str) -> None:
        """Write at a place, counted from that of the first character of column 0, if it is in this block."""
        if 0 <= place - 2 * start < len(line):
            line[place - 2 * start] = sign

    end = start + length
    for span in track.spans[bisect_left(track.spans, start, key=lambda one: one.last) :]:
        if span.first >= end:
            break
        sign = signs.kept if track.is_register else signs.line
        begin = 2 * span.first + (2 if track.is_register else 0)
        for place in range(max(begin, 2 * start), min(2 * span.last, 2 * end)):
            put(place, sign)
        here = bisect_left(span.marks, start, key=lambda one: one.column)
        before = None
        for mark in takewhile(lambda one: one.column < end, islice(span.marks, here, None)):
            _write(mark, span, put, signs)
            if before and before.column == mark.column and before.sign != "save":
                put(2 * mark.column, signs.both)
            before = mark
    return "".join(line)


def _write(mark: Mark, span: Span, put: Put, signs: FlowSigns) -> None:
    place = 2 * mark.column
    match mark.sign:
        case "operation" | "join":
            put(place, signs.operation)
        case "exit":
            for offset, sign in enumerate(str(mark.number) if mark.number <= LARGEST else signs.exit):
                put(place + offset, sign)
        case "fork":
            put(place, signs.fork if mark is span.marks[0] else signs.next_fork)
        case "save":
            put(place + 1, signs.save)
        case "read":
            put(place, signs.read)
        case "load":
            put(place, signs.load)


def legend(score: Score, signs: FlowSigns) -> str:
    """Return what the signs of registers mean; `score` has at least one register."""
    marks = [mark for track in score.tracks if track.is_register for span in track.spans for mark in span.marks]
    found = {mark.sign for mark in marks}
    words = (("save", signs.save, "saved"), ("read", signs.read, "read"), ("load", signs.load, "loaded as h"))
    shown = [f"{sign} {word}" for name, sign, word in words if name in found]
    spans = (span.marks[1:] for track in score.tracks if track.is_register for span in track.spans)
    if any(a.column == b.column for each in spans for a, b in pairwise(each)):
        shown.append(f"{signs.both} both")
    return "  ".join(shown)
