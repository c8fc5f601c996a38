"""What pictures call the layers, and how wide that is.

Names come from users: of modules, checkpoints, papers. Here they lose what no picture can show; each output
format then escapes them in its own way, and none ever uses them as ids.
"""

import re
from collections.abc import Mapping, Sequence

from depthgraph.errors import DrawError
from depthgraph.route import Route
from depthgraph.source import cells

#: labels for layers: a mapping from layer numbers, or one label for each layer 1 … N in order.
Names = Mapping[int, str] | Sequence[str]

#: characters of a name; Graphviz reads no string over 16 kB.
LONGEST = 200

#: what XML cannot carry, and the marks that reorder the text around them.
_UNSHOWABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_SPACES = str.maketrans({"\n": "↵", "\r": "↵", "\t": " "})
_NARROW = frozenset(" .,:;'|!()[]{}iljtfrI·1-")


def labels(route: Route, names: Names | None = None) -> tuple[str, ...]:
    """Return the label of each layer 1 … N: the caller's, or `L1` … where there is none.

    Raises:
        DrawError: `unknown-layer` or `layer-count`, for names that do not fit the route's layers.
    """
    given = _by_layer(route, names)
    return tuple(clean(given.get(layer, "")) or f"L{layer}" for layer in range(1, route.parameter_depth + 1))


def _by_layer(route: Route, names: Names | None) -> dict[int, str]:
    depth = route.parameter_depth
    if names is None:
        return {}
    if isinstance(names, Mapping):
        wrong = next((layer for layer in names if layer not in range(1, depth + 1)), None)
        if wrong is not None:
            message = f"a name is given for layer {wrong!r}, which does not exist"
            raise DrawError("unknown-layer", message, help=f"layers are numbered 1..{depth}")
        return dict(names)
    if len(names) != depth:
        message = f"{len(names)} names are given for the {depth} layers of this route"
        raise DrawError("layer-count", message, help="give one for each layer, or a mapping from layer numbers")
    return dict(enumerate(names, 1))


def clean(text: str) -> str:
    r"""Return a text with every character that a picture cannot show replaced by one that stands for it.

    One over 200 characters ends in an ellipsis.

    Examples:
        >>> clean("a\nb")
        'a↵b'
    """
    return clipped(_UNSHOWABLE.sub("\ufffd", str(text).translate(_SPACES)), LONGEST)


def clipped(text: str, length: int) -> str:
    """Return the text, or its beginning and an ellipsis when it has more than `length` characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is in a sans-serif font of this size, rather too wide than too narrow."""
    ems = (0.36 if char in _NARROW else 0.65 * max(1, cells(char)) for char in text)
    return size * sum(ems)
