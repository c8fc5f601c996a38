"""Sees attention in a layer that runs: its FLOPs apart from the rest, and the keys and values that it reads."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from depthgraph.costs import Flops
from depthgraph.nn.meta import storage_of

aten = torch.ops.aten


class Call(NamedTuple):
    """One call of `scaled_dot_product_attention`: what its FLOPs follow from.

    Attributes:
        shapes: of query, key and value, [B, heads, T, head width].
        need_grad: which of the three need a gradient.
        is_causal: whether it was told to hide later keys; a mask is data, and says nothing here.
        is_grouped: whether several queries' heads share one head of keys.
        is_fused: whether it was computed by one kernel.
    """

    shapes: tuple[torch.Size, torch.Size, torch.Size]
    need_grad: tuple[bool, bool, bool]
    is_causal: bool
    is_grouped: bool
    is_fused: bool


@dataclass
class Seen:
    """What was seen of attention.

    Attributes:
        forward: calls of the forward pass.
        again: calls while backward ran, by layers that compute their forward once more (checkpointing).
        sizes: bytes of each tensor of keys and of values of the forward pass; None where it is not known.
    """

    forward: list[Call] = field(default_factory=list)
    again: list[Call] = field(default_factory=list)
    sizes: list[int | None] = field(default_factory=list)

    @property
    def kv_bytes(self) -> int | None:
        """Bytes of all keys and values of the forward pass; None where no attention was seen, or not its sizes."""
        known = [size for size in self.sizes if size is not None]
        return sum(known) if known and len(known) == len(self.sizes) else None

    def flops(self) -> tuple[Flops, Flops]:
        """Return the FLOPs of attention in forward and backward; their totals are those of attention alone."""
        forward, backward = Flops(), Flops()
        for call in self.forward:
            forward += attention_flops(call)[0]
            backward += attention_flops(call)[1]
        # reentrant checkpointing runs forward without gradients, and differentiates the second run
        is_reentrant = any(not any(call.need_grad) for call in self.forward)
        for call in self.again:
            again, its_backward = attention_flops(call)
            backward += again + its_backward if is_reentrant else again
        return forward, backward


class AttentionWatch(TorchFunctionMode):
    """Watches calls of `scaled_dot_product_attention`, and computes them by a fused kernel if that is asked for.

    Attributes:
        seen: what was seen.
        in_backward: whether backward runs, set by who runs it.
        repeats: a mode that knows repeated keys, where it is entered too.
    """

    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        self.seen = Seen()
        self.in_backward = False
        self._fused = fused
        self.repeats = Repeats()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            return self._attend(*args, **kwargs)
        if func in _CALL_ATTENTION:
            with self:  # what such a function calls runs without this mode otherwise
                return _opened(func)(*args, **kwargs)
        return func(*args, **kwargs)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        is_fused = self._fused and _can_fuse(query, key, value, attn_mask)
        grad = torch.is_grad_enabled()
        call = Call(
            (query.shape, key.shape, value.shape),
            (grad and query.requires_grad, grad and key.requires_grad, grad and value.requires_grad),
            is_causal,
            enable_gqa,
            is_fused,
        )
        (self.seen.again if self.in_backward else self.seen.forward).append(call)
        if not self.in_backward:
            self.seen.sizes += [self.repeats.distinct_bytes(key), self.repeats.distinct_bytes(value)]
        if is_fused:
            return fused_attention(query, key, value, attn_mask, is_causal, scale)
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )


#: Functions of torch that are handed to the mode, and in which attention may be called: by backward, where layers
#: compute their forward once more.
_CALL_ATTENTION = frozenset({functional.multi_head_attention_forward, torch.autograd.backward})


@functools.cache
def _opened(function: FunctionType) -> Callable[..., Any]:
    """Return a function of torch that runs its body at once, where the original hands itself to the mode again."""
    names = {**function.__globals__, "has_torch_function": lambda _: False}
    twin = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def _can_fuse(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Return whether torch has a fused kernel for this: four dimensions, one head width, a mask without gradient."""
    is_plain = query.dim() == key.dim() == value.dim() == 4
    has_one_width = query.shape[-1] == key.shape[-1] == value.shape[-1]
    return is_plain and has_one_width and not (mask is not None and mask.requires_grad)


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None
) -> Tensor:
    """Compute attention by torch's flash kernel for the CPU, which keeps what those of GPUs keep.

    It keeps the query, key, value, mask, output and one number a query, and computes the scores again in backward.
    Dropout is left out: a fused kernel draws it anew from a seed, and neither FLOPs nor what is kept depend on it.
    """
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=query.dtype, device=query.device).masked_fill(~mask, -math.inf)
    output: Tensor = aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale
    )[0]
    return output


