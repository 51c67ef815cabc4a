"""The bodies for Cortex-M's DSP extension compute the plain bodies' bits.

Their instructions are emulated in plain C, under sanitizers, and run by QEMU as they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcutrain_host.toolchain import ZIG

from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.ir.graph import TensorType
from mcutrain.ops.add import Add, Scaled
from mcutrain.ops.batch_matmul import BatchMatMul, BatchMatMulGradInput
from mcutrain.ops.conv_2d import Conv2D, Conv2DGradInput, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.gradients import OutputStage
from mcutrain.ops.grouped_conv_2d import GroupedConv2D
from mcutrain.ops.pooling import AveragePool2D, Mean, MeanSums, ScaledAveragePool2D
from mcutrain.ops.spatial import Window
from mcutrain.quant.multipliers import average_multiplier
from tests.kernels.compiled import BodiesOfSet
from tests.kernels.test_host_bodies import (
    WIDE,
    Shape,
    assert_same_bits,
    conv_2d_weight,
    depthwise,
    depthwise_grad_input,
    depthwise_weight,
)
from tests.ops.c_harness import (
    FIRMWARE,
    SMALL,
    Toolchain,
    faster_bodies,
    is_computed_by,
    kernel_call,
    samples_of,
)
from tests.ops.cases import (
    Geometry,
    Sample,
    Typed,
    bias,
    exponent,
    split_weight,
    step,
    tensor,
    weight,
)
from tests.ops.drawing import Source, drawn

DSP_BODIES = {p.stem: p for p in faster_bodies("dsp")}
OF_SET = BodiesOfSet("dsp", DSP_BODIES)
CORTEX_M7 = ("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m7", "-O2", "-ffreestanding")
POINT = Window((1, 1))
SEEDS = 24
SAMPLES = 4
"""Of each way to draw them and each function; what the seeds draw beyond that is left out."""


def large_bias(s: Source) -> Sample:
    """Biases, shifts and columns around what the short requantization takes."""
    ins, outs = s.choice((1, 4, 200)), s.choice((3, 8))
    near = 2**30 - 255 * 128 * ins
    beyond = 2**30 - 100 * ins  # what most sums carry over 2**30
    limits = (0, near, -near, near - 1, near + 9, *3 * (beyond, -beyond), 2**30 - 1, 1 - 2**30)
    biases = [s.choice(limits) for _ in range(outs)]
    shifts = tuple(s.choice((0, -1, -2, -19, -20, -21, -31)) for _ in range(outs))
    mults = tuple(s.choice((2**30, 2**31 - 1, s.integer(2**30, 2**31 - 1))) for _ in range(outs))
    q = Requantize(mults, shifts, s.integer(-128, 127), rounds_once=s.boolean())
    x = tensor(s, (1, s.integer(1, 3), s.integer(1, 3), ins))
    b = tensor(s, (outs,), "int32")[0], np.array(biases, np.int32)
    op = Conv2D(Window((1, 1)), s.integer(-128, 127), q, s.boolean())
    return Sample.of(op, x, weight(s, (outs, 1, 1, ins)), b)


def groups_within_a_byte(s: Source) -> Sample:
    """Whole bytes of a mask for each position, but not for each group of its channels."""
    groups, ins, outs = s.choice((2, 4)), s.choice((3, 4, 8)), s.choice((4, 12, 28))
    q = Requantize((2**30,), (-s.integer(7, 9),), s.integer(-20, 20))
    op = GroupedConv2D(Window((1, 1)), s.integer(-128, 127), q, saves_mask=True)
    x = tensor(s, (1, s.integer(2, 5), s.integer(2, 5), groups * ins))
    w = weight(s, (groups * outs, 1, 1, ins))
    return Sample.of(op, x, w, bias(s, groups * outs))


def short_columns(s: Source) -> Sample:
    """As deep as several panels at a time take, and a little deeper; all ways of storing."""
    kernel, ins = s.choice(((1, s.integer(1, 50)), (3, s.integer(1, 5)), (2, s.integer(3, 13))))
    outs, size = s.integer(1, 9), (s.integer(1, 5), s.integer(3, 30))
    window = Window((kernel, kernel), padding=(kernel // 2,) * 4)
    shifts = tuple(-s.choice((0, 1, 2, *range(4, 12), 22, 23, 29)) for _ in range(outs))
    mults = tuple(s.integer(2**30, 2**31 - 1) for _ in range(outs))
    q = Requantize(mults, shifts, s.choice((-128, s.integer(-128, 127))))
    x = tensor(s, (1, *size, ins))
    op = Conv2D(window, s.integer(-128, 127), q, saves_mask=s.choice((False, False, True)))
    return Sample.of(op, x, weight(s, (outs, kernel, kernel, ins)), bias(s, outs))


def deep_columns(s: Source) -> Sample:
    """Of several parts, with a mask or without; whole bytes of a mask or not."""
    ins, outs = s.choice((145, 160, 192, 290, 301, 576)), s.choice((3, 8, 16, 27, 48))
    shifts = tuple(-s.choice((0, 1, *range(5, 12), 22, 23)) for _ in range(outs))
    mults = tuple(s.integer(2**30, 2**31 - 1) for _ in range(outs))
    q = Requantize(mults, shifts, s.choice((-128, s.integer(-128, 127))))
    x = tensor(s, (1, s.integer(1, 3), s.integer(1, 5), ins))
    op = Conv2D(POINT, s.integer(-128, 127), q, saves_mask=s.boolean())
    return Sample.of(op, x, weight(s, (outs, 1, 1, ins)), bias(s, outs))


def layer_of_one_position(
    s: Source, ins: int, size: tuple[int, int] = (1, 1), in_blocks: bool = False
) -> Sample:
    """A fully connected layer. in_blocks: of several blocks of channels, rounded once."""
    outs = s.choice((49, 99) if in_blocks else (1, 2, 12, 47, 48, 49, 99))
    shifts = tuple(-s.choice((0, 1, *range(5, 12), 22, 23)) for _ in range(outs))
    mults = tuple(s.integer(2**30, 2**31 - 1) for _ in range(outs))
    zero_point, low = s.choice((-128, s.integer(-128, 127))), s.choice((-128, -128, -90))
    q = Requantize(mults, shifts, zero_point, low, rounds_once=in_blocks or s.boolean())
    op = Conv2D(POINT, s.integer(-128, 127), q, saves_mask=s.boolean())
    return Sample.of(op, tensor(s, (1, *size, ins)), weight(s, (outs, 1, 1, ins)), bias(s, outs))


def part_of_a_layer(s: Source) -> Sample:
    """A fully connected layer, some columns of whose weights are trained and lie apart."""
    layer = layer_of_one_position(s, s.choice((3, 27, 64)))
    x, w, b = zip(layer.types, layer.inputs, strict=True)
    trained, columns = split_weight(s, w)
    return Sample.of(replace(layer.op, trained=columns), x, w, b, trained)


def one_position_left(s: Source) -> Sample:
    """Behind panels of four; its channels in blocks of another size than those of one position."""
    ins, size = s.choice((5, 27, 64, 301)), s.choice(((1, 5), (3, 3)))
    return layer_of_one_position(s, ins, size)


def exact_halves(s: Source) -> Sample:
    """Products that lie between two results, of both signs, rounded once."""
    outs, shift = 40, s.integer(2, 6)
    q = Requantize((2**30,), (-shift,), s.integer(-3, 3), rounds_once=True)
    x, w = tensor(s, (1, 1, 1, 4)), weight(s, (outs, 1, 1, 4))
    halves = np.arange(-outs // 2, outs // 2, dtype=np.int32) * 2 + 1
    b = TensorType((outs,), "int32"), halves * np.int32(2**shift)
    return Sample.of(Conv2D(POINT, 0, q, s.boolean()), x, (w[0], w[1] * np.int8(0)), b)


def logits(s: Source, ins: int) -> Sample:
    """Bare sums: of a fully connected layer, or of several positions."""
    kernel = s.choice((1, 1, 3)) if ins < 200 else 1
    window = Window((kernel, kernel), padding=(kernel // 2,) * 4)
    x = tensor(s, (1, *s.choice(((1, 1), (2, 3))), ins))
    outs = s.choice((1, 2, 5, 10, 33))
    op = Conv2D(window, s.integer(-128, 127), None)
    return Sample.of(op, x, weight(s, (outs, kernel, kernel, ins)), bias(s, outs))


def dilated_logits(s: Source) -> Sample:
    """Bare sums of windows whose taps do not lie next to each other."""
    dilation = s.choice(((1, 2), (2, 1), (2, 2)))
    window = Window((2, 3), (1, 1), dilation, (1, 0, 1, 1))
    op, outs, ins = Conv2D(window, s.integer(-128, 127), None), s.integer(1, 6), s.choice((3, 4))
    return Sample.of(op, tensor(s, (1, 4, 6, ins)), weight(s, (outs, 2, 3, ins)), bias(s, outs))


def pooled(s: Source) -> Sample:
    """Whole groups of four channels or not; windows of more elements than an int16 sum takes."""
    h, w = s.choice(((1, 1), (4, 4), (25, 5), (16, 16), (1, 257), (23, 24), (260, 2)))
    x = tensor(s, (1, h, w, s.choice((1, 3, 4, 5, 6, 7, 8, 16, 19))))
    kernel = s.choice(((h, w), (h, w), (min(h, 100), min(w, 3))))
    return pool(s, x, Window(kernel, (s.integer(1, 2), s.integer(1, 2))))


def pooled_border(s: Source) -> Sample:
    """Windows of which a part lies outside the image, dilated or not."""
    x = tensor(s, (1, s.integer(5, 8), s.integer(5, 8), s.choice((3, 4, 6))))
    kernel, stride = (s.integer(2, 3), s.integer(2, 3)), (1, s.integer(1, 2))
    dilation = s.choice(((1, 1), (1, 2), (2, 1), (2, 2)))
    padding = (1, s.integer(0, 1), 1, s.integer(0, 1))
    return pool(s, x, Window(kernel, stride, dilation, padding))


def pooled_ends(s: Source) -> Sample:
    """The same value everywhere: sums as large as they can be, in one run or in several."""
    sizes = (((1, 257), (1, 257)), ((23, 24), (23, 24)), ((25, 14), (25, 13)), ((260, 2), (260, 1)))
    size, kernel = s.choice(sizes)
    shape = (1, *size, s.choice((4, 6)))
    x = TensorType(shape, "int8"), np.full(shape, s.choice((-128, -128, 127)), np.int8)
    return pool(s, x, Window(kernel))


def pool(s: Source, x: Typed, window: Window) -> Sample:
    """One of the kinds. Means are of the whole image."""
    (h, w), count = x[0].shape[1:3], math.prod(window.kernel)
    limits = (*s.choice(((-128, 127), (-100, 90))), s.boolean())
    zero_points = s.integer(-128, 127), s.integer(-128, 127)
    ratio = s.integer(1, 400) / 100
    scale = average_multiplier(ratio, 1.0, count)
    by_count = quantize_multiplier(ratio / (h * w))
    ops = (
        AveragePool2D(window, *limits),
        ScaledAveragePool2D(window, *zero_points, *scale, *limits),
        Mean(*zero_points, *by_count, *limits),
        MeanSums(zero_points[0]),
    )
    return Sample.of(s.choice(ops), x)


def add_of_a_whole(s: Source) -> Sample:
    """Operands of which one, or both or neither, is only halved, as TFLite's larger scale is."""
    shape = (1, s.integer(1, 5), s.integer(1, 7), s.integer(1, 9))
    one, other = (
        Scaled(s.integer(-128, 127), s.choice((2**30, m)), s.choice((0, -s.integer(1, 22))))
        for m in (2**30, s.integer(2**30, 2**31 - 1))
    )
    operands = (one, other) if s.boolean() else (other, one)
    y = Scaled(s.integer(-128, 127), s.integer(2**30, 2**31 - 1), -s.choice((0, 15, 18, 19, 20)))
    low = s.choice((-128, -128, -100))
    op = Add(*operands, y, s.choice((20, 20, 20, 19)), low, 127, s.choice((False, False, True)))
    return Sample.of(op, tensor(s, shape), tensor(s, shape))


