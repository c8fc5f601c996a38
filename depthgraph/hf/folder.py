"""A model in a folder, as commands read it: its settings first, its weights only when they are needed."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from depthgraph.errors import CompileError, ConfigError, DepthGraphError
from depthgraph.expand import route_from_text
from depthgraph.hf.config_class import Routed
from depthgraph.hf.find import find_layers
from depthgraph.hf.meta import countable
from depthgraph.hf.parts import routing_of
from depthgraph.hf.reroute import restore
from depthgraph.hf.settings import Settings
from depthgraph.route import Route

#: The types of models whose route is their own affair: `reroute` has no part in them.
OWN_TYPES = ("depthgraph",)
#: What a folder keeps weights in.
WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin")
#: What decides which tokens a text is.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "tokenizer_config.json")


@dataclass(frozen=True)
class Folder:
    """A folder with a model.

    Attributes:
        path: of the folder.
        config: as transformers reads it.
        parameter_depth: N.
        settings: of the route that the checkpoint was saved with; None for one without a route.
    """

    path: Path
    config: Any
    parameter_depth: int
    settings: Settings | None

    @classmethod
    def read(cls, path: Path) -> "Folder":
        """Read the settings of a model, and no weights.

        Raises:
            ConfigError: `missing-file`, `invalid-config`.
            CompileError: `unroutable-model`: its config says no number of layers.
            SpecError: the checkpoint's own route means none over its layers.
        """
        if not path.is_dir():
            help = "give the folder of a downloaded model: hf download NAME --local-dir DIR"
            raise ConfigError("missing-file", f"there is no folder {str(path)!r}", help=help)
        if not (path / "config.json").is_file():
            help = "a model's folder has config.json, weights and a tokenizer, as save_pretrained writes them"
            raise ConfigError("missing-file", f"there is no config.json in {str(path)!r}", help=help)
        config = _config(path)
        name = type(config).__name__
        if config.model_type in OWN_TYPES:
            message = f"{path} holds a reference decoder, whose route is set when it is built"
            raise CompileError(
                "unroutable-model", message, help="from_pretrained(…, route=…) builds it with another route"
            )
        depth = getattr(config.get_text_config(decoder=True), "num_hidden_layers", None)
        if not isinstance(depth, int):
            message = f"{name} says no `num_hidden_layers`, so {path} is no model whose layers a route can order"
            raise CompileError("unroutable-model", message, help="give a decoder: Llama, Qwen, Gemma, GPT-2 …")
        return cls(path, config, depth, Settings.of_config(config) if isinstance(config, Routed) else None)

    @property
    def own_route(self) -> Route:
        """The route of the checkpoint as it was saved: 1..N where none is said."""
        settings, N = self.settings, self.parameter_depth
        if settings is None:
            return route_from_text("1..N", N=N)
        bound = {"N": N, **(settings.bindings or {}), **(settings.counts or {})}
        return route_from_text(settings.route, bound)

    @property
    def dtype(self) -> torch.dtype:
        """The type of its numbers: what the config says, or single precision."""
        found = getattr(self.config, "dtype", None)
        found = getattr(torch, found, None) if isinstance(found, str) else found
        return found if isinstance(found, torch.dtype) else torch.float32

    def without_data(self) -> PreTrainedModel:
        """Build the model on the meta device, without its route: no weight is read, and none takes memory.

        Raises:
            ConfigError: `invalid-config`: transformers has no such causal language model.
            CompileError: `unroutable-model`.
        """
        with _told(self.path), quiet(), torch.device("meta"):
            model = AutoModelForCausalLM.from_config(self.config, dtype=self.dtype).eval()
        return self._plain(countable(model))

    def load(self, *, dtype: torch.dtype, device: str) -> PreTrainedModel:
        """Load the weights, under the checkpoint's own route if it has one.

        Raises:
            ConfigError: `invalid-config`: it cannot be loaded.
            CompileError: `unroutable-model`.
        """
        with _told(self.path), quiet():
            model = AutoModelForCausalLM.from_pretrained(self.path, dtype=dtype).eval().to(device)
        if self.settings is None:
            find_layers(model)
        return model

    def tokenizer(self) -> Any:
        """Load the tokenizer.

        Raises:
            ConfigError: `invalid-config`: there is none.
        """
        with _told(self.path), quiet():
            return AutoTokenizer.from_pretrained(self.path)

    @property
    def most_tokens(self) -> int | None:
        """How long a sequence may be; None where the config says nothing."""
        found = getattr(self.config.get_text_config(decoder=True), "max_position_embeddings", None)
        return found if isinstance(found, int) and found > 0 else None

    def _plain(self, model: PreTrainedModel) -> PreTrainedModel:
        if routing_of(model, None) is not None:
            restore(model)
        find_layers(model)
        return model

    def fingerprint(self) -> str:
        """Return a hash of what decides the model's outputs: its config and every byte of its weights."""
        return self._hash("config.json", *WEIGHT_FILES)

    def tokenizer_fingerprint(self) -> str:
        """Return a hash of the tokenizer's files."""
        return self._hash(*TOKENIZER_FILES)

    def _hash(self, *patterns: str) -> str:
        whole = hashlib.sha256()
        for path in sorted(path for pattern in patterns for path in self.path.glob(pattern)):
            with path.open("rb") as file:
                whole.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
        return whole.hexdigest()


def _config(path: Path) -> Any:
    try:
        json.loads((path / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError("invalid-config", f"{path / 'config.json'} is not JSON: {error}") from None
    with _told(path), quiet():
        return AutoConfig.from_pretrained(path)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what transformers says about a folder into an error of ours."""
    try:
        yield
    except DepthGraphError:
        raise
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, AttributeError) as error:
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        message = f"transformers cannot use {str(path)!r}: {first[:300]}"
        help = "a folder that AutoModelForCausalLM.from_pretrained loads is needed"
        raise ConfigError("invalid-config", message, help=help) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' bars and notes out of what a command prints; its errors are raised."""
    level, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
