"""The loss of classes that weigh differently against real numbers, and against that without."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.ir.graph import TensorType
from mcutrain.ops.binary_cross_entropy import BinaryCrossEntropy
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.ops.weighted_cross_entropy import WeightedCrossEntropy

SCALE = 2.0**-12
KEYS = 64
"""Rounded at random, whose mean is compared."""
STATE = np.zeros(3, np.int8)
ENDS = [-(2**31), -1, 0, 1, 2**31 - 1]
Array = np.ndarray


def at(key: int) -> Array:
    return np.array([key, 0, 0, 0, 0], np.int64)


def of(label: int) -> Array:
    return np.array([label], np.int32)


def loss_of(z: Array, label: int, weights: Array, smoothing: float) -> float:
    """By its formula, in float64, of all logits."""
    below = np.log(np.exp(z - z.max()).sum()) + z.max() - z
    wanted = np.full(len(z), smoothing / len(z))
    wanted[label] += 1 - smoothing
    return float(weights[label] * (wanted * below).sum())


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("pair", [True, False])
@pytest.mark.parametrize(
    ("weights", "smoothing"), [((), 0.0), ((), 0.2), ((4.0, 0.5, 1.0), 0.0), ((4.0, 0.5, 1.0), 1.0)]
)
def test_gradient_and_loss_are_those_of_real_numbers(
    weights: tuple[float, ...], smoothing: float, pair: bool, label: int, dtype: str
) -> None:
    z = np.array([0.0, 1.5]) if pair else np.array([-3.0, 1.5, 0.2])
    weights = weights[: len(z)]
    each = np.array(weights or (1.0,) * len(z))
    wanted = np.zeros(len(z))
    for i in range(len(z)):
        up, down = (
            loss_of(z + step * (np.arange(len(z)) == i), label, each, smoothing)
            for step in (1e-5, -1e-5)
        )
        wanted[i] = (up - down) / 2e-5
    own = z[int(pair) :]
    op = WeightedCrossEntropy.of(weights, smoothing, pair)((SCALE,), dtype, True, 1)
    sums = np.rint(own / SCALE).astype(np.int32).reshape(1, 1, 1, -1)
    found = []
    for key in range(1, KEYS + 1):
        gradient, exponent, loss, answer = op.reference(at(key), sums, of(label), STATE)
        found.append(gradient.ravel() * 2.0 ** int(exponent[0]) * op.gradient_scale / SCALE)
    tolerance = np.abs(wanted).max() / {"int8": 64, "int16": 4096}[dtype]
    np.testing.assert_allclose(np.mean(found, axis=0), wanted[int(pair) :], atol=tolerance)
    assert abs(loss[0] / 65536 - loss_of(z, label, each, smoothing)) < 2**-10
    assert answer[0] == 1


@given(
    st.lists(
        st.one_of(st.sampled_from(ENDS), st.integers(-(2**20), 2**20)), min_size=1, max_size=6
    ),
    st.integers(0, 5),
    st.sampled_from(["int8", "int16"]),
    st.booleans(),
)
def test_alike_and_not_smoothed_it_is_the_plain_one(
    z: list[int], label: int, dtype: str, exact: bool
) -> None:
    sums, pair = np.array(z, np.int32).reshape(1, 1, 1, -1), len(z) == 1
    label %= len(z) + pair
    plain = BinaryCrossEntropy if pair else SoftmaxCrossEntropy
    rest = ((SCALE,), dtype, exact, 1)
    found = WeightedCrossEntropy.of((), 0.0, pair)(*rest).reference(at(5), sums, of(label), STATE)
    expected = plain(*rest).reference(at(5), sums, of(label), STATE)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_loss_ends_at_int32_and_what_does_not_fit_is_refused() -> None:
    op = WeightedCrossEntropy.of((30000.0, 1.0), 0.0)((1.0,), "int8", True, 1)
    ends = np.array([-(2**31), 2**31 - 1], np.int32).reshape(1, 1, 1, 2)
    assert op.reference(at(1), ends, of(0), STATE)[2][0] == 2**31 - 1
    kinds = TensorType((5,), "int32"), TensorType((1, 1, 1, 3), "int32")
    with pytest.raises(ValueError, match="3 classes with 2 weights"):
        op.infer(*kinds)
    with pytest.raises(ValueError, match="a sigmoid takes one number, not 3"):
        WeightedCrossEntropy.of((), 0.0, True)((1.0,), "int8", True, 1).infer(*kinds)