def silent_channels(s: Source) -> Sample:
    """As many positions as are taken at a time, or a few more; some channels learn nothing."""
    geometry = Geometry(POINT, (s.choice((5, 8, 9, 11, 13, 16, 17)), 8))
    sample = conv_2d_weight(s, (geometry, s.choice((3, 4, 9)), s.integer(1, 40)))
    step, dy, *rest = sample.inputs
    learns = s.array(dy.shape[-1:], "int8", 0, 1)
    return replace(sample, inputs=(step, dy * learns.astype(dy.dtype), *rest))


def planes(s: Source) -> Shape:
    """Several blocks of columns and strips of rows, whole groups of columns or some left over."""
    kernel = s.choice(((3, 3), (3, 3), (5, 5), (7, 7), (s.integer(1, 9), s.integer(1, 8))))
    stride = s.choice(((1, 1), (2, 2), (s.integer(1, 2), s.integer(1, 2))))
    pads = [s.choice(((k // 2, k // 2), (0, 0), (k // 2, k - 1))) for k in kernel]
    window = Window(kernel, stride, padding=(*pads[0], *pads[1]))
    size = s.choice(((s.integer(1, 5), s.integer(1, 70)), (s.integer(4, 20), s.integer(3, 20))))
    h, w = (max(n, k - sum(pad)) for n, k, pad in zip(size, kernel, pads, strict=True))
    c = s.choice((4, 8, 12, 5))
    return Geometry(window, (h, w)), c, c


def noted_planes(s: Source) -> Sample:
    """Of whole bytes and with a mask, as networks have them; dead channels among the others."""
    sample = depthwise(s, planes(s))
    assert isinstance(sample.op, DepthwiseConv2D)
    c = sample.types[0].shape[3]
    shifts = tuple(s.choice((-6, -7, -9, -21, -22, -23, -28)) for _ in range(c))
    mults = tuple(s.integer(2**30, 2**31 - 1) for _ in range(c))
    op = replace(sample.op, requantize=Requantize(mults, shifts, s.integer(-128, 127)))
    near = (0, 900, 2**30 - 1, 1 - 2**30, 2**28, s.integer(-(2**30), 2**30))
    b = np.array([s.choice(near) for _ in range(c)], np.int32)
    x, w, held = zip(sample.types, sample.inputs, strict=True)
    return Sample.of(replace(op, saves_mask=s.boolean()), x, w, (held[0], b))


def more_terms_than_int32(s: Source) -> Sample:
    """A gradient of int16 whose sums int32 cannot hold, though it holds each part of them."""
    outs, ins, size = s.integer(513, 700), s.choice((4, 6)), s.choice((3, 5))
    op = Conv2DGradInput(OutputStage((2.0**-20,), False, "int16", 7), (1, size, 5, ins), POINT)
    dy = tensor(s, (1, size, 5, outs), "int16", 32767)[0], np.full((1, size, 5, outs), 32767)
    w = weight(s, (outs, 1, 1, ins))[0], np.full((outs, 1, 1, ins), s.choice((127, -127)), np.int8)
    return Sample.of(op, step(s), (dy[0], dy[1].astype(np.int16)), exponent(s), w, exponent(s, 2))


def large_matrices(stored: tuple[bool, bool]) -> Callable[[Source], Sample]:
    """Several columns at a time, and some that are left over."""

    def draw(s: Source) -> Sample:
        op = BatchMatMul(s.integer(-128, 127), s.integer(-128, 127), 3, 2**30, -12, *stored)
        lengths = {"m": s.integer(3, 7), "k": s.integer(2, 23), "n": s.integer(4, 11)}
        shapes = [(1, 2, *(lengths[axis] for axis in axes)) for axes in op.axes[:2]]
        return Sample.of(op, *(tensor(s, shape) for shape in shapes))

    return draw


def gradient_of_large_matrices(place: int, stored: tuple[bool, bool]) -> Callable[[Source], Sample]:
    """Of operand `place`."""

    def draw(s: Source) -> Sample:
        product = large_matrices(stored)(s)
        assert isinstance(product.op, BatchMatMul)
        (y,) = product.op.infer(*product.types)
        axes, x = product.op.axes, product.types[place].shape
        stage = OutputStage((2.0**-9,), False, "int8", 7)
        op = BatchMatMulGradInput(stage, x, axes[place], axes[1 - place], s.integer(-128, 127))
        dy = (tensor(s, y.shape, "int8", 127), exponent(s))
        other = tensor(s, product.types[1 - place].shape)
        return Sample.of(op, step(s), *dy, other, exponent(s, -4))

    return draw


TERMS = (1, 3, 6, 27, 64, 301, 480, 481, 1000)
"""Of a sum at one position: whole words or not, one part or more."""
STORED = tuple(itertools.product((False, True), repeat=2))
DRAWN = (
    *WIDE,
    large_bias,
    groups_within_a_byte,
    short_columns,
    deep_columns,
    part_of_a_layer,
    one_position_left,
    exact_halves,
    *(partial(layer_of_one_position, ins=ins) for ins in TERMS),
    *(partial(layer_of_one_position, ins=ins, in_blocks=True) for ins in (64, 301)),
    *(partial(logits, ins=ins) for ins in TERMS),
    dilated_logits,
    pooled,
    pooled_border,
    pooled_ends,
    add_of_a_whole,
    silent_channels,
    noted_planes,
    more_terms_than_int32,
    lambda s: depthwise(s, planes(s)),
    lambda s: depthwise_grad_input(s, planes(s)),
    lambda s: depthwise_weight(s, planes(s)),
    *(large_matrices(stored) for stored in STORED),
    *(gradient_of_large_matrices(place, stored) for place in (0, 1) for stored in STORED),
)


@cache
def samples() -> tuple[Sample, ...]:
    """Wide ones, and small ones of all operators, as far as a DSP body computes them."""
    return samples_of(DSP_BODIES, (*DRAWN, *SMALL), SEEDS, SAMPLES)


@pytest.fixture(scope="module")
def plain(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Toolchain:
    return OF_SET.plain(c_compilers[0], tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def dsp(
    c_compilers: list[tuple[str, ...]],
    sanitizing: dict[str, tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Toolchain:
    """The DSP bodies, with sanitizers and each buffer alone where a compiler has them."""
    return OF_SET.sanitized(c_compilers, sanitizing, tmp_path_factory.mktemp("dsp"))


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    """The DSP bodies with the instructions themselves."""
    return OF_SET.in_qemu((), tmp_path_factory.mktemp("assembly"))


# ------------------------------------------------------------------------------------------- tests


@pytest.mark.slow
def test_the_samples_reach_every_dsp_body() -> None:
    reached = {kernel_call(sample).function for sample in samples()}
    assert DSP_BODIES.keys() <= reached


@pytest.mark.slow
def test_dsp_bodies_compute_the_bits_of_the_plain_bodies(dsp: Toolchain, plain: Toolchain) -> None:
    assert_same_bits(dsp, plain, samples())


@pytest.mark.slow
def test_dsp_bodies_in_assembly_compute_the_bits_of_the_plain_bodies(
    assembly: Toolchain, plain: Toolchain
) -> None:
    assert_same_bits(assembly, plain, samples())


@pytest.mark.slow
@settings(
    max_examples=4,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_dsp_bodies_compute_the_bits_of_the_plain_bodies_on_drawn_shapes(
    data: st.DataObject, dsp: Toolchain, plain: Toolchain
) -> None:
    sample = data.draw(
        st.one_of([drawn(make) for make in DRAWN]).filter(partial(is_computed_by, DSP_BODIES))
    )
    assert_same_bits(dsp, plain, [sample])


@pytest.mark.slow
def test_dsp_bodies_compile_for_a_cortex_m7(
    c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    if ZIG not in c_compilers:
        pytest.skip("ziglang is not installed: no compiler for Arm")
    OF_SET.objects(ZIG, (*CORTEX_M7, f"-I{FIRMWARE}/chips/cortex_m/include"), tmp_path)
