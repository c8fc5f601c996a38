"""Hypothesis strategies for syntax trees in the form that the parser makes, and for routes."""

import string

from hypothesis import strategies as st

import depthgraph as dg
from depthgraph import syntax as tree
from depthgraph.operations import Add, Execution, Exit, Gate, Load, Mean, Mix, Save, StopGradient, Sum
from depthgraph.route import Route

from oracle import NoRouteError, layers_of, program

WORDS = {"for", "in", "where", "rev", "block", "ilr", "drop", "x"}
WORDS |= {"save", "load", "add", "mix", "gate", "mean", "sum", "stopgrad", "exit"}


def _is_name(text: str) -> bool:
    is_layer, is_count = text[0] == "L" and text[1:2].isdigit(), text[0] == "x" and text[1:2].isdigit()
    return text not in WORDS and text != "N" and not is_layer and not is_count


names = st.text(string.ascii_letters + "_", min_size=1, max_size=4).filter(_is_name)
integers = st.integers(0, 999_999_999).map(tree.Integer)
positive = st.integers(1, 9).map(tree.Integer)


def arithmetic(operands, *, leading: bool):
    """Operands of one precedence; a leading operand must not need parentheses."""

    def build(signs, first, rest):
        return tree.Arithmetic(first, tuple(zip(signs, rest, strict=True)))

    def of(level: str):
        signs = st.lists(st.sampled_from(["+", "-"] if level == "sum" else ["*", "//"]), min_size=1, max_size=3)

        def with_signs(signs):
            first = atoms if leading else operands
            rest = st.lists(operands, min_size=len(signs), max_size=len(signs))
            return st.tuples(first, rest).map(lambda pair: build(signs, *pair))

        return signs.flatmap(with_signs)

    atoms = st.one_of(integers, names.map(tree.Name))
    return st.one_of(of("sum"), of("product"))


atoms = st.one_of(integers, names.map(tree.Name))
expressions = st.recursive(atoms, lambda inner: arithmetic(inner, leading=False), max_leaves=5)
leading_expressions = st.one_of(atoms, arithmetic(expressions, leading=True))
layers = leading_expressions.map(tree.Layer)


def _ascends(pair) -> bool:
    first, last = pair
    both = isinstance(first, tree.Integer) and isinstance(last, tree.Integer)
    return not both or first.value <= last.value


def ranges(first=expressions):
    return st.tuples(first, expressions).filter(_ascends).map(lambda pair: tree.Range(*pair))


counts = st.one_of(atoms, expressions)
arguments = st.lists(st.one_of(expressions, ranges()), min_size=1, max_size=3).map(tuple)
indexes = names


def sequences(elements):
    return st.lists(elements, min_size=1, max_size=4).map(tuple).map(tree.Sequence)


def _repeatable(element) -> bool:
    """Whether a count may follow it without parentheses."""
    match element:
        case tree.Range() | tree.Repeat() | tree.Fill() | tree.Drop() | tree.Layer(tree.Arithmetic()):
            return False
        case _:
            return True


simple = st.one_of(
    layers,
    ranges(leading_expressions),
    st.just(tree.Fill()),
    ranges().map(tree.Block),
    st.lists(expressions, min_size=1, max_size=4).map(tuple).map(tree.Ilr),
    st.one_of(expressions, ranges()).map(tree.Drop),
    st.builds(tree.Call, names, arguments),
    st.builds(tree.Access, st.sampled_from(["save", "load", "add", "mix", "gate"]), names),
    st.builds(tree.Access, st.sampled_from(["mix", "gate"]), names, names),
    st.sampled_from([tree.Mark("exit"), tree.Mark("stopgrad")]),
)


def _grown(inner):
    branches = st.lists(sequences(inner), min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(tree.Join, st.sampled_from(["mean", "sum"]), branches),
        sequences(inner),
        sequences(inner).map(tree.Reverse),
        st.builds(tree.Comprehension, sequences(inner), indexes, ranges()),
        st.builds(tree.Repeat, inner.filter(_repeatable), counts),
    )


