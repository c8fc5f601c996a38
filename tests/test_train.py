"""Training: data in order, the loop, its log, and going on where a killed run stopped."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from depthgraph.config import OptimiserConfig, TrainConfig
from depthgraph.decoder_cost import decoder_cost
from depthgraph.errors import ConfigError
from depthgraph.lab import latest_checkpoint, load_decoder, read_log, train
from depthgraph.lab.data import (
    END,
    encode,
    load_corpus,
    pydoc_documents,
    split,
    train_tokenizer,
    training_batch,
    validation_batches,
    window_starts,
)
from depthgraph.lab.model import load_layer_class
from depthgraph.lab.optimiser import build_optimiser, learning_rate
from depthgraph.nn import Decoder

SIZES = {"vocab_size": 260, "width": 24, "ffn_width": 32, "heads": 2, "parameter_depth": 3, "context": 16}

#: A layer with dropout of its own, which kills its process in the forward pass of one call.
OWN_LAYERS = """
import os, signal
import torch
from torch import nn

KILLED_AT = int(os.environ.get("KILLED_AT", 0))
calls = 0

class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.linear = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(0.2)

    def forward(self, hidden):
        global calls
        calls += self.training
        if KILLED_AT and calls == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        return hidden + self.dropout(torch.tanh(self.linear(hidden)))

class Tight(Layer):
    def forward(self, hidden):
        return hidden + float(hidden.detach().sum()) * 0 * hidden

not_a_class = 3
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n\n".join(list(pydoc_documents())[:3])[:20_000], encoding="utf-8")
    return path


@pytest.fixture
def given(tmp_path, text):
    """Make the settings of a run of a tiny model, of some seconds at most."""

    def settings(model=None, **changes):
        return TrainConfig.model_validate(
            {
                "model": {**SIZES, **(model or {})},
                "data": {"text": str(text), "validation": 0.1, "validation_tokens": 200},
                "batch": 2,
                "length": 16,
                "steps": 4,
                "log_every": 1,
                "threads": 1,
                "out": str(tmp_path / "run"),
                **changes,
            }
        )

    return settings


def losses(config, event="step"):
    return [(record["step"], record["loss"]) for record in read_log(Path(config.out) / "log.jsonl", event)]


# the data


def test_windows_cover_the_tokens_once_in_an_epoch_and_are_cut_elsewhere_in_the_next():
    tokens = torch.arange(107)
    for epoch in range(3):
        starts = window_starts(107, 10, 7, epoch)
        assert len(starts) == 10
        assert {(start - starts[0]) % 10 for start in starts} == {0}
        assert max(starts) + 10 < 107
    assert len({tuple(sorted(window_starts(107, 10, 7, epoch))) for epoch in range(8)}) > 1
    rows = torch.cat([training_batch(tokens, seed=7, step=step, batch=5, length=10) for step in range(2)])
    assert sorted(rows[:, 0].tolist()) == sorted(window_starts(107, 10, 7, 0))
    assert torch.equal(rows[:, 1:], rows[:, :-1] + 1)


def test_a_steps_windows_follow_from_seed_and_step_alone():
    tokens = torch.arange(1000)
    at = {"batch": 3, "length": 8}
    one = training_batch(tokens, seed=1, step=90, **at)
    window_starts.cache_clear()
    torch.manual_seed(5)
    assert torch.equal(one, training_batch(tokens, seed=1, step=90, **at))
    assert not torch.equal(one, training_batch(tokens, seed=2, step=90, **at))
    assert training_batch(torch.arange(9), seed=1, step=3, **at).tolist() == [list(range(9))] * 3


def test_held_out_windows_are_all_whole_windows_in_order():
    batches = list(validation_batches(torch.arange(36), batch=2, length=10))
    assert [batch[:, 0].tolist() for batch in batches] == [[0, 10], [20]]
    assert [len(batch) for batch in validation_batches(torch.arange(36), batch=2, length=10, limit=25)] == [2]
    assert len(list(validation_batches(torch.arange(36), batch=2, length=10, limit=3))) == 1


def test_the_text_is_cut_at_a_line_and_nothing_is_lost():
    documents = ["one\ntwo\n", "three\nfour\nfive\n", "six\n"]
    for part in (0.05, 0.2, 0.5, 0.9):
        training, held_out = split(documents, part)
        assert "".join(training + held_out) == "".join(documents)
        assert held_out
    assert split(documents, 0.4) == (["one\ntwo\n", "three\n"], ["four\nfive\n", "six\n"])


