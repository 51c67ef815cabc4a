"""Host bodies compute the plain bodies' bits: on shapes that fill and overfill their tiles.

tests/ops/test_contract.py holds both against the reference on small shapes; these are large.
"""

from __future__ import annotations

import math
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcutrain_host.toolchain import ZIG

from mcutrain import fixedpoint
from mcutrain.ir.graph import TensorType
from mcutrain.ops.add import Add, Scaled
from mcutrain.ops.conv_2d import Conv2D, Conv2DGradInput, Conv2DGradWeight, Requantize
from mcutrain.ops.depthwise_conv_2d import (
    DepthwiseConv2D,
    DepthwiseConv2DGradInput,
    DepthwiseConv2DGradWeight,
)
from mcutrain.ops.gradient_sum import GradientSum
from mcutrain.ops.gradients import EXPONENT, OutputStage
from mcutrain.ops.grouped_conv_2d import (
    GroupedConv2D,
    GroupedConv2DGradInput,
    GroupedConv2DGradWeight,
)
from mcutrain.ops.pooling import MaxPool2D
from mcutrain.ops.softmax import Softmax, SoftmaxGradInput
from mcutrain.ops.spatial import Window
from mcutrain.ops.transpose import Transpose
from tests.drawing import drawn_by_commit
from tests.ops.c_harness import (
    FIRMWARE,
    HARNESS,
    INCLUDE,
    LIMITED,
    NATIVE,
    SMALL,
    WARNINGS,
    Toolchain,
    faster_bodies,
    is_computed_by,
    kernel_call,
    plain_body,
    samples_of,
    shared_sources,
    ways_to_overwrite,
)
from tests.ops.cases import (
    Geometry,
    Sample,
    Typed,
    average_pool_grad_input,
    backward,
    batch_matmul,
    batch_matmul_grad_input,
    bias,
    factor,
    gradient_sum,
    layer_norm,
    layer_norm_grad_input,
    limits,
    lookup,
    lookup_grad_input,
    max_pool_grad_input,
    mean,
    mul,
    mul_grad_input,
    output_exponent,
    pool,
    requantize,
    split_weight,
    step,
    tensor,
    trained,
    weight,
)
from tests.ops.drawing import Source, drawn

HOST_BODIES = {p.stem: p for p in faster_bodies("host")}
SEEDS = 40
SAMPLES = 6
"""Of each way to draw them and each function; what the seeds draw beyond that is left out."""

CHANNELS = (1, 3, 8, 15, 16, 17, 24, 31, 32, 33, 40, 64, 75)
"""Around the lanes of one vector and of two, on any instruction set."""


# ----------------------------------------------------------------------------------------- samples


def geometry(s: Source, most: int) -> Geometry:
    """Any window up to 7x7, padded by up to what it spans, and an image larger by up to `most`."""
    kernel = s.choice(((1, 1), (3, 3), (5, 5), (7, 7), (s.integer(1, 7), s.integer(1, 7))))
    dilation = s.choice(((1, 1), (1, 1), (1, 1), (s.integer(1, 3), s.integer(1, 3))))
    stride = s.choice(((1, 1), (2, 2), (s.integer(1, 3), s.integer(1, 3))))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    tall, wide = spans[0] // 2, spans[1] // 2
    padding = s.choice(
        ((0, 0, 0, 0), (tall, tall, wide, wide), (0, s.integer(0, 2), 1, s.integer(0, spans[1])))
    )
    least = [max(1, spans[0] - sum(padding[:2])), max(1, spans[1] - sum(padding[2:]))]
    size = (least[0] + s.integer(0, most), least[1] + s.integer(0, most))
    return Geometry(Window(kernel, stride, dilation, padding), size)


Shape = tuple[Geometry, int, int]
"""What an image is convolved with, its channels, and those of the result."""


def many_channels(s: Source) -> Shape:
    return geometry(s, 8), s.choice(CHANNELS), s.choice(CHANNELS)


def many_positions(s: Source) -> Shape:
    """More than a block of rows, and more than a block's depth of terms in a weight gradient."""
    kernel = s.choice(((1, 1), (2, 3)))
    return Geometry(Window(kernel), (s.integer(33, 40), 36)), s.choice((1, 2, 3)), s.choice((1, 17))


def deep_product(s: Source) -> Shape:
    """More terms of a sum than a block is deep, in both directions."""
    kernel = s.choice(((1, 1), (2, 3)))
    depth = s.integer(1100, 2300) // math.prod(kernel)
    ins, outs = s.choice(((depth, 5), (4, depth)))
    return Geometry(Window(kernel), (3, 4)), ins, outs


