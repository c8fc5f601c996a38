"""The modules of conditioning: what an execution adds to its layer, and the call that runs a layer with it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call
from torch.utils.hooks import RemovableHandle

from depthgraph.errors import CompileError
from depthgraph.nn.signature import is_wrapper

#: The name of the submodule of a compiled route that holds all of these.
CONDITIONING = "conditioning"

#: How the submodule of one execution is called: `L2_2` for layer 2, second visit.
OWNER = re.compile(r"L(\d+)_(\d+)")


class StepVector(nn.Module):
    """h + e, with e a learned vector that starts at 0 (the timestep embedding of arXiv 1807.03819, section 2.1).

    Attributes:
        weight: e, [d].
    """

    def __init__(self, width: int, device: torch.device | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width, device=device, dtype=dtype))

    def forward(self, hidden: Tensor) -> Tensor:
        """Add the vector to every position, [..., d]. It takes on the type of h, so that adding it changes none."""
        return hidden + self.weight.to(hidden)


class LearnedScale(nn.Module):
    """y + δ (y - h): the update y - h that a layer makes, times a learned 1 + δ.

    What is stored is δ, which starts at scale - 1: for a scale of 1 the result is y itself to the last bit (where y - h
    is finite), and weight decay pulls the scale to 1 and not to 0.

    Attributes:
        offset: δ, a scalar.
    """

    def __init__(self, scale: float, device: torch.device | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.tensor(scale - 1, device=device, dtype=dtype or torch.get_default_dtype()))

    def forward(self, output: Tensor, hidden: Tensor) -> Tensor:
        """Scale the update of one execution.

        Args:
            output: y, what the layer returned.
            hidden: h, what the layer was given. It may have another type, under autocast; the result has that of y.
        """
        return output + (self.offset * (output - hidden)).to(output)


class FixedScale(nn.Module):
    """h + s (y - h): the update that a layer makes, times a number.

    Attributes:
        scale: s.
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, output: Tensor, hidden: Tensor) -> Tensor:
        """Scale the update of one execution; the arguments are those of `LearnedScale`."""
        return (hidden + self.scale * (output - hidden)).to(output)

    def extra_repr(self) -> str:
        """Say what `print(model)` shows."""
        return f"scale={self.scale:g}"


class LowRank(nn.Module):
    """W + (α / r) B A: a weight with a low-rank update (LoRA, arXiv 2106.09685, section 4.1).

    A is drawn as `nn.Linear` draws its weight, and B starts at 0: until it is trained, the weight is W.

    Attributes:
        A: [r, in].
        B: [out, r].
        scaling: α / r.
    """

    def __init__(self, weight: Tensor, rank: int, alpha: float) -> None:
        super().__init__()
        out, width = weight.shape
        self.A = nn.Parameter(torch.empty(rank, width, device=weight.device, dtype=weight.dtype))
        self.B = nn.Parameter(torch.zeros(out, rank, device=weight.device, dtype=weight.dtype))
        self.scaling = alpha / rank
        self.draw()

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None = None) -> None:
        """Draw A anew, from U(-1/√in, 1/√in). Numbers are drawn on the CPU, so they do not depend on the device."""
        bound = self.A.shape[1] ** -0.5
        self.A.copy_(torch.empty(self.A.shape, device="cpu").uniform_(-bound, bound, generator=generator))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the updated weight, [out, in]."""
        return weight + self.scaling * (self.B @ self.A)

    def extra_repr(self) -> str:
        """Say what `print(model)` shows."""
        return f"rank={self.A.shape[0]}, scaling={self.scaling:g}"


def draw_updates(module: nn.Module, seed: int) -> None:
    """Draw the low-rank updates in a module anew, from a generator of their own."""
    generator = torch.Generator("cpu").manual_seed(seed)
    for part in module.modules():
        if isinstance(part, LowRank):
            part.draw(generator)


class OwnNorm(nn.Module):
    """Copies of the parameters of one norm, under the same names. The norm's code stays that of the layer."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        for name, parameter in norm.named_parameters(recurse=False):
            self.register_parameter(name, nn.Parameter(parameter.detach().clone(), parameter.requires_grad))


@dataclass(frozen=True)
class Exchange:
    """Which parameters of a layer are others while one execution runs.

    Attributes:
        adapted: name of a parameter in the layer → name of the `LowRank` below this execution's submodule.
        replaced: name of a parameter in the layer → name of the parameter that stands in for it.
        frozen: names of parameters that get no gradient.
    """

    adapted: Mapping[str, str]
    replaced: Mapping[str, str]
    frozen: tuple[str, ...] = ()


