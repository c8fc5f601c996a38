"""What the commands on Hugging Face models are given, and what they make of it."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from depthgraph.cli.inputs import Given, check_all_used, is_binding, read_all, read_bindings
from depthgraph.errors import ConfigError, DepthGraphError
from depthgraph.route import Route
from depthgraph.syntax import RouteSpec

if TYPE_CHECKING:
    from depthgraph.hf.figures import Figures
    from depthgraph.hf.folder import Folder
    from depthgraph.hf.results import Results
    from depthgraph.hf.windows import Windows

#: Tokens of a window, and windows, where nothing is said.
LENGTH, WINDOWS = 512, 32

Dtype = Literal["auto", "float32", "bfloat16", "float16"]

FolderArgument = Annotated[Path, typer.Argument(metavar="MODEL_DIR", help="The folder of a model.")]
TextOption = Annotated[Path, typer.Option("--text", help="A text in UTF-8, read from its beginning.")]
LengthOption = Annotated[
    int | None,
    typer.Option("--length", min=1, help=f"Tokens of a window; {LENGTH}, or what the model takes if that is less."),
]
WindowsOption = Annotated[int, typer.Option("--windows", min=1, help="How many windows of the text at most.")]
BatchOption = Annotated[int, typer.Option("--batch", min=1, help="Windows at once.")]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu, cuda, mps …; auto is a GPU if there is one.")]
DtypeOption = Annotated[
    Dtype, typer.Option("--dtype", help="Of the numbers; auto is float32 on the CPU, elsewhere the checkpoint's.")
]


@dataclass(frozen=True)
class Named:
    """A route over the layers of a model.

    Attributes:
        title: as it was written.
        spec: its tree.
        route: it.
    """

    title: str
    spec: RouteSpec
    route: Route


def read_routes(words: Iterable[str], folder: "Folder") -> list[Named]:
    """Return the routes that words stand for, over a model's layers.

    Raises:
        ConfigError: `wrong-usage`, for a binding that no route has, or of N to another number than the model's.
        SpecError: a spec means no route over the model's layers.
    """
    told = list(words)
    bound = read_bindings(word for word in told if is_binding(word))
    N, name = folder.parameter_depth, folder.path.name
    given: list[Given] = []
    for word in told:
        for item in [] if is_binding(word) else read_all(word):
            if isinstance(item, DepthGraphError):
                raise item
            given.append(item)
    for said in (bound, *(item.bindings for item in given)):
        if said.get("N", N) != N:
            message = f"N is the number of layers of {name}, {N}, and is bound to {said['N']}"
            raise ConfigError("wrong-usage", message, help="leave N out")
    check_all_used(bound, given)
    return [_named(item, {**bound, "N": N}) for item in given]


def _named(item: Given, bound: Mapping[str, int]) -> Named:
    spec, route = item.route(bound)
    return Named(" ".join(spec.source.text.split()), spec, route)


@dataclass(frozen=True)
class Setting:
    """What routes of a model are compared on.

    Attributes:
        folder: of the model.
        windows: of the text.
        title: of the text.
        dtype: of the numbers, a torch one.
        device: a name that torch knows.
        batch: windows at once.
    """

    folder: "Folder"
    windows: "Windows"
    title: str
    text_hash: str
    dtype: Any
    device: str
    batch: int

    @classmethod
    def of(
        cls,
        folder: "Folder",
        text: Path,
        length: int | None,
        windows: int,
        batch: int,
        device: str,
        dtype: Dtype,
    ) -> "Setting":
        """Read the text and check the rest, before any weight is read.

        Raises:
            ConfigError: `missing-file`, `wrong-usage`, `invalid-config`.
        """
        from depthgraph.hf.windows import read_text, windows_of

        chosen = _device(device)
        found = read_text(text)
        tokenizer = folder.tokenizer()
        most = folder.most_tokens
        T = length or min(LENGTH, most or LENGTH)
        cut = windows_of(tokenizer, found, T, windows, str(text))
        if most is not None and cut.inputs.shape[1] > most:
            message = f"{folder.path.name} takes {most} tokens, and a window has {cut.inputs.shape[1]}"
            raise ConfigError("wrong-usage", message, help=f"--length {most - (cut.inputs.shape[1] - T)}")
        vocabulary = folder.config.get_text_config(decoder=True).vocab_size
        largest = int(max(cut.inputs.max(), cut.targets.max()))
        if largest >= vocabulary:
            message = f"the tokenizer of {folder.path} has a token {largest}, and the model {vocabulary} in all"
            raise ConfigError("invalid-config", message, help="put the model's own tokenizer into its folder")
        hashed = hashlib.sha256(found.encode()).hexdigest()
        return cls(folder, cut, text.name, hashed, _dtype(dtype, chosen, folder), chosen, batch)

    def results(self, out: Path | None) -> "Results":
        """Return the results in a folder, empty ones where it has none.

        Raises:
            ConfigError: `results-mismatch`: they are of something else.
        """
        from depthgraph.hf.results import Results

        if out is None:
            return Results(None, {})
        settings = {
            "model": self.folder.fingerprint(),
            "tokenizer": self.folder.tokenizer_fingerprint(),
            "text": self.text_hash,
            "length": self.windows.length,
            "batch": self.batch,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": self.device.partition(":")[0],
        }
        where = str(self.folder.path)
        return Results.at(out, settings, {"model": where, "tokenizer": where, "text": self.title})

    def figures(self) -> "Figures":
        """Count what the model's layers cost on a window."""
        from depthgraph.hf.figures import Figures

        return Figures.of(self.folder.without_data(), self.windows.inputs.shape[1])

    def load(self) -> Any:
        """Load the model."""
        return self.folder.load(dtype=self.dtype, device=self.device)

    @property
    def described(self) -> str:
        """What the figures are of, in a line."""
        count = len(self.windows)
        said = f"{count:,} window{'s' if count != 1 else ''} of {self.windows.length:,} tokens of {self.title}"
        return f"{said}{', all of it' if self.windows.whole else ''}"


def _device(name: str) -> str:
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        first = str(error).strip().partition("\n")[0]
        message = f"torch cannot compute on `{name}`: {first[:200]}"
        raise ConfigError("wrong-usage", message, help="--device cpu") from None
    return name


def _dtype(name: Dtype, device: str, folder: "Folder") -> Any:
    import torch

    if name != "auto":
        return getattr(torch, name)
    return torch.float32 if device == "cpu" else folder.dtype


def read_folder(path: Path) -> "Folder":
    """Read the settings of the model in a folder; threads that wait sleep, for a busy machine's sake.

    Raises:
        MissingPackageError: torch or transformers is not installed.
        ConfigError: `missing-file`, `invalid-config`.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads
    import depthgraph.hf  # noqa: F401  # first: where something is missing, it says what to install
    from depthgraph.hf.folder import Folder

    return Folder.read(path)
