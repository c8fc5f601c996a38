"""`dg.cost` equals what torch counts on the whole compiled model, and what autograd keeps of it."""

import copy
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import depthgraph as dg
from depthgraph.costs import Flops
from depthgraph.decoder_config import DecoderConfig
from depthgraph.decoder_cost import decoder_cost
from depthgraph.nn.decoder import DecoderLayer
from depthgraph.nn.positions import alibi_bias, rotary_table

from layers import AnnotatedTuple, Layer, Residual, ReturnsTuple
from strategies import flow_routes

B, T, D = 2, 5, 12


def config(positions="rope", N=4):
    return DecoderConfig(
        vocab_size=17, width=D, ffn_width=20, heads=3, parameter_depth=N, context=32, positions=positions
    )


def attention_inputs(settings, length, device="cpu"):
    like = torch.empty((), device=device)
    match settings.positions:
        case "rope":
            return {"rotary": rotary_table(length, settings.head_width, settings.rope_theta, like)}
        case "alibi":
            return {"bias": alibi_bias(length, settings.heads, like)}
    return {}


class CrossGrouped(nn.Module):
    """Attention with grouped keys, a memory of another length, and a tuple out, without annotations."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(D, D), nn.Linear(D, D // 3), nn.Linear(D, D // 3)
        self.norm = nn.LayerNorm(D)

    def forward(self, hidden, memory):
        query = self.query(self.norm(hidden)).unflatten(-1, (3, -1)).transpose(1, 2)
        key, value = (part(memory).unflatten(-1, (1, -1)).transpose(1, 2) for part in (self.key, self.value))
        key, value = (part.repeat_interleave(3, dim=1) for part in (key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return hidden + mixed.transpose(1, 2).flatten(2), mixed


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv1d(D, D, 3, padding=1)
        self.gain = nn.Parameter(torch.ones(D))

    def forward(self, hidden):
        return self.convolution((hidden * self.gain).transpose(1, 2)).transpose(1, 2)


class InPlace(Residual):
    def forward(self, hidden):
        return hidden.add_(torch.tanh(self.linear.weight.sum(0)))


def decoder_layers(positions):
    def make():
        return [DecoderLayer(config(positions)) for _ in range(4)], attention_inputs(config(positions), T)

    return make


def encoder(**options):
    return nn.TransformerEncoderLayer(D, 3, 20, batch_first=True, **options)


def frozen():
    layers = [Residual(D), encoder(), Residual(D), DecoderLayer(config("nope"))]
    for layer in layers[:2]:
        layer.requires_grad_(False)
    return layers, {}


def half():
    layers = [DecoderLayer(config()).bfloat16() for _ in range(4)]
    return layers, {"rotary": rotary_table(T, 4, 1e4, torch.empty((), dtype=torch.bfloat16))}


MODELS = {
    "rope": decoder_layers("rope"),
    "nope": decoder_layers("nope"),
    "learned": decoder_layers("learned"),
    "alibi": decoder_layers("alibi"),
    "encoder": lambda: ([encoder(dropout=0.0) for _ in range(4)], {}),
    "encoder with dropout": lambda: ([encoder(norm_first=True) for _ in range(4)], {"is_causal": False}),
    "masked encoder": lambda: (
        [encoder(dropout=0.0) for _ in range(4)],
        {"src_mask": torch.zeros(T, T), "is_causal": True},
    ),
    "tuples": lambda: (
        [ReturnsTuple(D), AnnotatedTuple(D), Layer(D), CrossGrouped()],
        {"memory": torch.empty(B, 7, D)},
    ),
    "mixed": lambda: ([Convolution(), encoder(), DecoderLayer(config("nope")), nn.Identity()], {}),
    "in place": lambda: ([InPlace(D), nn.Dropout(0.5), InPlace(D), nn.Softplus()], {}),
    "frozen": frozen,
    "half": half,
}


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


def whole(route, layers, inputs, *, needs_grad=True, exit_losses=True, device="meta"):
    """Return what torch counts, forward and with backward, and the bytes that autograd keeps of the whole model."""
    model = dg.compile(route, layers, inputs=tuple(inputs), width=D).to(device)
    inputs = {
        name: torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), value)
        for name, value in inputs.items()
    }
    dtype = next((parameter.dtype for parameter in model.parameters()), None)
    hidden = torch.zeros(B, T, D, dtype=dtype, device=device, requires_grad=needs_grad) + 0
    apart = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
    apart |= {
        leaf.untyped_storage()._cdata
        for leaf in torch.utils._pytree.tree_leaves(inputs)
        if isinstance(leaf, torch.Tensor)
    }
    boxes = []

    def pack(tensor):
        box = Box(tensor.detach())  # an output itself would hold the graph that holds it
        boxes.append(weakref.ref(box))
        return box

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.tensor):
        output = model(hidden, **inputs)
    kept = [box.tensor.untyped_storage() for box in (reference() for reference in boxes) if box is not None]
    with FlopCounterMode(display=False) as counter:  # apart, for it holds tensors itself
        output = model(hidden + 0, **inputs)
        forward = counter.get_total_flops()
        outputs = (output[0], *output[1]) if isinstance(output, tuple) else (output,)
        total = sum(each.sum() for each in outputs[: None if exit_losses else 1])
        if total.requires_grad:
            total.backward()
    kept = {storage._cdata: storage.nbytes() for storage in kept}
    return forward, counter.get_total_flops(), sum(size for key, size in kept.items() if key not in apart)


routes = st.lists(st.integers(1, 4), min_size=1, max_size=8).map(lambda path: dg.Route.of(path, 4))


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=5)
@given(route=routes, needs_grad=st.booleans())
def test_figures_equal_those_of_the_whole_model(name, route, needs_grad):
    layers, inputs = MODELS[name]()
    inputs = {} if name == "tuples" and 4 not in route.path else inputs
    found = dg.cost(route, layers, batch=B, length=T, width=D, inputs=inputs, needs_grad=needs_grad)
    counted = whole(route, layers, inputs, needs_grad=needs_grad)
    assert (found.forward_flops, found.training_flops, found.saved_bytes) == counted


def flow_layers(count):
    """Return layers of several classes; the second is frozen."""
    layers = [Residual(D), encoder(), DecoderLayer(config("nope")), ReturnsTuple(D), Layer(D)] * 2
    layers = [copy.deepcopy(layer) for layer in layers][:count]
    return [layer.requires_grad_(index != 1) for index, layer in enumerate(layers)]


@settings(max_examples=20)
@given(route=flow_routes(), needs_grad=st.booleans(), exit_losses=st.booleans())
def test_figures_of_data_flow_equal_those_of_the_whole_model(route, needs_grad, exit_losses):
    """Registers, weights of their own, branches, cut gradients and exits, with and without losses."""
    layers = flow_layers(route.parameter_depth)
    training = {"needs_grad": needs_grad, "exit_losses": exit_losses}
    found = dg.cost(route, layers, batch=B, length=T, width=D, **training)
    counted = whole(route, layers, {}, **training)
    assert (found.forward_flops, found.training_flops, found.saved_bytes) == counted
    model = dg.compile(route, layers, width=D)
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())
    dropped = [layers[number - 1] for number in route.dropped]
    assert found.unused_parameters == sum(each.numel() for layer in dropped for each in layer.parameters())


def test_mix_and_gate_cost_their_products_and_parameters():
    layers = [Layer(D) for _ in range(2)]
    route = dg.route("save(e) (mix(e) 1)x3 gate(e) 2")
    found, chain = (dg.cost(each, layers, batch=B, length=T) for each in (route, dg.Route.of([1, 1, 1, 2])))
    assert found.forward_flops - chain.forward_flops == 3 * (2 * B * T * 2 * D * D)
    assert found.parameters - chain.parameters == 2 * D * D + D
    assert found.unshared_parameters - chain.unshared_parameters == 3 * 2 * D * D + D
    assert [(part.name, part.runs, part.parameters) for part in found.parts[2:]] == [
        ("mix_1", 3, 2 * D * D),
        ("gate_1", 1, D),
    ]


def test_given_weights_are_counted_as_they_are():
    class Adapter(nn.Module):
        def __init__(self):
            super().__init__()
            self.low, self.high = nn.Linear(2 * D, 3), nn.Linear(3, D)

        def forward(self, hidden, register):
            return hidden + self.high(self.low(torch.cat((hidden, register), -1)))

    adapter = Adapter()
    route = dg.route("save(e) 1 mix(e) 1")
    found = dg.cost(route, [Layer(D)], batch=B, length=T, weights={"mix_1": adapter})
    assert found.parts[1].forward.total == 2 * B * T * (2 * D * 3 + 3 * D)
    assert found.parts[1].parameters == 2 * D * 3 + 3 + 3 * D + D
    assert adapter.low.weight.device.type == "cpu"


def test_what_stands_before_a_cut_gradient_has_no_backward_and_keeps_nothing():
    layers = [Layer(D) for _ in range(2)]
    found = dg.cost(dg.route("1 stopgrad 2"), layers, batch=B, length=T)
    assert [part.backward.total for part in found.parts] == [0, 2 * B * T * D * D]
    first_exits = dg.cost(dg.route("1 exit stopgrad 2"), layers, batch=B, length=T)
    assert [part.backward.total for part in first_exits.parts] == [2 * 2 * B * T * D * D, 2 * B * T * D * D]


@pytest.mark.parametrize("name", ["rope", "alibi", "encoder", "masked encoder", "tuples", "half"])
def test_fused_figures_equal_those_of_a_run_on_the_cpu(name):
    """There, attention takes the flash kernel; torch's counter leaves it out, so it is told of it."""
    layers, inputs = MODELS[name]()
    if name == "alibi":  # a bias of three dimensions makes the CPU compute plain products
        inputs = {"bias": inputs["bias"].unsqueeze(0)}
    route = dg.Route.of([1, 2, 1, 3, 4, 3], 4)
    found = dg.cost(route, layers, batch=B, length=T, width=D, inputs=inputs, attention="fused")
    uncounted, _, kept = whole(route, layers, inputs, device="cpu")
    assert found.saved_bytes == kept
    assert found.forward_flops - found.forward.attention == uncounted
    products = dg.cost(route, layers, batch=B, length=T, width=D, inputs=inputs)
    assert found.forward == products.forward
    assert found.kv_bytes == products.kv_bytes
    assert found.backward.total - found.backward.attention == products.backward.total - products.backward.attention
    if name != "tuples":  # where keys come from a memory, they need a gradient and the memory does not
        assert 2 * found.backward.attention == 5 * found.forward.attention
        assert products.backward.attention == 2 * products.forward.attention


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("attention", ["products", "fused"])
def test_checkpointed_layers_are_counted_with_their_second_forward(reentrant, attention):
    class Checkpointed(DecoderLayer):
        def forward(self, hidden):
            return checkpoint(super().forward, hidden, use_reentrant=reentrant)

    route = dg.Route.of([1, 2, 1], 2)
    layers = [Checkpointed(config("nope")) for _ in range(2)]
    plain = [DecoderLayer(config("nope")) for _ in range(2)]
    found, expected = (
        dg.cost(route, each, batch=B, length=T, width=D, attention=attention) for each in (layers, plain)
    )
    assert found.forward == expected.forward
    # non-reentrant, the second forward stops at the last tensor that is needed: before the layer's last product
    last = 2 * B * T * 20 * D * 3
    skipped = Flops() if reentrant else Flops(last)
    assert found.backward + skipped == expected.backward + expected.forward
    assert found.saved_bytes == 3 * B * T * D * 4
    if attention == "products":
        assert (found.forward_flops, found.training_flops, found.saved_bytes) == whole(route, layers, {})


