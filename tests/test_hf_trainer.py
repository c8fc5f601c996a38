"""Hugging Face's Trainer on models with a route: what it trains, stops, goes on with, saves and counts."""

import json

import pytest
import torch
from safetensors.torch import load_file
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments

import depthgraph as dg
from depthgraph.errors import CostError
from depthgraph.samplers import Uniform, generator_of

from hf_models import tiny, unrolled

pytestmark = pytest.mark.usefixtures("one_thread")

LOOPED = "1 (2..3)x2 4"
PATH = (1, 2, 3, 2, 3, 4)
FLOW = "1 save(e) (mix(e) 2..3 gate(e))x2 mean(3 | 4 2 | 1) add(e) 4"
DYNAMIC = "1 save(e) (2..3 mix(e))x r 4"

STEPS, STOP = 6, 3


def rows(count=STEPS * 4, length=9, seed=0, **columns):
    made = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 64, (count, length), generator=made)
    return [{"input_ids": row, "labels": row, **columns} for row in ids]


def make(route=LOOPED, seed=0, dropout=0.2, **options):
    model = tiny("llama", seed, attention_dropout=dropout, use_cache=False)
    return dg.hf.reroute(model, route, **options).train()


def trainer(model, folder, *, cls=Trainer, data=None, callbacks=(), **settings):
    settings = {
        "per_device_train_batch_size": 4,
        "max_steps": STEPS,
        "save_steps": STOP,
        "logging_steps": 1,
        "learning_rate": 1e-2,
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        **settings,
    }
    return cls(
        model,
        TrainingArguments(str(folder), **settings),
        train_dataset=rows() if data is None else data,
        eval_dataset=rows(8, seed=1),
        callbacks=list(callbacks),
    )


def losses(run):
    return [entry["loss"] for entry in run.state.log_history if "loss" in entry]


def same_weights(one, other):
    states = one.state_dict(), other.state_dict()
    assert states[0].keys() == states[1].keys()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


class StoppedError(Exception):
    pass


class Stop(TrainerCallback):
    def on_step_begin(self, args, state, control, **named):
        if state.global_step == STOP:
            raise StoppedError


class DrawsCounts(Trainer):
    """How a loop count is drawn for every step: the batch gets it, as a function of the step."""

    def training_step(self, model, inputs, *rest):
        step = self.state.global_step + 1
        inputs["r"] = Uniform(low=1, high=4).draw(generator_of(self.args.seed, step, "r"), step, self.state.max_steps)
        self.drawn = [*getattr(self, "drawn", ()), inputs["r"]]
        return super().training_step(model, inputs, *rest)