elements = st.recursive(simple, _grown, max_leaves=8)
definitions = st.lists(
    st.builds(tree.Definition, names, st.lists(names, max_size=3, unique=True).map(tuple), sequences(elements)),
    max_size=3,
    unique_by=lambda item: item.name,
).map(tuple)
specs = st.builds(tree.RouteSpec, sequences(elements), definitions)

paths = st.lists(st.integers(1, 6), min_size=1, max_size=40)


@st.composite
def structured_paths(draw):
    """Paths with repeats, shifts and runs in them, as routes have."""
    path = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    for _ in range(draw(st.integers(0, 3))):
        times, shift = draw(st.integers(1, 5)), draw(st.sampled_from([0, 0, 1, 1, 2, -1]))
        copies = [layer + shift * index for index in range(times) for layer in path]
        lowest = min(copies)
        path = [layer - min(0, lowest - 1) for layer in copies][:150]
        path += draw(st.lists(st.integers(1, 6), max_size=3))
    return path


routes = st.one_of(paths, structured_paths()).map(Route.of)


# Specs that mean something: layers of a small model, small counts, indexes that are in scope.


def _meaningful_expression(scope):
    base = [st.integers(1, 6).map(tree.Integer)]
    if scope:
        index = st.sampled_from(scope).map(tree.Name)
        shifted = st.tuples(index, st.sampled_from("+-"), st.integers(0, 2).map(tree.Integer))
        base += [index, index, shifted.map(lambda t: tree.Arithmetic(t[0], ((t[1], t[2]),)))]
        base += [index.map(lambda i: tree.Arithmetic(tree.Integer(7), (("-", i),)))]
        base += [index.map(lambda i: tree.Arithmetic(tree.Integer(2), (("*", i),)))]
    return st.one_of(base)


@st.composite
def meaningful_elements(draw, scope=(), depth=0, fills=True):
    number = _meaningful_expression(scope)
    kinds = ["layer", "layer", "range"]
    if depth < 3:
        kinds += ["group", "repeat", "reverse", "comprehension", "call"]
    if fills:
        kinds += ["fill", "block"]
    if not scope and depth == 0:
        kinds += ["ilr"]
    kind = draw(st.sampled_from(kinds))
    inner = meaningful_elements(scope, depth + 1, fills and kind == "group")
    body = st.lists(inner, min_size=1, max_size=3).map(tuple).map(tree.Sequence)
    span = st.tuples(number, number).filter(_ascends).map(lambda pair: tree.Range(*pair))
    count = st.integers(1, 3).map(tree.Integer)
    match kind:
        case "layer":
            return tree.Layer(draw(number))
        case "range":
            return draw(span)
        case "group":
            return draw(body)
        case "repeat":
            return tree.Repeat(draw(inner.filter(_repeatable)), draw(count))
        case "reverse":
            return tree.Reverse(draw(body))
        case "comprehension":
            index = "ijk"[len(scope)] if len(scope) < 3 else "m"
            if len(scope) >= 3:
                return tree.Layer(draw(number))
            deeper = st.lists(meaningful_elements((*scope, index), depth + 1, False), min_size=1, max_size=3)
            return tree.Comprehension(tree.Sequence(tuple(draw(deeper))), index, draw(span))
        case "call":
            argument = draw(st.one_of(st.integers(1, 5).map(tree.Integer), span))
            return draw(
                st.sampled_from(
                    [
                        tree.Call("lft", (argument,)),
                        tree.Call("std", (argument,)),
                        tree.Call("cycle", (argument, tree.Integer(2))),
                        tree.Call("cycle_rev", (argument,)),
                    ]
                )
            )
        case "fill":
            return tree.Fill()
        case "block":
            return draw(st.one_of(span.map(tree.Block), st.builds(tree.Repeat, span.map(tree.Block), count)))
        case _:
            return tree.Ilr(draw(st.lists(count, min_size=1, max_size=6).map(tuple)))


