"""A route → an fx graph over `layers.0` …, `mix_1`, `gate_1` …: what the generated code is made from."""

import builtins
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from torch import Tensor, fx

from depthgraph.flow import Computing
from depthgraph.nn.capture import Key
from depthgraph.nn.conditioning_bind import Calls
from depthgraph.nn.inputs import Constants, Input
from depthgraph.nn.runtime import hidden_of, moved_beside, moved_to
from depthgraph.nn.signature import LayerSignature, Returns, kind_of
from depthgraph.nn.weights import name_of
from depthgraph.operations import Add, Execution, Exit, Gate, Mean, Mix, StopGradient, Sum
from depthgraph.route import Route


@final
@dataclass
class Writer:
    """Writes the fx graph of one route: one node an execution, and one or a few an operation of data flow.

    Attributes:
        signatures: of the layers that run.
        inputs: the module's inputs beside the hidden state.
        returns: the caller's word on what layers return.
        moves: whether values are moved between devices.
        conditions: what is called around executions, by (layer, visit).
    """

    signatures: Mapping[int, LayerSignature]
    inputs: tuple[Input, ...]
    returns: Returns
    moves: bool
    conditions: Mapping[Key, Calls] = field(default_factory=dict)
    graph: fx.Graph = field(default_factory=fx.Graph)
    nodes: dict[str, fx.Node] = field(default_factory=dict)
    moved: dict[tuple[str, int], fx.Node] = field(default_factory=dict)

    def write(self, route: Route, constants: tuple[Constants, ...]) -> fx.Graph:
        """Write the whole graph and return it."""
        hidden = self.graph.placeholder("hidden", type_expr=Tensor)
        for given, name in zip(self.inputs, node_names([one.name for one in self.inputs]), strict=True):
            default = () if given.required else (given.default,)
            self.nodes[given.name] = self.graph.create_node("placeholder", given.name, default, name=name)
        bound = dict(zip(route.executions, constants, strict=True))
        states, output = route.flow
        nodes: list[fx.Node] = []
        exits: list[fx.Node] = []
        for state in states:
            h, operand = (None if read is None else nodes[read.state] for read in (state.hidden, state.operand))
            match state.operation:
                case None:
                    node = hidden
                case Execution() as execution if h is not None:
                    node = self._execution(execution, h, bound[execution])
                case Exit() if h is not None:
                    node = h
                    exits.append(h)
                case operation:
                    node = self._data_flow(operation, h, operand, [nodes[end.state] for end in state.ends])
                    node.meta["operation"] = operation
            nodes.append(node)
        self._output(nodes[output.state], exits)
        return self.graph

    def _output(self, hidden: fx.Node, exits: list[fx.Node]) -> None:
        if exits:
            self.graph.output((hidden, tuple(exits)))
        else:
            self.graph.output(hidden, type_expr=Tensor)

    def _data_flow(
        self, operation: Computing, h: fx.Node | None, operand: fx.Node | None, ends: list[fx.Node]
    ) -> fx.Node:
        """Write an operation between executions.

        Args:
            operation: it.
            h: the hidden state before it; joins have none.
            operand: the state in its register, for those that read one.
            ends: the results of its branches, for joins.
        """
        match operation, h, operand:
            case Add(), fx.Node(), fx.Node():
                return self.graph.call_function(operator.add, (h, self._beside(operand, h)))
            case Mix() | Gate() as weighted, fx.Node(), fx.Node():
                return self._weighted(name_of(weighted), h, operand)
            case StopGradient(), fx.Node(), _:
                return self.graph.call_method("detach", (h,))
            case Mean() | Sum(), None, _:
                first, *others = ends
                for end in others:
                    first = self.graph.call_function(operator.add, (first, self._beside(end, first)))
                if isinstance(operation, Mean):
                    return self.graph.call_function(operator.truediv, (first, len(ends)))
                return first
            case _:
                raise AssertionError(f"{operation} reads what it does not take")

    def _weighted(self, name: str, h: fx.Node, operand: fx.Node) -> fx.Node:
        if self.moves:
            module = self.graph.create_node("get_attr", name)
            h, operand = (self._call(moved_to, module, value) for value in (h, operand))
        return self.graph.call_module(name, (h, operand))

    def _beside(self, value: fx.Node, other: fx.Node) -> fx.Node:
        """Return a hidden state on the device of another one."""
        return self._call(moved_beside, value, other) if self.moves else value

    def _execution(self, execution: Execution, hidden: fx.Node, bound: Constants) -> fx.Node:
        layer, signature = execution.layer, self.signatures[execution.layer]
        calls = self.conditions.get((layer, execution.visit), Calls())
        names = [given.name for given in self.inputs if given.reaches(signature) and given.name not in bound]
        given = {name: self._input(name, layer) for name in names}
        if self.moves:
            hidden = self._call(moved_to, self._layer(layer), hidden)
        for target in calls.before:
            hidden = self._condition(target, execution, hidden)
        target, arguments = f"layers.{layer - 1}", [hidden]
        if calls.weights is not None:
            target, arguments = calls.weights, [self._layer(layer), hidden]
        node = self.graph.create_node("call_module", target, tuple(arguments), {**given, **bound}, name=execution.name)
        node.meta.update(execution=execution, returns=kind_of(signature, self.returns))
        output = self._taken(node, signature)
        if calls.scale is not None:
            output = self._condition(calls.scale, execution, output, hidden)
        for target in calls.after:
            output = self._condition(target, execution, output)
        return output

    def _taken(self, node: fx.Node, signature: LayerSignature) -> fx.Node:
        """Return the hidden state in what a layer returned."""
        match kind_of(signature, self.returns):
            case "tensor":
                return node
            case "tuple":
                return self.graph.call_function(operator.getitem, (node, 0))
            case "auto":
                return self._call(hidden_of, node, signature.title)

    def _condition(self, target: str, execution: Execution, *arguments: fx.Node) -> fx.Node:
        """Call what an execution has of its own, `conditioning.L2_2.scale`, in a node `scale_L2_2`."""
        name = f"{target.rpartition('.')[-1]}_{execution.name}"
        node = self.graph.create_node("call_module", target, arguments, name=name)
        node.meta.update(conditions=execution, returns="tensor")
        return node

    def _input(self, name: str, layer: int) -> fx.Node:
        """Return the node of an input, on the layer's device: all executions of a layer share the move."""
        if not self.moves:
            return self.nodes[name]
        if (name, layer) not in self.moved:
            self.moved[name, layer] = self._call(moved_to, self._layer(layer), self.nodes[name])
        return self.moved[name, layer]

    def _layer(self, layer: int) -> fx.Node:
        return self.graph.create_node("get_attr", f"layers.{layer - 1}", name=f"layer_{layer}")

    def _call(self, function: Callable[..., Any], *arguments: fx.Node | str) -> fx.Node:
        node = self.graph.call_function(function, arguments)
        node.meta["is_wrapped"] = True  # fx then keeps the call when the generated code is traced again
        return node


def node_names(inputs: list[str]) -> list[str]:
    """Return the names of the inputs' nodes: their own, or new ones where fx or an execution needs those.

    Generated code reads every input into the variable of its node before anything runs. So no node may have the
    name of another input, which would be overwritten before it is read; and a name that fx would change (of a
    builtin, or not ASCII) could be changed into one.

    Examples:
        >>> node_names(["mask", "L1_1", "L1_1_input", "len"])
        ['mask', 'L1_1_input_', 'L1_1_input', 'len_input']
    """
    taken = set(inputs)
    names = []
    for name in inputs:
        if not name.isascii() or hasattr(builtins, name) or re.fullmatch(r"L\d+_\d+", name):
            plain = re.sub(r"\W", "_", name, flags=re.ASCII)
            names.append(next(one for one in _spellings(plain) if one not in taken))
            taken.add(names[-1])
        else:
            names.append(name)
    return names


def _spellings(name: str) -> Iterator[str]:
    return (f"{name}_input{'_' * count}" for count in itertools.count())
