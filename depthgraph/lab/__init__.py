"""Controlled experiments: text and tokens, training, checkpoints.

This folder needs torch, tokenizers and safetensors; `import depthgraph` does not load it.
"""

from depthgraph.errors import MissingPackageError

try:
    import safetensors as _safetensors  # noqa: F401
    import tokenizers as _tokenizers  # noqa: F401
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name not in ("torch", "tokenizers", "safetensors"):
        raise
    raise MissingPackageError(
        "missing-package",
        f"training needs {_error.name}, which is not installed",
        help='pip install "depthgraph[train]"',
    ) from _error

from depthgraph.lab.checkpoint import Checkpoint, latest_checkpoint, load_decoder, load_weights
from depthgraph.lab.log import read_log
from depthgraph.lab.train import Result, train

__all__ = ["Checkpoint", "Result", "latest_checkpoint", "load_decoder", "load_weights", "read_log", "train"]
