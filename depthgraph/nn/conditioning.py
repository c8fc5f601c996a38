"""What single executions have of their own: options of `compile`, and the parameters that are made for them."""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from depthgraph.errors import CompileError, shown
from depthgraph.nn.capture import Key, key_of
from depthgraph.operations import Execution

#: Which executions an option is for: a function of an execution, pairs of (layer, visit), or None for all.
Executions = Callable[[Execution], bool] | Collection[Key | Execution] | None


def revisits(execution: Execution) -> bool:
    """Return whether a layer ran before: its own weights serve its first visit.

    Examples:
        >>> [revisits(Execution(1, 1, 1)), revisits(Execution(2, 1, 2))]
        [False, True]
    """
    return execution.visit > 1


@dataclass(frozen=True, kw_only=True)
class StepEmbedding:
    """A learned vector that is added to h before an execution, or behind it. It starts at 0.

    It tells a layer at which step of the computation it runs, as the timestep embedding of Universal Transformers does
    (arXiv 1807.03819, section 2.1; theirs is a fixed sinusoid).

    Attributes:
        by: what a vector belongs to. `execution`: each (layer, visit) has its own. `visit`: all layers share that of
            their first visit, of their second … `iteration`: all executions in one iteration of the outermost loop
            around them share it; those outside loops have none.
        at: `before` or `after` the execution. Behind it, it is no part of the update that a `Scale` scales.
        executions: which ones; all by default.
    """

    by: Literal["execution", "visit", "iteration"] = "execution"
    at: Literal["before", "after"] = "before"
    executions: Executions = None

    def __post_init__(self) -> None:
        """Refuse words that mean nothing.

        Raises:
            CompileError: `bad-conditioning`.
        """
        _check_word("StepEmbedding", "by", self.by, ("execution", "visit", "iteration"))
        _check_word("StepEmbedding", "at", self.at, ("before", "after"))
        _freeze(self)


@dataclass(frozen=True, kw_only=True)
class Norm:
    """Norms of its own for an execution: copies of the parameters of the layer's norms, in their places.

    Norms cost little, and set how much each part of a layer reads and writes. The copies start as the layer's own
    parameters, at the time of compiling: so load weights first.

    Attributes:
        targets: the names of the norms in the layer, as patterns (`"*.norm1"`). By default every module with `norm`
            in the name of its class.
        executions: which ones. By default from each layer's second visit on: its own norms are those of its first.
    """

    targets: tuple[str, ...] | None = None
    executions: Executions = revisits

    def __post_init__(self) -> None:
        """Refuse targets that are no patterns.

        Raises:
            CompileError: `bad-conditioning`.
        """
        _freeze(self)


@dataclass(frozen=True)
class Scale:
    """A factor s on the update that an execution makes: h + s (layer(h) - h).

    Layers that add to the residual stream more often, add more to it; 1/√visits keeps the sum's variance that of one
    visit, if updates are independent of each other.

    Attributes:
        value: s: a number, `"1/sqrt(visits)"` with the number of times that this layer runs in the route, or a
            function of the execution that gives a number. A fixed s of 1 writes nothing.
        learned: whether s is a parameter, which starts at `value`.
        executions: which ones; all by default.
    """

    value: float | Literal["1/sqrt(visits)"] | Callable[[Execution], float]
    learned: bool = False
    executions: Executions = None

    def __post_init__(self) -> None:
        """Refuse what gives no number.

        Raises:
            CompileError: `bad-conditioning`.
        """
        if not callable(self.value) and self.value != "1/sqrt(visits)":
            _number("Scale's value", self.value)
        _freeze(self)

    def of(self, execution: Execution, visits: int) -> float:
        """Return s of one execution.

        Args:
            execution: it.
            visits: how often its layer runs in the route.

        Raises:
            CompileError: `bad-conditioning` when the function gives no number.
        """
        if isinstance(self.value, str):
            return 1 / math.sqrt(visits)
        value = self.value(execution) if callable(self.value) else self.value
        return _number(f"Scale's value for {execution.name}", value)


