"""The reference decoder in what people use with Hugging Face models."""

import warnings

import pytest
import torch

pytest.importorskip("transformers")
from hf_decoders import FLOW, POSITIONS, batch, plain, small
from torch.nn import functional

import depthgraph as dg
from depthgraph.decoder_cost import decoder_cost
from depthgraph.errors import CompileError, ConfigError

pytestmark = pytest.mark.usefixtures("one_thread")
COUNTED = {"route": "1 (2 3)x r 4", "loop_counts": {"r": 4}}


def rows(count, length=8):
    tokens = [batch(length, seed=seed)["input_ids"][0] for seed in range(count)]
    return [{"input_ids": row, "labels": row} for row in tokens]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_trainer_trains_it_as_a_loop_of_ones_own_does(checkpointing, tmp_path):
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainingArguments

    data, model, decoder = rows(8), small(route="1 2 exit (2 3)x2 4").train(), plain(route="1 2 exit (2 3)x2 4").train()
    plan = {"per_device_train_batch_size": 4, "max_steps": 2, "lr_scheduler_type": "constant", "learning_rate": 0.1}
    plan |= {"optim": "sgd", "max_grad_norm": 0.0, "report_to": [], "use_cpu": True, "save_strategy": "no"}
    args = TrainingArguments(str(tmp_path), **plan, activation_checkpointing=checkpointing, logging_steps=1)
    trainer = Trainer(model, args, train_dataset=data, eval_dataset=data[:4])
    trainer._get_train_sampler = lambda *args: None  # rows in their order
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    optimiser = torch.optim.SGD(decoder.parameters(), lr=0.1)
    expected = []
    for tokens in torch.stack([row["input_ids"] for row in data]).split(4):
        logits, _ = decoder(tokens)
        loss = functional.cross_entropy(logits[:, :-1].reshape(-1, 64), tokens[:, 1:].reshape(-1))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        expected.append(loss.item())
    assert [float(loss) for loss in losses] == pytest.approx(expected, rel=1e-3)
    for name, parameter in decoder.named_parameters():
        torch.testing.assert_close(model.model.get_parameter(name), parameter, rtol=1e-3, atol=1e-4)
    assert trainer.predict(data[:4]).predictions.shape == (4, 8, 64)  # and no logits of exits, and no cache


@pytest.mark.parametrize("positions", POSITIONS)
def test_lora_of_a_shared_layer_is_merged_right(positions):
    peft = pytest.importorskip("peft")
    told = batch(7, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own: deprecations of torch
        plan = peft.LoraConfig(target_modules=["qkv", "down"], init_lora_weights=False, task_type="CAUSAL_LM")
        adapted = peft.get_peft_model(small(positions=positions), plan).eval()
        logits, generated = adapted(**told).logits, adapted.generate(**told, max_new_tokens=5, do_sample=False)
        merged = adapted.merge_and_unload()
    assert (logits - small(positions=positions)(**told).logits).abs().max() > 0.1
    torch.testing.assert_close(merged(**told).logits, logits, rtol=1e-3, atol=1e-3)
    assert torch.equal(merged.generate(**told, max_new_tokens=5, do_sample=False), generated)


@pytest.mark.filterwarnings("ignore:the model runs with r=")
@pytest.mark.parametrize("draft", [{"route": "1..4"}, {**COUNTED, "loop_counts": {"r": 1}}])
def test_the_same_weights_in_fewer_executions_draft_for_the_model(draft):
    model, drafter, told = small(**COUNTED), small(**draft), batch(6)
    calls = []
    model.register_forward_hook(lambda *args: calls.append(1))
    drafted = model.generate(**told, max_new_tokens=12, assistant_model=drafter)
    assert len(calls) <= 12
    assert torch.equal(drafted, model.generate(**told, max_new_tokens=12))


@pytest.mark.parametrize("positions", POSITIONS)
def test_its_flops_are_those_of_the_arithmetic(positions):
    model, told = small(positions=positions), batch(8, 8)
    cost = decoder_cost(model.config.decoder_config, model.config.default_route, length=8, batch=2)
    assert dg.hf.training_flops(model, **told, labels=told["input_ids"]) == cost.training_flops


def test_a_model_with_its_own_route_is_not_routed_again():
    with pytest.raises(CompileError, match="it has a route of its own") as caught:
        dg.hf.reroute(small(route=FLOW), "1..4")
    assert caught.value.code == "unroutable-model"


def test_a_checkpoint_of_the_lab_becomes_a_folder_that_generates(tmp_path):
    pytest.importorskip("tokenizers")
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    from depthgraph.config import TrainConfig
    from depthgraph.lab import load_decoder
    from depthgraph.lab.checkpoint import State, save_checkpoint
    from depthgraph.lab.data import train_tokenizer
    from depthgraph.lab.model import build_decoder
    from depthgraph.lab.optimiser import build_optimiser

    sizes = {"vocab_size": 257, "width": 24, "ffn_width": 32, "heads": 2, "parameter_depth": 4, "context": 8}
    told = {"model": {**sizes, "route": "lft(4)"}, "batch": 1, "length": 8, "steps": 9, "out": "unused"}
    config = TrainConfig.model_validate(told)
    trained = build_decoder(config)
    optimiser = build_optimiser(trained, config.optimiser)
    trained(torch.randint(257, (1, 8))).square().mean().backward()
    optimiser.step()
    saved = save_checkpoint(
        tmp_path, trained, optimiser, train_tokenizer(["a text"], 257), config, State("0" * 64, step=1)
    )
    dg.hf.from_decoder(load_decoder(saved)).save_pretrained(tmp_path / "hf")
    PreTrainedTokenizerFast(tokenizer_file=str(saved / "tokenizer.json")).save_pretrained(tmp_path / "hf")
    model, tokenizer = (kind.from_pretrained(tmp_path / "hf") for kind in (AutoModelForCausalLM, AutoTokenizer))
    tokens = tokenizer("a text", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        assert torch.equal(model(tokens).logits, trained.eval()(tokens))
    found = tokenizer.decode(model.generate(tokens, max_new_tokens=4, pad_token_id=0)[0, : tokens.shape[1]])
    assert found == "a text"


def test_a_seed_is_refused_where_no_weights_are_drawn(tmp_path):
    small().save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="`seed` is for fresh weights"):
        dg.hf.DepthGraphForCausalLM.from_pretrained(tmp_path, seed=1)


def test_it_loads_in_lower_precision(tmp_path):
    small().save_pretrained(tmp_path)
    model = dg.hf.DepthGraphForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    model.save_pretrained(tmp_path / "half")
    again = dg.hf.DepthGraphForCausalLM.from_pretrained(tmp_path / "half", dtype="auto")
    tokens = batch(5)["input_ids"]
    assert torch.equal(again(tokens).logits, model(tokens).logits)
