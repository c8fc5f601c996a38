"""A model with a layer of its own for every execution, for engines that know no sharing: llama.cpp, vLLM and others."""

import copy
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.initialization import no_init_weights

from depthgraph.errors import CompileError, ConfigError
from depthgraph.hf.card import save_card
from depthgraph.hf.expanded import HELP, expanded_config
from depthgraph.hf.reroute import routed_top, routing_or_error
from depthgraph.hf.settings import unset_route
from depthgraph.hf.standalone import check_weights, save_tokenizer
from depthgraph.operations import Execution, StopGradient
from depthgraph.route import Route
from depthgraph.whole_file import whole_folder

#: Tokens on which the two models are compared.
TOKENS = 16


def unroll(model: nn.Module, **counts: int) -> PreTrainedModel:
    """Return a plain model with E layers, each a copy of the layer that the execution at its place runs.

    It is of the model's own class, without a route, and its logits are those of the model to the last bit: that is
    checked before it is returned. Nothing in it is shared with the model, and it is E/N times as large in its layers.

    Args:
        model: of transformers, with a route over its layers that has no data flow.
        counts: of the loops whose count is chosen at run time; by default those that the model was trained with.

    Raises:
        CompileError: `no-compiled-route`, `loop-count`, `unroutable-model`; `cannot-unroll`: no plain model computes
            the same.
    """
    top, routing = routed_top(model), routing_or_error(model)
    route = routing.at(counts).route
    check_weights(top, routing)
    _check_plain(top, routing.settings.kv_cache, route)
    path = [layer - 1 for layer in route.path]
    config = copy.deepcopy(top.config)
    unset_route(config)
    with no_init_weights():
        twin: PreTrainedModel = top._base(expanded_config(config, path)).eval()
    _take_weights(twin, top, routing.layers.prefix, path)
    _check_layers(twin, top, routing.layers.prefix, path)
    if getattr(top, "generation_config", None) is not None:
        twin.generation_config = copy.deepcopy(top.generation_config)
    _check_logits(twin, top, counts)
    return twin.train(top.training)


def save_unrolled(model: nn.Module, folder: str | os.PathLike[str], *, tokenizer: Any = None, **counts: int) -> Path:
    """Save what `unroll` returns, in the format and under the names that transformers has for a plain model.

    An engine that reads the config's lists for single layers (`layer_types` …) runs it as it is. One that takes the
    kind of a layer from its number, as llama.cpp does for some models with sliding windows, needs a route that keeps
    the pattern: that is seen by no check here.

    Args:
        model: as for `unroll`.
        folder: that does not exist, or is empty. It appears whole or not at all: only after the model was loaded from
            it and its logits were those of `model` to the last bit.
        tokenizer: to be saved with it; or a folder whose tokenizer's files are copied as they are.
        counts: as for `unroll`.

    Returns:
        the folder.

    Raises:
        CompileError: as `unroll`.
        ConfigError: `existing-files`, `missing-file`.
    """
    top = routed_top(model)
    with whole_folder(Path(folder), ConfigError) as aside:
        twin: Any = unroll(model, **counts)
        twin.save_pretrained(aside)
        save_tokenizer(tokenizer, aside)
        del twin
        loaded, told = top._base.from_pretrained(aside, dtype=top.dtype, output_loading_info=True)
        wrong = {name: keys for name, keys in told.items() if keys}
        if wrong:
            raise _refused(f"what was saved does not load again: {wrong}")
        _check_logits(loaded.to(top.device).eval(), top, counts)
        save_card(top, aside, saved="unrolled", place=Path(folder).name, **counts)
    return Path(folder)


def _refused(reason: str) -> CompileError:
    return CompileError("cannot-unroll", reason, help=HELP)


def _check_plain(model: Any, kv_cache: str, route: Route) -> None:
    """Refuse what a model without a route has no place for."""
    flow = [each for each in route.operations if not isinstance(each, Execution | StopGradient)]
    if flow:
        kind = type(flow[0]).__name__.lower()
        raise _refused(f"a plain model hands its state from layer to layer, and the route has data flow: `{kind}`")
    if kv_cache != "per_execution":
        message = (
            f"the model decodes with kv_cache={kv_cache!r}, and a plain model keeps keys and values of every layer"
        )
        raise CompileError("cannot-unroll", message, help='reroute it with kv_cache="per_execution" if that is right')
    places = {tensor.device for tensor in (*model.parameters(), *model.buffers())}
    if len(places) > 1 or torch.device("meta") in places:
        raise _refused("its weights are on several devices, or offloaded; load it onto one")
    if getattr(model, "hf_quantizer", None) is not None:
        raise _refused("its weights are quantized; load it without")


