"""Libraries that go through a model's list of layers: accelerate's compile_regions, and wrapping as torchtitan does it."""

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import TorchDynamoPlugin, compile_regions
from small import VOCABULARY, N, batches, llama
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

import depthgraph as dg
import depthgraph.hf

ROUTES = pytest.mark.parametrize(
    "route", ["(1..4)x2", "block(2..3)x2", "1 save(e) (mix(e) 2..3)x2 4", "drop(2) 1 3..4"]
)
WRAPPED = torch._dynamo.eval_frame.OptimizedModule


class Block(nn.Module):
    """A layer of one's own."""

    def __init__(self, width=16):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + torch.tanh(self.linear(hidden))


class Model(nn.Module):
    """A model with a compiled route inside."""

    def __init__(self, route):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(97, 16)
        self.body = dg.compile(dg.route(route, N=N), [Block() for _ in range(N)], width=16)
        self.head = nn.Linear(16, 97)

    @property
    def layers(self):
        return self.body.layers

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens)))


def rerouted(route):
    return dg.hf.reroute(llama(), route)


def decoder(route):
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": N, "num_attention_heads": 4}
    config = dg.hf.DepthGraphConfig(vocab_size=len(VOCABULARY), eos_token_id=1, pad_token_id=0, route=route, **sizes)
    return dg.hf.DepthGraphForCausalLM(config, seed=0).eval()


def counted(route):
    """Return a model whose loop count is chosen at run time."""
    return dg.hf.reroute(llama(), "1 (2..3)x r 4", dynamic={"r": 2}) if route == "block(2..3)x2" else rerouted(route)


def logits_of(output):
    return output if isinstance(output, torch.Tensor) else output.logits


def layers_of(model):
    if isinstance(model, dg.hf.DepthGraphForCausalLM):
        return model.model.body.layers
    return model.layers if isinstance(model, Model) else model.model.layers


MODELS = pytest.mark.parametrize("make", [Model, rerouted, decoder, counted])


@MODELS
@ROUTES
def test_compile_regions_compiles_the_layers_and_the_route_runs_them(make, route):
    model, tokens = make(route), batches(1)[0]
    expected, names = logits_of(model(tokens)), list(model.state_dict())
    compiled = compile_regions(model, backend="eager")
    assert all(isinstance(layer, WRAPPED) for layer in layers_of(compiled))
    seen = []
    for layer in layers_of(compiled):
        layer.register_forward_hook(lambda *_: seen.append(1))
    torch.testing.assert_close(logits_of(compiled(tokens)), expected, rtol=1e-4, atol=1e-4)
    assert len(seen) == dg.route(route, N=N).execution_depth
    assert torch.equal(logits_of(model(tokens)), expected)
    assert list(model.state_dict()) == names
    assert len(seen) == dg.route(route, N=N).execution_depth
    assert [*compiled.parameters()] == [*model.parameters()]


@pytest.mark.parametrize("make", [rerouted, decoder, counted])
def test_what_compile_regions_returns_decodes_with_a_cache(make):
    model, prompt = make("block(2..3)x2"), batches(1)[0]
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": -1}
    expected = model.generate(prompt, **options)
    compiled = compile_regions(model, backend="eager")
    assert torch.equal(compiled.generate(prompt, **options), expected)


def test_accelerators_prepare_compiles_regions():
    model, tokens = rerouted("block(2..3)x2").train(), batches(1)[0]
    expected = model(tokens, labels=tokens).loss
    plugin = TorchDynamoPlugin(backend="aot_eager", use_regional_compilation=True)
    prepared = Accelerator(cpu=True, dynamo_plugin=plugin).prepare(model)
    loss = prepared(tokens, labels=tokens).loss
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-4)
    loss.backward()
    assert all(parameter.grad is not None for parameter in prepared.parameters())


def checkpointed(layers):
    """Wrap every layer as torchtitan does for activation checkpointing."""
    for name, layer in layers.named_children():
        layers.register_module(name, checkpoint_wrapper(layer))


def compiled_in_place(layers):
    """Compile every layer as torchtitan does."""
    for _, layer in layers.items():
        layer.compile(backend="aot_eager")


@pytest.mark.parametrize("wrap", [checkpointed, compiled_in_place])
@ROUTES
def test_a_compiled_route_is_wrapped_as_torchtitan_wraps_its_models(wrap, route):
    model, twin, tokens = Model(route), Model(route), batches(1)[0]
    assert [name for name, _ in model.layers.items()] == list("0123")
    assert [*reversed(model.layers.values())] == [*model.layers][::-1]
    wrap(model.layers)
    for each in (model, twin):
        each(tokens).square().mean().backward()
    torch.testing.assert_close(model(tokens), twin(tokens))
    for (name, one), (_, other) in zip(model.named_parameters(), twin.named_parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None), name
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad)


class SliceableModuleDict(nn.ModuleDict):
    """What torchtitan's backend for transformers makes of a model's list: a dict whose slices and iteration are a list's."""

    def __getitem__(self, key):
        if isinstance(key, slice):
            return SliceableModuleDict({name: self[name] for name in list(self.keys())[key]})
        return super().__getitem__(key)

    def __iter__(self):
        return iter(self.values())


@pytest.mark.parametrize("wrap", [checkpointed, compiled_in_place])
@ROUTES
def test_a_rerouted_model_is_wrapped_as_torchtitan_wraps_models_of_transformers(wrap, route):
    model, tokens = rerouted(route), batches(1)[0]
    expected = model(tokens).logits
    model.model.layers = SliceableModuleDict(dict(model.model.layers.named_children()))
    torch.testing.assert_close(model(tokens).logits, expected)
    wrap(model.model.layers)
    torch.testing.assert_close(model(tokens).logits, expected, rtol=1e-4, atol=1e-4)


def test_a_model_whose_list_is_a_dict_already_is_refused_with_the_reason():
    model = llama()
    model.model.layers = SliceableModuleDict(dict(model.model.layers.named_children()))
    with pytest.raises(dg.CompileError, match="4 layers are to be in one list of modules; found no list"):
        dg.hf.reroute(model, "block(2..3)x2")


def test_the_list_of_a_rerouted_model_is_its_own_which_has_names_too():
    plain = llama()
    layers = plain.model.layers
    model = dg.hf.reroute(plain, "block(2..3)x2")
    assert model.model.layers is layers
    assert [name for name, _ in model.model.layers.named_children()] == list("0123")
    assert not hasattr(layers, "items")
