"""Model cards: what a page on the hub says of a model with a route."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import ModelCard, ModelCardData
from torch import nn

from depthgraph.draw.mermaid import folded_mermaid
from depthgraph.errors import ConfigError, DrawError
from depthgraph.hf.figures import Figures
from depthgraph.hf.meta import countable
from depthgraph.hf.reroute import restore, routed_top, routing_or_error
from depthgraph.hf.slots import Slots
from depthgraph.route import Route
from depthgraph.whole_file import write_whole

#: How a folder was saved: `save_pretrained`, `save_standalone` or `save_unrolled`.
Saved = Literal["pretrained", "standalone", "unrolled"]

#: Tokens that FLOPs are counted on, or as many as the model takes.
TOKENS = 1024

HEAD = """# {title}

This model runs its {N} layers in the order of a *route*, {E} executions in all{shares}:

    {route}

{picture}

| | |
|---|---|
{rows}

FLOPs are those of one forward of {tokens:,} tokens, divided by {tokens:,}. A multiplication and its addition are 2;
matrix products are counted and nothing else, attention with the pairs that the causal mask hides, the output head too.
"""

#: How a folder was saved → how it is loaded.
LOADING: Mapping[Saved, str] = {
    "pretrained": """## How to load it

```bash
pip install "depthgraph[hf]"
```

```python
import depthgraph.hf
from transformers import {auto}

model = {auto}.from_pretrained("{place}")
```

Without `import depthgraph.hf`, transformers refuses the folder: it would run another route.
`depthgraph.hf.from_pretrained("{place}", route="1..{N}")` runs the same weights under another one.
""",
    "standalone": """## How to load it

```python
from transformers import {auto}

model = {auto}.from_pretrained("{place}", trust_remote_code=True)
```

The code is in `modeling_depthgraph.py`, where the route can be read, and in `depthgraph_runtime.py`. It needs torch
and transformers. After `import depthgraph.hf`, where depthgraph is installed, no code of this folder runs, and the same
weights run under other routes too.
""",
    "unrolled": """## How to load it

```python
from transformers import {auto}

model = {auto}.from_pretrained("{place}")
```

Here every execution has a copy of its layer, so this is a plain model of {E} layers that any engine runs. It computes
what the model of {N} shared layers computes.
""",
}


def model_card(
    model: nn.Module, *, saved: Saved = "pretrained", title: str | None = None, place: str = "FOLDER", **counts: int
) -> ModelCard:
    """Describe a model with a route: the route, a picture of it, N, E, parameters, FLOPs, and how to load it.

    Args:
        model: of transformers, with a route.
        saved: how the folder is saved that it is for.
        title: of the card.
        place: the name under which it will be loaded.
        counts: of the loops whose count is chosen at run time; by default those that the model was trained with.

    Raises:
        CompileError: `no-compiled-route`, `loop-count`.
    """
    top, routing = routed_top(model), routing_or_error(model)
    route = routing.at(counts).route
    name = top._base.__name__
    figures, tokens = _figures(top), _tokens(top.config)
    text = HEAD.format(
        title=title or f"{name} under a route", N=route.parameter_depth, E=route.execution_depth, route=route,
        shares=": some layers run several times, with the same weights" if max(route.reuse_map) > 1 else "",
        picture=_picture(route), tokens=tokens,
        rows="\n".join(f"| {name} | {value} |" for name, value in _rows(routing, route, figures, saved).items()),
    )  # fmt: skip
    auto = "AutoModelForCausalLM" if name.endswith(("ForCausalLM", "LMHeadModel")) else "AutoModel"
    loading = LOADING[saved].format(auto=auto, place=place, N=route.parameter_depth, E=route.execution_depth)
    tags = ["depthgraph", "weight-sharing" if max(route.reuse_map) > 1 else "layer-order", type(top.config).model_type]
    pipeline = "text-generation" if auto == "AutoModelForCausalLM" else None
    data = ModelCardData(library_name="transformers", pipeline_tag=pipeline, tags=tags)
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}\n{loading}")


def save_card(model: nn.Module, folder: str | os.PathLike[str], **options: Any) -> Path | None:
    """Write a model card as README.md, where a folder has none.

    Args:
        model: as for `model_card`.
        folder: with a saved model.
        options: of `model_card`.

    Returns:
        the file; None where there was one, which stays as it is.
    """
    target = Path(folder) / "README.md"
    if target.exists():
        return None
    write_whole(target, str(model_card(model, **options)).encode(), ConfigError)
    return target


def _picture(route: Route) -> str:
    try:
        return f"```mermaid\n{folded_mermaid(route).strip()}\n```"
    except DrawError as error:
        return f"No picture: {error.message}."


def _tokens(config: Any) -> int:
    most = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    return min(TOKENS, most) if isinstance(most, int) and most > 0 else TOKENS


def _figures(model: Any) -> Figures:
    """Return the figures of a model."""
    twin: Any = countable(model)
    return Figures.of(restore(twin).eval(), _tokens(model.config))


def _rows(routing: Any, route: Route, figures: Figures, saved: Saved) -> dict[str, str]:
    """Return the table: what stands on the left, and on the right."""
    N, E = route.parameter_depth, route.execution_depth
    visits = ", ".join(map(str, route.reuse_map))
    rows = {"layers (N)": f"{N:,}", "executions (E)": f"{E:,}", "visits of the layers 1 … N": visits}
    T, flops, plain = figures.length, figures.flops_under(route), figures.flops
    rows |= {"parameters": f"{figures.parameters_under(route):,}"}
    if flops is not None and plain is not None:
        rows |= {"FLOPs a token": f"{round(flops / T):,}", "FLOPs a token without a route": f"{round(plain / T):,}"}
    else:
        rows |= {"FLOPs a token": f"not counted: {figures.fault}"}
    if saved != "unrolled":
        policy = routing.settings.kv_cache
        slots = len(Slots.of(route.path, N, policy).layers)
        rows |= {"slots of the KV cache": f"{slots:,} (`{policy}`)"}
    if saved == "pretrained" and routing.settings.counts:
        counts = ", ".join(f"`{name}={count}`" for name, count in routing.settings.counts.items())
        rows |= {"loop counts, chosen at every call": f"{routing.settings.route}; trained with {counts}"}
    return rows
