"""Checkpoints: whole or not there, each weight once, under every route over the same layers."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from depthgraph.config import TrainConfig
from depthgraph.errors import ConfigError
from depthgraph.lab import Checkpoint, checkpoint, latest_checkpoint, load_decoder, load_weights
from depthgraph.lab.checkpoint import State, load_optimiser, save_checkpoint, unique_tensors
from depthgraph.lab.data import train_tokenizer
from depthgraph.lab.model import build_decoder
from depthgraph.lab.optimiser import build_optimiser

TOKENIZER = train_tokenizer(["a text"], 257)
STATE = State("0" * 64, step=4, tokens=40, flops=99, seconds=1.5, loss=0.1 + 0.2)

pytestmark = pytest.mark.usefixtures("one_thread")


def config_of(**model):
    sizes = {"vocab_size": 257, "width": 24, "ffn_width": 32, "heads": 2, "parameter_depth": 4, "context": 8}
    given = {"model": {**sizes, **model}, "batch": 1, "length": 8, "steps": 9, "out": "unused"}
    return TrainConfig.model_validate(given)


def trained(config, steps=2):
    """A model and its optimiser after some steps on noise."""
    model = build_decoder(config)
    optimiser = build_optimiser(model, config.optimiser)
    for _ in range(steps):
        model(torch.randint(257, (1, 8))).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    return model, optimiser


def saved(run, config, state=STATE):
    model, optimiser = trained(config)
    return save_checkpoint(run, model, optimiser, TOKENIZER, config, state), model, optimiser


def equal(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_what_is_saved_is_loaded_to_the_last_bit(tmp_path):
    config = config_of(route="lft(4)", positions="learned")
    folder, model, optimiser = saved(tmp_path, config)
    assert folder == latest_checkpoint(tmp_path) == tmp_path / "checkpoints" / "step-00000004"
    found = Checkpoint.read(tmp_path)
    assert (found.path, found.config, found.state) == (folder, config, STATE)
    assert found.route == config.route
    assert json.loads((folder / "config.json").read_text())["route"] == str(config.route) == "1..2 1..3 2..4"
    again = load_decoder(folder)
    assert equal(again, model)
    fresh = build_optimiser(again, config.optimiser)
    load_optimiser(folder, again, fresh)
    for one, other in zip(again.parameters(), model.parameters(), strict=True):
        assert fresh.state[one].keys() == optimiser.state[other].keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(fresh.state[one][part], optimiser.state[other][part]) for part in fresh.state[one])


def test_each_weight_is_saved_once_whatever_the_route(tmp_path):
    sizes, keys = set(), set()
    for route in ("...", "(1..4)x2", "lft(4)"):
        folder, model, _ = saved(tmp_path / str(len(route)), config_of(route=route))
        stored = load_file(folder / "model.safetensors")
        assert list(stored) == sorted(dict(model.named_parameters()))
        keys.add(tuple(stored))
        sizes.add((folder / "model.safetensors").stat().st_size)
    assert len(keys) == len(sizes) == 1
    assert sizes.pop() < 4 * config_of().model.parameter_count + 5_000


def test_a_checkpoint_loads_under_another_route_with_no_key_too_many_or_too_few(tmp_path):
    folder, model, _ = saved(tmp_path, config_of(route="lft(4)"))
    other = load_decoder(folder, "ilr[4,2,1,1]")
    assert other.route.reuse_map == (4, 2, 1, 1)
    assert equal(other, model)
    keys = other.load_state_dict(load_file(folder / "model.safetensors"))
    assert not keys.missing_keys
    assert not keys.unexpected_keys


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"width": 16}, r"of \[257, 24\], the model's is \[257, 16\]"),
        ({"parameter_depth": 3}, r"has `body\.layers\.3\.attention\.out\.weight`, which the model has not"),
        (
            {"parameter_depth": 5},
            r"lacks `body\.layers\.4\.attention_norm\.weight`; it lacks .*, and \d+ more differences",
        ),
        ({"positions": "learned"}, r"lacks `positions\.weight`"),
        ({"route": "1 save(a) 2..3 gate(a) 4"}, r"lacks `body\.gate_1\.weight`"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_and_changes_nothing(tmp_path, model, message):
    folder, *_ = saved(tmp_path, config_of())
    other = build_decoder(config_of(**model))
    before = [parameter.clone() for parameter in other.parameters()]
    with pytest.raises(ConfigError, match=message) as caught:
        load_weights(folder, other)
    assert caught.value.code == "checkpoint-mismatch"
    assert all(torch.equal(one, two) for one, two in zip(before, other.parameters(), strict=True))


def test_a_gate_that_a_trained_model_gets_changes_nothing_before_it_is_trained(tmp_path):
    folder, model, _ = saved(tmp_path, config_of())
    gated = build_decoder(config_of(route="1 save(a) 2 save(b) 3 gate(b) mix(a) 4"))
    found = gated.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    assert found.missing_keys == ["body.gate_1.weight", "body.mix_1.weight"]
    assert not found.unexpected_keys
    tokens = torch.randint(257, (2, 8))
    assert torch.equal(gated(tokens), model(tokens))


def test_a_damaged_checkpoint_is_refused(tmp_path):
    folder, model, optimiser = saved(tmp_path, config_of())
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(ConfigError, match=r"has a damaged model\.safetensors"):
        load_weights(folder, model)
    save_file({"unknown/step": torch.ones(())}, folder / "optimiser.safetensors")
    with pytest.raises(ConfigError, match="has optimiser state `unknown/step`, which does not fit"):
        load_optimiser(folder, model, optimiser)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"no model\.safetensors"):
        load_weights(folder, model)
    (folder / "state.json").write_text("[]")
    with pytest.raises(ConfigError, match="cannot be read"):
        Checkpoint.read(folder)
    (folder / "config.json").write_text('{"route": "1 2", "parameter_depth": 3}')
    with pytest.raises(ConfigError, match="cannot be read"):
        Checkpoint.read(folder)
    with pytest.raises(ConfigError, match="there is no checkpoint in"):
        Checkpoint.read(tmp_path / "nothing")


@pytest.mark.parametrize("at", ["save_file", "_to_disk", "_remove_all_but"])
def test_a_kill_while_saving_leaves_the_last_whole_checkpoint(tmp_path, monkeypatch, at):
    config = config_of()
    folder, *_ = saved(tmp_path, config)
    kept = load_decoder(tmp_path)
    calls = []
    real = getattr(checkpoint, at)

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) == 2 or at == "_remove_all_but":
            raise KeyboardInterrupt
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, at, killed)
        with pytest.raises(KeyboardInterrupt):
            saved(tmp_path, config, State("0", step=8))
    found = Checkpoint.read(tmp_path)
    if at == "_remove_all_but":
        assert found.state.step == 8
    else:
        assert found.path == folder
        assert equal(load_decoder(tmp_path), kept)
    newest, *_ = saved(tmp_path, config, State("0", step=12))
    assert list((tmp_path / "checkpoints").iterdir()) == [newest]


def test_files_may_be_read_by_those_who_may_read_the_folder(tmp_path):
    folder, *_ = saved(tmp_path, config_of())
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


def test_a_compiled_model_has_the_keys_of_a_plain_one(tmp_path):
    config = config_of()
    model, optimiser = trained(config)
    wrapped = torch.compile(model, backend="eager")
    folder = save_checkpoint(tmp_path, wrapped, optimiser, TOKENIZER, config, STATE)
    assert set(load_file(folder / "model.safetensors")) == set(model.state_dict())
    assert equal(load_decoder(folder), model)
    other = torch.compile(build_decoder(config_of(route="lft(4)")), backend="eager")
    load_weights(folder, other)
    assert equal(other._orig_mod, model)
    load_optimiser(folder, other, build_optimiser(other, config.optimiser))


class Tied(nn.Module):
    """Layers with one weight in common."""

    common = nn.Parameter(torch.zeros(24, 24))

    def __init__(self, config):
        super().__init__()
        self.weight = Tied.common
        self.own = nn.Parameter(torch.zeros(24))

    def forward(self, hidden):
        return hidden + hidden @ self.weight + self.own


def test_a_weight_that_layers_share_is_saved_once(tmp_path):
    config = config_of(positions="nope", layer=f"{__name__}:Tied")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("depthgraph.lab.model.load_layer_class", lambda place: Tied)
        model, optimiser = trained(config)
        assert sum(name.endswith("layers.0.weight") for name in unique_tensors(model)) == 1
        assert not any(name.endswith("layers.1.weight") for name in unique_tensors(model))
        folder = save_checkpoint(tmp_path, model, optimiser, TOKENIZER, config, STATE)
        expected = Tied.common.detach().clone()
        with torch.no_grad():
            Tied.common.zero_()
        again = load_decoder(folder)
    assert torch.equal(again.body.layers[3].weight, expected)
    assert expected.any()
