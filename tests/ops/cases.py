"""One line per operator, at the end; above, how shapes, attributes and values are drawn.

Everything stays inside what the kernels' headers allow; within that, limits are drawn on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain import fixedpoint
from mcutrain.data import IGNORED
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall, Op
from mcutrain.ops.add import Add, Scaled
from mcutrain.ops.add_channels import AddChannels, AddChannelsGradInput
from mcutrain.ops.add_difference import AddDifference
from mcutrain.ops.batch_matmul import BatchMatMul, BatchMatMulGradInput
from mcutrain.ops.binary_cross_entropy import BinaryCrossEntropy
from mcutrain.ops.bounds import BIAS_LIMIT
from mcutrain.ops.concatenation import MOST_INPUTS, Concatenation, ConcatenationGradInput
from mcutrain.ops.conv_2d import Conv2D, Conv2DGradInput, Conv2DGradWeight, Requantize
from mcutrain.ops.depthwise_conv_2d import (
    DepthwiseConv2D,
    DepthwiseConv2DGradInput,
    DepthwiseConv2DGradWeight,
)
from mcutrain.ops.distilled_cross_entropy import DistilledCrossEntropy
from mcutrain.ops.div import Div
from mcutrain.ops.embedding import Embedding
from mcutrain.ops.gradient_sum import GradientSum
from mcutrain.ops.gradients import ACC_DROPPED_BITS, EXPONENT, GRADIENT_BITS, STEP, OutputStage
from mcutrain.ops.grouped_conv_2d import (
    GroupedConv2D,
    GroupedConv2DGradInput,
    GroupedConv2DGradWeight,
)
from mcutrain.ops.gru import Gru
from mcutrain.ops.layer_norm import (
    EPSILON_LIMIT,
    TRAINED_SHIFT,
    LayerNorm,
    LayerNormGradGamma,
    LayerNormGradInput,
    shift_of,
)
from mcutrain.ops.leaky_relu import LeakyRelu, LeakyReluGradInput
from mcutrain.ops.lookup import Lookup, LookupGradInput
from mcutrain.ops.loss import OutputRange
from mcutrain.ops.lstm import Lstm
from mcutrain.ops.mean_squared_error import MeanSquaredError
from mcutrain.ops.merge_columns import MergeColumns
from mcutrain.ops.mul import Mul, MulGradInput
from mcutrain.ops.pad import Pad, PadGradInput
from mcutrain.ops.pooling import (
    AveragePool2D,
    AveragePool2DGradInput,
    ImageSum,
    MaxPool2D,
    MaxPool2DGradInput,
    Mean,
    MeanSums,
    ScaledAveragePool2D,
)
from mcutrain.ops.position_cross_entropy import PositionCrossEntropy
from mcutrain.ops.recurrent import DIRECTIONS, Recurrent
from mcutrain.ops.rescale import Rescale
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.resize import ONE, Resize, ResizeGradInput, summable
from mcutrain.ops.scale_sums import ScaleSums
from mcutrain.ops.select_channels import SelectChannels
from mcutrain.ops.several import MOST_OUTPUTS, MOST_WEIGHT, LabelPart, LossSum, OutputRow
from mcutrain.ops.sigmoid_cross_entropy import SigmoidCrossEntropy
from mcutrain.ops.slice import Part, Slice, SliceGradInput
from mcutrain.ops.softmax import Softmax, SoftmaxGradInput
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.ops.spatial import Window
from mcutrain.ops.squared_difference import SquaredDifference
from mcutrain.ops.steps import StepsGradInput, StepsGradWeight
from mcutrain.ops.target_error import RealTargetError
from mcutrain.ops.training import ApplyUpdate, BiasGradient, ParameterGradientOp
from mcutrain.ops.transpose import Transpose
from mcutrain.ops.updating import AdaptedUpdate, SumRule, UpdateRule, residual_type
from mcutrain.ops.weighted_cross_entropy import WeightedCrossEntropy
from mcutrain.quant import multipliers
from mcutrain.update_rules import RULES, ChannelGradients
from tests.ops.drawing import Source

Array = npt.NDArray[Any]
Typed = tuple[TensorType, Array]

Count = Callable[[Source], int]
Lengths = Callable[[Source], Mapping[str, int]]
"""Of the axes of a product of matrices: m and n of the result, k that is summed over."""

TYPICAL_SUM_BITS = 13
"""Of a gradient sum; update rates are drawn around what moves a weight by one at this size."""


@dataclass(frozen=True, eq=False)
class Sample:
    """An operator and values for all its inputs. A sample equals itself alone."""

    op: Op
    types: tuple[TensorType, ...]
    inputs: tuple[Array, ...]

    @staticmethod
    def of(op: Op, *inputs: Typed) -> Sample:
        return Sample(op, tuple(t for t, _ in inputs), tuple(v for _, v in inputs))

    @cached_property
    def results(self) -> tuple[TensorType, ...]:
        """The types of the outputs."""
        return tuple(self.op.infer(*self.types))

    @cached_property
    def call(self) -> KernelCall:
        """The kernel call that computes the outputs."""
        return self.op.kernel(self.types, self.results)


@dataclass(frozen=True)
class Case:
    """How samples of one operator are drawn."""

    name: str
    draw: Callable[[Source], Sample]


# ---------------------------------------------------------------------------------------- values


def tensor(s: Source, shape: Sequence[int], dtype: str = "int8", limit: int | None = None) -> Typed:
    """Values over the whole range of the type, or in ±limit."""
    whole = np.iinfo(dtype)
    low, high = (int(whole.min), int(whole.max)) if limit is None else (-limit, limit)
    return TensorType(tuple(shape), dtype), s.array(shape, dtype, low, high)


def weight(s: Source, shape: Sequence[int]) -> Typed:
    return tensor(s, shape, "int8", 127)


def bias(s: Source, channels: int) -> Typed:
    return tensor(s, (channels,), "int32", 2**18)


def gradient(s: Source, shape: Sequence[int], dtype: str) -> Typed:
    return tensor(s, shape, dtype, 2 ** GRADIENT_BITS[dtype] - 1)


def step(s: Source) -> Typed:
    """Any key; learning rate 0 or normalized."""
    mult = s.choice((0, 2**30, 2**31 - 1, s.integer(2**30, 2**31 - 1), s.integer(2**30, 2**31 - 1)))
    words = [s.integer(1, 2**32 - 1), s.integer(0, 40), s.choice((0, 0, 1, 2)), mult]
    return STEP, np.array([*words, s.integer(-20, 0)], np.int64)


def exponent(s: Source, around: int = -10) -> Typed:
    """Now, and a history in which nothing may have been observed."""
    near = [s.integer(max(around - 12, -127), around + 12) for _ in range(3)]
    history = [s.choice((e, fixedpoint.NO_EXPONENT)) for e in near[1:]]
    return EXPONENT, np.array([near[0], *history], np.int8)


def factor(s: Source, low: int, high: int) -> float:
    """A real number from 2**low to 2**(high + 1)."""
    return math.ldexp(1 + s.integer(0, 2**20) / 2**20, s.integer(low, high))


def factors(s: Source, channels: int, low: int, high: int) -> tuple[float, ...]:
    """One, or one per channel; some of those may be 0, or negative as after a subtraction."""
    count = s.choice((1, channels))
    signs = (0.0, -1.0, *[1.0] * 6)
    return tuple(s.choice(signs) * factor(s, low, high) for _ in range(count))


def limits(s: Source) -> tuple[int, int]:
    """Of a clamp: none, as a ReLU has them, or any."""
    low = s.choice((-128, s.integer(-128, 20)))
    return low, s.choice((127, s.integer(low, 127)))


def requantize(s: Source, channels: int) -> Requantize:
    real = [factor(s, -16, 2) for _ in range(s.choice((1, channels)))]
    mult, shift = zip(*map(fixedpoint.quantize_multiplier, real), strict=True)
    zero_point = s.integer(-128, 127)
    return Requantize(mult, shift, zero_point, *limits(s), rounds_once=s.boolean())


def channels(s: Source) -> int:
    """Few, or more than a vector register holds."""
    return s.choice((*[s.integer(1, 5)] * 4, s.integer(6, 70)))


def gradient_dtype(s: Source) -> str:
    return s.choice(("int8", "int16"))


# -------------------------------------------------------------------------------------- geometry


@dataclass(frozen=True)
class Geometry:
    """A window and an image that it fits."""

    window: Window
    x: tuple[int, int]

    @property
    def y(self) -> tuple[int, int]:
        return self.window.output_size(*self.x)


def geometry(s: Source) -> Geometry:
    kernel = (s.integer(1, 3), s.integer(1, 3))
    dilation = (s.integer(1, 2), s.integer(1, 2))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sides = [spans[0] - 1, spans[0] - 1, spans[1] - 1, spans[1] - 1]
    padding = [s.integer(0, most) for most in sides]
    least = [max(1, spans[0] - sum(padding[:2])), max(1, spans[1] - sum(padding[2:]))]
    size = (least[0] + s.integer(0, 4), least[1] + s.integer(0, 4))
    stride = (s.integer(1, 3), s.integer(1, 3))
    top, bottom, left, right = padding
    return Geometry(Window(kernel, stride, dilation, (top, bottom, left, right)), size)


def pool_geometry(s: Source) -> Geometry:
    """Every window holds an element; one in four is of the whole image."""
    if s.integer(0, 3) == 0:
        size = (s.integer(1, 5), s.integer(1, 5))
        return Geometry(Window(size), size)
    g = geometry(s)
    held = g.window.patches(np.ones((1, *g.x, 1), np.int64), 0).sum(axis=(2, 3))
    if held.all():
        return g
    top, bottom, left, right = g.window.padding
    unpadded = replace(g.window, padding=(0, 0, 0, 0))
    return Geometry(unpadded, (g.x[0] + top + bottom, g.x[1] + left + right))


# --------------------------------------------------------------------------------------- forward


def conv_2d(s: Source, requantized: bool = True) -> Sample:
    g, ins, outs = geometry(s), channels(s), channels(s)
    stored = (requantize(s, outs), s.boolean()) if requantized else (None,)
    op = Conv2D(g.window, s.integer(-128, 127), *stored)
    w = weight(s, (outs, *g.window.kernel, ins))
    x, b = tensor(s, (1, *g.x, ins)), bias(s, outs)
    if requantized and s.boolean():
        trained, columns = split_weight(s, w)
        if s.boolean():
            resampling = op.with_resampled_columns(len(columns))
            return Sample.of(resampling, x, w, b, trained, table_of(columns))
        return Sample.of(replace(op, trained=columns), x, w, b, trained)
    return Sample.of(op, x, w, b)


def split_weight(s: Source, w: Typed) -> tuple[Typed, tuple[int, ...]]:
    """What is trained of a weight, and which columns; what it has there is not read."""
    columns = trained_channels(s, w[0].shape[-1])
    return weight(s, (*w[0].shape[:-1], len(columns))), columns


def table_of(columns: tuple[int, ...]) -> Typed:
    """As the state has it."""
    return TensorType((len(columns),), "int16"), np.array(columns, np.int16)


def depthwise(s: Source) -> Sample:
    g, ins, multiplier = geometry(s), channels(s), s.choice((1, 1, 2, 3))
    outs = ins * multiplier
    op = DepthwiseConv2D(g.window, s.integer(-128, 127), requantize(s, outs), s.boolean())
    w = weight(s, (1, *g.window.kernel, outs))
    return Sample.of(op, tensor(s, (1, *g.x, ins)), w, bias(s, outs))


def grouped(s: Source) -> tuple[int, int, int]:
    """Groups, and channels of each: of x, of y."""
    return s.integer(1, 4), s.choice((1, 2, s.integer(1, 5), 17)), s.choice((1, s.integer(1, 9)))


def grouped_conv_2d(s: Source) -> Sample:
    g, (groups, ins, outs) = geometry(s), grouped(s)
    stage = requantize(s, groups * outs)
    op = GroupedConv2D(g.window, s.integer(-128, 127), stage, s.boolean())
    w = weight(s, (groups * outs, *g.window.kernel, ins))
    return Sample.of(op, tensor(s, (1, *g.x, groups * ins)), w, bias(s, groups * outs))


def add(s: Source) -> Sample:
    """A negative multiplier subtracts."""
    shape = (1, s.integer(1, 4), s.integer(1, 4), channels(s))
    scaled = [
        Scaled(s.integer(-128, 127), *fixedpoint.quantize_multiplier(factor(s, low, high)))
        for low, high in ((-12, -1), (-12, -1), (-22, -18))
    ]
    scaled[1] = replace(scaled[1], mult_q31=scaled[1].mult_q31 * s.choice((1, 1, -1)))
    op = Add(*scaled, 20, *limits(s), s.boolean())
    return Sample.of(op, tensor(s, shape), tensor(s, shape))


def div(s: Source) -> Sample:
    """Divisors of either sign, and 0; quotients that are small, or beyond int8."""
    shape = (1, s.integer(1, 4), s.integer(1, 4), channels(s))
    zero_points = (s.choice((-128, 127, s.integer(-128, 127))) for _ in range(3))
    op = Div(*zero_points, 2.0 ** s.integer(-4, 16) * 1.3, *limits(s), s.boolean())
    return Sample.of(op, tensor(s, shape), tensor(s, shape))


def squared_difference(s: Source) -> Sample:
    """Of operands up to the largest, whose difference squared just fits."""
    shape = (1, s.integer(1, 4), s.integer(1, 4), channels(s))
    scaled = [
        Scaled(s.integer(-128, 127), *fixedpoint.quantize_multiplier(factor(s, low, high)))
        for low, high in ((-12, -1), (-12, -1), (-30, -18))
    ]
    op = SquaredDifference(*scaled, *limits(s), s.boolean())
    return Sample.of(op, tensor(s, shape), tensor(s, shape))


def per_channel(s: Source, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that holds a number for each channel of an image."""
    return s.choice(((1, 1, 1, shape[-1]), (shape[-1],)))