meaningful_specs = st.lists(meaningful_elements(), min_size=1, max_size=4).map(
    lambda items: tree.RouteSpec(tree.Sequence(tuple(items)))
)


# Data flow that means something: registers are saved before they are read, each of them is read, and no result is
# thrown away. Layers are those of a model of four.

REGISTERS = "abcd"
WEIGHTS = {"mix": ["w", "v"], "gate": ["g"]}


class _Place:
    """What is visible where an element is drawn.

    Attributes:
        registers: name → the list of its reads; branches have copies.
        mine: the registers that were saved in this branch.
        indexes: the indexes of the comprehensions around it.
        definitions: the names of sequences that may stand here.
        depth: how deep it is nested.
    """

    def __init__(self, registers=(), indexes=(), definitions=(), depth=0, mine=None):
        self.registers, self.indexes, self.definitions, self.depth = registers, indexes, definitions, depth
        self.mine = {} if mine is None else mine

    def loop(self, *indexes):
        """Return the place of a loop's body, which shares its registers with what is around it."""
        return _Place(self.registers, (*self.indexes, *indexes), self.definitions, self.depth + 1, self.mine)

    def branch(self):
        """Return the place of a branch, which sees what is around it and keeps what it saves."""
        return _Place(dict(self.registers), self.indexes, self.definitions, self.depth + 1)

    def save(self, name):
        self.registers[name] = self.mine.setdefault(name, [])
        return tree.Access("save", name)

    def read(self, word, name, weights=None):
        self.registers[name].append(word)
        return tree.Access(word, name, weights)


def _flow_layer(draw, place):
    layer = draw(st.integers(1, 4))
    if not place.indexes or not draw(st.booleans()):
        return tree.Layer(tree.Integer(layer))
    index = tree.Name(draw(st.sampled_from(place.indexes)))
    form = draw(st.sampled_from(["i", "i+1", "5-i"]))
    moved = {"i": index, "i+1": tree.Arithmetic(index, (("+", tree.Integer(1)),))}
    return tree.Layer(moved.get(form) or tree.Arithmetic(tree.Integer(5), (("-", index),)))


def _flow_read(draw, place, name=None):
    name = name or draw(st.sampled_from(sorted(place.registers)))
    word = draw(st.sampled_from(["add", "mix", "gate"]))
    named = word in WEIGHTS and draw(st.integers(0, 3)) == 3
    return place.read(word, name, draw(st.sampled_from(WEIGHTS[word])) if named else None)


def _flow_range(draw, place):
    first = draw(st.integers(1, 3))
    return tree.Range(tree.Integer(first), tree.Integer(draw(st.integers(first, 4))))


def _flow_switch(draw, place):
    """Put h away, go on from another register, and take it up again."""
    old, new = draw(st.sampled_from(sorted(place.registers))), draw(st.sampled_from(REGISTERS))
    if old == new:
        return _flow_read(draw, place)
    between = (place.save(new), place.read("load", old), _flow_layer(draw, place))
    return tree.Sequence((*between, _flow_read(draw, place, new)))


def _flow_restart(draw, place):
    return tree.Sequence((tree.Mark("exit"), place.read("load", draw(st.sampled_from(sorted(place.registers))))))


def _flow_loop(draw, place):
    return tree.Repeat(_flow_sequence(draw, place.loop()), tree.Integer(draw(st.integers(1, 3))))


def _flow_comprehension(draw, place):
    index = "ijkm"[len(place.indexes)]
    first = draw(st.integers(1, 2))
    values = tree.Range(tree.Integer(first), tree.Integer(draw(st.integers(first, 3))))
    return tree.Comprehension(_flow_sequence(draw, place.loop(index)), index, values)


