"""What `dg.cost` needs of layers, leaves alone in them, and says when it cannot count them."""

import json
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional

import depthgraph as dg
from depthgraph.costs import Flops
from depthgraph.decoder_config import PRESETS, DecoderConfig
from depthgraph.nn.decoder import DecoderLayer

from layers import Layer, ReturnsTuple

CONFIG = DecoderConfig(vocab_size=17, width=12, ffn_width=20, heads=3, parameter_depth=2, context=32, positions="nope")
CHAIN = dg.Route.of([1, 2, 1])


def state_of(layer):
    tensors = [*layer.parameters(), *layer.buffers()]
    return [(id(each), each.data_ptr(), each._version, each.device, each.grad, each.clone()) for each in tensors]


def test_layers_generators_and_hooks_stay_as_they_are():
    layers = [nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(5), nn.Dropout(0.5)) for _ in range(2)]
    seen = []
    for layer in layers:
        layer.table = torch.arange(10)
        layer.register_forward_hook(lambda *_: seen.append("forward"))
        layer.register_forward_pre_hook(lambda *_: seen.append("before"))
        layer.register_full_backward_hook(lambda *_: seen.append("backward"))
    before = [state_of(layer) for layer in layers]
    generator = torch.get_rng_state()
    dg.cost(CHAIN, layers, batch=2, length=5)
    for layer, states in zip(layers, before, strict=True):
        for one, other in zip(state_of(layer), states, strict=True):
            assert one[:5] == other[:5]
            assert torch.equal(one[5], other[5])
        assert layer.table.device.type == "cpu"
        assert len(layer._forward_hooks) == len(layer._backward_hooks) == 1
    assert seen == []
    assert torch.equal(torch.get_rng_state(), generator)


def test_tensors_in_plain_attributes_are_copied_without_data_too():
    class Tables(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 6)
            self.tables = {"first": [torch.ones(6)]}
            self.alias = self.linear.weight
            self.computed = self.linear.weight * 2  # no leaf of autograd: plain deepcopy refuses it

        def forward(self, hidden):
            return functional.linear(hidden, self.alias + self.computed) * self.tables["first"][0]

    found = dg.cost(CHAIN, [Tables(), Tables()], length=4)
    assert found.parameters == 2 * 42
    assert found.forward_flops == 3 * 2 * 4 * 6 * 6


def test_a_function_makes_layers_too_large_for_this_machine():
    config = DecoderConfig(
        vocab_size=17, width=16_384, ffn_width=53_248, heads=128, parameter_depth=12, context=32, positions="nope"
    )
    made = []

    def make(number):
        made.append(number)
        return DecoderLayer(config)

    found = dg.cost(dg.route("block(3..4)x2", N=12), make, length=8, width=16_384)
    assert made == list(range(1, 13))
    assert found.parameters == config.parameter_count - 17 * 16_384 - 16_384 > 4 * 10**10


def test_layers_of_the_meta_device_are_counted_as_others():
    with torch.device("meta"):
        layers = [DecoderLayer(CONFIG) for _ in range(2)]
    assert dg.cost(CHAIN, layers, length=4) == dg.cost(CHAIN, [DecoderLayer(CONFIG) for _ in range(2)], length=4)


def test_the_caller_s_modes_take_no_part():
    layers = [DecoderLayer(CONFIG) for _ in range(2)]
    expected = dg.cost(CHAIN, layers, length=4)
    with torch.no_grad():
        assert dg.cost(CHAIN, layers, length=4) == expected
    with torch.inference_mode():
        assert dg.cost(CHAIN, layers, length=4) == expected
    with torch.device("meta"):
        assert dg.cost(CHAIN, layers, length=4) == expected


def test_a_shared_layer_counts_its_parameters_once_and_may_be_several_layers():
    layer = DecoderLayer(CONFIG)
    with pytest.raises(dg.CompileError, match="one module object is given as several layers"):
        dg.cost(CHAIN, [layer, layer], length=4)
    found = dg.cost(CHAIN, [layer, layer], length=4, allow_shared=True)
    one = dg.cost(dg.route("1"), [layer], length=4)
    assert found.parameters == one.parameters
    assert found.unshared_parameters == 3 * one.parameters
    assert found.forward == one.forward * 3


