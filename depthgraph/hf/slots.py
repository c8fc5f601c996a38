"""One slot of the KV cache for every execution, in caches that Hugging Face makes with one for every layer.

A Hugging Face cache has a list with one entry a layer, and a layer writes to the entry of its own `layer_idx`. Under a
route a layer may run several times, and each execution needs an entry of its own: a *slot*. `give_slots` makes a fresh
cache one of E slots, and `SlotView` is what an execution is given instead of the cache: whatever index it asks for, it
reads and writes its own slot.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, EncoderDecoderCache

from depthgraph.errors import CompileError

#: Which executions share a slot: none do, or all visits of a layer do.
CachePolicy = Literal["per_execution", "last_visit"]

#: The attribute of a cache that says which route its slots are for.
MARK = "_slots_of_route"


#: What cannot be changed in place.
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)


@dataclass(frozen=True)
class Slots:
    """The slots of a route.

    Attributes:
        layers: for each slot the layer whose states it holds, from 1. Layers may have several.
        places: for each execution, by position, its slot, from 0.
        writes: for each execution whether it writes to its slot; the others only read what is there.
        parameter_depth: N, how many entries a cache has that was made for the model without a route.
        route: its text. What another one left in a cache is not what this one would have.
    """

    layers: tuple[int, ...]
    places: tuple[int, ...]
    writes: tuple[bool, ...]
    parameter_depth: int
    route: str = ""

    def __post_init__(self) -> None:
        """Find what is asked for at every forward, where a compiler cannot wait for a lock."""
        _ = self.mark, self.is_plain

    @classmethod
    def of(
        cls, path: tuple[int, ...], parameter_depth: int, policy: CachePolicy = "per_execution", route: str = ""
    ) -> "Slots":
        """Return the slots of a path, the layers in the order of their executions.

        Examples:
            >>> Slots.of((1, 2, 1), 2).places
            (0, 1, 2)
            >>> shared = Slots.of((1, 2, 1), 2, "last_visit")
            >>> shared.layers, shared.places, shared.writes
            ((1, 2), (0, 1, 0), (False, True, True))
        """
        E = len(path)
        if policy == "per_execution":
            return cls(path, tuple(range(E)), (True,) * E, parameter_depth, route)
        layers = tuple(sorted(set(path)))
        last = {layer: position for position, layer in enumerate(path)}
        writes = tuple(last[layer] == position for position, layer in enumerate(path))
        return cls(layers, tuple(layers.index(layer) for layer in path), writes, parameter_depth, route)

    @functools.cached_property
    def mark(self) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """What a cache with these slots is marked with."""
        return self.route, self.layers, self.places

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether the model without a route fills a cache with the same: it runs 1 … N, and nothing else."""
        N = self.parameter_depth
        return self.is_one_a_layer and self.places == tuple(range(N)) and self.route in ("", "1", f"1..{N}")

    @property
    def is_one_a_layer(self) -> bool:
        """Whether the slots are what the cache of the model without a route has."""
        return self.layers == tuple(range(1, self.parameter_depth + 1))


def give_slots(cache: Cache, slots: Slots) -> None:
    """Give a cache the slots of a route, each of the kind of its layer's entry; a cache that has them stays as it is.

    Args:
        cache: dynamic, static, sliding, offloaded, quantized: any that has a list of layers and is still empty.
        slots: those of the route that will run.

    Raises:
        CompileError: `cache-mismatch`: it was filled without these slots, or has another number of layers.
    """
    marked = getattr(cache, MARK, None)
    if marked == slots.mark:
        return
    if isinstance(cache, EncoderDecoderCache):
        message = "the cache is one for an encoder and a decoder"
        raise CompileError("cache-mismatch", message, help="give a DynamicCache")
    found, N, E = len(cache.layers), slots.parameter_depth, len(slots.layers)
    if marked is not None:
        of = f"`{marked[0]}`" if marked[0] and marked[0] != slots.route else "another route, or another loop count"
        raise _mismatch(f"has {found} slots, of {of}", E)
    if found not in (0, N, E):
        raise _mismatch(f"has {found} slots, of a model with as many layers", E)
    if found == N and not slots.is_plain:
        if any(_is_filled(layer) for layer in cache.layers):
            raise _mismatch(f"was filled without the route, and has {N} slots, one for each layer", E)
        if not slots.is_one_a_layer:
            cache.layers = [_twin(cache.layers[layer - 1]) for layer in slots.layers]
    setattr(cache, MARK, slots.mark)


