"""An interpreter of syntax trees that shares nothing with the package but the trees: what a spec runs, by the book.

A spec stands for a list of items: a layer is an integer; data flow is a tuple of its word and what it takes; the item of
a join holds the items of its branches. `program` makes the items, `resolve` says which state each of them reads, and
`run_spec` runs them over any layers and any numbers.
"""

from depthgraph import syntax as tree

GAP = "..."


class NoRouteError(Exception):
    """The tree means no route; the reason is the code of the package's error."""


def path_of(spec, depth, library, bindings=None):
    """Return the layers that run, for a model of `depth` layers (None: the highest one that is named)."""
    return layers_of(program(spec, depth, library, bindings))


def program(spec, depth=None, library=None, bindings=None):
    """Return the items of a spec, its fills closed."""
    reader = Reader(spec, library or {}, bindings or {})
    items = reader.run(spec.body, {}, 0, ("spec",), None)
    depth = depth or max([*layers_of(items), *reader.dropped], default=0)
    closed, highest = [], 0
    for place, item in enumerate(items):
        if item == GAP:
            following = next(iter(layers_of(items[place:])), depth + 1)
            item = range(highest + 1, following)
        closed += item if isinstance(item, range) else [item]
        highest = max([highest, *layers_of(closed[-1:])])
    if any(layer < 1 or layer > depth for layer in [*layers_of(closed), *reader.dropped]):
        raise NoRouteError("unknown-layer")
    return closed


def layers_of(items):
    """Return the layers that items run, in order, those of branches too."""
    found = []
    for item in items:
        if isinstance(item, int):
            found.append(item)
        elif item[0] in ("mean", "sum"):
            found += [layer for branch in item[1] for layer in layers_of(branch)]
    return found


