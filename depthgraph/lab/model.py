"""From a training config to a model: the reference decoder, with its own layers or the user's."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from depthgraph.config import TrainConfig
from depthgraph.errors import ConfigError, meant
from depthgraph.loops import cut
from depthgraph.nn import Decoder
from depthgraph.parser import parse
from depthgraph.route import Route


def build_decoder(config: TrainConfig, route: Route | None = None) -> Decoder:
    """Return the config's model with fresh weights, which follow from the config's seed and not from the route.

    The counts of `config.loops` are arguments of the model; left out, they are those of the evaluation.

    Args:
        config: the settings.
        route: another route over the same layers, of fixed counts.

    Raises:
        SpecError: the route is none.
        ConfigError: the user's layer class cannot be used.
        CompileError: route and layers do not fit together.
    """
    layers = None
    if config.model.layer is not None:
        layer = load_layer_class(config.model.layer)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)  # the user's layers draw their weights from the global generator
            layers = [layer(config.model) for _ in range(config.model.parameter_depth)]
    if route is None and config.loops:
        spec, counts, last = parse(config.model.route), config.counts, cut(config.loops)
        return Decoder(
            config.model, spec, layers, seed=config.seed, dynamic=counts, bindings=config.bindings, backprop_last=last
        )
    return Decoder(config.model, route or config.route, layers, seed=config.seed)


def load_layer_class(place: str) -> type[nn.Module]:
    """Return the class that `file.py:Class` or `package.module:Class` names.

    Raises:
        ConfigError: there is no such file, module or class, or it is no `torch.nn.Module`.
    """
    where, _, name = place.rpartition(":")
    module = _from_file(Path(where)) if where.endswith(".py") else _from_package(where)
    if not hasattr(module, name):
        raise ConfigError("invalid-config", f"{where} has no class `{name}`", help=meant(name, vars(module)))
    found = getattr(module, name)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ConfigError("invalid-config", f"`{name}` of {where} is not a class of torch.nn.Module")
    return found


def _from_package(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError("missing-file", f"there is no module `{error.name}` for model.layer") from error


def _from_file(path: Path) -> ModuleType:
    """Import a file under a name of its own, once: its classes are then the same in every model."""
    name = f"depthgraph_layers_{path.absolute().as_posix().encode().hex()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError("missing-file", f"there is no file `{path}` for model.layer")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