def add_channels(s: Source) -> Sample:
    sample = add(s)
    assert isinstance(sample.op, Add)
    shape = sample.types[0].shape
    if shape[:-1] == (1, 1, 1):
        shape = (1, 2, 1, shape[-1])
    op = AddChannels(**vars(sample.op))
    return Sample.of(op, tensor(s, shape), tensor(s, per_channel(s, shape)))


def mul(s: Source, channels_of: Count = channels) -> Sample:
    """Of equal shapes, or with a number per channel."""
    shape = (1, s.integer(1, 4), s.integer(1, 4), channels_of(s))
    mult, shift = fixedpoint.quantize_multiplier(factor(s, -16, 3))
    points = (s.integer(-128, 127), s.integer(-128, 127), s.integer(-128, 127))
    op = Mul(*points, mult, shift, *limits(s), s.boolean())
    other = shape if s.boolean() else per_channel(s, shape)
    return Sample.of(op, tensor(s, shape), tensor(s, other))


def small_matrices(s: Source) -> Mapping[str, int]:
    return {axis: s.integer(1, 5) for axis in "mn"} | {"k": s.choice((1, s.integer(1, 20)))}


def batch_matmul(s: Source, lengths_of: Lengths = small_matrices) -> Sample:
    """One matrix or several, each operand stored in either order."""
    lengths = lengths_of(s)
    before = s.choice(((1,), (1, s.integer(1, 3)), (1, 2, s.integer(1, 2))))
    mult, shift = fixedpoint.quantize_multiplier(factor(s, -16, 0))
    points = (s.integer(-128, 127), s.integer(-128, 127), s.integer(-128, 127))
    stored = (s.boolean(), s.boolean())
    op = BatchMatMul(*points, mult, shift, *stored, *limits(s), s.boolean())
    return Sample.of(op, *(tensor(s, _matrices(before, lengths, axes)) for axes in op.axes[:2]))


