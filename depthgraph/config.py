"""What users write in files: pydantic models, and the checks that need no torch."""

import glob
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError, core_schema
from pydantic_core.core_schema import ValidationInfo

from depthgraph.config_errors import config_error
from depthgraph.decoder_config import PRESETS, DecoderConfig
from depthgraph.errors import ConfigError, SpecError
from depthgraph.expand import route_from_text
from depthgraph.loops import Loop, check_loops, evaluated, loop_fault
from depthgraph.parser import parse
from depthgraph.route import Route
from depthgraph.samplers import Count
from depthgraph.source import Source
from depthgraph.yaml_file import Document, read_yaml

#: The text that is at hand on every machine: Python's own language reference, as `help()` shows it.
PYDOC = "pydoc"


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class Settings(BaseModel):
    """Base of what users write: fixed once read, and no setting that does not exist."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelConfig(DecoderConfig):
    """The decoder to train: `DecoderConfig`, all of it or as changes to a preset.

    Attributes:
        preset: a name in `PRESETS`, whose sizes hold where this config gives none of its own.
        layer: the user's own layer class, `own_layers.py:ShiftLayer` (a file, from the config's folder) or
            `package.module:Class`; the model's layers are N calls of `Class(config)` with this config.
    """

    preset: str | None = None
    layer: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("preset"), str):
            return given
        # an unknown name is the one error to report then, not all the sizes that it leaves out
        preset = PRESETS.get(given["preset"], PRESETS["lft-2.5m"])
        return preset.model_dump() | given

    @field_validator("preset")
    @classmethod
    def _preset_is_known(cls, name: str | None) -> str | None:
        if name is not None and name not in PRESETS:
            known = {"name": name, "names": ", ".join(PRESETS)}
            raise PydanticCustomError("setting", "there is no preset `{name}`; the presets are {names}", known)
        return name

    @field_validator("layer")
    @classmethod
    def _layer_names_a_class(cls, layer: str | None) -> str | None:
        place, _, name = (layer or "a:A").rpartition(":")
        if not place or not name.isidentifier():
            message = "a layer is `file.py:Class` or `package.module:Class`; found `{layer}`"
            raise PydanticCustomError("setting", message, {"layer": layer})
        return layer


class DataConfig(Settings):
    """The text.

    Attributes:
        text: `pydoc`, or files and globs of them (`corpus/**/*.txt`), UTF-8, from the config's folder. Every file
            is a document; those of a glob come in the order of their names.
        validation: the part of the text, by characters, that is held out; it is taken from the end.
        validation_tokens: how many of the held-out tokens are evaluated, the first ones; all by default.
    """

    text: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)] = (PYDOC,)
    validation: float = Field(default=0.05, gt=0, lt=1)
    validation_tokens: Count | None = None


class OptimiserConfig(Settings):
    """AdamW (arXiv 1711.05101) with warm-up and cosine decay.

    Attributes:
        learning_rate: the highest one.
        betas: decay of the two moments.
        epsilon: added to the root of the second moment.
        weight_decay: for the matrices of the layers alone: not for norms and other vectors, nor for embeddings
            (as OLMo 2, arXiv 2501.00656).
        warmup: part of the steps in which the rate rises linearly.
        floor: the last rate, as a part of the highest one.
        clip: highest norm of the gradient of all parameters together; `null` for none.
    """

    learning_rate: float = Field(default=3e-3, gt=0, allow_inf_nan=False)
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    epsilon: float = Field(default=1e-8, gt=0, allow_inf_nan=False)
    weight_decay: float = Field(default=0.1, ge=0, allow_inf_nan=False)
    warmup: float = Field(default=0.1, ge=0, le=1)
    floor: float = Field(default=0.1, ge=0, le=1)
    clip: float | None = Field(default=1.0, gt=0, allow_inf_nan=False)


class TrainConfig(Settings):
    """One training run.

    Paths of what is read (`data.text`, `tokenizer`, `model.layer`) start from the folder of the config file; `out`
    starts from where the command runs.

    Attributes:
        model: the decoder, its route among its settings.
        bindings: values of the route's names; N is model.parameter_depth.
        loops: names of the route that are loop counts, each drawn anew at every step (docs/loops.md); the model is
            evaluated at `eval`.
        data: the text.
        tokenizer: path to a tokenizer.json; without one, a byte-level BPE of model.vocab_size tokens is trained on
            the training text.
        optimiser: AdamW and its schedule.
        batch: sequences in a step.
        length: tokens in a sequence.
        steps: updates of the weights.
        seed: of fresh weights, of the order of the data, and of dropout.
        log_every: steps between lines in the log.
        eval_every: steps between evaluations; there is one at the end anyway.
        checkpoint_every: steps between checkpoints; there is one at the start and one at the end anyway.
        threads: of torch on the CPU; its own choice by default. Runs are equal to the last bit only when it is.
        device: where torch computes, `cpu`, `cuda`, `mps` …; resuming is exact to the last bit on the CPU.
        out: the folder of the run.
    """

    model: ModelConfig
    bindings: dict[str, Annotated[int, Field(strict=True)]] = {}
    loops: dict[str, Loop] = {}
    data: DataConfig = DataConfig()
    tokenizer: str | None = None
    optimiser: OptimiserConfig = OptimiserConfig()
    batch: Count
    length: Count
    steps: Count
    seed: Annotated[int, Field(ge=0, lt=2**31, strict=True)] = 0
    log_every: Count = 10
    eval_every: Count = 100
    checkpoint_every: Count = 100
    threads: Count | None = None
    device: str = "cpu"
    out: str

    @field_validator("bindings")
    @classmethod
    def _depth_is_not_bound(cls, bindings: dict[str, int]) -> dict[str, int]:
        if "N" in bindings:
            raise PydanticCustomError("setting", "`N` is model.parameter_depth, and is not bound by hand")
        return bindings

    @field_validator("length")
    @classmethod
    def _learned_positions_reach(cls, length: int, info: ValidationInfo) -> int:
        model = info.data.get("model")
        if model is not None and model.positions == "learned" and length > model.context:
            found = {"length": length, "context": model.context}
            message = "sequences have {length} tokens, and the learned positions reach {context}"
            raise PydanticCustomError("setting", message, found)
        return length

    @field_validator("loops")
    @classmethod
    def _loops_are_the_routes(cls, loops: dict[str, Loop], info: ValidationInfo) -> dict[str, Loop]:
        model, bindings = info.data.get("model"), info.data.get("bindings", {})
        fault = None if model is None else loop_fault(loops, model.route, {**bindings, "N": model.parameter_depth})
        if fault is not None:
            raise PydanticCustomError("setting", "{fault}", {"fault": fault})
        return loops

    @property
    def counts(self) -> dict[str, int]:
        """The count of every loop at which the model is evaluated."""
        return evaluated(self.loops, self.model.route, {**self.bindings, "N": self.model.parameter_depth})

    @property
    def route(self) -> Route:
        """The route that model.route, the bindings and N mean, with every loop at the count of its evaluation.

        Raises:
            SpecError: they mean none.
        """
        return self.bound_route(self.model.route)

    def bound_route(self, text: str | Source) -> Route:
        """Return the route of a spec over this config's layers, with its bindings."""
        return route_from_text(text, {**self.bindings, **self.counts}, N=self.model.parameter_depth)


