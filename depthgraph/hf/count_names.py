"""Names that a loop count of a Hugging Face model cannot have: something else is given by them."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from transformers import GenerationConfig
from transformers.generation import GenerationMixin
from transformers.utils.generic import TransformersKwargs

from depthgraph.errors import CompileError

#: What only the loss takes.
LOSS_KEYWORDS = frozenset({"num_items_in_batch", "shift_labels", "ignore_index"})

#: What models take without a word of it in their signature: older names of the cache, and how they return.
OLDER = frozenset({"past_key_values", "cache_params", "return_dict"})


def check_count_names(names: Iterable[str], *forwards: Callable[..., Any]) -> None:
    """Refuse counts that could not be given to a model.

    Args:
        names: of the counts.
        forwards: of the model, and of the module in it that has the layers.

    Raises:
        CompileError: `layer-inputs`.
    """
    taken = {*vars(GenerationConfig()), *TransformersKwargs.__optional_keys__, *LOSS_KEYWORDS, *OLDER}
    for function in (*forwards, GenerationMixin.generate):
        taken |= set(inspect.signature(function).parameters)
    for name in names:
        if name in taken:
            message = f"`{name}` is a loop count, and an argument of `forward` or of `generate`"
            raise CompileError("layer-inputs", message, help="give the count another name in the spec")
