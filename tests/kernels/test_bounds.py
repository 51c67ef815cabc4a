"""Sums at their limits: what operators say of them is true for every body, on both sides.

Sizes are the largest whose bounds hold, and one more; values are those that make sums largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import starmap
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from mcutrain.errors import UnsupportedError
from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.ir.fit import fit_sums
from mcutrain.ir.graph import Node, Tensor, TensorType
from mcutrain.ir.op import INT32_MAX, Bound, Op
from mcutrain.ops.add import Add, Scaled
from mcutrain.ops.add_channels import AddChannelsGradInput
from mcutrain.ops.batch_matmul import BatchMatMul, BatchMatMulGradInput
from mcutrain.ops.bounds import BIAS_LIMIT
from mcutrain.ops.conv_2d import Conv2D, Conv2DGradInput, Conv2DGradWeight, Requantize
from mcutrain.ops.depthwise_conv_2d import (
    DepthwiseConv2D,
    DepthwiseConv2DGradInput,
    DepthwiseConv2DGradWeight,
)
from mcutrain.ops.gradient_sum import GradientSum
from mcutrain.ops.gradients import EXPONENT, STEP, OutputStage, fitted_sums
from mcutrain.ops.layer_norm import (
    EPSILON_LIMIT,
    LayerNorm,
    LayerNormGradGamma,
    LayerNormGradInput,
)
from mcutrain.ops.leaky_relu import LeakyRelu, LeakyReluGradInput
from mcutrain.ops.mul import Mul, MulGradInput
from mcutrain.ops.pooling import AveragePool2D, AveragePool2DGradInput, MaxPool2DGradInput, Mean
from mcutrain.ops.rescale import Rescale
from mcutrain.ops.softmax import Softmax, SoftmaxGradInput
from mcutrain.ops.spatial import Window
from mcutrain.ops.training import BiasGradient, ParameterGradientOp
from mcutrain.ops.updating import SumRule, UpdateRule
from mcutrain.simulation.build import SANITIZE
from mcutrain.target import PLAIN, PORTABLE
from tests.ops.c_harness import (
    FIRMWARE,
    HARNESS,
    Toolchain,
    body_of,
    expected,
    kernel_call,
    shared_sources,
)
from tests.ops.cases import Sample

Array = npt.NDArray[np.generic]
Make = Callable[[int, int], Sample]
"""Of a size, and +1 or -1 for the sign of the sums."""

POINT = Window((1, 1))
HALVED = Requantize((2**30,), (-22,), 3)
"""Multiplies sums up to 2^31 so that they do not clamp."""
MUCH = 100_000
"""A fan-in, or places of an image, far beyond."""


def constant(shape: Sequence[int], value: int, dtype: str = "int8") -> tuple[TensorType, Array]:
    return TensorType(tuple(shape), dtype), np.full(shape, value, dtype)


def difference(sign: int) -> tuple[int, int]:
    """A value and a zero point that are 255 apart."""
    return (127, -128) if sign > 0 else (-128, 127)


def forward(size: int, sign: int, make: Callable[[int], Op], shape: Callable, bias: int) -> Sample:
    """Two output channels: the largest sum with the bias, and the most negative one."""
    x, zero_point = difference(sign)
    w = np.full(shape(2, size), 127, np.int8)
    axis = 3 if shape(2, size)[0] == 1 else 0
    np.moveaxis(w, axis, 0)[1] = -128
    b = TensorType((2,), "int32"), np.array([sign * bias, -sign * bias], np.int32)
    image = (1, 1, size, 1) if axis == 3 else (1, 1, 1, size)
    return Sample.of(make(zero_point), constant(image, x), (TensorType(w.shape), w), b)


def conv(q: Requantize | None, bias: int = BIAS_LIMIT) -> Make:
    return lambda size, sign: forward(
        size, sign, lambda z: Conv2D(POINT, z, q), lambda o, n: (o, 1, 1, n), bias
    )


def depthwise(size: int, sign: int) -> Sample:
    def make(z: int) -> Op:
        return DepthwiseConv2D(Window((1, size)), z, HALVED, saves_mask=True)

    return forward(size, sign, make, lambda o, n: (1, 1, n, o), BIAS_LIMIT)


def step(sample: int = 0) -> tuple[TensorType, Array]:
    return STEP, np.array([7, 5, sample, 2**30, 0], np.int64)


def exponent(value: int) -> tuple[TensorType, Array]:
    return EXPONENT, np.array([value, value, value], np.int8)


def weight_gradient(kind: Callable[..., Op], accumulate: bool) -> Make:
    def make(size: int, sign: int) -> Sample:
        value, zero_point = difference(sign)
        image = (1, 1, size, 1)
        x, w = constant(image, value), constant((1, 1, 1, 1), 0)
        dy = constant(image, 127)
        if accumulate:
            op = kind(None, (1, 1, 1, 1), POINT, zero_point)
            return Sample.of(op, step(1), dy, x, constant((1, 1, 1, 1), sign * 99, "int32"))
        op = kind(UpdateRule((2.0**-26,), 4, 3), (1, 1, 1, 1), POINT, zero_point)
        return Sample.of(op, step(), dy, exponent(0), x, w, constant((1,), 8, "uint8"))

    return make


def depthwise_weight(rule: UpdateRule | None, shape: tuple[int, ...], *rest: object) -> Op:
    return DepthwiseConv2DGradWeight(rule, shape, *rest, (0,))


def backward(make: Callable[[OutputStage], Op], dy: tuple[int, ...], sign: int, *own) -> Sample:
    op = make(OutputStage((1.0,), False, "int8", 9))
    given = constant(dy, 127 * sign)
    return Sample.of(op, step(), given, exponent(0), *own, exponent(26))


def conv_input(size: int, sign: int) -> Sample:
    w = constant((size, 1, 1, 1), -128)
    return backward(lambda s: Conv2DGradInput(s, (1, 1, 1, 1), POINT), (1, 1, 1, size), sign, w)


def depthwise_input(size: int, sign: int) -> Sample:
    w = constant((1, 1, 1, size), -128)
    make = lambda s: DepthwiseConv2DGradInput(s, (1, 1, 1, 1), POINT)  # noqa: E731
    return backward(make, (1, 1, 1, size), sign, w)


def gate_gradient(size: int, sign: int) -> Sample:
    value, zero_point = difference(sign)
    other = constant((1, 1, size, 1), value)
    return backward(lambda s: MulGradInput(s, (1, 1, 1, 1), zero_point), other[0].shape, 1, other)


def matrices(size: int, sign: int) -> Sample:
    """The largest sums of products of both signs."""
    value, zero_point = difference(1)
    other, its_zero_point = difference(sign)
    op = BatchMatMul(zero_point, its_zero_point, 3, 2**30, -23, transposed_b=True)
    return Sample.of(op, constant((1, 1, size), value), constant((1, 1, size), other))


def matrices_gradient(size: int, sign: int) -> Sample:
    value, zero_point = difference(1)
    b = constant((1, 1, size), value)
    make = lambda s: BatchMatMulGradInput(s, (1, 1, 1), "mk", "kn", zero_point)  # noqa: E731
    return backward(make, (1, 1, size), sign, b)


def mean(size: int, sign: int) -> Sample:
    value, zero_point = difference(sign)
    mult, shift = quantize_multiplier(1 / size)
    return Sample.of(Mean(zero_point, 0, mult, shift), constant((1, 1, size, 1), value))


def bias(size: int, sign: int) -> Sample:
    op = BiasGradient(UpdateRule((1.0,), 0, 3), (1,))
    b = constant((1,), sign * BIAS_LIMIT, "int32")
    return Sample.of(op, step(), constant((1, 1, size, 1), -127 * sign), exponent(0), b)


def number_per_channel(size: int, sign: int) -> Sample:
    shape = (1, 1, 1, 1)
    return backward(lambda s: AddChannelsGradInput(s, shape), (1, 1, size, 1), sign)


WHOLE = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 1, 256)


def each_value(op: Op, operands: int = 1) -> Sample:
    return Sample.of(op, *[(TensorType(WHOLE.shape), WHOLE)] * operands)


def rescaled(size: int, sign: int) -> Sample:
    """size: of the shift."""
    return each_value(Rescale(difference(sign)[1], sign * 127, 2**31 - 1, size))


def leaky(size: int, sign: int) -> Sample:
    factor = (2**31 - 1, size)
    return each_value(LeakyRelu(difference(sign)[1], sign * 127, factor, factor))


def product(size: int, sign: int) -> Sample:
    zero_point = difference(sign)[1]
    return each_value(Mul(zero_point, zero_point, 127, 2**31 - 1, size), 2)


def added(size: int, sign: int) -> Sample:
    a = Scaled(difference(sign)[1], 2**31 - 1, 0)
    return each_value(Add(a, a, Scaled(sign * 127, 2**31 - 1, size)), 2)


def extreme_rows(size: int) -> tuple[TensorType, Array]:
    """The largest variance, the largest and the least of a normalized number, and a constant."""
    x = np.full((1, 4, 1, size), -128, np.int8)
    x[0, 0, 0, ::2] = x[0, 1, 0, -1] = x[0, 2, 0, 1:] = 127
    return TensorType(x.shape), x


def normalized(size: int, sign: int) -> Sample:
    """The largest gamma and beta of one sign, and of both; the least and the largest epsilon."""
    gamma = constant((size,), sign * (2**31 - 1), "int32")
    epsilon = (1, 0) if sign > 0 else (1, EPSILON_LIMIT.bit_length() - 1)
    op = LayerNorm(*epsilon, sign * 127, saves_mask=True)
    return Sample.of(op, extreme_rows(size), gamma, gamma)


def around_an_end(size: int, sign: int) -> Sample:
    """The largest mean square: every number is as far from the origin as can be."""
    sample = normalized(size, sign)
    assert isinstance(sample.op, LayerNorm)
    return replace(sample, op=replace(sample.op, origin=-128 if sign > 0 else 127))


def normalized_back(dtype: str, along: bool, size: int, sign: int) -> Sample:
    """Gradients that are as far along the normalized numbers as can be, and of one sign."""
    kind, x = extreme_rows(size)
    most = np.iinfo(dtype).max * sign
    dy = np.where((x > 0) == along, most, -most if along else 0).astype(dtype)
    epsilon = (1, 0) if sign > 0 else (1, EPSILON_LIMIT.bit_length() - 1)
    stage = OutputStage((1.0,), False, dtype, 9)
    op = LayerNormGradInput(stage, kind.shape, 16, *epsilon)
    given, gamma = (TensorType(kind.shape, dtype), dy), constant((size,), 2**31 - 1, "int32")
    return Sample.of(op, step(), given, exponent(0), (kind, x), gamma, exponent(26))


def gamma_gradient(size: int, sign: int) -> Sample:
    """A number that is as far from all others of its row as can be, in each row."""
    high, low = difference(sign)
    x = np.full((1, size, 1, 4), low, np.int8)
    x[..., 0] = high
    rule = UpdateRule((1.0,), 0, 3)
    op = LayerNormGradGamma(rule, (4,), 1, 0)
    dy = constant(x.shape, 127)
    gamma = constant((4,), 0, "int32")
    return Sample.of(op, step(), dy, exponent(0), (TensorType(x.shape), x), gamma)


def gradients_added(sign: int, other: int) -> Sample:
    """By a factor that makes both nearly 2^30 before they are rounded: 2^31 together."""
    shape = (1, 1, 3, 8)
    op = GradientSum(OutputStage((1.0,), False, "int8", 9), shape, (128 - 2**-20,) * 2)
    read = [v for n in (sign, other) for v in (constant(shape, 127 * n), exponent(0))]
    return Sample.of(op, step(), *read, exponent(0))


gain = conv(Requantize((2**30, 2**31 - 1), (4, 1), 3))


@dataclass(frozen=True)
class Limit:
    """size: the largest whose bounds hold. splits: beyond it sums are wide, else it is refused."""

    name: str
    make: Make
    size: int
    splits: bool = False


LIMITS = (
    Limit("conv_2d", conv(HALVED), 32_896, splits=True),
    Limit("conv_2d_once", conv(Requantize((2**30,), (-22,), 3, rounds_once=True)), 32_896, True),
    Limit("conv_2d_sums", conv(None), 32_896, splits=True),
    Limit("depthwise", depthwise, 32_896, splits=True),
    Limit("conv_2d_weight", weight_gradient(Conv2DGradWeight, False), 66_311, splits=True),
    Limit("conv_2d_weight_sum", weight_gradient(Conv2DGradWeight, True), 66_311, splits=True),
    Limit("depthwise_weight", weight_gradient(depthwise_weight, False), 66_311, splits=True),
    Limit("depthwise_weight_sum", weight_gradient(depthwise_weight, True), 66_311, splits=True),
    Limit("mul_channels", gate_gradient, 66_311, splits=True),
    Limit("matrices_gradient", matrices_gradient, 66_311, splits=True),
    Limit("matrices", matrices, 33_025),
    Limit("conv_2d_input", conv_input, 132_104),
    Limit("depthwise_input", depthwise_input, 132_104),
    Limit("mean", mean, 8_421_504),
    Limit("bias", bias, 16_909_320),
    Limit("add_channels", number_per_channel, 16_909_320),
    Limit("rescale", rescaled, 23),
    Limit("leaky_relu", leaky, 23),
    Limit("mul", product, 15),
    Limit("layer_norm", normalized, 65_793),
    Limit("rms_norm", around_an_end, 32_896),
    *(
        Limit(f"layer_norm_input_{dtype}", partial(normalized_back, dtype, along), 65_793)
        for dtype in ("int8", "int16")
        for along in (True, False)
    ),
    Limit("layer_norm_gamma", gamma_gradient, 88_069),
    Limit("add", added, 2),
)
each_limit = pytest.mark.parametrize("limit", LIMITS, ids=lambda v: v.name)


def bounds_of(sample: Sample, known: bool = False) -> tuple[Bound, ...]:
    """known: weights and biases are constants, not trained."""
    values = [v if known else None for v in sample.inputs]
    pairs = zip(sample.types, values, strict=True)
    return sample.op.bounds([Tensor("", t, v) for t, v in pairs])


def fitted(sample: Sample) -> Sample:
    """As differentiate has it."""
    names = tuple(f"t{i}" for i in range(len(sample.types)))
    tensors = {n: Tensor(n, t) for n, t in zip(names, sample.types, strict=True)}
    (node,) = fit_sums([Node("odd/node", sample.op, names, ())], tensors)
    return Sample(node.op, sample.types, sample.inputs)


@each_limit
def test_the_bounds_of_an_operator_hold_up_to_a_size_and_not_for_the_next(limit: Limit) -> None:
    for size, holds in ((limit.size, True), (limit.size + 1, False)):
        found = bounds_of(limit.make(size, 1))
        assert all(bound.holds for bound in found) == holds, [b for b in found if not b.holds]


@each_limit
def test_what_does_not_fit_is_wide_or_refused_with_the_nodes_name_and_sizes(limit: Limit) -> None:
    assert fitted(limit.make(limit.size, 1)).op == limit.make(limit.size, 1).op
    beyond = limit.make(limit.size + 1, 1)
    if limit.splits:
        assert "_wide_s" in kernel_call(fitted(beyond)).function
        return
    with pytest.raises(UnsupportedError, match=r"node 'odd/node' \(\w+\): its .* can reach [\d,]+"):
        fitted(beyond)


def test_frozen_weights_and_biases_count_as_they_are() -> None:
    """Channels of 60,000 weights of one, and all weights of 127, on both sides of 2^30."""
    sample = conv(HALVED, bias=5)(60_000, 1)
    w = np.ones((2, 1, 1, 60_000), np.int8)
    small = Sample(sample.op, sample.types, (sample.inputs[0], w, sample.inputs[2]))
    assert all(bound.holds for bound in bounds_of(small, known=True))
    assert not all(bound.holds for bound in bounds_of(small))
    w[1, ..., : 2**30 // 255 // 126 + 10] = 127
    assert not all(bound.holds for bound in bounds_of(small, known=True))


def test_a_gain_above_one_and_a_trained_bias_are_wide() -> None:
    """A bias may reach 2^30, which a shift to the left takes beyond int32."""
    sample = gain(4, 1)
    assert "_wide_s8" in kernel_call(fitted(sample)).function
    assert not all(bound.holds for bound in bounds_of(sample, known=True))
    small = Sample(sample.op, sample.types, (*sample.inputs[:2], sample.inputs[2] // 2**12))
    assert all(bound.holds for bound in bounds_of(small, known=True))


def test_pools_shares_slopes_and_exponentials_have_bounds_too() -> None:
    """Which no test can compute: images of 16 million places, classes by the thousand."""

    def holds(op: Op, *types: TensorType) -> bool:
        return all(bound.holds for bound in op.bounds([Tensor("", t) for t in types]))

    image = TensorType((1, 8, 8, 1))
    dy = (TensorType((5,), "step"), image, TensorType((3,), "exponent"), image)
    stage = OutputStage((1.0,), False, "int8", 1)
    assert holds(AveragePool2D(Window((4_096, 4_080))), image)
    assert not holds(AveragePool2D(Window((4_096, 4_081))), image)
    assert holds(MaxPool2DGradInput(stage, image.shape, Window((4_096, 4_128))), *dy)
    assert not holds(MaxPool2DGradInput(stage, image.shape, Window((4_096, 4_129))), *dy)
    largest = INT32_MAX // 127 // 9
    assert holds(AveragePool2DGradInput(stage, image.shape, Window((3, 3)), 9 * largest), *dy)
    assert not holds(
        AveragePool2DGradInput(stage, image.shape, Window((3, 3)), 9 * largest + 9), *dy
    )
    slope = INT32_MAX // 128
    assert holds(LeakyReluGradInput(stage, image.shape, 0, slope), *dy)
    assert not holds(LeakyReluGradInput(stage, image.shape, 0, slope + 1), *dy)
    softmax = Softmax(2**30, 20, -8)
    for classes, fits in ((8_191, True), (8_192, False)):
        assert holds(softmax, TensorType((1, classes))) == fits
        assert holds(SoftmaxGradInput(stage, (1, classes), softmax), *dy) == fits


# ------------------------------------------------------------------------------------------------ C


@cache
def at_the_limits() -> tuple[Sample, ...]:
    """Of all operators, what they still take as they are."""
    sized = (limit.make(limit.size, sign) for limit in LIMITS for sign in (1, -1))
    return (*sized, *starmap(gradients_added, ((1, 1), (1, -1), (-1, 1), (-1, -1))))


@cache
def beyond() -> tuple[Sample, ...]:
    """What sums in int64 are for."""
    split = [limit for limit in LIMITS if limit.splits]
    sizes = [(limit, size) for limit in split for size in (limit.size + 1, MUCH)]
    made = [limit.make(size, sign) for limit, size in sizes for sign in (1, -1)]
    return tuple(map(fitted, (*made, gain(4, 1), gain(4, -1))))


INT16_SUMS = (INT32_MAX, INT32_MAX + 1, -INT32_MAX - 1, -INT32_MAX - 2, 3 * 2**32 + 77, 100, -1)
"""The last that is exact, the first that is narrowed, far beyond, and small ones."""
RATE = 2.0**-29
"""Moves a parameter by some units where a sum is near 2^31."""


def gradients_of_int16_sums(positions: int, factor: int) -> tuple[Array, Array]:
    """dy [positions, 7] and what it is multiplied by: products that add up to INT16_SUMS."""
    most, values = 32_767, np.full(positions, factor)
    values[-300:] = 1
    dy = np.zeros((positions, len(INT16_SUMS)), np.int64)
    for c, wanted in enumerate(INT16_SUMS):
        sign, left = (1, wanted) if wanted > 0 else (-1, -wanted)
        for p in range(positions):
            dy[p, c] = sign * min(left // values[p], most)
            left -= abs(int(dy[p, c])) * int(values[p])
        assert left == 0
    return dy.astype(np.int16), values


@cache
def int16_sums() -> tuple[Sample, ...]:
    """Updated at once and added up, of weights, biases and differences."""
    count = len(INT16_SUMS)
    found = []
    for positions, factor in ((2_000, 255), (400_000, 1)):
        values, numbers = gradients_of_int16_sums(positions, factor)
        dy = TensorType((1, 1, positions, count), "int16"), values.reshape(1, 1, positions, count)
        read: tuple[tuple[TensorType, Array], ...] = ()
        shape: tuple[int, ...] = (count,)
        kinds = [("int32", 0), ("int16", -2)]
        make: Callable[[UpdateRule | None], ParameterGradientOp]
        make = partial(BiasGradient, trained=(count,))
        if factor > 1:
            x = (numbers - 128).astype(np.int8).reshape(1, 1, positions, 1)
            read, shape, kinds = ((TensorType(x.shape), x),), (count, 1, 1, 1), [("int8", 0)]
            make = partial(Conv2DGradWeight, trained=shape, window=POINT, x_zero_point=-128)
        for dtype, bits in kinds:
            op = make(UpdateRule((RATE,), bits, 3))
            state = constant(shape, 5, dtype)
            found.append(Sample.of(op, step(), dy, exponent(0), *read, state))
        if factor == 1:
            stage = OutputStage((2.0**-18,), False, "int16", 9)
            of_channels = AddChannelsGradInput(stage, (1, 1, 1, count))
            found.append(Sample.of(of_channels, step(), dy, exponent(0), exponent(0)))
        for sum_rule in (SumRule(), SumRule(3, 7), SumRule(0, 7)):
            op = replace(make(None), sum_rule=sum_rule)
            for sample in (0, 1):
                found.append(
                    Sample.of(op, step(sample), dy, *read, constant(shape, 2**30, "int32"))
                )
    return tuple(found)


wanted_of = cache(expected)
"""What operands must hold after the call: the same for all bodies."""


def assert_same_bits(made: Toolchain, samples: Sequence[Sample]) -> None:
    for found, sample in zip(made.run(samples), samples, strict=True):
        for name, value in wanted_of(sample).items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name} of {sample.op}")


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("bodies", ["plain", "portable", "armv6m", "dsp", "host"])
def test_at_the_limits_every_body_computes_the_bits_of_the_reference_and_nothing_overflows(
    bodies: str, sanitizing: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    """Compiled as the other tests with sanitizers do it, so that objects are shared."""
    name = "clang" if bodies == "host" else next(iter(sanitizing), "gcc")
    if name not in sanitizing:
        pytest.skip(f"{name} is absent or cannot link with {' '.join(SANITIZE)}")
    native = ["-march=native"] if bodies == "host" else []
    samples = at_the_limits() + (beyond() + int16_sums() if bodies in (PLAIN, PORTABLE) else ())
    made = Toolchain(sanitizing[name], ("-O0", *native, "-DEXACT_BUFFERS", *SANITIZE), tmp_path)
    made.compile_objects([*sources(samples, bodies), HARNESS])
    assert_same_bits(made, samples)


def sources(samples: Sequence[Sample], bodies: str) -> list[Path]:
    """The faster bodies of what is called, where there are any, and what they share."""
    calls = [kernel_call(sample) for sample in samples]
    plain = {FIRMWARE / call.source for call in calls}
    chosen = {body_of(path, bodies) for path in plain}
    return sorted({*chosen, *shared_sources(bodies), *FIRMWARE.glob("runtime/*.c")})


def test_sums_beyond_int32_saturate() -> None:
    """The reference, to which the C is held: they are not what is left after a wrap."""
    for sign in (1, -1):
        sample = fitted(conv(None)(MUCH, sign))
        (sums,) = sample.op.reference(*sample.inputs)
        assert sums.ravel().tolist()[::sign] == [INT32_MAX, -INT32_MAX - 1]


def test_int16_sums_are_exact_up_to_int32_and_lose_eight_bits_beyond() -> None:
    found = fitted_sums(np.array(INT16_SUMS), "int16")
    assert found.kept_bits.tolist() == [8, 0, 8, 0, 0, 8, 8]
    assert [v * 256 >> k for v, k in zip(*map(np.ndarray.tolist, found), strict=True)] == [
        *(INT32_MAX, INT32_MAX + 1, -INT32_MAX - 1, -INT32_MAX - 1, 3 * 2**32, 100, -1)
    ]


def test_a_sum_rule_drops_no_more_bits_than_sums_ask_for() -> None:
    assert SumRule.of(INT32_MAX, 1).dropped_bits == 0
    assert SumRule.of(INT32_MAX + 1, 1).dropped_bits == 1
    assert SumRule.of(2**38, 1).dropped_bits == 8
    assert SumRule.of(2**50, 1).dropped_bits == 8


def test_sums_that_are_added_up_are_rounded_right_in_the_mean() -> None:
    """Sums of a third of the last bit that is kept: rounding to nearest would leave nothing."""
    sums = np.full(60_000, 85, np.int64)
    for salt in (1, 2):
        found = SumRule(8, salt).narrowed(sums, step()[1])
        assert set(found.tolist()) == {0, 1}
        assert abs(found.mean() * 256 - 85) < 2
