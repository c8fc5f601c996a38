"""Facts on the loss of a model under routes: windows of a text, what is counted, what is kept."""

import json
import math

import pytest
import torch
from torch.nn.functional import cross_entropy

import depthgraph as dg
import depthgraph.hf
from depthgraph.errors import ConfigError
from depthgraph.hf.evaluate import Bench, evaluate, score, window_losses
from depthgraph.hf.results import Done, Results
from depthgraph.hf.windows import Windows, read_text, windows_of

from hf_folders import byte_tokenizer
from hf_models import MAIN, tiny, unrolled

N = 4
TEXT = "Depth recurrence runs layers twice, été comme hiver. " * 40

pytestmark = pytest.mark.usefixtures("one_thread")


def routes(*texts):
    return [dg.route(text, N=N) for text in texts]


def windows(count=3, length=12, seed=0):
    torch.manual_seed(seed)
    tokens = torch.randint(3, 64, (2, count, length))
    return Windows(tokens[0], tokens[1], (5 * length,) * count, False)


def test_windows_cover_the_text_without_overlap():
    found = windows_of(byte_tokenizer(), TEXT, 100, 7)
    tokens = torch.tensor(byte_tokenizer()(TEXT, add_special_tokens=False)["input_ids"])
    assert torch.equal(found.inputs.flatten(), tokens[:700])
    assert torch.equal(found.targets.flatten(), tokens[1:701])
    assert (len(found), found.length, found.tokens, found.whole) == (7, 100, 700, False)


def test_the_last_tokens_that_fill_no_window_are_left_out():
    found = windows_of(byte_tokenizer(), TEXT, 100, 1_000)
    assert len(found) == (len(TEXT.encode()) - 1) // 100
    assert found.whole


def test_sizes_are_the_bytes_of_what_is_predicted():
    tokenizer = byte_tokenizer()
    assert windows_of(tokenizer, "x" * 301, 100, 3).sizes == (100, 100, 100)
    found = windows_of(tokenizer, TEXT, 100, 7)
    assert abs(sum(found.sizes) - 700) <= 1  # a window may end inside the two bytes of an é
    whole = windows_of(tokenizer, TEXT, len(TEXT.encode()) - 1, 1)
    assert whole.sizes == (len(TEXT.encode()) - 1,)


def test_windows_do_not_depend_on_how_many_there_are():
    few, many = (windows_of(byte_tokenizer(), TEXT, 50, count) for count in (2, 9))
    assert torch.equal(few.inputs, many.inputs[:2])
    assert few.sizes == many.sizes[:2]


def test_every_window_begins_as_the_tokenizer_begins_a_text():
    tokenizer = byte_tokenizer(bos_token="<s>")
    found, plain = windows_of(tokenizer, TEXT, 50, 3), windows_of(byte_tokenizer(), TEXT, 50, 3)
    assert found.inputs.shape == (3, 51)
    assert torch.equal(found.inputs[:, 0], torch.full((3,), tokenizer.bos_token_id))
    assert torch.equal(found.targets, plain.targets)
    model = tiny("llama", vocab_size=257)
    with torch.no_grad():
        logits = model(found.inputs).logits[:, 1:]
    expected = cross_entropy(logits.flatten(0, 1), found.targets.flatten(), reduction="sum")
    assert sum(window_losses(model, found, 0, 3)) == pytest.approx(float(expected), rel=1e-6)


def test_a_text_shorter_than_a_window_is_refused():
    with pytest.raises(ConfigError, match="note has 5 tokens, and a window of 8 needs 9"):
        windows_of(byte_tokenizer(), "short", 8, 1, "note")


@pytest.mark.parametrize(("content", "message"), [(b"\xff\xfe", "not text in UTF-8"), (None, "cannot read")])
def test_what_is_no_text_is_refused(tmp_path, content, message):
    path = tmp_path / "text"
    if content:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_text(path)


@pytest.mark.parametrize("name", MAIN)
def test_the_loss_is_that_of_the_layers_written_out(name):
    model, given = tiny(name), windows()
    results = Results(None, {})
    evaluate(model, routes("1..N", "block(2..3)x2", "1 drop(2) 3 4 4"), given, results, batch=2)
    for route in routes("1..N", "block(2..3)x2", "1 drop(2) 3 4 4"):
        with torch.no_grad():
            logits = unrolled(tiny(name), route.path)(given.inputs, use_cache=False).logits
        losses = cross_entropy(logits.double().transpose(1, 2), given.targets, reduction="none").sum(1)
        assert results.routes[route.text].losses == pytest.approx(losses.tolist(), rel=1e-5)


def test_windows_at_once_change_no_loss():
    one, three = Results(None, {}), Results(None, {})
    for results, batch in ((one, 1), (three, 3)):
        evaluate(tiny("llama"), routes("1..N", "1..3 2..4"), windows(5), results, batch=batch)
    for text in one.routes:
        assert three.routes[text].losses == pytest.approx(one.routes[text].losses, rel=1e-6)


