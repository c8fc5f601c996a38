"""The cost by arithmetic equals what torch counts."""

import pytest
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from depthgraph.decoder_config import PRESETS, DecoderConfig
from depthgraph.decoder_cost import decoder_cost
from depthgraph.errors import CostError
from depthgraph.expand import route_from_text
from depthgraph.nn import Decoder


def counted(config, route, batch, length, *, backward):
    with torch.device("meta"):
        model = Decoder(config, route)
        tokens = torch.zeros(batch, length, dtype=torch.long)
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH):
        logits = model(tokens)
        if backward:
            functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("positions", ["rope", "nope", "learned", "alibi"])
@pytest.mark.parametrize("text", ["...", "lft(4)", "ilr[4,2,1,1]", "block(2..3)x3", "1 drop(2) 3..4"])
def test_flops_equal_torchs_own_count(positions, text):
    config = DecoderConfig(
        vocab_size=97, width=24, ffn_width=40, heads=3, parameter_depth=4, context=32, positions=positions
    )
    route = route_from_text(text, N=4)
    found = decoder_cost(config, route, length=13, batch=3)
    assert found.forward_flops == counted(config, route, 3, 13, backward=False)
    assert found.training_flops == counted(config, route, 3, 13, backward=True)


def test_flops_of_a_preset_at_its_context_equal_torchs_own_count():
    config, route = PRESETS["lft-10m"], route_from_text("lft(11)")
    found = decoder_cost(config, route)
    assert (found.length, found.batch, found.tokens) == (768, 1, 768)
    assert found.forward_flops == counted(config, route, 1, 768, backward=False)
    assert found.forward_flops_per_token * 768 == found.forward_flops
    assert found.training_flops_per_token * 768 == found.training_flops


def test_one_extra_iteration_of_four_layers_is_a_quarter_more_without_the_embedding():
    config = PRESETS["ilr-1.2m"]
    standard, once, doubled = (
        decoder_cost(config, route_from_text(text, N=4)).forward_flops
        for text in ("...", "ilr[2,1,1,1]", "ilr[2,2,2,2]")
    )
    head = 2 * 1024 * config.width * config.vocab_size
    assert once - head == 1.25 * (standard - head)
    assert doubled - head == 2 * (standard - head)


def test_a_route_over_other_layers_and_empty_batches_are_refused():
    config = PRESETS["lft-2.5m"]
    with pytest.raises(CostError, match="the route is over 5 layers, the config has 6"):
        decoder_cost(config, route_from_text("lft(5)"))
    with pytest.raises(CostError, match="length and batch are at least 1; found 0 and 1"):
        decoder_cost(config, route_from_text("lft(6)"), length=0)
