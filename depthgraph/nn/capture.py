"""The hidden states that the executions of a compiled model leave, by (layer, visit)."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor, nn

from depthgraph.errors import CompileError
from depthgraph.nn.module import RoutedModule
from depthgraph.nn.runtime import hidden_of
from depthgraph.route import Execution

#: What names an execution under every route: its layer and its visit, both from 1.
Key = tuple[int, int]


@contextlib.contextmanager
def capture(model: nn.Module, executions: Iterable[Key | Execution] | None = None) -> Iterator[dict[Key, Tensor]]:
    """Collect what executions return while the model runs.

    Every forward fills the dict anew, so it holds one run. The tensors are those of the run, not copies:
    gradients flow through them (`retain_grad` works), and they stay in memory as long as the dict does.
    Executions that a backward repeats to save memory (checkpointing) are not collected again. A model compiled
    by `torch.compile` runs without its compiled code inside this context.

    Args:
        model: a compiled route, or any module that contains one.
        executions: which ones, as (layer, visit) or as the route's executions; None for all.

    Yields:
        (layer, visit) → the hidden state after that execution, of the shape that the layer returns.

    Raises:
        CompileError: `no-compiled-route` when the model contains none or several; `unknown-execution` for a
            pair that the route does not run.

    Examples:
        >>> from depthgraph.nn.compile import compile
        >>> from depthgraph.route import Route
        >>> model = compile(Route.of([1, 1]), [nn.Linear(8, 8)])
        >>> with capture(model) as seen:
        ...     output = model(torch.ones(2, 8))
        >>> sorted(seen), bool((seen[1, 2] == output).all())
        ([(1, 1), (1, 2)], True)
    """
    routed = find_routed(model)
    recorder = _Recorder(_order(routed), _wanted(routed, executions))
    with contextlib.ExitStack() as cleanup:
        handles = [
            routed.register_forward_pre_hook(recorder.start, prepend=True),
            routed.register_forward_hook(recorder.stop, always_call=True),
        ]
        targets = {node.target: None for node in routed.graph.nodes if node.op == "call_module"}
        distinct = {id(module): module for module in map(routed.get_submodule, targets)}
        handles += [module.register_forward_hook(recorder.record) for module in distinct.values()]
        for handle in handles:
            cleanup.callback(handle.remove)
        if any(part._compiled_call_impl is not None or "_orig_mod" in part._modules for part in model.modules()):
            # compiled code was made without these hooks, and would leave them out in silence
            cleanup.enter_context(torch.compiler.set_stance("force_eager"))
        yield recorder.seen


def find_routed(model: nn.Module) -> RoutedModule:
    """Return the one compiled route in a module.

    Raises:
        CompileError: `no-compiled-route` when there is none, or more than one.
    """
    found = [(name, part) for name, part in model.named_modules() if isinstance(part, RoutedModule)]
    if len(found) == 1:
        return found[0][1]
    names = ", ".join(repr(name) for name, _ in found) or "none"
    raise CompileError(
        "no-compiled-route",
        f"a {type(model).__name__} with one compiled route is needed; found {names}",
        help="give the module that dg.compile returned",
    )


def _order(routed: RoutedModule) -> tuple[Execution | None, ...]:
    """Return the execution of each call of a submodule, in order; None for calls that the user added."""
    return tuple(node.meta.get("execution") for node in routed.graph.nodes if node.op == "call_module")


def _wanted(routed: RoutedModule, executions: Iterable[Key | Execution] | None) -> frozenset[Key]:
    known = {(one.layer, one.visit) for one in _order(routed) if one is not None}
    if executions is None:
        return frozenset(known)
    wanted = [(one.layer, one.visit) if isinstance(one, Execution) else one for one in executions]
    for key in wanted:
        if key not in known:
            raise CompileError("unknown-execution", f"no execution is {key!r}", help=_visits(key, known))
    return frozenset(wanted)


def _visits(key: object, known: set[Key]) -> str:
    layer = key[0] if isinstance(key, tuple) and len(key) == 2 else None
    count = sum(1 for number, _ in known if number == layer)
    if not count:
        return f"executions are (layer, visit), and the layers that run are {sorted({one for one, _ in known})}"
    return f"layer {layer} runs {count} time{'s' * (count > 1)}: visits are 1..{count}"


@final
@dataclass
class _Recorder:
    """Counts the calls of one forward of a compiled route. The calls come in the order of its nodes."""

    order: tuple[Execution | None, ...]
    wanted: frozenset[Key]
    seen: dict[Key, Tensor] = field(default_factory=dict)
    calls: Iterator[Execution | None] | None = None

    def start(self, *_: Any) -> None:
        if not in_backward():
            self.seen.clear()
            self.calls = iter(self.order)

    def stop(self, *_: Any) -> None:
        if not in_backward():
            self.calls = None

    def record(self, _module: nn.Module, _arguments: Any, output: Any) -> None:
        if self.calls is None:
            return
        execution = next(self.calls, None)
        if execution is not None and (execution.layer, execution.visit) in self.wanted:
            self.seen[execution.layer, execution.visit] = hidden_of(output)


def in_backward() -> bool:
    """Return whether autograd runs a backward now; what runs forward in it is a recomputation."""
    return bool(torch._C._current_graph_task_id() != -1)
