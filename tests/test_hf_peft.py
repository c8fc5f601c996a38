"""PEFT on models with a route: adapters belong to layers, whose visits share them; prefixes to executions."""

import pytest
import torch
from peft import (
    LoraConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptTuningConfig,
    get_peft_model,
)
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaForCausalLM, Trainer, TrainingArguments

import depthgraph as dg
from depthgraph.errors import CompileError

from hf_models import prompts, tiny, unrolled

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # PEFT uses names that transformers 5.24 calls deprecated
    pytest.mark.filterwarnings("ignore:.(is_)?gradient_checkpointing. is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning"),
]

LOOPED, PATH = "1 (2..3)x2 4", (1, 2, 3, 2, 3, 4)
FLOW = "1 save(e) (mix(e) 2..3 gate(e))x2 4"
INPUTS = prompts(9, 6, 3)


def routed(route=LOOPED, **options):
    return dg.hf.reroute(tiny("llama"), route, **options)


def lora(**settings):
    return LoraConfig(**{"r": 4, "task_type": "CAUSAL_LM", **settings})


def trained(model, steps=3):
    optimiser = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=1.0)
    model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        model(**INPUTS, labels=INPUTS["input_ids"]).loss.backward()
        optimiser.step()
    return model.eval()


@torch.no_grad()
def logits(model, **named):
    return model(**INPUTS, **named).logits


def generated(model, **named):
    return model.generate(**INPUTS, max_new_tokens=6, do_sample=False, **named)


def test_adapters_are_saved_and_loaded_onto_a_fresh_model(tmp_path):
    plain, model = logits(routed()), get_peft_model(routed(), lora())
    assert model.active_peft_config.target_modules == {"q_proj", "v_proj"}  # those of a llama
    assert torch.equal(logits(model), plain)
    trained(model).save_pretrained(tmp_path)
    assert not torch.allclose(logits(model), plain, atol=0.1)
    fresh = PeftModel.from_pretrained(routed(), tmp_path)
    assert torch.equal(logits(fresh), logits(model))
    assert torch.equal(generated(fresh), generated(model))
    native = routed()
    native.load_adapter(tmp_path)
    assert torch.equal(logits(native), logits(model))
    with fresh.disable_adapter():
        assert torch.equal(logits(fresh), plain)


def test_the_cache_of_a_model_with_adapters_has_a_slot_for_every_execution():
    model = trained(get_peft_model(routed(), lora()))
    with torch.no_grad():
        assert len(model(**INPUTS, use_cache=True).past_key_values) == len(PATH)
    assert torch.equal(generated(model), generated(model, use_cache=False))


@pytest.mark.parametrize("settings", [{}, {"target_modules": "all-linear"}, {"use_dora": True}, {"use_rslora": True}])
def test_visits_share_their_layers_adapter_so_merging_it_is_right(settings):
    model = trained(get_peft_model(routed().double(), lora(**settings)))
    found = logits(model)
    merged = model.merge_and_unload()
    assert (merged.route.path, merged.config.num_hidden_layers) == (PATH, 4)
    torch.testing.assert_close(logits(merged), found, rtol=0, atol=1e-10)
    # what was merged are the weights of layers: the unrolled model with copies of them computes the same
    expected = logits(merged)
    assert torch.equal(logits(unrolled(dg.hf.restore(merged), PATH)), expected)


def test_an_adapter_learns_from_all_visits_of_its_layer():
    model = get_peft_model(routed().double(), lora(layers_to_transform=[1])).train()
    names = [name for name, each in model.named_parameters() if each.requires_grad]
    assert names
    assert all(".layers.1." in name for name in names)  # counted from 0: layer 2, with both of its visits
    large = get_peft_model(unrolled(tiny("llama"), PATH).double(), lora(layers_to_transform=[1, 3])).train()
    for target in ("q_proj", "v_proj"):
        adapters = [each.base_model.model.model.layers for each in (model, large)]
        one, *both = (getattr(layers[place].self_attn, target) for layers, place in zip([*adapters, adapters[1]], (1, 1, 3), strict=True))  # fmt: skip
        for each in both:
            for kind in ("lora_A", "lora_B"):
                getattr(each, kind).load_state_dict(getattr(one, kind).state_dict())
    for each in (model, large):
        each(**INPUTS, labels=INPUTS["input_ids"]).loss.backward()
    gradient = {name: each.grad for name, each in large.named_parameters() if each.requires_grad}
    for name in names:
        twin = name.replace(".layers.1.", ".layers.3.")
        torch.testing.assert_close(model.get_parameter(name).grad, gradient[name] + gradient[twin])