def _flow_join(draw, place):
    branches = []
    for _ in range(draw(st.integers(2, 3))):
        inner = place.branch()
        elements = _flow_sequence(draw, inner).elements
        branches.append(tree.Sequence((*elements, _flow_layer(draw, place), *_flow_rest(draw, inner))))
    return tree.Join(draw(st.sampled_from(["mean", "sum"])), tuple(branches))


def _flow_rest(draw, place):
    """Read what was saved here and not yet read."""
    return [_flow_read(draw, place, name) for name, reads in sorted(place.mine.items()) if not reads]


def _flow_sequence(draw, place):
    return tree.Sequence(tuple(_flow_element(draw, place) for _ in range(draw(st.integers(1, 4)))))


def _flow_call(draw, layers):
    name = draw(st.sampled_from(["lft", "std", "injected", "ouro", "trm"]))
    counts = {"injected": (2,), "ouro": (2,), "trm": (1, 2)}.get(name, ())
    return tree.Call(name, (layers, *map(tree.Integer, counts)))


_FLOW = {
    "layer": _flow_layer,
    "range": _flow_range,
    "save": lambda draw, place: place.save(draw(st.sampled_from(REGISTERS))),
    "read": _flow_read,
    "mark": lambda draw, place: tree.Mark(draw(st.sampled_from(["exit", "stopgrad"]))),
    "definition": lambda draw, place: tree.Layer(tree.Name(draw(st.sampled_from(place.definitions)))),
    "call": lambda draw, place: _flow_call(draw, _flow_range(draw, place)),
    "reverse": lambda draw, place: tree.Reverse(tree.Sequence((_flow_range(draw, place),))),
    "loop": _flow_loop,
    "join": _flow_join,
    "comprehension": _flow_comprehension,
    "switch": _flow_switch,
    "restart": _flow_restart,
}


def _flow_element(draw, place):
    kinds = ["layer", "layer", "save", "range", "mark", "call", "reverse"]
    if place.registers:
        kinds += ["read", "read", "read", "switch", "restart"]
    if place.definitions:
        kinds += ["definition", "definition"]
    if place.depth < 3:
        kinds += ["loop", "loop", "join", "join", "comprehension"]
    return _FLOW[draw(st.sampled_from(kinds))](draw, place)


def _flow_definitions(draw):
    """Draw sequences that read what they save themselves, and nothing else."""
    for name in ["core", "side"][: draw(st.integers(0, 2))]:
        place = _Place({}, depth=2)
        body = _flow_sequence(draw, place).elements
        yield tree.Definition(name, (), tree.Sequence((*body, *_flow_rest(draw, place), _flow_layer(draw, place))))


@st.composite
def flow_specs(draw):
    """Specs with data flow that mean a route, but for a few with a fault: one element too many or too few."""
    definitions = tuple(_flow_definitions(draw))
    place = _Place({}, definitions=[item.name for item in definitions])
    body = [*_flow_sequence(draw, place).elements, *_flow_rest(draw, place), _flow_layer(draw, place)]
    for item in definitions:
        if tree.Layer(tree.Name(item.name)) not in _nodes(body):
            body.append(tree.Layer(tree.Name(item.name)))
    change = draw(st.sampled_from([None] * 7 + [_cut, _extra, _extra]))
    body = change(draw, body) if change else body
    definitions = tuple(item for item in definitions if tree.Layer(tree.Name(item.name)) in _nodes(body))
    spec = tree.RouteSpec(tree.Sequence(tuple(body)), definitions)
    return dg.parse(str(tree.RouteSpec(tree.Sequence((*body, *_missing(draw, spec))), definitions)))


def _nodes(elements):
    todo, found = list(elements), []
    while todo:
        found.append(todo.pop())
        todo += tree.children(found[-1])
    return found


def _cut(draw, body):
    place = draw(st.integers(0, len(body) - 1))
    return body[:place] + body[place + 1 :] or body


