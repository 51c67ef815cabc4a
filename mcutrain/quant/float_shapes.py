"""Float operators that move, cut, join or average elements: pools, Pad, Concat, Slice, Softmax."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.concatenation import MOST_INPUTS, Concatenation
from mcutrain.ops.pad import Pad
from mcutrain.ops.pooling import AveragePool2D, ImageSum, MaxPool2D, Mean
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.slice import Part, Slice
from mcutrain.ops.softmax import Softmax
from mcutrain.ops.spatial import Window
from mcutrain.ops.transpose import Transpose
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import FloatOp, Quantization, Shape, bordered

if TYPE_CHECKING:
    from mcutrain.quant.emit import Emitter
    from mcutrain.quant.float_graph import FloatNode

Array = npt.NDArray[Any]
Thing = TypeVar("Thing")  # an operand, or its shape

IMAGE = (0, 1, 2, 3)  # the axes of [1, h, w, c]
MAX_TAPS = 2**12  # of a pool's window
SOFTMAX_OUTPUT = Quantization(1 / 256, -128)


@dataclass(frozen=True, eq=False)
class FloatPool(FloatOp):
    """The largest or the mean element of each window; padding is not counted.

    x: [n, h, w, c]  y: [n, rows, columns, c]
    """

    window: Window
    largest: bool

    shares_quantization: ClassVar[bool] = True  # as TFLite's pools

    @property
    def keeps_values(self) -> bool:
        """True for maxima."""
        return self.largest

    @property
    def is_homogeneous(self) -> bool:
        """True: it is a maximum or a mean."""
        return True

    def shape(self, *x: Shape) -> Shape:
        """Channels stay."""
        (image,) = x
        if len(image) != 4 or math.prod(self.window.kernel) > MAX_TAPS:
            raise ValueError(f"a pool of {self.window.kernel} over {image} is not supported")
        spans = [(k - 1) * d for k, d in zip(self.window.kernel, self.window.dilation, strict=True)]
        if max(self.window.padding[:2]) > spans[0] or max(self.window.padding[2:]) > spans[1]:
            raise ValueError(f"padding {self.window.padding} is as large as the pool's window")
        return (1, *self.window.output_size(*image[1:3]), image[3])

    def macs(self, y: Shape) -> int:
        """One per output element and place of the window."""
        return math.prod(y) * math.prod(self.window.kernel)

    def scratch(self, *x: Shape) -> int:
        """The padded image."""
        return bordered(self.window, x[0])

    def run(self, *x: Array) -> Array:
        """Tap by tap."""
        if self.largest:
            return self._reduced(x[0], -np.inf, np.maximum)
        ones = np.ones((1, *x[0].shape[1:3], 1), np.float32)
        total = self._reduced(x[0], 0.0, np.add)
        y: Array = total / self._reduced(ones, 0.0, np.add)
        return y

    def _reduced(self, x: Array, border: float, join: np.ufunc) -> Array:
        w = self.window
        top, bottom, left, right = w.padding
        rows, columns = w.output_size(*x.shape[1:3])
        widths = ((0, 0), (top, bottom), (left, right), (0, 0))
        padded = np.pad(x, widths, constant_values=np.float32(border))
        y = np.full((len(x), rows, columns, x.shape[3]), np.float32(border))
        for ky in range(w.kernel[0]):
            for kx in range(w.kernel[1]):
                y0, x0 = ky * w.dilation[0], kx * w.dilation[1]
                y1, x1 = y0 + (rows - 1) * w.stride[0] + 1, x0 + (columns - 1) * w.stride[1] + 1
                join(y, padded[:, y0 : y1 : w.stride[0], x0 : x1 : w.stride[1]], out=y)
        return y

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """MaxPool2D or AveragePool2D."""
        return MaxPool2D(self.window) if self.largest else AveragePool2D(self.window)


@dataclass(frozen=True, eq=False)
class FloatMean(FloatOp):
    """The mean over the whole image; unlike a pool it has a scale of its own.

    x: [n, h, w, c]  y: [n, 1, 1, c]
    """

    @property
    def is_homogeneous(self) -> bool:
        """True: it is a mean."""
        return True

    def shape(self, *x: Shape) -> Shape:
        """One pixel."""
        if len(x[0]) != 4:
            raise ValueError(f"the mean needs an image, got {x[0]}")
        return (1, 1, 1, x[0][3])

    def run(self, *x: Array) -> Array:
        """Mean."""
        y: Array = x[0].mean(axis=(1, 2), keepdims=True, dtype=np.float32)
        return y

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """TFLite's MEAN."""
        (image,) = x
        _, height, width, _ = image.shape
        mult, shift = multipliers.mean_multiplier(image.scale, y.scale, height * width)
        return Mean(image.zero_point, y.zero_point, mult, shift)


