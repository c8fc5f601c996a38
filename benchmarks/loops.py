"""What data flow and a loop count at run time cost beside hand-written Python, over the same layers.

    python benchmarks/loops.py [--rounds 15] [--threads 2] [--length 128] [--cpu-time]

Three comparisons, each equal to the last bit in outputs and gradients before anything is timed: Huginn's route with
r = 8, and a U-Net of gated skips, against plain Python over the same modules; and a model that takes r = 8 at the call
against the one compiled for r = 8. Figures are made as in overhead.py: medians of ratios within rounds, with their
middle half; `noise` is the other side against itself in the same rounds. `--cpu-time` counts the time of the process
and not that of the clock, for one thread on a machine that others use.
"""

import argparse
import time
from collections.abc import Callable

import torch
from overhead import Clock, Run, check_equal, forward, forward_and_backward, ratios, seconds, shown
from torch import Tensor, nn

import depthgraph as dg
from depthgraph.decoder_config import PRESETS
from depthgraph.nn.decoder import DecoderLayer
from depthgraph.nn.positions import Rotary, rotary_table

HUGINN = "1..2 save(e) (mix(e) 3..6)x r 7..8"
UNET = "1 save(a) 2 save(b) 3 save(c) 4 5 gate(c) 6 gate(b) 7 gate(a) 8"

#: What makes two functions of a hidden state: one to time, and the other to time it against.
Pair = Callable[[list[nn.Module], Rotary], tuple[nn.Module, Run, Run]]


def weighted(model: nn.Module) -> nn.Module:
    """Return the model with weights of `mix` and `gate` that compute something."""
    for name, module in model.named_children():
        if name != "layers":
            nn.init.normal_(module.weight, std=0.05)
    return model


def huginn(layers: list[nn.Module], rotary: Rotary) -> tuple[nn.Module, Run, Run]:
    model = weighted(dg.compile(dg.route(HUGINN, r=8), layers, width=PRESETS["lft-2.5m"].width))

    def loop(hidden: Tensor) -> Tensor:
        hidden = layers[0](hidden, rotary=rotary)
        e = hidden = layers[1](hidden, rotary=rotary)
        for _ in range(8):
            hidden = nn.functional.linear(torch.cat((hidden, e), dim=-1), model.mix_1.weight)
            for layer in layers[2:6]:
                hidden = layer(hidden, rotary=rotary)
        for layer in layers[6:]:
            hidden = layer(hidden, rotary=rotary)
        return hidden

    return model, loop, lambda hidden: model(hidden, rotary=rotary)


def unet(layers: list[nn.Module], rotary: Rotary) -> tuple[nn.Module, Run, Run]:
    model = weighted(dg.compile(dg.route(UNET), layers, width=PRESETS["lft-2.5m"].width))

    def loop(hidden: Tensor) -> Tensor:
        skips = []
        for layer in layers[:3]:
            hidden = layer(hidden, rotary=rotary)
            skips.append(hidden)
        for layer in layers[3:5]:
            hidden = layer(hidden, rotary=rotary)
        for layer, gate in zip(layers[5:], (model.gate_1, model.gate_2, model.gate_3), strict=True):
            hidden = layer(hidden + gate.weight * skips.pop(), rotary=rotary)
        return hidden

    return model, loop, lambda hidden: model(hidden, rotary=rotary)


def dynamic(layers: list[nn.Module], rotary: Rotary) -> tuple[nn.Module, Run, Run]:
    model = weighted(dg.compile(HUGINN, layers, dynamic=["r"], width=PRESETS["lft-2.5m"].width))
    static = dg.compile(dg.route(HUGINN, r=8), layers, weights={"mix_1": model.mix_1})
    return model, lambda hidden: static(hidden, rotary=rotary), lambda hidden: model(hidden, rotary=rotary, r=8)


def measure(title: str, pair: Pair, batch: int, length: int, rounds: int, clock: Clock) -> None:
    config = PRESETS["lft-2.5m"]
    torch.manual_seed(0)
    layers: list[nn.Module] = [DecoderLayer(config) for _ in range(8)]
    hidden = torch.randn(batch, length, config.width)
    model, against, run = pair(layers, rotary_table(length, config.head_width, config.rope_theta, hidden))
    check_equal(model, against, run, hidden)
    for step in (forward, forward_and_backward):
        cost = seconds(step, against, hidden, 1, clock)
        found, noise = ratios(step, against, run, hidden, rounds, clock)
        name = step.__name__.replace("_", " ")
        print(f"{title:26} {name:21} {cost * 1e3:7.1f} ms   {shown(found)}   noise {shown(noise)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("rounds", 15), ("threads", 2), ("batch", 1), ("length", 128)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args()
    clock = time.process_time if options.cpu_time else time.perf_counter
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} threads, batch {options.batch}, T={options.length}, d=160")
    pairs: dict[str, Pair] = {
        "Huginn, r = 8 / Python": huginn,
        "U-Net / Python": unet,
        "dynamic r = 8 / static": dynamic,
    }
    for title, pair in pairs.items():
        measure(title, pair, options.batch, options.length, options.rounds, clock)


if __name__ == "__main__":
    main()
