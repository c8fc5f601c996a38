"""The notations there are."""

from collections.abc import Mapping
from types import MappingProxyType

from depthgraph.formats.executorch import EXECUTORCH
from depthgraph.formats.exllamav3 import EXLLAMAV3
from depthgraph.formats.ilr import ILR
from depthgraph.formats.mergekit import MERGEKIT
from depthgraph.formats.notation import Notation
from depthgraph.formats.numbers import NUMBERS
from depthgraph.formats.peft import PEFT
from depthgraph.formats.rys import RYS
from depthgraph.formats.x_transformers import X_TRANSFORMERS
from depthgraph.formats.x_transformers_repeat import X_TRANSFORMERS_REPEAT

#: name → notation. To add one: a file with its record, and a row here.
NOTATIONS: Mapping[str, Notation] = MappingProxyType(
    {
        each.name: each
        for each in (
            X_TRANSFORMERS,
            X_TRANSFORMERS_REPEAT,
            EXLLAMAV3,
            RYS,
            PEFT,
            MERGEKIT,
            EXECUTORCH,
            ILR,
            NUMBERS,
        )
    }
)