def _matrices(before: tuple[int, ...], lengths: Mapping[str, int], axes: str) -> tuple[int, ...]:
    return (*before, *(lengths[axis] for axis in axes))


def lookup_tables(s: Source) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """256 values, and 256 slopes."""
    table = s.array((256,), "int8", -128, 127)
    slopes = s.array((256,), "int16", -(2**15) + 1, 2**15 - 1)
    return tuple(table.tolist()), tuple(slopes.tolist())


def lookup(s: Source, channels_of: Count = channels) -> Sample:
    return Sample.of(Lookup("any", *lookup_tables(s), s.integer(-20, 5)), image(s, channels_of))


def embedding(s: Source) -> Sample:
    """Ids also beyond the table."""
    rows, width = s.integer(1, 40), channels(s)
    ids = tensor(s, (1, s.integer(1, 9)), "int16", s.choice((rows, 2**15 - 1)))
    return Sample.of(Embedding(), ids, tensor(s, (rows, width)))


def parts(s: Source) -> tuple[int, list[tuple[int, ...]]]:
    """An axis, and shapes that differ along it only."""
    axis, count = s.integer(1, 3), s.choice((2, 2, 3, MOST_INPUTS))
    shape = [1, s.integer(1, 3), s.integer(1, 3), channels(s)]
    shapes = []
    for _ in range(count):
        shape[axis] = s.integer(1, 4)
        shapes.append(tuple(shape))
    return axis, shapes


def concatenation(s: Source) -> Sample:
    axis, shapes = parts(s)
    return Sample.of(Concatenation(axis), *(tensor(s, shape) for shape in shapes))


def transpose(s: Source) -> Sample:
    """Of an activation or of a gradient."""
    rank = s.integer(2, 5)
    shape = [1, *(s.integer(1, 4) for _ in range(rank - 1))]
    perm = tuple(np.random.default_rng(s.integer(0, 999)).permutation(rank).tolist())
    return Sample.of(Transpose(perm), tensor(s, shape, gradient_dtype(s)))


def requantized_pixels(s: Source) -> tuple[int, int, int, int, int, int, bool]:
    """Two zero points, multiplier, shift, limits, and whether there is a mask."""
    mult, shift = fixedpoint.quantize_multiplier(factor(s, -8, 3))
    return s.integer(-128, 127), s.integer(-128, 127), mult, shift, *limits(s), s.boolean()


def image(s: Source, channels_of: Count = channels) -> Typed:
    return tensor(s, (1, s.integer(1, 5), s.integer(1, 5), channels_of(s)))


def rescale(s: Source) -> Sample:
    return Sample.of(Rescale(*requantized_pixels(s)), image(s))


def mean(s: Source, channels_of: Count = channels) -> Sample:
    return Sample.of(Mean(*requantized_pixels(s)), image(s, channels_of))


def image_sum(s: Source) -> Sample:
    return Sample.of(ImageSum(*requantized_pixels(s)), image(s))


def mean_sums(s: Source) -> Sample:
    return Sample.of(MeanSums(s.integer(-128, 127)), image(s))


def reshape(s: Source) -> Sample:
    a, b, c = s.integer(1, 4), s.integer(1, 4), s.integer(1, 4)
    flat = s.choice(((1, 1, 1, a * b * c), (1, a, b * c)))
    return Sample.of(Reshape(flat), tensor(s, (1, a, b, c)))


def pad(s: Source) -> Sample:
    sides = (s.integer(0, 2), s.integer(0, 2), s.integer(0, 2), s.integer(0, 2))
    return Sample.of(Pad(sides, s.integer(-128, 127)), image(s))


def pad_with_channels(s: Source) -> Sample:
    sample = pad(s)
    return replace(sample, op=replace(sample.op, channels=(s.integer(0, 3), s.integer(0, 3))))


