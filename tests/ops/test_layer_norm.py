"""Layer normalization against float64, and the real numbers that its integers stand for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mcutrain.errors import UnsupportedError
from mcutrain.ir.fit import fit_sums
from mcutrain.ir.graph import Node, Tensor, TensorType
from mcutrain.ops.gradients import OutputStage
from mcutrain.ops.layer_norm import (
    GAIN_BITS,
    ROOT_BITS,
    Factors,
    LayerNorm,
    LayerNormGradGamma,
    LayerNormGradInput,
    half_bits,
    reciprocal_root,
    shift_of,
)

ROWS = 64
TIES = 1e-3
"""Share of the outputs that may be rounded otherwise than float64 is."""


def drawn(channels: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of any spread, some of them constant; gamma of both signs, and 0; beta."""
    rng = np.random.default_rng(seed)
    spread = rng.choice((0, 0.5, 3, 40, 200), (ROWS, 1))
    rows = rng.normal(0, spread, (ROWS, channels)) + rng.normal(0, 40, (ROWS, 1))
    gamma = rng.normal(0, 1, channels) * rng.choice((0, 0.01, 1), channels, p=(0.1, 0.1, 0.8))
    return np.clip(np.rint(rows), -128, 127).astype(np.int8), gamma, rng.normal(0, 0.5, channels)


@pytest.mark.parametrize("eps", [0.0, 1e-12, 1e-5, 1e-3, 1.0])
@pytest.mark.parametrize("scale", [1e-3, 0.05, 3.0])
@pytest.mark.parametrize("channels", [1, 2, 3, 16, 96, 768, 4000])
def test_it_rounds_as_float64_does_but_beside_ties(channels: int, scale: float, eps: float) -> None:
    x, gamma, beta = drawn(channels, channels)
    y = (4 / 127, -7)
    op = LayerNorm.from_real(channels, eps, scale, y[1])
    (found,) = op.reference(x, *Factors.of(gamma, beta, y[0]))
    centred = scale * (x - x.mean(axis=1, dtype=np.float64, keepdims=True))
    deviation = np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + eps)
    normalized = centred / np.where(deviation > 0, deviation, 1)
    wanted = np.clip(np.rint((gamma * normalized + beta) / y[0]) + y[1], -128, 127)
    assert np.abs(found - wanted).max() <= 1
    assert (found != wanted).mean() < TIES


@pytest.mark.parametrize("origin", [-128, -5, 127])
@pytest.mark.parametrize("channels", [1, 3, 96, 4000])
def test_around_an_origin_it_divides_by_the_root_mean_square(channels: int, origin: int) -> None:
    x, gamma, beta = drawn(channels, channels)
    y = (4 / 127, -7)
    op = replace(LayerNorm.from_real(channels, 1e-5, 0.05, y[1]), origin=origin)
    (found,) = op.reference(x, *Factors.of(gamma, beta, y[0]))
    real = 0.05 * (x.astype(np.float64) - origin)
    normalized = real / np.sqrt(np.square(real).mean(axis=1, keepdims=True) + 1e-5)
    wanted = np.clip(np.rint((gamma * normalized + beta) / y[0]) + y[1], -128, 127)
    assert np.abs(found - wanted).max() <= 1
    assert (found != wanted).mean() < TIES


@pytest.mark.parametrize("bits", [0, 1, 5, 30, 31, 32, 47, 62])
def test_the_root_is_as_exact_as_it_says(bits: int) -> None:
    rng = np.random.default_rng(bits)
    w = np.array([2**bits, *(rng.integers(2**bits, 2 ** (bits + 1), 2000)), 2 ** (bits + 1) - 1])
    root, half = reciprocal_root(w)
    assert half.tolist() == [half_bits(v) for v in w.tolist()]
    exact = np.ldexp(1.0, half) / np.sqrt(w.astype(np.float64))
    assert (np.abs(root / 2.0**ROOT_BITS / exact - 1) < 2.0**-23.9).all()
    assert root.max() < 2**31


