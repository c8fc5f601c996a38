"""What counting a route takes: `dg.cost`, against torch's counter on the whole compiled model on the meta device.

    python benchmarks/cost.py [--rounds 9] [--length 768]

Both give the FLOPs of forward and backward, which must be equal before anything is timed. The whole model is compiled
and copied to the meta device beforehand, which is not timed; `dg.cost` copies the layers itself, and looks at saved
activations, keys and values too. Times are those of the processor, in one thread. A figure is the median of ratios
within rounds, with their middle half. `noise` is the whole model against itself in the same rounds.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

import depthgraph as dg
from depthgraph.decoder_config import PRESETS
from depthgraph.nn.decoder import DecoderLayer
from depthgraph.nn.positions import rotary_table


def seconds(run: Callable[[], int]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def shown(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def measure(text: str, rounds: int, length: int) -> None:
    route = dg.route(text)
    config = PRESETS["lft-2.5m"]
    layers = [DecoderLayer(config) for _ in range(route.parameter_depth)]
    inputs = {"rotary": rotary_table(length, config.head_width, config.rope_theta, torch.empty(()))}
    model = dg.compile(route, layers).to("meta")
    on_meta = {"rotary": tuple(table.to("meta") for table in inputs["rotary"])}
    layers = [DecoderLayer(config) for _ in range(route.parameter_depth)]

    def whole() -> int:
        hidden = torch.zeros(1, length, config.width, device="meta", requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            model(hidden, **on_meta).sum().backward()
        return counter.get_total_flops()

    def ours() -> int:
        return dg.cost(route, layers, length=length, width=config.width, inputs=inputs).training_flops

    assert whole() == ours()
    against, noise = [], []
    for number in range(rounds):
        runs = [whole, ours, whole]
        order = [(number + place) % 3 for place in range(3)]
        times = {index: seconds(runs[index]) for index in order}
        against.append(times[1] / times[0])
        noise.append(times[2] / times[0])
    took = seconds(ours)
    sizes = f"N = {route.parameter_depth:<3} E = {route.execution_depth:<4}"
    print(f"{text:22} {sizes} {took * 1e3:7.0f} ms   {shown(against)}   noise {shown(noise)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--length", type=int, default=768)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"torch {torch.__version__}, T = {options.length}, {options.rounds} rounds; dg.cost / the whole model counted"
    )
    for text in ("lft(24)", "1..2 (3..6)x32 7..8", "1..24"):
        measure(text, options.rounds, options.length)


if __name__ == "__main__":
    main()
