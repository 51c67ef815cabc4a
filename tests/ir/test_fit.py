"""A proof that sums fit is of one operator, its types and its data: others are proved again."""

from __future__ import annotations

import numpy as np
import pytest

from mcutrain.ir import fit
from mcutrain.ir.fit import fit_sums
from mcutrain.ir.graph import Node, Tensor, TensorType
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.spatial import Window

INPUTS = 40_000
OP = Conv2D(Window((1, 1)), 0, Requantize((2**30,), (-8,), 0))
NODE = Node("y", OP, ("x", "w", "b"), ("y",))


def tensors(weight: int, bias: int, inputs: int = INPUTS) -> dict[str, Tensor]:
    types = [
        TensorType((1, 1, 1, inputs), "int8", (1.0,)),
        TensorType((1, 1, 1, inputs), "int8", (1.0,)),
        TensorType((1,), "int32", (1.0,)),
    ]
    data = (None, np.full((1, 1, 1, inputs), weight, np.int8), np.array([bias], np.int32))
    return {n: Tensor(n, t, d) for n, t, d in zip("xwb", types, data, strict=True)}


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    fit._HOLDING.clear()


def test_a_second_proof_of_the_same_is_not_made() -> None:
    known = tensors(1, 0)
    assert fit_sums([NODE, NODE], known) == (NODE, NODE)
    assert len(fit._HOLDING) == 1


@pytest.mark.parametrize("name", ["w", "b"])
def test_other_data_of_the_same_operator_and_types_is_proved_again(name: str) -> None:
    known = tensors(1, 0)
    fit_sums([NODE], known)
    large = tensors(127, 2**31 - 1)[name]
    other = {**known, name: Tensor(name, known[name].type, large.data)}
    (wide,) = fit_sums([NODE], other)
    assert wide.op == OP.with_wide_sums()
    assert fit_sums([NODE], known) == (NODE,)


def test_another_type_of_the_same_data_is_proved_again() -> None:
    known = tensors(1, 0)
    fit_sums([NODE], known)
    trained = {**known, "b": Tensor("b", known["b"].type)}
    fit_sums([NODE], trained)
    assert len(fit._HOLDING) == 2


def test_proofs_are_forgotten_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "HOLDING_AT_MOST", 2)
    for bias in range(5):
        fit_sums([NODE], tensors(1, bias))
    assert 1 <= len(fit._HOLDING) <= 2
