"""A route, and what runs it, as Python text: the two files of code in a folder that loads without this package.

`modeling_depthgraph.py` has the route itself and the classes of its model; `depthgraph_runtime.py` is the same for
every model, put together from this package's own files, which stay the only place where that code is written.
"""

import ast
import inspect
import operator
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import transformers
from torch import fx, nn

from depthgraph.hf import alone, config_class, parts, plain_error, running, slots
from depthgraph.hf.find import Layers, unroutable
from depthgraph.hf.routing import Routing
from depthgraph.hf.running import Step
from depthgraph.nn.compile import compile_route
from depthgraph.nn.weights import Gated, Mixer
from depthgraph.operations import Execution
from depthgraph.route import Route

CODE, RUNTIME = "modeling_depthgraph", "depthgraph_runtime"

#: What the runtime is put together from, in this order.
SOURCES: tuple[ModuleType | type, ...] = (plain_error, Mixer, Gated, config_class, slots, running, parts, alone)

#: Operators in generated code → how they are written.
SIGNS: Mapping[Any, str] = {operator.add: "+", operator.truediv: "/"}


HEAD = '''
"""{base} with {N} layers and {E} executions of them: {route}

depthgraph {version} wrote this file with transformers {transformers}. It and `depthgraph_runtime.py` need torch and
transformers; depthgraph itself is not needed. The weights have the names that they have without a route.
"""
'''

#: What every `modeling_depthgraph.py` takes from the runtime, beside the modules of `mix` and `gate`.
USED = ("OwnerPart", "Routed", "Written", "WrittenTop", "forward_of", "list_property", "top_forward_of")

CODE_DOC = '''
    """Run the route: `layer(2, h, execution=4)` is the fourth execution, one of layer 2, of the hidden state h."""
'''

CONFIG = """
class {name}(Routed, {base}):
    route: str = ROUTE
    loop_counts: dict[str, int] | None = None
    route_bindings: dict[str, int] | None = None
    kv_cache: str = "per_execution"
"""

OWNER = """
class {name}(OwnerPart, {kind}):
    _base = {kind}
"""

OWNER_BODY = """    forward = forward_of({kind})
    {list_name} = list_property("{list_name}")
"""

TOP = """
class {name}({parts}, {base}):
    _base = {base}
    config_class = {config}
    written = Written(ROUTE, PATH, {N}, run, {own}, "{owner}", "{list_name}")
"""

TOP_BODY = """    owner_class = {owner}
    forward = top_forward_of({base})
"""


def runtime_code(version: str) -> str:
    """Return `depthgraph_runtime.py`: our own files in one, with what they import of torch and transformers.

    Args:
        version: of this package.
    """
    head = f'"""What runs a route inside a model of transformers: parts of depthgraph {version}, Apache License 2.0."""'
    trees = [(source, ast.parse(inspect.getsource(source))) for source in SOURCES]
    bodies = [_body(source, tree) for source, tree in trees]
    return "\n\n\n".join([f"{head}\n\n" + "\n".join(sorted(set(_imports()))), *bodies]) + "\n"


def _imports() -> Iterator[str]:
    """Yield the imports of the files that the runtime is from, without those of this package."""
    names: dict[str, set[str]] = defaultdict(set)
    for source in SOURCES:
        module = source if isinstance(source, ModuleType) else sys.modules[source.__module__]
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.Import):
                yield ast.unparse(node)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("depthgraph"):
                names[node.module].update(alias.name for alias in node.names)
    yield from (f"from {module} import {', '.join(sorted(names[module]))}" for module in names)


def _body(source: ModuleType | type, tree: ast.Module) -> str:
    """Return a source without its imports and the text at its top, comments and all."""
    lines = inspect.getsource(source).splitlines()
    kept = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    if isinstance(source, ModuleType):
        kept = kept[1:]
    first = min(line for node in kept for line in [node.lineno, *(each.lineno for each in _decorators(node))]) - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return "\n".join(lines[first:]).strip("\n")


def _decorators(node: ast.stmt) -> Iterable[ast.expr]:
    return node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef) else ()


