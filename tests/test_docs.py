"""The documentation is true: its Python runs, its examples of errors are errors, its links lead somewhere."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import depthgraph as dg
from depthgraph.config import load_train_config
from depthgraph.errors import KINDS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_the_page_runs(page, tmp_path, monkeypatch):
    """Blocks of one page share their names, in order; those with prompts are compared with what they print."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"(?ms)^ *```python\n(.*?)^ *```", page.read_text(encoding="utf-8")):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), 0)
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            runner.run(test, clear_globs=False)
            assert runner.failures == 0
            names.update(test.globs)
        else:
            exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"(?m)^#+ (.*)$", linked.read_text(encoding="utf-8"))
            assert anchor in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _sections():
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    for section in re.split(r"(?m)^### ", text)[1:]:
        code = re.match(r"`([a-z-]+)`", section).group(1)
        example = re.search(r"For\s+example\s+`([^`]+)`(?:\s+with\s+`(\w+)=(\d+)`)?", section)
        if example:
            yield code, example.group(1), {example.group(2): int(example.group(3))} if example.group(2) else {}


@pytest.mark.parametrize(("code", "text", "bindings"), list(_sections()))
def test_an_example_of_an_error_is_one(code, text, bindings):
    with pytest.raises(dg.SpecError) as caught:
        dg.route(text, bindings)
    assert caught.value.code == code


def test_the_kinds_of_spec_error_have_examples():
    assert len(list(_sections())) >= 22
    assert {code for code, _, _ in _sections()} <= set(KINDS)


def _forms(page):
    for row in re.findall(r"(?m)^\| .* \|$", page.read_text(encoding="utf-8")):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        if len(cells) == 4 and re.fullmatch(r"[0-9 ]+", cells[3]):
            text = re.match(r"`([^`]+)`(?: with N = (\d+))?", cells[2])
            yield text.group(1), {"N": int(text.group(2))} if text.group(2) else {}, cells[3]


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "language.md"], ids=lambda page: page.name)
def test_the_tables_of_forms_say_what_runs(page):
    rows = list(_forms(page))
    assert len(rows) >= 9
    for text, bindings, executions in rows:
        assert " ".join(map(str, dg.route(text, bindings).path)) == executions


def test_the_mermaid_picture_is_the_one_that_is_drawn():
    from depthgraph.draw.mermaid import folded_mermaid

    text = (ROOT / "docs" / "drawing.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"(?ms)^```mermaid\n(.*?)^```", text)
    assert shown.strip() == folded_mermaid(dg.route("lft(5)")).strip()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lft5-staircase", "lft(5)"),
        ("lft24-staircase", "lft(24)"),
        ("huginn-staircase", "1..2 save(e) (mix(e) 3..6)x4 7..8"),
    ],
)
def test_staircases_in_the_docs_are_the_ones_that_are_drawn(name, text):
    shown = (ROOT / "docs" / "images" / f"{name}.svg").read_text(encoding="utf-8")
    assert shown.strip() == dg.route(text)._repr_svg_().strip()


def test_the_text_of_data_flow_in_the_docs_is_the_one_that_is_drawn():
    from depthgraph.draw import staircase_text

    text = (ROOT / "docs" / "drawing.md").read_text(encoding="utf-8")
    drawn = staircase_text(dg.route("1..2 save(e) (add(e) 3..4 exit)x3 stopgrad 5"), width=80)
    assert f"```\n{drawn}```" in text


def test_the_config_on_the_training_page_is_one(tmp_path):
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"(?ms)^```yaml\n(.*?)^```", text)
    path = tmp_path / "mine.yaml"
    path.write_text(shown)
    assert load_train_config(path).route == dg.route("1 (2..5)x2 6")


def _commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"(?ms)^```sh\n(.*?)^```", text):
        yield from re.findall(r"(?m)^(depthgraph .*?)(?: +#.*)?$", block)


# those with a model's folder are run by test_cli_hf
@pytest.mark.parametrize(
    "command", [each for each in _commands() if each.split()[1] != "train" and "MODEL_DIR" not in each]
)
def test_commands_of_the_readme_run(command, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    words = command.replace("depthgraph", f"{sys.executable} -m depthgraph", 1)
    result = subprocess.run(["bash", "-c", words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_the_readme_has_every_command():
    assert {command.split()[1] for command in _commands()} == {
        "show",
        "draw",
        "check",
        "schemes",
        "explore",
        "import",
        "export",
        "train",
        "hf",
    }