KINDS = {
    "chain": (LOOPED, {}, Trainer),
    "flow": (FLOW, {}, Trainer),
    "default count": (DYNAMIC, {"dynamic": {"r": 2}}, Trainer),
    "drawn counts": (DYNAMIC, {"dynamic": {"r": 2}}, DrawsCounts),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_goes_on_to_the_last_bit(kind, tmp_path):
    route, options, cls = KINDS[kind]
    whole = trainer(make(route, **options), tmp_path / "whole", cls=cls)
    before = {name: value.clone() for name, value in whole.model.state_dict().items()}
    whole.train()
    stopped = trainer(make(route, **options), tmp_path / "stopped", cls=cls, callbacks=[Stop()])
    with pytest.raises(StoppedError):
        stopped.train()
    resumed = trainer(make(route, seed=1, **options), tmp_path / "stopped", cls=cls)
    resumed.train(resume_from_checkpoint=True)
    assert losses(resumed) == losses(whole)
    assert len(losses(whole)) == STEPS
    assert same_weights(resumed.model, whole.model)
    assert not any(torch.equal(value, before[name]) for name, value in whole.model.state_dict().items())
    if cls is DrawsCounts:
        assert whole.drawn == stopped.drawn + resumed.drawn
        assert len(set(whole.drawn)) > 1


def tied(model, path):
    """Return a model with a layer for every execution, in which all that are one layer have one set of weights."""
    large = unrolled(model, path)
    places = [path.index(layer) for layer in path]
    for layer, first in zip(large.model.layers, places, strict=True):
        for name, _ in layer.named_parameters():
            owner, _, key = name.rpartition(".")
            setattr(layer.get_submodule(owner), key, large.model.layers[first].get_parameter(name))
    return large.train()


def places_of(path):
    """Return the names of the first copy of each layer, by the names of the layer."""
    return {f"model.layers.{layer - 1}.": f"model.layers.{path.index(layer)}." for layer in set(path)}


class Records(Trainer):
    def training_step(self, model, inputs, *rest):
        self.batches = [*getattr(self, "batches", ()), dict(inputs)]
        return super().training_step(model, inputs, *rest)


def test_the_trainer_does_what_a_plain_loop_on_the_unrolled_model_does(tmp_path):
    plain = tiny("llama", use_cache=False)
    large = tied(plain, PATH)
    run = trainer(dg.hf.reroute(plain, LOOPED).train(), tmp_path, cls=Records, optim="sgd", max_grad_norm=0,
                  lr_scheduler_type="constant", learning_rate=0.1, save_strategy="no")  # fmt: skip
    run.train()
    optimiser, found = torch.optim.SGD(large.parameters(), lr=0.1), []
    for batch in run.batches:
        optimiser.zero_grad()
        loss = large(**batch).loss
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    torch.testing.assert_close(losses(run), found, rtol=1e-5, atol=0)
    names = places_of(PATH)
    for name, value in run.model.state_dict().items():
        start = next((start for start in names if name.startswith(start)), "")
        twin = names.get(start, "") + name.removeprefix(start)
        torch.testing.assert_close(value, large.state_dict()[twin], rtol=1e-4, atol=1e-6)


def test_loss_and_gradients_equal_those_of_the_unrolled_model_to_the_last_bit():
    plain = tiny("llama", use_cache=False)
    large, batch = tied(plain, PATH), torch.stack([row["input_ids"] for row in rows(4)])
    model, names = dg.hf.reroute(plain, LOOPED).train(), places_of(PATH)
    both = [each(input_ids=batch, labels=batch).loss for each in (model, large)]
    for loss in both:
        loss.backward()
    assert torch.equal(*both)
    for name, parameter in model.named_parameters():
        start = next((start for start in names if name.startswith(start)), "")
        twin = large.get_parameter(names.get(start, "") + name.removeprefix(start))
        assert torch.equal(parameter.grad, twin.grad), name


def test_a_checkpoint_is_loaded_with_its_route_and_its_weights_are_those_of_the_plain_model(tmp_path):
    run = trainer(make(), tmp_path)
    run.train()
    folder, ids = tmp_path / f"checkpoint-{STEPS}", rows(1)[0]["input_ids"][None]
    model = run.model.eval()
    routed = [dg.hf.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)]
    assert all(torch.equal(each(ids).logits, model(ids).logits) for each in routed)
    plain = tiny("llama", seed=1)
    plain.load_state_dict(load_file(folder / "model.safetensors"), strict=True)
    assert torch.equal(plain(ids).logits, dg.hf.restore(model)(ids).logits)


# its new name is not yet one in transformers 5.23
@pytest.mark.filterwarnings("ignore:.gradient_checkpointing. is deprecated:FutureWarning")
def test_checkpointing_changes_no_loss(tmp_path):
    runs = []
    for checkpointing in (False, True):
        run = trainer(make(FLOW), tmp_path, save_strategy="no", max_steps=3, gradient_checkpointing=checkpointing)
        run.train()
        assert run.model.model.layers[0].gradient_checkpointing == checkpointing
        runs.append(run)
    assert losses(runs[0]) == losses(runs[1])
    assert same_weights(runs[0].model, runs[1].model)


def test_smoothed_labels_are_shifted_as_for_the_plain_class(tmp_path):
    plain = tiny("llama", use_cache=False)
    model, large = make(dropout=0.0), unrolled(plain, PATH).train()
    batch = {name: torch.stack([row[name] for row in rows(4)]) for name in ("input_ids", "labels")}
    found = [
        trainer(each, tmp_path, label_smoothing_factor=0.1).compute_loss(each, dict(batch)) for each in (model, large)
    ]
    assert torch.equal(*found)
    assert not torch.allclose(found[0], model(**batch).loss)


