"""The portable bodies, by tiles, compute the bits of the plain ones and of numpy.

Tiles are as large as a processor has registers: each commit compiles two sizes, under sanitizers.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.ir.graph import TensorType
from mcutrain.ops.add import Add, Scaled
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.spatial import Window
from mcutrain.simulation.build import SANITIZE
from mcutrain.target import PORTABLE
from tests.drawing import drawn_by_commit
from tests.kernels.test_dsp_bodies import (
    dilated_logits,
    large_bias,
    layer_of_one_position,
    logits,
    part_of_a_layer,
)
from tests.kernels.test_host_bodies import (
    WIDE,
    Shape,
    assert_same_bits,
    depthwise,
    depthwise_grad_input,
)
from tests.ops.c_harness import (
    FIRMWARE,
    HARNESS,
    SMALL,
    Toolchain,
    expected,
    faster_bodies,
    include_flags,
    is_computed_by,
    kernel_call,
    plain_body,
    samples_of,
    shared_sources,
)
from tests.ops.cases import Geometry, Sample, bias, requantize, tensor, weight
from tests.ops.drawing import Source, drawn

BODIES = {p.stem: p for p in faster_bodies(PORTABLE)}
SEEDS = 24
SAMPLES = 6
"""Of each way to draw them and each function; what the seeds draw beyond that is left out."""

TILES = {
    "armv6-m": (4, 2, 1, 0, 196),
    "others": (2, 2, 4, 1, 196),
    "larger": (4, 2, 4, 1, 60),
    "many registers": (4, 3, 8, 1, 196),
}
"""Positions, channels, terms, whether there is a long product, words of depthwise sums and rows:
what mct_tiled.h chooses and may choose."""
COMPILED = drawn_by_commit(tuple(TILES), 1)
FLAGS = ("TILED_POSITIONS", "TILED_CHANNELS", "TILED_TERMS", "LONG_PRODUCT", "TILED_PLANE_WORDS")


def flags_of(name: str) -> tuple[str, ...]:
    return tuple(f"-DMCT_{flag}={n}" for flag, n in zip(FLAGS, TILES[name], strict=True))


def odd_tiles(s: Source) -> Sample:
    """Positions and channels that fill no tile, and terms that fill no round of its loop."""
    ins, outs = s.integer(1, 13), s.choice((1, 2, 3, 5, 7))
    k, stride = s.choice((1, 1, 2, 3, 5)), s.integer(1, 2)
    size = (s.integer(k, k + 8), s.integer(k, k + 8))
    left = s.choice((0, k // 2, s.integer(0, 20)))
    window = Window((k, k), (stride, stride), padding=(k // 2, 0, left, s.choice((k // 2, 9))))
    op = Conv2D(window, s.choice((-128, 127, s.integer(-128, 127))), requantize(s, outs), True)
    x, w = tensor(s, (1, *size, ins)), weight(s, (outs, k, k, ins))
    return Sample.of(op, x, w, bias(s, outs))


def sums_beyond(s: Source) -> Sample:
    """Biases that are less than 2**30 away from 0, with sums that are more, on both sides."""
    ins, positions = s.choice((4, 200)), s.choice((1, 4, 9))
    shift, sign = s.choice((-1, -2, -19, -20)), s.choice((1, -1))
    biases = [sign * (2**30 - 100 * 255 * ins), -sign * (2**30 - 100 * 255 * ins)]
    op = Conv2D(Window((1, 1)), -128, Requantize((2**31 - 1,), (shift,), 3), s.boolean())
    x = TensorType((1, 1, positions, ins), "int8"), np.full((1, 1, positions, ins), 127, np.int8)
    w = np.full((2, 1, 1, ins), 127 * sign, np.int8)
    w[1] = -127 * sign
    b = TensorType((2,), "int32"), np.array(biases, np.int32)
    return Sample.of(op, x, (TensorType(w.shape, "int8"), w), b)


def halves(s: Source) -> Sample:
    """Sums of operands that are rounded from the middle of two integers, by all kinds of shifts."""
    left, mults = s.choice((15, 20, 21)), (2**30, 2**31 - 1, -(2**30))
    a, b = (Scaled(s.integer(-128, 127), s.choice(mults), -s.choice((0, 1, 2))) for _ in range(2))
    y = Scaled(s.integer(-128, 127), s.choice(mults[:2]), -s.choice((0, 1, left - 2, left - 1)))
    op = Add(a, b, y, left, -128, s.choice((127, 100)), s.boolean())
    return Sample.of(op, *(tensor(s, (1, 3, 5, 7)) for _ in range(2)))


def odd_window(s: Source) -> Shape:
    """Depthwise windows that the rows have loops for, and others; rows of more than one round."""
    channels, k = s.choice((1, 3)), s.choice((1, 2, 3, 3, 5, 7, 7))
    tall, stride = s.choice((1, 3, k)), s.choice((1, 2, 2, 3))
    dilation = s.choice((1, 1, 2))
    span = (tall - 1) * dilation + 1
    padding = (s.integer(0, span), s.integer(0, span), s.integer(0, k), s.integer(0, k))
    window = Window((tall, k), (s.integer(1, 3), stride), (dilation, 1), padding)
    size = (s.integer(span, span + 6), s.integer(k, s.choice((k + 9, 75))))
    return Geometry(window, size), channels, channels


def long_rows(s: Source) -> Sample:
    """Rows whose sums are made in pieces, one below the other, and are not clamped."""
    kernel = (1, s.choice((1, 3)))
    window = Window(kernel, padding=(0, 0, s.integer(0, 1), 0))
    q = Requantize((s.integer(2**30, 2**31 - 1),), (-7,), s.integer(-9, 9))
    op = DepthwiseConv2D(window, s.integer(-128, 127), q, s.boolean())
    x = tensor(s, (1, s.choice((2, 2, 3)), s.integer(67, 72), 2))
    return Sample.of(op, x, weight(s, (1, *kernel, 2)), tensor(s, (2,), "int32", 2**10))


def unread_pixels(s: Source) -> Shape:
    """Rows with pixels right of their last window, of which whole tiles are made."""
    k, stride, left = s.choice((3, 5)), s.integer(2, 3), s.integer(1, 2)
    window = Window((k, k), (1, stride), padding=(1, 1, left, 0))
    wide = (4 * s.integer(1, 3) - 1) * stride + k - left + s.integer(1, stride - 1)
    return Geometry(window, (s.integer(k, k + 3), wide)), 2, 2


DRAWN: tuple[Callable[[Source], Sample], ...] = (
    *WIDE,
    *(partial(layer_of_one_position, ins=ins) for ins in (1, 3, 64)),
    *(partial(logits, ins=ins) for ins in (1, 3, 27, 64)),
    part_of_a_layer,
    dilated_logits,
    large_bias,
    odd_tiles,
    sums_beyond,
    lambda s: depthwise(s, odd_window(s)),
    lambda s: depthwise_grad_input(s, odd_window(s)),
    long_rows,
    lambda s: depthwise(s, unread_pixels(s)),
    halves,
)


@cache
def samples() -> tuple[Sample, ...]:
    """Wide ones, and small ones of all operators, as far as a portable body computes them."""
    return samples_of(BODIES, (*DRAWN, *SMALL), SEEDS, SAMPLES)


def compiled(
    command: tuple[str, ...], flags: Sequence[str], folder: Path, bodies: Sequence[Path]
) -> Toolchain:
    made = Toolchain(command, tuple(flags), folder)
    made.compile_objects([*bodies, *FIRMWARE.glob("runtime/*.c"), HARNESS])
    return made


@pytest.fixture(scope="module")
def plain(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Toolchain:
    bodies = [plain_body(path) for path in BODIES.values()]
    return compiled(c_compilers[0], ("-O1",), tmp_path_factory.mktemp("plain"), bodies)


@pytest.fixture(scope="module")
def tiled(
    c_compilers: list[tuple[str, ...]],
    sanitizing: dict[str, tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Toolchain]:
    """The portable bodies with a size of tiles; sanitized where a compiler can do it."""

    @cache
    def make(name: str) -> Toolchain:
        folder, own = tmp_path_factory.mktemp("tiled"), ("-O0", *flags_of(name))
        bodies = [*BODIES.values(), *shared_sources(PORTABLE)]
        if not sanitizing:
            return compiled(c_compilers[0], own, folder, bodies)
        command = next(iter(sanitizing.values()))
        return compiled(command, (*own, "-DEXACT_BUFFERS", *SANITIZE), folder, bodies)

    return make


def assert_is_the_reference(made: Toolchain, drawn: Sequence[Sample]) -> None:
    for found, sample in zip(made.run(drawn), drawn, strict=True):
        for name, value in expected(sample).items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name} of {sample.op}")


# ------------------------------------------------------------------------------------------- tests


def test_the_samples_reach_every_portable_body() -> None:
    assert BODIES.keys() <= {kernel_call(sample).function for sample in samples()}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_tiles_of_every_size_compute_the_bits_of_the_plain_bodies(
    name: str, tiled: Callable[[str], Toolchain], plain: Toolchain
) -> None:
    assert_same_bits(tiled(name), plain, samples())


@pytest.mark.slow
@settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_tiles_plain_bodies_and_numpy_compute_the_same_bits_on_drawn_shapes(
    data: st.DataObject, tiled: Callable[[str], Toolchain], plain: Toolchain
) -> None:
    sample = data.draw(
        st.one_of([drawn(make) for make in DRAWN]).filter(partial(is_computed_by, BODIES))
    )
    made = tiled(data.draw(st.sampled_from(COMPILED)))
    assert_same_bits(made, plain, [sample])
    assert_is_the_reference(made, [sample])


PRODUCTS = """
#include <stdio.h>
#include "mct_tiled_requantize.h"

