"""mergekit's passthrough merges: slices of one model, in a YAML config."""

from copy import deepcopy
from types import MappingProxyType

from depthgraph.formats.asked import Asked
from depthgraph.formats.given import Given
from depthgraph.formats.notation import Notation, Option
from depthgraph.formats.runs import rising, runs
from depthgraph.formats.values import Item, brief, plain
from depthgraph.route import Route

#: Settings that say nothing on which layers run in which order: read as options, and written as they are.
SETTINGS = ("base_model", "dtype", "out_dtype", "tokenizer_source", "tokenizer", "chat_template")
#: Settings that say something else than an order, each with what to do.
OTHERS = {
    "models": "whole models have no slices: write the layers as one, `layer_range: [0, N]`",
    "modules": "give the slices of one module, as `slices`",
    "parameters": "a route is an order alone and scales nothing",
    "residual_weight": "a route is an order alone and scales nothing",
}


def read(given: Given) -> Route:
    """Read the slices of a passthrough merge of one model."""
    return given.route(given.half_open(layers, "`layer_range`") for _, layers in _sources(given))


def options(given: Given) -> dict[str, object]:
    """Return what else the config says, as options of `write`: the model, dtype, tokenizer …"""
    config = _config(given)
    settings = {name: plain(config[name]) for name in SETTINGS if name in config}
    return {"model": plain(_sources(given)[0][0]), **settings}


def _config(given: Given) -> dict[str, Item]:
    config = _mapping(given, given.item, "a config")
    for name, value in config.items():
        if name not in ("slices", "merge_method", *SETTINGS):
            known = ", ".join(("slices", "merge_method", *SETTINGS))
            raise given.wrong(f"a config has no `{name}`", value, f"a passthrough merge has {known}")
    method = config.get("merge_method", Item(None))
    if method.value != "passthrough":
        help = "of the merge methods `passthrough` alone leaves the weights as they are"
        raise given.wrong(f"`merge_method` is {brief(method)}, not 'passthrough'", method, help)
    return config


def _mapping(given: Given, item: Item, what: str) -> dict[str, Item]:
    if not isinstance(item.value, dict):
        raise given.wrong(f"{what} is a mapping; found {brief(item)}", item)
    for name, value in item.value.items():
        if name in OTHERS:
            raise given.wrong(f"`{name}` is not a matter of a route", value, OTHERS[name])
    return item.value


def _sources(given: Given) -> list[tuple[Item, Item]]:
    """Return the model and the range of each slice; it is one model."""
    config = _config(given)
    if "slices" not in config:
        raise given.wrong("the config has no `slices`", given.item)
    sources = [_source(given, each) for each in given.items(config["slices"], "`slices`")]
    first = sources[0][0]
    for model, _ in sources:
        if plain(model) != plain(first):
            message = f"the slices are of two models, {brief(first)} and {brief(model)}"
            raise given.wrong(message, model, "a route is over the layers of one model")
    return sources


def _source(given: Given, item: Item) -> tuple[Item, Item]:
    _mapping(given, item, "a slice")
    (sources,) = given.fields(item, "a slice", ("sources",))
    each = given.items(sources, "`sources`")
    if len(each) != 1:
        raise given.wrong(f"a slice of a passthrough merge has one source; this one has {len(each)}", sources)
    _mapping(given, each[0], "a source")
    model, layers = given.fields(each[0], "a source", ("model", "layer_range"))
    return model, layers


def write(asked: Asked) -> dict[str, object]:
    """Write the config with the fewest slices."""
    slices = [
        {"sources": [{"model": deepcopy(asked.options["model"]), "layer_range": [first, last + 1]}]}
        for first, last in runs(asked.path, rising)
    ]
    settings = {name: asked.options[name] for name in SETTINGS if asked.options[name] is not None}
    return {"slices": slices, "merge_method": "passthrough", **settings}


def text(value: object) -> str:
    """Return a config as YAML, pairs on one line."""
    import yaml

    return yaml.safe_dump(value, sort_keys=False, default_flow_style=None, allow_unicode=True).rstrip("\n")


MERGEKIT = Notation(
    name="mergekit",
    title="mergekit passthrough slices",
    base=0,
    ends="the end of a layer_range is left out",
    example="""\
slices:
- sources:
  - model: NAME
    layer_range: [0, 4]
- sources:
  - model: NAME
    layer_range: [2, 5]
merge_method: passthrough""",
    inline="layer_range: [0, 4], then [2, 5]",
    weights="copied: the new model has the weights of a layer once for each of its executions, and trains them apart",
    cannot="data flow",
    checked="mergekit 0.1.5: config.py, plan.py, passthrough",
    read=read,
    write=write,
    text=text,
    read_options=options,
    options=MappingProxyType(
        {
            "model": Option("the model's name or path", writes=True, required=True),
            **{name: Option(f"the config's `{name}`", writes=True) for name in SETTINGS},
        }
    ),
)