@dataclass(frozen=True, eq=False)
class FloatSum(FloatMean):
    """The sum over the whole image."""

    def run(self, *x: Array) -> Array:
        """Sum."""
        y: Array = x[0].sum(axis=(1, 2), keepdims=True, dtype=np.float32)
        return y

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """TFLite's SUM."""
        (image,) = x
        _, height, width, _ = image.shape
        given = (image.scale, image.zero_point)
        mult, shift = multipliers.sum_multiplier(given, y.scale, height * width)
        return ImageSum(image.zero_point, y.zero_point, mult, shift)


@dataclass(frozen=True, eq=False)
class FloatPad(FloatOp):
    """A border of `value`. padding: top, bottom, left, right. x: [n, h, w, c].

    channels: how many of them, all `value`, are before x's and behind.
    """

    padding: tuple[int, int, int, int]
    value: float = 0.0
    channels: tuple[int, int] = (0, 0)

    shares_quantization: ClassVar[bool] = True  # as TFLite's PAD

    @property
    def keeps_values(self) -> bool:
        """But for the border."""
        return True

    @property
    def is_homogeneous(self) -> bool:
        """True if the border is 0, and no channel is added."""
        return self.value == 0 and not any(self.channels)

    def shape(self, *x: Shape) -> Shape:
        """Height, width and channels grow."""
        if len(x[0]) != 4 or min(*self.padding, *self.channels) < 0:
            raise ValueError(f"cannot pad {x[0]} by {self.padding}, {self.channels}")
        top, bottom, left, right = self.padding
        _, h, w, c = x[0]
        return (1, h + top + bottom, w + left + right, c + sum(self.channels))

    def run(self, *x: Array) -> Array:
        """Pad."""
        top, bottom, left, right = self.padding
        widths = ((0, 0), (top, bottom), (left, right), self.channels)
        return np.pad(x[0], widths, constant_values=np.float32(self.value))

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """PAD or PADV2."""
        return Pad(self.padding, y.stored(self.value), self.channels)


class FloatMove(FloatOp):
    """Moves elements, as TFLite's int8 kernels copy them."""

    shares_quantization: ClassVar[bool] = True  # integers are copied

    @property
    def keeps_values(self) -> bool:
        """All."""
        return True

    @property
    def keeps_channels(self) -> bool:
        """Whether every number stays in its channel, along the last axis, and all are there."""
        return False


@dataclass(frozen=True, eq=False)
class FloatReshape(FloatMove):
    """Gives elements, row-major, another shape. to: with the batch axis 1."""

    to: Shape

    is_view: ClassVar[bool] = True

    def shape(self, *x: Shape) -> Shape:
        """The new one."""
        if self.to[:1] != (1,) or math.prod(self.to) != math.prod(x[0]):
            raise ValueError(f"shape {x[0]} cannot become {self.to}")
        return self.to

    def run(self, *x: Array) -> Array:
        """Reshape."""
        return x[0].reshape(len(x[0]), *self.to[1:])

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """A view."""
        return Reshape(self.to)


@dataclass(frozen=True, eq=False)
class FloatSlice(FloatMove):
    """Some of the places along each axis but the batch. channels: of x."""

    part: Part
    channels: int

    @property
    def is_homogeneous(self) -> bool:
        """Where all channels are there."""
        return self.part.sizes[-1] == self.channels

    @property
    def keeps_channels(self) -> bool:
        """True if it is homogeneous."""
        return self.is_homogeneous

    def shape(self, *x: Shape) -> Shape:
        """Return how many places there are."""
        self.part.check(x[0])
        return self.part.sizes

    def run(self, *x: Array) -> Array:
        """Cut out."""
        return np.ascontiguousarray(x[0][self.part.index])

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """TFLite's SLICE or STRIDED_SLICE."""
        return Slice(self.part)


