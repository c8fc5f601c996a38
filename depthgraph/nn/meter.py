"""Counts each layer of a model once for each kind of hidden state that it meets."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never, final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import is_lazy

from depthgraph.errors import CompileError, CostError, DepthGraphError
from depthgraph.flow import KINDS, State
from depthgraph.nn.count import CallCount, Hidden, Run, count_call
from depthgraph.nn.inputs import Constants, Input
from depthgraph.nn.meta import copy_without_data
from depthgraph.nn.runtime import not_hidden, taken_from
from depthgraph.nn.signature import LayerSignature, Returns, is_wrapper, kind_of, unwrapped
from depthgraph.operations import Add, DataFlow, Execution, Exit, Gate, Mean, Mix, StopGradient, Sum


@dataclass(frozen=True)
class Given:
    """What layers are given beside the hidden state.

    Attributes:
        inputs: the chosen inputs.
        values: theirs, tensors without data.
        tensors: all tensors in the values.
        returns: the caller's word on what layers return.
    """

    inputs: tuple[Input, ...]
    values: Mapping[str, Any]
    tensors: tuple[Tensor, ...]
    returns: Returns

    @classmethod
    def of(cls, inputs: tuple[Input, ...], values: Mapping[str, Any], returns: Returns) -> "Given":
        """Take the inputs' values, of which only shapes and types are used.

        Raises:
            CostError: `cannot-count` for a value that cannot be copied.
        """
        try:
            twins, tensors = copy_without_data(dict(values))
        except Exception as error:
            reason = first_line(error)
            raise CostError(
                "cannot-count",
                f"the inputs cannot be copied: {reason}",
                help="give tensors, of the meta device if you like, or tuples, lists and dicts of them",
            ) from error
        return cls(inputs, twins, tuple(tensors), returns)

    def to(self, signature: LayerSignature, bound: Constants) -> dict[str, Any]:
        """Return what one execution of a layer is given."""
        reached = [given.name for given in self.inputs if given.reaches(signature) and given.name not in bound]
        return {name: self.values[name] for name in reached} | dict(bound)


@dataclass(frozen=True)
class Twin:
    """A layer without data.

    Attributes:
        module: the copy.
        signature: the layer's.
        apart: tensors that are no activations of it.
    """

    module: nn.Module
    signature: LayerSignature
    apart: tuple[Tensor, ...]

    @classmethod
    def of(cls, module: nn.Module, signature: LayerSignature, given: Given) -> "Twin":
        """Copy a layer.

        Raises:
            CostError: `cannot-count` for a layer that cannot be copied, or has no shapes yet.
        """
        if any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
            raise CostError(
                "cannot-count",
                f"{signature.title} is lazy: its weights have no shape before it has run once",
                help="run the model once, or give layers with their sizes",
            )
        try:
            twin, tensors = copy_without_data(unwrapped(module))
        except Exception as error:  # a layer may hold anything
            raise CostError(
                "cannot-count",
                f"{signature.title} cannot be copied: {first_line(error)}",
                help="give a function that makes it, layers=lambda number: …; it is called on the meta device",
            ) from error
        return cls(twin, signature, (*tensors, *given.tensors))

    def run(self, hidden: Tensor, given: Mapping[str, Any], returns: Returns) -> Tensor:
        """Return the hidden state that flows on from the layer."""
        output = self.module(hidden, **given)
        taken = taken_from(output, kind_of(self.signature, returns), self.signature.title)
        if not isinstance(taken, Tensor):
            raise not_hidden(output, self.signature.title)
        return taken


@final
@dataclass
class Meter:
    """Counts calls, each kind of call once.

    Attributes:
        modules: the layers that run, by their number.
        signatures: theirs.
        given: what they are given beside the hidden state.
        fused: whether attention is computed by a fused kernel.
    """

    modules: Mapping[int, nn.Module]
    signatures: Mapping[int, LayerSignature]
    given: Given
    fused: bool
    _twins: dict[int, Twin] = field(default_factory=dict)
    _counts: dict[Any, CallCount] = field(default_factory=dict)

    def twin(self, layer: int) -> Twin:
        """Return the copy of a layer; one module object has one, however many layers it is."""
        module = self.modules[layer]
        if id(module) not in self._twins:
            self._twins[id(module)] = Twin.of(module, self.signatures[layer], self.given)
        return self._twins[id(module)]

    def count(self, state: State, inputs: Sequence[Hidden], bound: Constants) -> CallCount:
        """Return the count of what computes a state.

        Args:
            state: of a route's flow; not the input.
            inputs: the hidden states that it is computed from.
            bound: the constants of the execution.
        """
        operation = state.operation
        match operation:
            case Execution(_, layer):
                key = (id(self.modules[layer]), repr(bound), *inputs)
                if key not in self._counts:
                    self._counts[key] = self._execution(layer, inputs[0], bound)
            case Add() | Mix() | Gate() | Mean() | Sum() | StopGradient() | Exit():
                key = (type(operation), *inputs)
                if key not in self._counts:
                    self._counts[key] = _flow_count(operation, inputs)
            case None:
                raise AssertionError("the input is not computed")
            case _:
                assert_never(operation)
        return self._counts[key]

    def _execution(self, layer: int, hidden: Hidden, bound: Constants) -> CallCount:
        twin = self.twin(layer)
        given = self.given.to(self.signatures[layer], bound)

        def run(state: Tensor) -> Tensor:
            return twin.run(state, given, self.given.returns)

        title = self.signatures[layer].title
        wrapped = any(is_wrapper(part) for part in twin.module.modules())
        count = _counted(run, [hidden], twin.apart, title, fused=self.fused, eager=wrapped)
        if count.output.shape != hidden.shape:
            raise CompileError(
                "layer-shape",
                f"{title} makes a hidden state of shape {count.output.shape} from one of shape {hidden.shape}",
                help="every layer returns a hidden state of the shape that it was given",
            )
        return count


def _counted(
    run: Run, inputs: Sequence[Hidden], apart: Iterable[Tensor], title: str, *, fused: bool, eager: bool = False
) -> CallCount:
    """Count a call; what it raises becomes an error of ours that names it."""
    # a part that `torch.compile` wrapped would be compiled; setting the stance loads the compiler, which takes long
    stance = torch.compiler.set_stance("force_eager") if eager else contextlib.nullcontext()
    try:
        with stance:
            return count_call(run, inputs, tuple(apart), fused=fused)
    except DepthGraphError:
        raise
    except Exception as error:
        shapes = " and ".join(str(hidden.shape) for hidden in inputs)
        raise CostError(
            "cannot-count",
            f"{title} does not run on a hidden state of shape {shapes} without data: {first_line(error)}",
            help="inputs={name: value} gives what its forward needs, example= a hidden state of another shape; "
            "a layer that looks at values cannot be counted without them",
        ) from error


def first_line(error: Exception) -> str:
    """Return what an error of somebody else says, short."""
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:300]


def _flow_count(operation: DataFlow, inputs: Sequence[Hidden]) -> CallCount:
    """Count an operation between layers; its weights need gradients."""
    width, dtype = inputs[0].shape[-1], inputs[0].dtype
    shape = WEIGHTS[type(operation)](width) if type(operation) in WEIGHTS else ()
    weight = torch.empty(shape, dtype=dtype, device="meta", requires_grad=dtype.is_floating_point)

    def run(*states: Tensor) -> Tensor:
        return COMPUTED[type(operation)](states, weight)

    return _counted(run, inputs, [weight], KINDS[type(operation)], fused=False)


#: The shape of the weights of `mix` and `gate`, by the width d of the hidden state.
WEIGHTS: dict[type, Callable[[int], tuple[int, ...]]] = {Mix: lambda d: (d, 2 * d), Gate: lambda d: (d,)}

#: What each operation computes from the hidden states that it reads, h first, and its weight.
COMPUTED: dict[type, Callable[[tuple[Tensor, ...], Tensor], Tensor]] = {
    Add: lambda states, _: states[0] + states[1],
    Mix: lambda states, weight: functional.linear(torch.cat(states, -1), weight),
    Gate: lambda states, weight: states[0] + weight * states[1],
    Mean: lambda states, _: functools.reduce(torch.add, states) / len(states),
    Sum: lambda states, _: functools.reduce(torch.add, states),
    StopGradient: lambda states, _: torch.detach(states[0]),
    Exit: lambda states, _: states[0],
}
