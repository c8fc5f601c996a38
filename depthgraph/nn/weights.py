"""The modules with weights of their own that data flow needs: `mix` and `gate`."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from depthgraph.errors import CompileError
from depthgraph.operations import Gate, Mix
from depthgraph.route import Route

WIDTH_HELP = "say it: compile(route, layers, width=d), with d that of the hidden state"


class Mixer(nn.Module):
    """`mix(a)`: W [h ; a], a learned linear map from 2d to d without bias (Huginn's adapter, arXiv 2502.05171).

    It starts as the identity on h: until it is trained, a model with it computes what it computed without it. (In the
    arithmetic of its weights' type. Where matrix products round more, as TF32 does, so does this one.)

    Attributes:
        weight: [d, 2d]; the left half is for h, the right one for a.
    """

    def __init__(self, width: int, device: torch.device | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, 2 * width, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make it the identity on h."""
        nn.init.eye_(self.weight)

    def forward(self, hidden: Tensor, register: Tensor) -> Tensor:
        """Mix two hidden states, [..., d] each, into one."""
        return functional.linear(torch.cat((hidden, register), dim=-1), self.weight)


class Gated(nn.Module):
    """`gate(a)`: h + g ⊙ a, with g a learned vector (the skips of openai/parameter-golf).

    It starts at 0: until it is trained, a model with it computes what it computed without it.

    Attributes:
        weight: g, [d].
    """

    def __init__(self, width: int, device: torch.device | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make it add nothing."""
        nn.init.zeros_(self.weight)

    def forward(self, hidden: Tensor, register: Tensor) -> Tensor:
        """Add a gated hidden state to another one, [..., d] each."""
        return hidden + self.weight * register


def name_of(operation: Mix | Gate) -> str:
    """Return the name of the submodule with an operation's weights: `mix_1`, `gate_2` …, by its site."""
    return f"{'mix' if isinstance(operation, Mix) else 'gate'}_{operation.site}"


def weights_of(
    route: Route, layers: Iterable[nn.Module], width: int | None, given: Mapping[str, nn.Module] | None
) -> dict[str, nn.Module]:
    """Return the modules of a route's `mix` and `gate` by name: those that are given, and new ones for the others.

    Args:
        route: the route.
        layers: those that run; new weights have the type and the device of their first floating-point parameter.
        width: d, the last dimension of the hidden state; None if it is not known.
        given: existing modules by name; each is called with h and the register.

    Raises:
        CompileError: `unknown-width` when new weights are needed and d is not known; `unknown-weights` for a given
            name that the route does not have, or a value that is no module.
    """
    kinds = {name_of(each): Mixer if isinstance(each, Mix) else Gated for each in weighted(route)}
    for name, module in (given or {}).items():
        if name not in kinds or not isinstance(module, nn.Module):
            fault = f"is a {type(module).__name__}, which is no module" if name in kinds else "is none of this route's"
            listed = ", ".join(f"`{each}`" for each in kinds) or "none: it has neither `mix` nor `gate`"
            message = f"the weights that are given as {name!r}: this {fault}"
            raise CompileError("unknown-weights", message, help=f"this route's weights are {listed}")
    known = dict(given or {})
    missing = [name for name in kinds if name not in known]
    if missing and width is None:
        message = f"{', '.join(f'`{name}`' for name in missing)} need weights, and their width is not known"
        raise CompileError("unknown-width", message, help=WIDTH_HELP)
    like = next((each for layer in layers for each in layer.parameters() if each.is_floating_point()), None)
    device, dtype = (None, None) if like is None else (like.device, like.dtype)
    return {name: known.get(name) or kinds[name](width or 0, device, dtype) for name in kinds}


def weighted(route: Route) -> tuple[Mix | Gate, ...]:
    """Return the operations of a route that have weights, in order."""
    return tuple(each for each in route.data_flow if isinstance(each, Mix | Gate))
