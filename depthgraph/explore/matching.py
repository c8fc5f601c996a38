"""What to change in a standard model so that it equals a route in one measure: the control of an experiment."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from depthgraph.decoder_config import PRESETS, DecoderConfig
from depthgraph.decoder_cost import decoder_cost
from depthgraph.errors import ExploreError, meant
from depthgraph.explore.bounds import checked_route
from depthgraph.route import Route

Equal = Literal["parameters", "flops", "executions", "kv"]
What = Literal["depth", "width", "ffn_width", "tokens"]

#: The largest depth, or width in heads, that is looked at.
FARTHEST = 2**20

#: measure → what of a model under a route, at a length; and the changes that can make it equal.
MEASURED: Mapping[Equal, tuple[Callable[[DecoderConfig, Route, int], int], tuple[What, ...]]] = {
    "parameters": (lambda config, route, T: config.parameter_count, ("depth", "width", "ffn_width")),
    "flops": (
        lambda config, route, T: decoder_cost(config, route, T).forward_flops,
        ("depth", "width", "ffn_width", "tokens"),
    ),
    "executions": (lambda config, route, T: route.execution_depth, ("depth",)),
    "kv": (lambda config, route, T: decoder_cost(config, route, T).kv_elements, ("depth", "width")),
}


@dataclass(frozen=True)
class Change:
    """One way to make a standard model equal to a route.

    Attributes:
        what: what of the standard model changes; all else stays.
        config: the standard model's settings, changed.
        tokens: of its training; None where they play no part and are not known.
        value: the measure that it then has.
        error: value / target - 1, what integers leave.
        parameters: that it then has.
    """

    what: What
    config: DecoderConfig
    tokens: int | None
    value: float
    error: float
    parameters: int

    @property
    def words(self) -> str:
        """What to do, in words."""
        config = self.config
        return {
            "depth": f"{config.parameter_depth} layers",
            "width": f"width {config.width}, ffn_width {config.ffn_width}",
            "ffn_width": f"ffn_width {config.ffn_width}",
            "tokens": f"{self.tokens:,} training tokens" if self.tokens is not None else "",
        }[self.what]


@dataclass(frozen=True)
class Match:
    """Ways to make a standard model equal to a route in one measure.

    Attributes:
        equal: the measure.
        route: what is matched.
        baseline: the standard model as it was given.
        target: the measure of the route, in its model.
        now: the measure of the baseline.
        changes: each way, the smallest error first.
    """

    equal: Equal
    route: Route
    baseline: DecoderConfig
    target: float
    now: float
    changes: tuple[Change, ...]

    @property
    def best(self) -> Change:
        """The change that leaves the smallest error; of equal ones the first of depth, width, ffn_width, tokens."""
        return self.changes[0]

    def change(self, what: What) -> Change:
        """Return one of the changes.

        Raises:
            ExploreError: `unknown-measure`: nothing of that kind changes this measure.
        """
        found = next((change for change in self.changes if change.what == what), None)
        if found is None:
            help = f"what does is {', '.join(change.what for change in self.changes)}"
            help += "; for tokens, give tokens=" if what == "tokens" and self.equal == "flops" else ""
            raise ExploreError("unknown-measure", f"{what} does not make {self.equal} equal here", help=help)
        return found

    def __str__(self) -> str:
        head = f"{self.equal}: {self.target:,} for `{self.route.text}`, {self.now:,} for the standard model"
        table: list[tuple[str, ...]] = [("change", self.equal, "error", "parameters")]
        for c in self.changes:
            table.append((c.words, f"{c.value:,}", f"{c.error:+.2%}" if c.error else "exact", f"{c.parameters:,}"))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table)
        return "\n".join([head, "", *lines])


def match(
    route: Route,
    baseline: DecoderConfig | str,
    equal: Equal = "flops",
    *,
    length: int | None = None,
    tokens: int | None = None,
) -> Match:
    """Return how a standard model becomes equal to a route in one measure.

    The route runs in the reference decoder with the baseline's settings and the route's N. The standard model is the
    baseline with every layer run once; one thing of it changes: its depth; its width, in multiples of its heads (of
    twice its heads with rope), with ffn_width in the same ratio; its ffn_width alone; or its training tokens.

    Args:
        route: a chain.
        baseline: the standard model's settings, or the name of a preset.
        equal: `parameters` of the whole model; `flops` of the forward pass of one sequence, and with `tokens` of the
            whole training; `executions`; or `kv`, elements of the cache of one sequence with a slot for each execution.
        length: T, tokens in a sequence; baseline.context by default.
        tokens: that the route's model is trained on. With it, `flops` are those of all of training (3 times forward),
            and the standard model's tokens are one thing that can change; in all other changes they are the same.

    Raises:
        CostError: the route has data flow.
        ExploreError: `unknown-measure`, for another measure, or a preset that does not exist; `invalid-space` for a
            length or tokens below 1.

    Examples:
        >>> import depthgraph as dg
        >>> found = match(dg.route("lft(6)"), "lft-2.5m", "flops", tokens=500_000_000)
        >>> print(found.best.words, found.best.error)
        14 layers 0.0
        >>> print(found.change("tokens").words)
        1,083,979,328 training tokens
    """
    config = _config(baseline)
    if equal not in get_args(Equal):
        help = f"measures are {', '.join(get_args(Equal))}"
        raise ExploreError("unknown-measure", f"there is no measure `{equal}`", help=help)
    T = config.context if length is None else length
    if T < 1 or (tokens is not None and tokens < 1):
        raise ExploreError("invalid-space", f"length and tokens are at least 1; found {T} and {tokens}")
    measured, kinds = MEASURED[equal]
    model = changed(config, parameter_depth=checked_route(route).parameter_depth)
    decoder_cost(model, route, T)  # refuses data flow
    return _Matching(equal, measured, T, tokens).match(route, config, measured(model, route, T), kinds)


@dataclass(frozen=True)
class _Matching:
    """What stays the same while changes are looked for."""

    equal: Equal
    measured: Callable[[DecoderConfig, Route, int], int]
    length: int
    tokens: int | None

    def match(self, route: Route, config: DecoderConfig, per_sequence: int, kinds: tuple[What, ...]) -> Match:
        target = self._value(per_sequence, self.tokens)
        found = [change for what in kinds for change in self._changes(what, config, target)]
        found.sort(key=lambda change: abs(change.error))
        now = self._value(self._standard(config), self.tokens)
        return Match(self.equal, route, config, target, now, tuple(found))

    def _standard(self, config: DecoderConfig) -> int:
        return self.measured(config, standard_route(config), self.length)

    def _value(self, per_sequence: int, tokens: int | None) -> float:
        """Return the measure; of FLOPs, those of all of training where its tokens are known."""
        if self.equal != "flops" or tokens is None:
            return per_sequence
        whole, part = divmod(3 * per_sequence * tokens, self.length)
        return whole if not part else 3 * per_sequence * tokens / self.length

    def _changes(self, what: What, config: DecoderConfig, target: float) -> Iterator[Change]:
        if what == "tokens":
            if self.tokens is None:
                return
            each = self._value(self._standard(config), 1)
            tokens = nearest(lambda n: self._value(self._standard(config), n), target, max(1, int(target / each)) - 1)
            yield self._change(what, config, tokens, target)
            return
        best = nearest(lambda n: self._value(self._standard(_SIZED[what](config, n)), self.tokens), target, 0)
        yield self._change(what, _SIZED[what](config, best), self.tokens, target)

    def _change(self, what: What, config: DecoderConfig, tokens: int | None, target: float) -> Change:
        value = self._value(self._standard(config), tokens)
        return Change(what, config, tokens, value, value / target - 1, config.parameter_count)


def standard_route(config: DecoderConfig) -> Route:
    """Return the route that runs each layer of a model once."""
    return Route.of(range(1, config.parameter_depth + 1))


def changed(config: DecoderConfig, **settings: int) -> DecoderConfig:
    """Return the settings with others in their place, checked, and with the standard route."""
    return DecoderConfig.model_validate({**config.model_dump(), "route": "...", **settings})


def _deeper(config: DecoderConfig, depth: int) -> DecoderConfig:
    return changed(config, parameter_depth=depth)


def _wider(config: DecoderConfig, units: int) -> DecoderConfig:
    width = units * config.heads * (2 if config.positions == "rope" else 1)
    return changed(config, width=width, ffn_width=max(1, round(width * config.ffn_width / config.width)))


def _wider_ffn(config: DecoderConfig, width: int) -> DecoderConfig:
    return changed(config, ffn_width=width)


#: change → the standard model with that size, from 1.
_SIZED: Mapping[What, Callable[[DecoderConfig, int], DecoderConfig]] = {
    "depth": _deeper,
    "width": _wider,
    "ffn_width": _wider_ffn,
}


def nearest(measure: Callable[[int], float], target: float, low: int) -> int:
    """Return the integer above `low` with the measure closest to a target; the measure grows with it.

    Examples:
        >>> nearest(lambda n: n * n, 50, 0), nearest(lambda n: n, 2.5, 0)
        (7, 2)
    """
    high = low + 1
    while measure(high) < target and high < FARTHEST + low:
        low, high = high, low + 2 * (high - low) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if measure(middle) < target else (low, middle)
    return low if low > 0 and abs(measure(low) - target) <= abs(measure(high) - target) else high


def _config(baseline: object) -> DecoderConfig:
    if isinstance(baseline, DecoderConfig):
        return baseline
    if isinstance(baseline, str) and baseline in PRESETS:
        return PRESETS[baseline]
    help = meant(str(baseline), PRESETS, f"presets are {', '.join(PRESETS)}; a DecoderConfig is taken too")
    raise ExploreError("unknown-measure", f"there is no preset `{baseline}`", help=help)
