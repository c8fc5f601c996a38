"""The training loop.

A step is a pure function of the weights, the optimiser's state, and (seed, step): the windows of tokens are computed
from those two, and so are the counts of loops and the generator that dropout draws from. So a run that goes on from a
checkpoint has the losses of one that was never stopped, to the last bit, on the same machine with the same number of
threads.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional

from depthgraph.config import TrainConfig
from depthgraph.errors import ConfigError
from depthgraph.lab.checkpoint import State, latest_checkpoint
from depthgraph.lab.data import Corpus, training_batch, validation_batches
from depthgraph.lab.optimiser import learning_rate
from depthgraph.lab.progress import Report, progress_bar
from depthgraph.lab.result import Result
from depthgraph.lab.resume import go_on
from depthgraph.lab.run import Run, begin, check_finite, save
from depthgraph.samplers import draw_counts

__all__ = ["Result", "evaluate", "train"]


def train(
    config: TrainConfig, *, resume: bool = False, initial: str | Path | None = None, progress: bool = True
) -> Result:
    """Train the config's decoder on its text.

    The folder `config.out` gets `log.jsonl`, which is only ever appended to, and `checkpoints/`, with the last one.

    Args:
        config: the settings.
        resume: go on from the last checkpoint in config.out.
        initial: a checkpoint whose weights the run starts from, of any route over the same layers.
        progress: show a bar on stderr.

    Returns:
        what came out, with the perplexity of the held-out text.

    Raises:
        ConfigError: `existing-run`; `missing-file`; `checkpoint-mismatch`; `not-finite`, when the loss or the gradient
            is no finite number any more; `invalid-config`, when text, tokenizer, layer or device do not fit.
        SpecError: the route is none.
        CompileError: route and layers do not fit together.
    """
    if resume and initial is not None:
        raise ConfigError("invalid-config", "a run that goes on has weights: give `resume` or `initial`, not both")
    with _settings_of_torch(config):
        run, state = go_on(config) if resume else begin(config, initial)
        with progress_bar(run.out.name, state.step, config.steps, shown=progress) as report:
            state = _loop(run, state, report)
        loss = evaluate(run.model, run.corpus, config)
        result = _result(run, state, loss)
        run.log.write("end", **result.as_json())
    return result


@contextmanager
def _settings_of_torch(config: TrainConfig) -> Iterator[None]:
    """Set threads and the global generator for the block, and put them back."""
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads or threads)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)


def _loop(run: Run, state: State, report: Report) -> State:
    config = run.config
    for step in range(state.step + 1, config.steps + 1):
        started = time.perf_counter()
        counts = draw_counts(config.loops, config.seed, step, config.steps)
        loss, norm = _update(run, step, counts)
        seconds = time.perf_counter() - started
        tokens = config.batch * config.length
        flops = run.flops.of(counts)
        flops = None if state.flops is None or flops is None else state.flops + flops
        state = State(state.fingerprint, step, state.tokens + tokens, flops, state.seconds + seconds, loss)
        report(step, loss, tokens / seconds)
        last = step == config.steps
        if last or step % config.log_every == 0:
            done = {name: value for name, value in asdict(state).items() if name != "fingerprint"}
            rate = learning_rate(config.optimiser, step, config.steps)
            drawn = {"counts": counts} if counts else {}
            run.log.write("step", **done, learning_rate=rate, gradient_norm=norm, **drawn)
        if not last and step % config.eval_every == 0:
            loss = evaluate(run.model, run.corpus, config)
            run.log.write("validation", step=step, loss=loss, perplexity=math.exp(loss))
        if last or step % config.checkpoint_every == 0:
            save(run, state)
    return state


def _update(run: Run, step: int, counts: Mapping[str, int]) -> tuple[float, float]:
    """Do one step, at some counts of its loops.

    Returns:
        its loss, in nats a token, and the gradient's norm before clipping.
    """
    config, model = run.config, run.model.train()
    torch.manual_seed((config.seed << 32) + step)  # of dropout, if the user's layers have any
    windows = training_batch(
        run.corpus.training, seed=config.seed, step=step - 1, batch=config.batch, length=config.length
    )
    loss = loss_of(model, windows.to(config.device), counts=counts)
    check_finite(run, step, "loss", loss.item())
    loss.backward()  # type: ignore[no-untyped-call]
    limit = math.inf if config.optimiser.clip is None else config.optimiser.clip
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit).item()
    check_finite(run, step, "norm of the gradient", norm)
    for group in run.optimiser.param_groups:
        group["lr"] = learning_rate(config.optimiser, step, config.steps)
    run.optimiser.step()
    run.optimiser.zero_grad()
    return loss.item(), norm


def loss_of(
    model: nn.Module, windows: Tensor, reduction: str = "mean", counts: Mapping[str, int] = MappingProxyType({})
) -> Tensor:
    """Return the cross-entropy of the next tokens, in nats, of windows [batch, length + 1].

    Of a model with early exits it is that of its output; what the exits give is not trained on.

    Args:
        model: tokens → logits, or a pair of logits and those at the exits.
        windows: the tokens.
        reduction: `mean` or `sum` over the tokens.
        counts: of loops whose counts are chosen at run time; by default those of the evaluation.
    """
    output = model(windows[:, :-1], **counts)
    logits: Tensor = output[0] if isinstance(output, tuple) else output
    return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten(), reduction=reduction)


@torch.no_grad()
def evaluate(model: nn.Module, corpus: Corpus, config: TrainConfig) -> float:
    """Return the mean loss on the held-out tokens, in nats a token; its exponential is the perplexity.

    The tokens are the same at every call. The model is left in training mode or not, as it was.
    """
    limit, was_training = config.data.validation_tokens, model.training
    model.eval()
    total, count = 0.0, 0
    for windows in validation_batches(corpus.validation, batch=config.batch, length=config.length, limit=limit):
        total += loss_of(model, windows.to(config.device), "sum").item()
        count += windows[:, 1:].numel()
    model.train(was_training)
    return total / count


def _result(run: Run, state: State, loss: float) -> Result:
    checkpoint = latest_checkpoint(run.out)
    assert checkpoint is not None
    return Result(
        route=run.config.route,
        parameters=sum(parameter.numel() for parameter in run.model.parameters()),
        steps=state.step,
        tokens=state.tokens,
        flops=state.flops,
        seconds=state.seconds,
        training_loss=state.loss,
        validation_loss=loss,
        checkpoint=checkpoint,
        log=run.log.path,
    )
