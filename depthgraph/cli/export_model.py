"""`depthgraph export --standalone` and `--unrolled`: a Hugging Face model that runs its route without this package."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from depthgraph.cli.console import data, data_json
from depthgraph.cli.hf_options import read_folder, read_routes
from depthgraph.cli.inputs import read_bindings
from depthgraph.errors import ConfigError
from depthgraph.whole_file import check_new_folder

if TYPE_CHECKING:
    from depthgraph.hf.folder import Folder

Kind = Literal["standalone", "unrolled"]


def kind_of(standalone: bool, unrolled: bool) -> Kind | None:
    """Return which of the two is asked for; None for neither.

    Raises:
        ConfigError: `wrong-usage` for both.
    """
    if standalone and unrolled:
        help = "--standalone brings the code of the route, --unrolled a copy of a layer for every execution"
        raise ConfigError("wrong-usage", "a model is exported --standalone or --unrolled", help=help)
    return "standalone" if standalone else "unrolled" if unrolled else None


def export_model(kind: Kind, words: Sequence[str], route: str | None, as_json: bool) -> None:
    """Export the model in a folder to another folder.

    Args:
        kind: of export.
        words: MODEL_DIR, OUT, and loop counts or names of the route.
        route: instead of the checkpoint's own.
        as_json: what is printed.
    """
    if len(words) < 2:
        raise ConfigError("wrong-usage", f"--{kind} needs two folders", help=f"export --{kind} MODEL_DIR OUT")
    source, target, *bindings = words
    check_new_folder(Path(target), ConfigError)
    folder = read_folder(Path(source))
    counts = _counts(folder, bindings) if route is None else {}
    named = None if route is None else read_routes([route, *bindings], folder)
    if named is not None and len(named) != 1:
        raise ConfigError("wrong-usage", f"{route} has {len(named)} routes", help="give one of them as a spec")
    from depthgraph.hf import reroute, save_standalone, save_unrolled
    from depthgraph.hf.folder import quiet

    with quiet():
        model: Any = folder.load(dtype=folder.dtype, device="cpu")
        if named is not None:
            reroute(model, named[0].route)
        save = save_standalone if kind == "standalone" else save_unrolled
        save(model, target, tokenizer=folder.path, **counts)
    run = model.routing.at(counts).route
    if as_json:
        N, E = run.parameter_depth, run.execution_depth
        data_json({"folder": target, "kind": kind, "route": str(run), "layers": N, "executions": E})
    else:
        data(target)


def _counts(folder: "Folder", words: Sequence[str]) -> dict[str, int]:
    """Return the loop counts that are said behind the folders, for a checkpoint with a route of its own."""
    bound, settings = read_bindings(words), folder.settings
    if settings is None:
        message = f"the model in {folder.path} has no route, and none is given"
        raise ConfigError("wrong-usage", message, help='say it: --route "block(2..4)x2"')
    for name in bound:
        if name not in (settings.counts or {}):
            known = ", ".join(settings.counts or {}) or "none"
            raise ConfigError("wrong-usage", f"the route has no loop count `{name}`", help=f"its counts are {known}")
    return bound