def _extra(draw, body):
    faults = [tree.Access("save", "q"), tree.Access("add", "q"), tree.Access("load", "a")]
    join = tree.Join("mean", (tree.Sequence((tree.Mark("exit"),)), tree.Sequence((tree.Layer(tree.Integer(1)),))))
    fault = draw(st.sampled_from([*faults, join, tree.Reverse(tree.Sequence((tree.Mark("exit"),)))]))
    place = draw(st.integers(0, len(body)))
    return [*body[:place], fault, *body[place:]]


def _missing(draw, spec):
    """Return what runs, or drops, the layers that a spec leaves out."""
    try:
        run = set(layers_of(program(spec, None, dg.schemes())))
    except NoRouteError:
        return []
    left = [tree.Integer(layer) for layer in range(1, max(run, default=0)) if layer not in run]
    return [tree.Drop(layer) if draw(st.booleans()) else tree.Layer(layer) for layer in left]


# Routes with data flow, built by program: stretches of operations, some of them repeated, some shifted.


def _operations(draw, registers, mine, depth):
    """Draw operations; `registers` and `mine` are as those of `_Place`."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        kinds = ["layer", "layer", "save", "mark"]
        kinds += ["read", "read", "switch"] if registers else []
        kinds += ["repeat", "repeat", "join"] if depth < 2 else []
        found += _OPERATIONS[draw(st.sampled_from(kinds))](draw, registers, mine, depth)
    return found


def _one_layer(draw, registers, mine, depth):
    return [Execution(1, draw(st.integers(1, 5)), 1)]


def _save(draw, registers, mine, depth):
    name = draw(st.sampled_from("abc"))
    registers[name] = mine.setdefault(name, [])
    return [Save(name)]


def _read(draw, registers, mine, depth, name=None):
    name = name or draw(st.sampled_from(sorted(registers)))
    registers[name].append(True)
    kind = draw(st.sampled_from([Add, Mix, Gate]))
    return [Add(name) if kind is Add else kind(name, draw(st.integers(1, 3)))]


def _switch(draw, registers, mine, depth):
    old = draw(st.sampled_from(sorted(registers)))
    registers[old].append(True)
    return [Exit(1), Load(old)]


def _repeat(draw, registers, mine, depth):
    body = _operations(draw, registers, mine, depth + 1)
    times, shift = draw(st.integers(2, 3)), draw(st.sampled_from([0, 0, 1]))
    return [_shifted(each, shift * index) for index in range(times) for each in body]


def _shifted(operation, by):
    match operation:
        case Execution(layer=layer):
            return Execution(1, layer + by, 1)
        case Mean(branches) | Sum(branches):
            return type(operation)(tuple(tuple(_shifted(each, by) for each in branch) for branch in branches))
        case _:
            return operation


def _join(draw, registers, mine, depth):
    branches = []
    for _ in range(draw(st.integers(2, 3))):
        inner, saved = dict(registers), {}
        body = _operations(draw, inner, saved, depth + 1) + _one_layer(draw, inner, saved, depth)
        branches.append(tuple(body + _rest(draw, inner, saved)))
    return [draw(st.sampled_from([Mean, Sum]))(tuple(branches))]


def _rest(draw, registers, mine):
    return [each for name, reads in sorted(mine.items()) if not reads for each in _read(draw, registers, mine, 0, name)]


_OPERATIONS = {
    "layer": _one_layer,
    "save": _save,
    "mark": lambda draw, *_: [draw(st.sampled_from([Exit(1), StopGradient()]))],
    "read": _read,
    "switch": _switch,
    "repeat": _repeat,
    "join": _join,
}


@st.composite
def flow_routes(draw):
    """Routes with data flow (a few have none), built by `Route.of_operations`."""
    registers, mine = {}, {}
    operations = _operations(draw, registers, mine, 0)
    return Route.of_operations([*operations, *_rest(draw, registers, mine), *_one_layer(draw, registers, mine, 0)])
