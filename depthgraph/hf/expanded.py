"""The config of a model with a layer of its own for every execution: settings for each layer, said for each copy."""

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from depthgraph.errors import CompileError

#: From the value of a setting, the layers of a path (from 0) and the number of layers to the value for their copies.
Expand = Callable[[Any, Sequence[int], int], Any]

HELP = "save_standalone exports any route"


def _each(value: Any, path: Sequence[int], depth: int) -> Any:
    """Expand a list with an entry for each layer."""
    return type(value)(value[layer] for layer in path)


def _indexes(value: Any, path: Sequence[int], depth: int) -> Any:
    """Expand a list of those layers that are something, from 0."""
    return [place for place, layer in enumerate(path) if layer in value]


def _leading(value: Any, path: Sequence[int], depth: int) -> Any:
    """Expand the number of layers at the start that are something."""
    return sum(1 for _ in takewhile(lambda layer: layer < value, path))


def _grouped(value: Any, path: Sequence[int], depth: int) -> Any:
    """Expand GPT-Neo's `[[["global", "local"], 12]]`: a pattern, and how often it comes."""
    flat = [kind for kinds, count in value for _ in range(count) for kind in kinds]
    return [[[flat[layer]], 1] for layer in path]


#: Settings that say something of single layers → how they are said of copies. transformers 5.24 has these.
EXPANDED: Mapping[str, Expand] = {
    **dict.fromkeys(
        [
            "attention_layers", "indexer_types", "layer_rope_theta", "layer_types", "layers_block_type",
            "layers_num_experts", "mlp_layer_types", "no_rope_layers", "num_key_value_heads_per_layer",
            "sliding_windows", "swiglu_limits", "swiglu_limits_shared",
        ],
        _each,
    ),
    "attention_types": _grouped,
    "first_k_dense_replace": _leading,
    "mlp_only_layers": _indexes,
    "moe_layers": _indexes,
    "num_dense_layers": _leading,
}  # fmt: skip

#: Lists that say nothing of single layers, however long they are.
OTHER_LISTS = frozenset({"architectures", "bad_words_ids", "begin_suppress_tokens", "eos_token_id", "suppress_tokens"})


def expanded_config(config: Any, path: Sequence[int]) -> Any:
    """Return the config of a model whose layers are copies.

    Args:
        config: without a route; its decoder's part is changed in the copy where it has several.
        path: which layer each copy is of, from 0.

    Raises:
        CompileError: `cannot-unroll`: it has a list with as many entries as the model has layers, whose meaning is not
            known.
    """
    whole = copy.deepcopy(config)
    text = whole.get_text_config(decoder=True)
    depth = text.num_hidden_layers
    for name, value in list(vars(text).items()):
        expand = EXPANDED.get(name)
        if value is None or name.startswith("_"):
            continue
        if expand is not None:
            setattr(text, name, expand(value, path, depth))
        elif isinstance(value, list | tuple) and len(value) == depth > 1 and name not in OTHER_LISTS:
            message = f"`{name}` of the config has {depth} entries, as many as there are layers, and is not known"
            raise CompileError("cannot-unroll", message, help=HELP)
    text.num_hidden_layers = len(path)
    return whole
