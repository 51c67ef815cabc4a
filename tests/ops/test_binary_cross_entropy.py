"""The loss of one sigmoid against real numbers, and against the softmax of (0, z)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.ops.binary_cross_entropy import BinaryCrossEntropy
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy

SCALE = 2.0**-12
KEYS = 64
"""Rounded at random, whose mean is compared."""
STATE = np.zeros(3, np.int8)
LABELS = st.integers(0, 1)
DTYPES = st.sampled_from(["int8", "int16"])
ENDS = [-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1]


def at(key: int) -> np.ndarray:
    return np.array([key, 0, 0, 0, 0], np.int64)


def one(z: int) -> np.ndarray:
    return np.full((1, 1, 1, 1), z, np.int32)


def of(label: int) -> np.ndarray:
    return np.array([label], np.int32)


def nats(z: float, label: int) -> float:
    """-ln of the label's probability, in float64."""
    return float(np.logaddexp(0, (1 - 2 * label) * z))


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("real", [-6.0, -1.5, -0.01, 0.0, 0.3, 2.0, 5.0])
def test_gradient_and_loss_are_those_of_real_numbers(real: float, label: int, dtype: str) -> None:
    wanted = (nats(real + 1e-5, label) - nats(real - 1e-5, label)) / 2e-5
    op, found = BinaryCrossEntropy((SCALE,), dtype, True, 1), []
    for key in range(1, KEYS + 1):
        gradient, exponent, loss, answer = op.reference(
            at(key), one(round(real / SCALE)), of(label), STATE
        )
        found.append(float(gradient.item()) * 2.0 ** int(exponent[0]))
    tolerance = abs(wanted) / {"int8": 64, "int16": 4096}[dtype]
    assert abs(np.mean(found) - wanted) < tolerance
    assert abs(loss[0] / 65536 - nats(real, label)) < 2**-13
    assert answer[0] == (real > 0)
    assert op.gradient_scale == SCALE


@given(
    st.one_of(st.sampled_from(ENDS), st.integers(-(2**20), 2**20)), LABELS, DTYPES, st.booleans()
)
def test_it_is_the_second_of_the_softmax_of_0_and_z(
    z: int, label: int, dtype: str, exact: bool
) -> None:
    sums = np.array([0, z], np.int32).reshape(1, 1, 1, 2)
    pair = SoftmaxCrossEntropy((SCALE,), dtype, False, 1).reference(at(3), sums, of(label), STATE)
    op = BinaryCrossEntropy((SCALE,), dtype, exact, 1)
    gradient, exponent, loss, answer = op.reference(at(3), one(z), of(label), STATE)
    assert (loss[0], answer[0]) == (pair[2][0], pair[3][0])
    real, expected = (
        float(g.ravel()[-1]) * 2.0 ** int(e[0]) for g, e in ((gradient, exponent), pair[:2])
    )
    assert abs(real - expected) <= 2.0 ** max(int(exponent[0]), int(pair[1][0])) * 2
    assert real * (0.5 - label) >= 0  # towards the label, or not at all


def test_where_the_sigmoid_is_certain_and_wrong_the_gradient_is_whole_and_right_there_is_none() -> (
    None
):
    op = BinaryCrossEntropy((SCALE,), "int16", True, 1)
    for z, label in ((2**31 - 1, 0), (-(2**31), 1)):
        wrong, exponent, loss, _ = op.reference(at(1), one(z), of(label), STATE)
        assert wrong.item() * 2.0 ** int(exponent[0]) == pytest.approx(1 - 2 * label, rel=2**-14)
        right, _, none, _ = op.reference(at(1), one(z), of(1 - label), STATE)
        assert right.item() == none[0] == 0
        assert loss[0] > 0


def test_it_takes_one_number() -> None:
    from mcutrain.ir.graph import TensorType

    op = BinaryCrossEntropy((SCALE,), "int8", True, 1)
    with pytest.raises(ValueError, match="takes one number, not 2"):
        op.infer(TensorType((5,), "step"), TensorType((1, 1, 1, 2), "int32"))
