"""ONNX sums, differences, products and quotients of tensors, and with constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.formats.onnx.float_layout import Placed
from mcutrain.formats.onnx.float_node import FloatOnnx
from mcutrain.quant.float_affine import (
    Affine,
)
from mcutrain.quant.float_elementwise import FloatMul
from mcutrain.quant.float_op import FloatOp

Array = npt.NDArray[Any]
Rule = Callable[[FloatOnnx], Placed]


def affine(node: FloatOnnx, x: Placed, op: Affine, axis: int) -> Placed:
    """Along an ONNX axis, which must be stored last."""
    if not -len(x.shape) <= axis < len(x.shape) or x.shape[axis] != len(op.factor):
        raise node.front.wrong(f"{len(op.factor)} numbers do not fit axis {axis} of {x.shape}")
    if len(x.shape) < 2:
        raise node.front.unsupported(f"an input {x.shape} is not; [1, c, …] is")
    return node.elementwise(op, node.nodes.with_last(x, axis % len(x.shape), node.name))


def arithmetic(
    with_constant: Callable[[Array, bool], Affine | None], of_tensors: FloatOp | None
) -> Rule:
    """with_constant: an Affine of the constant, and of whether it is the first operand.

    of_tensors: the operator on two tensors.
    """

    def apply(node: FloatOnnx) -> Placed:
        constants = [node.constant_or_none(i) for i in (0, 1)]
        if constants[0] is None and constants[1] is None:
            if of_tensors is None:
                raise node.front.unsupported("division by a tensor is not; by a constant is")
            return _of_two(node, of_tensors)
        first = constants[0] is not None
        x, value = node.x(int(first)), constants[0] if first else constants[1]
        assert value is not None
        axis, numbers = along(node, x, value)
        found = with_constant(numbers, first)
        if found is None:
            raise node.front.unsupported("a constant divided by a tensor is not")
        return affine(node, x, found, axis)

    return apply


def along(node: FloatOnnx, x: Placed, value: Array) -> tuple[int, Array]:
    """The axis along which a constant varies, and its numbers; for one number any axis."""
    if value.size == 1:
        order = x.stored_order
        axis = order[-1] if order else len(x.shape) - 1
        return axis, np.full(x.shape[axis], float(value.ravel()[0]))
    rank = len(x.shape)
    shape = (1,) * (rank - value.ndim) + value.shape
    longer = [i for i, d in enumerate(shape) if d > 1]
    if len(shape) != rank or len(longer) != 1 or x.shape[longer[0]] != value.size:
        raise node.front.unsupported(
            f"a constant {value.shape} for {x.shape} is not; one number, or one per channel is"
        )
    return longer[0], value.ravel()


def _of_two(node: FloatOnnx, op: FloatOp) -> Placed:
    """Of two tensors, which must be stored in one order."""
    a, b = node.x(0), node.x(1)
    if len(a.shape) != len(b.shape):
        raise node.front.unsupported(f"shapes {a.shape} and {b.shape} are not; of one rank are")
    larger = a if math.prod(a.shape) >= math.prod(b.shape) else b
    like = node.nodes.direct(larger, node.name)
    order = like.stored_order
    assert order is not None
    if isinstance(op, FloatMul) and a.shape != b.shape:
        return _gated(node, a, b, op)
    tensors = [node.nodes.arrange(v, v.shape, order, node.name) for v in (a, b)]
    tensor = node.add(op, *tensors)
    return node.nodes.placed(tensor, [order.index(i) for i in range(len(order))], larger.shape)


def _gated(node: FloatOnnx, a: Placed, b: Placed, op: FloatMul) -> Placed:
    """One operand has one number per channel, which both must have last."""
    wide, gate = (a, b) if math.prod(a.shape) >= math.prod(b.shape) else (b, a)
    longer = [i for i, d in enumerate(gate.shape) if d > 1]
    if len(longer) != 1 or gate.shape[longer[0]] != wide.shape[longer[0]]:
        raise node.front.unsupported(
            f"shapes {a.shape} and {b.shape} are not; equal ones, and one number per channel are"
        )
    found = node.nodes.with_last(wide, longer[0], node.name)
    rank = len(found.stored)
    per_channel = (*(1 for _ in range(rank - 1)), found.stored[-1])
    small = node.nodes.reshape(gate.tensor, per_channel, node.name)
    return Placed(node.add(op, found.tensor, small), found.stored, found.perm, found.shape)


def negative(node: FloatOnnx) -> Placed:
    """-x."""
    axis, ones = along(node, node.x(), np.full(1, -1.0))
    return affine(node, node.x(), Affine(ones, np.zeros_like(ones)), axis)
