"""One rule per ONNX operator of a float model: the float nodes for it and the value they give."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from mcutrain.formats.onnx.file import type_name
from mcutrain.formats.onnx.float_arithmetic import affine, along, arithmetic, negative
from mcutrain.formats.onnx.float_layout import Placed
from mcutrain.formats.onnx.float_node import FloatOnnx
from mcutrain.formats.onnx.float_shapes import (
    concat,
    global_pool,
    pad,
    pool,
    reduce_mean,
    reshape,
    softmax,
    transpose,
)
from mcutrain.formats.onnx.float_sums import batch_norm, conv, gemm, matmul
from mcutrain.quant.float_affine import (
    Affine,
    divided_by_constant,
    minus_constant,
    plus_constant,
    times_constant,
)
from mcutrain.quant.float_elementwise import Clamp, FloatAdd, FloatLeakyRelu, FloatMul, Function

Array = npt.NDArray[Any]
Rule = Callable[[FloatOnnx], Placed]

REALS = (TensorProto.FLOAT, TensorProto.DOUBLE)


def identity(node: FloatOnnx) -> Placed:
    """Identity, Cast of reals, and Dropout when nothing is trained."""
    front = node.front
    if front.op_type == "Dropout" and front.has(2) and front.number(2, 0.0):
        raise front.unsupported("training_mode is not; an exported inference model is")
    for name in ("seed", "saturate"):
        front.attributes.integer(name, 0)
    to = front.attributes.integer("to", TensorProto.FLOAT)
    if to not in REALS:
        raise front.unsupported(f"a cast of an activation to {type_name(to)} is not; to float is")
    return node.x()


def clip(node: FloatOnnx) -> Placed:
    """Between limits around 0."""
    low, high = node.front.number(1, -math.inf), node.front.number(2, math.inf)
    return _clamped(node, node.x(), low, high)


def _clamped(node: FloatOnnx, x: Placed, low: float, high: float) -> Placed:
    if not low <= 0 <= high:
        raise node.front.unsupported(f"the limits {low} to {high} are not; limits around 0 are")
    return node.elementwise(Clamp(low, high), x)


def _extreme(least: bool) -> Rule:
    """Max or Min with a constant."""

    def apply(node: FloatOnnx) -> Placed:
        i = 1 if node.constant_or_none(1) is not None else 0
        limit = node.real(i)
        if len(node.values) != 2 or limit.size != 1:
            raise node.front.unsupported("only one tensor and one number are")
        number = float(limit.ravel()[0])
        low, high = (number, math.inf) if least else (-math.inf, number)
        return _clamped(node, node.x(1 - i), low, high)

    return apply


def leaky_relu(node: FloatOnnx) -> Placed:
    """LeakyRelu, and PRelu with one slope."""
    if node.front.op_type == "PRelu":
        slopes = node.real(1)
        alpha = float(slopes.ravel()[0])
        if np.ptp(slopes):
            raise node.front.unsupported("a slope per channel is not; one slope is")
    else:
        alpha = node.front.attributes.real("alpha", 0.01)
    if not 0 <= alpha <= 1:
        raise node.front.unsupported(f"the slope {alpha} is not; 0 to 1 are")
    return node.elementwise(FloatLeakyRelu(alpha), node.x())


def hard_sigmoid(node: FloatOnnx) -> Placed:
    """max(0, min(1, alpha * x + beta))."""
    alpha = node.front.attributes.real("alpha", 0.2)
    beta = node.front.attributes.real("beta", 0.5)
    axis, factor = along(node, node.x(), np.full(1, alpha))
    line = affine(node, node.x(), Affine(factor, np.full_like(factor, beta)), axis)
    return node.elementwise(Clamp(0.0, 1.0), line)


def _function(name: str) -> Rule:
    def apply(node: FloatOnnx) -> Placed:
        if node.front.attributes.real("alpha", 1.0) != 1.0:
            raise node.front.unsupported("an alpha other than 1 is not")
        return node.elementwise(Function(name), node.x())

    return apply


RULES: dict[str, Rule] = {
    "Add": arithmetic(plus_constant, FloatAdd()),
    "AveragePool": pool(largest=False),
    "BatchNormalization": batch_norm,
    "Cast": identity,
    "Clip": clip,
    "Concat": concat,
    "Conv": conv,
    "Div": arithmetic(divided_by_constant, None),
    "Dropout": identity,
    "Elu": _function("elu"),
    "Flatten": reshape,
    "Gemm": gemm,
    "GlobalAveragePool": global_pool(largest=False),
    "GlobalMaxPool": global_pool(largest=True),
    "HardSigmoid": hard_sigmoid,
    "HardSwish": _function("hard_swish"),
    "Identity": identity,
    "LeakyRelu": leaky_relu,
    "MatMul": matmul,
    "Max": _extreme(least=True),
    "MaxPool": pool(largest=True),
    "Min": _extreme(least=False),
    "Mul": arithmetic(times_constant, FloatMul()),
    "Neg": negative,
    "PRelu": leaky_relu,
    "Pad": pad,
    "ReduceMean": reduce_mean,
    "Relu": lambda node: _clamped(node, node.x(), 0.0, math.inf),
    "Reshape": reshape,
    "Sigmoid": _function("logistic"),
    "Softmax": softmax,
    "Squeeze": reshape,
    "Sub": arithmetic(minus_constant, FloatAdd(-1)),
    "Tanh": _function("tanh"),
    "Transpose": transpose,
    "Unsqueeze": reshape,
}
