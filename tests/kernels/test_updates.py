"""Updates of weights compute numpy's bits, by every body: at each rate, and where a sum is 0.

What is easily wrong in a body that skips and shares work: a weight of -128 whose gradient is 0, the
rate of another row, the last weight of a row, sums beyond what 32 bits hold, gradients of 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.ir.graph import TensorType
from mcutrain.ops.conv_2d import Conv2DGradWeight
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2DGradWeight
from mcutrain.ops.gradients import EXPONENT, STEP
from mcutrain.ops.grouped_conv_2d import GroupedConv2DGradWeight
from mcutrain.ops.spatial import Window
from mcutrain.ops.training import ApplyUpdate
from mcutrain.ops.updating import UpdateRule
from mcutrain.simulation.build import SANITIZE
from tests.ops.c_harness import (
    FIRMWARE,
    HARNESS,
    Toolchain,
    body_of,
    expected,
    kernel_call,
    shared_sources,
)
from tests.ops.cases import Sample, Typed, residual
from tests.ops.drawing import SeededSource, Source, drawn

SETS = {
    "plain": ("", ()),
    "portable": ("portable", ()),
    "armv6-m": ("portable", ("-DMCT_LONG_PRODUCT=0",)),
    "dsp": ("dsp", ()),
}
"""The folder of bodies, and flags; with the last one a product of two int32 has 32 bits."""

OPERATORS = ("conv_2d", "depthwise_conv_2d", "grouped_conv_2d", "apply_update")


# ----------------------------------------------------------------------------------------- samples


def sparse(s: Source, shape: Sequence[int], low: int, zero: int, high: int = 127) -> Typed:
    """Numbers from low to high: some, none, all, or all before the last pixel are `zero`."""
    dtype = "int8" if high == 127 else "int16"
    values = s.array(shape, dtype, low, high)
    is_zero = s.array(shape, "int8", 0, 99) < s.choice((0, 50, 50, 90, 100))
    if s.choice((False, False, True)):
        is_zero = np.arange(is_zero.size).reshape(shape) < is_zero.size - shape[-1]
    return TensorType(tuple(shape), dtype), np.where(is_zero, zero, values).astype(dtype)


def gradient(s: Source, shape: Sequence[int]) -> Typed:
    """Of int8 or int16."""
    limit = s.choice((127, 32767))
    return sparse(s, shape, -limit, 0, limit)


def weights(s: Source, shape: Sequence[int]) -> Typed:
    """Anything, or next to the ends; -128 is no weight that training makes, but a model may."""
    low, high = s.choice(((-128, 127), (-128, -126), (126, 127)))
    return TensorType(tuple(shape), "int8"), s.array(shape, "int8", low, high)


def any_step(s: Source) -> Typed:
    """Learning rates that are normalized, and others that a program may give."""
    mult = s.choice((0, 1, 2**15, 2**20, 2**24, 2**28, *3 * (2**30,), s.integer(2**30, 2**31 - 1)))
    words = [s.integer(1, 2**32 - 1), s.integer(0, 40), 0, mult, s.integer(-8, 0)]
    return STEP, np.array(words, np.int64)


def any_rule(s: Source, rates: int, bits: int) -> UpdateRule:
    """Rates of which each channel has one far from its neighbours'."""
    count = s.choice((1, rates, rates))
    spread = s.choice((0, 3, 3, 20))
    centre = s.choice((-24, -16, -10, -4, 10))
    each = [centre + s.integer(-spread, spread) for _ in range(count)]
    signs = [s.choice((1.0, 1.0, 1.0, -1.0, 0.0)) for _ in range(count)]
    rate = tuple(
        sign * math.ldexp(1 + s.integer(0, 99) / 100, e)
        for sign, e in zip(signs, each, strict=True)
    )
    return UpdateRule(rate, bits, s.integer(1, 99))


