"""What a route costs in a Hugging Face model: with a cache, beside copies of its layers, and with nothing changed.

    python benchmarks/huggingface.py [--rounds 9] [--threads 2]

1. Decoding with one cache slot an execution against computing everything anew for each token, which is what code does
   that has no right cache.
2. The re-routed model against the same model with physical copies, E layers: the same tokens, and layers E/N times as
   large.
3. A model under the route that runs every layer once, against the model without one.

Tokens and logits are compared before anything is timed. A figure is the median of ratios within rounds, with their
middle half; in each round all sides run in turn, and they change places. `noise` is one side against itself in the same
rounds.
"""

import argparse
import copy
from collections.abc import Callable
from typing import Any

import torch
from overhead import ratios, shown
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

import depthgraph as dg

ROUTE = "block(2..3)x3"


def tiny(layers: int = 4, width: int = 64) -> LlamaForCausalLM:
    """Return a random Llama."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=1024,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def generate(model: Any, tokens: int, **options: Any) -> Callable[[Tensor], Tensor]:
    """Return a function from a prompt to the prompt and `tokens` greedy tokens."""

    def run(prompt: Tensor) -> Tensor:
        return model.generate(
            prompt, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0, **options
        )

    return run


def call(run: Callable[[Tensor], Any], tokens: Tensor) -> None:
    with torch.no_grad():
        run(tokens)


def step_of_training(run: Callable[[Tensor], Any], tokens: Tensor) -> None:
    run(tokens).logits.square().mean().backward()


def unrolled(model: LlamaForCausalLM, route: dg.Route) -> LlamaForCausalLM:
    """Return the model with a physical copy of a layer for every execution, made by hand."""
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = route.execution_depth
    twin = LlamaForCausalLM(config).eval()
    state = {name: tensor for name, tensor in model.state_dict().items() if ".layers." not in name}
    for index, layer in enumerate(route.path):
        own = model.model.layers[layer - 1].state_dict()
        state |= {f"model.layers.{index}.{name}": tensor for name, tensor in own.items()}
    twin.load_state_dict(state)
    return twin


def with_parameters_of(twin: Any, model: Any) -> Any:
    """Let a model hold another one's parameters: then two runs differ in their code, and not in where weights lie."""
    for (name, _), own in zip(list(twin.named_parameters()), model.parameters(), strict=True):
        twin.get_parameter(name).data = own.data
    return twin


def size(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def layer_size(model: Any) -> int:
    return size(model.model.layers)


def report(title: str, against: list[float], noise: list[float]) -> None:
    print(f"{title:66} {shown(against)}   noise {shown(noise)}", flush=True)


def recomputing(rounds: int) -> None:
    for width, start in ((64, 512), (256, 256), (256, 512)):
        model = tiny(width=width)
        dg.hf.reroute(model, ROUTE)
        prompt = torch.randint(512, (1, start))
        cached, anew = generate(model, 256), generate(model, 256, use_cache=False)
        assert torch.equal(cached(prompt), anew(prompt))
        against, noise = ratios(call, cached, anew, prompt, rounds)
        report(f"d={width}, 256 tokens behind {start}: anew for each token / with a cache", against, noise)


def copies(rounds: int) -> None:
    for width in (64, 256, 512):
        model = tiny(width=width)
        twin = unrolled(model, dg.route(ROUTE, N=4))
        dg.hf.reroute(model, ROUTE)
        print(f"d={width}, {ROUTE}: layers of {layer_size(model):,} parameters, of copies {layer_size(twin):,}")
        prompt = torch.randint(512, (1, 64))
        with torch.no_grad():
            assert torch.equal(model(prompt, use_cache=False).logits, twin(prompt, use_cache=False).logits)
        one, other = generate(twin, 64), generate(model, 64)
        assert torch.equal(one(prompt), other(prompt))
        report(f"d={width}, 64 tokens behind 64: routed / copies", *ratios(call, one, other, prompt, rounds))
        long = torch.randint(512, (1, 512))
        report(f"d={width}, forward of 512: routed / copies", *ratios(call, twin, model, long, rounds))
        for each in (twin, model):
            each.train()
        title = f"d={width}, forward and backward of 512: routed / copies"
        report(title, *ratios(step_of_training, twin, model, long, rounds))


def identity(rounds: int) -> None:
    for width, layers in ((64, 4), (256, 12)):
        model = tiny(layers, width)
        routed = dg.hf.reroute(with_parameters_of(tiny(layers, width), model), "...")
        for length in (1, 64, 512):
            tokens = torch.randint(512, (1, length))
            with torch.no_grad():
                assert torch.equal(model(tokens).logits, routed(tokens).logits)
            title = f"d={width}, {layers} layers, forward of {length}: route `...` / none"
            report(title, *ratios(call, model, routed, tokens, rounds))
        prompt = torch.randint(512, (1, 16))
        one, other = generate(model, 32), generate(routed, 32)
        assert torch.equal(one(prompt), other(prompt))
        report(
            f"d={width}, {layers} layers, 32 tokens with a cache: route `...` / none",
            *ratios(call, one, other, prompt, rounds),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    print(f"torch {torch.__version__}, {options.threads} threads, batch 1, {options.rounds} rounds")
    recomputing(options.rounds)
    copies(options.rounds)
    identity(options.rounds)


if __name__ == "__main__":
    main()