def _fused_flops(query: torch.Size, key: torch.Size, value: torch.Size, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query, key, value))  # type: ignore[no-untyped-call]


def _fused_backward_flops(grad: Any, query: torch.Size, key: torch.Size, value: torch.Size, *_: Any, **__: Any) -> int:
    return int(sdpa_backward_flop_count(grad, query, key, value))  # type: ignore[no-untyped-call]


def flop_counter() -> FlopCounterMode:
    """Return torch's counter, told of the flash kernel for the CPU, which it leaves out, with its own formula."""
    return FlopCounterMode(
        display=False,
        custom_mapping={
            aten._scaled_dot_product_flash_attention_for_cpu: _fused_flops,
            aten._scaled_dot_product_flash_attention_for_cpu_backward: _fused_backward_flops,
        },
    )


@functools.lru_cache(maxsize=1024)
def attention_flops(call: Call) -> tuple[Flops, Flops]:
    """Count one call of attention alone, forward and backward, by torch's own counter.

    Every FLOP belongs to a pair of a query and a key. Of T queries and S keys, query i may see the first i keys: a
    causal mask (torch aligns it to the first query) leaves min(1, S) + … + min(T, S) pairs, T(T + 1) / 2 where S = T.
    """
    sides = zip(call.shapes, call.need_grad, strict=True)
    query, key, value = (torch.empty(shape, device="meta", requires_grad=need) for shape, need in sides)
    with torch.inference_mode(False), torch.enable_grad(), flop_counter() as counter:
        if call.is_fused:
            output = fused_attention(query, key, value, None, call.is_causal, None)
        else:
            output = functional.scaled_dot_product_attention(
                query, key, value, is_causal=call.is_causal, enable_gqa=call.is_grouped
            )
        forward = counter.get_total_flops()
        if output.requires_grad:
            torch.autograd.backward(output, torch.empty_like(output))
        backward = counter.get_total_flops() - forward
    T, S = call.shapes[0][-2], call.shapes[1][-2]
    left = sum(min(i, S) for i in range(1, T + 1)) if call.is_causal else T * S
    return tuple(Flops(one, one, one // (T * S) * (T * S - left)) for one in (forward, backward))  # type: ignore[return-value]


class Repeats(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Knows which tensors are repetitions of smaller ones: keys whose heads were repeated, each for several queries.

    A cache holds keys and values before they are repeated. `repeat`, `repeat_interleave`, and `expand` before a
    copy are seen; numbers that were computed after the repetition are new ones.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._elements: dict[int, tuple[Tensor, int]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in _COPIES and isinstance(result, Tensor):
            elements = self._distinct(args[0])
            if elements is not None and elements < result.numel():
                self._elements[storage_of(result)] = result, elements  # held, so that its storage stays its own
        return result

    def _distinct(self, tensor: Tensor) -> int | None:
        """Return how many elements of a tensor are not repetitions of others; None for a part of a repetition."""
        own = math.prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
        known = self._elements.get(storage_of(tensor))
        if known is None:
            return own
        return known[1] if own == known[0].numel() else None

    def distinct_bytes(self, tensor: Tensor) -> int | None:
        """Return the bytes of a tensor without repetitions; None where they cannot be told apart."""
        elements = self._distinct(tensor)
        return None if elements is None else elements * tensor.element_size()


#: What makes a new tensor of the elements of another one, all of them and perhaps often.
_COPIES = frozenset({aten.clone, aten._to_copy, aten.repeat, aten._reshape_copy})
