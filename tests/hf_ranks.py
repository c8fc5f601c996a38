"""Data-parallel training of models with a route in two processes; run as a script with the folder for its results."""

import json
import multiprocessing
import os
import sys
from pathlib import Path

import torch

import depthgraph as dg

from hf_models import tiny

RANKS = 2
ROWS = 4
#: Of the Trainer's rows, one in a batch: two steps, in which the processes have different ones.
LENGTHS = (9, 5, 7, 3)
#: Of routes, and what reroute takes beside them.
CASES = {
    "chain": ("1 (2..3)x2 4", {}),
    "dropped": ("1 3 1 drop(2) drop(4)", {}),
    "stopgrad": ("1..2 stopgrad (3..4)x2", {}),
    "flow": ("1 save(e) (mix(e) 2..3 gate(e))x2 4", {}),
    "counts": ("1 (2..3)x r 4", {"dynamic": {"r": 2}}),
}


def make(case, checkpointing=False):
    """Return a model under the route of a case, without gradients for what gets none."""
    route, options = CASES[case]
    model = dg.hf.reroute(tiny("llama", use_cache=False).double().train(), route, **options)
    with torch.no_grad():  # weights of the route start by changing nothing
        for name, each in model.named_parameters():
            if "depthgraph" in name:
                each.add_(torch.linspace(-0.1, 0.1, each.numel(), dtype=each.dtype).view_as(each))
    for name in dg.hf.unused_parameters(model):
        model.get_parameter(name).requires_grad_(False)
    if checkpointing:
        model._set_gradient_checkpointing(True, _checkpoint)
        assert model.model.layers[0].gradient_checkpointing
    return model


def _checkpoint(function, *args):
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False)


def rows():
    """Return the tokens of one step, [rows, tokens]."""
    return torch.randint(3, 64, (ROWS, 9), generator=torch.Generator().manual_seed(0))


def stepped(model, ids, optimiser):
    """Return the gradients of the second of two steps, in which a parameter that got none in the first one shows."""
    for _ in range(2):
        optimiser.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimiser.step()


def gradients(model):
    """Return the whole gradients by name."""
    found = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    return {name: each.full_tensor() if hasattr(each, "full_tensor") else each for name, each in found.items()}


def expected(case):
    """Return the gradients of one process with all rows."""
    model = make(case)
    stepped(model, rows(), torch.optim.SGD(model.parameters(), lr=0.1))
    return gradients(model)


def data_parallel(rank, folder):
    """Train every case with what accelerate makes of it, DistributedDataParallel."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    ids = rows().chunk(RANKS)[rank]
    for case, checkpointing in [*((case, False) for case in CASES), ("chain", True), ("dropped", True)]:
        plain = make(case, checkpointing)
        model, optimiser = accelerator.prepare(plain, torch.optim.SGD(plain.parameters(), lr=0.1))
        assert isinstance(model, torch.nn.parallel.DistributedDataParallel)
        stepped(model, ids, optimiser)
        kind = "ddp-checkpointed" if checkpointing else "ddp"
        torch.save(gradients(accelerator.unwrap_model(model)), folder / f"{kind} {case} {rank}.pt")


def fully_sharded(rank, folder):
    """Train every case with its parameters in parts, those of each layer together."""
    from torch.distributed.fsdp import fully_shard

    ids = rows().chunk(RANKS)[rank]
    for case, reshard in [*((case, True) for case in CASES), ("chain", False)]:
        model = make(case)
        for layer in model.model.layers:
            fully_shard(layer, reshard_after_forward=reshard)
        fully_shard(model)
        stepped(model, ids, torch.optim.SGD(model.parameters(), lr=0.1))
        kind = "fsdp" if reshard else "fsdp-kept"
        torch.save(gradients(model), folder / f"{kind} {case} {rank}.pt")


def trained(rank, folder):
    """Train with the Trainer, whose ranks have batches of different lengths, and keep its log."""
    from transformers import Trainer, TrainingArguments

    data = [{"input_ids": rows()[0, :length], "labels": rows()[0, :length]} for length in LENGTHS]
    settings = TrainingArguments(
        str(folder / "trainer"), per_device_train_batch_size=1, max_steps=2, logging_steps=1, use_cpu=True,
        report_to="none", disable_tqdm=True, save_strategy="no", train_sampling_strategy="sequential",
    )  # fmt: skip
    trainer = Trainer(make("dropped"), settings, train_dataset=data, callbacks=[dg.hf.RouteFlops()])
    trainer.train()
    (folder / f"{rank}.json").write_text(json.dumps(trainer.state.log_history))


def run(rank, folder):
    """Be one of the processes."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "localhost"}
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS)
    data_parallel(rank, folder)
    fully_sharded(rank, folder)
    trained(rank, folder)
    torch.distributed.destroy_process_group()


def main(folder):
    """Start the processes from this one, which has loaded everything and computed nothing."""
    processes = [multiprocessing.get_context("fork").Process(target=run, args=(rank, folder)) for rank in range(RANKS)]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    return max(abs(each.exitcode) for each in processes)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