@settings(max_examples=15)
@given(
    route=routes,
    positions=st.sampled_from(["rope", "nope", "learned", "alibi"]),
    batch=st.integers(1, 3),
    length=st.integers(1, 9),
)
def test_the_reference_decoder_costs_what_the_arithmetic_says(route, positions, batch, length):
    settings = config(positions)
    layers = [DecoderLayer(settings) for _ in range(4)]
    inputs = attention_inputs(settings, length)
    found = dg.cost(route, layers, batch=batch, length=length, inputs=inputs)
    expected = decoder_cost(settings, route, length, batch)
    assert found.forward == expected.layers
    assert found.training == expected.layers * 3
    assert found.kv_bytes == 4 * expected.kv_elements
    outside = 17 * D + D + (32 * D if positions == "learned" else 0)
    assert found.parameters == expected.parameters - outside
    assert found.unshared_parameters == found.parameters // 4 * route.execution_depth


def test_causal_attention_counts_the_pairs_that_the_mask_leaves():
    layers = [DecoderLayer(config("nope")) for _ in range(4)]
    found = dg.cost(dg.Route.of([1, 2, 3, 4]), layers, batch=B, length=T)
    pairs, a_pair = T * (T + 1) // 2, 4 * D
    assert found.forward.attention == 4 * B * T * T * a_pair
    assert found.forward.causal == found.forward_flops - 4 * B * (T * T - pairs) * a_pair
    assert found.training.causal == 3 * found.forward.causal
    whole_mask = dg.cost(dg.Route.of([1]), [encoder()], batch=B, length=T)
    assert whole_mask.forward.masked == 0 < whole_mask.forward.attention


def test_attention_grows_with_the_square_of_the_length_and_the_rest_with_the_length():
    layers, route = [DecoderLayer(config("nope"))], dg.Route.of([1, 1])
    once, twice = (dg.cost(route, layers, length=length) for length in (64, 128))
    assert twice.forward.attention == 4 * once.forward.attention
    assert twice.forward_flops - twice.forward.attention == 2 * (once.forward_flops - once.forward.attention)
    assert twice.kv_bytes == 2 * once.kv_bytes
