"""Hugging Face models under any route: one call, one cache slot for every execution, saved once, loaded anywhere.

This folder needs transformers; `import depthgraph` does not load it. Importing it makes transformers' auto classes know
checkpoints with a route.
"""

from depthgraph.errors import MissingPackageError

try:
    import transformers as _transformers  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "transformers":
        raise
    raise MissingPackageError(
        "missing-package",
        "depthgraph.hf needs transformers, which is not installed",
        help='pip install "depthgraph[hf]"',
    ) from _error

from depthgraph.hf.card import model_card, save_card
from depthgraph.hf.decoder_base import DepthGraphModel
from depthgraph.hf.decoder_config import DepthGraphConfig
from depthgraph.hf.decoder_model import DepthGraphForCausalLM, from_decoder
from depthgraph.hf.flops import RouteFlops, training_flops
from depthgraph.hf.reroute import from_pretrained, reroute, restore
from depthgraph.hf.standalone import save_standalone
from depthgraph.hf.unrolled import save_unrolled, unroll
from depthgraph.hf.unused import unused_parameters

__all__ = [
    "DepthGraphConfig",
    "DepthGraphForCausalLM",
    "DepthGraphModel",
    "RouteFlops",
    "from_decoder",
    "from_pretrained",
    "model_card",
    "reroute",
    "restore",
    "save_card",
    "save_standalone",
    "save_unrolled",
    "training_flops",
    "unroll",
    "unused_parameters",
]
