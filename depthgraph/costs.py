"""What a route costs, as plain data: parameters, FLOPs, KV cache, saved activations. docs/cost.md has the conventions.

`dg.cost` counts these figures on layers; nothing here needs torch.
"""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from depthgraph.route import Route

#: How attention is computed: by plain matrix products, or by one kernel that does not keep the scores.
Attention = Literal["products", "fused"]

#: A table shows so many layers at each end, and says how many are between.
SHOWN_AT_AN_END = 24


@dataclass(frozen=True, slots=True)
class Flops:
    """FLOPs of one pass; a multiplication and the addition after it are 2.

    Attributes:
        total: all that are counted, attention whole.
        attention: those of attention's two products, scores and mixing, part of the total.
        masked: those on pairs of a query and a later key where attention was told to be causal, part of both.
    """

    total: int = 0
    attention: int = 0
    masked: int = 0

    @property
    def causal(self) -> int:
        """What is left when no pair is computed that the causal mask hides: T(T + 1) / 2 pairs of T²."""
        return self.total - self.masked

    def __add__(self, other: "Flops") -> "Flops":
        return Flops(self.total + other.total, self.attention + other.attention, self.masked + other.masked)

    def __mul__(self, times: int) -> "Flops":
        return Flops(self.total * times, self.attention * times, self.masked * times)


@dataclass(frozen=True, slots=True)
class PartCost:
    """What one layer, or one kind of operation between layers, costs over all its runs in a route.

    Attributes:
        name: `layer 2 (DecoderLayer)`, `mix`.
        layer: its number; None for an operation.
        runs: how often it runs: the visits of a layer.
        parameters: each once.
        forward: FLOPs of all runs.
        backward: FLOPs of their backward.
        kv_bytes: of all runs; None where no attention was seen.
    """

    name: str
    layer: int | None
    runs: int
    parameters: int
    forward: Flops
    backward: Flops
    kv_bytes: int | None


@dataclass(frozen=True)
class Cost:
    """What the layers of a model cost under one route. Embeddings, output head and loss are no part of it.

    Attributes:
        route: what runs.
        batch: B, sequences.
        length: T, tokens in a sequence.
        attention: how attention is taken to be computed.
        parameters: of all layers and operations, each once, as in the compiled model; dropped layers are among them.
        unused_parameters: those of them that nothing reads: of layers that are dropped.
        unshared_parameters: what they would be if every execution had weights of its own.
        forward: FLOPs of the forward pass of a batch.
        backward: FLOPs of the backward pass.
        kv_bytes: of the keys and values of a batch at this length, one slot an execution; None where attention
            cannot be seen in some layer.
        shared_kv_bytes: the same with one slot a layer, which all its visits share.
        saved_bytes: of the activations that autograd keeps from forward to backward.
        parts: the layers that run, in order, then the operations.
    """

    route: Route
    batch: int
    length: int
    attention: Attention
    parameters: int
    unused_parameters: int
    unshared_parameters: int
    forward: Flops
    backward: Flops
    kv_bytes: int | None
    shared_kv_bytes: int | None
    saved_bytes: int
    parts: tuple[PartCost, ...]

    @property
    def tokens(self) -> int:
        """Tokens in a batch, B · T."""
        return self.batch * self.length

    @property
    def visits(self) -> tuple[int, ...]:
        """Executions of each layer, 1 … N: the route's reuse map."""
        return self.route.reuse_map

    @property
    def training(self) -> Flops:
        """FLOPs of a training step: forward and backward."""
        return self.forward + self.backward

    @property
    def forward_flops(self) -> int:
        """FLOPs of the forward pass, attention whole."""
        return self.forward.total

    @property
    def training_flops(self) -> int:
        """FLOPs of a training step, attention whole."""
        return self.training.total

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as plain data, ready for JSON."""
        route = self.route
        measures = {"route": str(route), "parameter_depth": route.parameter_depth}
        measures |= {"execution_depth": route.execution_depth, "visits": list(self.visits)}
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("route", "parts")}
        return measures | _plain(own) | {"parts": [_plain(_named(part)) for part in self.parts]}

    def __str__(self) -> str:
        title, figures, parts = self._tables()
        return "\n".join([title, "", *_aligned(figures), "", *_aligned(parts)])

    def _repr_html_(self) -> str:
        title, *tables = self._tables()
        return f"<p>{html.escape(title)}</p>" + "".join(map(_html_table, tables))

    def _tables(self) -> tuple[str, list[list[str]], list[list[str]]]:
        route = self.route
        text = str(route) if len(str(route)) <= 60 else f"{str(route)[:60]}…"
        title = (
            f"{text} · N = {route.parameter_depth}, E = {route.execution_depth} · B = {self.batch}, T = {self.length}"
            f" · attention {'fused' if self.attention == 'fused' else 'by plain products'}"
        )
        return title, list(self._figures()), list(_part_rows(self.parts))

    def _figures(self) -> Iterator[list[str]]:
        yield ["", "", "", ""]
        unused = f"{self.unused_parameters:,} in dropped layers" if self.unused_parameters else ""
        yield ["parameters", f"{self.parameters:,}", f"{self.unshared_parameters:,} if unshared", unused]
        for name, flops in (("forward FLOPs", self.forward), ("training FLOPs", self.training)):
            yield [name, f"{flops.total:,}", f"{flops.causal:,} causal", f"{flops.attention:,} of them attention"]
        shared = "" if self.shared_kv_bytes is None else f"{self.shared_kv_bytes:,} with one slot a layer"
        yield ["KV cache, bytes", _shown(self.kv_bytes), shared, ""]
        yield ["saved, bytes", f"{self.saved_bytes:,}", "", ""]


def _named(part: PartCost) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(part)}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"total": value.total, "attention": value.attention, "masked": value.masked, "causal": value.causal}
        if isinstance(value, Flops)
        else value
        for name, value in values.items()
    }


def _shown(figure: int | None) -> str:
    return "not seen" if figure is None else f"{figure:,}"


def _part_rows(parts: Sequence[PartCost]) -> Iterator[list[str]]:
    yield ["", "runs", "parameters", "forward FLOPs", "training FLOPs", "KV bytes"]
    left_out = len(parts) - 2 * SHOWN_AT_AN_END
    for index, part in enumerate(parts):
        if left_out > 1 and SHOWN_AT_AN_END <= index < len(parts) - SHOWN_AT_AN_END:
            if index == SHOWN_AT_AN_END:
                yield [f"… {left_out} more", "", "", "", "", ""]
            continue
        training = part.forward + part.backward
        figures = (part.runs, part.parameters, part.forward.total, training.total)
        yield [part.name, *(f"{figure:,}" for figure in figures), _shown(part.kv_bytes)]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, the first column to the left, the others to the right."""
    rows = [row for row in rows if any(row)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _html_table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    tags = [("th", head)] * any(head) + [("td", row) for row in body]
    lines = ("".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) for tag, row in tags)
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
