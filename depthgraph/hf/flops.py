"""The FLOPs of training a Hugging Face model, counted as it runs; and a callback of the Trainer that logs them.

The Trainer's own figure, `total_flos`, is 6 · tokens · parameters. It counts every layer once, however often a route
runs it, and leaves attention out.
"""

import warnings
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers.trainer_callback import ExportableState, TrainerCallback

from depthgraph.errors import CostError
from depthgraph.hf.meta import DATA, forward_and_backward, on_meta
from depthgraph.hf.parts import routing_of
from depthgraph.nn.attention import flop_counter

if TYPE_CHECKING:
    from transformers import Trainer

#: What the total so far is called in the Trainer's log.
LOGGED = "route_flops"


def training_flops(model: nn.Module, *args: Any, **named: Any) -> int:
    """Return the FLOPs of one forward and backward of a model on a batch, called as the model is.

    The model is copied without its data and runs once on the meta device, where torch's counter sees every matrix
    product: those of every execution of the route, of the head, of adapters; and in backward only those that lead to
    parameters which are trained. The conventions are those of `dg.cost`: attention is two whole products, and what
    checkpointing computes a second time does not count.

    Args:
        model: a Hugging Face model with or without a route, or one around it, as PEFT makes.
        args: what the model is called with. Of tensors only shapes and dtypes are used.
        named: likewise, loop counts too.

    Raises:
        CostError: `cannot-count` if it does not run without data.
    """
    return on_meta(model, args, named, _counted)


def _counted(twin: nn.Module, run: Callable[[], Tensor]) -> int:
    with flop_counter() as counter:
        forward_and_backward(run)
    total: int = counter.get_total_flops()
    return total


class RouteFlops(TrainerCallback, ExportableState):
    """Logs the FLOPs of all that a Trainer has run so far, forward and backward, as `route_flops`.

    It counts what really runs: every micro batch by its shape, with the loop counts that it is called with. Each kind
    of batch is counted once, which takes about two seconds for 64 executions: pad to few lengths. The figure goes on
    where a checkpoint stopped, and is the sum of all processes.

    Reporters (TensorBoard, W&B …) are told before callbacks that are given as `callbacks=[…]`; `RouteFlops.attach`
    puts it before them, and makes the Trainer's own `total_flos` this figure.

    Attributes:
        total: FLOPs so far.
    """

    def __init__(self) -> None:
        self.total = 0
        self._here = 0  # of this process, not yet in the total
        self._asked = 0
        self._known: dict[Hashable, int] = {}
        self._handle: Any = None
        self._failed = False

    @classmethod
    def attach(cls, trainer: "Trainer") -> "RouteFlops":
        """Make a callback the first that a Trainer tells, after the one that says when to log; return it."""
        made = cls()
        trainer.callback_handler.callbacks.insert(1, made)
        own = trainer.floating_point_ops
        trainer.floating_point_ops = lambda inputs: own(inputs) if made._failed else made._since_asked()
        return made

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"args": {}, "attributes": {"total": self.total}}

    def on_train_begin(self, args: Any, state: Any, control: Any, *, model: nn.Module, **named: Any) -> None:
        """Start to count, at 0 or where the checkpoint stopped."""
        stored = (state.stateful_callbacks or {}).get(type(self).__name__) if state.global_step else None
        self.total = 0 if stored is None else stored["attributes"]["total"]
        self._here = self._asked = 0
        self.on_train_end()
        self._handle = model.register_forward_pre_hook(self._count, with_kwargs=True)

    def on_train_end(self, *args: Any, **named: Any) -> None:
        """Count no longer."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Add what the other processes ran, before a checkpoint is written."""
        if control.should_save:
            self._gather()

    on_epoch_end = on_step_end

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **named: Any) -> None:
        """Put the figure into what is logged and into the history."""
        self._gather()
        if not self._failed:
            for kept in (logs, state.log_history[-1] if state.log_history else None):
                if kept is not None:
                    kept[LOGGED] = self.total

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _count(self, model: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._failed or not (model.training and torch.is_grad_enabled()):
            return
        key = _key(model, args, named)
        try:
            if key not in self._known:
                self._known[key] = training_flops(model, *args, **named)
            self._here += self._known[key]
            self._asked += self._known[key]
        except CostError as error:
            self._failed = True
            warnings.warn(f"no FLOPs are logged: {error.message}", UserWarning, stacklevel=2)

    def _gather(self) -> None:
        if dist.is_available() and dist.is_initialized():
            every: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(every, self._here)
            self.total += sum(every)
        else:
            self.total += self._here
        self._here = 0

    def _since_asked(self) -> int:
        asked, self._asked = self._asked, 0
        return asked


def _key(model: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> Hashable:
    """Return what the count depends on: the route, the batch without its numbers, and what is trained."""
    routing = routing_of(model, None)
    batch = [
        (name, (value.shape, value.dtype) if isinstance(value, Tensor) else repr(value))
        for name, value in (*enumerate(args), *named.items())
        if name not in DATA
    ]
    trained = tuple(parameter.requires_grad for parameter in model.parameters())
    return repr(None if routing is None else routing.settings), repr(batch), trained