def exponent_near(s: Source, around: int) -> Typed:
    return EXPONENT, np.array([around + s.integer(-3, 3), -128, -128], np.int8)


def updated(
    s: Source,
    make: Callable[[UpdateRule], Conv2DGradWeight],
    x: tuple[int, ...],
    dy: tuple[int, ...],
    w: tuple[int, ...],
    rates: int,
) -> Sample:
    bits = s.choice((0, 2, 4, 8))
    op = make(any_rule(s, rates, bits))
    return Sample.of(
        op,
        any_step(s),
        gradient(s, dy),
        exponent_near(s, 0),
        sparse(s, x, -128, op.x_zero_point),
        weights(s, w),
        *residual(s, math.prod(w), bits),
    )


def fully_connected(s: Source) -> Sample:
    ins, outs, zero_point = (
        s.choice((1, 2, 3, 7, 8, 33)),
        s.choice((1, 2, 5, 17)),
        s.integer(-128, 127),
    )
    w = (outs, 1, 1, ins)
    return updated(
        s,
        lambda rule: Conv2DGradWeight(rule, w, Window((1, 1)), zero_point),
        (1, 1, 1, ins),
        (1, 1, 1, outs),
        w,
        outs,
    )


def window_of_one(s: Source) -> Sample:
    """One output position, whose window may reach over the image."""
    kernel, ins, outs = (s.integer(1, 3), s.integer(1, 4)), s.choice((1, 3, 4)), s.choice((1, 3))
    pads = [s.integer(0, k - 1) for k in kernel]
    image = [k - p for k, p in zip(kernel, pads, strict=True)]
    window = Window(kernel, padding=(pads[0], 0, pads[1], 0))
    w, zero_point = (outs, *kernel, ins), s.choice((-128, 127, 5))
    return updated(
        s,
        lambda rule: Conv2DGradWeight(rule, w, window, zero_point),
        (1, *image, ins),
        (1, 1, 1, outs),
        w,
        outs,
    )


def few_positions(s: Source) -> Sample:
    """More output channels than a block of rows has, on images of a few pixels."""
    kernel, image = s.choice(((1, 1), (1, 1), (2, 3))), (s.integer(2, 4), s.integer(3, 4))
    ins, outs = s.choice((1, 3, 4, 6, 9, 16)), s.choice((1, 15, 16, 17, 35))
    window, w = Window(kernel), (outs, *kernel, ins)
    zero_point = s.choice((-128, 0, s.integer(-128, 127)))
    places = tuple(i - k + 1 for i, k in zip(image, kernel, strict=True))
    return updated(
        s,
        lambda rule: Conv2DGradWeight(rule, w, window, zero_point),
        (1, *image, ins),
        (1, *places, outs),
        w,
        outs,
    )


def many_positions(s: Source) -> Sample:
    """More than are taken at a time, or whose sums int32 holds where gradients have 16 bits."""
    kernel, image = s.choice(((1, 1), (1, 1), (2, 3))), (s.choice((8, 16, 17, 19)), 16)
    ins, outs = s.choice((1, 3, 4, 6)), s.choice((1, 3, 8, 9))
    window, w = Window(kernel), (outs, *kernel, ins)
    places = tuple(i - k + 1 for i, k in zip(image, kernel, strict=True))
    zero_point = s.choice((-128, 127, 0))
    sample = updated(
        s,
        lambda rule: Conv2DGradWeight(rule, w, window, zero_point),
        (1, *image, ins),
        (1, *places, outs),
        w,
        outs,
    )
    step, dy, exponent, x, *rest = sample.inputs
    if s.boolean():  # all of them at their ends: the largest sum there is
        dy = np.full(dy.shape, np.iinfo(dy.dtype).max * s.choice((1, -1)), dy.dtype)
        x = np.full(x.shape, -128 if zero_point == 127 else 127, x.dtype)
    return replace(sample, inputs=(step, dy, exponent, x, *rest))


