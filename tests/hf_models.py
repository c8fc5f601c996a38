"""Tiny Hugging Face models with random weights, by name; the same layers written out; and their prompts."""

import copy
import inspect
from typing import Any

import torch
import transformers

N = 4

SHARED: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": N,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "use_cache": True,
}
LLAMA: dict[str, Any] = {"intermediate_size": 48, "num_key_value_heads": 2}
MIXED = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
LINEAR = ["linear_attention", "full_attention", "linear_attention", "full_attention"]
EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}

#: Those that a user will look for first: each has every test of whole kinds.
MAIN: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", LLAMA),
    "qwen2": ("Qwen2", {**LLAMA, "use_sliding_window": True, "sliding_window": 5, "layer_types": MIXED}),
    "qwen3": ("Qwen3", {**LLAMA, "head_dim": 8}),
    "mistral": ("Mistral", {**LLAMA, "sliding_window": 5}),
    "gemma2": ("Gemma2", {**LLAMA, "head_dim": 8, "sliding_window": 5, "layer_types": MIXED}),
    "gemma3": ("Gemma3", {**LLAMA, "head_dim": 8, "sliding_window": 5, "layer_types": MIXED}),
    "gpt2": ("GPT2", {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}),
    "gpt_neox": ("GPTNeoX", {"intermediate_size": 48}),
}

#: Others, which show that nothing is made for those above.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mixtral": ("Mixtral", {**LLAMA, "num_local_experts": 4}),
    "qwen3_moe": ("Qwen3Moe", {**LLAMA, **EXPERTS, "num_experts": 4, "head_dim": 8}),
    "falcon": ("Falcon", {"new_decoder_architecture": False, "multi_query": True, "alibi": False}),
    "bloom": ("Bloom", {}),
    "phi3": ("Phi3", LLAMA),
    "olmo2": ("Olmo2", LLAMA),
    "smollm3": ("SmolLM3", {**LLAMA, "no_rope_layers": [1, 0, 1, 0]}),
    "opt": ("OPT", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "qwen3_next": (
        "Qwen3Next",
        {
            **LLAMA,
            **EXPERTS,
            "num_experts": 4,
            "shared_expert_intermediate_size": 16,
            "head_dim": 8,
            "layer_types": LINEAR,
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
        },
    ),
    "mamba": ("Mamba", {"state_size": 4, "time_step_rank": 4}),
}

MODELS = {**MAIN, **OTHERS}


def tiny(name: str, seed: int = 0, **changes: Any) -> Any:
    """Return a model of MODELS for inference, the same for the same seed.

    Args:
        name: its key.
        seed: of its weights.
        changes: settings of its config; `cls` is the end of its class's name instead of `ForCausalLM`.
    """
    stem, settings = MODELS[name]
    end = changes.pop("cls", "ForCausalLM")
    settings = {**SHARED, **settings, **changes}
    stems = {"Gemma3": "Gemma3Text"}
    config = getattr(transformers, f"{stems.get(stem, stem)}Config")(**settings)
    torch.manual_seed(seed)
    if end == "Model":
        stem = stems.get(stem, stem)
    end = {"GPT2ForCausalLM": "LMHeadModel"}.get(stem + end, end)
    return getattr(transformers, stem + end)(config).eval()


def unrolled(model: Any, path: tuple[int, ...]) -> Any:
    """Return a model with a layer of its own for every execution: what a route is, with the weights copied.

    Args:
        model: without a route.
        path: its layers, from 1, in the order of their executions.
    """
    config, depth = copy.deepcopy(model.config), model.config.num_hidden_layers
    for name, value in vars(config).items():
        if isinstance(value, list | tuple) and len(value) == depth:
            setattr(config, name, [value[layer - 1] for layer in path])
    config.num_hidden_layers = len(path)
    large = type(model)(config).eval().to(model.dtype)
    state, prefix = model.state_dict(), layers_of(model)[0]
    copied = {name: value for name, value in state.items() if not name.startswith(prefix)}
    for place, layer in enumerate(path):
        start = f"{prefix}{layer - 1}."
        copied |= {
            f"{prefix}{place}.{name.removeprefix(start)}": state[name] for name in state if name.startswith(start)
        }
    large.load_state_dict(copied)
    return large


#: What transformers calls the cache that a model is given and returns; before 5.24 it had other names, Mamba one of its own.
CACHE_NAMES = ("cache", "past_key_values", "cache_params")
CACHE = next(
    name for name in CACHE_NAMES if name in inspect.signature(transformers.LlamaForCausalLM.forward).parameters
)


def cache_of(output: Any) -> Any:
    """Return the cache in what a model, or `generate`, returned."""
    return getattr(output, next((name for name in CACHE_NAMES if hasattr(output, name)), CACHE))


def cache_for(model: Any, cache: Any) -> dict[str, Any]:
    """Return a cache as the argument of a model."""
    return {next(name for name in CACHE_NAMES if name in inspect.signature(model.forward).parameters): cache}


def layers_of(model: Any) -> tuple[str, Any]:
    """Return what the names of a model's layers start with, `model.layers.`, and the list of them."""
    [(name, layers)] = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList)
        and len(module) == model.config.num_hidden_layers
        and "expert" not in name
    ]
    return f"{name}.", layers


def prompts(*lengths: int, seed: int = 0) -> dict[str, torch.Tensor]:
    """Return a batch of prompts, padded on the left: `input_ids` and `attention_mask`, [batch, tokens]."""
    made = torch.Generator().manual_seed(seed)
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, -length:] = torch.randint(3, SHARED["vocab_size"], (length,), generator=made)
        mask[row, -length:] = 1
    return {"input_ids": ids, "attention_mask": mask}
