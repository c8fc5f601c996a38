"""Mermaid flowcharts, which READMEs on many sites show as pictures."""

from collections.abc import Iterable, Iterator
from itertools import count, pairwise
from typing import assert_never

from depthgraph.draw.folded import folded, node_name, step_list
from depthgraph.draw.labels import Names, labels
from depthgraph.draw.palette import FAINT, INK, LINE, LOOP, PAPER, TERMINAL, fill
from depthgraph.draw.structure import Item, Loop, tree
from depthgraph.draw.summary import refuse_large
from depthgraph.route import Execution, Route

#: what Mermaid draws where nobody raised its limits, as on the sites that show READMEs: edges and characters.
MOST_EDGES, MOST_CHARACTERS = 500, 50_000
_OTHERS = ("staircase",)


def folded_mermaid(route: Route, names: Names | None = None) -> str:
    """Return the folded view as a Mermaid flowchart.

    Raises:
        DrawError: `too-large-to-draw`, for more than Mermaid takes.
    """
    depth = route.parameter_depth
    refuse_large(depth, "layers", "folded Mermaid", _OTHERS, MOST_EDGES - 1)
    plan = folded(route)
    ids = {number: _identifier(node_name(number, depth)) for number in range(depth + 2)}
    shown = labels(route, names)
    body = [
        *_ends(),
        *(_node(ids[layer], name) for layer, name in enumerate(shown, 1)),
        *(_edge(ids[h.tail], ids[h.head], step_list(h.steps)) for h in plan.hops),
        *(_edge(ids[b.tail], ids[b.head], plan.back_label(b), "==>") for b in plan.backs),
        *(_colour(ids[layer], layer, depth) for layer in range(1, depth + 1) if layer not in route.dropped),
        *_dropped([ids[layer] for layer in route.dropped]),
        *_loop_colour(range(len(plan.hops), len(plan.hops) + len(plan.backs))),
    ]
    edges = len(plan.hops) + len(plan.backs)
    return _chart("BT", body, edges, "folded Mermaid")


def unrolled_mermaid(route: Route, names: Names | None = None) -> str:
    """Return the unrolled view as a Mermaid flowchart.

    Raises:
        DrawError: `too-large-to-draw`, for more than Mermaid takes.
    """
    refuse_large(route.execution_depth, "executions", "unrolled Mermaid", ("folded", *_OTHERS), MOST_EDGES - 1)
    depth, shown = route.parameter_depth, labels(route, names)
    chain = ["start", *(_identifier(e.name) for e in route.executions), "finish"]
    by_layer = {e.layer: _identifier(e.name) for e in route.executions}
    members = {layer: ",".join(_identifier(e.name) for e in route.executions if e.layer == layer) for layer in by_layer}
    body = [
        *_ends(),
        *_nodes(tree(route), shown, count(1)),
        *(_edge(tail, head) for tail, head in pairwise(chain)),
        *(_colour(members[layer], layer, depth) for layer in sorted(members)),
    ]
    return _chart("LR", body, len(chain) - 1, "unrolled Mermaid")


def escaped(text: str) -> str:
    """Return a text as Mermaid shows it as it is.

    Every sign becomes a character code: quotes end a label, backticks and lists are markdown, angle brackets are
    HTML, `#` starts a code, and what else is special differs from version to version.

    Examples:
        >>> escaped('attn:0 "x"')
        'attn#58;0 #34;x#34;'
    """
    return "".join(c if c.isalnum() or c == " " else f"#{ord(c)};" for c in text)


def _chart(direction: str, body: Iterable[str], edges: int, view: str) -> str:
    refuse_large(edges, "edges", view, _OTHERS, MOST_EDGES)
    text = "\n".join([f"flowchart {direction}", *(f"  {line}" for line in body), ""])
    refuse_large(len(text), "characters", view, _OTHERS, MOST_CHARACTERS)
    return text


def _identifier(name: str) -> str:
    """Return an id made of letters, digits and underscores; `end` and a few others are words of Mermaid."""
    return {"input": "start", "output": "finish"}.get(name, name.replace(".", "_"))


def _ends() -> Iterator[str]:
    for name, text in (("start", "input"), ("finish", "output")):
        yield f'{name}(["{text}"])'
    yield f"style start,finish fill:{TERMINAL},stroke:{LINE},color:{INK}"


def _node(name: str, text: str) -> str:
    return f'{name}("{escaped(text)}")'


def _edge(tail: str, head: str, text: str = "", arrow: str = "-->") -> str:
    label = f'|"{text}"|' if text else ""
    return f"{tail} {arrow}{label} {head}"


def _colour(names: str, layer: int, depth: int) -> str:
    return f"style {names} fill:{fill(layer, depth)},stroke:{LINE},color:{INK}"


def _dropped(names: list[str]) -> Iterator[str]:
    if names:
        style = f"fill:{PAPER},stroke:{FAINT},color:{FAINT},stroke-dasharray:4 3"
        yield f"style {','.join(names)} {style}"


def _loop_colour(edges: range) -> Iterator[str]:
    if edges:
        yield f"linkStyle {','.join(map(str, edges))} stroke:{LOOP},color:{LOOP}"


def _nodes(items: tuple[Item, ...], shown: tuple[str, ...], ids: Iterator[int]) -> Iterator[str]:
    for item in items:
        match item:
            case Execution():
                yield _node(_identifier(item.name), f"{shown[item.layer - 1]}·{item.visit}")
            case Loop():
                yield from _frame(item.title, _iterations(item, shown, ids), ids)
            case _:
                assert_never(item)


def _iterations(loop: Loop, shown: tuple[str, ...], ids: Iterator[int]) -> Iterator[str]:
    for index, items in enumerate(loop.iterations, 1):
        yield from _frame(f"iteration {index} of {loop.count}", _nodes(items, shown, ids), ids)


def _frame(title: str, lines: Iterable[str], ids: Iterator[int]) -> Iterator[str]:
    yield f'subgraph loop{next(ids)}["{title}"]'
    yield from (f"  {line}" for line in lines)
    yield "end"
