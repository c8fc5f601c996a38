"""Lightning: a decoder, and a Hugging Face model under a route, in a LightningModule: fit, checkpoint, resume."""

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from small import VOCABULARY, batches, llama, next_token_loss
from torch.utils.data import DataLoader

import depthgraph as dg
from depthgraph.decoder_config import DecoderConfig
from depthgraph.nn import Decoder

ROUTE = "1 save(e) (mix(e) 2..3)x2 4"
SIZES = {"vocab_size": len(VOCABULARY), "width": 32, "ffn_width": 48, "heads": 4, "parameter_depth": 4, "context": 32}
EPOCH = 3


def decoder(route=ROUTE):
    return Decoder(DecoderConfig(**SIZES, route=route), seed=0)


def compiled(route=ROUTE):
    model = decoder(route)
    model.compile(backend="eager")
    return model


def rerouted(route=ROUTE):
    model = llama().train()
    return dg.hf.reroute(model, route)


def torch_compiled(route=ROUTE):
    model = rerouted(route)
    model.compile(backend="eager")
    return model


MODELS = pytest.mark.parametrize("make", [decoder, rerouted])


def logits_of(model, tokens):
    output = model(tokens)
    return output if isinstance(output, torch.Tensor) else output.logits


class Training(lightning.LightningModule):
    """What a user writes: a model, its loss, an optimiser and a schedule."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.losses = []

    def training_step(self, batch, _):
        loss = next_token_loss(logits_of(self.model, batch), batch)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        optimiser = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 / (1 + step))
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def fit(module, folder, epochs, resumed=None):
    """Train on the same batches in every epoch; return the folder's checkpoint."""
    keeper = ModelCheckpoint(folder, filename="last", save_top_k=1)
    options = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=epochs, callbacks=[keeper], gradient_clip_val=1.0, **options)
    trainer.fit(module, DataLoader(batches(EPOCH), batch_size=None), ckpt_path=resumed)
    return keeper.best_model_path


def plain_losses(model, epochs):
    """Train as `fit` does, without Lightning."""
    training = Training(model)
    chosen = training.configure_optimizers()
    optimiser, schedule = chosen["optimizer"], chosen["lr_scheduler"]["scheduler"]
    losses = []
    for tokens in batches(EPOCH) * epochs:
        loss = next_token_loss(logits_of(model, tokens), tokens)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    ("make", "plain"),
    [(decoder, decoder), (compiled, decoder), (rerouted, rerouted), (torch_compiled, rerouted)],
    ids=["decoder", "compiled decoder", "re-routed", "compiled re-routed"],
)
def test_it_trains_as_a_plain_loop_does(make, plain, tmp_path):
    module = Training(make())
    fit(module, tmp_path, 2)
    assert module.losses == plain_losses(plain(), 2)
    assert module.losses[-1] < module.losses[0]


@MODELS
def test_an_interrupted_run_goes_on_with_the_losses_of_one_that_was_not(make, tmp_path):
    whole = Training(make())
    fit(whole, tmp_path / "whole", 3)
    begun = Training(make())
    kept = fit(begun, tmp_path / "begun", 1)
    resumed = Training(make())
    fit(resumed, tmp_path / "begun", 3, resumed=kept)
    assert len(whole.losses) == 3 * EPOCH
    assert begun.losses + resumed.losses == whole.losses


@MODELS
def test_a_checkpoint_has_each_weight_once_and_loads_under_another_route(make, tmp_path):
    module = Training(make("(1..4)x2"))
    saved = torch.load(fit(module, tmp_path, 1), weights_only=True)["state_dict"]
    assert saved.keys() == {f"model.{name}" for name in make("1..4").state_dict()}
    other = Training(make("1 (2..3)x3 4"))
    other.load_state_dict(saved)
    path = torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]
    assert all(torch.equal(path[name], tensor) for name, tensor in other.state_dict().items())
    tokens = batches(1)[0]
    assert not torch.equal(logits_of(other.model, tokens), logits_of(module.model, tokens))


def test_a_loop_count_is_chosen_at_every_step(tmp_path):
    counted = []

    class Counting(Training):
        def training_step(self, batch, index):
            counted.append(self.model.body.at(r=1 + index).route.execution_depth)
            loss = next_token_loss(self.model(batch, r=1 + index), batch)
            self.losses.append(loss.item())
            return loss

    config = DecoderConfig(**SIZES, route="1 (2..3)x r 4")
    module = Counting(Decoder(config, dynamic={"r": 2}, seed=0))
    fit(module, tmp_path, 2)
    assert counted == [4, 6, 8] * 2
    fixed = Decoder(config.model_copy(update={"route": "1..4"}), seed=0)
    assert module.losses[0] == next_token_loss(fixed(batches(1)[0]), batches(1)[0]).item()
