"""Which constants can be bound for one execution, and how they arrive."""

import enum
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthgraph.errors import CompileError
from depthgraph.nn import compile
from depthgraph.route import Route


class Open(nn.Module):
    """Notes what it is called with."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = []

    def forward(self, x: Tensor, **others) -> Tensor:
        self.calls.append(others)
        return x


def refused(code, *words, layers, **options):
    with pytest.raises(CompileError) as caught:
        compile(Route.of([1]), layers, **options)
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)


CONSTANTS = [
    None, True, -3, 10**30, 0.1, math.inf, -math.inf, "it's \"odd\"\n${x}\ud800", (), (1,), [1, [2, (3, None)]],
    {"a": {"b": [1.5]}, 3: None}, torch.bfloat16, torch.device("cuda", 1), {"dtype": torch.half, "nan": (math.nan,)},
]  # fmt: skip


@pytest.mark.parametrize("value", CONSTANTS, ids=repr)
def test_every_kind_of_constant_arrives_as_it_was(value):
    layer = Open()
    compile(Route.of([1]), [layer], per_execution=lambda one: {"value": value})(torch.ones(1))
    assert repr(layer.calls[0]["value"]) == repr(value)
    assert type(layer.calls[0]["value"]) is type(value)


def endless():
    value = []
    value.append(value)
    return value


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize("value", [object(), torch.ones(1), Level.LOW, {1, 2}, [print], {(1,): 2}, b"x", endless()])
def test_anything_else_is_refused_as_a_constant(value):
    refused("bad-constant", "'value'", "L1.1", layers=[Open()], per_execution=lambda one: {"value": value})


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (np.int64(3), 3),
        (np.uint8(255), 255),
        (np.array(3), 3),
        (np.bool_(True), True),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.float64(0.1), 0.1),
        (np.float16("inf"), math.inf),
        (torch.tensor(-3), -3),
        (torch.tensor(7, dtype=torch.uint8), 7),
        (torch.tensor(True), True),
        ((np.int32(1), [torch.tensor(2)]), (1, [2])),
        ({np.int64(1): {"a": np.float64(2)}}, {1: {"a": 2.0}}),
    ],
)
def test_numbers_of_numpy_and_torch_are_bound_as_those_of_python(given, plain):
    layer = Open()
    model = compile(Route.of([1]), [layer], per_execution=lambda one: {"value": given})
    model(torch.ones(1))
    assert repr(layer.calls[0]["value"]) == repr(plain)  # 1, True and 1.0 are equal, and are written differently
    assert "numpy" not in model.code


@pytest.mark.parametrize(
    "value",
    [
        np.longdouble(1) / 3,
        np.complex64(1),
        np.datetime64("2020-01-01", "ns"),
        np.timedelta64(3, "ns"),
        np.array([1]),
        torch.tensor([3]),
        torch.tensor(0.5),
        torch.tensor(1j),
        torch.tensor(3, device="meta"),
    ],
    ids=repr,
)
def test_numbers_that_are_no_number_of_python_are_refused(value):
    refused("bad-constant", "'value'", layers=[Open()], per_execution=lambda one: {"value": value})
