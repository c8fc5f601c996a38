"""The hidden states that the executions of a compiled model leave, by (layer, visit)."""

import contextlib
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor, fx, nn
from torch.utils.hooks import RemovableHandle

from depthgraph.errors import CompileError
from depthgraph.nn.module import RoutedModule
from depthgraph.nn.runtime import taken_from
from depthgraph.nn.signature import Returns, is_wrapper, title_of
from depthgraph.operations import Execution

#: What names an execution under every route: its layer and its visit, both from 1.
Key = tuple[int, int]


@contextlib.contextmanager
def capture(model: nn.Module, executions: Iterable[Key | Execution] | None = None) -> Iterator[dict[Key, Tensor]]:
    """Collect what flows on from executions while the model runs.

    Every forward fills the dict anew, so it holds one run. Only calls by the graph count: a layer may call other
    layers inside its own forward. Hooks of layers have run, also those that are registered in this context. The
    tensors are those of the run, not copies: gradients flow through them (`retain_grad` works), and they stay in
    memory as long as the dict does. Executions that a backward repeats to save memory (checkpointing) are not
    collected again. A model compiled by `torch.compile` runs without its compiled code inside this context.

    Args:
        model: a compiled route, or any module that contains one.
        executions: which ones, as (layer, visit) or as the route's executions; None for all. What conditioning adds
            to an execution is part of it.

    Yields:
        (layer, visit) → the hidden state after that execution, of the shape that the layer returns.

    Raises:
        CompileError: `no-compiled-route` when the model contains none or several; `unknown-execution` for a
            pair that the route does not run; from the model's forward, `unexpected-call` when layers run that the
            graph does not call there.

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
    recorder = _Recorder(_calls(routed), _wanted(routed, executions))
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(recorder.close)
        recorder.watch(routed)
        if any(part._compiled_call_impl is not None or is_wrapper(part) for part in model.modules()):
            # compiled code was made without these hooks, and would leave them out in silence
            cleanup.enter_context(torch.compiler.set_stance("force_eager"))
        yield recorder.seen


def find_routed(model: nn.Module) -> RoutedModule:
    """Return the one compiled route in a module.

    Raises:
        CompileError: `no-compiled-route` when there is none, or more than one.
    """
    modules = model.named_modules() if isinstance(model, nn.Module) else ()
    found = [(name, part) for name, part in modules if isinstance(part, RoutedModule)]
    if len(found) == 1:
        return found[0][1]
    names = ", ".join(repr(name) for name, _ in found) or "none"
    raise CompileError(
        "no-compiled-route",
        f"a module with one compiled route is needed; found {names} in {type(model).__name__}",
        help="give the module that dg.compile returned; of one with counts at run time, that of a count: model.at(r=8)",
    )


@dataclass(frozen=True)
class _Call:
    """A call of a submodule by the graph; without an execution where the user added it.

    It belongs to an execution if it runs the layer, or what the execution has of its own behind the layer or before.
    """

    name: str
    module: nn.Module
    execution: Execution | None
    returns: Returns
    title: str


def _calls(routed: RoutedModule) -> tuple[_Call, ...]:
    return tuple(_call(routed, node) for node in routed.graph.nodes if node.op == "call_module")


def _call(routed: RoutedModule, node: fx.Node) -> _Call:
    module = routed.get_submodule(str(node.target))
    execution = node.meta.get("execution", node.meta.get("conditions"))
    title = "" if execution is None else title_of(execution.layer, routed.layers[execution.layer - 1])
    return _Call(node.name, module, execution, node.meta.get("returns", "auto"), title)


def _wanted(routed: RoutedModule, executions: Iterable[Key | Execution] | None) -> frozenset[Key]:
    known = {(call.execution.layer, call.execution.visit) for call in _calls(routed) if call.execution is not None}
    if executions is None:
        return frozenset(known)
    if not isinstance(executions, Iterable) or isinstance(executions, (str, Mapping)):
        raise CompileError(
            "unknown-execution",
            f"executions are given one by one; found {executions!r}",
            help="give a list of (layer, visit), [(1, 2)], or of the route's executions",
        )
    wanted = [(one, key_of(one)) for one in executions]
    for one, key in wanted:
        if key not in known:
            raise CompileError("unknown-execution", f"no execution is {one!r}", help=_visits(key, known))
    return frozenset(key for _, key in wanted if key is not None)


def key_of(one: Any) -> Key | None:
    """Return (layer, visit) of an execution or of a pair of integers; None for anything else."""
    if isinstance(one, Execution):
        return one.layer, one.visit
    try:
        layer, visit = one if isinstance(one, (tuple, list)) else ()
        return operator.index(layer), operator.index(visit)
    except (TypeError, ValueError):
        return None


def _visits(key: Key | None, known: set[Key]) -> str:
    layer = None if key is None else key[0]
    count = sum(1 for number, _ in known if number == layer)
    if not count:
        return f"executions are (layer, visit), and the layers that run are {sorted({one for one, _ in known})}"
    return f"layer {layer} runs {count} time{'s' * (count > 1)}: visits are 1..{count}"


@final
@dataclass
class _Recorder:
    """Pairs the outermost calls of modules in one forward of a compiled route with the calls of its graph.

    Attributes:
        calls: those of the graph, in order.
        wanted: the executions to keep.
        seen: what flowed on from them.
        position: how many calls have ended; None while the route does not run.
        depth: how many watched modules run now, each called by the one before.
        handles: of the hooks; those that look at what a module returns stand under its id.
    """

    calls: tuple[_Call, ...]
    wanted: frozenset[Key]
    seen: dict[Key, Tensor] = field(default_factory=dict)
    position: int | None = None
    depth: int = 0
    handles: dict[int, list[RemovableHandle]] = field(default_factory=dict)

    def watch(self, routed: RoutedModule) -> None:
        """Register the hooks. Other hooks of the route may call layers: they run before `start`, after `stop`."""
        self.handles[id(routed)] = [
            routed.register_forward_pre_hook(self.start),
            routed.register_forward_hook(self.stop, prepend=True, always_call=True),
        ]
        for module in {id(call.module): call.module for call in self.calls}.values():
            # nn.Module's own methods, for scripted modules refuse theirs, though they run such hooks
            before = nn.Module.register_forward_pre_hook(module, self.enter, prepend=True)
            self.handles[id(module)] = [before, self._watch_end(module)]

    def _watch_end(self, module: nn.Module) -> RemovableHandle:
        return nn.Module.register_forward_hook(module, self.leave, always_call=True)

    def close(self) -> None:
        for handle in (one for handles in self.handles.values() for one in handles):
            handle.remove()

    def start(self, *_: Any) -> None:
        if not in_backward():
            self.seen.clear()
            self.position, self.depth = 0, 0

    def stop(self, _routed: nn.Module, _arguments: Any, output: Any) -> None:
        if self.position is None or in_backward():
            return
        ended, self.position = self.position, None
        if output is not None and ended != len(self.calls):  # it is None after an error
            raise _unexpected(f"{self.calls[ended].name} was not seen to run")

    def enter(self, module: nn.Module, _arguments: Any) -> None:
        if self.position is None or in_backward():
            return
        self.depth += 1
        if self.depth > 1:
            return
        before, end = self.handles[id(module)]
        end.remove()  # to be the last again, behind hooks that were registered since
        self.handles[id(module)] = [before, self._watch_end(module)]
        due = self.calls[self.position] if self.position < len(self.calls) else None
        if due is None or due.module is not module:
            raise _unexpected(f"a {type(module).__name__} ran where the graph calls {due.name if due else 'nothing'}")

    def leave(self, module: nn.Module, _arguments: Any, output: Any) -> None:
        if self.position is None or in_backward():
            return
        self.depth -= 1
        if self.depth or output is None:  # it is None after an error
            return
        call = self.calls[self.position]
        self.position += 1
        execution = call.execution
        if execution is not None and (execution.layer, execution.visit) in self.wanted:
            hidden = taken_from(output, call.returns, call.title)
            self.seen[execution.layer, execution.visit] = hidden


def _unexpected(found: str) -> CompileError:
    return CompileError(
        "unexpected-call",
        f"the layers' calls are not those of the graph: {found}",
        help="call layers by nodes of the graph, and recompile() after editing it",
    )


def in_backward() -> bool:
    """Return whether autograd runs a backward now; what runs forward in it is a recomputation."""
    return bool(torch._C._current_graph_task_id() != -1)
