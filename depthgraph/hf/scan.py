"""Every block of layers run twice, or left out: which blocks a pretrained model has a use for a second time.

The way of RYS ("repeat your self", github.com/dnhkng/RYS): for all i ≤ j the layers i..j are repeated, 1..j then i..N,
nothing is trained, and the changes are looked at as a picture over (i, j).

Blocks share work. What a route computes up to the end of its first j layers is what the model computes without a route,
so each batch of windows runs the model once with an exit behind every layer, and a block goes on from one of them:
repeating i..j is layers i..N from the state behind j, leaving i..j out is layers j+1..N from the state behind i-1. The
same operations on the same numbers: losses equal those of the whole routes to the last bit.
"""

import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor
from transformers import PreTrainedModel

from depthgraph.errors import ConfigError
from depthgraph.expand import route_from_text
from depthgraph.hf.evaluate import Report, window_losses
from depthgraph.hf.parts import routing_of
from depthgraph.hf.reroute import reroute, restore
from depthgraph.hf.results import Results
from depthgraph.hf.running import Run
from depthgraph.hf.windows import Windows
from depthgraph.route import Route

#: What is done with a block: it runs twice, or not at all.
Kind = Literal["repeat", "skip"]


@dataclass(frozen=True)
class Block:
    """A block of layers, and the route that repeats it or leaves it out.

    Attributes:
        first: i, from 1.
        last: j.
        route: of the whole model.
        behind: the layer behind whose state it goes on; 0 for the state before the first.
        then: the first layer that runs from there; N + 1 for none.
    """

    first: int
    last: int
    route: Route
    behind: int
    then: int


def blocks(N: int, kind: Kind, *, step: int = 1, max_width: int | None = None) -> tuple[Block, ...]:
    """Return the blocks of a model, by first and last layer.

    Args:
        N: how many layers there are.
        kind: what is done with a block.
        step: blocks begin and end between layers 0, step, 2·step …, and N.
        max_width: the most layers of a block.

    Raises:
        ConfigError: `wrong-usage`: no block is left.

    Examples:
        >>> [block.route.text for block in blocks(3, "repeat")]
        ['1x2 2..3', '1..2 1..3', '(1..3)x2', '1 2x2 3', '1..3 2..3', '1..2 3x2']
        >>> [block.route.text for block in blocks(3, "skip", max_width=1)]
        ['2..3 drop(1)', '1 3 drop(2)', '1..2 drop(3)']
    """
    edges = sorted({*range(0, N, step), N})
    pairs = [(low + 1, high) for low in edges for high in edges if low < high]
    found = [(i, j) for i, j in pairs if j - i < (max_width or N) and (kind == "repeat" or j - i + 1 < N)]
    if not found:
        message = f"no block of a model of {N} layers is at most {max_width} wide with a step of {step}"
        raise ConfigError("wrong-usage", message, help="give a smaller --step, or a larger --max-width")
    return tuple(_block(N, kind, i, j) for i, j in found)


def _block(N: int, kind: Kind, i: int, j: int) -> Block:
    if kind == "repeat":
        return Block(i, j, route_from_text(f"1..{j} {i}..{N}"), behind=j, then=i)
    before, after = f"1..{i - 1}" if i > 1 else "", f"{j + 1}..{N}" if j < N else ""
    return Block(i, j, route_from_text(f"{before} drop({i}..{j}) {after}", N=N), behind=i - 1, then=j + 1)


@dataclass
class _Start:
    """What a model's forward runs instead of its compiled route: the same from another state, whose exits it keeps.

    Attributes:
        routing: of the model.
        is_empty: whether no layer runs.
        state: that it begins with instead of the one that it is given.
        exits: of its last run.
    """

    routing: Any
    is_empty: bool
    state: Tensor | None = None
    exits: tuple[Tensor, ...] = ()

    def run(self, counts: Mapping[str, int]) -> Run:
        """Return a forward that is about to run, as the routing does."""
        found: Run = type(self.routing).run(self.routing, counts)
        # under a name of its own, or 1..N would be run by the model's own loop, from its own state
        slots = replace(found.slots, route=f"{found.slots.route} from another state")
        return replace(found, body=functools.partial(self.body, found.body), slots=slots)

    def body(self, compiled: Callable[[Any, Any], Any], hidden: Tensor, run: Run) -> Tensor:
        """Run the compiled route."""
        hidden = hidden if self.state is None else self.state
        output = hidden if self.is_empty else compiled(hidden, run)
        if isinstance(output, tuple):
            output, self.exits = output
        return output


def scan(
    model: PreTrainedModel,
    todo: Sequence[Block],
    windows: Windows,
    results: Results,
    *,
    batch: int = 1,
    report: Report | None = None,
) -> None:
    """Compute the losses of the model without a route, 1..N, and with each block; those that the results lack.

    The model has no route afterwards.

    Windows are the outer loop: after the first batch there is a whole picture, which the others make surer.

    Args:
        model: for inference.
        todo: its blocks.
        windows: of a text.
        results: what is done already; it grows, and is saved as it does.
        batch: windows at once.
        report: is told of every route and batch.

    Raises:
        CompileError: `unroutable-model`.
    """
    plain = route_from_text("1..N", N=todo[0].route.parameter_depth)
    for first in range(0, len(windows), batch):
        last = min(first + batch, len(windows))
        left = [block for block in todo if results.count(block.route.text) < last]
        if left or results.count(plain.text) < last:
            _batch(model, plain, left, windows, (first, last), results, report)
    if routing_of(model, None) is not None:
        restore(model)


def _batch(
    model: PreTrainedModel,
    plain: Route,
    left: Iterable[Block],
    windows: Windows,
    span: tuple[int, int],
    results: Results,
    report: Report | None,
) -> None:
    def done(route: str) -> None:
        start = time.perf_counter()
        losses = window_losses(model, windows, *span)
        new = max(0, span[1] - max(span[0], results.count(route)))
        results.put(route, span[0], losses, time.perf_counter() - start)
        if report is not None and new:
            report(route, new)

    N = plain.parameter_depth
    wanted = {block.behind for block in left} - {0}
    exits = " ".join(f"{layer} exit" if layer in wanted else f"{layer}" for layer in range(1, N + 1))
    begun = _start(model, exits, N)
    done(plain.text)
    states = dict(zip(sorted(wanted), begun.exits, strict=True))
    by_start = defaultdict(list)
    for block in left:
        by_start[block.then].append(block)
    for then, same in sorted(by_start.items()):
        begun = _start(model, f"drop(1..{then - 1}) {then}..N" if 1 < then <= N else "1..N", N, is_empty=then > N)
        for block in same:
            begun.state = states.get(block.behind)
            done(block.route.text)
        results.save()


def _start(model: PreTrainedModel, text: str, N: int, *, is_empty: bool = False) -> _Start:
    """Put the model under a route, and return what can begin it from another state."""
    routing = routing_of(reroute(model, route_from_text(text, N=N)))
    begun = _Start(routing, is_empty)
    routing.run = begun.run
    return begun
