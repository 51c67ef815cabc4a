"""Float operators that treat every element by itself: sums, products, activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.activation_functions import (
    CUBIC,
    LEAST_DIVISOR,
    LEAST_POWER,
    MOST_EXPONENT,
    ROOT_2_BY_PI,
    SELU_ALPHA,
    SELU_GAMMA,
)
from mcutrain.ops.add import Add
from mcutrain.ops.add_channels import AddChannels
from mcutrain.ops.div import Div
from mcutrain.ops.lookup import lookup
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import ClampingFloatOp, FloatOp, Quantization, Shape

if TYPE_CHECKING:
    from mcutrain.quant.emit import Emitter
    from mcutrain.quant.float_graph import FloatNode

Array = npt.NDArray[Any]


def larger_first(a: Shape, b: Shape) -> tuple[int, ...]:
    """The places of two operands."""
    return (1, 0) if math.prod(b) > math.prod(a) else (0, 1)


@dataclass(frozen=True, eq=False)
class FloatAdd(ClampingFloatOp):
    """y = clamp(a + sign * b). sign: 1 or -1.

    Of equal shapes in float networks; in int8 one operand may have one number per channel.
    """

    sign: int = 1

    def shape(self, *x: Shape) -> Shape:
        """The operands'."""
        a, b = x
        if a != b:
            raise ValueError(f"shapes {a} and {b} are added; supported are equal shapes")
        return a

    def run(self, *x: Array) -> Array:
        """Add, clamp."""
        y: Array = x[0] + x[1] if self.sign > 0 else x[0] - x[1]
        return np.clip(y, np.float32(self.low), np.float32(self.high))

    def order(self, *x: Shape) -> tuple[int, ...]:
        """The larger operand first."""
        return larger_first(*x)

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """TFLite's ADD or SUB."""
        a, b = map(Quantization.of, x)
        scales = multipliers.add_scales if self.sign > 0 else multipliers.sub_scales
        *operands, result = scales(a, b, y)
        wide, narrow = (operands[i] for i in self.order(*(t.shape for t in x)))
        kind = Add if x[0].shape == x[1].shape else AddChannels
        return kind(wide, narrow, result)

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """Emit the operator with its activation."""
        emitter.computed(node, emitter.limits(node))


@dataclass(frozen=True, eq=False)
class WithConstant(FloatOp):
    """An operator with a number of its own for each element. c: [1, …], float32, of x's shape."""

    c: Array

    def shape(self, *x: Shape) -> Shape:
        """The input's."""
        if x[0] != self.c.shape:
            raise ValueError(f"the constant is {self.c.shape}, the input {x[0]}")
        return x[0]

    def quantized(self, x_scale: float) -> FloatOp:
        """Return the operator with the constant as int8 has it."""
        return replace(self, c=self.quantization.fake(self.c))

    @property
    def quantization(self) -> Quantization:
        """Quantization of the constant."""
        return Quantization.of_range(float(self.c.min()), float(self.c.max()))

    def operands(self, emitter: Emitter, node: FloatNode) -> tuple[str, str]:
        """Name the int8 input, and the constant, which is added to the graph."""
        constant = emitter.constant(f"{node.name}/constant", self.c, self.quantization)
        return emitter.tensor(node.inputs[0]), constant


@dataclass(frozen=True, eq=False)
class AddConstant(ClampingFloatOp, WithConstant):
    """y = clamp(x + c): an embedding of positions."""

    def run(self, *x: Array) -> Array:
        """Add, clamp."""
        y: Array = np.clip(x[0] + self.c, np.float32(self.low), np.float32(self.high))
        return y

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """An addition of two tensors."""
        operands = self.operands(emitter, node)
        op = FloatAdd().int8(emitter.types(*operands), emitter.quantization(node.output))
        emitter.node(node, op.with_channel_limits(*emitter.limits(node)), operands)


