"""What does not fit together is refused before anything runs."""

import logging

import pytest
import torch
from torch import Tensor, nn

from depthgraph.errors import CompileError
from depthgraph.nn import compile
from depthgraph.route import Route

WIDTH = 8


def refused(code, *words, route=(1,), layers, **options):
    with pytest.raises(CompileError) as caught:
        compile(Route.of(route), layers, **options)
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)


def linear(width=WIDTH, **options):
    return nn.Linear(WIDTH, width, **options)


@pytest.mark.parametrize("kind", [list, tuple, nn.ModuleList, iter, nn.Sequential])
def test_layers_come_in_any_sequence(kind):
    modules = [linear(), linear()]
    layers = nn.Sequential(*modules) if kind is nn.Sequential else kind(modules)
    assert list(compile(Route.of([1, 2]), layers).layers) == modules
    named = nn.ModuleDict({"a": modules[0], "b": modules[1]})
    assert list(compile(Route.of([1, 2]), named.values()).layers) == modules


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (nn.ModuleDict({"a": nn.Identity()}), ["a dict", ".values()"]),
        ({"a": nn.Identity()}, ["a dict", ".values()"]),
        (nn.Linear(2, 2), ["one Linear", "give a sequence of modules"]),
        (None, ["one NoneType"]),
        ([nn.Identity(), torch.relu], ["layer 2 is a builtin_function_or_method"]),
        (["attention"], ["layer 1 is a str"]),
        ([nn.ModuleList()], ["layer 1 (ModuleList) has no forward"]),
        ([nn.Module()], ["layer 1 (Module) has no forward"]),
    ],
)
def test_anything_but_modules_is_refused(layers, words):
    refused(
        "bad-layers",
        *words,
        route=range(1, len(layers) + 1) if isinstance(layers, list) else (1,),
        layers=layers,
    )


def test_a_wrong_number_of_layers_is_refused():
    refused("layer-count", "for 3 layers and 2 were given", "N=2", route=(1, 2, 3), layers=[linear(), linear()])
    refused("layer-count", "for 1 layer and 2 were given", layers=[linear(), linear()])


def test_one_module_as_several_layers_is_refused_unless_asked_for():
    one, two = linear(), linear()
    layers = [one, two, one, linear(), two]
    refused("shared-layer", "layers 1, 3; layers 2, 5", "allow_shared=True", route=range(1, 6), layers=layers)
    model = compile(Route.of([1, 3]), [one, linear(), one], allow_shared=True)
    hidden = torch.randn(2, WIDTH)
    assert torch.equal(model(hidden), one(one(hidden)))


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda device: linear(4, device=device),
            ["makes a hidden state of shape (2, 4) from one of shape (2, 8)"],
        ),
        (lambda device: nn.Linear(4, WIDTH, device=device), ["does not run on a hidden state of shape (2, 8)"]),
        (lambda device: nn.Flatten(0), ["makes a hidden state of shape (16,)"]),
    ],
)
def test_a_layer_that_changes_the_shape_is_found_before_it_runs(make, words, device, caplog):
    with caplog.at_level(logging.ERROR):
        refused(
            "layer-shape",
            "layer 2 (",
            *words,
            route=(1, 2),
            layers=[linear(device=device), make(device)],
            example=torch.empty(2, WIDTH, device="meta"),
        )
    assert not caplog.records


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.norm = nn.BatchNorm1d(WIDTH)
        self.table = torch.ones(WIDTH)  # neither parameter nor buffer
        self.drop = nn.Dropout(0.5)

    def forward(self, hidden: Tensor) -> Tensor:
        self.calls += 1
        return self.drop(self.norm(hidden) * self.table)


def test_the_shape_check_leaves_no_trace():
    layer = Counting()
    hooked = linear()
    hooked.register_forward_hook(lambda *_: pytest.fail("a hook ran"))
    state = torch.get_rng_state()
    compile(Route.of([1, 2]), [layer, hooked], example=torch.empty(4, WIDTH))
    assert layer.calls == 0
    assert int(layer.norm.num_batches_tracked) == 0
    assert torch.equal(torch.get_rng_state(), state)


class NeedsValues(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden * self.weight if hidden.sum().item() > 0 else hidden


class CannotBeCopied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = (one for one in (1, 2))

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden


class NeedsMask(nn.Module):
    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        return hidden * mask


@pytest.mark.parametrize("layer", [NeedsValues(), NeedsValues().to("meta"), CannotBeCopied(), NeedsMask()])
def test_what_cannot_be_seen_is_not_held_against_a_layer(layer):
    compile(Route.of([1]), [layer], example=torch.empty(2, WIDTH))


class Widens(nn.Module):
    def forward(self, hidden: Tensor) -> Tensor:
        return torch.cat([hidden, hidden], -1)


class SaysTensor(nn.Module):
    def forward(self, hidden: Tensor) -> Tensor:
        return hidden, "more"


def hooked(hook):
    layer = Widens()
    layer.register_forward_hook(hook)
    return layer


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LazyLinear(WIDTH),
        lambda: nn.Sequential(nn.LazyLinear(WIDTH), nn.LazyBatchNorm1d()),
        lambda: hooked(lambda _module, _arguments, output: output[:, :WIDTH]),
    ],
)
def test_layers_that_a_copy_cannot_stand_for_are_not_checked_and_run(make):
    hidden = torch.randn(4, WIDTH)
    assert compile(Route.of([1, 1]), [make()], example=hidden)(hidden).shape == hidden.shape


def test_a_wrong_annotation_is_found_with_an_example():
    hidden = torch.randn(4, WIDTH)
    refused("layer-output", "layer 1 (SaysTensor)", "found tuple", layers=[SaysTensor()], example=hidden)
    compile(Route.of([1]), [SaysTensor()], returns="tuple", example=hidden)


@pytest.mark.parametrize("example", [(2, 8), [[1.0]], 8, torch.Size((2, 8)), "2, 8"])
def test_an_example_that_is_no_tensor_is_refused(example):
    refused("layer-shape", "example is a hidden state; found", "torch.empty(2, 8", layers=[linear()], example=example)