@pytest.mark.parametrize("seed", range(20))
def test_float32_of_its_real_numbers_is_the_same_operator(seed: int) -> None:
    """So a file that is written from it is read as it again."""
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(1, 300))
    gamma, beta = (np.exp(rng.normal(0, 6, channels)) * rng.choice((-1, 1)) for _ in range(2))
    x_scale, y_scale = (float(np.float32(math.exp(v))) for v in rng.normal(-1, 2, 2))
    gamma, beta = (np.clip(v, -30_000 * y_scale, 30_000 * y_scale) for v in (gamma, beta))
    eps = (0.0, 1e-12, 1e-6, 1e-5, 1e-3)[seed % 5]
    op = LayerNorm.from_real(channels, eps, x_scale, 3)
    eps = float(np.float32(op.real_epsilon(channels, x_scale)))
    assert LayerNorm.from_real(channels, eps, x_scale, 3) == op
    factors = Factors.of(gamma, beta, y_scale)
    again = (v.astype(np.float32).astype(np.float64) for v in factors.real(y_scale))
    for read, written in zip(Factors.of(*again, y_scale), factors, strict=True):
        np.testing.assert_array_equal(read, written)


def test_scales_that_no_integer_holds_are_refused() -> None:
    one = np.ones(4)
    with pytest.raises(ValueError, match="its scales are too far apart"):
        Factors.of(one, one, 1e-6)
    with pytest.raises(ValueError, match="its scales are too far apart"):
        LayerNorm.from_real(4, 1e-5, 1e-11, 0)


def test_too_many_channels_are_refused_with_the_node_and_what_to_do() -> None:
    count = 70_000
    kinds = {"x": TensorType((1, count)), "factors": TensorType((count,), "int32")}
    tensors = {name: Tensor(name, kind) for name, kind in kinds.items()}
    with pytest.raises(UnsupportedError, match=r"node 'ln'.*normalize fewer channels together"):
        fit_sums([Node("ln", LayerNorm(1, 0, 0), ("x", "factors", "factors"), ())], tensors)


# ---------------------------------------------------------------------------------------- gradient


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("origin", [None, 3])
@pytest.mark.parametrize("eps", [0.0, 1e-5, 1.0])
@pytest.mark.parametrize("channels", [5, 16, 96, 768])
def test_the_sums_of_the_gradient_are_the_derivative(
    channels: int, eps: float, origin: int | None, dtype: str
) -> None:
    """Row by row, also where rows differ 500 times in their deviation; constant ones are capped."""
    x, gamma, beta = drawn(channels, channels)
    op, factors = LayerNorm.from_real(channels, eps, 0.05, 0), Factors.of(gamma, beta, 1 / 32)
    stage, of = OutputStage((1.0,), False, dtype, 1), (op.epsilon, op.epsilon_shift, origin)
    back = LayerNormGradInput(stage, x.shape, shift_of(factors.gamma), *of)
    dy = np.random.default_rng(1).normal(0, np.iinfo(dtype).max / 3, x.shape)
    dy = np.clip(np.rint(dy), -np.iinfo(dtype).max, np.iinfo(dtype).max).astype(dtype)
    found = back.sums(dy, x, factors.gamma) * back.unit
    mean = x.mean(axis=1, dtype=np.float64, keepdims=True) if origin is None else float(origin)
    centred = x - mean
    variance = np.square(centred).mean(axis=1, keepdims=True)
    variance = np.maximum(variance, (channels - 1) / channels**2)
    deviation = np.sqrt(variance + eps / 0.05**2)
    n, h = centred / deviation, dy * gamma * 32
    moved = h.mean(axis=1, keepdims=True) if origin is None else 0.0
    means = moved + n * (h * n).mean(axis=1, keepdims=True)
    wanted = (h - means) / deviation
    bits = {"int8": 7, "int16": 15}[dtype]
    unit = np.abs(wanted).max() * 2.0**-bits  # of the gradient, if it fits exactly
    assert np.abs(found - wanted).max() < {"int8": 0.1, "int16": 4.0}[dtype] * unit
    gains = LayerNormGradGamma(None, (channels,), *of).sums(dy, x) / 2.0**GAIN_BITS
    distance = np.abs(gains - (dy * n).sum(axis=0))
    assert (distance <= np.abs(dy.astype(float)).sum(axis=0) * 0.51 / 2**GAIN_BITS).all()
    lengths = np.linalg.norm(wanted, axis=1) * np.linalg.norm(found, axis=1)
    cosines = (found * wanted).sum(axis=1)[lengths > 0] / lengths[lengths > 0]
    assert (cosines > 0.999).all()
