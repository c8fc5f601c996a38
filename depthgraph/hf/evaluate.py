"""The loss of a pretrained model on a text under several routes: one model, loaded once, re-routed in place.

Nothing is trained: the question is what a model does with another order of its layers as it is.
"""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Protocol

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from depthgraph.hf.find import find_layers
from depthgraph.hf.parts import WEIGHTS, routing_of
from depthgraph.hf.reroute import reroute, restore
from depthgraph.hf.results import Results
from depthgraph.hf.windows import Windows
from depthgraph.route import Route

#: Tokens whose logits are made numbers of single precision at once: of a large vocabulary they take much memory.
AT_ONCE = 256


class Report(Protocol):
    """What is told that windows are done."""

    def __call__(self, route: str, windows: int) -> None:
        """Show it.

        Args:
            route: its canonical text.
            windows: how many more are done.
        """


class Bench:
    """A model that is put under one route after the other.

    Attributes:
        model: it, in place.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        """Take a model, with or without a route of its own; weights of that route are kept for others that use them."""
        routing = routing_of(model, None)
        self.model = model
        self._owner = find_layers(model).owner if routing is None else routing.layers.owner
        own = self._owner._modules.get(WEIGHTS)
        self._own = dict(own.named_children()) if own is not None else {}

    def place(self, route: Route) -> PreTrainedModel:
        """Put the model under a route; 1..N is the model as transformers runs it.

        Raises:
            CompileError: `unroutable-model`, or whatever `reroute` raises.
        """
        if routing_of(self.model, None) is not None:
            restore(self.model)
        if route.is_chain and route.path == tuple(range(1, route.parameter_depth + 1)):
            return self.model
        if self._own:
            holder = nn.Module()
            for name, module in self._own.items():
                holder.add_module(name, module)
            self._owner.add_module(WEIGHTS, holder)
        return reroute(self.model, route)


def window_losses(model: PreTrainedModel, windows: Windows, first: int, last: int) -> list[float]:
    """Return the sum of the losses of each window, in nats.

    Args:
        model: for inference.
        windows: of a text.
        first: the first window, from 0.
        last: the one after the last.
    """
    device = next(model.parameters()).device
    inputs = windows.inputs[first:last].to(device)
    with torch.no_grad():
        logits = model(input_ids=inputs, use_cache=False).logits[:, -windows.length :]
        targets = windows.targets[first:last].to(device)
        return [_loss(row, target) for row, target in zip(logits, targets, strict=True)]


def _loss(logits: torch.Tensor, targets: torch.Tensor) -> float:
    parts = zip(torch.split(logits, AT_ONCE), torch.split(targets, AT_ONCE), strict=True)
    losses = [cross_entropy(part.float(), target, reduction="none").double().sum() for part, target in parts]
    return float(torch.stack(losses).sum())


def evaluate(
    model: PreTrainedModel,
    routes: Iterable[Route],
    windows: Windows,
    results: Results,
    *,
    batch: int = 1,
    report: Report | None = None,
) -> None:
    """Compute the losses of routes, those that the results lack.

    Args:
        model: for inference, with or without a route of its own.
        routes: over its layers.
        windows: of a text.
        results: what is done already; it grows, and is saved after every batch.
        batch: windows at once.
        report: is told after every batch.

    Raises:
        CompileError: `unroutable-model`, or whatever `reroute` raises.
    """
    bench = Bench(model)
    for route in routes:
        if results.count(route.text) >= len(windows):
            continue
        placed = bench.place(route)
        for first in range(results.count(route.text), len(windows), batch):
            start = time.perf_counter()
            losses = window_losses(placed, windows, first, min(first + batch, len(windows)))
            results.put(route.text, first, losses, time.perf_counter() - start)
            results.save()
            if report is not None:
                report(route.text, len(losses))


@dataclass(frozen=True)
class Score:
    """What a route makes of a text.

    Attributes:
        loss: nats a token.
        difference: of the loss to the baseline's.
        spread: the standard error of the difference, from its values on the windows; None for one window.
        bits: a byte of the text; None where the tokenizer cannot say which bytes its tokens are.
        seconds: of all windows.
    """

    loss: float
    difference: float
    spread: float | None
    bits: float | None
    seconds: float

    @property
    def perplexity(self) -> float:
        """The exponential of the loss; infinite where that is no number of double precision."""
        return math.exp(self.loss) if self.loss < 700 else math.inf


def score(results: Results, route: str, baseline: str, windows: Windows) -> Score:
    """Return the score of a route whose windows are all done.

    Args:
        results: the losses.
        route: its canonical text.
        baseline: that of the route it is compared with.
        windows: of the text.
    """
    count, T = len(windows), windows.length
    losses, base = (results.routes[text].losses[:count] for text in (route, baseline))
    differences = [(one - other) / T for one, other in zip(losses, base, strict=True)]
    bits = None if windows.sizes is None else sum(losses) / math.log(2) / sum(windows.sizes)
    return Score(
        loss=sum(losses) / windows.tokens,
        difference=fmean(differences),
        spread=stdev(differences) / math.sqrt(count) if count > 1 else None,
        bits=bits,
        seconds=sum(results.routes[route].seconds[:count]),
    )
