"""What a compiled route costs beside the Python loop of the paper, over the same layers.

    python benchmarks/overhead.py [--rounds 15] [--threads 2]

Both sides run the layers of the LFT route on one hidden state, with the rotary tables computed before. Results must be
equal to the last bit, outputs and gradients, before anything is timed. A figure is the median of ratios within
rounds, with their middle half. `noise` is the loop against itself in the same rounds: a ratio within it says nothing.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

import depthgraph as dg
from depthgraph.decoder_config import PRESETS
from depthgraph.nn import Decoder
from depthgraph.nn.positions import Rotary, rotary_table

Run = Callable[[Tensor], Tensor]
Step = Callable[[Run, Tensor], None]
Clock = Callable[[], float]


def paper_loop(layers: Sequence[nn.Module], hidden: Tensor, rotary: Rotary) -> Tensor:
    """Run the layers as the paper's code does."""
    hidden = layers[0](hidden, rotary=rotary)
    for i in range(1, len(layers)):
        hidden = layers[i](hidden, rotary=rotary)
        if i < len(layers) - 1:
            hidden = layers[i - 1](hidden, rotary=rotary)
            hidden = layers[i](hidden, rotary=rotary)
    return hidden


def check_equal(model: nn.Module, loop: Run, compiled: Run, hidden: Tensor) -> None:
    """Assert that both sides give the same output and the same gradients, bit for bit."""
    results = []
    for run in (loop, compiled):
        model.zero_grad()
        output = run(hidden)
        output.square().mean().backward()
        results.append([output.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    assert len(results[0]) == len(results[1])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    assert len(results[0]) > 1


def forward(run: Run, hidden: Tensor) -> None:
    with torch.no_grad():
        run(hidden)


def forward_and_backward(run: Run, hidden: Tensor) -> None:
    run(hidden).sum().backward()


def seconds(step: Step, run: Run, hidden: Tensor, repeats: int, clock: Clock = time.perf_counter) -> float:
    start = clock()
    for _ in range(repeats):
        step(run, hidden)
    return (clock() - start) / repeats


def ratios(
    step: Step, loop: Run, compiled: Run, hidden: Tensor, rounds: int, clock: Clock = time.perf_counter
) -> tuple[list[float], list[float]]:
    """Return time(compiled) / time(loop), and time(loop) / time(loop), of rounds that run all three in turn.

    The three change places from round to round, so that what slows the machine for a while meets them alike.
    Short steps are repeated to last about 0.1 s.
    """
    runs = [loop, compiled, loop]
    for run in runs:
        step(run, hidden)
    repeats = max(1, round(0.1 / seconds(step, loop, hidden, 1)))
    against, noise = [], []
    for number in range(rounds):
        order = [(number + place) % 3 for place in range(3)]
        times = {index: seconds(step, runs[index], hidden, repeats, clock) for index in order}
        against.append(times[1] / times[0])
        noise.append(times[2] / times[0])
    return against, noise


def shown(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3f} ({low:.3f}-{high:.3f})"


def measure(name: str, length: int, rounds: int) -> None:
    config = PRESETS[name]
    model = Decoder(config, dg.route("lft(N)", N=config.parameter_depth))
    layers = list(model.body.layers)
    hidden = torch.randn(1, length, config.width)
    rotary = rotary_table(length, config.head_width, config.rope_theta, hidden)

    def loop(hidden: Tensor) -> Tensor:
        return paper_loop(layers, hidden, rotary)

    def compiled(hidden: Tensor) -> Tensor:
        return model.body(hidden, rotary=rotary)

    check_equal(model, loop, compiled, hidden)
    for step in (forward, forward_and_backward):
        cost = seconds(step, loop, hidden, 1)
        against, noise = ratios(step, loop, compiled, hidden, rounds)
        title = step.__name__.replace("_", " ")
        print(
            f"{name:9} T={length:<4} {title:21} {cost * 1e3:7.1f} ms   {shown(against)}   noise {shown(noise)}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {options.threads} threads, batch 1, {options.rounds} rounds; compiled / loop")
    for name in ("lft-2.5m", "lft-10m"):
        for length in (32, 768):
            measure(name, length, options.rounds)


if __name__ == "__main__":
    main()
