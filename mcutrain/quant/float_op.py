"""The contract of an operator of the float graph, which the quantizer works on.

Layout is that of the int8 IR: batch first, channels last. Shapes have the batch axis 1; `run` takes
any number of samples.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.spatial import Window
from mcutrain.quant.multipliers import INT8, single

if TYPE_CHECKING:
    from mcutrain.quant.emit import Emitter
    from mcutrain.quant.float_graph import FloatNode

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
NamedData = tuple[str, TensorType, Array]
"""Of a constant: what it is, its type, its numbers."""

LEVELS = 255  # steps between the smallest and the largest int8
EMPTY_RANGE = 1e-7  # a tensor that stays within is taken for constantly 0


class Quantization(NamedTuple):
    """real = scale * (integer - zero_point), integer in int8."""

    scale: float
    zero_point: int

    @staticmethod
    def of_range(low: float, high: float) -> Quantization:
        """The int8 quantization whose codes span low to high and that has a code for 0."""
        low, high = min(low, 0.0), max(high, 0.0)
        if high - low < EMPTY_RANGE:
            low, high = 0.0, 1.0
        scale = single((high - low) / LEVELS)
        return Quantization(scale, int(np.clip(np.rint(-128 - low / scale), -128, 127)))

    @staticmethod
    def of(kind: TensorType) -> Quantization:
        """Return the quantization of a tensor with one scale, or of token ids."""
        return IDS if kind.dtype == IDS.dtype else Quantization(kind.scale, kind.zero_point)

    @property
    def dtype(self) -> str:
        """Type of the integers."""
        return "int8"

    @property
    def negative(self) -> Quantization:
        """The quantization of negatives, in which each has the code -1 - q."""
        return Quantization(self.scale, -1 - self.zero_point)

    @property
    def range(self) -> tuple[float, float]:
        """The real numbers of the first and the last code."""
        return self.scale * (-128 - self.zero_point), self.scale * (127 - self.zero_point)

    def fake(self, x: Array) -> Array:
        """x rounded to the nearest real number that has a code; float32."""
        low, high = self.range
        codes = np.rint(np.clip(x, low, high) * np.float32(1 / self.scale))
        return np.asarray(codes * np.float32(self.scale), np.float32)

    def codes(self, x: Array) -> Array:
        """The int8 of real numbers, as a QuantizeLinear rounds them: to even, saturated."""
        rounded = np.rint(x / np.float32(self.scale)) + self.zero_point
        return np.asarray(np.clip(rounded, *INT8), np.int8)

    def stored(self, value: float) -> int:
        """The int8 for a real number: TFLite's rule for the limits of activations."""
        with np.errstate(all="ignore"):
            quotient = float(np.float32(value) / np.float32(self.scale))
        if abs(quotient) > 2**9:
            return INT8[0] if quotient < 0 else INT8[1]
        rounded = int(math.copysign(math.floor(abs(quotient) + 0.5), quotient))
        return min(max(self.zero_point + rounded, INT8[0]), INT8[1])

    def is_like(self, other: Quantization) -> bool:
        """Whether both speak the same integers: a requantization between them does nothing."""
        same = quantize_multiplier(self.scale / other.scale) == (1 << 30, 1)
        return same and self.zero_point == other.zero_point


class TokenIds(Quantization):
    """What ids are: int16 as they are, which no rounding or clipping touches."""

    @property
    def dtype(self) -> str:
        """Type of the integers."""
        return "int16"

    def fake(self, x: Array) -> Array:
        """x itself."""
        return x

    def codes(self, x: Array) -> Array:
        """Ids."""
        return np.asarray(x, np.int16)


IDS = TokenIds(1.0, 0)


def bordered(window: Window, image: Shape) -> int:
    """The numbers of an image [1, h, w, c] with the window's padding around; 0 if it has none."""
    if not any(window.padding):
        return 0
    top, bottom, left, right = window.padding
    return (image[1] + top + bottom) * (image[2] + left + right) * image[3]


class FloatOp(ABC):
    """An operator: its fields are its attributes and its constant weights.

    most_inputs: of the int8 operator; of more, the first ones are computed by one before it.
    """

    most_inputs: ClassVar[int] = 2

    @abstractmethod
    def shape(self, *x: Shape) -> Shape:
        """The output's shape. Raises ValueError with a sentence if the inputs do not fit."""

    @abstractmethod
    def run(self, *x: Array) -> Array:
        """The outputs in float32 for inputs [n, …]."""

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """The operator on int8 tensors, without an activation fused into it. y: of the output.

        Raises ValueError if the scales are too far apart.
        """
        raise AssertionError(f"a {type(self).__name__} is no single int8 operator")

    def parameters(self, x: Sequence[TensorType], y: Quantization) -> Sequence[NamedData]:
        """Return what the int8 operator reads besides its inputs."""
        return ()

    def order(self, *x: Shape) -> tuple[int, ...]:
        """The places of the operands in the order in which the int8 operator takes them."""
        return tuple(range(len(x)))

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """Add the int8 nodes that compute the output."""
        emitter.computed(node)

    shares_quantization: ClassVar[bool] = False
    """Whether all inputs and the output must have one scale and zero point (pools, Concat)."""

    @property
    def requantizes(self) -> bool:
        """Whether the int8 operator can give the output another quantization than it shares."""
        return False

    @property
    def output_quantization(self) -> Quantization | None:
        """The output's quantization where TFLite fixes it."""
        return None

    @property
    def keeps_values(self) -> bool:
        """Whether every number of the output is one of the input's: no new rounding."""
        return False

    is_view: ClassVar[bool] = False
    """Whether the output is the input under another shape, its elements in the same order."""

    @property
    def table_rows(self) -> int:
        """How many rows a table has from which the input, token ids, chooses; 0: it has none."""
        return 0

    is_join: ClassVar[bool] = False
    """Whether each input gives only some of the output's elements."""

    has_other_factors: ClassVar[bool] = False
    """Whether the scales of inputs and output need not be alike: products, normalization."""

    @property
    def is_homogeneous(self) -> bool:
        """Whether positive factors, one per channel of x, can as well be applied to y."""
        return False

    @property
    def is_probability(self) -> bool:
        """Whether the output is a monotone function of logits, whatever is added to all of them."""
        return False

    @property
    def limits(self) -> tuple[float, float]:
        """Between which numbers an activation in this operator holds the output."""
        return -np.inf, np.inf

    def clamped(self, low: float, high: float) -> FloatOp | None:
        """Return the operator with an activation in it; None if it can have none."""
        return None

    def quantized(self, x_scale: float) -> FloatOp:
        """Return the operator with its weights rounded as the int8 graph will have them."""
        return self

    def macs(self, y: Shape) -> int:
        """Multiply-accumulates for one sample; of a pool its comparisons or additions."""
        return 0

    def scratch(self, *x: Shape) -> int:
        """Numbers that `run` holds for one sample beside its inputs and output."""
        return 0


@dataclass(frozen=True, eq=False)
class ClampingFloatOp(FloatOp):
    """An operator with an activation in it, which holds its output between low and high.

    low, high: none by default.
    """

    low: float = field(default=-math.inf, kw_only=True)
    high: float = field(default=math.inf, kw_only=True)

    @property
    def limits(self) -> tuple[float, float]:
        """Limits of the fused activation."""
        return self.low, self.high

    def clamped(self, low: float, high: float) -> FloatOp | None:
        """Return the operator with a second activation after the first."""
        a, b = (float(np.clip(end, low, high)) for end in self.limits)
        return replace(self, low=a, high=b)
