"""Counts one call of a layer, on tensors without data: FLOPs, keys and values, and what autograd keeps of it."""

import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from depthgraph.costs import Flops
from depthgraph.nn.attention import AttentionWatch, flop_counter
from depthgraph.nn.meta import storage_of

#: What is counted: from hidden states to a hidden state.
Run = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Hidden:
    """A hidden state without its numbers: all that the cost of what reads it depends on.

    Attributes:
        shape: usually [B, T, d].
        stride: how it lies in memory.
        dtype: of its numbers.
        needs_grad: whether backward goes on to what computed it.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    needs_grad: bool

    @classmethod
    def of(cls, tensor: Tensor) -> "Hidden":
        """Return what a tensor is without its numbers."""
        return cls(tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.requires_grad)

    def empty(self) -> Tensor:
        """Return such a tensor on the meta device, a leaf of autograd."""
        tensor = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device="meta")
        return tensor.requires_grad_(self.needs_grad)


@dataclass(frozen=True, slots=True)
class Saved:
    """What autograd keeps of one call, and what the call returns.

    Attributes:
        saved_bytes: what is kept, apart from the hidden states that it is given and returns.
        keeps: whether each hidden state that it is given is kept.
        keeps_output: whether the hidden state that it returns is kept.
        output: what it returns.
        output_bytes: of the memory of its output.
        source: which of the hidden states that it is given lies in the memory of its output; None for none.
    """

    saved_bytes: int
    keeps: tuple[bool, ...]
    keeps_output: bool
    output: Hidden
    output_bytes: int
    source: int | None


@dataclass(frozen=True, slots=True)
class CallCount:
    """What one call costs.

    Attributes:
        forward: its FLOPs.
        backward: FLOPs of its backward.
        kv_bytes: of the keys and values that it reads; None where none were seen.
        reaches: whether a gradient comes out at each hidden state that it is given.
        saved: what autograd keeps of it.
    """

    forward: Flops
    backward: Flops
    kv_bytes: int | None
    reaches: tuple[bool, ...]
    saved: Saved


def count_call(run: Run, inputs: Sequence[Hidden], apart: Collection[Tensor], *, fused: bool) -> CallCount:
    """Run something on the meta device, and count it.

    It runs twice: once to see what autograd keeps, and once, forward and backward, for the FLOPs, because torch's
    counter holds tensors itself. The hidden states that it gets are copies and no leaves of autograd, as in a model,
    so that it may change them in place.

    Args:
        run: called with the hidden states.
        inputs: the hidden states.
        apart: tensors that are no activations: parameters, buffers, other inputs.
        fused: whether attention is computed by a fused kernel.
    """
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=[]), torch.device("meta"):
        saved = _saved(run, inputs, apart, fused=fused)
        leaves = [hidden.empty() for hidden in inputs]
        given = [leaf.clone() for leaf in leaves]
        watch = AttentionWatch(fused=fused)
        with flop_counter() as counter, watch.repeats, watch:
            output = run(*given)
            forward = counter.get_total_flops()
            watch.in_backward = True
            if output.requires_grad:
                torch.autograd.backward(output, torch.empty_like(output))
            backward = counter.get_total_flops() - forward
    attention, attention_backward = watch.seen.flops()
    return CallCount(
        forward=Flops(forward, attention.attention, attention.masked),
        backward=Flops(backward, attention_backward.attention, attention_backward.masked),
        kv_bytes=watch.seen.kv_bytes,
        reaches=tuple(leaf.requires_grad and leaf.grad is not None for leaf in leaves),
        saved=saved,
    )


def _saved(run: Run, inputs: Sequence[Hidden], apart: Collection[Tensor], *, fused: bool) -> Saved:
    """See what autograd keeps, by its hooks: each storage once, and only what is held when the output alone is."""
    given = [hidden.empty().clone() for hidden in inputs]
    kept = _Kept()
    with AttentionWatch(fused=fused), torch.autograd.graph.saved_tensors_hooks(kept.pack, kept.unpack):
        output = run(*given)
    storages = kept.storages()
    places = [storage_of(tensor) for tensor in given]
    place = storage_of(output)
    own = storages.keys() - {place, *places, *map(storage_of, apart)}
    return Saved(
        saved_bytes=sum(storages[each].nbytes() for each in own),
        keeps=tuple(each in storages for each in places),
        keeps_output=place in storages,
        output=Hidden.of(output),
        output_bytes=output.untyped_storage().nbytes(),
        source=places.index(place) if place in places else None,
    )


class _Box:
    """Holds a tensor for autograd. It is gone when autograd has let it go."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class _Kept:
    """Knows what autograd keeps."""

    def __init__(self) -> None:
        self._boxes: list[weakref.ref[_Box]] = []

    def pack(self, tensor: Tensor) -> _Box:
        box = _Box(tensor.detach())  # an output itself would hold the graph that holds it
        self._boxes.append(weakref.ref(box))
        return box

    def unpack(self, box: _Box) -> Tensor:
        return box.tensor

    def storages(self) -> dict[int, torch.UntypedStorage]:
        """Return the storages that are kept now."""
        tensors = [box.tensor for box in (reference() for reference in self._boxes) if box is not None]
        return {storage_of(tensor): tensor.untyped_storage() for tensor in tensors}
