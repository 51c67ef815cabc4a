"""Which nodes serve which trained tensors, and what moves of a tensor are worth."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from mcutrain.autodiff.elastic import FACTOR_BITS, ElasticTensor, importance_of, served
from mcutrain.ir.graph import Node
from mcutrain.ops.reshape import Reshape

TENSOR = ElasticTensor("w", None, (1.0,), 0, 0, False)


def node(name: str, inputs: str, outputs: str) -> Node:
    return Node(name, Reshape((1,)), tuple(inputs.split()), tuple(outputs.split()))


def test_a_node_serves_every_tensor_whose_update_follows_from_it() -> None:
    """The gradient g passes through two layers; each updates its weight, the first its bias."""
    nodes = (
        node("loss", "y", "g"),
        node("update late", "g late", "late2"),
        node("back", "g", "g2"),
        node("update early", "g2 early", "early2"),
        node("update bias", "g2 bias", "bias2"),
        node("count", "counted", "counted2"),
    )
    tensors = [replace(TENSOR, name=name) for name in ("late", "early", "bias")]
    found = served(nodes, tensors, {t.name: f"{t.name}2" for t in tensors})
    assert found == {
        "loss": {0, 1, 2},
        "update late": {0},
        "back": {1, 2},
        "update early": {1},
        "update bias": {2},
        "count": frozenset(),
    }


@pytest.mark.parametrize("count", [1, 2**17 - 1, 2**17, 2**21])
@pytest.mark.parametrize(("rate", "bits"), [(1.0, 0), (2.0**-9, 4), (2.0**20, 0), (1.0, -2)])
def test_sums_of_moves_are_divided_by_the_rate_however_many_there_are(
    count: int, rate: float, bits: int
) -> None:
    scales = importance_of(replace(TENSOR, rate=(rate,), bits=bits), (count, 1))
    assert (scales.count, scales.inner) == (count, count)
    total = 5 << scales.dropped_bits
    found = Fraction(2) ** (scales.exponent - FACTOR_BITS) * (total >> scales.dropped_bits)
    assert found * scales.factors[0] == Fraction(total) / Fraction(rate) / Fraction(4) ** bits
    assert math.prod((2**15 - 1, 2**15 - 1, count)) >> scales.dropped_bits < 2 ** (63 - FACTOR_BITS)


@pytest.mark.parametrize(("axis", "inner"), [(0, 15), (-1, 1), (1, 5)])
def test_a_factor_of_a_channel_is_of_the_axis_of_rates(axis: int, inner: int) -> None:
    shape = (2, 3, 5)
    rates = tuple(2.0**k for k in range(shape[axis]))
    scales = importance_of(replace(TENSOR, rate=rates, rate_axis=axis), shape)
    assert scales.inner == inner
    assert [f * 2**k for k, f in enumerate(scales.factors)] == [scales.factors[0]] * shape[axis]