def in_groups(s: Source) -> Sample:
    """Groups that begin within a block of rows."""
    groups, ins, outs = s.choice((2, 3)), s.choice((1, 4, 5)), s.choice((1, 9, 17))
    w, zero_point = (groups * outs, 1, 1, ins), s.choice((-128, 7))
    return updated(
        s,
        lambda rule: GroupedConv2DGradWeight(rule, w, Window((1, 1)), zero_point),
        (1, 2, 2, groups * ins),
        (1, 2, 2, groups * outs),
        w,
        groups * outs,
    )


def channels_apart(s: Source) -> Sample:
    """A depthwise convolution: neighbours have rates of their own."""
    c, image, zero_point = s.choice((1, 3, 4, 9)), s.integer(2, 4), s.choice((-128, 9))
    w = (1, 2, 2, c)
    return updated(
        s,
        lambda rule: DepthwiseConv2DGradWeight(
            rule, w, Window((2, 2)), zero_point, tuple(range(c)), None
        ),
        (1, image, image, c),
        (1, image - 1, image - 1, c),
        w,
        c,
    )


def windows_apart(s: Source, image: tuple[int, int], outs: int) -> Sample:
    """Depthwise windows of all sizes; some of the channels are trained, or all."""
    kernel = s.choice(((3, 3), (5, 5), (7, 7), (s.integer(1, 9), s.integer(1, 30))))
    stride = s.choice(((1, 1), (1, 1), (2, 2), (s.integer(1, 3), s.integer(1, 3))))
    dilation = s.choice(((1, 1), (1, 1), (1, 1), (s.integer(1, 2), s.integer(1, 2))))
    spare = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    top, left = (s.choice((n // 2, 0, n, s.integer(0, n))) for n in spare)
    window = Window(kernel, stride, dilation, (top, spare[0] - top, left, spare[1] - left))
    places = tuple((n - 1) // by + 1 for n, by in zip(image, stride, strict=True))
    channels = s.choice((None, None, tuple(range(outs // 2, outs)), tuple(range(0, outs, 2))))
    trained = outs if channels is None else len(channels)
    ins, zero_point, w = trained + s.integer(0, 2), s.choice((-128, 127, 3)), (1, *kernel, trained)
    per_input = s.choice((1, 1, 2, 3))  # output channels, as a channel multiplier has them
    columns = tuple((ins - trained + j) // per_input for j in range(trained))
    sample = updated(
        s,
        lambda rule: DepthwiseConv2DGradWeight(rule, w, window, zero_point, columns, channels),
        (1, *image, ins),
        (1, *places, outs),
        w,
        trained,
    )
    step, dy, exponent, *rest = sample.inputs
    if s.boolean():
        dy = np.where(dy == 0, 1, dy).astype(dy.dtype)
    return replace(sample, inputs=(step, dy, exponent, *rest))


def small_windows_apart(s: Source) -> Sample:
    """On images that are taken at a time."""
    return windows_apart(s, (s.integer(1, 9), s.integer(1, 9)), s.integer(1, 9))


def large_windows_apart(s: Source) -> Sample:
    """On images of a few strips and blocks of columns."""
    image = s.choice(((s.integer(5, 24), s.integer(9, 40)), (s.integer(1, 6), s.integer(41, 140))))
    return windows_apart(s, image, s.integer(4, 9))


def added_up(s: Source) -> Sample:
    """Sums over samples, up to all that int32 holds."""
    outs, ins, bits = s.choice((1, 3, 5)), s.choice((1, 4, 7)), s.choice((0, 2, 4, 8))
    w = (outs, 1, 1, ins)
    op = ApplyUpdate(any_rule(s, outs, bits), "int8", 0)
    limit = s.choice((2**31 - 1, 2**20, 2**12))
    values = s.array(w, "int32", -limit, limit)
    sums = (
        TensorType(w, "int32"),
        np.where(s.array(w, "int8", 0, 1) > 0, values, 0).astype(np.int32),
    )
    return Sample.of(
        op, any_step(s), sums, exponent_near(s, 0), weights(s, w), *residual(s, math.prod(w), bits)
    )


def largest_sums(s: Source) -> Sample:
    """Sums that just fit 32 bits when they are moved to the left, or just do not."""
    positions, ins, outs, bits = s.choice((1, 1, 2, 4)), s.choice((1, 4, 5)), 3, s.choice((2, 4, 8))
    w, zero_point = (outs, 1, 1, ins), s.choice((-128, 127))
    at, e = any_step(s), exponent_near(s, 0)
    needed = 15 + (positions - 1).bit_length()
    left = 31 - needed + s.integer(-2, 3)
    near = -2 - int(at[1][4]) - int(e[1][0]) + left - 16
    rate = tuple(math.ldexp(s.choice((1.0, 1.5, -1.0)), near) for _ in range(outs))
    dy, x = ((1, 1, positions, c) for c in (outs, ins))
    return Sample.of(
        Conv2DGradWeight(UpdateRule(rate, bits, 3), w, Window((1, 1)), zero_point),
        at,
        (TensorType(dy, "int8"), np.full(dy, s.choice((127, -127)), np.int8)),
        e,
        (TensorType(x, "int8"), np.full(x, s.choice((127, -128)), np.int8)),
        weights(s, w),
        *residual(s, math.prod(w), bits),
    )


DRAWN = (
    fully_connected,
    largest_sums,
    window_of_one,
    few_positions,
    many_positions,
    in_groups,
    channels_apart,
    small_windows_apart,
    large_windows_apart,
    added_up,
)


# --------------------------------------------------------------------------------------- toolchains


@pytest.fixture(scope="module")
def compiled(
    c_compilers: list[tuple[str, ...]],
    sanitizing: dict[str, tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Toolchain]:
    """The bodies of a set, under sanitizers where a compiler has them."""
    checks = ("-DEXACT_BUFFERS", *SANITIZE) if sanitizing else ()
    command = next(iter(sanitizing.values())) if sanitizing else c_compilers[0]

    @cache
    def make(name: str) -> Toolchain:
        folder, flags = SETS[name]
        plain = [p for o in OPERATORS for p in sorted(FIRMWARE.glob(f"kernels/{o}/*update*.c"))]
        bodies = [body_of(p, folder) for p in plain] if folder else plain
        shared = shared_sources("dsp") if folder == "dsp" else []
        made = Toolchain(command, ("-O0", *flags, *checks), tmp_path_factory.mktemp(name))
        made.compile_objects([*bodies, *shared, *FIRMWARE.glob("runtime/*.c"), HARNESS])
        return made

    return make


def assert_is_the_reference(made: Toolchain, samples: Sequence[Sample]) -> None:
    for found, sample in zip(made.run(samples), samples, strict=True):
        for name, value in expected(sample).items():
            np.testing.assert_array_equal(
                found[name], value, f"{kernel_call(sample).function}: {name} of {sample.op}"
            )


def seeded(count: int) -> list[Sample]:
    return [draw(SeededSource(seed)) for draw in DRAWN for seed in range(count)]


# ------------------------------------------------------------------------------------------- tests


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("name", SETS)
def test_updates_compute_the_bits_of_numpy(name: str, compiled: Callable[[str], Toolchain]) -> None:
    assert_is_the_reference(compiled(name), seeded(40))


@pytest.mark.slow
@settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_updates_compute_the_bits_of_numpy_on_drawn_shapes(
    data: st.DataObject, compiled: Callable[[str], Toolchain]
) -> None:
    sample = data.draw(st.one_of([drawn(make) for make in DRAWN]))
    assert_is_the_reference(compiled(data.draw(st.sampled_from(sorted(SETS)))), [sample])
