"""The inputs of a compiled route are those of its layers, and constants are bound an execution at a time."""

import inspect

import pytest
import torch
from torch import Tensor, nn

from depthgraph.errors import CompileError
from depthgraph.nn import compile
from depthgraph.route import Route


class Base(nn.Module):
    """Notes what it is called with."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = []


class Masked(Base):
    def forward(self, hidden: Tensor, mask, scale: float = 1.0, *, flag=None) -> Tensor:
        self.calls.append({"mask": mask, "scale": scale, "flag": flag})
        return hidden


class Scaled(Base):
    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        self.calls.append({"scale": scale})
        return x


class OtherScale(Base):
    def forward(self, x: Tensor, scale: float = 2.0) -> Tensor:
        self.calls.append({"scale": scale})
        return x


class Open(Base):
    def forward(self, x: Tensor, **others) -> Tensor:
        self.calls.append(others)
        return x


class Opaque(Base):
    def forward(self, x: Tensor, table=(1, 2)) -> Tensor:
        self.calls.append({"table": table})
        return x


def parameters(model):
    return [str(one) for one in inspect.signature(model.forward).parameters.values()][1:]


def refused(code, *words, route=(1,), layers, **options):
    with pytest.raises(CompileError) as caught:
        compile(Route.of(route, len(layers)), layers, **options)
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)


def test_inputs_are_the_union_of_the_layers_parameters_and_each_gets_its_own():
    masked, scaled, plain = Masked(), Scaled(), nn.Identity()
    model = compile(Route.of([1, 2, 3, 1]), [masked, scaled, plain])
    assert parameters(model) == ["mask", "scale=1.0", "flag=None"]
    model(torch.ones(1), mask="m", scale=3.0)
    assert masked.calls == [{"mask": "m", "scale": 3.0, "flag": None}] * 2
    assert scaled.calls == [{"scale": 3.0}]
    with pytest.raises(TypeError, match="mask"):
        model(torch.ones(1))


def test_only_layers_that_run_ask_for_inputs():
    assert parameters(compile(Route.of([2], 2), [Masked(), Scaled()])) == ["scale=1.0"]


def test_different_defaults_are_refused_and_named_inputs_are_required():
    refused(
        "layer-inputs",
        "layer 1 (Scaled)",
        "layer 2 (OtherScale)",
        "`scale`: 1.0 and 2.0",
        "inputs=('scale', ...)",
        route=(1, 2),
        layers=[Scaled(), OtherScale()],
    )
    layers = [Scaled(), OtherScale()]
    model = compile(Route.of([1, 2]), layers, inputs=("scale",))
    assert parameters(model) == ["scale"]
    model(torch.ones(1), scale=5.0)
    assert layers[0].calls == layers[1].calls == [{"scale": 5.0}]
    none = compile(Route.of([1, 2]), layers, inputs=())
    none(torch.ones(1))
    assert (layers[0].calls[-1], layers[1].calls[-1]) == ({"scale": 1.0}, {"scale": 2.0})


def test_one_and_true_are_different_defaults():
    class Flag(Base):
        def forward(self, x: Tensor, scale: bool = True) -> Tensor:
            return x

    class One(Base):
        def forward(self, x: Tensor, scale: int = 1) -> Tensor:
            return x

    refused("layer-inputs", "True and 1", route=(1, 2), layers=[Flag(), One()])


def test_named_inputs_reach_open_layers_and_only_named_ones():
    layers = [Open(), Scaled()]
    compile(Route.of([1, 2]), layers)(torch.ones(1), scale=2.0)
    assert layers[0].calls == [{}]
    model = compile(Route.of([1, 2]), layers, inputs=("cache", "scale"))
    assert parameters(model) == ["cache", "scale=1.0"]
    model(torch.ones(1), cache="c")
    assert layers[0].calls[-1] == {"cache": "c", "scale": 1.0}
    assert layers[1].calls[-1] == {"scale": 1.0}


def test_defaults_that_are_no_literals_stay_with_the_layer_unless_named():
    layer = Opaque()
    model = compile(Route.of([1]), [layer])
    assert parameters(model) == []
    model(torch.ones(1))
    assert layer.calls == [{"table": (1, 2)}]
    assert parameters(compile(Route.of([1]), [layer], inputs=("table",))) == ["table"]

    class Literal(Base):
        def forward(self, x: Tensor, table: int = 1) -> Tensor:
            return x

    refused("layer-inputs", "no literal", route=(1, 2), layers=[layer, Literal()])


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (("msk",), ["`msk` is taken by no layer", "`mask`, `scale`, `flag`"]),
        ("mask", ["inputs is one text", "inputs=('mask',)"]),
        (("mask", "mask"), ["named twice"]),
        (("scale",), ["layer 1 (Masked) needs `mask`", "per_execution"]),
        (("mask", "no name"), ["'no name' cannot be the name"]),
        (("mask", "class"), ["'class' cannot be the name"]),
        (("mask", 3), ["3 cannot be the name"]),
        (("mask", "hidden"), ["`hidden` is taken by no layer"]),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs, words):
    refused("layer-inputs", *words, layers=[Masked()], inputs=inputs)


def test_names_that_the_generated_code_needs_are_refused():
    class Clash(Base):
        def forward(self, x: Tensor, torch=None, getattr=None) -> Tensor:
            return x

    refused("layer-inputs", "cannot be named `torch`", layers=[Clash()])
    assert compile(Route.of([1]), [Clash()], inputs=())(torch.ones(1)) == 1
    refused("layer-inputs", "cannot be named `self`", layers=[Open()], inputs=("self",))


def test_forwards_that_no_hidden_state_reaches_are_refused():
    class ByName(Base):
        def forward(self, *, hidden):
            return hidden

    class Nothing(Base):
        def forward(self):
            return None

    class ByPosition(Base):
        def forward(self, hidden, mask, /):
            return hidden

    refused("layer-inputs", "layer 1 (ByName) takes no positional argument", layers=[ByName()])
    refused("layer-inputs", "layer 1 (Nothing) takes no positional argument", layers=[Nothing()])
    refused("layer-inputs", "needs `mask`, which it takes by position only", layers=[ByPosition()])


def test_constants_stand_in_the_code_and_take_the_place_of_inputs():
    layer = Masked()
    model = compile(Route.of([1, 1]), [layer], per_execution=lambda one: {"mask": one.position - 1})
    assert parameters(model) == ["scale=1.0", "flag=None"]
    assert "mask = 0" in model.code
    model(torch.ones(1))
    assert [call["mask"] for call in layer.calls] == [0, 1]


def test_a_constant_bound_in_some_executions_leaves_the_input_for_the_others():
    layer = Masked()
    model = compile(Route.of([1, 1]), [layer], per_execution=lambda one: {"mask": 7} if one.visit == 2 else None)
    model(torch.ones(1), mask="given")
    assert [call["mask"] for call in layer.calls] == ["given", 7]
    refused(
        "layer-inputs",
        "`mask` is bound by per_execution in every execution",
        layers=[layer],
        inputs=("mask",),
        per_execution=lambda one: {"mask": 1},
    )


def test_constants_for_names_that_a_layer_does_not_take_are_refused():
    refused(
        "bad-constant",
        "'slot'",
        "layer 2 (Scaled) does not take it",
        "its forward takes scale",
        route=(2, 1),
        layers=[Open(), Scaled()],
        per_execution=lambda one: {"slot": 1},
    )
    refused("bad-constant", "'x'", layers=[Scaled()], per_execution=lambda one: {"x": 1})
    refused("bad-constant", "returned list for L1.1", layers=[Scaled()], per_execution=lambda one: [1])


def test_a_patched_forward_is_the_one_that_is_read():
    layer = Scaled()
    original = layer.forward
    layer.forward = lambda hidden, extra=4: original(hidden) + extra
    model = compile(Route.of([1]), [layer])
    assert parameters(model) == ["extra=4"]
    assert model(torch.ones(1)) == 5


@pytest.mark.parametrize(
    ("code", "options", "words"),
    [
        ("layer-inputs", {"inputs": 5}, ["inputs is a sequence of names; found 5", "`scale`"]),
        ("layer-inputs", {"inputs": True}, ["found True"]),
        ("bad-constant", {"per_execution": {}}, ["a function of an execution; found dict", "lambda"]),
        ("bad-constant", {"per_execution": 0}, ["found int"]),
        ("bad-constant", {"per_execution": [{"scale": 1}]}, ["found list"]),
    ],
)
def test_options_of_another_kind_are_refused(code, options, words):
    refused(code, *words, layers=[Scaled()], **options)
