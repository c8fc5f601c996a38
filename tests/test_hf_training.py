"""Training, copying and compiling a model with a route."""

import copy
import io
import pickle

import pytest
import torch

import depthgraph as dg

from hf_models import MAIN, prompts, tiny, unrolled

pytestmark = pytest.mark.usefixtures("one_thread")

TEXT, PATH = "1 (2..3)x2 4 3", (1, 2, 3, 2, 3, 4, 3)
FLOW = "1 save(e) (mix(e) 2..3)x2 mean(3 | 4 2) stopgrad 1 2 gate(e)"


def gradients(model, inputs, **how):
    """Return the gradient of each parameter after one backward, by name; the loss under its own."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(5)
    loss = model(**inputs, labels=inputs["input_ids"], **how).loss
    loss.backward()
    return {"loss": loss.detach()} | {name: parameter.grad for name, parameter in model.named_parameters()}


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        assert (gradient is None) == (expected[name] is None), name
        assert gradient is None or torch.equal(gradient, expected[name]), name


@pytest.mark.parametrize("name", MAIN)
def test_the_gradient_of_a_layer_is_the_sum_over_its_copies_in_the_unrolled_model(name):
    model, inputs = tiny(name).train(), prompts(9, 6)
    large = unrolled(model, PATH).train()
    expected = gradients(large, inputs, use_cache=False)
    dg.hf.reroute(model, TEXT)
    found = gradients(model, inputs, use_cache=False)
    assert torch.equal(found["loss"], expected["loss"])
    prefix = dg.hf.reroute(model, TEXT).routing.layers.prefix
    for key, gradient in found.items():
        if key.startswith(prefix):
            layer, _, rest = key.removeprefix(prefix).partition(".")
            places = [place for place, other in enumerate(PATH) if other == int(layer) + 1]
            total = sum(expected[f"{prefix}{place}.{rest}"] for place in places)
            torch.testing.assert_close(gradient, total, rtol=1e-4, atol=1e-6)
        else:
            assert torch.equal(gradient, expected[key])


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("text", [TEXT, FLOW])
@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_checkpointing_changes_no_gradient(name, text, reentrant):
    model, inputs = dg.hf.reroute(tiny(name), text).train(), prompts(9, 6)
    if name == "llama":  # reentrant checkpointing wants an input that needs a gradient
        model.get_input_embeddings().requires_grad_(False)
    expected = gradients(model, inputs, use_cache=False)
    model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": reentrant})
    runs = []
    projection = model.get_submodule(model.routing.layers.prefix + "1").mlp
    handle = projection.register_forward_pre_hook(lambda *_: runs.append(1))
    found = gradients(model, inputs, use_cache=False)
    handle.remove()
    assert len(runs) == {TEXT: 4, FLOW: 5}[text]  # those that a gradient reaches run twice
    same(found, expected)
    model.activation_checkpointing_disable()
    same(gradients(model, inputs, use_cache=False), expected)


def test_checkpointing_that_was_on_before_stays_on():
    model, inputs = tiny("llama").train(), prompts(9, 6)
    model.activation_checkpointing_enable()
    dg.hf.reroute(model, TEXT)
    found = gradients(model, inputs, use_cache=False)
    same(found, gradients(dg.hf.reroute(tiny("llama"), TEXT).train(), inputs, use_cache=False))


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox"])
def test_dropout_draws_what_the_unrolled_model_draws(name):
    settings = {"gpt2": {"attn_pdrop": 0.3, "resid_pdrop": 0.3, "embd_pdrop": 0.3}, "llama": {"attention_dropout": 0.3}}
    model = tiny(name, **settings.get(name, {"attention_dropout": 0.3, "hidden_dropout": 0.3})).train()
    large, inputs = unrolled(model, PATH).train(), prompts(9, 6)
    plain = gradients(model.eval(), inputs, use_cache=False)["loss"]
    dg.hf.reroute(model.train(), TEXT)
    found, expected = gradients(model, inputs, use_cache=False), gradients(large, inputs, use_cache=False)
    assert torch.equal(found["loss"], expected["loss"])
    assert not torch.equal(found["loss"], plain)


def test_training_and_evaluation_are_switched_as_ever():
    model = dg.hf.reroute(tiny("llama"), FLOW)
    assert not any(part.training for part in model.modules())
    model.train()
    assert all(part.training for part in model.modules())
    dg.hf.reroute(model, "1 save(a) 2..4 mix(a)")
    assert all(part.training for part in model.modules())


def test_steps_of_an_optimiser_move_the_one_copy_of_each_weight():
    model, inputs = dg.hf.reroute(tiny("llama"), FLOW).train(), prompts(9, 6)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(8):
        optimiser.zero_grad()
        loss = model(**inputs, labels=inputs["input_ids"]).loss
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    trained = {name: value for name, value in model.state_dict().items() if "depthgraph" not in name}
    other = tiny("llama")
    other.load_state_dict(trained)
    assert torch.equal(dg.hf.restore(model.eval())(**inputs).logits, other(**inputs).logits)


def test_frozen_layers_get_no_gradient_in_any_visit():
    model, inputs = dg.hf.reroute(tiny("llama"), TEXT).train(), prompts(9, 6)
    model.model.layers[1].requires_grad_(False)
    found = gradients(model, inputs)
    assert {name for name, gradient in found.items() if gradient is None} == {
        f"model.layers.1.{name}" for name, _ in model.model.layers[1].named_parameters()
    }


def saved(model):
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), saved])
def test_a_copy_has_the_route_and_weights_of_its_own(name, again):
    model, inputs = dg.hf.reroute(tiny(name), FLOW), prompts(9, 6)
    with torch.no_grad():
        model.base_model.depthgraph.mix_1.weight.add_(0.1)
    expected = model(**inputs).logits
    other = again(model)
    assert torch.equal(other(**inputs).logits, expected)
    assert (type(other), str(other.route), other.config.route) == (type(model), str(model.route), model.config.route)
    assert not {id(value) for value in other.parameters()} & {id(value) for value in model.parameters()}
    assert torch.equal(other.generate(**inputs, max_new_tokens=3), model.generate(**inputs, max_new_tokens=3))
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert torch.equal(model(**inputs).logits, expected)
    dg.hf.restore(other)
    assert torch.equal(model(**inputs).logits, expected)
    dg.hf.reroute(other, "1..4")
    assert model.config.route != other.config.route


def test_a_copy_of_a_config_is_one_with_the_route():
    config = dg.hf.reroute(tiny("llama"), TEXT).config
    for other in (copy.deepcopy(config), pickle.loads(pickle.dumps(config)), copy.copy(config)):
        assert (type(other), other.to_dict()) == (type(config), config.to_dict())


def test_half_precision_and_another_dtype_take_the_weights_of_the_route_along():
    model = dg.hf.reroute(tiny("llama"), FLOW).to(torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert model(**prompts(5)).logits.dtype == torch.bfloat16
    dg.hf.reroute(model, "1 save(b) 2..4 gate(b)")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    with torch.autocast("cpu", torch.bfloat16):
        assert dg.hf.reroute(tiny("llama"), FLOW)(**prompts(5)).logits.dtype == torch.bfloat16
