"""Options of conditioning, applied to the executions of one route."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, assert_never

from torch import nn

from depthgraph.errors import CompileError
from depthgraph.nn.capture import Key
from depthgraph.nn.conditioning import Lora, Norm, Option, Scale, StepEmbedding, selects
from depthgraph.nn.conditioning_parts import (
    CONDITIONING,
    Exchange,
    FixedScale,
    LearnedScale,
    LowRank,
    OwnNorm,
    StepVector,
    tree_of,
)
from depthgraph.nn.conditioning_targets import like, linears_of, names_of, norms_of, plain
from depthgraph.nn.signature import title_of
from depthgraph.nn.weights import WIDTH_HELP
from depthgraph.operations import Execution
from depthgraph.route import Route


@dataclass
class Calls:
    """What the graph calls around one execution; the names are those of submodules of the compiled route.

    Attributes:
        before: called with h, in order.
        weights: called with the layer and its arguments, in the place of the layer; None if nothing is exchanged.
        scale: called with what the layer returned and what it was given.
        after: called with h, in order.
    """

    before: list[str] = field(default_factory=list)
    weights: str | None = None
    scale: str | None = None
    after: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Conditioned:
    """What a compiled route gets: its submodule `conditioning` (or none), and the calls by (layer, visit)."""

    modules: Mapping[str, nn.Module]
    calls: Mapping[Key, Calls]


@dataclass
class Binding:
    """Applies options to the executions of one route.

    Attributes:
        route: the route.
        layers: those that run, by their number.
        width: d, if it is known.
        known: the parts that were made for an earlier route; None if this is the first.
        parts: those that are made now, by path.
        fixed: parts without parameters, which are of this route alone.
        calls: by (layer, visit).
        adapted: parameter of the layer → path of its update, by the name of an execution's submodule.
        replaced: parameter of the layer → path of its copy, likewise.
        frozen: names of parameters without gradient, by layer.
    """

    route: Route
    layers: Mapping[int, nn.Module]
    width: int | None
    known: Mapping[str, nn.Module] | None
    parts: dict[str, nn.Module] = field(default_factory=dict)
    fixed: dict[str, nn.Module] = field(default_factory=dict)
    calls: dict[Key, Calls] = field(default_factory=dict)
    adapted: dict[str, dict[str, str]] = field(default_factory=dict)
    replaced: dict[str, dict[str, str]] = field(default_factory=dict)
    frozen: dict[int, list[str]] = field(default_factory=dict)

    def apply(self, option: Option) -> None:
        """Make, or find, what an option needs for each execution that it is for."""
        chosen = [execution for execution in self.route.executions if selects(option, execution)]
        if isinstance(option, StepEmbedding) and option.by == "iteration":
            chosen = [execution for execution in chosen if execution.iterations]
        if self.known is None:
            self._check_chosen(option, chosen)
        for execution in chosen:
            match option:
                case StepEmbedding():
                    self._step(option, execution)
                case Norm():
                    self._norm(option, execution)
                case Scale():
                    self._scale(option, execution)
                case Lora():
                    self._lora(option, execution)
                case _:
                    assert_never(option)

    def result(self, parts: Mapping[str, nn.Module], frozen: Mapping[int, tuple[str, ...]]) -> Conditioned:
        """Put everything together, with the parts that other routes made."""
        exchanges = {}
        for execution in self.route.executions:
            owner, names = _owner(execution), frozen.get(execution.layer, ())
            exchange = Exchange(self.adapted.get(owner, {}), self.replaced.get(owner, {}), names)
            if exchange.adapted or exchange.replaced or names:
                exchanges[owner] = exchange
                self._calls(execution).weights = f"{CONDITIONING}.{owner}"
        every = {**parts, **self.fixed}
        modules = {CONDITIONING: tree_of(every, exchanges)} if every or exchanges else {}
        return Conditioned(modules, self.calls)

    def _check_chosen(self, option: Option, chosen: list[Execution]) -> None:
        keys = {(execution.layer, execution.visit) for execution in self.route.executions}
        missing = sorted(option.executions - keys) if isinstance(option.executions, frozenset) else []
        if missing:
            message = f"no execution is {missing[0]}, which a {type(option).__name__} is for"
            help = f"this route runs its layers {self.route.reuse_map} times; visits are numbered from 1"
            raise CompileError("unknown-execution", message, help=help)
        if not chosen:
            message = f"this {type(option).__name__} is for no execution of the route"
            loops = isinstance(option, StepEmbedding) and option.by == "iteration"
            help = "no execution stands in a loop" if loops else "choose others by `executions`, or leave it out"
            raise CompileError("unused-conditioning", message, help=help)

    def _calls(self, execution: Execution) -> Calls:
        return self.calls.setdefault((execution.layer, execution.visit), Calls())

    def _step(self, option: StepEmbedding, execution: Execution) -> None:
        owner = {"execution": _owner(execution), "visit": f"visit_{execution.visit}"}.get(option.by)
        owner = owner or f"iteration_{execution.iterations[0].number}"
        path = f"{owner}.step" if option.at == "before" else f"{owner}.step_after"
        places = self._calls(execution).before if option.at == "before" else self._calls(execution).after
        _check_single(f"{CONDITIONING}.{path}" in places, f"two step embeddings {option.at} it", execution)
        places.append(f"{CONDITIONING}.{path}")
        layer = self.layers[execution.layer]
        self._part(path, execution, lambda: StepVector(self._known_width(), *like(layer)), {"weight": self.width})

    def _scale(self, option: Scale, execution: Execution) -> None:
        scale = option.of(execution, self.route.reuse_map[execution.layer - 1])
        if scale == 1 and not option.learned:
            return
        calls, path = self._calls(execution), f"{_owner(execution)}.scale"
        _check_single(calls.scale is not None, "two scales", execution)
        calls.scale = f"{CONDITIONING}.{path}"
        if option.learned:
            self._part(path, execution, partial(LearnedScale, scale, *like(self.layers[execution.layer])), {})
        else:
            self.fixed[path] = FixedScale(scale)

    def _norm(self, option: Norm, execution: Execution) -> None:
        layer, title = self._layer(execution)
        replaced = self.replaced.setdefault(_owner(execution), {})
        for target, norm in norms_of(title, layer, option.targets).items():
            path = _joined("norm", plain(target))
            shapes = {name: tuple(each.shape) for name, each in norm.named_parameters()}
            for key, parameter in norm.named_parameters():
                names = names_of(layer, parameter)
                _check_single(names[0] in replaced, f"two copies of its norm {plain(target)!r}", execution)
                replaced.update(dict.fromkeys(names, f"{path}.{key}"))
            self._part(f"{_owner(execution)}.{path}", execution, partial(OwnNorm, norm), shapes)

    def _lora(self, option: Lora, execution: Execution) -> None:
        layer, title = self._layer(execution)
        adapted = self.adapted.setdefault(_owner(execution), {})
        alpha = option.rank if option.alpha is None else option.alpha
        for target, linear in linears_of(title, layer, option.targets).items():
            weight = linear.get_parameter("weight")
            path, names = _joined("lora", plain(target)), names_of(layer, weight)
            _check_single(names[0] in adapted, f"two updates of its weight {plain(names[0])!r}", execution)
            adapted.update(dict.fromkeys(names, path))
            shapes = {"A": (option.rank, weight.shape[1]), "B": (weight.shape[0], option.rank)}
            self._part(f"{_owner(execution)}.{path}", execution, partial(LowRank, weight, option.rank, alpha), shapes)
            if option.frozen:
                own = [name for each in linear.parameters() for name in names_of(layer, each)]
                self.frozen.setdefault(execution.layer, []).extend(own)

    def _layer(self, execution: Execution) -> tuple[nn.Module, str]:
        layer = self.layers[execution.layer]
        return layer, title_of(execution.layer, layer)

    def _part(self, path: str, execution: Execution, make: Callable[[], nn.Module], shapes: Mapping[str, Any]) -> None:
        """Find the part of this path, or make it for the first route."""
        if self.known is None:
            if path not in self.parts:
                self.parts[path] = make()
            return
        part = self.known.get(path)
        if part is None:
            message = f"this conditioning has nothing for {execution.name}, which an option is for: {path}"
            help = (
                "its first route says what there is; make it for the longest route first, with prepare(); of counts at "
                "run time the first is the default, dynamic={'r': 8}"
            )
            raise CompileError("conditioning-mismatch", message, help=help)
        for name, shape in shapes.items():
            found = tuple(part.get_parameter(name).shape)
            if shape not in (None, found, *found):
                message = f"{path}.{name} has the shape {found}, and this layer needs {shape}"
                raise CompileError("conditioning-mismatch", message, help="use one Conditioning with the same layers")

    def _known_width(self) -> int:
        if self.width is None:
            message = "step embeddings need the width of the hidden state, and it is not known"
            raise CompileError("unknown-width", message, help=WIDTH_HELP)
        return self.width


def _owner(execution: Execution) -> str:
    return f"L{execution.layer}_{execution.visit}"


def _joined(kind: str, target: str) -> str:
    return f"{kind}.{target}" if target else kind


def _check_single(is_double: bool, what: str, execution: Execution) -> None:
    if is_double:
        message = f"options give {execution.name} {what}"
        raise CompileError("double-conditioning", message, help="choose executions, or targets, that do not overlap")
