"""A run: what it consists of, its first moment, and what it leaves on the disk."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from depthgraph.config import TrainConfig
from depthgraph.errors import ConfigError
from depthgraph.lab.checkpoint import State, latest_checkpoint, load_weights, save_checkpoint
from depthgraph.lab.data import Corpus, load_corpus
from depthgraph.lab.flops import StepFlops
from depthgraph.lab.log import Log
from depthgraph.lab.model import build_decoder
from depthgraph.lab.optimiser import build_optimiser
from depthgraph.nn import Decoder


@dataclass(frozen=True)
class Run:
    """What a run consists of.

    Attributes:
        config: its settings.
        corpus: its tokens.
        model: the decoder, on the config's device.
        optimiser: AdamW over it.
        log: of out/log.jsonl.
        flops: counts those of a step.
    """

    config: TrainConfig
    corpus: Corpus
    model: Decoder
    optimiser: torch.optim.AdamW
    log: Log
    flops: StepFlops

    @property
    def out(self) -> Path:
        """The folder of the run."""
        return Path(self.config.out)


def assemble(config: TrainConfig, corpus: Corpus) -> Run:
    """Build the model and what trains it."""
    model = _to_device(build_decoder(config), config.device)
    optimiser = build_optimiser(model, config.optimiser)
    return Run(config, corpus, model, optimiser, Log(Path(config.out) / "log.jsonl"), StepFlops(config, model))


def _to_device(model: Decoder, device: str) -> Decoder:
    try:
        return model.to(torch.device(device))
    except (RuntimeError, AssertionError) as error:  # torch's own words for an unknown or an absent device
        raise ConfigError("invalid-config", f"device `{device}` cannot be used: {error}") from error


def begin(config: TrainConfig, initial: str | Path | None) -> tuple[Run, State]:
    """Return a new run of config.out, its log begun and its first weights in a checkpoint.

    Raises:
        ConfigError: `existing-run`, `missing-file`, `invalid-config`, or `checkpoint-mismatch` for the initial weights.
    """
    out = Path(config.out)
    if (out / "log.jsonl").exists() or latest_checkpoint(out):
        help = "go on with it (`--resume`), choose another `out`, or delete the folder"
        raise ConfigError("existing-run", f"{out} already has a run", help=help)
    run = assemble(config, load_corpus(config))
    if initial is not None:
        load_weights(initial, run.model)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("invalid-config", f"the folder {out} cannot be made: {error.strerror}") from error
    state = State(run.corpus.fingerprint, flops=None if run.flops.of(config.counts) is None else 0)
    # before the log begins, so that a run with a log can always be resumed, with its first weights
    save_checkpoint(out, run.model, run.optimiser, run.corpus.tokenizer, config, state)
    run.log.write("start", step=0, **facts(run), initial=None if initial is None else str(initial))
    return run, state


def facts(run: Run) -> dict[str, Any]:
    """Return what the log says of a run when it begins or goes on."""
    route = run.config.route
    return {
        "route": str(route),
        "parameter_depth": route.parameter_depth,
        "execution_depth": route.execution_depth,
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "training_tokens": len(run.corpus.training),
        "held_out_tokens": len(run.corpus.validation),
        "fingerprint": run.corpus.fingerprint,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "config": run.config.model_dump(mode="json"),
    }


def save(run: Run, state: State) -> None:
    """Write a checkpoint, unless the weights have become infinite or no numbers."""
    if not all(bool(torch.isfinite(parameter).all()) for parameter in run.model.parameters()):
        check_finite(run, state.step, "weights after the update", math.nan)
    folder = save_checkpoint(run.out, run.model, run.optimiser, run.corpus.tokenizer, run.config, state)
    run.log.write("checkpoint", step=state.step, path=str(folder.relative_to(run.out)))


def check_finite(run: Run, step: int, what: str, value: float) -> None:
    """Stop a run whose numbers are none any more.

    Raises:
        ConfigError: `not-finite`, with the last good checkpoint.
    """
    if math.isfinite(value):
        return
    run.log.write("stop", step=step, reason=f"{what} is {value}")
    raise ConfigError(
        "not-finite",
        f"the {what} of step {step} is {value}; the last good checkpoint is {latest_checkpoint(run.out)}",
        help="lower optimiser.learning_rate, clip the gradient, or warm up for longer, and train anew",
    )
