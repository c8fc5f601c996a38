"""lm-eval: models under a route through its Python and its command line, on tasks that the test writes."""

import json
import os
import subprocess
import sys

import pytest
import torch
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from small import N, llama, tokenizer, unrolled

import depthgraph as dg
import depthgraph.hf

ROUTE = "block(2..3)x3"
FLOW = "1 save(e) (mix(e) 2..3)x2 4"
WORDS = ["blue", "red", "dark green", "a bit of everything", "sand", "salt and smoke", "tin", "cloud"]
QUESTIONS = [
    {"query": f"Q{number}: the sea near {place} is", "choices": WORDS[number % 4 : number % 4 + 4], "gold": number % 4}
    for number, place in enumerate(["Oslo", "Rio", "Perth", "Bari", "Cork", "Lima", "Nice", "Suva", "Riga", "Doha"] * 2)
]
CHOICE = """\
task: choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{query}}}}"
doc_to_choice: choices
doc_to_target: gold
metric_list:
  - {{metric: acc}}
  - {{metric: acc_norm}}
"""
SAYS = """\
task: says
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{query}}}}"
doc_to_target: "{{{{choices[gold]}}}}"
generation_kwargs: {{until: ["~~"], max_gen_toks: 12, do_sample: false}}
metric_list:
  - {{metric: exact_match}}
"""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Return a folder with a multiple-choice task and one of free answers."""
    folder = tmp_path_factory.mktemp("tasks")
    file = folder / "questions.jsonl"
    file.write_text("\n".join(map(json.dumps, QUESTIONS)), encoding="utf-8")
    (folder / "choice.yaml").write_text(CHOICE.format(file=file), encoding="utf-8")
    (folder / "says.yaml").write_text(SAYS.format(file=file), encoding="utf-8")
    return folder


class Chunked(HFLM):
    """Scores by a cache: reads a text three tokens at a time, as chunked prefill does."""

    def _model_call(self, inps, attn_mask=None, labels=None):
        cache, logits = None, []
        with torch.no_grad():
            for part in inps.split(3, dim=1):
                output = self.model(part, past_key_values=cache, use_cache=True)
                cache = output.past_key_values
                logits.append(output.logits)
        return torch.cat(logits, dim=1)


class Uncached(HFLM):
    """Scores and answers without a cache; lm-eval has no setting for that."""

    def _model_generate(self, *args, **named):
        generate = type(self.model).generate
        self.model.generate = lambda *given, **options: generate(self.model, *given, **options | {"use_cache": False})
        try:
            return super()._model_generate(*args, **named)
        finally:
            del self.model.generate

    def _model_call(self, inps, attn_mask=None, labels=None):
        with torch.no_grad():
            output = self.model(inps, use_cache=False)
        assert output.past_key_values is None
        return output.logits


def evaluated(model, tasks, name="choice", kind=HFLM):
    """Evaluate a model; return its results, and the log-likelihoods or the texts of the answers."""
    lm = kind(pretrained=model, tokenizer=tokenizer(), batch_size=4, device="cpu", max_length=128, backend="causal")
    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    found = simple_evaluate(lm, tasks=[name], task_manager=manager, log_samples=True, bootstrap_iters=0)
    samples = sorted(found["samples"][name], key=lambda sample: sample["doc_id"])
    return found["results"][name], [sample["filtered_resps"] for sample in samples]


def scores(responses):
    return torch.tensor([[score for score, _ in choices] for choices in responses])


@pytest.mark.parametrize("route", [ROUTE, FLOW, "drop(3) (1..2)x2 4"])
def test_cached_and_uncached_scores_are_equal(route, tasks):
    model = dg.hf.reroute(llama(), route)
    results, plain = evaluated(model, tasks)
    for kind in (Chunked, Uncached):
        other, found = evaluated(model, tasks, kind=kind)
        torch.testing.assert_close(scores(found), scores(plain), rtol=1e-4, atol=1e-4)
        assert other == results
    _, standard = evaluated(llama(), tasks)
    assert (scores(standard) - scores(plain)).abs().max() > 1


def test_scores_are_those_of_the_unrolled_model(tasks):
    route = dg.route(ROUTE, N=N)
    results, ours = evaluated(dg.hf.reroute(llama(), route), tasks)
    other, plain = evaluated(unrolled(llama(), route), tasks)
    torch.testing.assert_close(scores(ours), scores(plain), rtol=1e-4, atol=1e-4)
    assert results == other


def test_answers_with_a_cache_are_those_without_and_those_of_the_unrolled_model(tasks):
    route = dg.route(ROUTE, N=N)
    model = dg.hf.reroute(llama(), route)
    _, cached = evaluated(model, tasks, "says")
    _, uncached = evaluated(model, tasks, "says", kind=Uncached)
    _, plain = evaluated(unrolled(llama(), route), tasks, "says")
    _, standard = evaluated(llama(), tasks, "says")
    assert cached == uncached == plain
    assert cached != standard


def saved(folder, model):
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def command(tasks, tmp_path, *start, model_args):
    """Run lm-eval's own command line in a process; return the results, or what it said instead."""
    words = ["--model", "hf", "--model_args", model_args, "--tasks", "choice", "--include_path", str(tasks)]
    words += ["--device", "cpu", "--batch_size", "4", "--output_path", str(tmp_path / "results")]
    places = {"HF_DATASETS_CACHE": str(tmp_path / "data"), "HF_MODULES_CACHE": str(tmp_path / "modules")}
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"} | places
    run = subprocess.run(
        [sys.executable, "-m", *start, *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    files = list((tmp_path / "results").rglob("results_*.json"))
    if run.returncode:
        assert not files
        return run.stderr
    return json.loads(files[0].read_text(encoding="utf-8"))["results"]["choice"]


def accuracy(results):
    return {name: results[name] for name in ("acc,none", "acc_norm,none")}


def test_its_command_line_runs_a_checkpoint_with_a_route(tasks, tmp_path):
    model = dg.hf.reroute(llama(), ROUTE)
    folder = saved(tmp_path / "model", model)
    found = command(tasks, tmp_path, "depthgraph.hf", "lm_eval", model_args=f"pretrained={folder},dtype=float32")
    expected, _ = evaluated(model, tasks)
    assert accuracy(found) == accuracy(expected)


def test_model_arguments_in_json_take_another_route(tasks, tmp_path):
    # written as key=value they are split at every comma, and this route has three
    folder = saved(tmp_path / "model", dg.hf.reroute(llama(), "1..4"))
    arguments = json.dumps({"pretrained": str(folder), "dtype": "float32", "route": "ilr[1,3,2,1]"})
    found = command(tasks, tmp_path, "depthgraph.hf", "lm_eval", model_args=arguments)
    expected, _ = evaluated(dg.hf.reroute(llama(), "ilr[1,3,2,1]"), tasks)
    assert accuracy(found) == accuracy(expected)


def test_its_command_line_alone_runs_a_standalone_folder(tasks, tmp_path):
    model = dg.hf.reroute(llama(), FLOW)
    dg.hf.save_standalone(model, tmp_path / "model", tokenizer=tokenizer())
    arguments = f"pretrained={tmp_path / 'model'},dtype=float32,trust_remote_code=True"
    found = command(tasks, tmp_path, "lm_eval", model_args=arguments)
    expected, _ = evaluated(model, tasks)
    assert accuracy(found) == accuracy(expected)


def test_without_depthgraph_lm_eval_refuses_the_checkpoint(tasks, tmp_path):
    folder = saved(tmp_path / "model", dg.hf.reroute(llama(), ROUTE))
    said = command(tasks, tmp_path, "lm_eval", model_args=f"pretrained={folder}")
    assert "depthgraph_routed" in said


def test_the_runner_runs_files_as_python_does(tmp_path):
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n", encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text("import sys\nfrom beside import NAME\nprint(__name__, NAME, *sys.argv[1:])\n", encoding="utf-8")
    runner = [sys.executable, "-m", "depthgraph.hf"]
    run = subprocess.run([*runner, str(script), "--a", "b c"], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["__main__", "beside", "--a", "b", "c"]
    nothing = subprocess.run(runner, capture_output=True, text=True, check=False)
    assert nothing.returncode == 1
    assert nothing.stderr.startswith("usage: ")
