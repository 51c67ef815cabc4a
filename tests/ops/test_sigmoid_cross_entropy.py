"""The loss of independent sigmoids against real numbers, and against that of one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.data import IGNORED
from mcutrain.ops.binary_cross_entropy import BinaryCrossEntropy
from mcutrain.ops.sigmoid_cross_entropy import SigmoidCrossEntropy

SCALE = 2.0**-12
KEYS = 64
"""Rounded at random, whose mean is compared."""
STATE = np.zeros(3, np.int8)
ENDS = [-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1]
REAL = np.array([-6.0, -1.5, -0.01, 0.0, 0.3, 2.0])
LABELS = np.array([1, 0, 1, 0, IGNORED, 1], np.uint8)
WEIGHTS = (1.0, 2.0, 0.5, 4.0, 1.0, 1.0, 3.0, 3.0, 9.0, 9.0, 1.0, 0.25)


def at(key: int) -> np.ndarray:
    return np.array([key, 0, 0, 0, 0], np.int64)


def loss_of(real: np.ndarray, labels: np.ndarray, weights: np.ndarray, smoothing: float) -> float:
    """By its formula, in float64."""
    total = 0.0
    for z, label, pair in zip(real, labels, weights, strict=True):
        if label != IGNORED:
            wanted = label * (1 - smoothing) + smoothing / 2
            total += pair[label] * (
                wanted * np.logaddexp(0, -z) + (1 - wanted) * np.logaddexp(0, z)
            )
    return total


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize(("weights", "smoothing"), [((), 0.0), (WEIGHTS, 0.0), (WEIGHTS, 0.2)])
def test_gradient_and_loss_are_those_of_real_numbers(
    weights: tuple[float, ...], smoothing: float, dtype: str
) -> None:
    pairs = np.array(weights or (1.0,) * 12).reshape(6, 2)
    wanted = np.zeros(6)
    for i in range(6):
        ends = [REAL + step * (np.arange(6) == i) for step in (1e-5, -1e-5)]
        up, down = (loss_of(end, LABELS, pairs, smoothing) for end in ends)
        wanted[i] = (up - down) / 2e-5
    op = SigmoidCrossEntropy.of((6,), 6, weights, smoothing)((SCALE,), dtype, True, 1)
    sums = np.rint(REAL / SCALE).astype(np.int32).reshape(1, 1, 1, 6)
    found = []
    for key in range(1, KEYS + 1):
        gradient, exponent, loss, right = op.reference(at(key), sums, LABELS[None], STATE)
        found.append(gradient.ravel() * 2.0 ** int(exponent[0]) * op.gradient_scale / SCALE)
    tolerance = np.abs(wanted).max() / {"int8": 64, "int16": 4096}[dtype]
    np.testing.assert_allclose(np.mean(found, axis=0), wanted, atol=tolerance)
    assert abs(loss[0] / 65536 - loss_of(REAL, LABELS, pairs, smoothing)) < 2**-9
    assert right[0] == 3  # -1.5 and 0.0 are 0, and 2.0 is 1


@given(
    st.one_of(st.sampled_from(ENDS), st.integers(-(2**20), 2**20)),
    st.integers(0, 1),
    st.sampled_from(["int8", "int16"]),
    st.booleans(),
)
def test_one_of_them_is_the_binary_cross_entropy(
    z: int, label: int, dtype: str, exact: bool
) -> None:
    sums = np.full((1, 1, 1, 1), z, np.int32)
    many = SigmoidCrossEntropy.of((1,), 1)((SCALE,), dtype, exact, 1)
    one = BinaryCrossEntropy((SCALE,), dtype, exact, 1)
    found = many.reference(at(5), sums, np.array([[label]], np.uint8), STATE)
    expected = one.reference(at(5), sums, np.array([label], np.int32), STATE)
    for a, b in zip(found[:3], expected[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    assert found[3][0] == (expected[3][0] == label)


def test_the_loss_is_the_sum_at_a_position_and_ends_at_int32() -> None:
    sums = np.zeros((1, 2, 2, 3), np.int32)
    op = SigmoidCrossEntropy.of((2, 2, 3), 3)((SCALE,), "int8", True, 1)
    labels = np.zeros((1, 2, 2, 3), np.uint8)
    loss = op.reference(at(1), sums, labels, STATE)[2][0]
    assert abs(loss / 65536 - 3 * np.log(2)) < 2**-12
    assert op.gradient_scale == SCALE / 4
    large = SigmoidCrossEntropy.of((3,), 3, (1e5,) * 6)((1.0,), "int8", True, 1)
    ends = np.full((1, 1, 1, 3), 2**31 - 1, np.int32)
    assert large.reference(at(1), ends, labels[0, :1, :1], STATE)[2][0] == 2**31 - 1


@pytest.mark.parametrize(
    ("shape", "channels", "weights", "says"),
    [
        ((4,), 4, (), r"outputs \(1, 1, 1, 5\) with labels of \(4,\)"),
        ((5,), 1, (), r"with labels of \(5,\)"),
        ((5,), 5, (1.0,) * 5, "5 sigmoids with 5 weights"),
    ],
)
def test_what_does_not_fit_is_refused(
    shape: tuple[int, ...], channels: int, weights: tuple[float, ...], says: str
) -> None:
    from mcutrain.ir.graph import TensorType

    op = SigmoidCrossEntropy.of(shape, channels, weights)((SCALE,), "int8", True, 1)
    with pytest.raises(ValueError, match=says):
        op.infer(TensorType((5,), "int32"), TensorType((1, 1, 1, 5), "int32"))
