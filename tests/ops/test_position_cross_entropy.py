"""The loss at each position against real numbers, and in C where single positions decide."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mcutrain.data import IGNORED
from mcutrain.ops.gradients import EXPONENT, STEP
from mcutrain.ops.loss import OutputRange
from mcutrain.ops.position_cross_entropy import PositionCrossEntropy
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from tests.ops.c_harness import Toolchain, expected
from tests.ops.cases import Sample

SCALE = 2.0**-8
POSITIONS, CLASSES = (1, 2, 3), 4
KEYS = 64
"""Rounded at random, whose mean is compared."""


def loss_op(dtype: str = "int8", exact: bool = True) -> PositionCrossEntropy:
    return PositionCrossEntropy.of(POSITIONS)((SCALE,), dtype, exact, 1)


def at(key: int) -> np.ndarray:
    return np.array([key, 0, 0, 0, 0], np.int64)


def logits(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(-1500, 1500, (*POSITIONS, CLASSES)).astype(np.int32)


def labels(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, CLASSES, POSITIONS).astype(np.uint8)


def nats(sums: np.ndarray, given: np.ndarray) -> np.ndarray:
    """-ln softmax at the labels, in float64, 0 where they are ignored."""
    real = sums.reshape(-1, CLASSES) * SCALE
    flat = given.ravel()
    chosen = real[np.arange(len(flat)), np.where(flat == IGNORED, 0, flat)]
    losses: np.ndarray = np.log(np.exp(real).sum(axis=1)) - chosen
    return np.where(flat == IGNORED, 0, losses)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_gradient_and_loss_are_those_of_real_numbers(dtype: str) -> None:
    sums, given = logits(), labels()
    given[0, 0, 1] = IGNORED
    step = 0.01 / SCALE
    wanted = np.zeros(sums.shape)
    for i in np.ndindex(sums.shape):
        more, less = sums.astype(np.float64), sums.astype(np.float64)
        more[i] += step
        less[i] -= step
        wanted[i] = (nats(more, given).mean() - nats(less, given).mean()) / (2 * step)
    op, found = loss_op(dtype), []
    for key in range(1, KEYS + 1):
        gradient, exponent, loss, _ = op.reference(at(key), sums, given, np.zeros(3, np.int8))
        found.append(gradient * 2.0 ** int(exponent[0]) * op.gradient_scale)
    tolerance = np.abs(wanted).max() / {"int8": 64, "int16": 16384}[dtype]
    np.testing.assert_allclose(np.mean(found, axis=0), wanted, atol=tolerance, rtol=1e-3)
    assert not gradient[0, 0, 1].any()
    assert abs(loss[0] / 65536 - nats(sums, given).sum() / 5) < 2**-14


def test_one_position_is_the_loss_of_a_classifier() -> None:
    sums, label = logits()[:, :1, :1], np.array([2], np.int32)
    one = PositionCrossEntropy.of((1, 1, 1))((SCALE,), "int8", True, 1)
    classifier = SoftmaxCrossEntropy((SCALE,), "int8", True, 1)
    state = np.zeros(3, np.int8)
    found = one.reference(at(5), sums, label.astype(np.uint8).reshape(1, 1, 1), state)
    wanted = classifier.reference(at(5), sums, label, state)
    for a, b in zip(found[:3], wanted[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    assert found[3][0] == (wanted[3][0] == 2)
    assert one.gradient_scale == classifier.gradient_scale


def test_where_all_is_ignored_nothing_is_learnt() -> None:
    ignored = np.full(POSITIONS, IGNORED, np.uint8)
    gradient, _, loss, right = loss_op().reference(at(1), logits(), ignored, np.zeros(3, np.int8))
    assert not gradient.any()
    assert (loss[0], right[0]) == (0, 0)


def sample(op: PositionCrossEntropy, sums: np.ndarray, given: np.ndarray) -> Sample:
    from mcutrain.ir.graph import TensorType

    state = (EXPONENT, np.zeros(3, np.int8))
    read = [(STEP, at(77)), (TensorType(sums.shape, "int32"), sums), (op.label_type, given), state]
    return Sample.of(op, *read, *([state] if op.is_followed else []))


def samples_that_one_position_decides() -> list[Sample]:
    """Nothing labelled; the largest error or logit in the first position, the last, elsewhere."""
    found = [sample(loss_op(), logits(), np.full(POSITIONS, IGNORED, np.uint8))]
    far = ((0, 4000, -4000, 0), (-3000, -3100, -3500, -3200))  # above 0, and all below
    reach = OutputRange(2**14, 2**13, 12)
    for place, values, label in itertools.product((0, 3, 5), far, (1, 2, 3, IGNORED)):
        sums, given = logits() // 64, np.full(POSITIONS, 3, np.uint8)
        sums.reshape(-1, CLASSES)[place] = values
        given.flat[place] = label
        found += [sample(op, sums, given) for op in (loss_op(), loss_op().followed_by(reach))]
    return found


def test_c_finds_the_position_that_decides(c_compilers, tmp_path) -> None:
    made = Toolchain.make(c_compilers[0], ["-O1"], tmp_path)
    samples = samples_that_one_position_decides()
    for result, one in zip(made.run(samples), samples, strict=True):
        for name, value in expected(one).items():
            np.testing.assert_array_equal(result[name], value, err_msg=f"{name} of {one.inputs}")