def _twin(layer: Any) -> Any:
    """Return a copy of an empty slot. Most hold nothing that two of them could share."""
    plain = all(isinstance(value, _PLAIN) for value in vars(layer).values())
    return copy.copy(layer) if plain else copy.deepcopy(layer)


def _mismatch(what: str, needed: int) -> CompileError:
    message = f"the cache {what}; this route needs {needed} of its own, one for each execution that keeps its states"
    return CompileError("cache-mismatch", message, help="start with a new cache, or with none")


def _is_filled(layer: Any) -> bool:
    if isinstance(layer, CacheLayerMixin):
        return int(layer.get_seq_length()) > 0
    return any(getattr(layer, "has_previous_state", {}).values())


class SlotView(Cache):
    """What one execution sees of a cache: its own slot, whichever layer it says it is.

    Attributes:
        whole: the cache.
        slot: from 0.
        writes: whether what it is given is kept. Otherwise attention reads the slot and the new states, and the slot
            stays as it was: the last visit of the layer writes it.
    """

    def __init__(self, whole: Cache, slot: int, writes: bool = True) -> None:
        self.whole = whole
        self.slot = slot
        self.writes = writes

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int = 0, *rest: Any, **named: Any) -> Any:
        """Add keys and values, [batch, heads, tokens, width], to the slot; return all that it holds then."""
        if self.writes:
            return self.whole.update(key_states, value_states, self.slot, *rest, **named)
        if self.whole.layer_class_to_replicate is not None:
            while len(self.whole.layers) <= self.slot:
                self.whole.layers.append(self.whole.layer_class_to_replicate())
        return _trial(self.whole.layers[self.slot]).update(key_states, value_states, *rest, **named)

    @property
    def layers(self) -> "_OneSlot":
        """The slots, of which every index means this execution's."""
        return _OneSlot(self.whole.layers, self.slot)

    def __len__(self) -> int:
        return len(self.whole)

    def __getattr__(self, name: str) -> Any:
        if name == "whole":  # while it is copied or loaded, before it has one
            raise AttributeError(name)
        found = getattr(self.whole, name)
        if inspect.ismethod(found) and "layer_idx" in inspect.signature(found).parameters:
            # of a model's own kind of cache
            return functools.partial(_at_the_slot(name, found.__func__), self)
        return found


@dataclass(frozen=True)
class _OneSlot:
    """A list of slots in which every index is one of them."""

    whole: list[Any]
    slot: int

    def __getitem__(self, index: int) -> Any:
        return self.whole[self.slot]

    def __len__(self) -> int:
        return len(self.whole)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.whole)


def _trial(layer: Any) -> Any:
    """Return a copy of a slot to try an update on. Dynamic ones assign what they hold; static ones write into it."""
    if not isinstance(layer, CacheLayerMixin):
        raise _unshared(layer)
    trial = copy.copy(layer)
    if layer.is_compileable:
        for name, value in vars(layer).items():
            if isinstance(value, Tensor):
                setattr(trial, name, value.clone())
    return trial


def _unshared(layer: Any) -> CompileError:
    message = f"`last_visit` shares keys and values, and a {type(layer).__name__} keeps other states"
    return CompileError("cache-mismatch", message, help='reroute with kv_cache="per_execution"')


def _at_the_slot(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that calls the cache's with the view's slot as `layer_idx`."""
    index = list(inspect.signature(function).parameters).index("layer_idx") - 1

    def method(self: SlotView, *args: Any, **named: Any) -> Any:
        if not self.writes and name.startswith(("update", "set")):
            raise _unshared(self.whole.layers[self.slot])
        if len(args) > index:
            args = (*args[:index], self.slot, *args[index + 1 :])
        else:
            named["layer_idx"] = self.slot
        return getattr(self.whole, name)(*args, **named)

    method.__name__, method.__doc__ = name, function.__doc__
    return method


for _name, _function in inspect.getmembers(Cache, inspect.isfunction):
    if "layer_idx" in inspect.signature(_function).parameters and _name != "update":
        setattr(SlotView, _name, _at_the_slot(_name, _function))