def test_an_execution_is_no_layer_to_adapt():
    with pytest.raises(ValueError, match="layers_to_transform"):
        get_peft_model(routed(), lora(layers_to_transform=[len(PATH) - 1]))


def test_a_route_goes_on_and_off_inside_a_peft_model():
    model = trained(get_peft_model(tiny("llama"), lora()))
    before, keys = logits(model), list(model.state_dict())
    dg.hf.reroute(model, LOOPED)
    assert list(model.state_dict()) == keys
    after = trained(get_peft_model(tiny("llama"), lora()))
    after.load_state_dict(model.state_dict())
    dg.hf.reroute(after.base_model.model, LOOPED)
    assert torch.equal(logits(model), logits(after))
    assert not torch.allclose(logits(model), before, atol=0.1)
    assert dg.hf.restore(model) is model
    assert torch.equal(logits(model), before)
    assert type(model.base_model.model) is LlamaForCausalLM
    with pytest.raises(CompileError, match="has no route"):
        dg.hf.restore(model)


def test_weights_of_the_route_are_saved_with_the_adapter(tmp_path):
    model = trained(get_peft_model(routed(FLOW), lora(modules_to_save=["mix_1", "gate_1"])))
    own = {name: each for name, each in model.named_parameters() if "depthgraph" in name and each.requires_grad}
    assert {name.split(".")[4] for name in own} == {"mix_1", "gate_1"}
    model.save_pretrained(tmp_path)
    fresh = PeftModel.from_pretrained(routed(FLOW), tmp_path)
    assert torch.equal(logits(fresh), logits(model))
    merged = fresh.merge_and_unload()
    torch.testing.assert_close(logits(merged), logits(model), rtol=0, atol=1e-4)
    assert not any("modules_to_save" in name for name in merged.state_dict())


def test_loop_counts_go_through_peft():
    model = trained(get_peft_model(routed("1 (2..3)x r 4", dynamic={"r": 2}), lora())).train()
    twin = get_peft_model(routed("1 (2..3)x3 4"), lora()).train()
    twin.load_state_dict(model.state_dict())
    assert torch.equal(logits(model, r=3), logits(twin))
    with pytest.warns(UserWarning, match="trained with 2"):
        assert torch.equal(generated(model.eval(), r=3), generated(twin.eval()))


def test_a_prefix_is_one_of_every_execution():
    model = get_peft_model(routed(), PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3, num_layers=6))
    large = get_peft_model(
        unrolled(tiny("llama"), PATH), PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    )
    large.prompt_encoder.load_state_dict(trained(model).prompt_encoder.state_dict())
    assert torch.equal(logits(model), logits(large.eval()))


def test_a_prefix_of_every_layer_is_refused():
    model = get_peft_model(routed(), PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3))
    with pytest.raises(CompileError, match="4 slots") as caught:
        logits(model)
    assert caught.value.code == "cache-mismatch"


def test_a_learned_prompt_goes_through_the_route():
    models = [routed(), unrolled(tiny("llama"), PATH)]
    settings = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    model, large = (get_peft_model(each, settings) for each in models)
    large.prompt_encoder.load_state_dict(trained(model).prompt_encoder.state_dict())
    assert torch.equal(logits(model), logits(large.eval()))


