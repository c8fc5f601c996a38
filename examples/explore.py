"""Explores routes by hand: edits graphs in networkx, verifies, measures and compiles them over one set of layers.

Run it with `python examples/explore.py`. It asks: if one stretch of a small decoder may run twice, which one? Every
answer is a graph edited by hand, and all of them run on the same weights. (`dg.RouteSpace(5, executions=(6, 10),
patterns="self_merge")` has the same routes, without graphs: docs/exploring.md.)
"""

from itertools import combinations_with_replacement

import networkx as nx
import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional

import depthgraph as dg
from depthgraph.decoder_config import DecoderConfig
from depthgraph.decoder_cost import decoder_cost
from depthgraph.nn import Decoder

CONFIG = DecoderConfig(vocab_size=257, width=48, ffn_width=128, heads=4, parameter_depth=5, context=32)


def with_second_pass(graph: "nx.DiGraph[str]", first: int, last: int) -> "nx.DiGraph[str]":
    """Return the graph of the standard route with layers first..last run once more, right after their first run."""
    edited = graph.copy()
    end = f"L{last}.1"
    (after,) = edited.successors(end)
    edited.remove_edge(end, after)
    again = [f"again {layer}" for layer in range(first, last + 1)]  # any names do: renumbered gives the right ones
    for name, layer in zip(again, range(first, last + 1), strict=True):
        edited.add_node(name, kind="execution", layer=layer)
    nx.add_path(edited, [end, *again, after], kind="hidden")
    return dg.verify(dg.renumbered(edited))


def variants(depth: int) -> dict[tuple[int, int], dg.Route]:
    """Return every route in which one stretch of layers runs twice, by its ends."""
    graph = dg.graph(dg.route("...", N=depth))
    ends = combinations_with_replacement(range(1, depth + 1), 2)
    return {(first, last): dg.from_graph(with_second_pass(graph, first, last)) for first, last in ends}


def change(model: Decoder, standard: Decoder, tokens: torch.Tensor) -> float:
    """Return how far a route moves the predictions of the standard one, KL divergence in nats a token."""
    with torch.no_grad():
        found, expected = (functional.log_softmax(each(tokens), -1).flatten(0, 1) for each in (model, standard))
    return functional.kl_div(found, expected, reduction="batchmean", log_target=True).item()


def main() -> None:
    console = Console()
    routes = variants(CONFIG.parameter_depth)
    standard = Decoder(CONFIG, dg.route("...", N=CONFIG.parameter_depth), seed=0)
    layers = list(standard.body.layers)
    tokens = torch.randint(CONFIG.vocab_size, (4, 32), generator=torch.Generator().manual_seed(0))
    base = decoder_cost(CONFIG, standard.route).forward_flops

    table = Table(title=f"One stretch of {CONFIG.parameter_depth} layers, run twice")
    for column in ("route", "E", "multiplier", "FLOPs", "longest return", "change"):
        table.add_column(column, justify="left" if column == "route" else "right")
    for route in sorted(routes.values(), key=lambda route: (route.execution_depth, route.path)):
        model = Decoder(CONFIG, route, layers)  # the same module objects: nothing is copied
        model.load_state_dict(standard.state_dict())
        flops = f"× {decoder_cost(CONFIG, route).forward_flops / base:.2f}"
        row = (f"{route.execution_depth}", f"{route.multiplier:.2f}", flops, f"{dg.measures(route).longest_return}")
        table.add_row(str(route), *row, f"{change(model, standard, tokens):.1e}")
    console.print(table)

    broken = dg.graph(standard.route)
    broken.remove_edge("L2.1", "L3.1")
    console.print("\nA graph that is edited wrongly does not compile:\n")
    try:
        dg.compile(broken, layers)
    except dg.GraphError as error:
        console.print(str(error), markup=False, highlight=False)


if __name__ == "__main__":
    main()