@dataclass(frozen=True, eq=False)
class FloatConcat(FloatMove):
    """Operands one after another along an axis (counted from 0, the batch).

    constants: operands [1, …] that are known, each with its place among all, ascending.
    """

    axis: int
    constants: tuple[tuple[int, Array], ...] = ()
    most_inputs = MOST_INPUTS

    is_join: ClassVar[bool] = True

    def shape(self, *x: Shape) -> Shape:
        """The axis grows."""
        x = self._with_constants(x, [c.shape for _, c in self.constants])
        rests = {(*s[: self.axis], *s[self.axis + 1 :]) for s in x}
        if len(rests) != 1 or not 0 < self.axis < len(x[0]):
            raise ValueError(f"shapes {x} cannot be joined along axis {self.axis}")
        length = sum(s[self.axis] for s in x)
        return (*x[0][: self.axis], length, *x[0][self.axis + 1 :])

    def run(self, *x: Array) -> Array:
        """Join."""
        known = [np.broadcast_to(c, (len(x[0]), *c.shape[1:])) for _, c in self.constants]
        return np.concatenate(self._with_constants(x, known), axis=self.axis)

    def _with_constants(self, x: Sequence[Thing], known: Sequence[Thing]) -> tuple[Thing, ...]:
        """All operands in order. known: what stands for the constants."""
        parts = list(x)
        for (place, _), constant in zip(self.constants, known, strict=True):
            parts.insert(place, constant)
        return tuple(parts)

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """TFLite's CONCATENATION."""
        return Concatenation(self.axis)

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """As many as are needed."""
        emitter.join(node, self.axis, self.constants)


@dataclass(frozen=True, eq=False)
class FloatSoftmax(FloatOp):
    """exp(beta * x) / sum over the last axis."""

    beta: float = 1.0

    @property
    def output_quantization(self) -> Quantization | None:
        """TFLite's only one."""
        return SOFTMAX_OUTPUT

    @property
    def is_probability(self) -> bool:
        """Always."""
        return True

    def shape(self, *x: Shape) -> Shape:
        """The input's."""
        return x[0]

    def run(self, *x: Array) -> Array:
        """Compute it in float32, after the largest is subtracted."""
        scaled = np.float32(self.beta) * x[0]
        powers = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
        y: Array = powers / powers.sum(axis=-1, keepdims=True)
        return y

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """TFLite's SOFTMAX."""
        return Softmax.from_scale(x[0].scale, self.beta)


def image_to_average(shape: Shape, axes: Collection[int]) -> tuple[FloatMove, ...]:
    """Return what makes an image of a tensor, such that FloatMean averages it over the axes.

    The other axes become the channels, in their order. axes: counted from the batch, which is 0 and
    not one of them. Data moves only where an axis that stays is before one that goes.
    """
    longer = [i for i, length in enumerate(shape) if length > 1]
    gone, kept = ([i for i in longer if (i in axes) == over] for over in (True, False))
    if len(shape) == len(IMAGE) and set(gone) <= set(IMAGE[1:3]) and set(kept) <= set(IMAGE[3:]):
        return ()
    rest = [i for i in range(1, len(shape)) if i not in longer]
    moves = (FloatTranspose((0, *rest, *gone, *kept)),) if [*gone, *kept] != longer else ()
    count = math.prod(shape[i] for i in gone)
    return (*moves, FloatReshape((1, 1, count, math.prod(shape) // count)))


@dataclass(frozen=True, eq=False)
class FloatTranspose(FloatMove):
    """Axes in another order, where data must move. perm[0] is the batch, 0."""

    perm: tuple[int, ...]

    @property
    def keeps_channels(self) -> bool:
        """True if they stay last."""
        return self.perm[-1] == len(self.perm) - 1

    def shape(self, *x: Shape) -> Shape:
        """Return the shape in the new order."""
        if sorted(self.perm) != list(range(len(x[0]))) or self.perm[0] != 0:
            raise ValueError(f"the axes of {x[0]} cannot be ordered {self.perm}")
        return tuple(x[0][i] for i in self.perm)

    def run(self, *x: Array) -> Array:
        """Transpose."""
        return np.ascontiguousarray(x[0].transpose(self.perm))

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """TFLite's TRANSPOSE."""
        return Transpose(self.perm)