def test_the_reference_of_python_says_nothing_twice():
    paragraphs = [part for document in pydoc_documents() for part in document.split("\n\n") if len(part) > 80]
    assert len(paragraphs) == len(set(paragraphs)) > 1000


def test_the_tokenizer_is_byte_level_and_the_same_every_time(text):
    content = text.read_text()
    one, other = (train_tokenizer([content], 300) for _ in range(2))
    assert one.to_str() == other.to_str()
    odd = "naïve → 𝄞\x00\t"
    assert one.decode(one.encode(odd).ids) == odd
    assert encode(one, [odd, "x"]).tolist()[-1] == one.token_to_id(END)
    with pytest.raises(ConfigError, match="a byte-level tokenizer has at least 257 tokens"):
        train_tokenizer([content], 256)


def test_a_tokenizer_from_a_file_is_used_and_has_to_fit(given, tmp_path, text):
    path = tmp_path / "tokenizer.json"
    train_tokenizer([text.read_text()], 258).save(str(path))
    assert load_corpus(given(tokenizer=str(path))).tokenizer.get_vocab_size() == 258
    train_tokenizer([text.read_text()], 300).save(str(path))
    with pytest.raises(ConfigError, match=r"the tokenizer has 300 tokens, and model\.vocab_size is 260"):
        load_corpus(given(tokenizer=str(path)))
    path.write_text("{}")
    with pytest.raises(ConfigError, match="is no tokenizer"):
        load_corpus(given(tokenizer=str(path)))


def test_a_text_too_short_for_one_sequence_is_refused_and_nothing_is_made(given, tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("four little words here\n" * 9)
    config = given(data={"text": str(short), "validation": 0.3}, length=400)
    with pytest.raises(
        ConfigError, match=r"the training text has \d+ tokens, and one sequence needs length \+ 1 = 401"
    ):
        train(config, progress=False)
    with pytest.raises(ConfigError, match=r"the held-out text has \d+ tokens"):
        train(given(data={"text": str(short), "validation": 0.01}, length=30), progress=False)
    with pytest.raises(ConfigError, match="there is no file"):
        train(given(data={"text": str(tmp_path / "*.nothing")}), progress=False)
    short.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="as UTF-8 text"):
        train(given(data={"text": str(short)}), progress=False)
    assert not Path(config.out).exists()


# the loop


def test_the_rate_rises_linearly_and_ends_at_the_floor():
    config = OptimiserConfig(learning_rate=2.0, warmup=0.1, floor=0.25)
    rates = [learning_rate(config, step, 100) for step in range(1, 101)]
    assert rates[:10] == pytest.approx([0.2 * step for step in range(1, 11)])
    assert rates[54] == pytest.approx(2.0 * (0.25 + 0.75 / 2))
    assert rates[-1] == pytest.approx(0.5)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    none = OptimiserConfig(learning_rate=1.0, warmup=0.0, floor=1.0)
    assert [learning_rate(none, step, 3) for step in (1, 2, 3)] == [1.0, 1.0, 1.0]
    whole = OptimiserConfig(learning_rate=1.0, warmup=1.0)
    assert [learning_rate(whole, step, 2) for step in (1, 2)] == [0.5, 1.0]


def test_norms_and_embeddings_do_not_decay(given):
    config = given({"positions": "learned"})
    model = Decoder(config.model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed, kept = build_optimiser(model, config.optimiser).param_groups
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.1, 0.0)
    kept = {names[id(parameter)] for parameter in kept["params"]}
    assert {name for name in kept if "norm" not in name} == {"embedding.weight", "positions.weight"}
    decayed = {names[id(parameter)] for parameter in decayed["params"]}
    assert len(decayed) == 3 * 5
    assert kept | decayed == set(names.values())


def test_a_run_learns_and_says_what_it_did(given, capfd):
    config = given({"route": "lft(3)"}, steps=30, eval_every=10, checkpoint_every=20, log_every=5)
    result = train(config)
    assert result.route.path == (1, 2, 1, 2, 3)
    assert result.parameters == config.model.parameter_count
    assert (result.steps, result.tokens) == (30, 30 * 32)
    assert result.flops == 30 * decoder_cost(config.model, result.route, 16, 2).training_flops
    assert result.perplexity == math.exp(result.validation_loss) < 200
    assert result.as_json() == json.loads(json.dumps(result.as_json()))
    assert "perplexity" in result.summary()
    records = read_log(result.log)
    assert [record["event"] for record in records[:3]] == ["start", "step", "step"]
    assert [step for step, _ in losses(config)] == [5, 10, 15, 20, 25, 30]
    assert [step for step, _ in losses(config, "validation")] == [10, 20]
    assert {"loss", "learning_rate", "tokens", "flops", "seconds", "gradient_norm"} < set(records[1])
    assert losses(config)[-1][1] == result.training_loss < losses(config)[0][1]
    assert records[-1]["event"] == "end"
    assert records[-1]["perplexity"] == result.perplexity
    output, bar = capfd.readouterr()
    assert not output
    assert "30/30" in bar


