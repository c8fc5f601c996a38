"""How a route runs inside a Hugging Face model, which keeps its own loop over its own layers.

The model's `forward` prepares masks and positions, calls its layers one after the other, and norms what comes out.
While it does so under a route, its list of layers gives *stand-ins*: each notes what the loop passes to its layer
(mask, rotary tables, cache …) and hands the hidden state on as it is; the last one runs the compiled route. There every
execution of layer k gets what was noted for layer k, and a view of the cache that uses the execution's own slot.

So nothing is known here of any architecture. What has to hold is that a model gives each layer the hidden state that
the layer before it returned; a stand-in sees whether it is handed what its neighbour handed on, and refuses otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache
from transformers.utils.output_capturing import CompileableContextVar, _active_collector

from depthgraph.errors import CompileError
from depthgraph.hf.slots import Slots, SlotView, give_slots

#: The names under which models pass their cache to their layers.
CACHE_NAMES = frozenset({"cache", "past_key_values", "past_key_value", "layer_past"})


class Call:
    """What the model's loop passed to one layer beside the hidden state.

    Attributes:
        args: by place.
        named: by name.
        caches: those among them, each with its place or its name.
    """

    def __init__(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.args = args
        self.named = named
        self.caches: list[tuple[int | str, Cache]] = []
        for place, value in enumerate(args):
            if isinstance(value, Cache):
                self.caches.append((place, value))
        for name, value in named.items():
            if isinstance(value, Cache):
                self.caches.append((name, value))


@dataclass
class Run:
    """One forward of the model under a route.

    Attributes:
        model: the module that has the list of layers.
        body: the compiled route. It is called with the hidden state and this run.
        slots: of the cache.
        takes_tuple: whether the model's loop takes the hidden state out of a tuple.
        calls: what was noted, by layer from 0.
        hidden: what was handed to the last stand-in.
        version: how often the hidden state had been written to when the first stand-in was handed it.
        output: what the body returned; None until the last stand-in was called.
        chosen: the `output_hidden_states` that was asked for: yes, no, an index or several.
    """

    model: nn.Module
    body: Callable[[Any, Any], Any]
    slots: Slots
    takes_tuple: bool
    calls: list[Call] = field(default_factory=list)
    hidden: Any = None
    version: int = 0
    output: Any = None
    chosen: Any = None

    def noted(self, index: int, hidden: Any, call: Call) -> Any:
        """Note what layer `index`, from 0, is called with, and return what the loop goes on with.

        Raises:
            CompileError: `unroutable-model` if the model does something between layers.
        """
        if index == 1 and not self.takes_tuple and _is_first_of(hidden, self.hidden):
            raise TakesTupleError
        if index != len(self.calls) or (index and hidden is not self.hidden):
            raise _between(self, f"layer {index + 1} is handed something else")
        if self.takes_tuple and call.named.get("output_attentions"):
            message = f"{type(self.model).__name__} collects the attentions of its layers, of which a route has more"
            raise CompileError("unroutable-model", message, help="leave `output_attentions` out")
        if index == 0:
            self.version = _version(hidden)
        self.calls.append(call)
        self.hidden = hidden
        if index + 1 == self.slots.parameter_depth:
            if _version(hidden) != self.version:
                raise _between(self, "it was changed in place on its way through the layers")
            hidden = self._finished(hidden)
        return (hidden,) if self.takes_tuple else hidden

    def _finished(self, hidden: Tensor) -> Tensor:
        for _, cache in self.calls[0].caches:
            give_slots(cache, self.slots)
        self._check_names()
        if self.chosen and self.chosen is not True:
            _choose(self.chosen, len(self.slots.places) + 1)
        self.output = self.body(hidden, self)
        output: Tensor = self.output[0] if isinstance(self.output, tuple) else self.output
        return output

    def _check_names(self) -> None:
        for name in CACHE_NAMES & self.calls[0].named.keys():
            value = self.calls[0].named[name]
            if value is not None and not isinstance(value, Cache):
                message = f"the layers are given a {type(value).__name__} as `{name}`, whose slots cannot be told apart"
                raise CompileError("cache-mismatch", message, help="give a DynamicCache or a StaticCache, or no cache")

    def execute(self, module: nn.Module, layer: int, position: int, hidden: Tensor) -> Tensor:
        """Run a layer as one execution, with what the model's loop passed to this layer.

        Args:
            module: the layer.
            layer: its number, from 0.
            position: of the execution, from 0.
            hidden: [batch, tokens, width].
        """
        call = self.calls[layer]
        args, named = call.args, call.named
        for key, cache in call.caches:  # our own: the call copies what it is given
            view = SlotView(cache, self.slots.places[position], self.slots.writes[position])
            if isinstance(key, str):
                named[key] = view
            else:
                args = (*args[:key], view, *args[key + 1 :])
        if getattr(module, "gradient_checkpointing", False) and not hidden.requires_grad and _is_reentrant(module):
            hidden = hidden.detach().requires_grad_()  # after a stopgrad: otherwise the layer would get no gradient
        output = module(hidden, *args, **named)
        return output[0] if isinstance(output, tuple | list) else output  # type: ignore[no-any-return]


def _is_reentrant(module: Any) -> bool:
    """Return whether a layer will be checkpointed in the way of old, which wants an input with a gradient."""
    said = getattr(getattr(module, "_gradient_checkpointing_func", None), "keywords", {})
    return bool(module.training and torch.is_grad_enabled() and said.get("use_reentrant", False))


def _choose(chosen: Any, count: int) -> None:
    """Have those hidden states kept that were asked for by index: the model's own count knows nothing of the route."""
    kept = _active_collector.get()
    if kept is not None and "_hidden_states_layers" in kept:
        indexes = [chosen] if isinstance(chosen, int) else chosen
        kept["_hidden_states_layers"] = {index % count for index in indexes if -count <= index < count}


