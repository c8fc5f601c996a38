"""Folders with a model, its route and the code that runs it: they load where this package is not installed."""

import copy
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers.models.auto import modeling_auto

from depthgraph import __version__
from depthgraph.errors import ConfigError, shown
from depthgraph.hf.card import save_card
from depthgraph.hf.find import unroutable
from depthgraph.hf.parts import WEIGHTS
from depthgraph.hf.reroute import routed_top, routing_or_error
from depthgraph.hf.routing import Routing
from depthgraph.hf.settings import unset_route
from depthgraph.hf.written import CODE, RUNTIME, model_code, runtime_code
from depthgraph.route import Route
from depthgraph.whole_file import whole_folder

#: What tokenizers of transformers, and of engines beside it, keep in a model's folder.
TOKENIZER_FILES = (
    "tokenizer*", "vocab.*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "chat_template*",
    "*.model", "*.tiktoken",
)  # fmt: skip


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
        tokenizer: to be saved with it; or a folder whose tokenizer's files are copied as they are.
        counts: of the loops whose count is chosen at run time; by default those that the model was trained with.

    Returns:
        the folder.

    Raises:
        CompileError: `no-compiled-route`, `loop-count`, or `unroutable-model` for a class that is none of transformers.
        ConfigError: `existing-files`, `missing-file`.
    """
    top, routing = routed_top(model), routing_or_error(model)
    route = routing.at(counts).route
    check_weights(top, routing)
    code, config_name, name = model_code(top, routing, route, __version__)
    classes = {"AutoConfig": config_name, **dict.fromkeys(auto_classes(top), name)}
    with whole_folder(Path(folder), ConfigError) as aside:
        top.save_pretrained(aside)
        save_tokenizer(tokenizer, aside)
        _rewrite_config(aside / "config.json", route, name, {auto: f"{CODE}.{each}" for auto, each in classes.items()})
        (aside / f"{CODE}.py").write_text(code, encoding="utf-8")
        (aside / f"{RUNTIME}.py").write_text(runtime_code(__version__), encoding="utf-8")
        save_card(top, aside, saved="standalone", place=Path(folder).name, **counts)
    return Path(folder)


def _rewrite_config(file: Path, route: Route, name: str, auto_map: dict[str, str]) -> None:
    said = json.loads(file.read_text(encoding="utf-8"))
    said |= {"route": str(route), "loop_counts": None, "route_bindings": None}
    said |= {"architectures": [name], "auto_map": auto_map}
    file.write_text(json.dumps(said, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Save a tokenizer, or copy the files of one from another folder, which may have none; None for none.

    Raises:
        ConfigError: `missing-file` for a folder that is not there; `invalid-config` for what is no tokenizer.
    """
    if isinstance(tokenizer, str | os.PathLike):
        if not Path(tokenizer).is_dir():
            message = f"there is no folder {os.fspath(tokenizer)!r} to take a tokenizer from"
            raise ConfigError("missing-file", message, help="give the folder of a model, or a tokenizer")
        for file in sorted({file for pattern in TOKENIZER_FILES for file in Path(tokenizer).glob(pattern)}):
            shutil.copyfile(file, folder / file.name)
    elif hasattr(tokenizer, "save_pretrained"):
        tokenizer.save_pretrained(folder)
    elif tokenizer is not None:
        message = f"`tokenizer` is a tokenizer of transformers, or a folder with one; found {shown(tokenizer)}"
        raise ConfigError("invalid-config", message, help="AutoTokenizer.from_pretrained(folder)")


def check_weights(model: Any, routing: Routing) -> None:
    """Refuse a model whose weights are not those of its class, as one with adapters in it: they would not load.

    Raises:
        CompileError: `unroutable-model`.
    """
    config = copy.deepcopy(model.config)
    unset_route(config)
    with torch.device("meta"):
        plain = model._base(config)
    own = ".".join(filter(None, (routing.layers.path, WEIGHTS))) + "."
    found = {name for name in model.state_dict() if not name.startswith(own)}
    others = sorted(found ^ set(plain.state_dict()))
    if others:
        reason = f"its weights have other names than those of its class, among them `{others[0]}`"
        raise unroutable(model, reason, "merge adapters into it first: `merge_and_unload()` in PEFT")


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
