"""The stages of the road as text and as data, in one table: what `show` prints."""

import dataclasses
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from depthgraph.flow import KINDS
from depthgraph.graph import build_graph
from depthgraph.operations import Add, DataFlow, Execution, Exit, Gate, Join, Load, Mix, Operation, Save
from depthgraph.route import Route, ranges
from depthgraph.schemes import library
from depthgraph.syntax import Call, Element, Expression, Node, RouteSpec, children

#: A spec of more executions than this is listed in part, unless one asks for a stage of it.
LISTED = 2_000


def measures(spec: RouteSpec, route: Route) -> dict[str, Any]:
    """Return everything that `show` says, as data."""
    return {
        "spec": str(spec),
        "route": str(route),
        "parameter_depth": route.parameter_depth,
        "execution_depth": route.execution_depth,
        "multiplier": route.multiplier,
        "reuse_map": list(route.reuse_map),
        "dropped": list(route.dropped),
        "path": list(route.path),
        "registers": list(dict.fromkeys(each.register for each in route.data_flow if isinstance(each, Save))),
        "exits": len(route.exits),
        "schemes": {scheme: text for scheme, text in _schemes(spec)},
    }


def summary(spec: RouteSpec, route: Route, width: int, *, ascii: bool = False) -> str:
    """Return what a spec means, for a reader."""
    from depthgraph.draw.staircase_text import staircase_text

    rows = [("spec", " ".join(spec.source.text.split())), ("canonical", str(route))]
    rows += [("scheme", text) for _, text in _schemes(spec)]
    rows += [
        ("layers", f"N = {route.parameter_depth}" + (f", dropped {_numbers(route.dropped)}" if route.dropped else "")),
        ("executions", f"E = {route.execution_depth}, {route.multiplier:.2f} × N"),
        ("reuse map", _cut(f"({', '.join(map(str, route.reuse_map))})")),
        ("path", _path(route)),
    ]
    text = "\n".join(row(title, value, width) for title, value in rows)
    if route.execution_depth > LISTED:
        return f"{text}\n\n{route.execution_depth:,} executions are too many to draw here"
    return f"{text}\n\n{staircase_text(route, width=width, ascii=ascii)}"


def row(title: str, value: str, width: int) -> str:
    """Return a title and what stands behind it, wrapped to a width."""
    lines = textwrap.wrap(value, max(20, width - 12), break_on_hyphens=False) or [""]
    return f"{title:<12}" + f"\n{'':<12}".join(lines)


def _path(route: Route) -> str:
    shown = " ".join(map(str, route.path[:LISTED]))
    return shown if route.execution_depth <= LISTED else f"{shown} … (the first {LISTED:,})"


def _cut(text: str) -> str:
    return text if len(text) <= 2_000 else f"{text[:2_000]}…"


def _numbers(layers: tuple[int, ...]) -> str:
    return " ".join(ranges(layers))


def _schemes(spec: RouteSpec) -> Iterator[tuple[str, str]]:
    """Yield the definitions of the library's schemes that a spec calls."""
    own = {item.name for item in spec.definitions}
    names = dict.fromkeys(
        call.name
        for body in (spec.body, *(item.body for item in spec.definitions))
        for call in _calls(body)
        if call.name not in own
    )
    for name in names:
        yield name, library()[name].text


def _calls(node: Element | Expression) -> Iterator[Call]:
    if isinstance(node, Call):
        yield node
    for child in children(node):
        yield from _calls(child)


def tree_text(spec: RouteSpec, route: Route) -> str:
    """Return the syntax tree, one node a line, children indented."""
    lines = list(_tree_lines(spec.body, 0))
    for item in spec.definitions:
        parameters = f"({', '.join(item.parameters)})" if item.parameters else ""
        lines += [f"where {item.name}{parameters} =", *_tree_lines(item.body, 1)]
    return "\n".join(lines)


def _tree_lines(node: Any, indent: int) -> Iterator[str]:
    if isinstance(node, tuple):
        for item in node:
            yield from _tree_lines(item, indent)
    elif isinstance(node, Node):
        fields = [field.name for field in dataclasses.fields(node) if field.name != "span"]
        leaves = {name: getattr(node, name) for name in fields if isinstance(getattr(node, name), str | int)}
        yield "  " * indent + " ".join([type(node).__name__, *(f"{name}={value}" for name, value in leaves.items())])
        for name in fields:
            if name not in leaves:
                yield from _tree_lines(getattr(node, name), indent + 1)
    elif node is not None:
        yield "  " * indent + str(node)