class TakesTupleError(Exception):
    """The model's loop took element 0 of what a layer returned: it has to be called again, with tuples."""


def _is_first_of(found: Any, hidden: Any) -> bool:
    """Return whether a tensor is element 0 of a batch, which is what `outputs[0]` makes of one that is no tuple."""
    return isinstance(found, Tensor) and found.ndim == hidden.ndim - 1 and found.shape == hidden.shape[1:]


def _version(hidden: Tensor) -> int:
    """Return how often a tensor was written to; 0 where that is not counted: in inference mode, by compilers."""
    return 0 if torch.compiler.is_compiling() or hidden.is_inference() else hidden._version


class StandIn:
    """What the model's loop calls instead of a layer. It has the layer's own attributes, which loops ask for."""

    def __init__(self, run: Run, index: int, layer: nn.Module) -> None:
        self.run_of_route = run
        self.index_of_layer = index
        self.layer_of_model = layer

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Note a call. The hidden state is the first argument, or goes by the name that layers give it."""
        if args:
            return self.run_of_route.noted(self.index_of_layer, args[0], Call(args[1:], named))
        return self.run_of_route.noted(self.index_of_layer, named.pop("hidden_states"), Call((), named))

    def __getattr__(self, name: str) -> Any:
        if name == "layer_of_model":  # while it is copied, before it has one
            raise AttributeError(name)
        return getattr(self.layer_of_model, name)


class Step(nn.Module):
    """A layer as the compiled route calls it: with what the model's loop passed to this layer.

    Attributes:
        layer: the model's own.
        index: from 0.
    """

    def __init__(self, layer: nn.Module, index: int) -> None:
        super().__init__()
        self.layer = layer
        self.index = index

    def forward(self, hidden: Tensor, run: Run, position: int) -> Tensor:
        """Run the layer as one execution.

        Args:
            hidden: [batch, tokens, width].
            run: the forward that it is part of.
            position: of the execution, from 0.
        """
        return run.execute(self.layer, self.index, position, hidden)

    __call__ = forward  # it has no hooks: those are the layer's, which is called as a module


#: The forward that runs in this thread, which the model's list of layers asks for.
running: Any = CompileableContextVar("route_run")

#: Where the forward of a model that has the one with the layers inside it waits for the hidden states at exits.
waiting: Any = CompileableContextVar("route_exits")


def layers_or_stand_ins(model: nn.Module, name: str) -> Any:
    """Return a model's list of layers; while it runs under a route, their stand-ins.

    Raises:
        AttributeError: there is none yet, in a copy that is made module by module.
    """
    if name not in model._modules:
        raise AttributeError(name)
    layers: Any = model._modules[name]
    run = running.get()
    if run is None or run.model is not model:
        return layers
    return StandIns([StandIn(run, index, layer) for index, layer in enumerate(layers._modules.values())])


class StandIns(list[StandIn]):
    """The stand-ins of a model's layers. A model that asks for some of them only is refused."""

    def __getitem__(self, index: Any) -> Any:
        found: Sequence[StandIn] | StandIn = super().__getitem__(index)
        if isinstance(found, list) and len(found) != len(self):
            message = f"the model asks for {len(found)} of its {len(self)} layers"
            help = (
                "a route says itself which layers run; leave `num_hidden_layers` as it is, and exit early by `exit(k)`"
            )
            raise CompileError("unroutable-model", message, help=help)
        return found


def _between(run: Run, what: str) -> CompileError:
    """Return the error for a model whose loop does something between layers."""
    message = f"{type(run.model).__name__} does more than hand the hidden state from layer {len(run.calls)} to the next"
    help = "a route can only order layers that are called one after the other, each with what the last returned"
    return CompileError("unroutable-model", f"{message}: {what}", help=help)


def run_route(run: Run, forward: Any, args: tuple[Any, ...], named: dict[str, Any], chosen: Any = None) -> Any:
    """Call a model's forward under a route.

    Returns:
        what the model returns; of a route with exits its output has `exit_hidden_states` too, a tuple of hidden states
        [batch, tokens, width].

    Raises:
        CompileError: `unroutable-model`, `cache-mismatch`.
        TakesTupleError: before anything ran; `takes_tuple` of the run has to be true.
    """
    run.chosen = chosen
    token = running.set(run)
    try:
        outputs = forward(*args, **named)
    except (CompileError, TakesTupleError):
        raise
    except Exception as error:
        if not 0 < len(run.calls) < run.slots.parameter_depth:
            raise
        raise _between(run, f"there it raised {type(error).__name__}: {error}") from error
    finally:
        running.reset(token)
    if run.output is None:
        message = f"{type(run.model).__name__} called {len(run.calls)} of its {run.slots.parameter_depth} layers"
        raise CompileError("unroutable-model", message, help="a route runs where a model calls all of its layers")
    states = getattr(outputs, "hidden_states", None)
    if states is not None and len(states) > 1 and states[0] is not None and states[0] is states[1]:
        message = f"{type(run.model).__name__} collects hidden states in its own loop, where layers only stand in"
        raise CompileError("unroutable-model", message, help="leave `output_hidden_states` out")
    if not isinstance(run.output, tuple):
        return outputs
    found = waiting.get()
    if found is not None:
        found.append(run.output[1])
    return with_exits(outputs, run.output[1])


def with_exits(outputs: Any, exits: tuple[Tensor, ...]) -> Any:
    """Return what a model returns, with the hidden states at exits, each [batch, tokens, width]."""
    if isinstance(outputs, tuple):
        return (*outputs, exits)
    outputs["exit_hidden_states"] = exits
    return outputs