static const int32_t ends[] = {
    0, 1, 32767, 32768, 65535, 65536, 98304, 1 << 29, (1 << 30) - 65536, (1 << 30) - 1,
    -1, -32768, -32769, -65536, -(1 << 30) + 1, -(1 << 30)};

static int32_t drawn(uint32_t *state, int32_t n)
{
    *state = mct_xorshift32(*state);
    return (int32_t)*state >> (n & 31);
}

int main(void)
{
    uint32_t state = 7;
    int32_t wrong = 0;
    for (int32_t n = 0; n < 1000000; n++) {
        const int32_t x = n < 256 ? 2 * ends[n / 16] : drawn(&state, n);
        const int32_t m = n < 256 ? 2 * ends[n % 16] + (n & 1) : drawn(&state, n >> 5 & 1);
        const int64_t product = (int64_t)x * m;
        wrong += mct_high_half(x, m) != (int32_t)(product >> 32);
        wrong += mct_long_product_of(x, m).high != (int32_t)(product >> 32);
        if (x != INT32_MIN || m != INT32_MIN) {
            wrong += mct_high_mul(x, m) != (int32_t)((product + (INT64_C(1) << 30)) >> 31);
        }
        const int32_t part = x / (MCT_TILED_HIGH_ALONE ? 4 : 2);
        const int64_t less = (int64_t)part * m;
        wrong += mct_tiled_high_mul(part, m) != (int32_t)((less + (INT64_C(1) << 30)) >> 31);
    }
    printf("%d", wrong);
    return 0;
}
"""


@pytest.mark.draws(2)
@pytest.mark.parametrize("name", TILES)
def test_the_high_half_of_a_product_is_right_with_and_without_a_long_product(
    name: str, c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    source = tmp_path / "products.c"
    source.write_text(PRODUCTS)
    flags = ("-std=c11", "-O1", *flags_of(name), *include_flags())
    made = [*c_compilers[0], *flags, str(source), "-o", str(tmp_path / "products")]
    assert subprocess.run(made, capture_output=True).returncode == 0
    done = subprocess.run([tmp_path / "products"], capture_output=True, text=True)
    assert done.stdout == "0"