@dataclass(frozen=True, eq=False)
class FloatMul(FloatOp):
    """y = a * b. Equal shapes, or one operand is [1, 1, 1, c] (a squeeze-and-excitation's gate).

    [1, c] is read as that.
    """

    def shape(self, *x: Shape) -> Shape:
        """The larger operand's."""
        a, b = (x[i] for i in self.order(*x))
        if a != b and b not in ((*(1 for _ in a[:-1]), a[-1]), (1, a[-1])):
            raise ValueError(
                f"shapes {x[0]} and {x[1]} are multiplied; supported are equal shapes, and one "
                "number per channel"
            )
        return a

    def run(self, *x: Array) -> Array:
        """Multiply, sample by sample."""
        wide, narrow = (x[i] for i in self.order(*(v.shape for v in x)))
        ones = (1,) * (wide.ndim - narrow.ndim)
        y: Array = wide * narrow.reshape(len(narrow), *ones, *narrow.shape[1:])
        return y

    has_other_factors: ClassVar[bool] = True

    def order(self, *x: Shape) -> tuple[int, ...]:
        """The larger operand first."""
        return larger_first(*x)

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """TFLite's MUL."""
        wide, narrow = (Quantization.of(x[i]) for i in self.order(*(t.shape for t in x)))
        return multipliers.multiply(wide, narrow, y)


@dataclass(frozen=True, eq=False)
class FloatDiv(FloatOp):
    """y = a / b, of equal shapes, in files that are int8 already.

    In float models it is a product with the reciprocal, which both formats can hold in int8.
    """

    def shape(self, *x: Shape) -> Shape:
        """The operands'."""
        return x[0]

    def run(self, *x: Array) -> Array:
        """Divide."""
        y: Array = x[0] / x[1]
        return y

    has_other_factors: ClassVar[bool] = True

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """Div."""
        a, b = x
        return Div(a.zero_point, b.zero_point, y.zero_point, a.scale / (b.scale * y.scale))


@dataclass(frozen=True, eq=False)
class MulConstant(WithConstant):
    """y = x * c: the angles of a rotary embedding."""

    has_other_factors: ClassVar[bool] = True

    def run(self, *x: Array) -> Array:
        """Multiply."""
        y: Array = x[0] * self.c
        return y

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """A product of two tensors."""
        operands = self.operands(emitter, node)
        op = FloatMul().int8(emitter.types(*operands), emitter.quantization(node.output))
        emitter.node(node, op, operands)


@dataclass(frozen=True, eq=False)
class Clamp(ClampingFloatOp):
    """y = x held between low and high, which hold 0: an activation that is fused into nothing."""

    low: float = -math.inf
    high: float = math.inf

    def shape(self, *x: Shape) -> Shape:
        """The input's."""
        return x[0]

    def run(self, *x: Array) -> Array:
        """Clamp."""
        y: Array = np.clip(x[0], np.float32(self.low), np.float32(self.high))
        return y

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """RELU, RELU6 …, or a requantization whose ends are the limits."""
        given = Quantization.of(x[0])
        kinds = {limits: kind for kind, limits in multipliers.ACTIVATION_RANGE.items()}
        kind = kinds.get((self.low, self.high), "none")
        if kind == "none":
            return multipliers.requantize(given, y)
        return multipliers.activation_rescale(kind, given, y)


@dataclass(frozen=True, eq=False)
class FloatLeakyRelu(FloatOp):
    """y = x where x >= 0, alpha * x elsewhere; 0 <= alpha <= 1."""

    alpha: float

    @property
    def is_homogeneous(self) -> bool:
        """The sign stays."""
        return True

    def shape(self, *x: Shape) -> Shape:
        """The input's."""
        return x[0]

    def run(self, *x: Array) -> Array:
        """Multiply what is negative."""
        y: Array = np.where(x[0] >= 0, x[0], np.float32(self.alpha) * x[0])
        return y

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """TFLite's LEAKY_RELU."""
        return multipliers.leaky_relu(self.alpha, Quantization.of(x[0]), y)


def is_leaky(slopes: Array) -> bool:
    """Return whether slopes of negative numbers are one that a FloatLeakyRelu may have."""
    return slopes.size > 0 and not np.ptp(slopes) and 0 <= slopes.flat[0] <= 1


