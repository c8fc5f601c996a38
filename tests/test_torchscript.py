"""Scripted and traced layers."""

import copy
import inspect
import io

import pytest
import torch
from torch import Tensor, nn

from depthgraph.errors import CompileError
from depthgraph.nn import capture, compile
from depthgraph.route import Route

from layers import Residual

WIDTH = 6


class ScaledPair(nn.Module):
    def forward(self, hidden: Tensor, scale: Tensor, shift: float = 0.5) -> tuple[Tensor, Tensor]:
        return hidden * scale + shift, scale


def scripted(layer, *_example):
    return torch.jit.script(layer)


def traced(layer, *example):
    return torch.jit.trace(layer, example)


def loaded(layer, *_example):
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(layer), buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


torchscript = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


@torchscript
@pytest.mark.parametrize("make", [scripted, traced, loaded])
def test_scripted_and_traced_layers_are_layers_like_any_other(make):
    hidden, scale = torch.randn(2, WIDTH), torch.tensor(2.0)
    plain = [Residual(), nn.Linear(WIDTH, WIDTH), ScaledPair()]
    layers = [make(plain[0], hidden), make(plain[1], hidden), make(plain[2], hidden, scale)]
    model = compile(Route.of([1, 3, 2, 1]), layers, example=hidden)
    expected = plain[0](plain[1](plain[2](plain[0](hidden), scale)[0]))
    assert torch.allclose(model(hidden, scale=scale), expected)
    assert next(iter(inspect.signature(model.forward).parameters)) == "hidden"
    assert inspect.signature(model.forward).parameters["scale"].default is inspect.Parameter.empty
    assert list(model.state_dict()) == list(compile(Route.of([1, 2, 3]), plain).state_dict())
    with capture(model) as seen:
        output = model(hidden, scale=scale)
    assert list(seen) == [(1, 1), (3, 1), (2, 1), (1, 2)]
    assert torch.equal(seen[1, 2], output)
    model(hidden, scale=scale)
    assert torch.equal(copy.deepcopy(model)(hidden, scale=scale), output)


@torchscript
def test_a_message_names_a_scripted_layer_by_the_class_that_was_scripted():
    with pytest.raises(CompileError, match=r"layer 1 \(ScaledPair\) needs `scale`"):
        compile(Route.of([1]), [torch.jit.script(ScaledPair())], inputs=())
