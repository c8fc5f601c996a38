"""Facts on `depthgraph hf show`, `eval` and `scan`; those on interrupted runs are on real processes."""

import contextlib
import csv
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BartConfig, BartForCausalLM

import depthgraph as dg
import depthgraph.hf
from depthgraph.cli import main

from hf_folders import save, text
from hf_models import MAIN, prompts, tiny, unrolled

ROOT = Path(__file__).parent.parent
N = 4

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return text(tmp_path_factory.mktemp("texts") / "words.txt")


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")

    def called(*arguments, command=("hf",)):
        with pytest.raises(SystemExit) as ended:
            main([*command, *map(str, arguments)])
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return called


@pytest.fixture
def json_of(run):
    def called(*arguments):
        code, out, err = run(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return called


def test_show_says_what_the_model_is_and_what_the_route_means(folder, run):
    code, out, err = run("show", folder, "--route", "1 (2..3)x r N", "r=2")
    assert (code, err) == (0, "")
    rows = dict(re.findall(r"(?m)^(\S.*?) {2,}(\S.*)$", out))
    assert rows["model"] == "LlamaForCausalLM: N = 4, d = 32, vocabulary 256, float32"
    assert rows["spec"] == "1 (2..3)x r N"
    assert rows["canonical"] == "1..3 2..4"
    assert rows["executions"] == "E = 6, 1.50 × N"
    assert "per_execution 6 slots, 768 bytes a token; last_visit 4 slots, 512 bytes a token" in rows["KV cache"]
    assert "█" in out


def test_show_reads_no_weights(folder, tmp_path, run):
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    assert run("show", tmp_path)[0] == 0


@pytest.mark.parametrize("name", MAIN)
def test_shown_figures_are_those_of_the_layers_written_out(name, tmp_path, json_of):
    save(tmp_path, name)
    route, length = dg.route("1 (2..3)x2 4 1"), 4
    found = json_of("show", tmp_path, "--route", route, "--length", length)
    large = unrolled(tiny(name, vocab_size=256), route.path)
    large.set_attn_implementation("eager")
    given = prompts(length)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        cache = large(**given, use_cache=True).past_key_values
    assert found["flops_per_token"] == counter.get_total_flops() / length
    stored = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers) / length
    assert found["kv_bytes_per_token"]["per_execution"] == stored
    assert found["plain_kv_bytes_per_token"] == found["kv_bytes_per_token"]["last_visit"] == stored * 4 / 7
    assert found["parameters"] == sum(p.numel() for p in tiny(name, vocab_size=256).parameters())
    assert (found["parameter_depth"], found["execution_depth"], found["path"]) == (4, 7, list(route.path))


def test_show_names_the_layers_of_each_kind_of_attention(tmp_path, run, json_of):
    save(tmp_path, "gemma3")
    assert json_of("show", tmp_path)["layer_kinds"] == {
        "full attention": [2, 3],
        "sliding attention (window of 5 tokens)": [1, 4],
    }
    _, out, _ = run("show", tmp_path)
    assert "layers      full attention: 2..3\nlayers      sliding attention (window of 5 tokens): 1 4\n" in out


def test_a_model_with_a_window_and_no_kinds_of_layers_slides_in_all(tmp_path, json_of):
    save(tmp_path, "mistral")
    assert json_of("show", tmp_path)["layer_kinds"] == {"sliding attention (window of 5 tokens)": [1, 2, 3, 4]}


def test_a_model_that_looks_at_values_is_shown_and_evaluated_without_flops(tmp_path, words, json_of, run):
    settings = {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 32}
    config = BartConfig(vocab_size=256, encoder_layers=2, **settings)
    save(tmp_path, model=BartForCausalLM(config).eval())
    found = json_of("show", tmp_path, "--route", "1 1..N")
    assert found["flops_per_token"] is None
    assert found["kv_bytes_per_token"] == {"per_execution": None, "last_visit": None}
    question = ("eval", tmp_path, "1 1..N", "--text", words, "--length", 16, "--windows", 2)
    assert [row["relative_flops"] for row in json_of(*question)["routes"]] == [None, None]
    for command in (question, ("show", tmp_path)):
        _, out, err = run(*command)
        assert "not counted" in out + err
        assert "BartForCausalLM does not run without data" in out + err


