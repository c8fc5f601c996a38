"""An interpreter of syntax trees that shares nothing with the package but the trees: what a spec runs, by the book."""

from depthgraph import syntax as tree

GAP = "..."


class NoRouteError(Exception):
    """The tree runs a layer below 1, or has a fill in a loop, a reverse or a comprehension."""


def path_of(spec: tree.RouteSpec, depth: int | None, library) -> list[int]:
    """Return the layers that run, for a model of `depth` layers (None: the highest one that is named)."""
    items = run(spec.body, {}, 0, library)
    depth = depth or max([item for item in items if item != GAP], default=0)
    path: list[int] = []
    for place, item in enumerate(items):
        if item != GAP:
            path.append(item)
            continue
        following = next((each for each in items[place:] if each != GAP), depth + 1)
        path += range(max(path, default=0) + 1, following)
    if any(layer < 1 or layer > depth for layer in path):
        raise NoRouteError
    return path


def run(node, env, shift, library):
    match node:
        case tree.Layer(number):
            return [value(number, env) + shift]
        case tree.Range(first, last):
            return [layer + shift for layer in range(value(first, env), value(last, env) + 1)]
        case tree.Sequence(elements):
            return [layer for element in elements for layer in run(element, env, shift, library)]
        case tree.Repeat(tree.Block(layers), count):
            return [GAP, *run(layers, env, shift, library) * value(count, env), GAP]
        case tree.Block(layers):
            return [GAP, *run(layers, env, shift, library), GAP]
        case tree.Repeat(body, count):
            return whole(run(body, env, shift, library)) * value(count, env)
        case tree.Reverse(body):
            return whole(run(body, env, shift, library))[::-1]
        case tree.Fill():
            return [GAP]
        case tree.Ilr(counts):
            return [layer + shift for layer, r in enumerate(counts, 1) for _ in range(value(r, env))]
        case tree.Comprehension(body, index, values):
            numbers = range(value(values.first, env), value(values.last, env) + 1)
            return [layer for i in numbers for layer in whole(run(body, {**env, index: i}, shift, library))]
        case tree.Call(name, arguments):
            definition, inner = library[name].definition, {}
            for parameter, argument in zip(definition.parameters, arguments, strict=True):
                if isinstance(argument, tree.Range):
                    first, last = value(argument.first, env), value(argument.last, env)
                    shift, argument = shift + first - 1, tree.Integer(last - first + 1)
                inner[parameter] = value(argument, env)
                if inner[parameter] < 1:
                    raise NoRouteError
            return run(definition.body, inner, shift, library)


def whole(items):
    if GAP in items:
        raise NoRouteError
    return items


def value(node, env):
    match node:
        case tree.Integer(number):
            return number
        case tree.Name(name):
            return env[name]
        case tree.Arithmetic(first, rest):
            total = value(first, env)
            for sign, operand in rest:
                other = value(operand, env)
                total = {"+": total + other, "-": total - other, "*": total * other}.get(sign, total // (other or 1))
            return total
