"""Counts each layer of a model once for each kind of hidden state that it meets."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never, final

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from depthgraph.errors import CompileError, CostError, DepthGraphError
from depthgraph.flow import State
from depthgraph.nn.count import CallCount, Hidden, Run, count_call
from depthgraph.nn.inputs import Constants, Input
from depthgraph.nn.meta import copy_without_data
from depthgraph.nn.runtime import not_hidden, taken_from
from depthgraph.nn.signature import LayerSignature, Returns, is_wrapper, kind_of, unwrapped
from depthgraph.nn.weights import name_of
from depthgraph.operations import Add, Execution, Exit, Gate, Mean, Mix, StopGradient, Sum


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
    """A module without data.

    Attributes:
        module: the copy.
        apart: tensors that are no activations of it.
    """

    module: nn.Module
    apart: tuple[Tensor, ...]

    @classmethod
    def of(cls, module: nn.Module, title: str) -> "Twin":
        """Copy a module.

        Raises:
            CostError: `cannot-count` for one that cannot be copied, or has no shapes yet.
        """
        if any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
            raise CostError(
                "cannot-count",
                f"{title} is lazy: its weights have no shape before it has run once",
                help="run the model once, or give layers with their sizes",
            )
        try:
            twin, tensors = copy_without_data(unwrapped(module))
        except Exception as error:  # a layer may hold anything
            raise CostError(
                "cannot-count",
                f"{title} cannot be copied: {first_line(error)}",
                help="give a function that makes it, layers=lambda number: …; it is called on the meta device",
            ) from error
        _unwrap(twin)
        return cls(twin, tuple(tensors))


@final
@dataclass
class Meter:
    """Counts calls, each kind of call once.

    Attributes:
        modules: the layers that run, by their number.
        signatures: theirs.
        given: what they are given beside the hidden state.
        fused: whether attention is computed by a fused kernel.
        weights: the modules of `mix` and `gate` by name.
    """

    modules: Mapping[int, nn.Module]
    signatures: Mapping[int, LayerSignature]
    given: Given
    fused: bool
    weights: Mapping[str, nn.Module] = field(default_factory=dict)
    _twins: dict[int, Twin] = field(default_factory=dict)
    _counts: dict[Any, CallCount] = field(default_factory=dict)

    def layer(self, number: int) -> Twin:
        """Return the copy of a layer; one module object has one, however many layers it is."""
        return self._twin(self.modules[number], self.signatures[number].title)

    def _twin(self, module: nn.Module, title: str) -> Twin:
        if id(module) not in self._twins:
            self._twins[id(module)] = Twin.of(module, title)
        return self._twins[id(module)]

    def run(self, number: int, hidden: Tensor, bound: Constants) -> Tensor:
        """Return the hidden state that flows on from a layer without data."""
        signature = self.signatures[number]
        output = self.layer(number).module(hidden, **self.given.to(signature, bound))
        taken = taken_from(output, kind_of(signature, self.given.returns), signature.title)
        if not isinstance(taken, Tensor):
            raise not_hidden(output, signature.title)
        return taken

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
            case Mix() | Gate():
                module = self.weights[name_of(operation)]
                key = (id(module), *inputs)
                if key not in self._counts:
                    twin = self._twin(module, name_of(operation))
                    self._counts[key] = _counted(twin.module, inputs, twin.apart, name_of(operation), fused=self.fused)
            case Add() | Mean() | Sum() | StopGradient() | Exit():
                key = (type(operation), *inputs)
                if key not in self._counts:
                    self._counts[key] = _counted(COMPUTED[type(operation)], inputs, (), state.name, fused=False)
            case None:
                raise AssertionError("the input is not computed")
            case _:
                assert_never(operation)
        return self._counts[key]

    def _execution(self, layer: int, hidden: Hidden, bound: Constants) -> CallCount:
        def run(state: Tensor) -> Tensor:
            return self.run(layer, state, bound)

        title = self.signatures[layer].title
        apart = (*self.layer(layer).apart, *self.given.tensors)
        count = _counted(run, [hidden], apart, title, fused=self.fused)
        if count.saved.output.shape != hidden.shape:
            raise CompileError(
                "layer-shape",
                f"{title} makes a hidden state of shape {count.saved.output.shape} from one of shape {hidden.shape}",
                help="every layer returns a hidden state of the shape that it was given",
            )
        return count


def _unwrap(module: nn.Module) -> None:
    """Put the modules themselves where `torch.compile(part)` wrapped parts of a copy, which would be compiled."""
    for part in tuple(module.modules()):
        for name, child in part._modules.items():
            if child is not None and is_wrapper(child):
                part._modules[name] = unwrapped(child)


def _counted(run: Run, inputs: Sequence[Hidden], apart: Iterable[Tensor], title: str, *, fused: bool) -> CallCount:
    """Count a call; what it raises becomes an error of ours that names it."""
    try:
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


#: What the operations without weights compute from the hidden states that they read, h first.
COMPUTED: dict[type, Run] = {
    Add: torch.add,
    Mean: lambda *ends: functools.reduce(torch.add, ends) / len(ends),
    Sum: lambda *ends: functools.reduce(torch.add, ends),
    StopGradient: torch.detach,
    Exit: lambda hidden: hidden,
}