def test_columns_that_the_model_does_not_take_are_left_out(tmp_path):
    data = rows(source="a book", weight=torch.ones(1))
    runs = []
    for each in (data, None):
        runs.append(trainer(make(), tmp_path, data=each, save_strategy="no", max_steps=2))
        runs[-1].train()
    assert losses(runs[0]) == losses(runs[1])


def test_the_best_checkpoint_is_kept_and_loaded(tmp_path):
    run = trainer(make(FLOW, dropout=0.0), tmp_path, save_steps=1, save_total_limit=2, eval_strategy="steps",
                  eval_steps=1, load_best_model_at_end=True, learning_rate=0.05)  # fmt: skip
    run.train()
    found = {entry["step"]: entry["eval_loss"] for entry in run.state.log_history if "eval_loss" in entry}
    best = min(found, key=found.get)
    assert len(found) == STEPS > best  # with so few rows it soon overfits
    kept = {int(folder.name.partition("-")[2]) for folder in tmp_path.glob("checkpoint-*")}
    assert kept == {best, STEPS}
    assert run.evaluate()["eval_loss"] == found[best]
    assert same_weights(dg.hf.from_pretrained(tmp_path / f"checkpoint-{best}"), run.model)


# --- FLOPs ---


def counted(model, **batch):
    """Return the FLOPs of torch's counter on a model that really runs, with attention in two products."""
    model.set_attn_implementation("eager")
    if hasattr(model.config, "num_experts_per_tok"):
        model.set_experts_implementation("eager")
    with FlopCounterMode(display=False) as counter:
        model(**batch, use_cache=False).loss.backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2", "gpt_neox", "mixtral", "qwen3_moe", "mamba"])
def test_flops_are_those_of_the_unrolled_model_that_runs(name):
    model, ids = tiny(name).train(), torch.stack([row["input_ids"] for row in rows(3)])
    large = unrolled(model, PATH).train()
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    dg.hf.reroute(model, LOOPED)
    found = dg.hf.training_flops(model, ids, attention_mask=mask, labels=ids)
    if name == "mamba":
        large._attn_implementation = model._attn_implementation = None
        large.set_attn_implementation = lambda _: None
    assert found == counted(large, input_ids=ids, labels=ids)


@pytest.mark.parametrize("route", [FLOW, "1..2 stopgrad 3..4", "1 exit 2..4"])
def test_flops_of_data_flow_are_those_of_the_model_that_runs(route):
    model, ids = make(route, dropout=0.0), rows(1)[0]["input_ids"][None]
    assert dg.hf.training_flops(model, ids, labels=ids) == counted(model, input_ids=ids, labels=ids)


def test_what_is_not_trained_has_no_flops_in_backward():
    model, ids = make(dropout=0.0), rows(1)[0]["input_ids"][None]
    whole = dg.hf.training_flops(model, ids, labels=ids)
    model.requires_grad_(False).model.layers[3].requires_grad_(True)
    found = dg.hf.training_flops(model, ids, labels=ids)
    assert found < whole
    assert found == counted(model, input_ids=ids, labels=ids)


@pytest.mark.filterwarnings("ignore:.gradient_checkpointing_enable. is deprecated:FutureWarning")
def test_checkpointing_and_wrappers_change_no_flops():
    model, ids = make(), rows(1)[0]["input_ids"][None]
    found = dg.hf.training_flops(model, ids, labels=ids)
    model.gradient_checkpointing_enable()
    assert dg.hf.training_flops(model, ids, labels=ids) == found
    assert dg.hf.training_flops(torch.compile(model, backend="eager"), input_ids=ids, labels=ids) == found
    assert model.model.layers[0].gradient_checkpointing


