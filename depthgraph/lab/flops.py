"""The FLOPs of a training step, counted before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from depthgraph.config import TrainConfig
from depthgraph.decoder_cost import decoder_cost
from depthgraph.nn import Decoder, DynamicModule, cost
from depthgraph.nn.meta import copy_without_data


@dataclass(frozen=True)
class StepFlops:
    """Counts the FLOPs of a step by its loop counts, each set of counts once.

    The convention is that of `depthgraph.decoder_cost` and `dg.cost`: what gets a gradient costs 3 forward passes, and
    what it does not reach, before a `stopgrad` or before exits alone, costs 1. So do the logits at the exits.

    Attributes:
        config: of the run.
        model: its model.
        known: what was counted, by the counts in the order of the config.
    """

    config: TrainConfig
    model: Decoder
    known: dict[tuple[int, ...], int | None] = field(default_factory=dict)

    def of(self, counts: Mapping[str, int]) -> int | None:
        """Return the FLOPs of a step; None if the user's own layers cannot be counted."""
        key = tuple(counts.values())
        if key not in self.known:
            self.known[key] = self._counted(counts)
        return self.known[key]

    def _counted(self, counts: Mapping[str, int]) -> int | None:
        body, config = self.model.body, self.config
        route = (body.at(**counts) if isinstance(body, DynamicModule) else body).route
        if config.model.layer is None and route.is_chain:
            return decoder_cost(config.model, route, config.length, config.batch).training_flops
        B, T, d = config.batch, config.length, config.model.width
        inputs = self.model.attention_inputs(T, torch.empty(B, T, d, device="meta"))
        taken = {name: value for name, value in inputs.items() if name in self.model.body_inputs}
        try:
            layers, _ = copy_without_data(body.layers)
            counted = cost(route, list(layers.eval()), batch=B, length=T, width=d, inputs=taken, exit_losses=False)
        except Exception:  # a layer may do anything, and a run does not fail for a missing figure
            return None
        return counted.training_flops + (3 + len(route.exits)) * 2 * B * T * d * config.model.vocab_size
