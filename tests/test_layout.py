"""The structure of the package: who imports whom, what is loaded when, how long files are."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import depthgraph

ROOT = Path(depthgraph.__file__).parent

#: A module imports only what stands above it. docs/architecture.md says what each is.
ORDER = [
    "source", "errors", "whole_file", "words", "operations", "valid", "flow", "route", "syntax", "well_formed", "unparse", "misread", "build", "parser", "schemes", "names", "terms", "listing", "scope",
    "outside", "sweep", "integers", "evaluate", "expand", "carried", "truncation", "symbols", "stretches", "repeats", "cutting", "canonical", "graph", "plan", "reading", "facts", "rules", "verify", "decoder_config", "costs", "decoder_cost", "yaml_file", "config_errors", "samplers", "loops",
    "config",
    "draw", "formats", "explore", "nn", "hf", "lab", "cli",
]  # fmt: skip

#: Values whose methods stand for a later stage of the road, which they load when called: str(route),
#: spec.expand(…), a route as a pydantic field, a route in a notebook.
METHODS = {
    ("route", "canonical"), ("route", "config"), ("route", "draw"), ("syntax", "expand"), ("syntax", "unparse"), ("syntax", "well_formed"),
}  # fmt: skip


def _modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] not in ("__init__", "__main__"):
            yield parts[0], path


def _imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "depthgraph":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "depthgraph":
                    yield parts[1] if len(parts) > 1 else "depthgraph"


def test_every_module_has_its_place_in_the_order():
    assert {name for name, _ in _modules()} - {"grammars"} == set(ORDER)


@pytest.mark.parametrize(("name", "path"), list(_modules()), ids=lambda value: str(value)[-40:])
def test_a_module_imports_only_what_stands_above_it(name, path):
    for imported in _imported(path):
        if imported in ("grammars", name, "__version__") or (name, imported) in METHODS:
            continue
        assert ORDER.index(imported) < ORDER.index(name), f"{path.name} imports {imported}"


HEAVY = {"torch", "transformers", "tokenizers", "safetensors", "networkx", "graphviz", "pygraphviz", "numpy", "lark"}


def _loaded(code):
    script = f"import sys\n{code}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_nothing_heavy():
    assert not _loaded("import depthgraph") & HEAVY


@pytest.mark.parametrize(
    "arguments", [["--help"], ["hf", "eval", "--help"], ["schemes"], ["show", "lft(24)"], ["check", "lft(5)"]]
)
def test_the_command_line_loads_no_torch(arguments):
    code = f"from depthgraph.cli import main\ntry:\n    main({arguments!r})\nexcept SystemExit as e:\n    assert not e.code"
    assert not _loaded(code) & (HEAVY - {"lark"} if arguments != ["--help"] else HEAVY)


@pytest.mark.parametrize("path", [path for _, path in _modules()], ids=lambda path: path.name)
def test_files_and_functions_stay_short(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            begin = node.body[0].end_lineno if ast.get_docstring(node) else node.lineno
            assert node.end_lineno - begin <= 45, f"{node.name} has {node.end_lineno - begin} lines"