def tree_data(spec: RouteSpec, route: Route) -> Any:
    """Return the syntax tree as nested dicts with the names of the nodes."""
    return {"body": _node_data(spec.body), "definitions": [_node_data(item) for item in spec.definitions]}


def _node_data(node: Any) -> Any:
    if isinstance(node, tuple):
        return [_node_data(item) for item in node]
    if not isinstance(node, Node):
        return node
    fields = [field.name for field in dataclasses.fields(node) if field.name != "span"]
    return {"node": type(node).__name__} | {name: _node_data(getattr(node, name)) for name in fields}


def route_text(spec: RouteSpec, route: Route) -> str:
    """Return the operations, one a line.

    Of an execution: position, layer, visit, and the iteration of every loop around. Data flow is written as in a spec;
    a join stands behind its branches.
    """
    return "\n".join(["position  layer  visit  iterations", *_operation_lines(route.operations)])


def _operation_lines(operations: Iterable[Operation]) -> Iterator[str]:
    for each in operations:
        loops = " ".join(f"{loop.number}/{loop.count}" for loop in each.iterations)
        if isinstance(each, Execution):
            yield f"{each.position:>8}  {each.layer:>5}  {each.visit:>5}  {loops}".rstrip()
            continue
        if isinstance(each, Join):
            for number, branch in enumerate(each.branches, 1):
                yield f"          branch {number}"
                yield from _operation_lines(branch)
        yield f"          {_written(each):<12}  {loops}".rstrip()


def _written(operation: DataFlow) -> str:
    """Return an operation of data flow as in a spec; weights and exits by their numbers."""
    match operation:
        case Mix(register, number) | Gate(register, number):
            return f"{_word(operation)}({register}) {number}"
        case Save(register) | Load(register) | Add(register):
            return f"{_word(operation)}({register})"
        case Exit(index):
            return f"{_word(operation)} {index}"
        case _:
            return _word(operation)


def _word(operation: DataFlow) -> str:
    """Return the word of an operation in the language."""
    return {Save: "save", Load: "load", **KINDS}[type(operation)]


def route_data(spec: RouteSpec, route: Route) -> Any:
    """Return the operations as dicts; those of data flow have an `operation`, their word in the language."""
    return [_operation_data(each) for each in route.operations]


def _operation_data(each: Operation) -> dict[str, Any]:
    iterations = [loop._asdict() for loop in each.iterations]
    if isinstance(each, Execution):
        return {"position": each.position, "layer": each.layer, "visit": each.visit, "iterations": iterations}
    values = {name: getattr(each, name) for name in ("register", "site", "index") if hasattr(each, name)}
    if isinstance(each, Join):
        values["branches"] = [[_operation_data(one) for one in branch] for branch in each.branches]
    return {"operation": _word(each), **values, "iterations": iterations}


def graph_text(spec: RouteSpec, route: Route) -> str:
    """Return the graph's edges, one a line, with what they carry if it is not h as the node before has left it."""
    return "\n".join(f"{start} -> {end}{_carried(edge)}" for start, end, edge in build_graph(route).edges(data=True))


def _carried(edge: Mapping[str, Any]) -> str:
    parts = [f"branch {number}" for number in edge.get("branches", ())]
    parts += [
        f"{what} {edge[name]}" for name, what in (("load", "loaded from"), ("register", "register")) if name in edge
    ]
    return f"  ({', '.join(parts)})" if parts else ""


def graph_data(spec: RouteSpec, route: Route) -> Any:
    """Return the graph in networkx's node-link form."""
    import networkx as nx

    return nx.node_link_data(build_graph(route), edges="edges")


def code_text(spec: RouteSpec, route: Route) -> str:
    """Return the Python that the compiled module runs, over layers that take a hidden state alone."""
    from depthgraph.nn import compile  # first: where there is no torch, it says what to install

    # isort: split
    from torch.nn import Identity  # the code names layers and not what they are: any module stands for one

    layers = [Identity() for _ in range(route.parameter_depth)]
    return compile(route, layers, width=1).code.strip()


def code_data(spec: RouteSpec, route: Route) -> Any:
    """Return the generated Python in a dict."""
    return {"code": code_text(spec, route)}


Emitter = Callable[[RouteSpec, Route], Any]

#: stage → how it is printed as text, and as data.
STAGES: Mapping[str, tuple[Callable[[RouteSpec, Route], str], Emitter]] = {
    "tree": (tree_text, tree_data),
    "route": (route_text, route_data),
    "graph": (graph_text, graph_data),
    "code": (code_text, code_data),
}
