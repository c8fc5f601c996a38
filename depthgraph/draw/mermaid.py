"""Mermaid flowcharts, which READMEs on many sites show as pictures."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, pairwise
from typing import assert_never

from depthgraph.draw.folded import folded, node_name, step_list
from depthgraph.draw.labels import Names, labels
from depthgraph.draw.palette import BAND, FAINT, INK, LINE, LOOP, PAPER, TERMINAL, fill
from depthgraph.draw.structure import Item, Loop, tree
from depthgraph.draw.summary import refuse_large
from depthgraph.operations import Execution
from depthgraph.route import Route

#: what Mermaid draws where nobody raised its limits, as on the sites that show READMEs: edges and characters.
MOST_EDGES, MOST_CHARACTERS = 500, 50_000
#: executions in a line across; a longer route goes down the page.
LONGEST_LINE = 12
INSTEAD = 'save it as .svg, or draw it with view="staircase"'


def folded_mermaid(route: Route, names: Names | None = None) -> str:
    """Return the folded view as a Mermaid flowchart.

    Raises:
        DrawError: `too-large-to-draw`, for more than Mermaid takes.
    """
    depth = route.parameter_depth
    refuse_large(depth, "layers", "folded Mermaid", INSTEAD, MOST_EDGES - 1)
    plan = folded(route)
    ids = {number: _identifier(node_name(number, depth)) for number in range(depth + 2)}
    shown = labels(route, names)
    body = [
        *_ends(),
        *(_node(ids[layer], escaped(name)) for layer, name in enumerate(shown, 1)),
        *(_edge(ids[h.tail], ids[h.head], step_list(h.steps)) for h in plan.hops),
        *(_edge(ids[b.tail], ids[b.head], plan.back_label(b), "==>") for b in plan.backs),
        *_layers({layer: [ids[layer]] for layer in set(route.path)}, depth),
        *_coloured("dropped", [ids[layer] for layer in route.dropped], PAPER, FAINT, ",stroke-dasharray:4 3"),
        *_loop_colour(range(len(plan.hops), len(plan.hops) + len(plan.backs))),
    ]
    edges = len(plan.hops) + len(plan.backs)
    return _chart("BT", body, edges, "folded Mermaid")


def unrolled_mermaid(route: Route, names: Names | None = None) -> str:
    """Return the unrolled view as a Mermaid flowchart.

    Raises:
        DrawError: `too-large-to-draw`, for more than Mermaid takes.
    """
    refuse_large(route.execution_depth, "executions", "unrolled Mermaid", INSTEAD, MOST_EDGES - 1)
    depth, shown = route.parameter_depth, labels(route, names)
    chain = ["start", *(_identifier(e.name) for e in route.executions), "finish"]
    members: defaultdict[int, list[str]] = defaultdict(list)
    for e in route.executions:
        members[e.layer].append(_identifier(e.name))
    body = [
        *_ends(),
        f"classDef loop fill:{BAND},stroke:{LOOP},color:{LOOP}",
        f"classDef iteration fill:{PAPER},stroke:{FAINT},color:{FAINT}",
        *_nodes(tree(route), shown, count(1)),
        *(_edge(tail, head) for tail, head in pairwise(chain)),
        *_layers(members, depth),
    ]
    return _chart("LR" if route.execution_depth <= LONGEST_LINE else "TB", body, len(chain) - 1, "unrolled Mermaid")


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


def _loop_colour(edges: range) -> Iterator[str]:
    if edges:
        yield f"linkStyle {','.join(map(str, edges))} stroke:{LOOP},color:{LOOP}"


def _nodes(items: tuple[Item, ...], shown: tuple[str, ...], ids: Iterator[int]) -> Iterator[str]:
    for item in items:
        match item:
            case Execution():
                yield _node(_identifier(item.name), f"{escaped(shown[item.layer - 1])}·{item.visit}")
            case Loop():
                yield from _frame(item.title, "loop", _iterations(item, shown, ids), ids)
            case _:
                assert_never(item)


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
