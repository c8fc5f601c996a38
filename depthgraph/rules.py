"""The rules that a graph must keep, as a table. Every rule is linear in the size of the graph."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from depthgraph.errors import shown
from depthgraph.facts import Facts
from depthgraph.flow import KINDS
from depthgraph.graph import BRANCH, EXECUTION, HIDDEN, INPUT, OUTPUT, REGISTER, read_iterations
from depthgraph.operations import MOST_NESTED, Add, Exit, Gate, Mean, Mix, StopGradient, Sum
from depthgraph.plan import Plan
from depthgraph.route import as_integer

#: What a rule yields: what was found, and the nodes it is about.
Found = Iterator[tuple[str, tuple[Any, ...]]]


def _attributes(facts: Facts) -> Found:
    """The graph and its nodes say what they are."""
    if facts.depth is None:
        found = facts.graph.graph.get("parameter_depth", "nothing")
        yield f"graph attribute `parameter_depth` is the number of layers, at least 1; found {shown(found)}", ()
    if facts.dropped is None:
        yield f"graph attribute `dropped` lists layers; found {shown(facts.graph.graph['dropped'])}", ()
    kinds = ", ".join(map(repr, ARITY))
    for node, kind in facts.kinds.items():
        if kind is None or kind not in ARITY:
            found = shown(facts.nodes[node].get("kind"))
            yield f"{_names([node])} has kind {found}; the kinds are {kinds}", (node,)
    for node, numbers in facts.executions.items():
        data = facts.nodes[node]
        if None in numbers:
            for name, number in zip(("layer", "visit"), numbers, strict=True):
                if number is None:
                    yield f"{_names([node])} has {name} {shown(data.get(name))}, which is not an integer", (node,)
        if read_iterations(data.get("iterations", ())) is None:
            yield f"{_names([node])} has iterations that are no list of (loop, number, count)", (node,)


def _one_input(facts: Facts) -> Found:
    """Exactly one node is the input."""
    nodes = facts.of_kind(INPUT)
    if len(nodes) != 1:
        yield f"there are {len(nodes)} input nodes, and a route has 1", tuple(nodes)


def _one_output(facts: Facts) -> Found:
    """Exactly one node is the output."""
    nodes = facts.of_kind(OUTPUT)
    if len(nodes) != 1:
        yield f"there are {len(nodes)} output nodes, and a route has 1", tuple(nodes)


def _acyclic(facts: Facts) -> Found:
    """No execution comes before itself."""
    if facts.order is None:
        import networkx as nx

        nodes = tuple(edge[0] for edge in nx.find_cycle(facts.graph))
        round_trip = f"{_names(nodes, ' → ')} → {_names(nodes[:1])}"
        yield f"{round_trip} is a cycle; a loop is one node per execution", nodes


#: How many edges of each kind a node of each kind takes; a join takes two branches or more.
ARITY: Mapping[str, Mapping[str, int]] = {
    INPUT: {},
    EXECUTION: {HIDDEN: 1},
    OUTPUT: {HIDDEN: 1},
    **{KINDS[kind]: {HIDDEN: 1, REGISTER: 1} for kind in (Add, Mix, Gate)},
    **{KINDS[kind]: {BRANCH: 2} for kind in (Mean, Sum)},
    **{KINDS[kind]: {HIDDEN: 1} for kind in (StopGradient, Exit)},
}

#: What the edges of each kind are called in messages.
EDGES = {HIDDEN: "input", REGISTER: "operand", BRANCH: "branch"}


def _arity(facts: Facts) -> Found:
    """A node has the inputs that its kind takes; output and exits feed nothing; edges say what they carry."""
    for node, counts in facts.inputs.items():
        wanted = ARITY.get(facts.kinds[node] or "")
        if wanted is None:
            continue
        for edge, name in EDGES.items():
            found, takes = counts[edge], wanted.get(edge, 0)
            if found != takes and not (edge == BRANCH and found > takes > 0):
                yield f"{_names([node])} has {_counted(found, name)} and takes {takes}", (node,)
    for node in (*facts.of_kind(OUTPUT), *facts.of_kind(KINDS[Exit])):
        if facts.outgoing[node]:
            what = "output" if facts.kinds[node] == OUTPUT else "exit"
            yield f"{_names([node])} is an {what} and feeds {_names(facts.outgoing[node])}", (node,)
    for start, end, fault in facts.odd_edges:
        yield f"the edge {_names([start, end], ' → ')} {fault}", (start, end)


def _reachable(facts: Facts) -> Found:
    """Everything is computed from the input."""
    missed = _missed(facts.kinds, facts.of_kind(INPUT), facts.outgoing)
    if missed:
        yield f"{_names(missed)} cannot be reached from the input", missed


def _used(facts: Facts) -> Found:
    """Everything that is computed leads to the output, or to an exit."""
    missed = _missed(facts.kinds, [*facts.of_kind(OUTPUT), *facts.of_kind(KINDS[Exit])], facts.incoming)
    if missed:
        verb = "does" if len(missed) == 1 else "do"
        yield f"{_names(missed)} {verb} not lead to the output", missed


def _known_layer(facts: Facts) -> Found:
    """Every layer is one of 1 … N."""
    if facts.depth is None:
        return
    for node, layer, _ in facts.layers:
        if not 1 <= layer <= facts.depth:
            yield f"{_names([node])} runs layer {layer}, and the layers are 1..{facts.depth}", (node,)
    for layer in facts.dropped or ():
        if not 1 <= layer <= facts.depth:
            yield f"layer {layer} is dropped, and the layers are 1..{facts.depth}", ()


def _every_layer(facts: Facts) -> Found:
    """Every layer is run, or dropped, and not both."""
    if facts.depth is None:
        return
    run, dropped = {layer for _, layer, _ in facts.layers}, set(facts.dropped or ())
    missing = _missing(run | dropped, facts.depth)
    if missing:
        verb = "is" if len(missing) == 1 and ".." not in missing[0] else "are"
        listed = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more stretches" if len(missing) > 8 else "")
        yield f"of the layers 1..{facts.depth}, {listed} {verb} neither run nor in the attribute `dropped`", ()
    for layer in sorted(run & dropped):
        yield f"layer {layer} is dropped and run", ()


def _missing(known: set[int], depth: int) -> list[str]:
    """Return the stretches of 1 … N that are not among some layers, without counting through them."""
    edges = [0, *sorted(layer for layer in known if 1 <= layer <= depth), depth + 1]
    gaps = [(before + 1, after - 1) for before, after in pairwise(edges) if after - before > 1]
    return [str(first) if first == last else f"{first}..{last}" for first, last in gaps]


def _visits(facts: Facts) -> Found:
    """The visits of a layer are numbered 1, 2, … in topological order."""
    seen: Counter[int] = Counter()
    for node in facts.order or ():
        layer, visit = facts.executions.get(node, (None, None))
        if layer is None:
            continue
        seen[layer] += 1
        if visit != seen[layer]:
            found = shown(facts.nodes[node].get("visit"))
            yield (
                f"{_names([node])} is visit {seen[layer]} of layer {layer}, and its attribute `visit` says {found}",
                (node,),
            )


def _numbers(facts: Facts) -> Found:
    """Exits are numbered 1, 2, … in topological order; so are the sites of mix, and of gate, where they first run."""
    known: Counter[str] = Counter()
    for node in facts.order or ():
        kind = facts.kinds[node] or ""
        name = {KINDS[Exit]: "index", KINDS[Mix]: "site", KINDS[Gate]: "site"}.get(kind)
        if name is None:
            continue
        found, following = as_integer(facts.nodes[node].get(name)), known[kind] + 1
        if found == following:
            known[kind] += 1
        elif name == "index" or found is None or not 1 <= found < following:
            given = shown(facts.nodes[node].get(name))
            again = f"{following}, or one before it" if name == "site" and following > 1 else following
            yield f"{_names([node])} has {name} {given}, and the next one is {again}", (node,)


def _branches(facts: Facts) -> Found:
    """The branches of a join are numbered 1, 2, …, and each runs a layer of its own."""
    for node, numbers in facts.ends.items():
        if sorted(numbers) != list(range(1, len(numbers) + 1)):
            listed = ", ".join(map(str, sorted(numbers)[:20]))
            yield f"{_names([node])} has branches {listed}, and they are numbered from 1", (node,)
            return
    if not facts.ends or facts.order is None or any(True for rule in SOUND for _ in rule(facts)):
        return
    plan = Plan(facts.graph)
    for join, stretches in plan.branches.items():
        for number, stretch in enumerate(stretches, 1):
            if not any(plan.kinds[place] == EXECUTION for place in stretch):
                node = plan.order[join]
                fault = "runs no layer; a branch has executions that lead nowhere else"
                yield f"branch {number} of {_names([node])} {fault}", (node,)
    if plan.nesting > MOST_NESTED:
        yield f"branches are nested {plan.nesting} deep, and at most {MOST_NESTED}", ()


#: What the branches of a join need before they can be told apart.
SOUND = (_attributes, _one_input, _one_output, _arity, _reachable, _used)

#: Every rule by name, in the order in which they are reported. docs/architecture.md has the list.
RULES: Mapping[str, Callable[[Facts], Found]] = {
    "attributes": _attributes,
    "one-input": _one_input,
    "one-output": _one_output,
    "acyclic": _acyclic,
    "arity": _arity,
    "reachable": _reachable,
    "used": _used,
    "known-layer": _known_layer,
    "every-layer": _every_layer,
    "visits": _visits,
    "numbers": _numbers,
    "branches": _branches,
}


def _missed(nodes: Iterable[Any], starts: list[Any], adjacency: Mapping[Any, Iterable[Any]]) -> tuple[Any, ...]:
    """Return the nodes that cannot be reached from `starts`."""
    reached = set(starts)
    todo = list(starts)
    while todo:
        for node in adjacency[todo.pop()]:
            if node not in reached:
                reached.add(node)
                todo.append(node)
    return tuple(node for node in nodes if node not in reached)


def _counted(count: int, name: str) -> str:
    plural = "" if count == 1 else "es" if name.endswith("ch") else "s"
    return f"{count} {name}{plural}"


def _names(nodes: Iterable[Any], separator: str = ", ") -> str:
    names = [f"`{node if isinstance(node, str) else shown(node)}`" for node in nodes]
    return separator.join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