def test_weights_of_the_route_are_counted(folder, json_of):
    found = json_of("show", folder, "--route", "1 save(e) (mix(e) 2..3)x3 4")
    model = dg.hf.reroute(tiny("llama", vocab_size=256), "1 save(e) (mix(e) 2..3)x3 4")
    assert found["parameters"] == sum(p.numel() for p in model.parameters()) == found["plain_parameters"] + 2 * 32**2
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.set_attn_implementation("eager")
        model(**prompts(60))
    assert json_of("show", folder, "--route", "1 save(e) (mix(e) 2..3)x3 4", "--length", 60)["flops_per_token"] == (
        counter.get_total_flops() / 60
    )


def test_a_checkpoint_with_a_route_of_its_own_shows_that_one(tmp_path, json_of, run):
    model = dg.hf.reroute(tiny("llama", vocab_size=256), "1 (2..3)x r 4", dynamic={"r": 3})
    save(tmp_path, model=model)
    found = json_of("show", tmp_path)
    assert (found["route"], found["saved_route"]) == ("1 (2..3)x3 4", "1 (2..3)x r 4")
    assert json_of("show", tmp_path, "--route", "1..N")["route"] == "1..4"
    assert "1 (2..3)x r 4, trained with r=3, per_execution" in run("show", tmp_path)[1]


@pytest.mark.parametrize(
    ("arguments", "code", "messages"),
    [
        (["show", "no/such/folder"], 2, ["error[missing-file]", "there is no folder 'no/such/folder'"]),
        (["show", "{tmp}"], 2, ["error[missing-file]", "there is no config.json in"]),
        (["show", "{folder}", "--route", "1..5"], 1, ["<spec>:1:4: error[unknown-layer]", "   | 1..5\n", "\n  |    ^"]),
        (["show", "{folder}", "--route", "1..N", "N=5"], 2, ["N is the number of layers of tiny, 4, and is bound to 5"]),
        (["show", "{folder}", "--route", "1..N", "q=5"], 2, ["no spec has a name `q` to bind"]),
        (["show", "{folder}", "1..N"], 2, ["`1..N` is no option", "--route"]),
        (["eval", "{folder}", "--text", "nothing.txt"], 2, ["cannot read 'nothing.txt': No such file or directory"]),
        (["eval", "{folder}", "1..5", "--text", "{text}"], 1, ["error[unknown-layer]"]),
        (["eval", "{folder}", "--text", "{text}", "--length", "65"], 2, ["tiny takes 64 tokens", "help: --length 64"]),
        (["eval", "{folder}", "--text", "{text}", "--device", "abacus"], 2, ["torch cannot compute on `abacus`"]),
        (["eval", "{folder}", "--text", "{text}", "--json", "--csv"], 2, ["of --json and --csv, one"]),
        (["scan", "{folder}", "--text", "{text}", "--out", "{tmp}", "-o", "map.gif"], 2, ["can end in .svg, .png, .pdf"]),
        (["scan", "{folder}", "--text", "{text}", "--out", "{text}/x"], 2, ["cannot make the folder"]),
        (["scan", "{folder}", "--text", "{text}", "--out", "{tmp}", "--step", "4", "--max-width", "3"], 2, ["no block"]),
    ],
)  # fmt: skip
def test_wrong_arguments_are_errors_that_say_what_to_do(arguments, code, messages, folder, words, tmp_path, run):
    told = [word.format(folder=folder, tmp=tmp_path, text=words) for word in arguments]
    found, out, err = run(*told)
    assert (found, out) == (code, "")
    for message in messages:
        assert re.sub(r"\s+\|", " |", message).strip() in re.sub(r"\s+\|", " |", err)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "is not JSON"),
        ('{"model_type": "abacus"}', "transformers cannot use"),
        ('{"model_type": "vit"}', "transformers cannot use"),
        ('{"model_type": "gemma3n_text"}', "error[unroutable-model]"),
    ],
)
def test_a_folder_without_a_decoder_is_refused(config, message, tmp_path, run):
    (tmp_path / "config.json").write_text(config)
    code, out, err = run("show", tmp_path)
    assert (code, out) == (1, "")
    assert message in err


