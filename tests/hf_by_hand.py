"""What a Hugging Face model computes under a route, by plain Python over its own layers."""

import torch
from torch import nn

import depthgraph as dg

from hf_models import layers_of
from oracle import run_spec


def record(model, inputs):
    """Run a model without a route, and return what each of its layers was called with: (args, named)."""
    _, layers = layers_of(model)
    calls = []
    handles = [
        layer.register_forward_pre_hook(lambda _, args, named: calls.append((args, named)), with_kwargs=True)
        for layer in layers
    ]
    model(**inputs, use_cache=False)
    for handle in handles:
        handle.remove()
    return calls


def finish(model, inputs, hidden):
    """Return the logits that a model makes of a hidden state after its last layer."""
    _, layers = layers_of(model)
    handle = layers[-1].register_forward_hook(
        lambda _, args, output: (hidden, *output[1:]) if isinstance(output, tuple) else hidden
    )
    logits = model(**inputs, use_cache=False).logits
    handle.remove()
    return logits


def layer_runner(model, calls):
    """Return a function from a layer, from 1, and a hidden state to the next, with what the layer was called with."""
    _, layers = layers_of(model)

    def run(layer, h):
        args, named = calls[layer - 1]
        output = layers[layer - 1](h, *args[1:], **named)
        return output[0] if isinstance(output, tuple) else output

    return run


def by_hand(model, spec, inputs, own=None):
    """Run a spec over the layers of a model without a route.

    Args:
        model: without a route.
        spec: the syntax tree.
        inputs: of the model.
        own: the weights of `mix` and `gate` by their names.

    Returns:
        Logits, and the hidden states at the exits.
    """
    calls, known = record(model, inputs), {"mix": {}, "gate": {}}

    def weight(kind, key):
        number = known[kind].setdefault(key, len(known[kind]) + 1)
        return own[f"{kind}_{number}.weight"]

    last, exits = run_spec(
        spec,
        layer_runner(model, calls),
        lambda key, h, a: nn.functional.linear(torch.cat((h, a), -1), weight("mix", key)),
        lambda key, h, a: h + weight("gate", key) * a,
        calls[0][0][0],
        len(calls),
        dg.schemes(),
    )
    return finish(model, inputs, last), exits
