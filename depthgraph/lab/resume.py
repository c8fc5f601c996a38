"""Going on with a run from its last checkpoint."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from depthgraph.config import TrainConfig
from depthgraph.errors import ConfigError
from depthgraph.lab.checkpoint import TOKENIZER, Checkpoint, State, latest_checkpoint, load_optimiser, load_weights
from depthgraph.lab.data import load_corpus
from depthgraph.lab.run import Run, assemble, facts

#: What a resumed run may have otherwise than before: it changes no loss. What `data.text` and `tokenizer` name is
#: compared by the tokens that come out, and the route by what it means.
FREE = {
    "out",
    "log_every",
    "eval_every",
    "checkpoint_every",
    "threads",
    "device",
    "tokenizer",
    "data.text",
    "data.validation_tokens",
    "model.preset",
    "model.route",
    "model.layer",
    "bindings",
}


def go_on(config: TrainConfig) -> tuple[Run, State]:
    """Return the run of config.out as its last checkpoint left it.

    Raises:
        ConfigError: `missing-file`; `checkpoint-mismatch`, if the losses would not be those of an uninterrupted run.
    """
    folder = latest_checkpoint(config.out)
    if folder is None:
        raise ConfigError("missing-file", f"there is no run to go on with in {config.out}", help="train without resume")
    checkpoint = Checkpoint.read(folder)
    _check_settings(checkpoint, config)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    corpus = load_corpus(config, tokenizer)
    if corpus.fingerprint != checkpoint.state.fingerprint:
        raise _mismatch(folder, "was trained on other tokens: the text or its split has changed")
    run = assemble(config, corpus)
    load_weights(folder, run.model)
    load_optimiser(folder, run.model, run.optimiser)
    run.log.write("resume", step=checkpoint.state.step, **facts(run))
    return run, checkpoint.state


#: With loop counts at run time, a route at one count says nothing of the others: the spec is compared as it is written.
SPEC = {"model.route", "bindings"}


def _check_settings(checkpoint: Checkpoint, config: TrainConfig) -> None:
    if config.route != checkpoint.route:
        help = "to train another route from these weights, begin a new run with `initial`"
        raise _mismatch(checkpoint.path, f"has the route `{checkpoint.route}`, and the config `{config.route}`", help)
    before, now = (_flat(each.model_dump()) | {"layers": _class_of(each)} for each in (checkpoint.config, config))
    free = FREE - SPEC if config.loops else FREE
    for name in sorted((before.keys() | now.keys()) - free):
        if before.get(name) != now.get(name):
            raise _mismatch(checkpoint.path, f"has {name} {before.get(name)}, and the config {now.get(name)}")


def _class_of(config: TrainConfig) -> str:
    """Return the file's name and the class, without the folder, which may have moved."""
    return Path(config.model.layer or "of depthgraph").name


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_pairs(settings, ""))


def _pairs(settings: Mapping[str, Any], around: str) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{around}{name}.")
        else:
            yield f"{around}{name}", value


def _mismatch(folder: Path, what: str, help: str = "") -> ConfigError:
    help = help or "go on with the settings it began with, or begin a new run in another `out`"
    return ConfigError("checkpoint-mismatch", f"the run of {folder} {what}", help=help)
