"""Counts one call of a layer, on tensors without data: FLOPs, keys and values, and what autograd keeps of it."""

import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from depthgraph.costs import Flops
from depthgraph.nn.attention import AttentionWatch, Repeats, flop_counter
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
class CallCount:
    """What one call costs.

    Attributes:
        forward: its FLOPs.
        backward: FLOPs of its backward.
        kv_bytes: of the keys and values that it reads; None where none were seen.
        saved_bytes: what autograd keeps of it, apart from the hidden states it is given and returns.
        keeps: whether autograd keeps each hidden state that it is given.
        keeps_output: whether autograd keeps the hidden state that it returns.
        reaches: whether a gradient comes out at each hidden state that it is given.
        output: what it returns.
        output_bytes: of the memory of its output.
        source: which of the hidden states that it is given lies in the memory of its output; None for none.
    """

    forward: Flops
    backward: Flops
    kv_bytes: int | None
    saved_bytes: int
    keeps: tuple[bool, ...]
    keeps_output: bool
    reaches: tuple[bool, ...]
    output: Hidden
    output_bytes: int
    source: int | None


def count_call(run: Run, inputs: Sequence[Hidden], apart: Collection[Tensor], *, fused: bool) -> CallCount:
    """Run something once, forward and backward, on the meta device, and count it.

    FLOPs are those of torch's own counter. The hidden states that it gets are copies and no leaves of autograd, as
    in a model, so that it may change them in place. What autograd keeps is counted by its hooks: each storage once,
    and only what is still held when the output alone is.

    Args:
        run: called with the hidden states.
        inputs: the hidden states.
        apart: tensors that are no activations: parameters, buffers, other inputs.
        fused: whether attention is computed by a fused kernel.
    """
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=[]), torch.device("meta"):
        leaves = [hidden.empty() for hidden in inputs]
        given = [leaf.clone() for leaf in leaves]
        repeats = Repeats()
        watch = AttentionWatch(fused=fused, repeats=repeats)
        kept = _Kept()
        with flop_counter() as counter, repeats, watch:
            with torch.autograd.graph.saved_tensors_hooks(kept.pack, kept.unpack):
                output = run(*given)
            saved = kept.storages()
            forward = counter.get_total_flops()
            watch.in_backward = True
            if output.requires_grad:
                torch.autograd.backward(output, torch.empty_like(output))
            backward = counter.get_total_flops() - forward
    attention, attention_backward = watch.seen.flops()
    places = [storage_of(tensor) for tensor in given]
    place = storage_of(output)
    own = saved.keys() - {place, *places, *map(storage_of, apart)}
    return CallCount(
        forward=Flops(forward, attention.attention, attention.masked),
        backward=Flops(backward, attention_backward.attention, attention_backward.masked),
        kv_bytes=watch.seen.kv_bytes,
        saved_bytes=sum(saved[each].nbytes() for each in own),
        keeps=tuple(each in saved for each in places),
        keeps_output=place in saved,
        reaches=tuple(leaf.requires_grad and leaf.grad is not None for leaf in leaves),
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
        box = _Box(tensor)
        self._boxes.append(weakref.ref(box))
        return box

    def unpack(self, box: _Box) -> Tensor:
        return box.tensor

    def storages(self) -> dict[int, torch.UntypedStorage]:
        """Return the storages that are kept now."""
        tensors = [box.tensor for box in (reference() for reference in self._boxes) if box is not None]
        return {storage_of(tensor): tensor.untyped_storage() for tensor in tensors}