def test_dropped_layers_are_parameters_and_nothing_else():
    layers = [Layer(6), Layer(8), Layer(6)]
    found = dg.cost(dg.route("1 drop(2) 3"), layers, length=4)
    assert (found.parameters, found.unused_parameters, found.unshared_parameters) == (42 + 72 + 42, 72, 84)
    assert [part.layer for part in found.parts] == [1, 3]
    assert found.visits == (1, 0, 1)


def test_constants_of_an_execution_reach_it():
    class Windowed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 6)

        def forward(self, hidden, times=1):
            for _ in range(times):
                hidden = self.linear(hidden)
            return hidden

    found = dg.cost(
        CHAIN, [Windowed(), Windowed()], length=4, per_execution=lambda execution: {"times": execution.position}
    )
    assert found.forward_flops == (1 + 2 + 3) * 2 * 4 * 36
    assert [part.forward.total for part in found.parts] == [4 * 288, 2 * 288]


def test_compiled_layers_are_counted_as_they_were():
    layers = [Layer(6), Layer(6)]
    expected = dg.cost(CHAIN, layers, length=4)
    wrapped = [torch.compile(layers[0], backend="eager"), nn.Sequential(torch.compile(layers[1], backend="eager"))]
    found = dg.cost(CHAIN, wrapped, length=4)
    assert (found.forward, found.backward, found.parameters) == (
        expected.forward, expected.backward, expected.parameters
    )  # fmt: skip
    layers[0].compile(backend="eager")
    assert dg.cost(CHAIN, layers, length=4) == expected


# -- the hidden state


def test_the_width_is_seen_where_the_weights_allow_one():
    for layers in ([DecoderLayer(CONFIG)], [nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)], [Layer(7)]):
        width = 7 if isinstance(layers[0], Layer) else 12
        route = dg.route("1x2")
        assert dg.cost(route, layers, length=4) == dg.cost(route, layers, length=4, width=width)


@pytest.mark.parametrize("layer", [nn.Tanh(), nn.PReLU()])
def test_a_width_that_cannot_be_seen_is_asked_for(layer):
    with pytest.raises(dg.CostError, match="width of the hidden state cannot be seen from layer 1") as caught:
        dg.cost(dg.route("1"), [layer], length=4)
    assert caught.value.code == "unknown-width"
    assert "width=" in caught.value.help
    assert dg.cost(dg.route("1"), [layer], length=4, width=6).forward_flops == 0


def test_an_example_says_shape_and_dtype():
    layer = nn.TransformerEncoderLayer(12, 3, 20)  # batch second
    example = torch.empty(5, 2, 12, device="meta")
    found = dg.cost(dg.route("1x2"), [layer], example=example, batch=2, length=5)
    first = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)
    expected = dg.cost(dg.route("1x2"), [first], batch=2, length=5)
    assert (found.batch, found.length, found.forward) == (2, 5, expected.forward)
    flat = dg.cost(dg.route("1x2"), [Layer(6)], example=torch.empty(7, 6))
    assert (flat.batch, flat.length) == (1, 7)
    double = dg.cost(dg.route("1x2"), [Layer(6).double()], example=torch.empty(1, 7, 6, dtype=torch.float64))
    assert double.saved_bytes == 2 * flat.saved_bytes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "length is an integer from 1; it is missing"),
        ({"length": 0}, "length is an integer from 1; found 0"),
        ({"length": 4, "batch": -1}, "batch is an integer from 1; found -1"),
        ({"length": 4, "width": 1.5}, "width is an integer from 1; found 1.5"),
        ({"example": 3}, "example is a hidden state"),
        ({"example": torch.empty(6)}, "one of shape"),
        ({"example": torch.empty(2, 4, 6), "length": 5}, "example has 8 tokens"),
        ({"length": 4, "kv_bytes_per_token": -1}, "kv_bytes_per_token is no number of bytes for layer 1"),
        ({"length": 4, "kv_bytes_per_token": lambda _: None}, "kv_bytes_per_token is no number of bytes for layer 1"),
    ],
)
def test_sizes_that_are_none_are_refused(options, message):
    with pytest.raises(dg.CostError, match=message) as caught:
        dg.cost(CHAIN, [Layer(6), Layer(6)], **options)
    assert caught.value.code == "wrong-size"