@dataclass(frozen=True)
class Lora:
    """A low-rank update of the layer's linear weights for one execution: W + (α / r) B A, with B = 0 at the start.

    Layers that are shared but for low-rank updates are the Relaxed Recursive Transformers of arXiv 2410.20672. (They
    start from the singular vectors of what sharing lost; these start at 0.)

    Attributes:
        rank: r.
        alpha: α; r by default.
        targets: the names of the linear modules in the layer, as patterns (`"attention.*"`, `"*.qkv"`). By default all.
        frozen: whether the modules that get updates are left as they are: no execution of the layer gives their
            weights and biases a gradient, its first visit neither. `requires_grad` stays what it is.
        executions: which ones. By default from each layer's second visit on: the layer's own weights serve its first.
    """

    rank: int
    alpha: float | None = None
    targets: tuple[str, ...] | None = None
    frozen: bool = False
    executions: Executions = revisits

    def __post_init__(self) -> None:
        """Refuse a rank below 1 and an alpha that is no number over 0.

        Raises:
            CompileError: `bad-conditioning`.
        """
        if type(self.rank) is not int or self.rank < 1:
            raise _bad(f"a Lora's rank is an integer from 1; found {shown(self.rank)}")
        if self.alpha is not None and _number("a Lora's alpha", self.alpha) <= 0:
            raise _bad(f"a Lora's alpha is over 0; found {shown(self.alpha)}")
        _freeze(self)


#: What `compile(conditioning=[…])` takes.
Option = StepEmbedding | Norm | Scale | Lora


def selects(option: Option, execution: Execution) -> bool:
    """Return whether an option is for an execution."""
    chosen = option.executions
    if chosen is None:
        return True
    if isinstance(chosen, frozenset):
        return (execution.layer, execution.visit) in chosen
    assert callable(chosen)
    return bool(chosen(execution))


def _freeze(option: Any) -> None:
    """Keep an option's collections as they are now."""
    chosen = option.executions
    if chosen is not None and not callable(chosen):
        object.__setattr__(option, "executions", _keys(type(option).__name__, chosen))
    targets = getattr(option, "targets", None)
    if targets is not None:
        object.__setattr__(option, "targets", _patterns(type(option).__name__, targets))


def _keys(owner: str, chosen: Any) -> frozenset[Key]:
    help = "give a function, lambda e: e.visit > 1, or pairs of (layer, visit), [(1, 2)]"
    if not isinstance(chosen, Iterable) or isinstance(chosen, str):
        raise _bad(f"the executions of a {owner} are a {type(chosen).__name__}", help)
    keys = [(one, key_of(one)) for one in chosen]
    for one, key in keys:
        if key is None:
            raise _bad(f"the executions of a {owner} have {shown(one)}, which is no (layer, visit)", help)
    return frozenset(key for _, key in keys if key is not None)


def _patterns(owner: str, targets: Any) -> tuple[str, ...]:
    help = 'give a tuple of patterns, ("attention.*",)'
    if isinstance(targets, str) or not isinstance(targets, Iterable):
        raise _bad(f"the targets of a {owner} are one {type(targets).__name__}", help)
    patterns = tuple(targets)
    if not patterns or not all(isinstance(each, str) for each in patterns):
        raise _bad(f"the targets of a {owner} are patterns of names; found {shown(patterns)}", help)
    return patterns


def _check_word(owner: str, name: str, value: object, words: tuple[str, ...]) -> None:
    if value not in words:
        raise _bad(f"a {owner}'s {name} is one of {', '.join(words)}; found {shown(value)}")


def _number(what: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise _bad(f"{what} is a finite number; found {shown(value)}")
    return number


def _bad(message: str, help: str = "") -> CompileError:
    return CompileError("bad-conditioning", message, help=help)