def test_the_perplexity_is_that_of_the_held_out_tokens(given):
    config = given(steps=1)
    result = train(config, progress=False)
    held_out = load_corpus(config).validation
    model = load_decoder(result.checkpoint)
    total = 0.0
    for start in range(0, 192, 16):
        window = held_out[start : start + 17]
        logits = model(window[None, :-1])[0].log_softmax(-1).detach()
        total -= logits[torch.arange(16), window[1:]].sum().item()
    assert result.validation_loss == pytest.approx(total / 192, rel=1e-5)


@pytest.mark.parametrize("positions", ["rope", "nope", "learned", "alibi"])
def test_it_trains_with_all_positions_and_with_dropped_layers(given, positions):
    config = given({"positions": positions, "route": "1 drop(2) 3x2"}, steps=4, checkpoint_every=2)
    before = Decoder(config.model, config.route).state_dict()
    result = train(config, progress=False)
    after = load_decoder(result.checkpoint).state_dict()
    same = {name for name, tensor in before.items() if torch.equal(tensor, after[name])}
    assert same == {name for name in before if name.startswith("body.layers.1.")}


def test_a_pair_sees_the_same_tokens_and_may_start_from_one_checkpoint(given, tmp_path):
    one = train(given(steps=2), progress=False)
    configs = [given({"route": route}, steps=2, out=str(tmp_path / route)) for route in ("...", "lft(3)")]
    for config in configs:
        train(config, initial=one.checkpoint, progress=False)
    starts = [read_log(Path(config.out) / "log.jsonl", "start")[0] for config in configs]
    assert len({start["fingerprint"] for start in starts}) == 1
    assert len({losses(config)[0][1] for config in configs}) == 2
    assert losses(configs[0])[0] != losses(given())[0]


def test_the_callers_generator_and_threads_are_left_as_they_were(given):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    threads = torch.get_num_threads()
    train(given(steps=1, threads=1), progress=False)
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_num_threads() == threads


# layers of one's own


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own_layers.py"
    path.write_text(OWN_LAYERS)
    return path


def test_layers_of_ones_own_train_and_are_counted(given, own):
    config = given({"positions": "nope", "layer": f"{own}:Layer", "route": "1 2x2 3"}, steps=3)
    result = train(config, progress=False)
    head = 2 * 32 * 24 * 260
    assert result.flops == 3 * 3 * (4 * 2 * 32 * 24 * 24 + head)
    assert load_decoder(result.checkpoint).body.layers[1].linear.weight.shape == (24, 24)


def test_layers_that_cannot_be_counted_train_all_the_same(given, own):
    result = train(given({"positions": "nope", "layer": f"{own}:Tight"}, steps=1), progress=False)
    assert result.flops is None
    assert "not counted" in result.summary()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("own_layers.py:Layr", "has no class `Layr`\nhelp: did you mean `Layer`"),
        ("own_layers.py:not_a_class", "is not a class of torch.nn.Module"),
        ("nothing.py:Layer", "there is no file"),
        ("no_such_package.layers:Layer", "there is no module `no_such_package`"),
    ],
)
def test_a_layer_class_that_cannot_be_used_is_refused(own, place, message):
    place = place if "package" in place else str(own.parent / place)
    with pytest.raises(ConfigError) as caught:
        load_layer_class(place)
    assert message in str(caught.value)


def test_a_layer_class_may_be_in_a_package():
    assert load_layer_class("torch.nn:Linear") is torch.nn.Linear


# going on


CONFIG = """
model: {{vocab_size: 260, width: 24, ffn_width: 32, heads: 2, parameter_depth: 3, context: 16,
         positions: nope, layer: "own_layers.py:Layer", route: "1 drop(2) 3x2"}}
data: {{text: "{text}", validation: 0.1, validation_tokens: 64}}
batch: 2
length: 16
steps: 12
log_every: 1
eval_every: 5
checkpoint_every: 4
threads: 1
out: "{out}"
"""