def test_a_model_that_looks_at_data_is_not_counted(tmp_path):
    class Looks(torch.nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, hidden, **named):
            return self.layer(hidden, **named) if hidden.sum().item() < 1e9 else hidden

    model, ids = tiny("llama", use_cache=False), rows(1)[0]["input_ids"][None]
    model.model.layers[1] = Looks(model.model.layers[1])
    dg.hf.reroute(model, LOOPED).train()
    with pytest.raises(CostError, match="does not run without data"):
        dg.hf.training_flops(model, ids, labels=ids)
    run = trainer(model, tmp_path, save_strategy="no", callbacks=[dg.hf.RouteFlops()])
    with pytest.warns(UserWarning, match="no FLOPs are logged") as warned:
        run.train()
    assert len(warned) == 1
    assert len(losses(run)) == STEPS
    assert not any("route_flops" in entry for entry in run.state.log_history)


def logged(run):
    return [entry["route_flops"] for entry in run.state.log_history if "loss" in entry]


def test_the_callback_logs_what_ran_so_far(tmp_path):
    model = make()
    ids = torch.stack([row["input_ids"] for row in rows(4)])
    step = dg.hf.training_flops(model, input_ids=ids, labels=ids)
    run = trainer(model, tmp_path, callbacks=[dg.hf.RouteFlops()], eval_strategy="steps", eval_steps=2)
    run.train()
    assert logged(run) == [step * number for number in range(1, STEPS + 1)]
    assert run.state.total_flos < step * STEPS  # the Trainer's own figure counts every layer once
    assert not model._forward_pre_hooks
    run.train()
    assert logged(run)[0] == step


def test_the_figure_goes_on_where_the_checkpoint_stopped(tmp_path):
    data = rows(STEPS * 4 - 3) + rows(3, length=5)  # of other lengths, in batches of one
    options = {"data": data, "per_device_train_batch_size": 1, "max_steps": 12, "gradient_accumulation_steps": 2}
    whole = trainer(make(), tmp_path / "whole", callbacks=[dg.hf.RouteFlops()], logging_steps=2, **options)
    whole.train()
    stopped = trainer(make(), tmp_path / "stopped", callbacks=[dg.hf.RouteFlops(), Stop()], logging_steps=2, **options)
    with pytest.raises(StoppedError):
        stopped.train()
    resumed = trainer(make(), tmp_path / "stopped", callbacks=[dg.hf.RouteFlops()], logging_steps=2, **options)
    resumed.train(resume_from_checkpoint=True)
    assert logged(resumed) == logged(whole)
    one = {length: torch.zeros(1, length, dtype=torch.long) for length in (9, 5)}
    counts = {length: dg.hf.training_flops(whole.model, input_ids=ids, labels=ids) for length, ids in one.items()}
    assert logged(whole)[-1] == 21 * counts[9] + 3 * counts[5]
    stored = json.loads((tmp_path / "stopped" / "checkpoint-3" / "trainer_state.json").read_text())
    assert stored["stateful_callbacks"]["RouteFlops"]["attributes"]["total"] < logged(whole)[-1]


def test_drawn_counts_are_counted_as_they_ran(tmp_path):
    model = make(DYNAMIC, dynamic={"r": 2})
    ids = torch.stack([row["input_ids"] for row in rows(4)])
    run = trainer(model, tmp_path, cls=DrawsCounts, save_strategy="no", callbacks=[dg.hf.RouteFlops()])
    run.train()
    one = {r: dg.hf.training_flops(model, input_ids=ids, labels=ids, r=r) for r in set(run.drawn)}
    assert len(set(one.values())) == len(one) > 1
    assert logged(run)[-1] == sum(one[r] for r in run.drawn)


class Reporter(TrainerCallback):
    """Stands for TensorBoard or W&B, which the Trainer tells before the callbacks of a user."""

    def on_log(self, args, state, control, logs, **named):
        self.seen = [*getattr(self, "seen", ()), logs.get("route_flops")]


def test_attached_it_comes_before_reporters_and_corrects_the_trainers_own_figure(tmp_path):
    reporter = Reporter()
    run = trainer(make(), tmp_path, callbacks=[reporter])
    dg.hf.RouteFlops.attach(run)
    run.train()
    assert reporter.seen == [entry["route_flops"] for entry in run.state.log_history]
    assert run.state.total_flos == logged(run)[-1]
    stored = json.loads((tmp_path / f"checkpoint-{STEPS}" / "trainer_state.json").read_text())
    assert stored["total_flos"] == run.state.total_flos