def _take_weights(twin: PreTrainedModel, model: Any, prefix: str, path: Sequence[int]) -> None:
    """Give copies of all weights and buffers to a model; those that are not saved too."""
    state: dict[str, Tensor] = model.state_dict()
    try:
        loaded = {name: tensor.detach().clone() for name, tensor in _renamed(state, prefix, path)}
        twin.load_state_dict(loaded, strict=True, assign=True)
    except RuntimeError as error:
        raise _refused(f"its copies are of another kind than its layers: {error}") from None
    twin.tie_weights()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name not in state}
    for name, buffer in _renamed(buffers, prefix, path):
        owner, _, last = name.rpartition(".")
        twin.get_submodule(owner)._buffers[last] = buffer.detach().clone()


def _renamed(tensors: dict[str, Tensor], prefix: str, path: Sequence[int]) -> Iterator[tuple[str, Tensor]]:
    """Yield tensors by the names that they have in the other model, those of a layer for each of its copies."""
    places: dict[int, list[int]] = {}
    for place, layer in enumerate(path):
        places.setdefault(layer, []).append(place)
    for name, tensor in tensors.items():
        if not name.startswith(prefix):
            yield name, tensor
            continue
        number, _, rest = name.removeprefix(prefix).partition(".")
        for place in places.get(int(number), ()):
            yield f"{prefix}{place}.{rest}", tensor


def _check_layers(twin: nn.Module, model: nn.Module, prefix: str, path: Sequence[int]) -> None:
    """Refuse a copy that was built otherwise than its layer, because layers of this model depend on their place."""
    for place, layer in enumerate(path):
        one, other = (each.get_submodule(f"{prefix}{index}") for each, index in ((model, layer), (twin, place)))
        for (name, mine), (_, its) in zip(one.named_modules(), other.named_modules(), strict=False):
            differing = _differing(mine, its, layer, place)
            if differing:
                where = f"{type(mine).__name__}.{differing}" + (f" at `{name}`" if name else "")
                raise _refused(f"layer {layer + 1} would be another one at place {place + 1}: {where} depends on it")


def _differing(one: nn.Module, other: nn.Module, layer: int, place: int) -> str:
    """Return the name of a setting that two modules have otherwise; empty where there is none.

    A number that is as far from one index as from the other is the index itself, under one of its many names.
    """
    if type(one) is not type(other):
        return "__class__"
    for name, value in vars(one).items():
        if name.startswith("_") or name == "training" or not isinstance(value, bool | int | float | str | None):
            continue
        its = vars(other).get(name)
        is_index = type(value) is int and type(its) is int and value - layer == its - place
        if value != its and not is_index:
            return name
    return ""


@torch.no_grad()
def _check_logits(twin: Any, model: Any, counts: dict[str, int]) -> None:
    """Refuse a model that computes something else, on some tokens.

    Raises:
        CompileError: `cannot-unroll`.
    """
    config, was_training = model.config.get_text_config(decoder=True), model.training
    routing, has_warned = model.routing, model.routing.has_warned
    made = torch.Generator().manual_seed(0)
    length = min(TOKENS, getattr(config, "max_position_embeddings", None) or TOKENS)
    tokens = torch.randint(config.vocab_size, (2, length), generator=made).to(model.device)
    routing.has_warned = True  # the caller chose the counts, and these tokens are not the caller's
    try:
        wanted, found = model.eval()(tokens, use_cache=False, **counts)[0], twin(tokens, use_cache=False)[0]
    finally:
        model.train(was_training)
        routing.has_warned = has_warned
    if not torch.equal(wanted, found):
        difference = (wanted - found).abs().max().item()
        raise _refused(f"a model with its layers copied gives other logits; they differ by up to {difference:.3g}")
