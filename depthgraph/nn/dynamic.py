"""A compiled module whose loop counts are arguments: one set of weights, a graph for each count that is asked for.

torch.compile sees the graphs and not what chooses between them: each is compiled on its own when its count is first
run, so a count is no reason to compile another one again, and there may be any number of them (docs/loops.md).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from torch import nn

from depthgraph.errors import CompileError, SpecError, shown
from depthgraph.nn.compile import compile_route
from depthgraph.nn.conditioning_build import Conditioning
from depthgraph.nn.conditioning_parts import CONDITIONING
from depthgraph.nn.module import Layers, RoutedModule, match_compiled_keys
from depthgraph.nn.recipe import Recipe
from depthgraph.nn.weights import name_of, weighted
from depthgraph.operations import Gate, Mix
from depthgraph.route import Route, as_integer
from depthgraph.source import Source
from depthgraph.syntax import RouteSpec

#: Where no count has a default, those from 1 to here are tried for the first one that gives a route.
TRIED = 64

#: The same weights are at the same places, whatever the counts: the places of `mix` and `gate`, in order.
Places = tuple[tuple[type[Mix | Gate], object], ...]


class DynamicModule(nn.Module):
    """A route over layers, whose loop counts are chosen at every call: `model(hidden, r=8)`.

    It computes what the module computes that is compiled for this count, to the last bit, and has that module's state
    dict: `layers.0.…`, `mix_1.weight` …, each once.

    Attributes:
        layers: all N layers, those that a route drops too. Layer k is `layers[k - 1]`.
        recipe: the spec, and how it is compiled.
    """

    layers: Layers

    def __init__(self, recipe: Recipe, counts: Mapping[str, int], first: RoutedModule) -> None:
        """Make the module of a recipe around its first graph, that of `counts`, which has all of its weights."""
        super().__init__()
        _check_inputs(first, recipe.names)
        _leave_to_the_graphs()
        self.recipe = recipe
        self.training = first.training
        self._first = tuple(counts.values())
        self._places = self._places_of(first.route)
        # one table of submodules for all: what is replaced here is replaced in every graph
        self._modules = first._modules
        self._bodies, self._bodies_of = {self._first: first}, self._modules

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the counts."""
        return self.recipe.names

    @property
    def first(self) -> RoutedModule:
        """The module at the counts that were compiled first: the defaults, or the smallest that give a route."""
        return self._at(self._first)

    @property
    def route(self) -> Route:
        """The route at the default counts.

        Raises:
            CompileError: `loop-count`: a count has no default.
        """
        return self.at().route

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that get no gradient at the first counts (see `RoutedModule`).

        At other counts they may be others, where `backprop_last` cuts: ask a data-parallel wrapper to find them.
        """
        return self.first.unused_parameters

    def forward(self, hidden: Any, *inputs: Any, **named: Any) -> Any:
        """Run the route at some counts.

        Args:
            hidden: the hidden state that the route starts with.
            inputs: the other inputs of the layers, by place.
            named: the counts, and the other inputs by name.

        Returns:
            what the module of a fixed route returns: the hidden state at its end, or a pair of it and the exits.

        Raises:
            CompileError: `loop-count`, `moving-weights`; and whatever `compile` raises at a count met first.
            SpecError: the spec means no route at these counts.
        """
        return _choose(self, named)(hidden, *inputs, **named)

    def at(self, **counts: int) -> RoutedModule:
        """Return the module at some counts: a graph over the same weights, which is built once.

        Raises:
            CompileError: as `forward`.
            SpecError: as `forward`.
        """
        return self._at(self._key(counts))

    def _key(self, counts: Mapping[str, Any]) -> tuple[int, ...]:
        unknown = [name for name in counts if name not in self.recipe.names]
        listed = ", ".join(f"{name}=…" for name in self.recipe.names)
        if unknown:
            message = f"this model has no loop count `{unknown[0]}`"
            raise CompileError("loop-count", message, help=f"its counts are {', '.join(self.recipe.names)}")
        values = []
        for name in self.recipe.names:
            given = counts.get(name, self.recipe.defaults.get(name))
            value = as_integer(given)
            if value is None:
                fault = "is missing, and has no default" if given is None else f"is {shown(given)}, which is no integer"
                help = f"call model(hidden, {listed}), or compile with a default: dynamic={{'{name}': 4}}"
                raise CompileError("loop-count", f"the loop count `{name}` {fault}", help=help)
            values.append(value)
        return tuple(values)

    def _at(self, key: tuple[int, ...]) -> RoutedModule:
        if self._bodies_of is not self._modules:  # a copy, attribute by attribute: the graphs are the original's
            self._bodies, self._bodies_of = {}, self._modules
        if key not in self._bodies:
            counts = dict(zip(self.recipe.names, key, strict=True))
            route = self.recipe.route(counts)
            self._check_places(route, key)
            weights = {name_of(each): self._modules[name_of(each)] for each in weighted(route)}
            options = {**self.recipe.options, "weights": weights, "allow_shared": True}
            body = compile_route(route, self.layers, self.recipe.loops(counts), **options)
            _check_inputs(body, self.recipe.names)
            own = body._modules.get(CONDITIONING)  # its parts are shared; what each execution calls is the route's
            body._modules = self._modules if own is None else {**self._modules, CONDITIONING: own}
            body.training = self.training
            self._bodies[key] = body
        body = self._bodies[key]
        if body._modules is not self._modules:  # all but its conditioning is the model's, replaced since or not
            body._modules.update((name, module) for name, module in self._modules.items() if name != CONDITIONING)
        return body

    def _places_of(self, route: Route) -> Places:
        places = {name_of(each): (type(each), self.recipe.place(each)) for each in reversed(weighted(route))}
        return tuple(places[name] for name in sorted(places, key=lambda name: (name[:3], int(name.split("_")[1]))))

    def _check_places(self, route: Route, key: tuple[int, ...]) -> None:
        """Refuse counts at which a place of `mix` or `gate` would get the weights of another."""
        places = self._places_of(route)
        if places == self._places:
            return
        here, before = (_said(self.recipe.names, counts) for counts in (key, self._first))
        message = f"the places of `mix` and `gate` that run at {here} are not those that run at {before}"
        raise CompileError(
            "moving-weights", message, help="let the same ones run at every count: take them out of the loop"
        )

    def train(self, mode: bool = True) -> "DynamicModule":
        """Set training mode, of the graphs too."""
        super().train(mode)
        for body in self._bodies.values():
            body.training = mode
        return self

    def extra_repr(self) -> str:
        """Say the spec and the counts."""
        return f"{self.recipe.spec}; counts: {', '.join(self.recipe.names)}"

    def __getstate__(self) -> dict[str, Any]:
        """Leave the graphs out: a copy builds those that it runs, over its own weights."""
        return {**cast(Any, nn.Module).__getstate__(self), "_bodies": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        _leave_to_the_graphs()
        super().__setstate__(state)  # type: ignore[no-untyped-call]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        match_compiled_keys(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def compile_dynamic(
    spec: object,
    layers: Iterable[nn.Module],
    dynamic: Iterable[str] | Mapping[str, int],
    *,
    bindings: Mapping[str, int] | None = None,
    backprop_last: int | Mapping[str, int] | None = None,
    **options: Any,
) -> DynamicModule:
    """Compile a spec with free loop counts: what `compile` does when it is given `dynamic`, and how it is described.

    Raises:
        SpecError: the spec means no route over these layers at any count that was tried.
        CompileError: as for `compile`; `layer-inputs` also for an input with the name of a count.
    """
    if not isinstance(spec, str | Source | RouteSpec):
        found = "a route, whose counts are fixed" if isinstance(spec, Route) else f"a {type(spec).__name__}"
        message = f"`dynamic` names counts in a spec, and {found} is given"
        raise CompileError("not-a-route", message, help='give the text: compile("1 (2 3)x r 4", layers, dynamic=["r"])')
    modules = list(layers)
    if not isinstance(options.get("conditioning"), Conditioning | None):
        options["conditioning"] = Conditioning(options["conditioning"])  # one for all counts
    keep = {name: options[name] for name in options if name not in ("example", "weights", "allow_shared")}
    recipe = Recipe.of(spec, len(modules), dynamic, bindings or {}, backprop_last, keep)
    counts, route = _first_route(recipe)
    first = compile_route(route, modules, recipe.loops(counts), **options)
    return DynamicModule(recipe, counts, first)


def _first_route(recipe: Recipe) -> tuple[dict[str, int], Route]:
    """Return the route at the default counts, each that has none at the smallest number that gives a route."""
    missing = [name for name in recipe.names if name not in recipe.defaults]
    failure: SpecError | None = None
    for number in range(1, TRIED + 1 if missing else 2):
        given = {**recipe.defaults, **dict.fromkeys(missing, number)}
        counts = {name: given[name] for name in recipe.names}
        try:
            return counts, recipe.route(counts)
        except SpecError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _check_inputs(body: RoutedModule, names: Iterable[str]) -> None:
    """Refuse an input of the layers that could not be given, because it has the name of a count."""
    taken = {"hidden", *(str(node.target) for node in body.graph.nodes if node.op == "placeholder")}
    both = sorted(taken & set(names))
    if both:
        message = f"`{both[0]}` is a loop count, and an input of the layers"
        help = "give the count another name in the spec; or leave the input out: inputs=… names those that are wanted"
        raise CompileError("layer-inputs", message, help=help)


def _said(names: Iterable[str], counts: Iterable[int]) -> str:
    return ", ".join(f"{name}={count}" for name, count in zip(names, counts, strict=True))


def _take(module: DynamicModule, named: dict[str, Any]) -> RoutedModule:
    """Take the counts out of the arguments of a call, and return what runs them."""
    return module.at(**{name: named.pop(name) for name in module.recipe.names if name in named})


#: `_take`, which torch.compile never traces: it builds graphs. Made when there is something to build.
_choose: Callable[[DynamicModule, dict[str, Any]], RoutedModule] = _take


def _leave_to_the_graphs() -> None:
    """Keep `forward` out of what torch.compile traces, and let it see the graph that is chosen.

    `torch.compiler.disable(recursive=False)` on `forward` does that too, but then a caller that asks for
    `fullgraph=True` is refused, though each graph is whole. torch.compile is loaded here and not above, because loading
    it takes longer than all of torch.
    """
    global _choose
    if _choose is _take:
        import torch
        from torch._dynamo.eval_frame import skip_code

        skip_code(DynamicModule.forward.__code__)
        _choose = torch.compiler.disable(_take)  # type: ignore[no-untyped-call]