class Reader:
    """Reads nodes of one spec. `place` is the path to a node in its definition, `call` that of the scheme's call."""

    def __init__(self, spec, library, bindings):
        self.own = {item.name: item for item in spec.definitions}
        self.library, self.bindings, self.dropped, self.words = library, bindings, [], {}

    def run(self, node, env, shift, place, call):
        def inner(child, *step, env=env):
            return self.run(child, env, shift, (*place, *step), call)

        match node:
            case tree.Layer(tree.Name(name)) if self.is_defined(name, env, call):
                return self.run(self.own[name].body, {}, shift, (name,), call)
            case tree.Layer(number):
                return [self.layer(self.value(number, env) + shift)]
            case tree.Range(first, last):
                ends = self.value(first, env), self.value(last, env) + 1
                return [self.layer(layer + shift) for layer in range(*ends)]
            case tree.Sequence(elements):
                return [item for index, element in enumerate(elements) for item in inner(element, index)]
            case tree.Repeat(tree.Block(layers), count):
                return [GAP, *inner(layers) * self.count(count, env), GAP]
            case tree.Block(layers):
                return [GAP, *inner(layers), GAP]
            case tree.Repeat(body, count):
                return whole(inner(body, "x")) * self.count(count, env)
            case tree.Reverse(body):
                return chain_of(whole(inner(body, "rev")), "data-flow-in-rev")[::-1]
            case tree.Fill():
                return [GAP]
            case tree.Ilr(counts):
                return [self.layer(i + shift) for i, r in enumerate(counts, 1) for _ in range(self.count(r, env))]
            case tree.Comprehension(body, index, values):
                numbers = range(self.value(values.first, env), self.value(values.last, env) + 1)
                return [item for i in numbers for item in whole(inner(body, "for", env={**env, index: i}))]
            case tree.Call():
                return self.called(node, env, shift, place, call)
            case tree.Drop(layers):
                layers = layers if isinstance(layers, tree.Range) else tree.Layer(layers)
                self.dropped += chain_of(whole(inner(layers), "wrong-arguments"), "wrong-arguments")
                return []
            case tree.Join(word, branches):
                return [(word, [branch_of(inner(branch, index)) for index, branch in enumerate(branches)])]
            case _:
                return [self.step(node, env, (*place, "at"), call)]

    def step(self, node, env, place, call):
        if isinstance(node, tree.Mark):
            return (node.word,)
        if {node.register, node.weights} & set(env) or self.words.setdefault(
            node.weights or place, node.word
        ) != node.word:
            raise NoRouteError("duplicate-name")
        name = node.register if call is None else (node.register, "library")
        return (node.word, name, (node.weights or place, call)) if node.word in ("mix", "gate") else (node.word, name)

    def called(self, node, env, shift, place, call):
        own = self.own.get(node.name) if call is None else None
        definition, bound = own or self.library[node.name].definition, {}
        for parameter, argument in zip(definition.parameters, node.arguments, strict=True):
            if isinstance(argument, tree.Range):
                first, last = self.value(argument.first, env), self.value(argument.last, env)
                shift, argument = shift + first - 1, tree.Integer(last - first + 1)
            bound[parameter] = self.value(argument, env)
            if parameter == "n" and bound[parameter] < 1:
                raise NoRouteError("bad-count")
        return self.run(definition.body, bound, shift, (node.name,), call if own else call or place)

    def is_defined(self, name, env, call):
        return call is None and name in self.own and name not in env and name not in self.bindings

    def layer(self, number):
        if number < 1:
            raise NoRouteError("unknown-layer")
        return number

    def count(self, node, env):
        if self.value(node, env) < 1:
            raise NoRouteError("bad-count")
        return self.value(node, env)

    def value(self, node, env):
        match node:
            case tree.Integer(number):
                return number
            case tree.Name(name):
                known = {**self.bindings, **env}
                return known[name] if name in known else self.value(self.own[name].body.elements[0].number, {})
            case tree.Arithmetic(first, rest):
                total = self.value(first, env)
                for sign, operand in rest:
                    b = self.value(operand, env)
                    total = {"+": total + b, "-": total - b, "*": total * b}.get(sign, total // (b or 1))
                return total


def whole(items, reason="fill-in-loop"):
    if GAP in items:
        raise NoRouteError(reason)
    return items


def branch_of(items):
    if not layers_of(whole(items)):
        raise NoRouteError("empty-branch")
    return items


def chain_of(items, reason):
    if any(isinstance(item, tuple) for item in items):
        raise NoRouteError(reason)
    return items


def resolve(items):
    """Say what computes each state and from which states, the input first: `("add", h, a)` with indexes of states.

    Returns:
        The states, and the index of the one that is the output.
    """
    states, saved = [("input",)], []
    output = follow(items, 0, {}, states, saved)
    if any(not reads for reads in saved):
        raise NoRouteError("unused-register")
    read = {output}.union(*(state[-1] if state[0] in ("mean", "sum") else inputs(state) for state in states))
    if any(index not in read and state[0] != "exit" for index, state in enumerate(states) if index):
        raise NoRouteError("unused-result")
    return states, output


def inputs(state):
    return state[2:] if state[0] in ("run", "mix", "gate") else state[1:]


def follow(items, h, visible, states, saved):
    """Go through items from state h on; `visible` has the state of each register and the list of its reads."""
    visible, mine = dict(visible), {}

    def read(name):
        if name not in visible:
            raise NoRouteError("unknown-register")
        visible[name][1].append(True)
        return visible[name][0]

    for item in items:
        match item:
            case ("save", name):
                if name not in mine:
                    saved.append(mine.setdefault(name, []))
                visible[name] = h, mine[name]
                continue
            case ("load", name):
                h = read(name)
                continue
            case ("mean" | "sum", branches):
                ends = []
                for branch in branches:
                    ends.append(follow(branch, h, visible, states, saved))
                states.append((item[0], tuple(ends)))
            case ("add", name):
                states.append(("add", h, read(name)))
            case ("mix" | "gate", name, key):
                states.append((item[0], key, h, read(name)))
            case (word,):
                states.append((word, h))
            case layer:
                states.append(("run", layer, h))
        if item != ("exit",):
            h = len(states) - 1
    return h


def run_spec(spec, layers, mix, gate, h0, depth=None, library=None, bindings=None):
    """Run a spec over plain functions.

    Args:
        spec: the syntax tree.
        layers: (layer, h) → h.
        mix: (key, h, a) → h; the key is equal for operations that share their weights.
        gate: as `mix`.
        h0: the input: a number, an array, a tensor.
        depth: N; the highest layer that the spec names by default.
        library: the scheme library.
        bindings: values of the spec's names.

    Returns:
        h at the end, and a tuple of what `exit` gave out.
    """
    items, exits = program(spec, depth, library, bindings), []
    resolve(items)

    def go(items, h, registers):
        registers = dict(registers)
        for item in items:
            match item:
                case ("save", name):
                    registers[name] = h
                case ("load", name):
                    h = registers[name]
                case ("add", name):
                    h = h + registers[name]
                case ("mix", name, key):
                    h = mix(key, h, registers[name])
                case ("gate", name, key):
                    h = gate(key, h, registers[name])
                case ("mean" | "sum", branches):
                    first, *rest = [go(branch, h, registers) for branch in branches]
                    h = sum(rest, first)
                    h = h / len(branches) if item[0] == "mean" else h
                case ("stopgrad",):
                    h = h.detach() if hasattr(h, "detach") else h
                case ("exit",):
                    exits.append(h)
                case layer:
                    h = layers(layer, h)
        return h

    return go(items, h0, {}), tuple(exits)