def test_what_is_done_is_not_done_again():
    told, results = [], Results(None, {}, routes={"1..4": Done([1.0, 2.0, 3.0], [0.0] * 3)})
    results.routes["(1..4)x2"] = Done([9.0], [0.0])
    evaluate(tiny("llama"), routes("1..N", "(1..N)x2"), windows(), results, report=lambda *report: told.append(report))
    assert told == [("(1..4)x2", 1), ("(1..4)x2", 1)]
    assert results.routes["1..4"].losses == [1.0, 2.0, 3.0]
    assert results.routes["(1..4)x2"].losses[0] == 9.0


def test_the_trained_weights_of_a_route_are_used_wherever_they_have_a_place():
    model = dg.hf.reroute(tiny("llama"), "1 save(e) (mix(e) 2..3)x2 4")
    own = model.route
    torch.nn.init.normal_(model.model.depthgraph.mix_1.weight)
    results, again = Results(None, {}), Results(None, {})
    with torch.no_grad():
        direct = window_losses(model, windows(), 0, 3)
    other = dg.route("1 save(e) (mix(e) 2..3)x3 4")
    evaluate(model, [dg.route("1..4"), other, own], windows(), results, batch=3)
    evaluate(model, [other], windows(), again, batch=3)
    assert results.routes[own.text].losses == direct
    assert results.routes[other.text].losses == again.routes[other.text].losses
    fresh = dg.hf.reroute(dg.hf.restore(model), other)
    assert window_losses(fresh, windows(), 0, 3) != results.routes[other.text].losses


def test_the_standard_order_is_the_model_as_transformers_runs_it():
    model = tiny("llama")
    bench = Bench(model)
    bench.place(dg.route("1 1..4"))
    assert hasattr(model, "route")
    assert bench.place(dg.route("1..4")) is model
    assert type(model) is type(tiny("llama"))


def test_a_score_is_the_mean_and_its_change_has_an_error():
    base, other = [120.0, 60.0, 90.0], [126.0, 72.0, 93.0]
    results = Results(None, {}, routes={"1..4": Done(base, [1.0] * 3), "(1..4)x2": Done(other, [2.0] * 3)})
    found = score(results, "(1..4)x2", "1..4", windows(3, 12))
    assert found.loss == pytest.approx(291 / 36)
    assert found.perplexity == pytest.approx(math.exp(291 / 36))
    assert found.difference == pytest.approx(21 / 36)
    changes = torch.tensor([0.5, 1.0, 0.25])
    assert found.spread == pytest.approx(float(changes.std()) / math.sqrt(3))
    assert found.bits == pytest.approx(291 / math.log(2) / 180)
    assert found.seconds == 6.0
    assert score(results, "1..4", "1..4", windows(3, 12)).difference == 0.0


def test_one_window_has_no_error():
    results = Results(None, {}, routes={"1..4": Done([12.0], [1.0])})
    assert score(results, "1..4", "1..4", windows(1)).spread is None


def test_results_are_read_as_they_were_written(tmp_path):
    results = Results.at(tmp_path / "new", {"length": 3}, {"text": "a.txt"})
    results.put("1..4", 0, [0.1 + 0.2, math.pi], 3.0)
    results.put("1 1..4", 0, [math.inf, 1.0], 2.0)
    results.save()
    found = Results.at(tmp_path / "new", {"length": 3}, {"text": "a.txt"})
    assert found.routes["1..4"] == Done([0.1 + 0.2, math.pi], [1.5, 1.5])
    assert math.isnan(found.routes["1 1..4"].losses[0])
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["results.json"]
    json.loads((tmp_path / "new" / "results.json").read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("settings", "notes", "message"),
    [
        ({"length": 4, "text": "h"}, {"text": "a.txt"}, "with the length 3, and 4 is asked for"),
        ({"length": 3, "text": "g"}, {"text": "b.txt"}, "of a.txt as it was, and b.txt is another text now"),
        ({"length": 3}, {}, "results in"),
    ],
)
def test_results_of_something_else_are_refused(tmp_path, settings, notes, message):
    Results.at(tmp_path, {"length": 3, "text": "h"}, {"text": "a.txt"}).save()
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(ConfigError, match=message) as caught:
        Results.at(tmp_path, settings, notes)
    assert caught.value.code == "results-mismatch"
    assert (tmp_path / "results.json").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"settings": {}, "notes": {}, "routes": {"1": {}}}', b"\xff"])
def test_a_file_that_is_no_results_is_refused(tmp_path, content):
    (tmp_path / "results.json").write_bytes(content)
    with pytest.raises(ConfigError, match="no file of results") as caught:
        Results.at(tmp_path, {}, {})
    assert caught.value.code == "results-mismatch"
