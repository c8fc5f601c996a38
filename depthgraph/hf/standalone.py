"""Folders with a model, its route and the code that runs it: they load where this package is not installed."""

import json
import os
from pathlib import Path
from typing import Any

from torch import nn
from transformers.models.auto import modeling_auto

from depthgraph import __version__
from depthgraph.errors import CompileError, ConfigError
from depthgraph.hf.classes import RoutedTop
from depthgraph.hf.reroute import routing_or_error, unwrapped
from depthgraph.hf.written import CODE, RUNTIME, model_code, runtime_code
from depthgraph.route import Route
from depthgraph.whole_file import whole_folder


def save_standalone(model: nn.Module, folder: str | os.PathLike[str], *, tokenizer: Any = None, **counts: int) -> Path:
    """Save a model with a route so that it loads without this package.

    `AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)` runs it, with the same logits, and saves it
    again. Where this package is imported the folder is one like any other with a route: it loads without
    `trust_remote_code`, also under another route.

    The route is written out as Python, one line for every execution. So loop counts that are chosen at run time are
    fixed in the folder: nothing is there that could make the route of another one.

    Args:
        model: of transformers, with a route.
        folder: that does not exist, or is empty. It appears whole or not at all.
        tokenizer: to be saved with it.
        counts: of the loops whose count is chosen at run time; by default those that the model was trained with.

    Returns:
        the folder.

    Raises:
        CompileError: `no-compiled-route`, `loop-count`, or `unroutable-model` for a class that is none of transformers.
        ConfigError: `existing-files`, `missing-file`.
    """
    top, routing = routed_top(model), routing_or_error(model)
    if counts and not routing.counts:
        message = f"the model has no loop count {', '.join(f'`{name}`' for name in counts)}"
        raise CompileError("loop-count", message, help="its route is fixed: leave the counts out")
    route = routing.at(counts).route
    code, config_name, name = model_code(top, routing, route, __version__)
    classes = {"AutoConfig": config_name, **dict.fromkeys(auto_classes(top), name)}
    with whole_folder(Path(folder), ConfigError) as aside:
        top.save_pretrained(aside)
        if tokenizer is not None:
            tokenizer.save_pretrained(aside)
        _rewrite_config(aside / "config.json", route, name, {auto: f"{CODE}.{each}" for auto, each in classes.items()})
        (aside / f"{CODE}.py").write_text(code, encoding="utf-8")
        (aside / f"{RUNTIME}.py").write_text(runtime_code(__version__), encoding="utf-8")
    return Path(folder)


def _rewrite_config(file: Path, route: Route, name: str, auto_map: dict[str, str]) -> None:
    said = json.loads(file.read_text(encoding="utf-8"))
    said |= {"route": str(route), "loop_counts": None, "route_bindings": None}
    said |= {"architectures": [name], "auto_map": auto_map}
    file.write_text(json.dumps(said, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def routed_top(model: nn.Module) -> Any:
    """Return the model of transformers that has the route, out of its wrapper.

    Raises:
        CompileError: `no-compiled-route`: there is none, or in a part of the model only.
    """
    routing_or_error(model)
    top = unwrapped(model)
    if not isinstance(top, RoutedTop):
        message = f"a {type(top).__name__} is given, and a model inside it has the route"
        raise CompileError("no-compiled-route", message, help="give that model; of an adapter, `merge_and_unload()`")
    return top


def auto_classes(model: Any) -> list[str]:
    """Return the names of the auto classes that load a model's class, `AutoModelForCausalLM` first."""
    base, config, found = model._base, type(model.config).__mro__[2], []
    for name, auto in vars(modeling_auto).items():
        mapping = getattr(auto, "_model_mapping", None)
        if isinstance(auto, type) and auto.__name__ == name and mapping is not None and config in mapping:
            known = mapping[config]
            if base in (known if isinstance(known, tuple | list) else (known,)):
                found.append(name)
    return sorted(found, key=lambda name: name != "AutoModelForCausalLM")