def route_code(route: Route) -> str:
    """Return a route as a function: a line for every execution, and for every operation that computes.

    Examples:
        >>> print(route_code(Route.of([1, 2, 1])))
        def run(layer, own, hidden):
            L1_1 = layer(1, hidden, execution=1)
            L2_1 = layer(2, L1_1, execution=2)
            L1_2 = layer(1, L2_1, execution=3)
            return L1_2
    """
    steps = [Step(nn.Identity(), number) for number in range(route.parameter_depth)]
    graph = compile_route(route, steps, per_execution=_position, returns="tensor", width=1).graph
    lines = ["def run(layer, own, hidden):", *(f"    {line}" for node in graph.nodes if (line := _line(node)))]
    return "\n".join(lines)


def _position(execution: Execution) -> dict[str, int]:
    return {"position": execution.position}


def _line(node: fx.Node) -> str:
    """Return a node of a compiled route as a line of Python; empty for its inputs."""
    match node.op:
        case "placeholder":
            return ""
        case "output":
            return f"return {_written(node.args[0])}"
        case "call_module" if "execution" in node.meta:
            layer, place = node.meta["execution"].layer, node.kwargs["position"]
            return f"{node.name} = layer({layer}, {_written(node.args[0])}, execution={place})"
        case "call_module":
            return f"{node.name} = own.{node.target}({', '.join(map(_written, node.args))})"
        case "call_method":
            return f"{node.name} = {_written(node.args[0])}.{node.target}()"
    first, second = map(_written, node.args)
    return f"{node.name} = {first} {SIGNS[node.target]} {second}"


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value))}{',' if len(value) == 1 else ''})"
    return value.name if isinstance(value, fx.Node) else repr(value)


def model_code(model: nn.Module, routing: Routing, route: Route, version: str) -> tuple[str, str, str]:
    """Return `modeling_depthgraph.py` for a model, and the names of its config's class and of its own there.

    Args:
        model: with a route.
        routing: the route that it has.
        route: the one to write; at some counts, where they are chosen at run time.
        version: of this package.

    Raises:
        CompileError: `unroutable-model`: its class is none of transformers.
    """
    layers, base, kind = routing.layers, _plain(model), _plain(routing.layers.owner)
    config = type(routing.config).__mro__[2]
    is_owner = layers.owner is model
    name, owner, named = (f"Routed{each.__name__}" for each in (base, kind, config))
    own = {each: type(module).__name__ for each, module in _own(layers).items()}
    body = OWNER_BODY.format(kind=kind.__name__, list_name=layers.name)
    terms = {"route": route, "N": route.parameter_depth, "E": route.execution_depth, "version": version}
    terms |= {"transformers": transformers.__version__}
    terms |= {"name": name, "base": base.__name__, "config": named, "owner": layers.path, "list_name": layers.name}
    terms |= {"parts": "WrittenTop, OwnerPart" if is_owner else "WrittenTop", "own": _pairs(own)}
    used = sorted({*USED, *own.values()})
    texts = [
        HEAD.format(**terms),
        "\n".join([*_imports_of((base, kind, config)), f"from .{RUNTIME} import {', '.join(used)}"]),
        f'ROUTE = "{route}"\nPATH = {route.path}',
        route_code(route).replace("\n", CODE_DOC, 1),
        CONFIG.format(name=named, base=config.__name__),
        *([] if is_owner else [OWNER.format(name=owner, kind=kind.__name__) + body]),
        TOP.format(**terms) + (body if is_owner else TOP_BODY.format(owner=owner, base=base.__name__)),
    ]
    return "\n\n\n".join(text.strip("\n") for text in texts) + "\n", named, name


def _pairs(own: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{name}": {kind}' for name, kind in own.items()) + "}"


def _own(layers: Layers) -> dict[str, nn.Module]:
    holder = layers.owner._modules.get(parts.WEIGHTS)
    own = {} if holder is None else dict(holder.named_children())
    for name, module in own.items():
        if type(module) not in (Mixer, Gated):
            reason = f"`{name}` is a {type(module).__name__}, which the folder would not have"
            raise unroutable(layers.owner, reason, "merge adapters into the model first")
    return own


def _plain(module: Any) -> Any:
    base = module._base
    if not base.__module__.startswith("transformers."):
        reason = f"its class is none of transformers, but of {base.__module__}, which the folder would not have"
        raise unroutable(module, reason, "save it with save_pretrained, and load it where that is installed")
    return base


def _imports_of(kinds: Iterable[Any]) -> list[str]:
    modules: dict[str, set[str]] = defaultdict(set)
    for kind in kinds:
        modules[kind.__module__].add(kind.__name__)
    return [f"from {module} import {', '.join(sorted(modules[module]))}" for module in sorted(modules)]
