"""TRL: a model under a route in SFTTrainer, held against a plain loop over a plain model that shares its layers."""

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from small import N, llama, next_token_loss, tokenizer
from torch import nn
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

import depthgraph as dg
import depthgraph.hf

ROUTE = "block(2..3)x2"
TEXTS = ["the route says it all.", "layers run in order;", "and some run twice.", "weights are there once"]
CHATS = [
    {"prompt": [{"role": "user", "content": text}], "completion": [{"role": "assistant", "content": text[::-1]}]}
    for text in TEXTS
]


def shared(path):
    """Return a plain Llama whose list has a layer several times: right for training, where nothing is cached."""
    model = llama().train()
    model.model.layers = nn.ModuleList(model.model.layers[layer - 1] for layer in path)
    model.config.num_hidden_layers = len(path)
    model.config.layer_types = None
    return model


def settings(folder, **changed):
    options = {"max_steps": 4, "per_device_train_batch_size": len(TEXTS), "learning_rate": 0.01, "logging_steps": 1}
    options |= {"lr_scheduler_type": "constant", "report_to": "none", "use_cpu": True, "bf16": False, "save_steps": 2}
    return SFTConfig(output_dir=str(folder), disable_tqdm=True, max_grad_norm=0.0, **(options | changed))


def losses_of(trainer):
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


def trained(model, folder, data, **changed):
    options = {name: changed.pop(name) for name in ("peft_config",) if name in changed}
    resumed = changed.pop("resumed", None)
    trainer = SFTTrainer(
        model, settings(folder, **changed), train_dataset=data, processing_class=tokenizer(), **options
    )
    trainer.train(resume_from_checkpoint=resumed)
    return trainer


def text_data():
    return Dataset.from_list([{"text": text} for text in TEXTS])


@pytest.mark.parametrize("checkpointing", [False, True], ids=["plain", "gradient checkpointing"])
def test_it_trains_as_a_plain_loop_over_shared_layers_does(checkpointing, tmp_path):
    trainer = trained(
        dg.hf.reroute(llama().train(), ROUTE), tmp_path, text_data(), gradient_checkpointing=checkpointing
    )
    model = shared(dg.route(ROUTE, N=N).path)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    rows = [torch.tensor([*tokenizer()(text)["input_ids"], 1]) for text in TEXTS]
    tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    expected = []
    for _ in range(4):
        logits = model(tokens, attention_mask=mask, use_cache=False).logits
        loss = next_token_loss(logits, tokens.masked_fill(mask == 0, -100))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        expected.append(loss.item())
    assert losses_of(trainer) == pytest.approx(expected, rel=1e-4)
    for name, tensor in trainer.model.state_dict().items():
        if ".layers." not in name:
            torch.testing.assert_close(tensor, model.state_dict()[name], rtol=1e-3, atol=1e-4)


def test_chats_with_a_prompt_are_trained_on_their_completions(tmp_path):
    data = Dataset.from_list(CHATS)
    route = dg.route(ROUTE, N=N)
    ours = losses_of(trained(dg.hf.reroute(llama().train(), ROUTE), tmp_path / "ours", data))
    plain = losses_of(trained(shared(route.path), tmp_path / "plain", data, save_strategy="no"))
    standard = losses_of(trained(llama().train(), tmp_path / "standard", data))
    assert ours == pytest.approx(plain, rel=1e-4)
    assert ours != pytest.approx(standard, rel=1e-2)


def test_an_interrupted_run_goes_on_with_the_losses_of_one_that_was_not(tmp_path):
    data = text_data()
    whole = trained(dg.hf.reroute(llama().train(), ROUTE), tmp_path, data)
    resumed = trained(dg.hf.reroute(llama().train(), ROUTE), tmp_path, data, resumed=str(tmp_path / "checkpoint-2"))
    assert losses_of(resumed) == losses_of(whole)
    assert all(map(torch.equal, resumed.model.parameters(), whole.model.parameters()))


def test_what_it_saves_is_the_model_under_its_route(tmp_path):
    trainer = trained(dg.hf.reroute(llama().train(), ROUTE), tmp_path, text_data())
    trainer.save_model(tmp_path / "saved")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    tokens = torch.tensor([tokenizer()(TEXTS[0])["input_ids"]])
    assert loaded.route == dg.route(ROUTE, N=N)
    assert torch.equal(loaded(tokens).logits, trainer.model.eval()(tokens).logits)


def test_a_path_is_loaded_with_its_route(tmp_path):
    dg.hf.reroute(llama(), ROUTE).save_pretrained(tmp_path / "model")
    by_path = trained(str(tmp_path / "model"), tmp_path / "path", text_data())
    in_place = trained(dg.hf.reroute(llama().train(), ROUTE), tmp_path / "place", text_data())
    assert by_path.model.route == dg.route(ROUTE, N=N)
    assert losses_of(by_path) == losses_of(in_place)


def test_adapters_train_under_the_route_and_leave_the_weights(tmp_path):
    before = {name: tensor.clone() for name, tensor in llama().state_dict().items()}
    peft = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", init_lora_weights=True)
    trainer = trained(dg.hf.reroute(llama().train(), ROUTE), tmp_path, text_data(), peft_config=peft, learning_rate=0.1)
    losses = losses_of(trainer)
    assert losses[-1] < losses[0]
    trainer.save_model(tmp_path / "adapter")
    base = dg.hf.reroute(llama(), ROUTE)
    assert all(torch.equal(tensor, before[name]) for name, tensor in base.state_dict().items())
    loaded = PeftModel.from_pretrained(base, tmp_path / "adapter")
    tokens = torch.tensor([tokenizer()(TEXTS[0])["input_ids"]])
    assert torch.equal(loaded(tokens).logits, trainer.model.eval()(tokens).logits)
    assert not torch.equal(loaded(tokens).logits, dg.hf.reroute(llama(), ROUTE)(tokens).logits)
