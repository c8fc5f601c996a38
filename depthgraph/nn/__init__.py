"""From routes to torch: the compiler, captured activations, cost, and the reference decoder.

This folder is the part of the package that needs torch; `import depthgraph` does not load it.
"""

from depthgraph.errors import MissingPackageError

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    raise MissingPackageError(
        "missing-package",
        "depthgraph.nn needs torch, which is not installed",
        help='pip install "depthgraph[torch]"',
    ) from _error

from depthgraph.nn.capture import capture
from depthgraph.nn.compile import compile
from depthgraph.nn.conditioning import Lora, Norm, Scale, StepEmbedding
from depthgraph.nn.conditioning_build import Conditioning
from depthgraph.nn.cost import cost
from depthgraph.nn.decoder import Decoder
from depthgraph.nn.dynamic import DynamicModule
from depthgraph.nn.module import RoutedModule
from depthgraph.nn.unshare import merge, unshare

__all__ = [
    "Conditioning",
    "Decoder",
    "DynamicModule",
    "Lora",
    "Norm",
    "RoutedModule",
    "Scale",
    "StepEmbedding",
    "capture",
    "compile",
    "cost",
    "merge",
    "unshare",
]
