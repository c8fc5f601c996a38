"""A Hydra app: its config names a route once, and the model and the cache read it from there. Run by test_hydra.py."""

import json
from dataclasses import dataclass, field

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

import depthgraph as dg
from depthgraph.config import ModelConfig


@dataclass
class Model:
    """Settings of the model: a field that is declared as `str` keeps a lone number a text."""

    parameter_depth: int = 4
    route: str = "..."


@dataclass
class App:
    """The config: what reads the route says where it stands."""

    model: Model = field(default_factory=Model)
    reported: str = "${model.route}"


ConfigStore.instance().store(name="schema", node=App)


@hydra.main(version_base=None, config_path=".", config_name="hydra_app")
def main(config: App) -> None:
    """Print the route that ran, and what the config said."""
    model = ModelConfig.model_validate({"preset": "lft-2.5m", **OmegaConf.to_container(config.model)})
    path = dg.route(model.route, N=model.parameter_depth).path
    print("RAN", json.dumps({"said": config.model.route, "reported": config.reported, "path": path}))


if __name__ == "__main__":
    main()