# -- what cannot be counted


class Looks(nn.Module):
    def forward(self, hidden):
        return hidden * 2 if hidden.sum() > 0 else hidden


class Locked(Layer):
    def __init__(self):
        super().__init__(6)
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Looks(), r"layer 1 \(Looks\) does not run on a hidden state of shape \(1, 4, 6\) without data"),
        (Layer(8), r"layer 1 \(Layer\) does not run on a hidden state of shape \(1, 4, 6\) without data: .*6.*8"),
        (Locked(), r"layer 1 \(Locked\) cannot be copied: cannot pickle '_thread.lock' object"),
        (nn.LazyLinear(6), r"layer 1 \(LazyLinear\) is lazy"),
    ],
)
def test_a_layer_that_cannot_be_counted_is_named_with_its_reason(layer, message):
    with pytest.raises(dg.CostError, match=message) as caught:
        dg.cost(dg.route("1"), [layer], length=4, width=6)
    assert caught.value.code == "cannot-count"


def test_a_layer_that_changes_the_shape_or_returns_no_state_is_refused_as_by_compile():
    with pytest.raises(dg.CompileError, match=r"layer 1 \(Linear\) makes a hidden state of shape \(1, 4, 3\)"):
        dg.cost(dg.route("1"), [nn.Linear(6, 3)], length=4, width=6)

    class ReturnsDict(Layer):
        def forward(self, hidden):
            return {"hidden": hidden}

    with pytest.raises(dg.CompileError) as caught:
        dg.cost(dg.route("1"), [ReturnsDict(6)], length=4, width=6)
    assert caught.value.code == "layer-output"
    with pytest.raises(dg.CompileError, match="layer-output"):
        dg.cost(dg.route("1"), [ReturnsTuple(6)], length=4, width=6, returns="tensor")


def test_missing_and_unknown_inputs_are_named():
    class Needs(Layer):
        def forward(self, hidden, mask):
            return super().forward(hidden) * mask

    with pytest.raises(dg.CompileError, match=r"the forward of layer 1 \(Needs\) needs `mask`"):
        dg.cost(dg.route("1"), [Needs(6)], length=4)
    with pytest.raises(dg.CompileError, match="the input `masks` is taken by no layer"):
        dg.cost(dg.route("1"), [Needs(6)], length=4, inputs={"masks": 1})
    with pytest.raises(dg.CostError, match="the inputs cannot be copied"):
        dg.cost(dg.route("1"), [Needs(6)], length=4, inputs={"mask": threading.Lock()})
    assert dg.cost(dg.route("1"), [Needs(6)], length=4, inputs={"mask": torch.ones(4, 1)}).forward_flops == 2 * 4 * 36


def test_options_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="attention is one of products, fused; found 'flash'"):
        dg.cost(CHAIN, [Layer(), Layer()], length=4, attention="flash")
    with pytest.raises(dg.CompileError, match="a str is given where a route is needed"):
        dg.cost("1 2", [Layer(), Layer()], length=4)


def test_a_module_is_no_function_that_makes_layers():
    for module in (Layer(), nn.ModuleDict({"a": Layer()}), dg.compile(CHAIN, [Layer(), Layer()])):
        with pytest.raises(dg.CompileError, match="bad-layers"):
            dg.cost(CHAIN, module, length=4)
    assert dg.cost(CHAIN, nn.ModuleList([Layer(), Layer()]), length=4) == dg.cost(CHAIN, lambda _: Layer(), length=4)


# -- keys and values


class Grouped(nn.Module):
    """Attention of 6 heads of width 2 over 2 heads of keys, repeated in one of the ways that models have."""

    def __init__(self, repeat, **options):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(12, 12), nn.Linear(12, 4), nn.Linear(12, 4)
        self.repeat, self.options = repeat, options

    def forward(self, hidden):
        query = self.query(hidden).unflatten(-1, (6, 2)).transpose(1, 2)
        key, value = (part(hidden).unflatten(-1, (2, 2)).transpose(1, 2) for part in (self.key, self.value))
        mixed = functional.scaled_dot_product_attention(query, self.repeat(key), self.repeat(value), **self.options)
        return mixed.transpose(1, 2).flatten(2)


