"""`depthgraph hf show`: what a model is, and what a route over its layers means and costs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from depthgraph.cli import stages
from depthgraph.cli.console import console, data, data_json, plain
from depthgraph.cli.hf_options import LENGTH, FolderArgument, LengthOption, Named, read_folder, read_routes
from depthgraph.cli.inputs import JsonOption
from depthgraph.errors import ConfigError
from depthgraph.route import ranges

if TYPE_CHECKING:
    from depthgraph.hf.figures import Figures
    from depthgraph.hf.folder import Folder

RouteOption = Annotated[
    str | None,
    typer.Option("--route", metavar="SPEC", help="Over the model's layers; by default the checkpoint's own, or 1..N."),
]
BindingArguments = Annotated[
    list[str] | None, typer.Argument(metavar="NAME=INTEGER", show_default=False, help="Names of the spec: r=4.")
]
POLICIES = ("per_execution", "last_visit")


def show(
    model_dir: FolderArgument,
    bindings: BindingArguments = None,
    route: RouteOption = None,
    length: LengthOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a model is and what a route over its layers means and costs; no weight is read.

    FLOPs are those of a forward pass of --length tokens, a token: the whole model with its output matrix, attention as
    two whole matrix products. KV-cache bytes are what a token adds in the checkpoint's dtype, with one slot for each
    execution (per_execution) or for each layer (last_visit, which changes the result).
    """
    folder = read_folder(model_dir)
    named = _named(folder, bindings or [], route)
    from depthgraph.hf.figures import Figures

    figures = Figures.of(folder.without_data(), length or min(LENGTH, folder.most_tokens or LENGTH))
    if as_json:
        data_json(_json(folder, figures, named))
    else:
        width = console().width
        head = "\n".join(stages.row(title, text, width) for title, text in _rows(folder, figures, named))
        data(f"{head}\n\n{stages.summary(named.spec, named.route, width, ascii=plain())}")


def _named(folder: "Folder", words: list[str], text: str | None) -> Named:
    """Return the route that is asked for."""
    if text is not None:
        found = read_routes([text, *words], folder)
        if len(found) != 1:
            raise ConfigError("wrong-usage", f"{text} has {len(found)} routes", help="give one of them as a spec")
        return found[0]
    if words:
        message = f"`{words[0]}` is no option, and no name of a route that is given"
        raise ConfigError("wrong-usage", message, help='give a route: --route "1..2 (3..6)x r 7..N" r=4')
    return read_routes([folder.own_route.text], folder)[0]


def _rows(folder: "Folder", figures: "Figures", named: Named) -> Iterator[tuple[str, str]]:
    route, config = named.route, figures.model.config.get_text_config(decoder=True)
    dtype = str(folder.dtype).removeprefix("torch.")
    shape = f"N = {figures.parameter_depth}, d = {figures.width:,}, vocabulary {config.vocab_size:,}, {dtype}"
    yield "model", f"{type(figures.model).__name__}: {shape}"
    if folder.settings is not None:
        yield "saved with", _saved(folder)
    for kind, layers in figures.attention.items():
        yield "layers", f"{kind}: {' '.join(ranges(layers))}"
    whole, own = figures.parameters_under(route), figures.parameters_under(route) - figures.parameters
    yield "parameters", f"{whole:,}, each once" + (f"; {own:,} of them the route's own" if own else "")
    flops, base = figures.flops_under(route), figures.flops
    if flops is None or base is None:
        yield "FLOPs", f"not counted, nor the cache: {figures.fault}"
        return
    ratio = f"{flops / base:.3f} × the {_short(base / figures.length)} of 1..N"
    yield "FLOPs", f"{_short(flops / figures.length)} a token at {figures.length:,} tokens, {ratio}"
    yield "KV cache", "; ".join(_cache(figures, named))


def _saved(folder: "Folder") -> str:
    settings = folder.settings
    assert settings is not None
    counts = ", ".join(f"{name}={count}" for name, count in (settings.counts or {}).items())
    return f"{settings.route}" + (f", trained with {counts}" if counts else "") + f", {settings.kv_cache}"


def _cache(figures: "Figures", named: Named) -> Iterator[str]:
    plain = figures.kv_bytes
    if plain is None:
        yield "its layers keep no keys and values alone, so no figure"
        return
    for policy, slots in (("per_execution", named.route.execution_depth), ("last_visit", len(set(named.route.path)))):
        size = figures.kv_bytes_under(named.route, policy)  # type: ignore[arg-type]
        yield f"{policy} {slots} slots, {size:,} bytes a token"
    yield f"{sum(plain):,} of 1..N"


def _short(number: float) -> str:
    for name, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:,.0f}"


def _over(flops: int | None, tokens: int) -> float | None:
    return None if flops is None else flops / tokens


def _json(folder: "Folder", figures: "Figures", named: Named) -> dict[str, Any]:
    route, T = named.route, figures.length
    return {
        "model": type(figures.model).__name__,
        "width": figures.width,
        "vocabulary": figures.model.config.get_text_config(decoder=True).vocab_size,
        "dtype": str(folder.dtype).removeprefix("torch."),
        "saved_route": folder.settings and folder.settings.route,
        "layer_kinds": {kind: list(layers) for kind, layers in figures.attention.items()},
        "parameters": figures.parameters_under(route),
        "plain_parameters": figures.parameters,
        "length": T,
        "flops_per_token": _over(figures.flops_under(route), T),
        "plain_flops_per_token": _over(figures.flops, T),
        "kv_bytes_per_token": {policy: figures.kv_bytes_under(route, policy) for policy in POLICIES},  # type: ignore[arg-type]
        "plain_kv_bytes_per_token": figures.kv_bytes and sum(figures.kv_bytes),
        **stages.measures(named.spec, route),
    }
