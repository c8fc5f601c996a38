"""A route whose code is written out, and models that run it: in folders that load without this package (`standalone`).

This file is written into these folders, and only they use it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from torch import Tensor, nn
from transformers.conversion_mapping import get_checkpoint_conversion_mapping, register_checkpoint_conversion_mapping
from transformers.utils.output_capturing import _CAN_RECORD_REGISTRY

from depthgraph.errors import CompileError
from depthgraph.hf.parts import WEIGHTS, TopPart
from depthgraph.hf.running import Run
from depthgraph.hf.slots import CachePolicy, Slots
from depthgraph.nn.weights import Gated, Mixer


@dataclass(frozen=True)
class Written:
    """What is written out of a route over a model's layers.

    Attributes:
        route: its text.
        path: the layers in the order of their executions, from 1.
        parameter_depth: N.
        code: called with a function that runs an execution, the modules of `mix` and `gate`, and the hidden state.
        own: name → kind of the modules of `mix` and `gate`.
        owner: the name of the module with the list of layers, in the model; empty where it is the model itself.
        list_name: of the list.
    """

    route: str
    path: tuple[int, ...]
    parameter_depth: int
    code: Callable[..., Any]
    own: Mapping[str, type[Mixer | Gated]]
    owner: str
    list_name: str

    def check(self, config: Any) -> None:
        """Refuse a config that says another route, before anything is built or loaded.

        Raises:
            CompileError: `route-mismatch`, `layer-count` or `invalid-config`.
        """
        help = "another route needs depthgraph: dg.hf.from_pretrained(folder, route=…)"
        if config.route != self.route or config.loop_counts or config.route_bindings:
            message = f"the config says the route `{config.route}`, and the code of this folder runs `{self.route}`"
            raise CompileError("route-mismatch", message, help=help)
        depth = config.get_text_config(decoder=True).num_hidden_layers
        if depth != self.parameter_depth:
            message = f"the config says {depth} layers, and the route is over {self.parameter_depth}"
            raise CompileError("layer-count", message, help=help)
        if config.kv_cache not in get_args(CachePolicy):
            message = f"`kv_cache` is one of {', '.join(get_args(CachePolicy))}; found {config.kv_cache!r}"
            raise CompileError(
                "invalid-config", message, help="per_execution computes what is computed without a cache"
            )


class WrittenRouting:
    """A written route over the layers of one model.

    Attributes:
        written: the route.
        owner: the module with the list of layers.
        config: of the model.
        slots: of the cache.
        takes_tuple: whether the model's loop takes hidden states out of tuples; known from the first forward on.
    """

    counts: tuple[str, ...] = ()

    def __init__(self, written: Written, owner: nn.Module, config: Any) -> None:
        self.written = written
        self.owner = owner
        self.config = config
        self.slots = Slots.of(written.path, written.parameter_depth, config.kv_cache, written.route)
        self.policy = config.kv_cache
        self.takes_tuple = False

    def run(self, counts: Mapping[str, int]) -> Run:
        """Return a forward that is about to run.

        Raises:
            CompileError: `route-mismatch`: somebody changed what the config says; `layer-count`.
        """
        self.written.check(self.config)
        if self.config.kv_cache != self.policy:
            message = f"the config says kv_cache={self.config.kv_cache!r}, and the model was built with {self.policy!r}"
            raise CompileError("route-mismatch", message, help="load the model again")
        return Run(self.owner, self._body, self.slots, self.takes_tuple)

    def is_over(self, owner: nn.Module) -> bool:
        """Return whether the route is over the layers of this module."""
        return self.owner is owner

    def over(self, owner: nn.Module) -> "WrittenRouting":
        """Return the same route over the layers of another module, a copy."""
        return WrittenRouting(self.written, owner, self.config)

    def slots_at(self, counts: Mapping[str, int]) -> Slots:
        """Return the slots of the cache."""
        return self.slots

    def _body(self, hidden: Tensor, run: Run) -> Any:
        layers: Any = self.owner._modules[self.written.list_name]

        def layer(number: int, hidden: Tensor, execution: int) -> Tensor:
            return run.execute(layers[number - 1], number - 1, execution - 1, hidden)

        return self.written.code(layer, self.owner._modules.get(WEIGHTS), hidden)


class WrittenTop(TopPart):
    """The model that a user holds: it is built with the route that is written for it."""

    written: Written
    owner_class: Any = None  # for the module with the list of layers, where that is another one

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        for kind in filter(None, (cls, cls.owner_class)):
            keep_conversions(kind)

    def __init__(self, config: Any, *inputs: Any, **named: Any) -> None:
        """Build the model, and put the route over its layers.

        Raises:
            CompileError: the config says another route; before anything is built or loaded.
        """
        self.written.check(config)
        super().__init__(config, *inputs, **named)  # type: ignore[call-arg]
        model: Any = self
        owner = model.get_submodule(self.written.owner)
        like = next(each for each in owner.parameters() if each.is_floating_point())
        width = config.get_text_config(decoder=True).hidden_size
        own = {name: kind(width, like.device, like.dtype) for name, kind in self.written.own.items()}
        if own:
            holder = nn.Module()
            for name, module in own.items():
                holder.add_module(name, module)
            owner.add_module(WEIGHTS, holder)
        if self.owner_class is not None:
            owner.__class__ = self.owner_class
            # by the class of an object, and only while it is built, transformers learns what its outputs are taken from
            _CAN_RECORD_REGISTRY[owner] = getattr(owner, "_can_record_outputs", None)
        owner.__dict__["_routing"] = WrittenRouting(self.written, owner, config)


def keep_conversions(kind: Any) -> None:
    """Let weights of a class be read and written as those of the class of transformers that it is made from.

    Some have other names or shapes in files than in memory (GPT-NeoX's head, experts). transformers converts them for
    no class from elsewhere, unless that is registered by its name.
    """
    base = kind._base
    known = get_checkpoint_conversion_mapping
    conversions = known(base.__name__) or known(base.config_class.model_type)
    if conversions is not None:
        register_checkpoint_conversion_mapping(kind.__name__, conversions, overwrite=True)
