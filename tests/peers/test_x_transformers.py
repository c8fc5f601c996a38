"""x-transformers runs its layers in the order of the route: `layers_execute_order` and `repeat_blocks`."""

import pytest
import torch
from routes import sayable
from x_transformers import Decoder

import depthgraph as dg

NAMES = {"x-transformers": "layers_execute_order", "x-transformers-repeat": "repeat_blocks"}


def _order(depth, cross_attend=False, **arguments):
    """Return the entries that a decoder of so many layers runs, seen from inside its blocks."""
    torch.manual_seed(0)
    at_init = {name: arguments.pop(name) for name in ("layers_execute_order",) if name in arguments}
    decoder = Decoder(dim=8, depth=depth, heads=1, attn_dim_head=8, cross_attend=cross_attend, **at_init).eval()
    seen = []
    for entry, (_, block, _) in enumerate(decoder.layers):
        block.register_forward_pre_hook(lambda *_, entry=entry: seen.append(entry))
    context = {"context": torch.randn(1, 2, 8)} if cross_attend else {}
    with torch.no_grad():
        decoder(torch.randn(1, 3, 8), **context, **arguments)
    return seen


def _layers(entries, size=2):
    groups = [entries[at : at + size] for at in range(0, len(entries), size)]
    assert all(group == list(range(group[0], group[0] + size)) for group in groups)
    return tuple(group[0] // size + 1 for group in groups)


@pytest.mark.parametrize("route", sayable("x-transformers"), ids=str)
def test_layers_execute_order_runs_the_route(route):
    value = dg.formats.write("x-transformers", route)
    assert _layers(_order(route.parameter_depth, layers_execute_order=value)) == route.path


@pytest.mark.parametrize("text", ["lft(5)", "1..4 3..5"])
def test_with_cross_attention_a_layer_has_three_entries(text):
    route = dg.route(text)
    value = dg.formats.write("x-transformers", route, entries=3)
    seen = _order(route.parameter_depth, cross_attend=True, layers_execute_order=value)
    assert _layers(seen, 3) == route.path


@pytest.mark.parametrize("route", sayable("x-transformers-repeat"), ids=str)
def test_repeat_blocks_runs_the_route(route):
    value = dg.formats.write("x-transformers-repeat", route)
    assert _layers(_order(route.parameter_depth, repeat_blocks=value)) == route.path


@pytest.mark.parametrize(
    ("depth", "value"),
    [
        (5, ((2, 3), 2)),
        (5, (2, 3)),
        (5, ((2, 2), 3)),
        (6, (((4, 5), 2), ((0, 1), 3))),
        (6, ((0, 2), ((2, 4), 1), (5, 4))),
        (3, ()),
        (3, (((0, 2), 2),)),
    ],
)
def test_repeat_blocks_are_read_as_the_decoder_reads_them(depth, value):
    route = dg.formats.read("x-transformers-repeat", value, N=depth)
    assert _layers(_order(depth, repeat_blocks=value)) == route.path
