"""The reference decoder: its sizes, its weights, and its arithmetic against formulas written out here."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from depthgraph.decoder_config import PRESETS, DecoderConfig
from depthgraph.errors import CompileError, ConfigError, SpecError
from depthgraph.nn import Decoder
from depthgraph.nn.positions import alibi_slopes, rotary_table, rotate
from depthgraph.route import Route

POSITIONS = ("rope", "nope", "learned", "alibi")


def config_of(**changes):
    settings = {"vocab_size": 32, "width": 24, "ffn_width": 40, "heads": 3, "parameter_depth": 3, "context": 16}
    return DecoderConfig(**{**settings, **changes})


def standard(config):
    return Route.of(range(1, config.parameter_depth + 1))


def tokens_of(batch=2, length=7):
    return torch.randint(32, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("lft-2.5m", 2_490_400),
        ("lft-10m", 10_028_800),
        ("lft-25m", 25_077_120),
        ("ilr-1.2m", 1_180_800),
        ("ilr-100m", 100_086_528),
    ],
)
def test_the_presets_have_the_published_parameter_counts(name, count):
    config = PRESETS[name]
    with torch.device("meta"):
        model = Decoder(config, standard(config))
    assert sum(parameter.numel() for parameter in model.parameters()) == config.parameter_count == count


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_count_is_right_for_all_positions_and_independent_of_the_route(positions):
    config = config_of(positions=positions)
    for path in ([1, 2, 3], [1, 2, 1, 2, 3, 3], [2, 2]):
        model = Decoder(config, Route.of(path, 3))
        assert sum(parameter.numel() for parameter in model.parameters()) == config.parameter_count


def test_a_pair_starts_from_equal_weights():
    config = config_of(positions="learned")
    one, other = Decoder(config, standard(config)), Decoder(config, Route.of([1, 2, 1, 2, 3, 2, 3]))
    assert list(one.state_dict()) == list(other.state_dict())
    for tensor, twin in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(tensor, twin)
    different = Decoder(config, standard(config), seed=1)
    assert not torch.equal(different.embedding.weight, one.embedding.weight)
    other.load_state_dict(one.state_dict())


def test_the_config_names_the_route():
    assert Decoder(config_of()).route.path == (1, 2, 3)
    assert Decoder(config_of(route="lft(N)")).route.path == (1, 2, 1, 2, 3)
    with pytest.raises(SpecError, match="layer 4 does not exist"):
        Decoder(config_of(route="1..4"))


def test_the_state_dict_says_what_the_parts_are():
    config = config_of(parameter_depth=1)
    assert list(Decoder(config, Route.of([1])).state_dict()) == [
        "embedding.weight",
        *(f"body.layers.0.{name}.weight" for name in ("attention_norm", "attention.qkv", "attention.out", "ffn_norm")),
        *(f"body.layers.0.ffn.{name}.weight" for name in ("gate", "up", "down")),
        "norm.weight",
    ]


def test_residual_projections_are_scaled_by_the_parameter_depth():
    config = DecoderConfig(vocab_size=64, width=256, ffn_width=512, heads=4, parameter_depth=8, context=8)
    model = Decoder(config, Route.of([1, 2] * 20, 8))  # E plays no part
    layer = model.body.layers[0]
    for weight in (model.embedding.weight, layer.attention.qkv.weight, layer.ffn.gate.weight, layer.ffn.up.weight):
        assert weight.std().item() == pytest.approx(0.02, rel=0.03)
    for weight in (layer.attention.out.weight, layer.ffn.down.weight):
        assert weight.std().item() == pytest.approx(0.02 / 4, rel=0.03)


def test_weights_do_not_depend_on_the_global_generator_or_dtype_of_others():
    config = config_of()
    torch.manual_seed(5)
    one = Decoder(config, standard(config))
    torch.manual_seed(6)
    other = Decoder(config, standard(config))
    assert torch.equal(one.body.layers[2].ffn.down.weight, other.body.layers[2].ffn.down.weight)


def rms(hidden, weight, eps=1e-5):
    return hidden / (hidden.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def naive_attention(layer, hidden, heads, rope=False, slopes=None):
    """Attention of one sequence, one head, one query at a time; everything from the definitions."""
    T, d = hidden.shape
    size = d // heads
    query, key, value = (hidden @ layer.qkv.weight.T).split(d, dim=-1)
    rows = []
    for t in range(T):
        parts = []
        for head in range(heads):
            at = slice(head * size, (head + 1) * size)
            scores = []
            for s in range(t + 1):
                q, k = query[t, at], key[s, at]
                if rope:
                    q, k = turned(q, t), turned(k, s)
                score = (q @ k) / math.sqrt(size)
                scores.append(score - slopes[head] * (t - s) if slopes else score)
            weights = torch.softmax(torch.stack(scores), 0)
            parts.append(sum(weight * value[s, at] for s, weight in enumerate(weights)))
        rows.append(torch.cat(parts))
    return torch.stack(rows) @ layer.out.weight.T


def turned(vector, position, theta=10_000.0):
    """Rotate the pairs (i, i + D/2) by position · theta^(-2i/D), as complex numbers."""
    half = len(vector) // 2
    angles = torch.tensor([position * theta ** (-2 * i / len(vector)) for i in range(half)], dtype=vector.dtype)
    pairs = torch.complex(vector[:half], vector[half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([pairs.real, pairs.imag])


def naive_logits(model, tokens, path, rope, slopes):
    hidden = model.embedding.weight[tokens]
    if model.positions is not None:
        hidden = hidden + model.positions.weight[: len(tokens)]
    for number in path:
        layer = model.body.layers[number - 1]
        normal = rms(hidden, layer.attention_norm.weight)
        hidden = hidden + naive_attention(layer.attention, normal, model.config.heads, rope, slopes)
        normal = rms(hidden, layer.ffn_norm.weight)
        gate, up = normal @ layer.ffn.gate.weight.T, normal @ layer.ffn.up.weight.T
        hidden = hidden + (gate * torch.sigmoid(gate) * up) @ layer.ffn.down.weight.T
    return rms(hidden, model.norm.weight) @ model.embedding.weight.T


#: The slopes of three heads by the ALiBi paper's rule: those of two heads, and the first of four.
THREE_SLOPES = (2**-4, 2**-8, 2**-2)


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_decoder_computes_what_the_formulas_say(positions):
    path = (1, 2, 1, 2, 3)
    model = Decoder(config_of(positions=positions), Route.of(path)).double()
    with torch.no_grad():
        for parameter in model.parameters():  # large weights: a wrong position must show
            parameter.mul_(10 if parameter.ndim > 1 else 1).add_(0.1 * torch.randn_like(parameter))
    tokens = tokens_of()
    slopes = THREE_SLOPES if positions == "alibi" else None
    found = model(tokens)
    for row, sequence in zip(found, tokens, strict=True):
        expected = naive_logits(model, sequence, path, positions == "rope", slopes)
        # the tables are computed in float32, as in training
        torch.testing.assert_close(row, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("positions", POSITIONS)
def test_no_position_sees_a_later_token(positions):
    config = config_of(positions=positions)
    model = Decoder(config, Route.of([1, 2, 1, 2, 3]))
    tokens = tokens_of()
    changed = tokens.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 32
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize("positions", ["rope", "learned", "alibi"])
def test_positions_tell_equal_tokens_apart(positions):
    model = Decoder(config_of(positions=positions, init_std=0.5), standard(config_of()))
    tokens = torch.tensor([[1, 2, 3, 9]])
    swapped = torch.tensor([[2, 1, 3, 9]])
    assert not torch.allclose(model(tokens)[0, -1], model(swapped)[0, -1], atol=1e-4)
    blind = Decoder(config_of(positions="nope", parameter_depth=1, init_std=0.5), Route.of([1]))
    torch.testing.assert_close(blind(tokens)[0, -1], blind(swapped)[0, -1])


def test_rotation_depends_on_the_distance_alone():
    torch.manual_seed(0)
    query, key = torch.randn(8, dtype=torch.double), torch.randn(8, dtype=torch.double)
    tables = rotary_table(20, 8, 10_000.0, query)
    turn = [(rotate(query.expand(20, 8), tables), rotate(key.expand(20, 8), tables))]
    (queries, keys) = turn[0]
    assert (queries[5] @ keys[2]).item() == pytest.approx((queries[19] @ keys[16]).item(), rel=1e-5)
    assert torch.allclose(queries.norm(dim=-1), query.norm())


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (1, [2**-8]),
        (8, [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8]),
        (3, list(THREE_SLOPES)),
        (12, [*(2**-n for n in range(1, 9)), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
    ],
)
def test_alibi_slopes_follow_the_papers_rule(heads, slopes):
    assert alibi_slopes(heads) == pytest.approx(slopes)


def test_learned_positions_end_at_the_context_and_others_do_not():
    tokens = tokens_of(length=17)
    model = Decoder(config_of(positions="learned"), standard(config_of()))
    with pytest.raises(ConfigError, match="17 tokens, and the learned positions reach 16") as caught:
        model(tokens)
    assert caught.value.code == "too-many-tokens"
    for positions in ("rope", "nope", "alibi"):
        assert Decoder(config_of(positions=positions), standard(config_of()))(tokens).shape == (2, 17, 32)


@pytest.mark.parametrize("positions", POSITIONS)
def test_it_runs_in_lower_precision(positions):
    model = Decoder(config_of(positions=positions), standard(config_of()))
    tokens = tokens_of()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.allclose(model(tokens).float(), model(tokens).float())
    assert model.to(torch.bfloat16)(tokens).dtype is torch.bfloat16


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(24, 24)

    def forward(self, hidden: Tensor, rotary: tuple[Tensor, Tensor] | None = None) -> Tensor:
        assert rotary is not None
        return hidden + self.linear(hidden)


def test_layers_of_ones_own_are_used_as_they_are():
    layers = [Own(), Own(), Own()]
    before = [layer.linear.weight.clone() for layer in layers]
    model = Decoder(config_of(), Route.of([1, 2, 1, 2, 3]), layers)
    assert model(tokens_of()).shape == (2, 7, 32)
    assert all(torch.equal(layer.linear.weight, weight) for layer, weight in zip(layers, before, strict=True))
    with pytest.raises(CompileError, match="positions are alibi, and no layer takes `bias`"):
        Decoder(config_of(positions="alibi"), standard(config_of()), layers)
    with pytest.raises(CompileError, match="3 layers and 0 were given"):
        Decoder(config_of(), standard(config_of()), [])


def test_the_config_says_what_is_wrong():
    with pytest.raises(ValidationError, match="width 24 is no multiple of heads 5"):
        config_of(heads=5)
    with pytest.raises(ValidationError, match="rope rotates pairs"):
        config_of(heads=8)
    assert config_of(heads=8, positions="alibi").head_width == 3
    with pytest.raises(ValidationError, match="Extra inputs"):
        config_of(depth=3)
    with pytest.raises(ValidationError, match="frozen"):
        config_of().width = 3
    assert DecoderConfig.model_validate_json(config_of().model_dump_json()) == config_of()


def test_a_checkpoint_of_the_compiled_wrapper_loads():
    config = config_of()
    one, other = (Decoder(config, standard(config), seed=seed) for seed in (1, 2))
    given = {f"_orig_mod.{name}": tensor for name, tensor in one.state_dict().items()}
    other.load_state_dict(given)
    assert torch.equal(other.norm.weight, one.norm.weight)
    assert torch.equal(other.body.layers[1].ffn.up.weight, one.body.layers[1].ffn.up.weight)


@pytest.mark.parametrize("positions", POSITIONS)
def test_it_exports_with_a_dynamic_length(positions):
    model = Decoder(config_of(positions=positions), Route.of([1, 2, 1, 3]))
    sizes = ({0: torch.export.Dim("batch", min=2), 1: torch.export.Dim("length", min=2, max=16)},)
    exported = torch.export.export(model, (tokens_of(),), dynamic_shapes=sizes).module()
    other = tokens_of(3, 9)
    torch.testing.assert_close(exported(other), model(other))
