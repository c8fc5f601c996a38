"""What routes over the same layers share: options of conditioning, and the parameters that were made for them."""

from collections.abc import Iterable, Mapping
from typing import Any, final

from torch import nn

from depthgraph.errors import CompileError, shown
from depthgraph.nn.checks import check_layers, known_width
from depthgraph.nn.conditioning import Option
from depthgraph.nn.conditioning_bind import Binding, Conditioned
from depthgraph.route import Route


@final
class Conditioning:
    """Options, and the parameters that were made for them: what routes over the same layers share.

    The first route that it is used with says for which executions there are parameters. Other routes over the same
    layers then use those, by (layer, visit), so make it for the longest one first. Every compiled route registers all
    of them, those of visits that it does not have too: their state dicts have the same keys.

    Attributes:
        options: as they were given.

    Examples:
        >>> from depthgraph.nn import Lora, StepEmbedding, compile
        >>> layers, looped = [nn.Linear(8, 8)], Route.of([1, 1, 1])
        >>> conditioning = Conditioning([StepEmbedding(), Lora(rank=2)]).prepare(looped, layers, width=8)
        >>> long = compile(looped, layers, conditioning=conditioning)
        >>> short = compile(Route.of([1, 1]), layers, conditioning=conditioning)
        >>> list(long.state_dict()) == list(short.state_dict())
        True
        >>> short.conditioning.L1_2.lora.A is long.conditioning.L1_2.lora.A
        True
    """

    def __init__(self, options: Iterable[Option]) -> None:
        """Take options; nothing is made yet.

        Raises:
            CompileError: `bad-conditioning` for anything else than options.
        """
        self.options = _checked(options)
        self._parts: dict[str, nn.Module] | None = None
        self._frozen: dict[int, tuple[str, ...]] = {}

    def prepare(self, route: Route, layers: Iterable[nn.Module], *, width: int | None = None) -> "Conditioning":
        """Make the parameters for all executions of a route, without compiling it; return the object itself.

        Args:
            route: the longest of the routes that are to be compiled.
            layers: the N layers; nothing is changed in them.
            width: d, the last dimension of the hidden state; step embeddings need it.

        Raises:
            CompileError: `bad-layers`, `layer-count`, `unknown-width`, and what `bind` raises.
        """
        numbered = dict(enumerate(check_layers(route, layers, allow_shared=True), 1))
        self.bind(route, {layer: numbered[layer] for layer in sorted(set(route.path))}, known_width(width))
        return self

    def bind(self, route: Route, layers: Mapping[int, nn.Module], width: int | None) -> "Conditioned":
        """Return the modules for the executions of a route, and make them if this is the first route.

        Args:
            route: the route.
            layers: those that run, by their number.
            width: d; None if it is not known.

        Raises:
            CompileError: `unused-conditioning`, `double-conditioning`, `conditioning-target`, `unknown-execution` or
                `unknown-width`; `conditioning-mismatch` for a later route that needs what was not made, or for layers
                of other shapes.
        """
        binding = Binding(route, layers, width, self._parts)
        for option in self.options:
            binding.apply(option)
        if self._parts is None:
            self._parts = binding.parts
            self._frozen = {layer: tuple(dict.fromkeys(names)) for layer, names in binding.frozen.items()}
        return binding.result(self._parts, self._frozen)


def condition(
    route: Route,
    layers: Mapping[int, nn.Module],
    conditioning: Conditioning | Iterable[Option] | None,
    width: int | None,
) -> Conditioned:
    """Return what `compile(conditioning=…)` asks for; the arguments are those of `Conditioning.bind`."""
    if conditioning is None:
        return Conditioned({}, {})
    known = conditioning if isinstance(conditioning, Conditioning) else Conditioning(conditioning)
    return known.bind(route, layers, width)


def _checked(options: Any) -> tuple[Option, ...]:
    help = "give a list of options, conditioning=[dg.nn.StepEmbedding(), dg.nn.Lora(rank=8)]"
    if not isinstance(options, Iterable) or isinstance(options, (str, Mapping)):
        raise CompileError("bad-conditioning", f"conditioning is a {type(options).__name__}", help=help)
    found = tuple(options)
    for option in found:
        if not isinstance(option, Option):
            raise CompileError("bad-conditioning", f"{shown(option)} is no option of conditioning", help=help)
    return found
