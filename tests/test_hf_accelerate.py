"""accelerate on models with a route: training, offloaded and dispatched models, several processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from accelerate import (
    Accelerator,
    cpu_offload,
    disk_offload,
    dispatch_model,
    infer_auto_device_map,
    init_empty_weights,
    load_checkpoint_and_dispatch,
)
from accelerate.hooks import remove_hook_from_submodules
from accelerate.state import AcceleratorState, GradientState
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

import depthgraph as dg

import hf_ranks
from hf_models import MODELS, prompts, tiny

pytestmark = pytest.mark.usefixtures("one_thread")

LOOPED = "1 (2..3)x2 4"
FLOW = "1 save(e) (mix(e) 2..3 gate(e))x2 4"
INPUTS = prompts(9, 6, 3)


def make(route=FLOW, seed=0, **options):
    model = dg.hf.reroute(tiny("llama", seed), route, **options)
    with torch.no_grad():  # weights of the route start by changing nothing
        for name, each in model.named_parameters():
            if "depthgraph" in name:
                each.add_(torch.linspace(-0.1, 0.1, each.numel()).view_as(each))
    return model


@torch.no_grad()
def logits(model):
    return model(**INPUTS).logits


def generated(model):
    return model.generate(**INPUTS, max_new_tokens=6, do_sample=False)


# --- training ---


@pytest.fixture(autouse=True)
def no_accelerator_yet():
    """Accelerators of one process share their state."""
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def prepared(model, accumulate=2):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    ids = torch.randint(3, 64, (16, 9), generator=torch.Generator().manual_seed(0))
    parts = accelerator.prepare(
        model.train(), torch.optim.AdamW(model.parameters(), lr=1e-2), DataLoader(ids, batch_size=2)
    )
    return accelerator, *parts


def steps(accelerator, model, optimiser, loader):
    found = []
    for ids in loader:
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, labels=ids).loss
            accelerator.backward(loss)
            optimiser.step()
            optimiser.zero_grad()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("route", [LOOPED, FLOW])
def test_a_saved_state_goes_on_to_the_last_bit(route, tmp_path):
    whole = prepared(make(route))
    first = steps(*whole)
    whole[0].save_state(tmp_path)
    second = steps(*whole)
    resumed = prepared(make(route, seed=1))
    resumed[0].load_state(tmp_path)
    assert steps(*resumed) == second != first
    assert torch.equal(logits(resumed[1].eval()), logits(whole[1].eval()))


def test_accumulated_gradients_are_those_of_the_whole_batch():
    accelerator, model, optimiser, loader = prepared(make().double(), accumulate=8)
    optimiser.zero_grad = lambda: None
    steps(accelerator, model, optimiser, loader)
    ids, whole = torch.cat(list(loader)), make().double().train()
    whole(input_ids=ids, labels=ids).loss.backward()
    for name, each in whole.named_parameters():
        torch.testing.assert_close(model.get_parameter(name).grad, each.grad, rtol=0, atol=1e-12)


# --- offloading, dispatching ---


def whole_on_disk(model, folder):
    return disk_offload(model, str(folder), execution_device=torch.device("cpu"))


def whole_on_the_cpu(model, folder):
    return cpu_offload(model, execution_device=torch.device("cpu"))


def places(model):
    """Return a device map with every second layer, and the weights of the route, on disk."""
    found = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"}
    found |= {f"model.layers.{index}": "disk" if index % 2 else "cpu" for index in range(4)}
    return found | ({"model.depthgraph": "disk"} if "depthgraph" in model.model._modules else {})


def layers_on_disk(model, folder):
    return dispatch_model(model, places(model), main_device="cpu", offload_dir=str(folder), force_hooks=True)


@pytest.mark.parametrize("place", [whole_on_the_cpu, whole_on_disk, layers_on_disk])
@pytest.mark.parametrize("route", [LOOPED, FLOW])
def test_weights_that_come_when_they_are_needed_change_nothing(route, place, tmp_path):
    model = make(route)
    expected, tokens = logits(model), generated(model)
    placed = place(model, tmp_path)
    assert placed.model.layers[1].self_attn.q_proj.weight.is_meta  # not here now
    assert torch.equal(logits(placed), expected)
    assert torch.equal(generated(placed), tokens)
    remove_hook_from_submodules(placed)


@pytest.mark.parametrize("place", [whole_on_the_cpu, whole_on_disk, layers_on_disk])
def test_a_model_is_re_routed_after_it_was_placed(place, tmp_path):
    expected = [logits(make(LOOPED)), logits(tiny("llama"))]
    model = place(tiny("llama"), tmp_path)
    assert torch.equal(logits(dg.hf.reroute(model, LOOPED)), expected[0])
    assert torch.equal(logits(dg.hf.restore(model)), expected[1])


def test_a_checkpoint_is_loaded_into_an_empty_model_and_dispatched(tmp_path):
    model = make()
    model.save_pretrained(tmp_path / "saved")
    with init_empty_weights():
        empty = AutoModelForCausalLM.from_config(dg.hf.from_pretrained(tmp_path / "saved").config)
    assert all(each.is_meta for each in empty.parameters())
    loaded = load_checkpoint_and_dispatch(
        empty, tmp_path / "saved", device_map=places(model), offload_folder=str(tmp_path / "offloaded")
    )
    assert loaded.model.layers[1].self_attn.q_proj.weight.is_meta
    assert torch.equal(logits(loaded.eval()), logits(model))


def test_from_pretrained_takes_a_device_map(tmp_path):
    model = make()
    model.save_pretrained(tmp_path / "saved")
    loaded = dg.hf.from_pretrained(
        tmp_path / "saved", device_map=places(model), offload_folder=str(tmp_path / "offloaded")
    )
    assert loaded.model.layers[1].self_attn.q_proj.weight.is_meta
    assert torch.equal(logits(loaded), logits(model))
    assert torch.equal(generated(loaded), generated(model))


def test_a_device_map_that_is_inferred_keeps_layers_whole():
    model = make()
    size = sum(each.numel() * each.element_size() for each in model.parameters())
    limits = {0: size // 2, "cpu": size, "disk": size}
    plain = dg.hf.restore(make())
    found = [
        infer_auto_device_map(each, max_memory=limits, no_split_module_classes=each._no_split_modules)
        for each in (model, plain)
    ]
    assert {name for name in found[0] if "depthgraph" not in name} == set(found[1])
    assert {f"model.layers.{index}" for index in range(4)} <= set(found[0])
    assert len(set(found[0].values())) > 1


# --- several processes ---


def test_two_processes_train_as_one_does(tmp_path):
    """DistributedDataParallel by accelerate, with checkpointing too; FSDP2 by layers; the Trainer. gloo, two processes."""
    run = subprocess.run(
        [sys.executable, Path(hf_ranks.__file__), tmp_path], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    found = sorted(tmp_path.glob("*.pt"))
    assert len(found) == hf_ranks.RANKS * (2 * len(hf_ranks.CASES) + 3)
    expected = {case: hf_ranks.expected(case) for case in hf_ranks.CASES}
    for path in found:
        gradients, one = torch.load(path), expected[path.stem.split()[1]]
        assert gradients.keys() == one.keys()
        for name in one:
            torch.testing.assert_close(gradients[name], one[name], rtol=0, atol=1e-14, msg=f"{path.stem} {name}")
    model, logs = hf_ranks.make("dropped"), [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    first, second, third, fourth = (
        dg.hf.training_flops(model, torch.zeros(1, length, dtype=torch.long)) for length in hf_ranks.LENGTHS
    )
    for log in logs:  # of all processes
        assert [entry["route_flops"] for entry in log[:2]] == [first + second, first + second + third + fourth]


@pytest.fixture
def process_group():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("case", ["dropped", "stopgrad"])
def test_what_gets_no_gradient_is_frozen_before_wrapping(case):
    model = hf_ranks.make(case)
    for each in model.parameters():
        each.requires_grad_(True)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    with pytest.raises(RuntimeError, match=r"did not receive grad|not used in producing loss"):
        hf_ranks.stepped(parallel, hf_ranks.rows(), torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "qwen3_next"])
def test_unused_parameters_are_those_that_get_no_gradient(name):
    model, ids = tiny(name).train(), INPUTS["input_ids"]
    for route in ("1..4", "1 3 1 drop(2) drop(4)", "1..2 stopgrad 3..4"):
        dg.hf.reroute(model, route).zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        expected = tuple(name for name, each in model.named_parameters() if each.grad is None)
        assert dg.hf.unused_parameters(model) == expected
        assert bool(expected) == (route != "1..4")


def test_unused_parameters_depend_on_loop_counts_and_on_what_is_frozen():
    model = make("1 (save(a) 2 mix(a) drop(3))x r 4", dynamic={"r": 1})
    assert {name.partition(".layers.")[2][:1] for name in dg.hf.unused_parameters(model)} == {"2"}
    model.model.layers[2].requires_grad_(False)
    assert dg.hf.unused_parameters(model) == dg.hf.unused_parameters(model, r=2) == ()
