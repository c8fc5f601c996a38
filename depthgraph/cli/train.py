"""`depthgraph train`: train the reference decoder under a config's route."""

import os
from pathlib import Path
from typing import Annotated

import typer

from depthgraph.cli.console import data, data_json
from depthgraph.cli.inputs import JsonOption

ConfigArgument = Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="A training config.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint of the config's folder.")]


def train(config: ConfigArgument, resume: ResumeOption = False, as_json: JsonOption = False) -> None:
    """Train the reference decoder under the route of a config file."""
    # before torch loads: threads that wait must sleep, or a busy neighbour slows training ten times and more
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from depthgraph.config import load_train_config
    from depthgraph.lab import train as run

    result = run(load_train_config(config), resume=resume)
    if as_json:
        data_json(result.as_json())
    else:
        data(result.summary())
