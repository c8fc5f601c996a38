"""The built wheel, installed elsewhere, has its grammars and works from there."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

SCRIPT = """
import pathlib, sys
import depthgraph as dg
here = pathlib.Path(sys.argv[1]).resolve()
assert here in pathlib.Path(dg.__file__).resolve().parents, dg.__file__
print(dg.route("lft(5)"))
print((pathlib.Path(dg.__file__).parent / "py.typed").exists())
"""


def test_a_wheel_finds_its_grammars(tmp_path):
    # a copy of the sources: building must leave nothing in the checkout
    source = tmp_path / "source"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if not name.startswith(("tests/", "docs/", ".ci/")) and (ROOT / name).is_file():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheels, installed = tmp_path / "wheels", tmp_path / "installed"
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(source)]
    subprocess.run([*pip, *build], check=True, capture_output=True)
    (wheel,) = wheels.glob("depthgraph-*.whl")
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", str(installed), str(wheel)], check=True, capture_output=True
    )
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(installed)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.split("\n") == ["1..2 (i..i+2 for i in 1..3)", "True", ""]
    modules = {path.relative_to(source) for path in (source / "depthgraph").rglob("*.py")}
    assert modules <= {path.relative_to(installed) for path in installed.rglob("*.py")}