REPEATS = {
    "interleave": (lambda x: x.repeat_interleave(3, dim=1), {}),
    "expand and reshape": (lambda x: x[:, :, None].expand(-1, -1, 3, -1, -1).reshape(x.shape[0], 6, -1, 2), {}),
    "expand and cast": (lambda x: x[:, :, None].expand(-1, -1, 3, -1, -1).flatten(1, 2).contiguous(), {}),
    "repeat": (lambda x: x.repeat(1, 3, 1, 1), {}),
    "by attention": (lambda x: x, {"enable_gqa": True}),
}


@pytest.mark.parametrize("way", REPEATS)
def test_keys_count_before_they_are_repeated_for_several_queries(way):
    repeat, options = REPEATS[way]
    found = dg.cost(dg.route("1x2"), [Grouped(repeat, **options)], batch=3, length=7, width=12)
    assert found.kv_bytes == 2 * (2 * 3 * 7 * 4) * 4
    assert found.shared_kv_bytes == found.kv_bytes // 2
    assert found.forward.attention == 2 * (2 * 2 * 3 * 6 * 7 * 7 * 2)


def test_keys_that_are_a_part_of_a_repetition_are_not_guessed():
    def part(x):
        return x.repeat_interleave(6, dim=1)[:, :6]

    assert dg.cost(dg.route("1"), [Grouped(part)], length=7, width=12).kv_bytes is None


def test_where_no_attention_is_seen_the_cache_is_the_caller_s_word():
    layers = [Layer(6), DecoderLayer(CONFIG)]
    route = dg.Route.of([2, 2, 1, 2], 2)
    layers[0] = Layer(12)
    unknown = dg.cost(route, layers, length=5)
    assert (unknown.kv_bytes, unknown.shared_kv_bytes) == (None, None)
    assert [part.kv_bytes for part in unknown.parts] == [None, 3 * 5 * 2 * 12 * 4]
    said = dg.cost(route, layers, batch=2, length=5, kv_bytes_per_token=lambda layer: 0 if layer == 1 else 100)
    assert (said.kv_bytes, said.shared_kv_bytes) == (3 * 2 * 5 * 100, 2 * 5 * 100)
    assert dg.cost(route, layers, length=5, kv_bytes_per_token=8).kv_bytes == 4 * 5 * 8


# -- how it is shown


def test_a_cost_is_shown_as_a_table_as_html_and_as_data():
    config = PRESETS["lft-2.5m"].model_copy(update={"positions": "nope"})
    found = dg.cost(dg.route("lft(6)"), lambda _: DecoderLayer(config), length=64)
    text = str(found)
    assert text.splitlines()[0] == (
        "1..2 1..3 2..4 3..5 4..6 · N = 6, E = 14 · B = 1, T = 64 · attention by plain products"
    ) or text.startswith(str(found.route))
    assert f"{found.parameters:,}" in text
    assert f"{found.forward.causal:,} causal" in text
    assert "layer 6 (DecoderLayer)" in text
    page = found._repr_html_()
    assert page.count("<tr>") == 5 + 7
    assert f"<td>{found.saved_bytes:,}</td>" in page
    data = json.loads(json.dumps(found.as_dict()))
    assert data["forward"] == {
        "total": found.forward_flops,
        "attention": found.forward.attention,
        "masked": found.forward.masked,
        "causal": found.forward.causal,
    }
    assert (data["route"], data["visits"], len(data["parts"])) == (str(found.route), [2, 3, 3, 3, 2, 1], 6)


def test_long_tables_show_both_ends():
    found = dg.cost(dg.route("1..60"), lambda _: Layer(4), length=2)
    lines = str(found).splitlines()
    assert "… 12 more" in lines
    assert len([line for line in lines if line.startswith("layer ")]) == 48
    assert "not seen" in lines[-1]


def test_flops_add_up():
    one = Flops(10, 6, 2)
    assert (one + one, one * 3, one.causal) == (Flops(20, 12, 4), Flops(30, 18, 6), 8)
