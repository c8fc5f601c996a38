"""What the classes of a model with a route have, wherever the route comes from: compiled here, or written out.

Like `slots` and `running`, this file asks for nothing of this package but errors and the modules of `mix` and `gate`:
the three of them are written into folders that load without it (`standalone`).
"""

import functools
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from torch import nn
from transformers.cache_utils import Cache

from depthgraph.errors import CompileError
from depthgraph.hf.running import (
    CACHE_NAMES,
    Run,
    TakesTupleError,
    layers_or_stand_ins,
    run_route,
    running,
    waiting,
    with_exits,
)
from depthgraph.hf.slots import Slots, give_slots
from depthgraph.nn.weights import Gated, Mixer

#: Where the model keeps the weights of the route itself: `model.depthgraph.mix_1.weight`.
WEIGHTS = "depthgraph"


class AnyRouting(Protocol):
    """What a model with a route knows of it."""

    takes_tuple: bool

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the loop counts that are chosen at every call."""

    def run(self, counts: Mapping[str, int]) -> Run:
        """Return a forward that is about to run."""

    def slots_at(self, counts: Mapping[str, int]) -> Slots:
        """Return the slots of the cache that the route needs."""

    def is_over(self, owner: nn.Module) -> bool:
        """Return whether the route is over the layers of this module."""

    def over(self, owner: nn.Module) -> "AnyRouting":
        """Return the same route over the layers of another module, a copy."""


class Part:
    """What all these classes have: weights of the route start as the identity, also those that a checkpoint lacks."""

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, Mixer | Gated):
            module.reset_parameters()
        else:
            super()._init_weights(module)  # type: ignore[misc]


class OwnerPart(Part):
    """The module with the list of layers: its forward runs them in the order of the route."""

    _routing: Any
    _base: Any

    def _run(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        routing: AnyRouting = self._routing
        if not routing.is_over(self):  # type: ignore[arg-type]  # a copy with other layers, as compile_regions makes one
            routing = self.__dict__["_routing"] = routing.over(self)  # type: ignore[arg-type]
        counts = {name: named.pop(name) for name in routing.counts if name in named}
        config = self.__dict__.get("config")  # not every module with layers has one
        chosen = named.get("output_hidden_states") or (config and vars(config).get("output_hidden_states"))
        forward = functools.partial(self._base.forward, self)
        run = routing.run(counts)
        if run.slots.is_plain:  # then the model's own loop is what the route says
            for value in (*args, *named.values()):
                if isinstance(value, Cache):
                    give_slots(value, run.slots)
            token = running.set(None)  # a compiler can ask for it only where it saw it set
            try:
                return forward(*args, **named)
            finally:
                running.reset(token)
        try:
            return run_route(run, forward, args, named, chosen)
        except TakesTupleError:
            routing.takes_tuple = True
            return run_route(routing.run(counts), forward, args, named, chosen)


class TopPart(Part):
    """The model that a user holds: it generates with its route."""

    @property
    def routing(self) -> Any:
        """The route, over the layers."""
        return routing_of(self)  # type: ignore[arg-type]

    def _validate_model_kwargs(self, model_kwargs: dict[str, Any]) -> None:
        counts = self.routing.counts
        super()._validate_model_kwargs(  # type: ignore[misc]
            {name: value for name, value in model_kwargs.items() if name not in counts}
        )

    def _prepare_cache_for_generation(self, generation_config: Any, model_kwargs: dict[str, Any], *rest: Any) -> Any:
        found = super()._prepare_cache_for_generation(generation_config, model_kwargs, *rest)  # type: ignore[misc]
        routing: AnyRouting = self.routing
        slots = routing.slots_at(chosen_of(routing.counts, model_kwargs))
        for name in CACHE_NAMES & model_kwargs.keys():
            if isinstance(model_kwargs[name], Cache):
                give_slots(model_kwargs[name], slots)
        return found

    def _get_logits_processor(self, generation_config: Any, *args: Any, **named: Any) -> Any:
        found = super()._get_logits_processor(generation_config, *args, **named)  # type: ignore[misc]
        refuse_counts_in(generation_config, self.routing.counts)
        return guided_at(found, self, chosen_of(self.routing.counts, named.get("model_kwargs") or {}))

    def _get_candidate_generator(
        self, generation_config: Any, *args: Any, model_kwargs: dict[str, Any], **named: Any
    ) -> Any:
        if generation_config.assistant_early_exit is not None:
            message = "`assistant_early_exit` runs the first layers only, and a route says itself which layers run"
            raise CompileError("unroutable-model", message, help="give a model with a shorter route as the assistant")
        counts = self.routing.counts  # an assistant runs at its own
        kept = {name: value for name, value in model_kwargs.items() if name not in counts}
        return super()._get_candidate_generator(generation_config, *args, model_kwargs=kept, **named)  # type: ignore[misc]

    def init_continuous_batching(self, *args: Any, **named: Any) -> Any:
        """Refuse continuous batching.

        Raises:
            CompileError: `cache-mismatch`; without it, requests would fail one by one in a thread of their own.
        """
        message = "continuous batching keeps keys and values in a paged cache with one entry for each layer"
        raise CompileError("cache-mismatch", message, help="generate in batches: model.generate(ids, attention_mask=…)")


def chosen_of(counts: Iterable[str], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the loop counts among keywords."""
    return {name: named[name] for name in counts if name in named}


def guided_at(processors: Any, model: Any, counts: Mapping[str, int]) -> Any:
    """Have what runs the model once more for every token, as classifier-free guidance does, run it at its counts."""
    for each in processors:
        if counts and hasattr(each, "model") and each.model is model:
            each.model = functools.partial(model, **counts)
    return processors


def refuse_counts_in(generation_config: Any, counts: Iterable[str]) -> None:
    """Refuse a generation config that says loop counts: it keeps whatever it is given, and `generate` asks for none.

    Raises:
        CompileError: `loop-count`.
    """
    for name in counts:
        if hasattr(generation_config, name):
            message = f"the generation config says the loop count `{name}`, which `generate` does not read there"
            raise CompileError("loop-count", message, help=f"say it at the call: generate(…, {name}=…)")


def list_property(name: str) -> property:
    """Return what a model's list of layers is under a route."""

    def layers(self: nn.Module) -> Any:
        return layers_or_stand_ins(self, name)

    return property(layers, doc="The N layers; during a forward, their stand-ins.")


def forward_of(base: Any) -> Any:
    """Return the forward of an owner, with the name and the signature of that of the model's own class."""

    @functools.wraps(base.forward)
    def forward(self: OwnerPart, *args: Any, **named: Any) -> Any:
        return self._run(args, named)

    return forward


def top_forward_of(base: Any) -> Any:
    """Return the forward of a model that has the owner inside it: its own, with hidden states at exits."""

    @functools.wraps(base.forward)
    def forward(self: TopPart, *args: Any, **named: Any) -> Any:
        found: list[Any] = []
        token = waiting.set(found)
        try:
            outputs = base.forward(self, *args, **named)
        finally:
            waiting.reset(token)
        return with_exits(outputs, found[-1]) if found else outputs

    return forward


def routing_of(model: nn.Module, *default: Any) -> Any:
    """Return the route of a model, or of the one inside a wrapper; the default where there is none."""
    found = [part._routing for part in model.modules() if isinstance(part, OwnerPart) and "_routing" in vars(part)]
    if found:
        return found[0]
    if default:
        return default[0]
    raise LookupError("a model without a route")