def load_train_config(path: str | Path) -> TrainConfig:
    """Read a training config from a YAML file, and check all that can be checked without torch.

    Paths in the result are absolute, but for `out`.

    Raises:
        ConfigError: `missing-file`, `invalid-yaml` or `invalid-config`, with the place in the file.
        SpecError: the route is none; with its place in the file.
    """
    document = read_yaml(path)
    try:
        config = TrainConfig.model_validate(document.data)
    except ValidationError as error:
        raise config_error(document, error, TrainConfig) from None
    written = isinstance(document.data["model"].get("route"), str)
    spec = document.source_of(("model", "route")) if written else config.model.route
    config.bound_route(spec)
    if config.loops:
        bound = {**config.bindings, "N": config.model.parameter_depth}
        check_loops(parse(spec), config.loops, bound)
    return _with_paths(document, config, Path(path).absolute().parent)


def _with_paths(document: Document, config: TrainConfig, base: Path) -> TrainConfig:
    """Return the config with absolute paths, of files that exist."""
    texts = [_found(document, ("data", "text"), base, text) for text in config.data.text]
    data = config.data.model_copy(update={"text": tuple(texts)})
    tokenizer, layer = config.tokenizer, config.model.layer
    if tokenizer is not None:
        tokenizer = _found(document, ("tokenizer",), base, tokenizer)
    if layer is not None and layer.rpartition(":")[0].endswith(".py"):
        file, _, name = layer.rpartition(":")
        layer = f"{_found(document, ('model', 'layer'), base, file)}:{name}"
    model = config.model.model_copy(update={"layer": layer})
    return config.model_copy(update={"data": data, "tokenizer": tokenizer, "model": model})


def _found(document: Document, keys: tuple[str, ...], base: Path, name: str) -> str:
    if name == PYDOC and keys == ("data", "text"):
        return name
    path = base / Path(name).expanduser()
    if not (path.is_file() or glob.glob(str(path), recursive=True)):
        source, span = document.place_of(keys)
        raise ConfigError("missing-file", f"there is no file `{path}`", source, span)
    return str(path)


def route_schema() -> Any:
    """Return the pydantic schema of `Route`: a spec or a route in, the route in Python, its text in JSON.

    A spec that is no route becomes an error of pydantic's own, whose message is ours, with the caret.
    """

    def read(value: object) -> Route:
        if isinstance(value, Route):
            return value
        if not isinstance(value, str):
            found = {"kind": type(value).__name__}
            raise PydanticCustomError("route", "a route is a spec, a string; found {kind}", found)
        try:
            return route_from_text(value)
        except SpecError as error:
            raise PydanticCustomError("route", "{error}", {"error": error.render()}) from error

    return core_schema.no_info_plain_validator_function(
        read,
        serialization=core_schema.to_string_ser_schema(when_used="json"),
        json_schema_input_schema=core_schema.str_schema(),
    )
