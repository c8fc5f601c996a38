"""Routes in the notations of other projects, both ways.

Examples:
    >>> from depthgraph import formats
    >>> print(formats.read("peft", [[0, 4], [2, 5]]))
    1..4 3..5
    >>> formats.write("exllamav3", formats.read("peft", [[0, 4], [2, 5]]))
    '0..3,2..4'
"""

from depthgraph.formats.notation import Notation, Option
from depthgraph.formats.table import NOTATIONS
from depthgraph.formats.translate import Reading, read, reading, write, write_text

__all__ = ["NOTATIONS", "Notation", "Option", "Reading", "read", "reading", "write", "write_text"]
