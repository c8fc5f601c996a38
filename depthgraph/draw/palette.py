"""The colours of all pictures: light fills that carry dark text, and a few inks.

A layer has one colour in every view. Colours run from cold (layer 1) to warm (layer N), so that a picture shows
depth even where its labels are too small to read.
"""

#: Paul Tol's "light" scheme, made for filling labelled cells: distinct for colour-blind readers, and dark text
#: reads on each (https://personal.sron.nl/~pault). Here in the order of hue, without its grey and olive.
ANCHORS = ("#77aadd", "#99ddff", "#44bb99", "#bbcc33", "#eedd88", "#ee8866", "#ffaabb")

INK = "#1f2328"
LINE = "#57606a"
FAINT = "#6e7781"
LOOP = "#6f42c1"
#: data flow: what registers carry, operations and exits.
FLOW = "#0b6b5e"
PAPER = "#ffffff"
BAND = "#f3f0fa"
GRID = "#eaeef2"
TERMINAL = "#f6f8fa"

FONT = "Helvetica"


def fill(layer: int, parameter_depth: int) -> str:
    """Return the colour of a layer of a model with N layers, as `#rrggbb`.

    Examples:
        >>> fill(1, 7), fill(7, 7)
        ('#77aadd', '#ffaabb')
    """
    place = (layer - 1) * (len(ANCHORS) - 1) / max(1, parameter_depth - 1)
    index = min(int(place), len(ANCHORS) - 2)
    low, high = _channels(ANCHORS[index]), _channels(ANCHORS[index + 1])
    share = place - index
    mixed = (round(a + (b - a) * share) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