class OwnExecution(nn.Module):
    """All that one execution has of its own: `step`, `norm`, `lora`, `scale`. Called, it runs the layer with it.

    The layer's parameters are exchanged for the time of the call (`torch.func.functional_call`). So it is the layer
    itself that runs, with its hooks and its state, and nothing in it is changed.

    Attributes:
        exchange: what is exchanged; None where nothing is, and then this module is not called.
    """

    def __init__(self, exchange: Exchange | None = None) -> None:
        super().__init__()
        self.exchange = exchange

    def weights(self, layer: nn.Module) -> dict[str, Tensor]:
        """Return what this execution runs with in the place of the layer's own parameters, by their names."""
        if self.exchange is None:
            return {}
        found = {name: _tensor(layer, name).detach() for name in self.exchange.frozen}
        for name, own in self.exchange.replaced.items():
            found[name] = _tensor(self, own)
        for name, own in self.exchange.adapted.items():
            base = found[name] if name in found else _tensor(layer, name)
            found[name] = self.get_submodule(own)(base)
        return found

    def reads(self, layer: nn.Module) -> Iterator[nn.Parameter]:
        """Yield the parameters of a layer that get a gradient from this execution."""
        exchange = self.exchange or Exchange({}, {})
        for name, parameter in layer.named_parameters(remove_duplicate=False):
            if name not in exchange.replaced and name not in exchange.frozen:
                yield parameter

    def forward(self, layer: nn.Module, hidden: Tensor, /, **inputs: Any) -> Any:
        """Run a layer with the weights of this execution, and return what it returns."""
        return run_exchanged(self, layer, hidden, inputs)


def _tensor(module: nn.Module, name: str) -> Tensor:
    """Return what stands for a parameter now: another tensor, where a caller around this one exchanged it."""
    owner, _, key = name.rpartition(".")
    value: Tensor = getattr(module.get_submodule(owner), key)
    return value


@fx.wrap
def run_exchanged(own: OwnExecution, layer: nn.Module, hidden: Tensor, inputs: dict[str, Any]) -> Any:
    """Run a layer with some of its parameters exchanged. It puts tensors into modules, so fx must not trace into it.

    Args:
        own: says which parameters, and has what stands in for them.
        layer: the layer.
        hidden: what it is given first.
        inputs: what else it is given, by name.
    """
    weights = own.weights(layer)
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return functional_call(layer, weights, (hidden,), inputs, tie_weights=False)
    watch = _CheckpointWatch(layer, weights)
    try:
        return functional_call(layer, weights, (hidden,), inputs, tie_weights=False)
    finally:
        watch.close()


class _CheckpointWatch:
    """Refuses checkpointing inside a layer whose weights are exchanged.

    What a checkpoint runs again in the backward would run with the layer's own weights, which are back in their
    places by then: the gradients would be wrong, and nothing would say so.
    """

    def __init__(self, layer: nn.Module, weights: Mapping[str, Tensor]) -> None:
        # compiled code would trace into a hook, and has the weights that it runs with as inputs
        compiled = (part for part in layer.modules() if part._compiled_call_impl is not None or is_wrapper(part))
        passed = {id(part) for each in compiled for part in each.modules()}
        owners = {id(owner): owner for owner in (layer.get_submodule(name.rpartition(".")[0]) for name in weights)}
        self.outer = _saving_hooks()
        self.handles: list[RemovableHandle] = [
            owner.register_forward_pre_hook(self.check) for key, owner in owners.items() if key not in passed
        ]

    def check(self, module: nn.Module, _arguments: Any) -> None:
        hooks = _saving_hooks()
        if (
            hooks is not None
            and hooks != self.outer
            and getattr(hooks[0], "__module__", "") == "torch.utils.checkpoint"
        ):
            raise CompileError(
                "checkpoint-in-layer",
                f"a {type(module).__name__} whose weights this execution exchanges runs inside a checkpoint of its "
                "layer: the backward would run it again with the layer's own weights",
                help="checkpoint around the compiled model, or around parts of it, and not inside its layers",
            )

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def _saving_hooks() -> Any:
    """Return the hooks through which autograd saves tensors now, a pair; None without any."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True)


def tree_of(parts: Mapping[str, nn.Module], exchanges: Mapping[str, Exchange]) -> nn.Module:
    """Put parts into a tree of modules by their paths, `L2_2.lora.attention.qkv`.

    The parts may stand in several trees: routes over the same layers share them.

    Args:
        parts: by path.
        exchanges: what the executions exchange, by the name of their submodule.
    """
    root = nn.Module()
    for owner in dict.fromkeys([*(path.partition(".")[0] for path in parts), *exchanges]):
        is_execution = OWNER.fullmatch(owner) is not None
        setattr(root, owner, OwnExecution(exchanges.get(owner)) if is_execution else nn.Module())
    for path, part in parts.items():
        *above, name = path.split(".")
        module = root
        for each in above:
            if each not in module._modules:
                setattr(module, each, nn.Module())
            module = module.get_submodule(each)
        setattr(module, name, part)
    return root
