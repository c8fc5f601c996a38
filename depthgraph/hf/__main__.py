"""Run a tool that knows nothing of this package on checkpoints with a route.

    python -m depthgraph.hf lm_eval --model hf --model_args pretrained=DIR --tasks arc_easy
    python -m depthgraph.hf train.py --model_name_or_path DIR
    torchrun --nproc_per_node 2 -m depthgraph.hf train.py …

transformers' auto classes know a checkpoint with a route where `depthgraph.hf` is imported, and there is no setting by
which a tool could be told to import it. So this imports it, and then runs the module, or the file, as `python -m` and
`python` would.
"""

import runpy
import sys
from pathlib import Path

import depthgraph.hf  # noqa: F401

USAGE = "usage: python -m depthgraph.hf MODULE|FILE.py [its arguments]"


def main() -> None:
    """Run what the command line names, with the rest of the command line as its own."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(USAGE)
    del sys.argv[0]
    name = sys.argv[0]
    if name.endswith(".py"):
        sys.path.insert(0, str(Path(name).resolve().parent))
        runpy.run_path(name, run_name="__main__")
    else:
        runpy.run_module(name, run_name="__main__", alter_sys=True)


main()
