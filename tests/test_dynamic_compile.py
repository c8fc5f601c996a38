"""torch.compile of a module with loop counts at run time: one compilation a count, none on return, none left out."""

import itertools
import warnings

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

import depthgraph as dg
from depthgraph.decoder_config import DecoderConfig
from depthgraph.nn import Decoder

from layers import Residual

pytestmark = pytest.mark.usefixtures("one_thread", "fresh")

TEXT = "1 save(e) (mix(e) 2..3)x r 4"
#: More than torch's limit of 8 compilations of one function.
COUNTS = range(1, 13)


@pytest.fixture
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def model_of():
    torch.manual_seed(0)
    model = dg.compile(TEXT, [Residual() for _ in range(4)], dynamic=["r"], width=6)
    nn.init.normal_(model.mix_1.weight, std=0.2)
    return model


def wrapped(model, **options):
    return torch.compile(model, **options)


def in_place(model, **options):
    model.compile(**options)
    return model


class CountsCalls(CompileCounter):
    """A backend that counts the graphs it compiles, and how often they run: what runs eagerly is not among them."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def __call__(self, graph, examples):
        forward = super().__call__(graph, examples)

        def run(*arguments):
            self.calls += 1
            return forward(*arguments)

        return run


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("compiled", [wrapped, in_place])
def test_there_is_one_compilation_for_each_count_and_none_on_return(compiled, fullgraph):
    plain, counter = model_of(), CountsCalls()
    model = compiled(model_of(), backend=counter, fullgraph=fullgraph)
    hidden = torch.randn(2, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, r in enumerate(COUNTS, 1):
            assert torch.equal(model(hidden, r=r), plain(hidden, r=r))
            assert (counter.frame_count, counter.calls) == (number, number)
        for r in reversed(COUNTS):
            assert torch.equal(model(hidden, r=r), plain(hidden, r=r))
    assert counter.frame_count == len(COUNTS)
    assert counter.calls == 2 * len(COUNTS)  # every call ran a compiled graph: nothing fell back to eager


def test_gradients_of_a_compiled_model_are_those_of_the_plain_one():
    plain = model_of()
    model = torch.compile(model_of(), backend="aot_eager", fullgraph=True)
    hidden = torch.randn(2, 6)
    for r in (3, 1, 3):
        for each in (plain, model):
            each.zero_grad()
            each(hidden, r=r).square().sum().backward()
        for one, other in zip(plain.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)


def test_a_graph_may_be_compiled_alone():
    counter = CountsCalls()
    model = model_of()
    body = torch.compile(model.at(r=3), backend=counter)
    hidden = torch.randn(2, 6)
    assert torch.equal(body(hidden), model(hidden, r=3))
    assert (counter.frame_count, counter.calls) == (1, 1)


@torch.no_grad()
def test_inside_another_model_there_is_one_compilation_for_each_count_too():
    config = DecoderConfig(vocab_size=20, width=8, ffn_width=8, heads=2, parameter_depth=4, context=8, positions="nope")
    plain, model = (Decoder(config, dg.parse(TEXT), dynamic=["r"]) for _ in range(2))
    counter = CountsCalls()
    model.compile(backend=counter)
    tokens = torch.arange(8)[None]
    graphs = []
    for r in (*COUNTS, *reversed(COUNTS)):
        torch.testing.assert_close(model(tokens, r=r), plain(tokens, r=r))
        graphs.append(counter.frame_count)
    rises = [after - before for before, after in itertools.pairwise(graphs)]
    # what stands before and behind the route is compiled once, and once more when torch sees that the count changes
    assert graphs[0] <= 3
    assert sum(rises) <= len(COUNTS) + 1
    assert not any(rises[len(COUNTS) - 1 :])
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(plain, backend="eager", fullgraph=True)(tokens, r=2)


def test_the_whole_route_of_one_count_can_be_exported():
    model = model_of().eval()
    hidden = torch.randn(2, 6)
    program = torch.export.export(model.at(r=3), (hidden,))
    assert torch.equal(program.module()(hidden), model(hidden, r=3))