def test_layers_that_peft_replicates_are_refused_under_a_route():
    model = get_peft_model(routed(), lora(layer_replication=[[0, 3], [1, 4]]))
    with pytest.raises(CompileError, match="6 layers now, and its route is over 4"):
        logits(model)


def test_flops_of_adapters_are_those_of_the_model_that_runs():
    base = routed()
    base.set_attn_implementation("eager")
    model, ids = get_peft_model(base, lora()).train(), INPUTS["input_ids"]
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, labels=ids).loss.backward()
    assert dg.hf.training_flops(model, input_ids=ids, labels=ids) == counter.get_total_flops()


def test_the_trainer_saves_adapters_and_goes_on_from_them(tmp_path):
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(3, 64, (16, 9))]

    def run(folder, steps, **resume):
        torch.manual_seed(0)
        model = get_peft_model(routed(), lora(lora_dropout=0.1))
        settings = TrainingArguments(
            str(folder), per_device_train_batch_size=4, max_steps=4, logging_steps=1, save_steps=2, learning_rate=0.1,
            use_cpu=True, report_to="none", disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(model, settings, train_dataset=rows, callbacks=[dg.hf.RouteFlops()])
        trainer.train(**resume)
        return model, [(entry["loss"], entry["route_flops"]) for entry in trainer.state.log_history if "loss" in entry]

    whole, losses = run(tmp_path, 4)
    resumed, again = run(tmp_path, 4, resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again == losses
    assert torch.equal(logits(resumed.eval()), logits(whole.eval()))
    loaded = PeftModel.from_pretrained(routed(), tmp_path / "checkpoint-4")
    assert torch.equal(logits(loaded), logits(whole))


def conditioned(model):
    """Return a model's layers, with a low-rank update of their own for each second visit."""
    own = dg.nn.Lora(rank=2, targets=("self_attn.*_proj",))
    body = dg.compile(
        dg.route(LOOPED), model.model.layers, inputs=["position_embeddings", "attention_mask"], conditioning=[own]
    )
    with torch.no_grad():
        for name, each in body.conditioning.named_parameters():
            if name.endswith(".B"):
                each.add_(torch.linspace(-0.2, 0.2, each.numel(), dtype=each.dtype).view_as(each))
    return body


@torch.no_grad()
def logits_of(body, model):
    """Return what a model computes with a compiled route in the place of its layers."""
    ids = INPUTS["input_ids"]
    hidden = model.model.embed_tokens(ids)
    tables = model.model.rotary_emb(hidden, torch.arange(ids.shape[1])[None])
    mask = torch.full((ids.shape[1],) * 2, -torch.inf, dtype=hidden.dtype).triu(1)[None, None]
    return model.lm_head(model.model.norm(body(hidden, position_embeddings=tables, attention_mask=mask)))


def test_visits_with_adapters_of_their_own_leave_the_base_as_it_is_and_are_not_merged():
    model = tiny("llama").double()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    body = conditioned(model)
    assert {name.partition(".")[0] for name, _ in body.conditioning.named_parameters()} == {"L2_2", "L3_2"}
    found = logits_of(body, model)
    base = dg.compile(dg.route(LOOPED), model.model.layers, inputs=["position_embeddings", "attention_mask"])
    assert not torch.allclose(found, logits_of(base, model), atol=0.1)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    with pytest.raises(CompileError, match="one weight cannot be all of them") as caught:
        dg.nn.merge(body)
    assert caught.value.code == "cannot-merge"
    assert "dg.nn.unshare" in caught.value.help


def test_the_unshared_copy_of_visits_with_adapters_of_their_own_is_a_plain_model():
    model = tiny("llama").double()
    body = conditioned(model)
    unshared = dg.nn.unshare(body)
    assert torch.equal(logits_of(unshared, model), logits_of(body, model))
    large = unrolled(model, PATH)
    large.model.layers.load_state_dict(unshared.layers.state_dict())
    ids = INPUTS["input_ids"]
    with torch.no_grad():
        torch.testing.assert_close(large(ids).logits, logits_of(body, model), rtol=0, atol=1e-12)
