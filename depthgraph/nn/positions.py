"""How attention knows where tokens stand: rotary tables and ALiBi biases."""

import math

import torch
from torch import Tensor

#: cos and sin of the rotary angles, each [T, head width].
Rotary = tuple[Tensor, Tensor]


def rotary_table(length: int, head_width: int, theta: float, like: Tensor) -> Rotary:
    """Return the rotary tables of positions 0 … length - 1 (RoFormer, arXiv 2104.09864, equation 15).

    Channel i turns together with channel i + head_width / 2, as in GPT-NeoX and LLaMA checkpoints.

    Args:
        length: T, tokens.
        head_width: size of a head, even.
        theta: base of the wavelengths.
        like: a tensor whose dtype and device the tables get; angles are computed in float32.

    Returns:
        cos and sin, each [T, head_width].
    """
    return rotary_at(torch.arange(length, device=like.device), head_width, theta, like)


def rotary_at(places: Tensor, head_width: int, theta: float, like: Tensor) -> Rotary:
    """Return the rotary tables of any positions: of tokens behind others that a cache holds, or behind padding.

    Args:
        places: positions, [..., T].
        head_width: size of a head, even.
        theta: base of the wavelengths.
        like: a tensor whose dtype and device the tables get; angles are computed in float32.

    Returns:
        cos and sin, each [..., T, head_width].
    """
    channels = torch.arange(0, head_width, 2, dtype=torch.float32, device=like.device)
    half = places.to(torch.float32)[..., None] * theta ** (-channels / head_width)
    angles = torch.cat((half, half), dim=-1)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotate(vectors: Tensor, rotary: Rotary) -> Tensor:
    """Turn queries or keys by their position.

    Args:
        vectors: [B, heads, T, head width].
        rotary: from `rotary_table`.

    Returns:
        [B, heads, T, head width].
    """
    cos, sin = rotary
    first, second = vectors.chunk(2, dim=-1)
    return vectors * cos + torch.cat((-second, first), dim=-1) * sin


def alibi_slopes(heads: int) -> tuple[float, ...]:
    """Return the slope of each head (ALiBi, arXiv 2108.12409, section 3 and its reference code).

    For a power of two they are 2^(-8/h), 2^(-16/h) …. Otherwise: those of the largest power of two below, then
    every second one of twice that power.

    Examples:
        >>> alibi_slopes(4)
        (0.25, 0.0625, 0.015625, 0.00390625)
        >>> len(alibi_slopes(5)), alibi_slopes(5)[4]
        (5, 0.5)
    """
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    between = [2 ** (-4 * (head + 1) / power) for head in range(0, 2 * power, 2)]
    return tuple(slopes + between[: heads - power])


def alibi_bias(length: int, heads: int, like: Tensor) -> Tensor:
    """Return what ALiBi adds to attention scores, with the causal mask in it.

    Args:
        length: T, tokens.
        heads: attention heads.
        like: a tensor whose dtype and device the bias gets.

    Returns:
        [heads, T, T]: minus slope times distance for keys up to the query, minus infinity for later ones.
    """
    places = torch.arange(length, device=like.device)
    scores = alibi_scores(places, places, heads)
    return scores.masked_fill(scores > 0, -math.inf).to(like.dtype)


def alibi_scores(queries: Tensor, keys: Tensor, heads: int) -> Tensor:
    """Return minus slope times distance, for queries and keys at any positions.

    Args:
        queries: positions, [..., T].
        keys: positions, [..., K].
        heads: attention heads.

    Returns:
        [..., heads, T, K], float32; above 0 for keys behind their query, which a causal mask has to hide.
    """
    distance = (queries[..., :, None] - keys[..., None, :]).to(torch.float32).unsqueeze(-3)
    slopes = torch.tensor(alibi_slopes(heads), device=distance.device)
    return -slopes[:, None, None] * distance
