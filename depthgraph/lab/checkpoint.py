"""Checkpoints: a folder each, whole or not there.

    checkpoints/step-00000200/
        model.safetensors       the weights, each once, under the layers' own keys
        optimiser.safetensors   the two moments and the step of every parameter
        config.json             the route's canonical text, N, and the whole config
        tokenizer.json
        state.json              where the run stands

The route is beside the weights and not in them: the keys are the same under every route over the same layers. A
checkpoint is written into a folder of another name, which is renamed when all of it is on the disk, so a run that is
killed at any moment leaves its last whole one.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from depthgraph.config import TrainConfig
from depthgraph.errors import ConfigError
from depthgraph.expand import route_from_text
from depthgraph.lab.model import build_decoder
from depthgraph.nn import Decoder
from depthgraph.nn.module import COMPILED_PREFIX
from depthgraph.route import Route

FORMAT = 1
MODEL, OPTIMISER, CONFIG, TOKENIZER, STATE = (
    "model.safetensors",
    "optimiser.safetensors",
    "config.json",
    "tokenizer.json",
    "state.json",
)


@dataclass(frozen=True)
class State:
    """Where a run stands.

    Attributes:
        fingerprint: of the tokens that it trains on.
        step: updates done.
        tokens: trained on, each as often as it came.
        flops: of training, by the convention of `depthgraph.decoder_cost`; None if they cannot be counted.
        seconds: of training, without evaluations and checkpoints.
        loss: of the last step, nats a token.
    """

    fingerprint: str
    step: int = 0
    tokens: int = 0
    flops: int | None = 0
    seconds: float = 0.0
    loss: float | None = None


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says, without its weights.

    Attributes:
        path: its folder.
        config: of the run.
        route: that the run trained; of loop counts at run time, those of the evaluation.
        state: where the run stood.
    """

    path: Path
    config: TrainConfig
    route: Route
    state: State

    @classmethod
    def read(cls, path: str | Path) -> "Checkpoint":
        """Read a checkpoint's folder, or the last one in the folder of a run.

        Raises:
            ConfigError: `missing-file`, or `checkpoint-mismatch` for one that this package did not write.
        """
        path = Path(path)
        folder = latest_checkpoint(path) or path
        try:
            told = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
            state = State(**json.loads((folder / STATE).read_text(encoding="utf-8")))
            route = route_from_text(told["route"], N=told["parameter_depth"])
            return cls(folder, TrainConfig.model_validate(told["config"]), route, state)
        except OSError as error:
            raise ConfigError("missing-file", f"there is no checkpoint in {path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            raise _mismatch(folder, f"cannot be read: {error}") from error


def latest_checkpoint(run: str | Path) -> Path | None:
    """Return the last whole checkpoint in the folder of a run."""
    return max((Path(run) / "checkpoints").glob("step-" + "[0-9]" * 8), default=None)


def save_checkpoint(
    run: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    tokenizer: Tokenizer,
    config: TrainConfig,
    state: State,
) -> Path:
    """Write a checkpoint, then remove the older ones. Returns its folder."""
    folder = run / "checkpoints" / f"step-{state.step:08d}"
    aside = folder.with_suffix(".part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    save_file(unique_tensors(model), aside / MODEL, {"format": "pt"})
    save_file(_moments(model, optimiser), aside / OPTIMISER, {"format": "pt"})
    told = {
        "format": FORMAT,
        "route": str(config.route),
        "parameter_depth": config.model.parameter_depth,
        "config": config.model_dump(mode="json"),
    }
    for name, content in ((CONFIG, told), (STATE, asdict(state))):
        (aside / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    tokenizer.save(str(aside / TOKENIZER))
    mode = (aside / CONFIG).stat().st_mode
    for path in aside.iterdir():
        path.chmod(mode)  # safetensors makes files for their owner alone, whatever the umask says
        _to_disk(path)
    _to_disk(aside)
    aside.rename(folder)
    _to_disk(folder.parent)
    _remove_all_but(folder)
    return folder


def _remove_all_but(folder: Path) -> None:
    for other in folder.parent.glob("step-*"):
        if other != folder:
            # a folder half removed has not the name of a whole one
            aside = other if other.suffix else other.rename(other.with_suffix(".part"))
            shutil.rmtree(aside, ignore_errors=True)


def _to_disk(path: Path) -> None:
    if os.name != "posix" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unique_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the state dict with every tensor once: one that layers share is under its first name.

    The prefixes of `torch.compile`'s wrapper are left out: a compiled model has the keys of a plain one.
    """
    once = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    unique = {name: tensor for name, tensor in model.state_dict().items() if name in once}
    return {name.replace(COMPILED_PREFIX, ""): tensor.contiguous() for name, tensor in unique.items()}


def load_weights(path: str | Path, model: nn.Module) -> None:
    """Load a checkpoint's weights into a model, of this route or another over the same layers.

    The weights of `mix` and `gate` belong to the route: another one is to have the same.

    Args:
        path: a checkpoint's folder, or a run's, whose last one is taken.
        model: is changed only if all of it fits.

    Raises:
        ConfigError: `missing-file`; `checkpoint-mismatch` for other names or shapes, or a damaged file.
    """
    folder = latest_checkpoint(path) or Path(path)
    stored = _load(folder / MODEL)
    wanted = unique_tensors(model)
    _check_same(folder, {name: tensor.shape for name, tensor in wanted.items()}, stored)
    plain: nn.Module = getattr(model, "_orig_mod", model)  # torch.compile's wrapper takes no plain keys
    plain.load_state_dict(stored, strict=False)  # names were checked, and shared tensors have one of theirs


def load_optimiser(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Load a checkpoint's optimiser state.

    Raises:
        ConfigError: as `load_weights`.
    """
    parameters = dict(_parameters(model))
    states: dict[str, dict[str, Tensor]] = {}
    for key, tensor in _load(path / OPTIMISER).items():
        name, _, part = key.rpartition("/")
        fits = name in parameters and (part == "step" or tensor.shape == parameters[name].shape)
        if not fits:
            raise _mismatch(path, f"has optimiser state `{key}`, which does not fit the model")
        states.setdefault(name, {})[part] = tensor if part == "step" else tensor.to(parameters[name].device)
    optimiser.state.update({parameters[name]: state for name, state in states.items()})


def load_decoder(path: str | Path, route: str | Route | None = None) -> Decoder:
    """Return the trained model of a checkpoint, under its own route or another over the same layers.

    Loops whose counts were drawn have them as arguments: `model(tokens, r=8)`.

    Args:
        path: a checkpoint's folder, or a run's.
        route: another route, or a spec of one.

    Raises:
        ConfigError: as `load_weights`.
        SpecError: the spec means no route over these layers.
    """
    checkpoint = Checkpoint.read(path)
    if isinstance(route, str):
        route = route_from_text(route, N=checkpoint.config.model.parameter_depth)
    model = build_decoder(checkpoint.config, route or (None if checkpoint.config.loops else checkpoint.route))
    load_weights(checkpoint.path, model)
    return model


def _moments(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    named = ((name, optimiser.state.get(parameter, {})) for name, parameter in _parameters(model))
    return {f"{name}/{part}": tensor for name, state in named for part, tensor in state.items()}


def _parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name.replace(COMPILED_PREFIX, ""), parameter) for name, parameter in model.named_parameters())


def _load(path: Path) -> dict[str, Tensor]:
    try:
        loaded: dict[str, Tensor] = load_file(path)
    except FileNotFoundError as error:
        raise ConfigError("missing-file", f"there is no checkpoint in {path.parent}: no {path.name}") from error
    except SafetensorError as error:
        raise _mismatch(path.parent, f"has a damaged {path.name}: {error}") from error
    return loaded


def _check_same(folder: Path, wanted: Mapping[str, torch.Size], stored: Mapping[str, Tensor]) -> None:
    faults = [f"lacks `{name}`" for name in wanted if name not in stored]
    faults += [f"has `{name}`, which the model has not" for name in stored if name not in wanted]
    faults += [
        f"has `{name}` of {list(stored[name].shape)}, the model's is {list(shape)}"
        for name, shape in wanted.items()
        if name in stored and stored[name].shape != shape
    ]
    if faults:
        more = f", and {len(faults) - 3} more differences" if len(faults) > 3 else ""
        help = (
            "the model's sizes, positions and layer class are to be those of the checkpoint; only the route may "
            "differ, but for its `mix` and `gate`, which have weights"
        )
        raise _mismatch(folder, "; it ".join(faults[:3]) + more, help)


def _mismatch(folder: Path, what: str, help: str = "") -> ConfigError:
    return ConfigError("checkpoint-mismatch", f"the checkpoint {folder} {what}", help=help)
