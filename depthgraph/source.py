"""Where a spec's text came from, spans in it, and how they are shown.

A spec is often one value inside a YAML file. `Source` keeps both: the spec itself, which the parser reads,
and the file around it, which is what an error shows to its reader.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a source text: the characters `start` to `end`, `end` excluded, counted from 0."""

    start: int
    end: int

    def to(self, other: "Span") -> "Span":
        """Return the span from the start of this one to the end of `other`."""
        return Span(self.start, max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Source:
    """A spec's text, and the file that it stands in, if any.

    Attributes:
        text: the spec.
        name: the file's name, or what stands for one.
        container: the whole text of the file, when the spec is a part of it.
        offsets: for each character of `text`, and for its end, the index in `container`.
    """

    text: str
    name: str = "<spec>"
    container: str | None = None
    offsets: Sequence[int] | None = None

    def locate(self, span: Span) -> "Location":
        """Return line, column and line text of a span, in the file when there is one."""
        text, start, end = self.text, span.start, span.end
        if self.container is not None and self.offsets is not None:
            text = self.container
            last = max(span.start, span.end - 1)
            start, end = self.offsets[span.start], self.offsets[last] + (span.end > span.start)
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        line_end = len(text) if line_end < 0 else line_end
        width = max(1, min(end, line_end) - start)
        return Location(text.count("\n", 0, start) + 1, start - line_start + 1, width, text[line_start:line_end])


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file as its reader counts: line and column from 1, width in characters."""

    line: int
    column: int
    width: int
    text: str

    def picture(self) -> str:
        """Return the source line with a caret under the whole span."""
        text, start = clipped(self.text, self.column - 1)
        number = f"{self.line:>4}"
        padding = "".join("\t" if c == "\t" else " " * cells(c) for c in text[:start])
        marked = text[start : start + self.width]
        carets = "^" * max(1, sum(cells(c) for c in marked))
        text = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)
        return f"{number} | {text}\n{' ' * len(number)} | {padding}{carets}"


def clipped(text: str, column: int, width: int = 160) -> tuple[str, int]:
    """Return a window of a long line around a column, and the column in that window."""
    if len(text) <= width:
        return text, column
    start = max(0, min(column - width // 2, len(text) - width))
    before, after = "…" if start else "", "…" if start + width < len(text) else ""
    return before + text[start : start + width] + after, column - start + len(before)


def cells(character: str) -> int:
    """Return how many terminal cells a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