def _hard_swish(x: Array) -> Array:
    y: Array = x * np.clip(x + np.float32(3), 0, 6) * np.float32(1 / 6)
    return y


def _logistic(x: Array) -> Array:
    y: Array = np.float32(0.5) * (np.tanh(np.float32(0.5) * x) + np.float32(1))
    return y


def _elu(x: Array) -> Array:
    y: Array = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    return y


ERFC = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806),
    *(0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277),
)


def _erfc(x: Array) -> Array:
    """1 - erf, float64, with a relative error below 1.2e-7 (Numerical Recipes, section 6.2)."""
    wide = x.astype(np.float64)
    t = 1 / (1 + np.abs(wide) / 2)
    tail = t * np.exp(np.polynomial.polynomial.polyval(t, ERFC) - wide * wide)
    return np.where(wide >= 0, tail, 2 - tail)


def _gelu(x: Array) -> Array:
    """The exact one: x times the probability that a normal variate is less."""
    y: Array = x * (_erfc(x * -math.sqrt(0.5)) / 2).astype(np.float32)
    return y


def _erf(x: Array) -> Array:
    y: Array = (1 - _erfc(x)).astype(np.float32)
    return y


def _gelu_tanh(x: Array) -> Array:
    inner = np.float32(ROOT_2_BY_PI) * (x + np.float32(CUBIC) * x * x * x)
    y: Array = np.float32(0.5) * x * (np.float32(1) + np.tanh(inner))
    return y


def _softplus(x: Array) -> Array:
    y: Array = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return y


def _mish(x: Array) -> Array:
    y: Array = x * np.tanh(_softplus(x))
    return y


def _reciprocal(x: Array) -> Array:
    y: Array = np.float32(1) / np.where(np.abs(x) > LEAST_DIVISOR, x, np.float32(LEAST_DIVISOR))
    return y


def _selu(x: Array) -> Array:
    y: Array = np.float32(SELU_GAMMA) * np.where(x > 0, x, np.float32(SELU_ALPHA) * _elu(x))
    return y


def _exp(x: Array) -> Array:
    y: Array = np.exp(np.minimum(x, np.float32(MOST_EXPONENT)))
    return y


def _log(x: Array) -> Array:
    y: Array = np.log(np.maximum(x, np.float32(LEAST_POWER)))
    return y


def _softsign(x: Array) -> Array:
    y: Array = x / (np.float32(1) + np.abs(x))
    return y


def _sqrt(x: Array) -> Array:
    y: Array = np.sqrt(np.maximum(x, 0))
    return y


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "elu": _elu,
    "erf": _erf,
    "exp": _exp,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "hard_swish": _hard_swish,
    "logistic": _logistic,
    "log": _log,
    "mish": _mish,
    "reciprocal": _reciprocal,
    "rsqrt": lambda x: np.float32(1) / np.sqrt(np.maximum(x, np.float32(LEAST_DIVISOR))),
    "selu": _selu,
    "softplus": _softplus,
    "softsign": _softsign,
    "sqrt": _sqrt,
    "tanh": np.tanh,
}
FIXED_OUTPUTS = {"logistic": Quantization(1 / 256, -128), "tanh": Quantization(1 / 128, 0)}


@dataclass(frozen=True, eq=False)
class Function(FloatOp):
    """y = one of FUNCTIONS of x; in int8 a table of 256 numbers."""

    name: str

    def shape(self, *x: Shape) -> Shape:
        """The input's."""
        return x[0]

    def run(self, *x: Array) -> Array:
        """Elementwise."""
        return FUNCTIONS[self.name](x[0])

    @property
    def output_quantization(self) -> Quantization | None:
        """TFLite's for LOGISTIC and TANH."""
        return FIXED_OUTPUTS.get(self.name)

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """A Lookup."""
        return lookup(self.name, x[0], TensorType(x[0].shape, "int8", (y.scale,), y.zero_point))