RUN = (
    "import sys; from depthgraph.config import load_train_config; from depthgraph.lab import train\n"
    "train(load_train_config(sys.argv[1]), resume='resume' in sys.argv, progress=False)"
)


def test_a_killed_run_goes_on_to_the_same_losses_to_the_last_bit(tmp_path, text, own):
    from depthgraph.config import load_train_config

    paths = {}
    for name in ("whole", "killed"):
        paths[name] = tmp_path / f"{name}.yaml"
        paths[name].write_text(CONFIG.format(text=text, out=tmp_path / name))
    whole, killed = (load_train_config(path) for path in paths.values())
    result = train(whole, progress=False)

    # three executions a step: killed in the forward pass of step 11, after the checkpoint of step 8
    command = [sys.executable, "-c", RUN, str(paths["killed"])]
    done = subprocess.run(command, env={**os.environ, "KILLED_AT": "32"}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert latest_checkpoint(killed.out).name == "step-00000008"
    assert [step for step, _ in losses(killed)] == list(range(1, 11))
    log = Path(killed.out) / "log.jsonl"
    with log.open("a") as file:
        file.write('{"event": "step", "st')  # and half a line, as a kill can leave it
    before = log.read_bytes()

    subprocess.run([*command, "resume"], check=True)
    assert losses(killed) == losses(whole)
    assert losses(killed, "validation") == losses(whole, "validation")
    assert log.read_bytes().startswith(before)
    end = read_log(log, "end")[0]
    assert end["validation_loss"] == result.validation_loss
    assert (end["tokens"], end["flops"]) == (result.tokens, result.flops)
    for name in ("model.safetensors", "optimiser.safetensors"):
        one, other = (latest_checkpoint(config.out) / name for config in (whole, killed))
        assert one.read_bytes() == other.read_bytes()


def test_a_run_is_not_overwritten(given):
    config = given(steps=1)
    train(config, progress=False)
    with pytest.raises(ConfigError, match="existing-run"):
        train(config, progress=False)
    assert train(config, resume=True, progress=False).steps == 1


def test_there_has_to_be_a_run_to_go_on_with(given):
    with pytest.raises(ConfigError, match="there is no run to go on with"):
        train(given(), resume=True, progress=False)
    with pytest.raises(ConfigError, match="not both"):
        train(given(), resume=True, initial="x", progress=False)


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        ({"route": "lft(3)"}, {}, "has the route `1..3`, and the config `1..2 1..3`"),
        ({}, {"steps": 9}, "has steps 1, and the config 9"),
        ({"width": 16}, {}, r"has model\.width 24, and the config 16"),
        ({"layer": "torch.nn:Linear"}, {}, r"has layers of depthgraph, and the config torch\.nn:Linear"),
        (
            {},
            {"optimiser": {"betas": [0.9, 0.99]}},
            r"has optimiser\.betas \(0\.9, 0\.95\), and the config \(0\.9, 0\.99",
        ),
        ({}, {"data": {"text": "pydoc", "validation": 0.1}}, "was trained on other tokens"),
    ],
)
def test_a_run_does_not_go_on_as_another_one(given, model, changes, message):
    train(given(steps=1), progress=False)
    with pytest.raises(ConfigError, match=message) as caught:
        train(given(model, **{"steps": 1, **changes}), resume=True, progress=False)
    assert caught.value.code == "checkpoint-mismatch"


def test_what_changes_no_loss_may_change(given):
    train(given(steps=1), progress=False)
    config = given({"route": "1..3"}, steps=1, eval_every=7, checkpoint_every=3)
    assert train(config, resume=True, progress=False).steps == 1


def test_a_loss_that_is_no_number_stops_the_run_after_a_good_checkpoint(given):
    config = given(steps=20, checkpoint_every=1, optimiser={"learning_rate": 1e30, "clip": None, "warmup": 0.0})
    with pytest.raises(ConfigError, match=r"of step \d+ is (nan|inf)") as caught:
        train(config, progress=False)
    assert caught.value.code == "not-finite"
    assert str(latest_checkpoint(config.out)) in str(caught.value)
    weights = load_decoder(config.out).state_dict().values()
    assert all(tensor.isfinite().all() for tensor in weights)
    assert read_log(Path(config.out) / "log.jsonl")[-1]["event"] == "stop"


def test_a_device_that_is_not_there_is_refused(given):
    with pytest.raises(ConfigError, match="device `abacus` cannot be used"):
        train(given(device="abacus"), progress=False)


def test_an_out_that_is_a_file_is_refused(given, tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(ConfigError, match="cannot be made"):
        train(given(), progress=False)