def many_blocks(s: Source) -> Shape:
    """More than a block in every direction: of rows, of columns, of terms."""
    ins, outs = s.choice(((s.integer(577, 620), 130), (130, s.integer(577, 620))))
    return Geometry(Window((1, 1)), (s.integer(11, 12), 12)), ins, outs


def padded_point(s: Source) -> Shape:
    """A kernel of one element, whose output has another shape than x."""
    window = Window((1, 1), padding=s.choice(((0, 0, 0, 1), (0, 1, 0, 0))))
    return Geometry(window, (s.integer(1, 5), s.integer(1, 5))), s.choice((2, 8, 40)), 16


def wide_line(s: Source) -> Shape:
    """A row of a depthwise convolution that takes several blocks of columns."""
    c = s.choice((1, 5, 17))
    if s.boolean():
        return Geometry(Window((12, 40), (1, 3)), (13, 240)), c, c
    return geometry(s, 150), c, c


def same_size(s: Source) -> Shape:
    """A window that keeps an image's size, so that the result may overwrite it."""
    kernel = (s.choice((1, 2, 3, 5, 7)), s.choice((1, 2, 3, 5, 7)))
    dilation = s.choice(((1, 1), (1, 1), (1, 2), (2, 1)))
    spare = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    top, left = (s.choice((n // 2, s.integer(0, n))) for n in spare)
    window = Window(kernel, (1, 1), dilation, (top, spare[0] - top, left, spare[1] - left))
    c = s.choice((1, 4, 5, 17))
    return Geometry(window, (s.integer(1, 9), s.choice((s.integer(1, 12), 31, 45, 130)))), c, c


def far_padding(s: Source) -> Shape:
    """More columns of padding, left and right, than a block of columns takes."""
    k = s.choice((3, 5, 7))
    window = Window((k, k), (1, s.integer(1, 2)), (1, 1), (0, 0, s.integer(40, 90), 90))
    c = s.choice((4, 8))
    return Geometry(window, (k, s.integer(1, 6))), c, c


def huge_window(s: Source) -> Shape:
    """One that no block holds."""
    window = Window(s.choice(((70, 2), (9, 60), (40, 50))))
    c = s.choice((1, 5))
    return Geometry(window, (window.kernel[0] + 1, window.kernel[1] + 2)), c, c


def conv_2d(s: Source, shape: Shape, requantized: bool = True) -> Sample:
    g, ins, outs = shape
    stored = (requantize(s, outs), s.boolean()) if requantized else (None,)
    w = weight(s, (outs, *g.window.kernel, ins))
    op = Conv2D(g.window, s.integer(-128, 127), *stored)
    return Sample.of(op, tensor(s, (1, *g.x, ins)), w, bias(s, outs))


def conv_2d_in_part(s: Source, shape: Shape) -> Sample:
    sample = conv_2d(s, shape)
    (x, w, b), held = zip(sample.types, sample.inputs, strict=True), sample.op
    trained, columns = split_weight(s, w)
    return Sample.of(replace(held, trained=columns), x, w, b, trained)


def conv_2d_sums(s: Source, shape: Shape) -> Sample:
    return conv_2d(s, shape, requantized=False)


def conv_2d_grad_input(s: Source, shape: Shape) -> Sample:
    g, ins, outs = shape
    x, y = (1, *g.x, ins), (1, *g.y, outs)
    w = weight(s, (outs, *g.window.kernel, ins))
    return backward(s, x, y, lambda stage: Conv2DGradInput(stage, x, g.window), w)


def conv_2d_grad_input_in_part(s: Source, shape: Shape) -> Sample:
    g, ins, outs = shape
    x, y = (1, *g.x, ins), (1, *g.y, outs)
    w = weight(s, (outs, *g.window.kernel, ins))
    part, columns = split_weight(s, w)
    return backward(s, x, y, lambda stage: Conv2DGradInput(stage, x, g.window, columns), w, part)


def conv_2d_weight(s: Source, shape: Shape) -> Sample:
    (g, ins, outs), zero_point = shape, s.integer(-128, 127)
    w = (outs, *g.window.kernel, ins)
    return trained(
        s,
        lambda rule: Conv2DGradWeight(rule, w, g.window, zero_point),
        (tensor(s, (1, *g.x, ins)),),
        (1, *g.y, outs),
        weight(s, w),
        outs,
    )


def grouped_conv_2d(s: Source, shape: Shape) -> Sample:
    """Of a group: the channels of the shape."""
    (g, ins, outs), groups = shape, s.choice((2, 3))
    stage = requantize(s, groups * outs)
    w = weight(s, (groups * outs, *g.window.kernel, ins))
    op = GroupedConv2D(g.window, s.integer(-128, 127), stage, s.boolean())
    return Sample.of(op, tensor(s, (1, *g.x, groups * ins)), w, bias(s, groups * outs))


def grouped_grad_input(s: Source, shape: Shape) -> Sample:
    (g, ins, outs), groups = shape, s.choice((2, 3))
    x, y = (1, *g.x, groups * ins), (1, *g.y, groups * outs)
    w = weight(s, (groups * outs, *g.window.kernel, ins))
    return backward(s, x, y, lambda stage: GroupedConv2DGradInput(stage, x, g.window), w)


def grouped_weight(s: Source, shape: Shape) -> Sample:
    (g, ins, outs), zero_point, groups = shape, s.integer(-128, 127), s.choice((2, 3))
    w = (groups * outs, *g.window.kernel, ins)
    return trained(
        s,
        lambda rule: GroupedConv2DGradWeight(rule, w, g.window, zero_point),
        (tensor(s, (1, *g.x, groups * ins)),),
        (1, *g.y, groups * outs),
        weight(s, w),
        groups * outs,
    )


def depthwise(s: Source, shape: Shape) -> Sample:
    g, c, _ = shape
    op = DepthwiseConv2D(g.window, s.integer(-128, 127), requantize(s, c), s.boolean())
    w = weight(s, (1, *g.window.kernel, c))
    return Sample.of(op, tensor(s, (1, *g.x, c)), w, bias(s, c))


def depthwise_grad_input(s: Source, shape: Shape) -> Sample:
    g, c, _ = shape
    x, y = (1, *g.x, c), (1, *g.y, c)
    w = weight(s, (1, *g.window.kernel, c))
    return backward(s, x, y, lambda stage: DepthwiseConv2DGradInput(stage, x, g.window), w)


def depthwise_weight(s: Source, shape: Shape) -> Sample:
    (g, c, _), zero_point = shape, s.integer(-128, 127)
    w, columns = (1, *g.window.kernel, c), tuple(range(c))
    return trained(
        s,
        lambda rule: DepthwiseConv2DGradWeight(rule, w, g.window, zero_point, columns, None),
        (tensor(s, (1, *g.x, c)),),
        (1, *g.y, c),
        weight(s, w),
        c,
    )


def matrices_around_tiles(s: Source) -> Mapping[str, int]:
    """Rows and columns that fill tiles or do not, along depths that are multiples of 4 or not."""
    return {axis: s.choice((*CHANNELS, 128, 129, 197)) for axis in "mnk"}


def deep_matrices(s: Source) -> Mapping[str, int]:
    """More terms of a sum than a block is deep."""
    return {"m": s.choice((3, 18, 40)), "n": s.choice((5, 33)), "k": s.integer(1_100, 2_300)}


def wide_transpose(s: Source) -> Sample:
    """Of axes that fill vectors or do not, each of which may be the last."""
    shape = (1, s.integer(1, 3), s.choice((*CHANNELS, 197)), s.choice((*CHANNELS, 64)))
    perm = s.choice(((0, 1, 3, 2), (0, 3, 1, 2), (0, 2, 1, 3), (0, 3, 2, 1), (0, 2, 3, 1)))
    return Sample.of(Transpose(perm), tensor(s, shape))


def matrices_that_share_bytes(s: Source) -> Sample:
    """Of a mask's bits, 15 of each matrix, which alone is too small to be split among threads.

    So many that threads are awake before it is over: the sanitizer sees no race otherwise.
    """
    sample = batch_matmul(s, lambda s: {"m": 3, "n": 5, "k": 4})
    shapes = [(1, 128, *x.shape[-2:]) for x in sample.types]
    op = replace(sample.op, saves_mask=True)
    return Sample.of(op, *(tensor(s, shape) for shape in shapes))


def more_channels(s: Source) -> int:
    """Also more than bodies take at once."""
    return s.choice((*CHANNELS, 255, 256, 257, 300, 700))


def softmax_rows(s: Source) -> tuple[Softmax, Typed]:
    """Some rows of any spread, of classes around vectors up to all that there may be."""
    op = Softmax.from_scale(factor(s, -8, 1), s.choice((1.0, 0.5)))
    shape = (1, s.integer(1, 3), 2, s.choice((*CHANNELS, 197, 700, 8_191)))
    return op, tensor(s, shape, limit=s.choice((None, None, 9, 0)))


def softmax(s: Source) -> Sample:
    """With an exponent, which shortens the differences that count."""
    op, x = softmax_rows(s)
    limit = op.exponent_room
    return Sample.of(op.with_input_exponent(limit), x, output_exponent(s, limit))


def softmax_grad_input(s: Source) -> Sample:
    op, x = softmax_rows(s)
    shape = x[0].shape
    return backward(s, shape, shape, lambda stage: SoftmaxGradInput(stage, shape, op), x)


def dead_channels(make: Callable[[Source, Shape], Sample], shape: Shape, s: Source) -> Sample:
    """Some channels have large biases and tiny factors, as training leaves them.

    Their results are the same whatever the sum is, unless they are next to a border of rounding.
    """
    sample = make(s, shape)
    assert isinstance(sample.op, Conv2D | DepthwiseConv2D)
    outs = sample.types[2].shape[0]
    shifts = tuple(s.choice((-6, -9, -21, -22, -23, -25, -28, -31)) for _ in range(outs))
    mults = tuple(s.integer(2**30, 2**31 - 1) for _ in range(outs))
    stage = Requantize(mults, shifts, s.integer(-128, 127), *limits(s))
    most = 2**31 - 1 - 255 * 128 * math.prod(sample.types[1].shape[1:])
    near = (0, 900, 2**30 - 1, -(2**30), most, -most, s.integer(-most, most))
    b = np.array([s.choice(near) for _ in range(outs)], np.int32)
    x, w, held = zip(sample.types, sample.inputs, strict=True)
    op = replace(sample.op, requantize=stage, saves_mask=s.boolean())
    return Sample.of(op, x, w, (held[0], b))


def extreme_add(s: Source) -> Sample:
    """Factors that shift the operands by nothing or by all bits."""
    shape = (1, s.integer(1, 9), s.integer(1, 9), s.choice(CHANNELS))
    scaled = [
        Scaled(s.integer(-128, 127), s.integer(2**30, 2**31 - 1), s.integer(-31, 0))
        for _ in range(3)
    ]
    op = Add(*scaled, s.choice((0, 20, 22)), *limits(s), s.boolean())
    return Sample.of(op, tensor(s, shape), tensor(s, shape))


CONVOLUTIONS = (
    conv_2d,
    conv_2d_in_part,
    conv_2d_sums,
    conv_2d_grad_input,
    conv_2d_grad_input_in_part,
    conv_2d_weight,
    grouped_conv_2d,
    grouped_grad_input,
    grouped_weight,
)
CONVOLVED = (many_channels, many_positions, deep_product, padded_point)
DEPTHWISE = (depthwise, depthwise_grad_input, depthwise_weight)
ELEMENTWISE = (
    lambda s, channels_of: gradient_sum(s, 1, channels_of),
    lambda s, channels_of: gradient_sum(s, 2, channels_of),
    lookup,
    lookup_grad_input,
    mean,
    mul,
    mul_grad_input,
    mul_grad_input,
    average_pool_grad_input,
    max_pool_grad_input,
    lambda s, channels_of: pool(s, MaxPool2D, channels_of),
    layer_norm,
    layer_norm_grad_input,
    lambda s, _: layer_norm_grad_input(s, lambda s: s.choice((257, 300, 700))),
)
MULTIPLIED = (batch_matmul, batch_matmul_grad_input)
MATRICES = (matrices_around_tiles, matrices_around_tiles, deep_matrices)
FILTERED = (many_channels, wide_line, huge_window, far_padding, same_size, same_size)


def exactly(e: int) -> Typed:
    """An exponent that no history changes."""
    none = fixedpoint.NO_EXPONENT
    return EXPONENT, np.array([e, none, none], np.int8)


def gradients_times(*factors: tuple[int, int, int]) -> Callable[[Source], Sample]:
    """A sum of terms from low to high, times 2**e, whose result's exponent is 0."""

    def draw(s: Source) -> Sample:
        shape = (1, 2, s.integer(1, 3), s.choice((4, 16, 33)))
        stage = OutputStage((1.0,), False, "int8", 7)
        op = GradientSum(stage, shape, (1.0,) * len(factors))
        read: list[Typed] = []
        for low, high, e in factors:
            read += [(TensorType(shape, "int8"), s.array(shape, "int8", low, high)), exactly(e)]
        return Sample.of(op, step(s), *read, exactly(0))

    return draw


OVERFLOWING = (
    gradients_times((-1, 0, 14)),  # -1 times the largest factor there is just fits 32 bits
    gradients_times((-1, 1, -3), (-127, 127, 7)),  # half of the addends do
)

WIDE = (
    *(
        lambda s, m=make, shape=shape: m(s, shape(s))
        for make in CONVOLUTIONS
        for shape in CONVOLVED
    ),
    *(lambda s, m=make, shape=shape: m(s, shape(s)) for make in DEPTHWISE for shape in FILTERED),
    *(lambda s, m=make, lengths=of: m(s, lengths) for make in MULTIPLIED for of in MATRICES),
    *(lambda s, m=make: m(s, more_channels) for make in ELEMENTWISE),
    softmax,
    softmax_grad_input,
    wide_transpose,
    lambda s: dead_channels(conv_2d, many_channels(s), s),
    lambda s: dead_channels(conv_2d, padded_point(s), s),
    lambda s: dead_channels(depthwise, many_channels(s), s),
    extreme_add,
    *OVERFLOWING,
)


IN_BLOCKS = tuple(lambda s, m=make: m(s, many_blocks(s)) for make in CONVOLUTIONS)
"""Ten million products each, for bodies that work by blocks: those of hosts alone."""


@cache
def samples() -> tuple[Sample, ...]:
    """Wide ones, and small ones of all operators, as far as a host body computes them."""
    draws = (*WIDE, *IN_BLOCKS, *SMALL, matrices_that_share_bytes)
    return samples_of(HOST_BODIES, draws, SEEDS, SAMPLES)


@cache
def one_of_each() -> tuple[Sample, ...]:
    """Of each function, the first sample of three ways to draw it."""
    kept: dict[str, list[Sample]] = {}
    for sample in samples()[::SAMPLES]:
        kept.setdefault(kernel_call(sample).function, []).append(sample)
    return tuple(sample for found in kept.values() for sample in found[:3])


OF_DOTS = "conv_2d|batch_matmul|lookup"
"""Names of what VNNI and VBMI have instructions for; other bodies are those of AVX2 or AVX-512."""


def computed_by(build: Build, drawn: Sequence[Sample]) -> list[Sample]:
    """Those whose functions are compiled in this build."""
    return [s for s in drawn if re.search(build.bodies, kernel_call(s).function)]


# ------------------------------------------------------------------------------------------ builds


QEMU = "qemu-x86_64"
PLAIN = Path(__file__).with_name("plain_vectors.h")


@dataclass(frozen=True)
class Build:
    """Flags that choose an instruction set, and the flags of /proc/cpuinfo that it takes to run.

    emulated: the processor as which QEMU runs it where this machine cannot. bodies: a pattern of
    the names of those that are compiled.
    """

    name: str
    flags: tuple[str, ...]
    needs: tuple[str, ...] = ()
    emulated: str = ""
    bodies: str = ""

    @property
    def compiles_here(self) -> bool:
        return self.name == "native" or platform.machine() == "x86_64"

    @property
    def runs_here(self) -> bool:
        return self.compiles_here and set(self.needs) <= processor_flags()

    @property
    def emulator(self) -> tuple[str, ...]:
        return (QEMU, "-cpu", self.emulated) if self.emulated and shutil.which(QEMU) else ()


of_name = attrgetter("name")


@cache
def processor_flags() -> frozenset[str]:
    """What Linux says that this machine's processor has."""
    cpu = Path("/proc/cpuinfo")
    return frozenset(cpu.read_text(encoding="utf-8").split() if cpu.is_file() else ())


AVX512 = ("avx512bw", "avx512dq", "avx512vl")
OF_AVX512 = ("-O0", "-march=haswell", *(f"-m{name}" for name in ("avx512f", *AVX512)), *LIMITED)
SETS = (
    Build("sse2", ("-O0", "-march=x86-64", *LIMITED), ("sse2",), "Nehalem"),
    Build("avx2", ("-O0", "-march=haswell", *LIMITED), ("avx2", "bmi2", "fma"), "Haswell"),
    Build(
        "avx-vnni",
        ("-O0", "-march=haswell", "-mavxvnni", *LIMITED),
        ("avx_vnni",),
        bodies=OF_DOTS,
    ),
    Build("avx512", OF_AVX512, AVX512),
    Build(
        "vnni",
        (*OF_AVX512, "-mavx512vnni", "-mavx512vbmi"),
        (*AVX512, "avx512_vnni", "avx512vbmi"),
        bodies=OF_DOTS,
    ),
)
"""Every instruction set that a host body has code of its own for.

Not optimised, which takes compilers half the time: `native` is, as users have it. Each commit draws
one of them, one of those that are emulated, and one stand-in; `make stress` takes all.
"""
AS_USERS_HAVE_IT = Build("native", NATIVE)

IN_PLAIN_C = ("-march=haswell", "-D_GNU_SOURCE", "-Wno-psabi", f"{INCLUDE}{PLAIN}")
STAND_INS = (
    Build("avx-vnni", ("-O0", *IN_PLAIN_C, "-DPLAIN_AVX_VNNI"), ("avx2",), "Haswell", OF_DOTS),
    Build("avx512", ("-O0", *IN_PLAIN_C, "-DPLAIN_AVX512"), ("avx2",), "Haswell"),
    Build("vnni", ("-O0", *IN_PLAIN_C, "-DPLAIN_VNNI"), ("avx2",), "Haswell", OF_DOTS),
)
"""What Debian's QEMU does not emulate: the same bodies, with their instructions in plain C."""
ITS_OWN = {build.name for build in SETS if build.runs_here}
TRIED = [b.name for b in STAND_INS if b.name == "vnni" or b.name not in ITS_OWN]
"""A processor that has a set runs its bodies as they are, and compares each instruction with its
meaning in plain C. The last stand-in is tried everywhere."""

SPLIT = ("-O1", "-DMCT_PRODUCTS_OF_A_PART=32", "-pthread")
"""Small work is split among threads, too."""
WATCHED = ("-fsanitize=thread",)


def sources(host: bool, bodies: str = "") -> list[Path]:
    """One of the two bodies of the kernels that have both, and what they call."""
    wanted = [p for name, p in HOST_BODIES.items() if re.search(bodies, name)]
    chosen = [p if host else plain_body(p) for p in wanted]
    shared = shared_sources("host") if host else ()
    return [*chosen, *shared, *sorted(FIRMWARE.glob("runtime/*.c"))]


def compiled(
    command: tuple[str, ...], flags: tuple[str, ...], folder: Path, host: bool, bodies: str = ""
) -> Toolchain:
    zig = ("-fno-sanitize=all",) if command == ZIG else ()
    made = Toolchain(command, (*flags, *zig), folder)
    made.compile_objects([*sources(host, bodies), HARNESS])
    return made


@pytest.fixture(scope="module")
def plain(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Toolchain:
    """The plain bodies, by the first compiler."""
    return compiled(c_compilers[0], ("-O1",), tmp_path_factory.mktemp("plain"), host=False)


@pytest.fixture(scope="module")
def host(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Build], Toolchain]:
    """The host bodies of a build, compiled once."""

    @cache
    def make(build: Build) -> Toolchain:
        folder = tmp_path_factory.mktemp(build.name)
        return compiled(c_compilers[0], build.flags, folder, host=True, bodies=build.bodies)

    return make


@pytest.fixture(scope="module")
def watched(c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Whether the first compiler watches for data races, and its programs run here."""
    program = tmp_path_factory.mktemp("watched") / "program"
    program.with_suffix(".c").write_text("int main(void) { return 0; }")
    command = [*c_compilers[0], *SPLIT, *WATCHED, f"{program}.c", "-o", str(program)]
    can = subprocess.run(command, capture_output=True).returncode == 0
    return can and subprocess.run([program], capture_output=True).returncode == 0


@lru_cache(maxsize=12)
def of_plain_bodies(
    plain: Toolchain,
    samples: tuple[Sample, ...],
    in_place: int | None,
    among: tuple[Sample, ...],
) -> list[dict[str, npt.NDArray[Any]]]:
    """What plain bodies compute, once for all bodies that are held against them."""
    return plain.run(samples, in_place, among)


def assert_same_bits(made: Toolchain, plain: Toolchain, drawn: Sequence[Sample]) -> None:
    """On buffers of their own, and where outputs take the places of inputs, in each way."""
    for in_place in (None, 0, 1):
        kept = [s for s in drawn if in_place is None or ways_to_overwrite(s) > in_place]
        if not kept:
            continue
        wanted = of_plain_bodies(plain, tuple(kept), in_place, tuple(drawn))
        results = zip(made.run(kept, in_place, drawn), wanted, kept, strict=True)
        for found, expected, sample in results:
            for name in expected.keys() - {"scratch"}:
                if not np.array_equal(found[name], expected[name]):
                    where = f"{name} of {sample.op} for {sample.types}, in place: {in_place}"
                    np.testing.assert_array_equal(found[name], expected[name], err_msg=where)


# ------------------------------------------------------------------------------------------- tests


@pytest.mark.slow
def test_the_samples_reach_every_host_body() -> None:
    reached = {kernel_call(sample).function for sample in samples()}
    assert HOST_BODIES.keys() <= reached


def on_any_machine(build: Build, made: Toolchain) -> Toolchain:
    """To run on this processor, or else on an emulated one; skips where there is neither."""
    if build.runs_here:
        return made
    if build.emulator:
        return replace(made, emulator=build.emulator)
    if build.emulated:
        pytest.skip(f"this processor has no {build.name}: apt install qemu-user")
    missing = ", ".join(sorted(set(build.needs) - processor_flags()))
    pytest.skip(f"this processor has no {missing}, nor has QEMU: run in plain C only")


@pytest.mark.slow
@pytest.mark.parametrize("build", [AS_USERS_HAVE_IT, *drawn_by_commit(SETS, 1)], ids=of_name)
def test_host_bodies_compute_the_bits_of_the_plain_bodies_on_every_instruction_set(
    build: Build, host: Callable[[Build], Toolchain], plain: Toolchain
) -> None:
    """Compiled with a limit of stack frames, before any is skipped."""
    if not build.compiles_here:
        pytest.skip("no compiler for x86")
    made = host(build)
    assert_same_bits(on_any_machine(build, made), plain, computed_by(build, samples()))


@pytest.mark.slow
@pytest.mark.parametrize("name", drawn_by_commit(TRIED, 1))
def test_bodies_of_the_newest_instructions_compute_the_same_bits_in_plain_c(
    name: str, host: Callable[[Build], Toolchain], plain: Toolchain
) -> None:
    """No machine is the first to try a body, whichever of them it has instructions for."""
    (build,) = (b for b in STAND_INS if b.name == name)
    if not build.compiles_here:
        pytest.skip("no compiler for x86")
    made = on_any_machine(build, host(build))
    assert_same_bits(made, plain, computed_by(build, one_of_each()))


@pytest.mark.slow
@pytest.mark.parametrize("build", drawn_by_commit(SETS[:2], 1), ids=of_name)
def test_bodies_compute_the_same_bits_on_an_emulated_processor(
    build: Build, host: Callable[[Build], Toolchain], plain: Toolchain
) -> None:
    """Also where this machine's own has the instructions: machines without them rely on it."""
    if not build.compiles_here:
        pytest.skip("no compiler for x86")
    if not build.emulator:
        pytest.skip("no qemu-x86_64: apt install qemu-user")
    assert_same_bits(replace(host(build), emulator=build.emulator), plain, one_of_each())


@pytest.mark.parametrize("build", SETS[2:], ids=of_name)
def test_instructions_in_plain_c_do_what_this_processors_do(
    build: Build, c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    if not build.runs_here:
        pytest.skip(f"this processor has no {build.name}")
    of_system = [command for command in c_compilers if command != ZIG]
    for command in of_system or c_compilers:  # zig is clang, and makes a library for each set
        chosen = [flag for flag in build.flags if flag.startswith("-m")]
        flags = ("-std=c11", "-O1", "-D_GNU_SOURCE", *WARNINGS, "-Wno-psabi", *chosen)
        source = PLAIN.with_suffix(".c")
        made = subprocess.run(
            [*command, *flags, source, "-o", "plain"], cwd=tmp_path, capture_output=True, text=True
        )
        assert made.returncode == 0, made.stderr
        done = subprocess.run(["./plain"], cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "")


def test_every_instruction_that_bodies_ask_for_has_its_meaning_in_plain_c() -> None:
    """Of AVX-512 and VNNI: one that is not renamed would be the machine's own."""
    plain = PLAIN.read_text(encoding="utf-8")
    renamed = set(re.findall(r"#define (_mm\w+) plain_", plain))
    folder = FIRMWARE / "isa" / "host"
    bodies = (folder / "mct_simd_avx512.h").read_text(encoding="utf-8")
    assert set(re.findall(r"\b_mm\w+(?=\()", bodies)) == renamed - {"_mm256_dpbusd_avx_epi32"}
    others = [p for p in FIRMWARE.rglob("*.[ch]") if not p.name.startswith("mct_simd_")]
    assert not [p.name for p in others if re.search(r"\b_mm\d*_", p.read_text(encoding="utf-8"))]


@pytest.mark.draws(1)
@pytest.mark.slow
@pytest.mark.parametrize(("threads", "every"), [(2, 6), (7, 2)])
def test_any_number_of_threads_computes_the_same_bits(
    threads: int,
    every: int,
    watched: bool,
    host: Callable[[Build], Toolchain],
    plain: Toolchain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Watched for data races where that can be. every: which part of the samples."""
    monkeypatch.setenv("MCT_THREADS", str(threads))
    flags = (*SPLIT, "-march=native", *(WATCHED if watched else ()))
    kept = [*samples()[::every], *samples()[-1:]]  # the last one shares bytes
    assert_same_bits(host(Build("split", flags)), plain, kept)


STACK = """
#include <string.h>
#include "mct_threads.h"

#define BYTES ((1 << 20) + 2 * MCT_MOST_FRAME_BYTES)

static int seen[3];

static int used(void) {
    volatile char frame[BYTES];
    for (int i = 0; i < BYTES; i += 1024) {
        frame[BYTES - 1 - i] = 1;
    }
    return frame[BYTES - 1];
}

static void compute(const void *job, int32_t part, int32_t parts) {
    (void)job;
    if (part > 0) {
        seen[part] = used() * parts;
    }
}

int main(void) {
    mct_threads_set(3);
    mct_threads_run(compute, 0, 3);
    return seen[1] == 3 && seen[2] == 3 ? 0 : 1;
}
"""
"""Workers use what a system may take of a stack, and the largest frame twice."""


def test_threads_have_stack_enough_for_the_largest_frames(
    c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """Also where the system gives threads little: musl 128 KB, and glibc the limit of this one."""
    folder = FIRMWARE / "isa" / "host"
    (tmp_path / "main.c").write_text(STACK, encoding="utf-8")
    flags = ("-std=c11", "-O0", "-pthread", f"-I{folder}", "main.c", folder / "mct_threads.c")
    for i, command in enumerate(c for c in c_compilers if c != ZIG):
        made = subprocess.run([*command, *flags, "-o", str(i)], cwd=tmp_path, capture_output=True)
        assert made.returncode == 0, made.stderr
        assert subprocess.run(["sh", "-c", f"ulimit -s 256; ./{i}"], cwd=tmp_path).returncode == 0


@pytest.mark.slow
@settings(
    max_examples=4,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_host_bodies_compute_the_bits_of_the_plain_bodies_on_drawn_shapes(
    data: st.DataObject, host: Callable[[Build], Toolchain], plain: Toolchain
) -> None:
    sample = data.draw(
        st.one_of([drawn(make) for make in (*WIDE, *IN_BLOCKS)]).filter(
            partial(is_computed_by, HOST_BODIES)
        )
    )
    assert_same_bits(host(AS_USERS_HAVE_IT), plain, [sample])


WITHOUT_DOTS = {
    "x86": ("-march=haswell",),
    "zig-x86": ("-target", "x86_64-linux-musl", "-mcpu=haswell"),
    "zig-macos": ("-target", "aarch64-macos"),
}
"""Where neither VNNI nor sdot is known when a program is compiled, nor asked for when it runs."""


@pytest.mark.slow
@pytest.mark.parametrize("machine", WITHOUT_DOTS)
def test_products_compile_without_a_warning_where_nothing_multiplies_fours(
    machine: str, c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """All compilers: clang warns of a function that is not used where gcc does not."""
    of_zig = machine.startswith("zig")
    commands = [c for c in c_compilers if (c == ZIG) == of_zig]
    if not commands or (not of_zig and platform.machine() != "x86_64"):
        pytest.skip("no compiler for it")
    folder = FIRMWARE / "isa" / "host"
    for command in commands:
        for name in ("mct_product.c", "mct_threads.c"):
            flags = ("-std=c11", "-O1", *WARNINGS, *WITHOUT_DOTS[machine], f"-I{folder}")
            object_file = ("-c", str(folder / name), "-o", str(tmp_path / "made.o"))
            done = subprocess.run([*command, *flags, *object_file], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


GCC_FOR_ARM, OF_GCC = ("aarch64-linux-gnu-gcc",), ("-O0", "-mcpu=cortex-a53")
ARM = {
    "gcc": (GCC_FOR_ARM, OF_GCC),
    "zig": (ZIG, ("-O0", "-target", "aarch64-linux-gnu", "-mcpu=cortex_a53")),
}
"""What compiles the bodies; gcc links them all: zig would have to make its own libraries first."""
SDOT = ((0xFFC0F400, 0x4F80E000), (0xFFE0FC00, 0x4E809400))
"""Which bits of an instruction say that it is sdot, by one lane or by all, and what they are."""


def ran_sdot(log: Path) -> bool:
    """Whether QEMU's list of what it translated has the instruction."""
    words = re.findall(r"^0x[0-9a-f]+:  ([0-9a-f]{8}) ", log.read_text(), re.MULTILINE)
    assert words
    return any(int(word, 16) & mask == bits for word in words for mask, bits in SDOT)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("compiler", drawn_by_commit(tuple(ARM), 1))
def test_a_program_for_all_arm_processors_multiplies_by_what_each_has(
    compiler: str, plain: Toolchain, c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """One program: by pairs of int16 on a Cortex-A72, by sdot on one that has it."""
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("no qemu-aarch64: apt install qemu-user")
    if shutil.which(*GCC_FOR_ARM) is None:
        pytest.skip("no compiler for aarch64: apt install gcc-aarch64-linux-gnu")
    command, flags = ARM[compiler]
    if command == ZIG and ZIG not in c_compilers:
        pytest.skip("ziglang is not installed")
    only = "" if command == GCC_FOR_ARM else OF_DOTS  # zig takes four times as long
    bodies = compiled(command, flags, tmp_path, host=True, bodies=only)
    made = replace(bodies, command=GCC_FOR_ARM, flags=(*OF_GCC, "-static", "-pthread"))
    kept = computed_by(Build(compiler, (), bodies=only), samples()[::SAMPLES])
    product = next(s for s in samples() if kernel_call(s).function == "mct_conv_2d_s8")
    for cpu, has_sdot in (("cortex-a72", False), ("max", True)):
        emulator = ("qemu-aarch64", "-cpu", cpu)
        assert_same_bits(replace(made, emulator=emulator), plain, kept)
        log = tmp_path / f"{cpu}.log"
        logged = replace(made, emulator=(*emulator, "-d", "in_asm", "-D", str(log)))
        assert_same_bits(logged, plain, [product])
        assert ran_sdot(log) == has_sdot