def positions(s: Source, size: int, copies: bool) -> tuple[int, ...]:
    """Of the pixels of an axis: at the ends, near a pixel, anywhere; some read several times."""
    last, found = (size - 1) * ONE, []
    for _ in range(s.integer(1, 7)):
        near = s.integer(0, size - 1) * ONE + s.choice((0, 0, 1, -1, ONE // 4, ONE // 2))
        found.append(min(max(s.choice((near, near, s.integer(0, last))), 0), last))
    if copies:
        found = [place // ONE * ONE for place in found]
    return tuple(sorted(found))


def resize(s: Source) -> Sample:
    x, copies = image(s), s.boolean()
    axes = [positions(s, size, copies) for size in x[0].shape[1:3]]
    return Sample.of(Resize(*axes), x)


def part(s: Source) -> tuple[tuple[int, ...], Part]:
    """A shape and a part of it; each axis whole, or any places of it."""
    shape = (1, *(s.integer(1, 6) for _ in range(s.integer(1, 3))))
    places = [range(1)]
    for size in shape[1:]:
        first = s.integer(0, size - 1)
        some = range(first, s.integer(first + 1, size), s.choice((1, 1, 2, 3)))
        places.append(s.choice((range(size), some)))
    return shape, Part.of(places)


def slice_of(s: Source) -> Sample:
    shape, some = part(s)
    return Sample.of(Slice(some), tensor(s, shape))


def slice_grad_input(s: Source) -> Sample:
    shape, some = part(s)
    return Sample.of(SliceGradInput(shape, some), tensor(s, some.sizes, gradient_dtype(s)))


def pool(
    s: Source, kind: type[AveragePool2D] | type[MaxPool2D], channels_of: Count = channels
) -> Sample:
    g = pool_geometry(s)
    op = kind(g.window, *limits(s), s.boolean())
    return Sample.of(op, tensor(s, (1, *g.x, channels_of(s))))


def scaled_pool(s: Source, channels_of: Count = channels) -> Sample:
    """Multipliers as the reader makes them, which never shift to the right."""
    g = pool_geometry(s)
    area = int(np.prod(g.window.kernel))
    mult, shift = multipliers.average_multiplier(factor(s, -8, 5), 1.0, area)
    zero_points = s.integer(-128, 127), s.integer(-128, 127)
    op = ScaledAveragePool2D(g.window, *zero_points, mult, shift, *limits(s), s.boolean())
    return Sample.of(op, tensor(s, (1, *g.x, channels_of(s))))


def trained_channels(s: Source, count: int) -> tuple[int, ...]:
    """Any of them, or the first ones, which need no table."""
    return s.subset(count) if s.boolean() else tuple(range(s.integer(1, count)))


def merge_columns(s: Source) -> Sample:
    shape = (s.integer(1, 4), s.integer(1, 3), s.integer(1, 3), s.choice((s.integer(1, 5), 19)))
    trained_columns = trained_channels(s, shape[3])
    part = weight(s, (*shape[:3], len(trained_columns)))
    return Sample.of(MergeColumns(trained_columns), weight(s, shape), part)


def add_difference(s: Source) -> Sample:
    """Biases as models have them, or at both ends of what is allowed."""
    c = channels(s)
    frozen = tensor(s, (c,), "int32", s.choice((2**18, BIAS_LIMIT)))
    if s.boolean():
        frozen = frozen[0], s.choice((1, -1)) * (BIAS_LIMIT - np.abs(frozen[1]) % 2**15)
    return Sample.of(
        AddDifference(s.choice((0, 2, 5, 14))),
        (frozen[0], frozen[1].astype(np.int32)),
        tensor(s, (c,), "int16"),
    )


def select_channels(s: Source) -> Sample:
    x = image(s)
    columns = trained_channels(s, x[0].shape[-1])
    if s.boolean():
        return Sample.of(SelectChannels((), len(columns)), x, table_of(columns))
    return Sample.of(SelectChannels(columns), x)


def softmax(s: Source) -> Sample:
    """Of a few classes, or of so many alike that none has half a step of the output."""
    op = Softmax.from_scale(factor(s, -8, 1), s.choice((1.0, 0.5)))
    few, many = (s.integer(1, 12), None), (s.choice((511, 512, 700, 8_191)), s.choice((None, 0, 1)))
    classes, limit = s.choice((few, few, few, many))
    x = tensor(s, (s.integer(1, 2), classes), limit=limit)
    if s.boolean():
        return Sample.of(op, x)
    limit = s.integer(0, op.exponent_room)
    return Sample.of(op.with_input_exponent(limit), x, output_exponent(s, limit))


def rows_to_normalize(s: Source, channels_of: Count = channels) -> Typed:
    """Of any numbers, of nearly equal ones, or constant."""
    c = s.choice((1, 2, channels_of(s)))
    kind, x = tensor(s, (1, s.integer(1, 3), s.integer(1, 2), c), "int8", s.choice((None, 1, 0)))
    return kind, np.clip(x.astype(np.int16) + s.choice((0, -127, 126)), -128, 127).astype(np.int8)


def factors_of_rows(s: Source, c: int) -> Typed:
    """Of both signs and 0, all int32 or about what steps are."""
    return tensor(s, (c,), "int32", s.choice((2**31 - 1, 2**18, 1, 0)))


def epsilon(s: Source) -> tuple[int, int]:
    """Next to nothing, as usual, or more than any variance."""
    value = s.integer(1, 2**22)
    return value, s.choice((0, s.integer(0, EPSILON_LIMIT.bit_length() - 23)))


def origin(s: Source) -> int | None:
    """Of a normalization by the root mean square."""
    return s.choice((None, -128, 127, s.integer(-128, 127)))


def layer_norm(s: Source, channels_of: Count = channels) -> Sample:
    x = rows_to_normalize(s, channels_of)
    c = x[0].shape[-1]
    gamma, beta = (factors_of_rows(s, c) for _ in range(2))
    zero_point, ends = s.integer(-128, 127), limits(s)
    rest = (*epsilon(s), zero_point, *ends, s.boolean(), origin(s))
    return Sample.of(LayerNorm(*rest), x, gamma, beta)


def recurrent(s: Source, kind: type[Lstm] | type[Gru], **own: int) -> Sample:
    """Gates that saturate and some that do not, in each direction, of each step or the last."""
    n, units, steps = s.integer(1, 20), s.integer(1, 9), s.integer(1, 6)
    direction, is_last = s.choice(tuple(DIRECTIONS)), s.boolean()

    def stage(length: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        largest = 14 - math.ceil(math.log2(255 * 128 * length))
        shifts = tuple(s.integer(largest - 6, largest + 8) for _ in range(kind.gates))
        return tuple(s.integer(2**30, 2**31 - 1) for _ in shifts), shifts

    x_zero_point, y_zero_point = (s.integer(-128, 127) for _ in range(2))
    least = 5 - kind.largest_state.bit_length()
    hidden = (s.integer(2**30, 2**31 - 1), s.integer(least, least + 6))
    stages = (x_zero_point, stage(n), stage(units), hidden, y_zero_point)
    saves = s.boolean()
    op = kind(*stages, direction=direction, is_last=is_last, saves_history=saves, **own)
    ways = len(DIRECTIONS[direction])
    weights = (tensor(s, (ways * kind.gates * units, width)) for width in (n, units))
    lengths = (ways * kind.gates * units, *((ways * units,) if kind.has_h_bias else ()))
    biases = (tensor(s, (length,), "int32", 2**16) for length in lengths)
    shape = s.choice(((1, steps, n), (steps, 1, n)))
    return Sample.of(op, tensor(s, shape), *weights, *biases)


def lstm(s: Source) -> Sample:
    """States with each number of integer bits."""
    limit = s.choice((2**15, 2**15 - 1, 20000, 1))
    return recurrent(s, Lstm, cell_integer_bits=s.integer(0, 6), cell_limit=limit)


def _half(kind: TensorType, value: Array) -> Typed:
    """The rows of the first direction of two."""
    value = value[: len(value) // 2]
    return replace(kind, shape=value.shape), value


def gates_gradient(s: Source, draw: Callable[[Source], Sample]) -> Sample:
    """Of states and outputs that no layer need have given."""
    sample = draw(s)
    op = sample.op
    assert isinstance(op, Recurrent)
    x, w, u, *biases = zip(sample.types, sample.inputs, strict=True)
    if op.direction == "bidirectional":
        op = replace(op, direction="reverse")
        w, u, *biases = (_half(*one) for one in (w, u, *biases))
    units, n = u[0].shape[-1], x[0].shape[-1]
    op = replace(op, saves_history=False)
    each = (x[0].elements // n, units)
    own = (x, w, u, *biases, tensor(s, each, "int16"), tensor(s, each))
    shape, dy = (
        (*x[0].shape[:-1], op.gates * units),
        op.infer(*(t for t, _ in (x, w, u, *biases)))[0],
    )
    of_h = s.boolean() and op.parts_differ

    def made(st: OutputStage) -> Op:
        return op.gates_gradient(st, shape, op, of_h)

    return backward(s, shape, dy.shape, made, *own)


def output_exponent(s: Source, limit: int) -> Typed:
    """As training leaves it, or as no training would: below 0, or above the limit."""
    now = s.choice((s.integer(-5, 8), limit, limit + 1, limit + 5, 127))
    return EXPONENT, np.array([now, s.choice((0, -5)), s.choice((0, 3))], np.int8)


def scale_sums(s: Source) -> Sample:
    """Sums that clip at exponent 0, and some that do not fill the range."""
    c = channels(s)
    stage = requantize(s, c)
    limit = s.choice((0, 1, 2, s.integer(0, 15)))
    limit = min(limit, min(stage.shift) + 31)
    sums = tensor(s, (1, s.integer(1, 2), 1, c), "int32", 2 ** s.integer(4, 24))
    return Sample.of(ScaleSums(stage, limit), sums, output_exponent(s, limit))


# -------------------------------------------------------------------------------------- gradients


def stage(s: Source, channels: int, dtype: str) -> OutputStage:
    return OutputStage(factors(s, channels, -12, 2), s.boolean(), dtype, s.integer(1, 99))


def masks(s: Source, of: OutputStage, shape: Sequence[int]) -> tuple[Typed, ...]:
    """The clamp mask, if the stage has one."""
    size = (math.prod(shape) + 7) // 8
    return (tensor(s, (size,), "uint8"),) if of.masked else ()


def backward(
    s: Source,
    shape: tuple[int, ...],
    dy_shape: tuple[int, ...],
    make: Callable[[OutputStage], Op],
    *own: Typed,
) -> Sample:
    """A GradientOp: dx has `shape`, dy has `dy_shape`. It may add another gradient."""
    dtype = gradient_dtype(s)
    st = stage(s, shape[-1], dtype)
    e = s.integer(-30, 5)
    dy = (gradient(s, dy_shape, dtype), exponent(s, e))
    op, addend = make(st), ()
    if getattr(op, "may_add", False) and s.boolean():
        st = replace(st, addend_scale=factors(s, shape[-1], -4, 10))
        op, addend = make(st), (gradient(s, shape, dtype), exponent(s, e))
    return Sample.of(op, step(s), *dy, *own, *addend, *masks(s, st, shape), exponent(s, e + 6))


def conv_2d_grad_input(s: Source) -> Sample:
    g, ins, outs = geometry(s), channels(s), channels(s)
    x, y = (1, *g.x, ins), (1, *g.y, outs)
    w = weight(s, (outs, *g.window.kernel, ins))
    own: tuple[Typed, ...] = (w,)
    columns: tuple[int, ...] = ()
    resampled = 0
    if s.boolean():
        trained, columns = split_weight(s, w)
        own = (w, trained)
        if s.boolean():
            own, columns, resampled = (*own, table_of(columns)), (), len(columns)
    return backward(s, x, y, lambda st: Conv2DGradInput(st, x, g.window, columns, resampled), *own)


def steps_grad_input(s: Source) -> Sample:
    steps, rows, columns = s.integer(1, 9), channels(s), channels(s)
    x, dz = (1, steps, columns), (1, steps, rows)
    return backward(s, x, dz, lambda st: StepsGradInput(st, x), weight(s, (rows, columns)))


def depthwise_grad_input(s: Source) -> Sample:
    g, ins, multiplier = geometry(s), channels(s), s.choice((1, 1, 2, 3))
    x, y = (1, *g.x, ins), (1, *g.y, ins * multiplier)
    w = weight(s, (1, *g.window.kernel, ins * multiplier))
    return backward(s, x, y, lambda st: DepthwiseConv2DGradInput(st, x, g.window), w)


def grouped_grad_input(s: Source) -> Sample:
    g, (groups, ins, outs) = geometry(s), grouped(s)
    x, y = (1, *g.x, groups * ins), (1, *g.y, groups * outs)
    w = weight(s, (groups * outs, *g.window.kernel, ins))
    return backward(s, x, y, lambda st: GroupedConv2DGradInput(st, x, g.window), w)


def leaky_relu(s: Source) -> Sample:
    x_zero_point, y_zero_point, mult, shift, *rest = requantized_pixels(s)
    negative = fixedpoint.quantize_multiplier(factor(s, -12, 0))
    return Sample.of(
        LeakyRelu(x_zero_point, y_zero_point, (mult, shift), negative, *rest), image(s)
    )


def leaky_relu_grad_input(s: Source) -> Sample:
    x = image(s)
    zero_point, slope = s.integer(-128, 127), s.integer(-(2**16), 2**16)
    shape = x[0].shape
    return backward(s, shape, shape, lambda st: LeakyReluGradInput(st, shape, zero_point, slope), x)


def pad_grad_input(s: Source) -> Sample:
    sample = s.choice((pad, pad_with_channels))(s)
    assert isinstance(sample.op, Pad)
    (x,), (y,) = sample.types, sample.op.infer(*sample.types)
    sides = (sample.op.padding, sample.op.channels[0])
    return backward(s, x.shape, y.shape, lambda st: PadGradInput(st, x.shape, *sides))


def resize_grad_input(s: Source) -> Sample:
    """As `Resize.gradient` has them."""
    sample = resize(s)
    assert isinstance(sample.op, Resize)
    (x,), (y,) = sample.types, sample.op.infer(*sample.types)
    axes = (sample.op.rows_at, sample.op.columns_at)
    rows, columns = (summable(at, size) for at, size in zip(axes, x.shape[1:3], strict=True))
    return backward(s, x.shape, y.shape, lambda st: ResizeGradInput(st, x.shape, rows, columns))


def add_channels_grad_input(s: Source) -> Sample:
    y = (1, s.integer(1, 4), s.integer(2, 4), channels(s))
    b = per_channel(s, y)
    return backward(s, b, y, lambda st: AddChannelsGradInput(st, b))


def lookup_grad_input(s: Source, channels_of: Count = channels) -> Sample:
    x, (_, slopes) = image(s, channels_of), lookup_tables(s)
    shape = x[0].shape
    return backward(s, shape, shape, lambda st: LookupGradInput(st, shape, slopes), x)


def mul_grad_input(s: Source, channels_of: Count = channels) -> Sample:
    """Of either operand."""
    y, zero_point = (1, s.integer(1, 4), s.integer(2, 4), channels_of(s)), s.integer(-128, 127)
    narrow = s.choice((y, per_channel(s, y)))
    x, other = (y, narrow) if s.boolean() else (narrow, y)
    return backward(s, x, y, lambda st: MulGradInput(st, x, zero_point), tensor(s, other))


def softmax_grad_input(s: Source) -> Sample:
    """Of rows that are alike and of one that leaves nothing to the others."""
    shape = (1, s.integer(1, 3), s.integer(1, 4), channels(s))
    op = Softmax.from_scale(factor(s, -8, 1), s.choice((1.0, 0.5)))
    x = tensor(s, shape, limit=s.choice((127, 5, 0)))
    return backward(s, shape, shape, lambda st: SoftmaxGradInput(st, shape, op), x)


def batch_matmul_grad_input(s: Source, lengths_of: Lengths = small_matrices) -> Sample:
    """Of either operand."""
    sample = batch_matmul(s, lengths_of)
    assert isinstance(sample.op, BatchMatMul)
    (y, *_), place = sample.op.infer(*sample.types), s.integer(0, 1)
    x, axes = sample.types[place].shape, (sample.op.axes[place], sample.op.axes[1 - place])
    other, z = tensor(s, sample.types[1 - place].shape), s.integer(-128, 127)
    return backward(s, x, y.shape, lambda st: BatchMatMulGradInput(st, x, *axes, z), other)


def layer_norm_grad_input(s: Source, channels_of: Count = channels) -> Sample:
    x = rows_to_normalize(s, channels_of)
    gamma = factors_of_rows(s, x[0].shape[-1])
    of = (s.choice((TRAINED_SHIFT, shift_of(gamma[1]))), *epsilon(s), origin(s))
    return backward(
        s, x[0].shape, x[0].shape, lambda st: LayerNormGradInput(st, x[0].shape, *of), x, gamma
    )


def layer_norm_grad_gamma(
    s: Source, is_whole: bool = True, channels_of: Count = channels
) -> Sample:
    """is_whole: the state holds gamma, not its difference."""
    x = rows_to_normalize(s, channels_of)
    c, of = x[0].shape[-1], (*epsilon(s), origin(s))
    gamma = factors_of_rows(s, c) if is_whole else difference(s, c)
    return trained(s, lambda r: LayerNormGradGamma(r, (c,), *of), (x,), x[0].shape, gamma, 1)


def concatenation_grad_input(s: Source) -> Sample:
    axis, shapes = parts(s)
    (y,) = Concatenation(axis).infer(*map(TensorType, shapes))
    place = s.integer(0, len(shapes) - 1)
    first = sum(shape[axis] for shape in shapes[:place])
    x = shapes[place]
    return backward(s, x, y.shape, lambda st: ConcatenationGradInput(st, x, axis, first))


def average_pool_grad_input(s: Source, channels_of: Count = channels) -> Sample:
    g, c = pool_geometry(s), channels_of(s)
    x, y = (1, *g.x, c), (1, *g.y, c)
    counts = AveragePool2D(g.window).counts(x)
    common = math.lcm(*np.unique(counts).tolist())
    return backward(s, x, y, lambda st: AveragePool2DGradInput(st, x, g.window, common))


def max_pool_grad_input(s: Source, channels_of: Count = channels) -> Sample:
    g, c = pool_geometry(s), channels_of(s)
    x, y = (1, *g.x, c), (1, *g.y, c)
    values = tensor(s, x)
    return backward(s, x, y, lambda st: MaxPool2DGradInput(st, x, g.window), values)


def gradient_sum(s: Source, terms: int, channels_of: Count = channels) -> Sample:
    dtype = gradient_dtype(s)
    shape = (1, s.integer(1, 4), s.integer(1, 4), channels_of(s))
    st = stage(s, shape[-1], dtype)
    op = GradientSum(st, shape, tuple(factor(s, -4, 4) for _ in range(terms)))
    e = s.integer(-30, 5)
    read = [v for _ in range(terms) for v in (gradient(s, shape, dtype), exponent(s, e))]
    return Sample.of(op, step(s), *read, *masks(s, st, shape), exponent(s, e + 3))


def softmax_cross_entropy(s: Source) -> Sample:
    """Logits from all alike to one that leaves nothing to the others."""
    classes = s.integer(2, 12)
    scale = tuple(factor(s, -18, -8) for _ in range(s.choice((1, classes))))
    op = SoftmaxCrossEntropy(scale, gradient_dtype(s), s.boolean(), s.integer(1, 99))
    sums = tensor(s, (1, 1, 1, classes), "int32", 2 ** s.integer(4, 22))
    label = TensorType((1,), "int32"), np.array([s.integer(0, classes - 1)], np.int32)
    read = (step(s), sums, label, exponent(s))
    if s.boolean():
        return Sample.of(op, *read)
    reach = OutputRange(s.integer(1, 2**22), s.integer(0, 2**22), s.integer(1, 15))
    return Sample.of(op.followed_by(reach), *read, output_exponent(s, reach.exponent_limit))


def binary_cross_entropy(s: Source) -> Sample:
    """Of logits from 0 to one beyond which a sigmoid is 0 or 1."""
    op = BinaryCrossEntropy((factor(s, -18, -8),), gradient_dtype(s), s.boolean(), s.integer(1, 99))
    sums = tensor(s, (1, 1, 1, 1), "int32", 2 ** s.integer(0, 30))
    label = TensorType((1,), "int32"), np.array([s.integer(0, 1)], np.int32)
    return Sample.of(op, step(s), sums, label, exponent(s))


def position_cross_entropy(s: Source) -> Sample:
    """Images and sequences; some positions ignored, sometimes all or none."""
    classes, positions = s.integer(2, 7), (1, s.integer(1, 4), s.integer(1, 4))
    scale = tuple(factor(s, -18, -8) for _ in range(s.choice((1, classes))))
    made = PositionCrossEntropy.of(positions)
    op = made(scale, gradient_dtype(s), s.boolean(), s.integer(1, 99))
    sums = tensor(s, (*positions, classes), "int32", 2 ** s.integer(4, 22))
    labels = s.array(positions, "uint8", 0, classes - 1)
    labels[s.array(positions, "uint8", 0, 3) == 0] = IGNORED
    read = (step(s), sums, (op.label_type, labels), exponent(s))
    if s.boolean():
        return Sample.of(op, *read)
    reach = OutputRange(s.integer(1, 2**22), s.integer(0, 2**22), s.integer(1, 15))
    return Sample.of(op.followed_by(reach), *read, output_exponent(s, reach.exponent_limit))


def sigmoid_cross_entropy(s: Source) -> Sample:
    """Of labels of a sample or of positions, some ignored; also with weights and smoothing."""
    channels, positions = s.integer(1, 7), s.integer(1, 6)
    shape = s.choice(((channels * positions,), (positions, channels)))
    scale = tuple(factor(s, -18, -8) for _ in range(s.choice((1, channels))))
    weights = tuple(factor(s, -6, 6) for _ in range(s.choice((0, 2 * channels))))
    made = SigmoidCrossEntropy.of(shape, channels, weights, s.choice((0.0, 0.1, 1.0)))
    op = made(scale, gradient_dtype(s), s.boolean(), s.integer(1, 99))
    sums = tensor(s, (1, 1, positions, channels), "int32", 2 ** s.integer(0, 30))
    labels = s.array(op.label_type.shape, "uint8", 0, 1)
    labels[s.array(op.label_type.shape, "uint8", 0, 3) == 0] = IGNORED
    return Sample.of(op, step(s), sums, (op.label_type, labels), exponent(s))


def weighted_cross_entropy(s: Source) -> Sample:
    """Of classes or a pair; with weights, smoothing, both or none."""
    pair = s.boolean()
    sums_count = 1 if pair else s.integer(2, 12)
    count = sums_count + pair
    scale = tuple(factor(s, -18, -8) for _ in range(s.choice((1, sums_count))))
    weights = tuple(factor(s, -6, 6) for _ in range(s.choice((0, count))))
    made = WeightedCrossEntropy.of(weights, s.choice((0.0, 0.1, 1.0)), pair)
    op = made(scale, gradient_dtype(s), s.boolean(), s.integer(1, 99))
    sums = tensor(s, (1, 1, 1, sums_count), "int32", 2 ** s.integer(4, 30))
    label = TensorType((1,), "int32"), np.array([s.integer(0, count - 1)], np.int32)
    read = (step(s), sums, label, exponent(s))
    if pair or s.boolean():
        return Sample.of(op, *read)
    reach = OutputRange(s.integer(1, 2**22), s.integer(0, 2**22), s.integer(1, 15))
    return Sample.of(op.followed_by(reach), *read, output_exponent(s, reach.exponent_limit))


def distilled_cross_entropy(s: Source) -> Sample:
    """A teacher that agrees, or says anything; some classes that it does not know."""
    count = s.integer(1, 12)
    scale = tuple(factor(s, -18, -8) for _ in range(s.choice((1, count))))
    made = DistilledCrossEntropy.of(s.choice((0.0, 0.3, 0.9, 1.0)), s.integer(1, count))
    op = made(scale, gradient_dtype(s), s.boolean(), s.integer(1, 99))
    sums = tensor(s, (1, 1, 1, count), "int32", 2 ** s.integer(4, 30))
    taught = sums if s.boolean() else tensor(s, (1, 1, 1, count), "int32", 2 ** s.integer(4, 30))
    label = TensorType((1,), "int32"), np.array([s.integer(0, count - 1)], np.int32)
    read = (step(s), sums, label, exponent(s))
    if s.boolean():
        return Sample.of(op, *read, taught)
    reach = OutputRange(s.integer(1, 2**22), s.integer(0, 2**22), s.integer(1, 15))
    followed = output_exponent(s, reach.exponent_limit)
    return Sample.of(op.followed_by(reach), *read, followed, taught)


def mean_squared_error(s: Source) -> Sample:
    """Errors from below a step of the input to far beyond its range; maps and flat outputs."""
    c = s.integer(1, 9)
    shape = (1, s.integer(1, 3), s.integer(1, 3), c) if s.boolean() else (1, 1, 1, c)
    x_shape = s.choice((shape, (1, int(np.prod(shape)))))
    scale = tuple(factor(s, -18, -8) for _ in range(s.choice((1, c))))
    x_type = TensorType(x_shape, "int8", (factor(s, -9, 3),), s.integer(-128, 127))
    made = s.choice((MeanSquaredError.of, MeanSquaredError.to))(x_type)
    op = made(scale, gradient_dtype(s), s.boolean(), s.integer(1, 99))
    sums = tensor(s, shape, "int32", 2 ** s.integer(4, 22))
    return Sample.of(op, step(s), sums, tensor(s, x_shape), exponent(s))


def target_error(s: Source) -> Sample:
    """Targets as near as a fraction of a step and as far as int16 reaches, by all three losses."""
    c = s.integer(1, 9)
    y = TensorType((1, c), "int8", (factor(s, -9, 3),), s.integer(-128, 127))
    scale = tuple(factor(s, -18, -8) for _ in range(s.choice((1, c))))
    made = RealTargetError.of(y, s.choice(("squared", "huber", "absolute")))
    op = made(scale, gradient_dtype(s), s.boolean(), s.integer(1, 99))
    sums = tensor(s, (1, 1, 1, c), "int32", 2 ** s.integer(4, 22))
    target = tensor(s, (1, c), "int16", 2 ** s.integer(2, 15) - 1)
    return Sample.of(op, step(s), sums, target, exponent(s))


def output_row(s: Source) -> Sample:
    """Outputs of any shapes."""
    shapes = [(1, s.integer(1, 3), s.integer(1, 5)) for _ in range(s.integer(2, MOST_OUTPUTS))]
    return Sample.of(OutputRow(1), *(tensor(s, shape) for shape in shapes))


def label_part(s: Source) -> Sample:
    """Some of a row, also where they do not fit the type."""
    count, rest = s.integer(1, 9), s.integer(0, 9)
    op = LabelPart(s.integer(0, rest), (1, count), s.choice(("int16", "int32", "uint8")))
    return Sample.of(op, tensor(s, (1, count + rest), "int16", 2 ** s.integer(2, 15) - 1))


def loss_sum(s: Source) -> Sample:
    """Weights from hardly any to the most, sums that are cut, with a prediction and without."""
    count = s.integer(1, MOST_OUTPUTS)
    weights = tuple(s.choice((1.0, 1e-7, MOST_WEIGHT, factor(s, -12, 5))) for _ in range(count))
    read = [one(s) for _ in range(count) for one in (any_loss,) * 2]
    return Sample.of(LossSum(weights, s.integer(-1, count - 1)), *read)


def any_loss(s: Source) -> Typed:
    """A loss in Q16, or a class."""
    largest = 2 ** s.integer(1, 31) - 1
    return TensorType((1,), "int32"), s.array((1,), "int32", 0, largest)


# ---------------------------------------------------------------------------------------- updates


def rule(
    s: Source, channels: int, at: Array, dy_exponent: int, dtype: str, bits: int
) -> UpdateRule:
    """A rate that moves a weight by less than its last bit, by some bits, or beyond its limits."""
    centre = -TYPICAL_SUM_BITS - dy_exponent - ACC_DROPPED_BITS[dtype] - int(at[4]) + bits
    return UpdateRule(factors(s, channels, centre - 6, centre + 9), bits, s.integer(1, 99))


def slots(s: Source, op: ParameterGradientOp | ApplyUpdate, shape: Sequence[int]) -> list[Typed]:
    """What a rule keeps after some updates, by sums of any size and exponents far apart."""
    if not isinstance(op.rule, AdaptedUpdate):
        return []
    rule = op.rule.by
    channels = shape[op.rate_axis]
    count = math.prod(shape) // channels
    values = tuple(slot.value for slot in rule.slots(channels, count))
    index = np.arange(channels * count)
    rows = index.reshape(channels, count) if op.rate_axis == 0 else index.reshape(count, channels).T
    around = s.integer(-40, 10)
    for update in range(s.choice((0, 1, 1, 3))):
        largest = 2 ** s.integer(1, 31) - 1
        sums = s.array((channels, count), "int32", -largest, largest).astype(np.int64)
        e, key = around + s.integer(-30, 30), s.integer(0, 2**32 - 1)
        values = rule.direct(ChannelGradients(sums, e, rows, key, update), values)[1]
    return [(TensorType(v.shape, str(v.dtype)), v) for v in values]


def with_any_rule(s: Source, r: UpdateRule, dtype: str) -> UpdateRule:
    """SGD, or another rule, of int8 gradients."""
    rule = s.choice((None, *RULES.values()))
    if dtype != "int8" or rule is None:
        return r
    return AdaptedUpdate(r.rate, r.residual_bits, r.salt, rule)


def residual(s: Source, weights: int, bits: int) -> tuple[Typed, ...]:
    """Of so many weights. What is left of the last byte stays 0."""
    if bits <= 0:
        return ()
    packed_type = residual_type(weights, bits)
    packed = s.array(packed_type.shape, "uint8", 0, 255)
    packed[-1] &= 255 >> (-weights * bits % 8)
    return ((packed_type, packed),)


def trained(
    s: Source,
    make: Callable[[UpdateRule | None], Op],
    own: tuple[Typed, ...],
    dy_shape: tuple[int, ...],
    parameter: Typed,
    rates: int,
) -> Sample:
    """A ParameterGradientOp that updates, or one that accumulates. rates: how many at most."""
    dtype, shape, at = gradient_dtype(s), parameter[0].shape, step(s)
    dy = gradient(s, dy_shape, dtype)
    if s.boolean():
        op = make(None)
        if dtype == "int16":
            op = replace(op, sum_rule=SumRule(s.integer(0, 8), s.integer(1, 99)))
        return Sample.of(op, at, dy, *own, tensor(s, shape, "int32"))
    dy_exponent = exponent(s, s.integer(-30, 5))
    bits = {"int8": (0, 2, 4, 8), "int16": (0, -2, -5), "int32": (0,)}[parameter[0].dtype]
    bits = s.choice(bits)
    r = rule(s, rates, at[1], int(dy_exponent[1][0]), dtype, bits)
    left = residual(s, math.prod(shape), bits)
    op = make(with_any_rule(s, r, dtype))
    assert isinstance(op, ParameterGradientOp)
    kept = slots(s, op, op.trained)
    return Sample.of(op, at, dy, dy_exponent, *own, parameter, *left, *kept)


def conv_2d_weight(s: Source) -> Sample:
    g, ins, outs, zero_point = geometry(s), channels(s), channels(s), s.integer(-128, 127)
    shape = (outs, *g.window.kernel, ins)
    return trained(
        s,
        lambda r: Conv2DGradWeight(r, shape, g.window, zero_point),
        (tensor(s, (1, *g.x, ins)),),
        (1, *g.y, outs),
        weight(s, shape),
        outs,
    )


def steps_weight(s: Source) -> Sample:
    """Of inputs of the same step, of the one before or behind."""
    steps, rows, columns = s.integer(1, 9), channels(s), channels(s)
    zero_point, delay = s.integer(-128, 127), s.choice((0, 1, -1))
    shape = (rows, columns)
    return trained(
        s,
        lambda r: StepsGradWeight(r, shape, zero_point, delay),
        (tensor(s, (1, steps, columns)),),
        (1, steps, rows),
        weight(s, shape),
        rows,
    )


def grouped_weight(s: Source) -> Sample:
    g, (groups, ins, outs) = geometry(s), grouped(s)
    zero_point = s.integer(-128, 127)
    shape = (groups * outs, *g.window.kernel, ins)
    return trained(
        s,
        lambda r: GroupedConv2DGradWeight(r, shape, g.window, zero_point),
        (tensor(s, (1, *g.x, groups * ins)),),
        (1, *g.y, groups * outs),
        weight(s, shape),
        groups * outs,
    )


def depthwise_weight(s: Source) -> Sample:
    """All channels, or a table of trained ones with the input channels that they need."""
    g, ins, multiplier = geometry(s), channels(s), s.choice((1, 1, 2, 3))
    outs, zero_point = ins * multiplier, s.integer(-128, 127)
    picks = trained_channels(s, outs) if s.boolean() else None
    picked = range(outs) if picks is None else picks
    saved = sorted({c // multiplier for c in picked})
    columns = tuple(saved.index(c // multiplier) for c in picked)
    shape = (1, *g.window.kernel, len(columns))
    return trained(
        s,
        lambda r: DepthwiseConv2DGradWeight(r, shape, g.window, zero_point, columns, picks),
        (tensor(s, (1, *g.x, len(saved))),),
        (1, *g.y, outs),
        weight(s, shape),
        len(columns),
    )


def bias_gradient(s: Source, is_whole: bool = True) -> Sample:
    """is_whole: the state holds the bias, not its difference."""
    c = channels(s)
    shape = (1, s.integer(1, 4), s.integer(1, 4), c)
    whole = tensor(s, (c,), "int32", s.choice((None, 2**16)))
    b = whole if is_whole else difference(s, c)
    return trained(s, lambda r: BiasGradient(r, (c,)), (), shape, b, c)


def difference(s: Source, channels: int) -> Typed:
    """Of a bias: small, or near one of its ends."""
    near = s.choice((0, 0, 2**15 - 300, -(2**15) + 300))
    t, small = tensor(s, (channels,), "int16", 300)
    return t, np.clip(small.astype(np.int32) + near, -(2**15), 2**15 - 1).astype(np.int16)


def apply_update(s: Source, kind: str) -> Sample:
    """kind: what the accumulated gradient belongs to."""
    dtype, at, e = gradient_dtype(s), step(s), exponent(s, s.integer(-30, 5))
    kernel, ins = (s.integer(1, 3), s.integer(1, 3)), s.integer(1, 5)
    outs = s.integer(1, 5) if kind == "conv" else 1
    shape = (ins,) if kind in ("bias", "difference") else (outs, *kernel, ins)
    parameter, bits = weight(s, shape), s.choice((0, 2, 4, 8))
    if kind == "bias":
        parameter, bits = tensor(s, shape, "int32"), 0
    elif kind == "difference":
        parameter, bits = difference(s, ins), s.choice((0, -2, -5))
    r = rule(s, outs if kind == "conv" else ins, at[1], int(e[1][0]), dtype, bits)
    r = with_any_rule(s, r, dtype)
    op = ApplyUpdate(r, dtype, -1 if kind == "depthwise" else 0)
    sums = tensor(s, shape, "int32", s.choice((None, 2 ** (TYPICAL_SUM_BITS + 1))))
    left = residual(s, math.prod(shape), bits)
    return Sample.of(op, at, sums, e, parameter, *left, *slots(s, op, shape))


def widened(draw: Callable[[Source], Sample]) -> Callable[[Source], Sample]:
    """The same with sums in int64, where there are any: of int8 gradients, or forward."""

    def drawn(s: Source) -> Sample:
        sample = draw(s)
        is_wide = any(t.dtype == "int16" for t in sample.types)
        wide = None if is_wide else sample.op.with_wide_sums()
        return sample if wide is None else replace(sample, op=wide)

    return drawn


# -------------------------------------------------------------------------------------- operators

CASES = (
    Case("conv_2d", conv_2d),
    Case("conv_2d_sums", lambda s: conv_2d(s, requantized=False)),
    Case("conv_2d_grad_input", conv_2d_grad_input),
    Case("conv_2d_weight", conv_2d_weight),
    Case("depthwise_conv_2d", depthwise),
    Case("depthwise_conv_2d_grad_input", depthwise_grad_input),
    Case("depthwise_conv_2d_weight", depthwise_weight),
    Case("grouped_conv_2d", grouped_conv_2d),
    Case("grouped_conv_2d_grad_input", grouped_grad_input),
    Case("grouped_conv_2d_weight", grouped_weight),
    Case("bias", bias_gradient),
    Case("bias_difference", lambda s: bias_gradient(s, is_whole=False)),
    Case("apply_update_conv", lambda s: apply_update(s, "conv")),
    Case("apply_update_depthwise", lambda s: apply_update(s, "depthwise")),
    Case("apply_update_bias", lambda s: apply_update(s, "bias")),
    Case("apply_update_difference", lambda s: apply_update(s, "difference")),
    Case("add_difference", add_difference),
    Case("add", add),
    Case("rescale", rescale),
    Case("leaky_relu", leaky_relu),
    Case("leaky_relu_grad_input", leaky_relu_grad_input),
    Case("lstm", lstm),
    Case("gru", lambda s: recurrent(s, Gru)),
    Case("lstm_grad_gates", lambda s: gates_gradient(s, lstm)),
    Case("gru_grad_gates", lambda s: gates_gradient(s, lambda s: recurrent(s, Gru))),
    Case("steps_grad_input", steps_grad_input),
    Case("steps_weight", steps_weight),
    Case("layer_norm", layer_norm),
    Case("layer_norm_grad_input", layer_norm_grad_input),
    Case("layer_norm_gamma", layer_norm_grad_gamma),
    Case("layer_norm_gamma_difference", lambda s: layer_norm_grad_gamma(s, is_whole=False)),
    Case("lookup", lookup),
    Case("embedding", embedding),
    Case("lookup_grad_input", lookup_grad_input),
    Case("mul", mul),
    Case("squared_difference", squared_difference),
    Case("div", div),
    Case("mul_grad_input", mul_grad_input),
    Case("softmax_grad_input", softmax_grad_input),
    Case("batch_matmul", batch_matmul),
    Case("batch_matmul_grad_input", batch_matmul_grad_input),
    Case("add_channels", add_channels),
    Case("add_channels_grad_input", add_channels_grad_input),
    Case("concatenation", concatenation),
    Case("concatenation_grad_input", concatenation_grad_input),
    Case("transpose", transpose),
    Case("mean", mean),
    Case("image_sum", image_sum),
    Case("mean_sums", mean_sums),
    Case("reshape", reshape),
    Case("pad", pad),
    Case("pad_with_channels", pad_with_channels),
    Case("pad_grad_input", pad_grad_input),
    Case("average_pool_2d", lambda s: pool(s, AveragePool2D)),
    Case("scaled_average_pool_2d", scaled_pool),
    Case("average_pool_2d_grad_input", average_pool_grad_input),
    Case("max_pool_2d", lambda s: pool(s, MaxPool2D)),
    Case("max_pool_2d_grad_input", max_pool_grad_input),
    Case("resize", resize),
    Case("resize_grad_input", resize_grad_input),
    Case("slice", slice_of),
    Case("slice_grad_input", slice_grad_input),
    Case("merge_columns", merge_columns),
    Case("select_channels", select_channels),
    Case("scale_sums", scale_sums),
    Case("softmax", softmax),
    Case("softmax_cross_entropy", softmax_cross_entropy),
    Case("binary_cross_entropy", binary_cross_entropy),
    Case("position_cross_entropy", position_cross_entropy),
    Case("sigmoid_cross_entropy", sigmoid_cross_entropy),
    Case("weighted_cross_entropy", weighted_cross_entropy),
    Case("distilled_cross_entropy", distilled_cross_entropy),
    Case("mean_squared_error", mean_squared_error),
    Case("target_error", target_error),
    Case("output_row", output_row),
    Case("label_part", label_part),
    Case("loss_sum", loss_sum),
    Case("gradient_rescale", lambda s: gradient_sum(s, 1)),
    Case("gradient_add", lambda s: gradient_sum(s, 2)),
    Case("conv_2d_wide", widened(conv_2d)),
    Case("conv_2d_sums_wide", widened(lambda s: conv_2d(s, requantized=False))),
    Case("conv_2d_weight_wide", widened(conv_2d_weight)),
    Case("depthwise_conv_2d_wide", widened(depthwise)),
    Case("depthwise_conv_2d_weight_wide", widened(depthwise_weight)),
    Case("grouped_conv_2d_wide", widened(grouped_conv_2d)),
    Case("grouped_conv_2d_weight_wide", widened(grouped_weight)),
    Case("mul_grad_channels_wide", widened(mul_grad_input)),
    Case("batch_matmul_grad_input_wide", widened(batch_matmul_grad_input)),
)
