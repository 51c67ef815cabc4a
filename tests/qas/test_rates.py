"""Quantization-aware scaling: what float training would move, per output channel."""

from __future__ import annotations

from mcutrain.ir.graph import TensorType
from mcutrain.qas import update_rate


def test_a_rate_is_the_scale_to_the_power_minus_two_per_channel() -> None:
    weight = TensorType((2, 1, 1, 4), "int8", (0.5, 0.25), 0, 0)
    assert update_rate(weight) == (4.0, 16.0)


def test_equal_rates_are_one() -> None:
    assert update_rate(TensorType((2,), "int32", (0.5, 0.5), 0, 0)) == (4.0,)
    assert update_rate(TensorType((2,), "int32", (0.5,))) == (4.0,)


def test_without_qas_the_rate_is_one() -> None:
    assert update_rate(TensorType((2,), "int32", (0.5, 0.1), 0, 0), enabled=False) == (1.0,)


def test_a_step_in_integers_is_the_step_in_real_numbers() -> None:
    """w = s·q: moving q by rate · dL/dq, with dL/dq = s · dL/dw, moves w by dL/dw."""
    scale, derivative = 0.03, 1.7
    (rate,) = update_rate(TensorType((1,), "int8", (scale,)))
    assert abs(scale * rate * (scale * derivative) / derivative - 1) < 1e-15