def test_eval_compares_routes_with_the_model_as_it_was_saved(folder, words, json_of, run):
    question = ("eval", folder, "--routes", "block(2..3)x2", "1..N", "1 (2 3)x r 4", "r=3", "--text", words)
    sizes = ("--length", 32, "--windows", 5, "--batch", 2)
    found = json_of(*question, *sizes)["routes"]
    assert [row["spec"] for row in found] == ["1..4", "block(2..3)x2", "1..N", "1 (2 3)x r 4"]
    assert [row["E"] for row in found] == [4, 6, 4, 8]
    assert found[0]["difference"] == found[2]["difference"] == 0
    assert found[0]["loss"] == found[2]["loss"] != found[1]["loss"]
    assert {row["windows"] for row in found} == {5}
    assert found[1]["difference"] == pytest.approx(found[1]["loss"] - found[0]["loss"])
    shown = json_of("show", folder, "--route", "block(2..3)x2", "--length", 32)
    assert found[1]["relative_flops"] == shown["flops_per_token"] / shown["plain_flops_per_token"]
    code, out, err = run(*question, *sizes)
    assert code == 0
    assert err.splitlines() == [
        "5 windows of 32 tokens of words.txt, in float32 on cpu; route 0 is the model as it was saved"
    ]
    cells = [line.split() for line in out.splitlines()[3:] if line.strip()]
    assert [row[-1] for row in cells] == ["1..4", "block(2..3)x2", "1..N", "4"]
    assert cells[1][3:5] == [f"{found[1]['loss']:.4f}", f"{found[1]['difference']:+.4f}"]
    _, out, _ = run(*question, *sizes, "--csv")
    assert [row["loss"] for row in csv.DictReader(out.splitlines())] == [str(row["loss"]) for row in found]


def test_the_baseline_of_a_checkpoint_with_a_route_is_that_route(tmp_path, words, json_of):
    save(tmp_path, model=dg.hf.reroute(tiny("llama", vocab_size=256), "1 save(e) (mix(e) 2..3)x2 4"))
    found = json_of("eval", tmp_path, "1..4", "--text", words, "--windows", 2)["routes"]
    assert [row["route"] for row in found] == ["1 save(e) (mix(e) 2..3)x2 4", "1..4"]
    assert found[0]["windows"] == 2


def test_other_windows_and_routes_reuse_what_is_kept(folder, words, tmp_path, json_of, monkeypatch):
    question = ("eval", folder, "--text", words, "--length", 32, "--out", tmp_path)
    few = json_of(*question, "1 1..N", "--windows", 2)["routes"]
    kept = json.loads((tmp_path / "results.json").read_text())["routes"]
    many = json_of(*question, "1 1..N", "2 1 1..N", "--windows", 3)["routes"]
    now = json.loads((tmp_path / "results.json").read_text())["routes"]
    assert {text: done["losses"][:2] for text, done in now.items() if text in kept} == {
        text: done["losses"] for text, done in kept.items()
    }
    assert now["1..4"]["seconds"][:2] == kept["1..4"]["seconds"]
    monkeypatch.setattr("depthgraph.hf.folder.Folder.load", None)  # what is kept needs no model
    assert json_of(*question, "1 1..N", "--windows", 2)["routes"] == few
    assert json_of(*question, "1 1..N", "2 1 1..N", "--windows", 3)["routes"] == many


@pytest.mark.parametrize("changed", ["text", "model", "length", "batch", "dtype"])
def test_results_of_another_text_model_or_setting_are_refused(changed, folder, words, tmp_path, run):
    out = tmp_path / "out"
    question = ["eval", folder, "--text", words, "--length", 32, "--windows", 1, "--out", out]
    assert run(*question)[0] == 0
    before = (out / "results.json").read_bytes()
    match changed:
        case "text":
            question[3] = text(tmp_path / "other.txt", seed=1)
        case "model":
            question[1] = save(tmp_path / "other", seed=1)
        case "length":
            question[5] = 16
        case "batch":
            question += ["--batch", 2]
        case "dtype":
            question += ["--dtype", "bfloat16"]
    code, _, err = run(*question)
    assert code == 1
    assert "error[results-mismatch]" in err
    assert (changed if changed not in ("text", "model") else "other") in err
    assert (out / "results.json").read_bytes() == before


def test_scan_writes_a_table_and_a_picture_and_prints_the_map(folder, words, tmp_path, run, json_of):
    picture = tmp_path / "map.png"
    question = ("scan", folder, "--text", words, "--length", 32, "--windows", 2, "--out", tmp_path)
    code, out, err = run(*question, "-o", picture, "--top", 3)
    assert code == 0
    assert re.search(r"(?m)^first 1 2 3 4$", out)
    assert len(re.findall(r"(?m)^    \d [ \da-e.]+$", out)) == 4
    assert (
        err
        == f"2 windows of 32 tokens of words.txt; written: {', '.join(str(tmp_path / name) for name in ('repeat.csv', 'repeat.svg'))}, {picture}\n"
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "repeat.svg").read_text().startswith("<svg")
    rows = list(csv.DictReader((tmp_path / "repeat.csv").read_text().splitlines()))
    assert [(row["first"], row["last"]) for row in rows] == [(f"{i}", f"{j}") for i in range(1, 5) for j in range(i, 5)]
    listed = [line.split() for line in out.splitlines() if re.match(r" *\d\.\.\d ", line)]
    best = sorted(rows, key=lambda row: float(row["loss"]))[:3]
    assert [line[0] for line in listed] == [f"{row['first']}..{row['last']}" for row in best]
    found = json_of(*question)["blocks"]
    whole = json_of("eval", folder, *(row["route"] for row in rows), *question[2:-2])["routes"]
    assert [row["loss"] for row in found] == [row["loss"] for row in whole[1:]]


