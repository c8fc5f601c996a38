"""Mermaid flowcharts, which READMEs on many sites show as pictures."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import assert_never

from depthgraph.draw.folded import Line, lines_of, node_name
from depthgraph.draw.folding import folded
from depthgraph.draw.labels import Names, labels
from depthgraph.draw.palette import BAND, FAINT, FLOW, INK, LINE, LOOP, PAPER, TERMINAL, fill
from depthgraph.draw.structure import Branches, Item, Loop, Step, joins, tree
from depthgraph.draw.summary import refuse_large
from depthgraph.draw.words import label_of, register_name
from depthgraph.flow import State
from depthgraph.operations import Execution, Exit
from depthgraph.route import Route

#: what Mermaid draws where nobody raised its limits, as on the sites that show READMEs: edges and characters.
MOST_EDGES, MOST_CHARACTERS = 500, 50_000
#: executions in a line across; a longer route goes down the page.
LONGEST_LINE = 12
#: kind of line → its arrow: thick ones go back in a loop, dotted ones are what a register gives.
ARROWS = {"hop": "-->", "outlet": "-->", "back": "==>", "wire": "-.->"}
INSTEAD = 'save it as .svg, or draw it with view="staircase"'


def folded_mermaid(route: Route, names: Names | None = None) -> str:
    """Return the folded view as a Mermaid flowchart.

    Raises:
        DrawError: `too-large-to-draw`, for more than Mermaid takes.
    """
    depth = route.parameter_depth
    refuse_large(depth, "layers", "folded Mermaid", INSTEAD, MOST_EDGES - 1)
    plan = folded(route)
    ids = {number: _identifier(node_name(number, depth, plan)) for number in range(depth + 2 + len(plan.places))}
    lines = [line._replace(end=_identifier(line.end) or ids[line.head]) for line in lines_of(plan)]
    outlets = {line.end: line.label for line in lines if line.kind == "outlet"}
    forks = [ids[place.number] for place in plan.places if not place.label]
    body = [
        *_ends(),
        *(_node(ids[layer], escaped(name)) for layer, name in enumerate(labels(route, names), 1)),
        *(_place(ids[place.number], place.label) for place in plan.places),
        *(_exit(end, label) for end, label in outlets.items()),
        *(_edge(ids[line.tail], line.end, _label(line), ARROWS[line.kind]) for line in lines),
        *_layers({layer: [ids[layer]] for layer in set(route.path)}, depth),
        *_coloured("dropped", [ids[layer] for layer in route.dropped], PAPER, FAINT, ",stroke-dasharray:4 3"),
        *_flow_classes([ids[place.number] for place in plan.places if place.label], forks, list(outlets)),
        *_line_colours([line.kind for line in lines]),
    ]
    return _chart("BT", body, len(lines), "folded Mermaid")


def _label(line: Line) -> str:
    """Return what stands at a line: names of registers with their underscores as codes, the rest is our own."""
    return "" if line.kind == "outlet" else line.label.replace("_", "#95;")


def unrolled_mermaid(route: Route, names: Names | None = None) -> str:
    """Return the unrolled view as a Mermaid flowchart.

    Raises:
        DrawError: `too-large-to-draw`, for more than Mermaid takes.
    """
    refuse_large(route.execution_depth, "executions", "unrolled Mermaid", INSTEAD, MOST_EDGES - 1)
    depth, shown = route.parameter_depth, labels(route, names)
    edges, items = list(_reads(route)), tree(route)
    members: defaultdict[int, list[str]] = defaultdict(list)
    for e in route.executions:
        members[e.layer].append(_identifier(e.name))
    others = [state for state in route.flow.states[1:] if not isinstance(state.operation, Execution)]
    exits = [_identifier(state.name) for state in others if isinstance(state.operation, Exit)]
    operations = [_identifier(state.name) for state in others if not isinstance(state.operation, Exit)]
    body = [
        *_ends(),
        f"classDef loop fill:{BAND},stroke:{LOOP},color:{LOOP}",
        f"classDef iteration fill:{PAPER},stroke:{FAINT},color:{FAINT}",
        *([f"classDef branches fill:{PAPER},stroke:{FLOW},color:{FLOW}"] if any(joins(items)) else []),
        *_nodes(items, shown, count(1)),
        *(_edge(tail, head, escaped(label), ARROWS["wire" if label else "hop"]) for tail, head, label in edges),
        *_layers(members, depth),
        *_flow_classes(operations, [], exits),
        *_line_colours(["wire" if label else "hop" for _, _, label in edges]),
    ]
    across = len(route.flow.states) - 1 <= LONGEST_LINE
    return _chart("LR" if across else "TB", body, len(edges), "unrolled Mermaid")


def _reads(route: Route) -> Iterator[tuple[str, str, str]]:
    """Yield who reads whom: both ids, and the register through which."""
    states = route.flow.states
    for state in (*states, State("output", hidden=route.flow.output)):
        for read in state.reads:
            label = register_name(read.register) if read.register else ""
            yield _identifier(states[read.state].name), _identifier(state.name), label


def escaped(text: str) -> str:
    """Return a text as Mermaid shows it as it is.

    Every sign becomes a character code: quotes end a label, backticks and lists are markdown, angle brackets are
    HTML, `#` starts a code, and what else is special differs from version to version.

    Examples:
        >>> escaped('attn:0 "x"')
        'attn#58;0 #34;x#34;'
    """
    # Mermaid marks codes with this ligature while it works, and would take one in a name for such a mark
    plain = text.replace("ﬂ", "fl")
    return "".join(c if c.isalnum() or c == " " else f"#{ord(c)};" for c in plain)


def _chart(direction: str, body: Iterable[str], edges: int, view: str) -> str:
    refuse_large(edges, "edges", view, INSTEAD, MOST_EDGES)
    text = "\n".join([f"flowchart {direction}", *(f"  {line}" for line in body), ""])
    refuse_large(len(text), "characters", view, INSTEAD, MOST_CHARACTERS)
    return text


def _identifier(name: str) -> str:
    """Return an id made of letters, digits and underscores; `end` and a few others are words of Mermaid."""
    return {"input": "start", "output": "finish"}.get(name, name.replace(".", "_"))


def _ends() -> Iterator[str]:
    for name, text in (("start", "input"), ("finish", "output")):
        yield f'{name}(["{text}"])'
    yield from _coloured("ends", ["start", "finish"], TERMINAL)


def _node(name: str, text: str) -> str:
    return f'{name}("{text}")'


def _place(name: str, label: str) -> str:
    return _node(name, escaped(label)) if label else f'{name}((" "))'


def _exit(name: str, label: str) -> str:
    return f'{name}>"{escaped(label)}"]'


def _edge(tail: str, head: str, text: str = "", arrow: str = "-->") -> str:
    label = f'|"{text}"|' if text else ""
    return f"{tail} {arrow}{label} {head}"


def _coloured(group: str, names: list[str], fill: str, ink: str = INK, more: str = "") -> Iterator[str]:
    """Yield the lines that give nodes one look; `style` takes one node only, a class many."""
    if names:
        stroke = LINE if ink == INK else ink
        yield f"classDef {group} fill:{fill},stroke:{stroke},color:{ink}{more}"
        yield f"class {','.join(names)} {group}"


def _layers(members: Mapping[int, list[str]], depth: int) -> Iterator[str]:
    for layer, names in sorted(members.items()):
        yield from _coloured(f"layer{layer}", names, fill(layer, depth))


def _flow_classes(operations: list[str], forks: list[str], exits: list[str]) -> Iterator[str]:
    yield from _coloured("operation", operations, PAPER, FLOW)
    yield from _coloured("fork", forks, LINE, FAINT)
    yield from _coloured("exit", exits, TERMINAL, FLOW)


def _line_colours(kinds: list[str]) -> Iterator[str]:
    for kind, colour in (("back", LOOP), ("wire", FLOW)):
        edges = [str(index) for index, each in enumerate(kinds) if each == kind]
        if edges:
            yield f"linkStyle {','.join(edges)} stroke:{colour},color:{colour}"


def _nodes(items: tuple[Item, ...], shown: tuple[str, ...], ids: Iterator[int]) -> Iterator[str]:
    for item in items:
        match item:
            case Step():
                yield _step(item, shown)
            case Loop():
                yield from _frame(item.title, "loop", _iterations(item, shown, ids), ids)
            case Branches():
                yield from _branches(item, shown, ids)
                yield _step(item.join, shown)
            case _:
                assert_never(item)


def _step(step: Step, shown: tuple[str, ...]) -> str:
    name, operation = _identifier(step.state.name), step.operation
    match operation:
        case Execution(_, layer, visit):
            return _node(name, f"{escaped(shown[layer - 1])}·{visit}")
        case Exit():
            return _exit(name, label_of(operation))
        case _:
            return _place(name, label_of(operation))


def _branches(item: Branches, shown: tuple[str, ...], ids: Iterator[int]) -> Iterator[str]:
    """Yield the nodes of branches, in frames where a branch has more than one."""
    word = label_of(item.join.operation)
    for index, items in enumerate(item.branches, 1):
        if len(items) == 1 and isinstance(items[0], Step):
            yield _step(items[0], shown)
            continue
        title = f"{word}#58; branch {index} of {len(item.branches)}"
        yield from _frame(title, "branches", _nodes(items, shown, ids), ids)


def _iterations(loop: Loop, shown: tuple[str, ...], ids: Iterator[int]) -> Iterator[str]:
    for index, items in enumerate(loop.iterations, 1):
        title = f"iteration {index} of {loop.count}"
        yield from _frame(title, "iteration", _nodes(items, shown, ids), ids)


def _frame(title: str, kind: str, lines: Iterable[str], ids: Iterator[int]) -> Iterator[str]:
    name = f"frame{next(ids)}"
    yield f'subgraph {name}["{title}"]'
    yield from (f"  {line}" for line in lines)
    yield "end"
    yield f"class {name} {kind}"
