"""A difference of two routes in words."""

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING

from depthgraph.explore.measuring import Measures
from depthgraph.route import ranges
from depthgraph.symbols import is_flow

if TYPE_CHECKING:
    from depthgraph.explore.difference import Diff, Edit

#: Characters of a stretch; more are left out in the middle.
LONGEST = 60

#: The measures that a difference names, where they differ.
MEASURES: Mapping[str, Callable[[Measures], float]] = {
    "E": lambda found: found.executions,
    "multiplier": lambda found: found.multiplier,
    "max visits": lambda found: found.max_visits,
    "longest return": lambda found: found.longest_return,
}


def lines(diff: "Diff") -> Iterator[str]:
    """Yield the lines of a difference."""
    yield f"{_clipped(diff.one.text)} → {_clipped(diff.other.text)}"
    if diff.same:
        yield "the routes are equal"
        return
    before, after = diff.one.parameter_depth, diff.other.parameter_depth
    if before != after:
        yield f"N {before} → {after}"
    if diff.one.is_chain != diff.other.is_chain:
        yield (
            "the first is a chain, the second has data flow"
            if diff.one.is_chain
            else ("the first has data flow, the second is a chain")
        )
    for edit in diff.changes:
        yield from _EDITS[edit.kind](diff, edit)
    yield from _dropped(diff)
    yield from _visits(diff)
    changed = (
        f"{name} {_number(of(diff.measures[0]))} → {_number(of(diff.measures[1]))}"
        for name, of in MEASURES.items()
        if of(diff.measures[0]) != of(diff.measures[1])
    )
    summary = ", ".join(changed)
    if summary:
        yield summary


def _removed(diff: "Diff", edit: "Edit") -> Iterator[str]:
    yield f"{_where(diff, 0, edit.one)}: `{_stretch(diff, 0, edit.one)}` is gone"


def _added(diff: "Diff", edit: "Edit") -> Iterator[str]:
    yield f"{_after(diff, edit)}: `{_stretch(diff, 1, edit.other)}` is new"


def _replaced(diff: "Diff", edit: "Edit") -> Iterator[str]:
    new, old = _stretch(diff, 1, edit.other), _stretch(diff, 0, edit.one)
    yield f"{_where(diff, 0, edit.one)}: `{new}` instead of `{old}`"


def _repeated(diff: "Diff", edit: "Edit") -> Iterator[str]:
    unit = range(edit.other.start, edit.other.start + edit.unit)
    yield f"{_after(diff, edit)}: `{_stretch(diff, 1, unit)}` {_times(edit.other, edit.unit)} more"


def _shortened(diff: "Diff", edit: "Edit") -> Iterator[str]:
    unit = range(edit.one.start, edit.one.start + edit.unit)
    yield f"{_where(diff, 0, edit.one)}: `{_stretch(diff, 0, unit)}` {_times(edit.one, edit.unit)} less"


def _moved(diff: "Diff", edit: "Edit") -> Iterator[str]:
    there = _after(diff, diff.edits[edit.partner])
    yield f"{_where(diff, 0, edit.one)}: `{_stretch(diff, 0, edit.one)}` is {there} instead"


def _nothing(diff: "Diff", edit: "Edit") -> Iterator[str]:
    yield from ()


#: kind of edit → its lines; a move is said where it begins.
_EDITS: Mapping[str, Callable[["Diff", "Edit"], Iterator[str]]] = {
    "removed": _removed,
    "added": _added,
    "replaced": _replaced,
    "repeated": _repeated,
    "shortened": _shortened,
    "moved away": _moved,
    "moved here": _nothing,
}


def _dropped(diff: "Diff") -> Iterator[str]:
    before, after = set(diff.one.dropped), set(diff.other.dropped)
    for layers, what in ((sorted(after - before), "is dropped"), (sorted(before - after), "is no longer dropped")):
        if layers:
            yield f"{_layers(layers)} {what if len(layers) == 1 else what.replace('is', 'are', 1)}"


def _visits(diff: "Diff") -> Iterator[str]:
    """Yield the layers whose visits change, those with the same change together."""
    pairs = zip_longest(diff.one.reuse_map, diff.other.reuse_map, fillvalue=0)
    numbered = sorted((before, after, layer) for layer, (before, after) in enumerate(pairs, 1) if before != after)
    groups = [
        ([layer for _, _, layer in group], change) for change, group in groupby(numbered, key=lambda each: each[:2])
    ]
    for layers, (before, after) in sorted(groups):
        yield f"{_layers(layers)}: {before} → {after} visit{'s' if after != 1 else ''}"


def _layers(layers: list[int]) -> str:
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(ranges(layers))}"


def _stretch(diff: "Diff", which: int, places: range) -> str:
    return _clipped(diff.wording.text(diff.symbols[which][places.start : places.stop]))


def _where(diff: "Diff", which: int, places: range) -> str:
    """Return which executions stand at places; for operations of data flow alone, after which one they come."""
    before, size = (_executions(diff, which, each) for each in (range(places.start), places))
    if not size:
        return _place(before)
    return f"execution {before + 1}" if size == 1 else f"executions {before + 1}..{before + size}"


def _after(diff: "Diff", edit: "Edit") -> str:
    return _place(_executions(diff, 0, range(edit.one.start)))


def _place(executions: int) -> str:
    return f"after execution {executions}" if executions else "at the start"


def _executions(diff: "Diff", which: int, places: range) -> int:
    return sum(not is_flow(symbol) for symbol in diff.symbols[which][places.start : places.stop])


def _times(places: range, unit: int) -> str:
    times = len(places) // unit
    return {1: "once", 2: "twice"}.get(times, f"{times} times")


def _number(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 3 :]}"