def test_scan_and_eval_share_what_they_keep(folder, words, tmp_path, json_of, monkeypatch):
    question = (folder, "--text", words, "--length", 32, "--windows", 2, "--out", tmp_path)
    scanned = json_of("scan", *question, "--kind", "skip", "--max-width", 2)["blocks"]
    monkeypatch.setattr("depthgraph.hf.folder.Folder.load", None)
    found = json_of("eval", *question, *(block["route"] for block in scanned))["routes"]
    assert [row["difference"] for row in found[1:]] == [block["difference"] for block in scanned]
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "skip.csv", "skip.svg"}


def _process(*arguments, **options):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "depthgraph", "hf", *map(str, arguments)]
    return subprocess.Popen(command, env=env, **options)


def _on_a_terminal(*arguments):
    ours, theirs = pty.openpty()
    process = _process(*arguments, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    read = b""
    with contextlib.suppress(OSError):  # Linux says so when the other side has closed
        while part := os.read(ours, 65_536):
            read += part
    os.close(ours)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", read.decode())


def _killed(question, out, how):
    """Start a command, end it by a signal once something is kept, and return the process and what is kept."""
    process = _process(*question, "--out", out, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (out / "results.json").exists():
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(how)
    process.said = process.communicate()
    return process, _losses(out)


def _losses(out):
    kept = json.loads((out / "results.json").read_text())["routes"]
    return {text: done["losses"] for text, done in kept.items()}


def _check_begun(begun, whole):
    """Some windows were done and others were not; and what was done stays."""
    assert 0 < sum(map(len, begun.values())) < sum(map(len, whole.values()))
    for route, losses in begun.items():
        assert whole[route][: len(losses)] == losses


def _table(rows):
    return [{**row, "seconds": None} for row in rows]


def test_a_killed_evaluation_goes_on_to_the_same_table(folder, words, tmp_path, json_of):
    question = ("eval", folder, "block(2..3)x2", "(1..N)x2", "--text", words, "--length", 8, "--windows", 100)
    process, begun = _killed(question, tmp_path / "killed", signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    shown = _on_a_terminal(*question, "--out", tmp_path / "killed")
    assert re.search(r"(1\.\.4|1\.\.3 2\.\.4|\(1\.\.4\)x2) .* \d+/300 windows .* left ", shown)
    expected = json_of(*question, "--out", tmp_path / "whole")["routes"]
    assert _losses(tmp_path / "killed") == _losses(tmp_path / "whole")
    _check_begun(begun, _losses(tmp_path / "whole"))
    assert _table(json_of(*question, "--out", tmp_path / "killed")["routes"]) == _table(expected)


def test_a_killed_scan_goes_on_to_the_same_table(folder, words, tmp_path, json_of):
    question = ("scan", folder, "--text", words, "--length", 8, "--windows", 20)
    process, begun = _killed(question, tmp_path / "killed", signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    found, expected = (json_of(*question, "--out", tmp_path / name)["blocks"] for name in ("killed", "whole"))
    assert found == expected
    assert _losses(tmp_path / "killed") == _losses(tmp_path / "whole")
    _check_begun(begun, _losses(tmp_path / "whole"))
    for name in ("repeat.svg", "repeat.csv"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_interrupted_run_says_how_to_go_on(folder, words, tmp_path):
    out = tmp_path / "out"
    process, begun = _killed(("scan", folder, "--text", words, "--length", 8, "--windows", 200), out, signal.SIGINT)
    assert process.returncode == 130
    assert process.said == ("", f"interrupted; the same command goes on from {out}\n")
    assert begun


def test_commands_of_the_readme_run_on_a_small_model(folder, words, tmp_path, run):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"(?m)^depthgraph (hf .*?|.* MODEL_DIR .*?)(?: +#.*)?$", text)
    names = {"MODEL_DIR": folder, "FILE": words, "DIR": tmp_path / "scan", "OUT": tmp_path / "out"}
    assert len(lines) >= 4
    for line in lines:
        code, out, err = run(*(names.get(word, word) for word in shlex.split(line)), command=())
        assert code == 0, err
        assert out
