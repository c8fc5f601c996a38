"""Lines with rounded corners, as Graphviz writes them."""

from math import hypot

Point = tuple[float, float]

#: how long the arrow head is, in points: Graphviz draws it beyond the end of the line.
HEAD = 6.0
#: a control point this far towards the corner makes a cubic curve look like a quarter of a circle.
_ROUND = 0.55


def spline(corners: list[Point], radius: float = 7) -> str:
    """Return the `pos` of an edge along these points, rounded at each corner, with an arrow at the last.

    Examples:
        >>> spline([(0, 0), (0, 36)])
        'e,0,36 0,0 0,10 0,20 0,30'
    """
    *rest, tip = corners
    path = [*rest, _towards(tip, rest[-1], HEAD)]
    points = [path[0]]
    for before, corner, after in zip(path, path[1:], path[2:], strict=False):
        reach = min(radius, _distance(before, corner) / 2, _distance(corner, after) / 2)
        start, end = _towards(corner, before, reach), _towards(corner, after, reach)
        points += _straight(points[-1], start)
        points += [_between(start, corner, _ROUND), _between(end, corner, _ROUND), end]
    points += _straight(points[-1], path[-1])
    return f"e,{at(tip)} " + " ".join(at(point) for point in points)


def at(point: Point) -> str:
    """Return a point as Graphviz writes it."""
    return f"{number(point[0])},{number(point[1])}"


def number(value: float) -> str:
    """Return a length with at most two decimals, the same on every machine."""
    return f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")


def _straight(start: Point, end: Point) -> list[Point]:
    return [_between(start, end, 1 / 3), _between(start, end, 2 / 3), end]


def _between(start: Point, end: Point, share: float) -> Point:
    return (start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share)


def _distance(a: Point, b: Point) -> float:
    return hypot(a[0] - b[0], a[1] - b[1])


def _towards(start: Point, end: Point, length: float) -> Point:
    return _between(start, end, length / (_distance(start, end) or 1.0))
