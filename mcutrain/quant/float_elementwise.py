"""Float operators that treat every element by itself: sums, products, activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mcutrain.ops.add import Add
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import FloatOp, Quantization, Shape

if TYPE_CHECKING:
    from mcutrain.quant.emit import Emitter
    from mcutrain.quant.float_graph import FloatNode

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class FloatAdd(FloatOp):
    """y = clamp(a + sign * b), of equal shapes. sign: 1 or -1."""

    sign: int = 1
    low: float = -math.inf
    high: float = math.inf

    @property
    def limits(self) -> tuple[float, float]:
        """Of the fused activation."""
        return self.low, self.high

    def clamped(self, low: float, high: float) -> FloatOp | None:
        """With the activation in it."""
        return replace(
            self,
            low=float(np.clip(self.low, low, high)),
            high=float(np.clip(self.high, low, high)),
        )

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

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """TFLite's ADD or SUB."""
        a, b = (emitter.quantization(name) for name in node.inputs)
        scales = multipliers.add_scales if self.sign > 0 else multipliers.sub_scales
        scaled = scales(a, b, emitter.quantization(node.output))
        op = Add(*scaled, multipliers.ADD_LEFT_SHIFT, *emitter.limits(node))
        emitter.node(node, op, tuple(emitter.tensor(name) for name in node.inputs))


@dataclass(frozen=True, eq=False)
class FloatMul(FloatOp):
    """y = a * b. Equal shapes, or one operand is [1, 1, 1, c] (a squeeze-and-excitation's gate)."""

    def shape(self, *x: Shape) -> Shape:
        """The larger operand's."""
        a, b = sorted(x, key=math.prod, reverse=True)
        if a != b and b != (*(1 for _ in a[:-1]), a[-1]):
            raise ValueError(
                f"shapes {x[0]} and {x[1]} are multiplied; supported are equal shapes, and one "
                "number per channel"
            )
        return a

    def run(self, *x: Array) -> Array:
        """Multiply."""
        y: Array = x[0] * x[1]
        return y

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """TFLite's MUL."""
        emitter.product(node)


@dataclass(frozen=True, eq=False)
class Clamp(FloatOp):
    """y = x held between low and high, which hold 0: an activation that is fused into nothing."""

    low: float
    high: float

    @property
    def limits(self) -> tuple[float, float]:
        """Its own."""
        return self.low, self.high

    def clamped(self, low: float, high: float) -> FloatOp | None:
        """Both in one."""
        ends = (float(np.clip(v, low, high)) for v in (self.low, self.high))
        return Clamp(*ends)

    def shape(self, *x: Shape) -> Shape:
        """The input's."""
        return x[0]

    def run(self, *x: Array) -> Array:
        """Clamp."""
        y: Array = np.clip(x[0], np.float32(self.low), np.float32(self.high))
        return y

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """RELU, RELU6 …, or a requantization whose ends are the limits."""
        x, y = emitter.quantization(node.inputs[0]), emitter.quantization(node.output)
        kinds = {limits: kind for kind, limits in multipliers.ACTIVATION_RANGE.items()}
        kind = kinds.get((self.low, self.high))
        if kind in (None, "none"):
            op = multipliers.requantize(x, y)
        else:
            op = multipliers.activation_rescale(str(kind), x, y)
        emitter.node(node, op, (emitter.tensor(node.inputs[0]),))


@dataclass(frozen=True, eq=False)
class FloatLeakyRelu(FloatOp):
    """y = x where x >= 0, alpha * x elsewhere; 0 <= alpha <= 1."""

    alpha: float

    def shape(self, *x: Shape) -> Shape:
        """The input's."""
        return x[0]

    def run(self, *x: Array) -> Array:
        """Multiply what is negative."""
        y: Array = np.where(x[0] >= 0, x[0], np.float32(self.alpha) * x[0])
        return y

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """TFLite's LEAKY_RELU."""
        x, y = emitter.quantization(node.inputs[0]), emitter.quantization(node.output)
        op = multipliers.leaky_relu(self.alpha, x, y)
        emitter.node(node, op, (emitter.tensor(node.inputs[0]),))


def _hard_swish(x: Array) -> Array:
    y: Array = x * np.clip(x + np.float32(3), 0, 6) * np.float32(1 / 6)
    return y


def _logistic(x: Array) -> Array:
    y: Array = np.float32(0.5) * (np.tanh(np.float32(0.5) * x) + np.float32(1))
    return y


def _elu(x: Array) -> Array:
    y: Array = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    return y


def _gelu(x: Array) -> Array:
    """The exact one: x times the probability that a normal variate is less."""
    halves = x.ravel().astype(np.float64) * -math.sqrt(0.5)
    doubled = np.fromiter(map(math.erfc, halves.tolist()), np.float64, x.size)
    y: Array = x * (0.5 * doubled).astype(np.float32).reshape(x.shape)
    return y


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "elu": _elu,
    "gelu": _gelu,
    "hard_swish": _hard_swish,
    "logistic": _logistic,
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

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """A Lookup."""
        emitter.lookup(node, self.name)
