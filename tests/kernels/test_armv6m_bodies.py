"""The bodies for Cortex-M0 and M0+ compute the bits of the plain ones and of numpy.

Here what their assembly does is plain C, under sanitizers, and the assembly runs in qemu-arm. Whole
networks run it on a virtual Pico (tests/boards/test_same_bits.py) and in QEMU
(tests/boards/test_library_on_cores.py).
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
from mcutrain_host.toolchain import ZIG

from mcutrain.ir.graph import TensorType
from mcutrain.ops.add import Add, Scaled
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.spatial import Window
from tests.drawing import drawn_by_commit
from tests.kernels.compiled import BodiesOfSet
from tests.kernels.test_dsp_bodies import large_bias
from tests.kernels.test_host_bodies import (
    WIDE,
    Shape,
    assert_same_bits,
    depthwise,
    depthwise_grad_input,
)
from tests.kernels.test_portable_bodies import (
    assert_is_the_reference,
    odd_tiles,
    odd_window,
    sums_beyond,
)
from tests.ops.c_harness import (
    FIRMWARE,
    SMALL,
    Toolchain,
    faster_bodies,
    include_flags,
    is_computed_by,
    kernel_call,
    samples_of,
)
from tests.ops.cases import Geometry, Sample, bias, requantize, tensor
from tests.ops.drawing import Source, drawn

ISA = "armv6m"
BODIES = {p.stem: p for p in faster_bodies(ISA)}
OF_SET = BodiesOfSet(ISA, BODIES)
CORTEX_M0 = ("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m0plus", "-O2", "-ffreestanding")
IN_ASSEMBLY = ("-DMCT_ARMV6M_ASSEMBLY=1",)
"""Its instructions are those of a Cortex-A, too, whose programs qemu-arm runs."""
FLAGS = {"usual": (), "few words": ("-DMCT_ARMV6M_WORDS=150",)}
"""So few that sums have parts and images bands, of which there are three and more."""
SEEDS = 24
SAMPLES = 4
"""Of each way to draw them and each function; what the seeds draw beyond that is left out."""


# ----------------------------------------------------------------------------------------- samples


def extreme(s: Source, shape: Sequence[int]) -> tuple[TensorType, np.ndarray]:
    """Of int8's limits alone, most of them -128."""
    x = s.array(shape, "int8", -128, 127)
    return TensorType(tuple(shape), "int8"), np.where(x < 96, -128, 127).astype(np.int8)


def extreme_conv_2d(s: Source) -> Sample:
    """Two products in one word that are as large as they can be, and one more than fits."""
    ins, outs, k = s.choice((1, 4, 7, 200)), s.choice((1, 2, 5)), s.choice((1, 2))
    op = Conv2D(Window((k, k)), s.choice((-128, 127, 0)), requantize(s, outs), s.boolean())
    x, w = extreme(s, (1, k + 1, k + 2, ins)), extreme(s, (outs, k, k, ins))
    return Sample.of(op, x, w, bias(s, outs))


def usual_shifts(s: Source) -> Sample:
    """Sums around those that clamp, by multipliers and shifts of all kinds."""
    ins, outs = s.choice((1, 3, 16)), s.choice((2, 7))
    shifts = tuple(-s.integer(1, 14) for _ in range(outs))
    mults = tuple(s.choice((2**30, 2**31 - 1, s.integer(2**30, 2**31 - 1))) for _ in range(outs))
    low, high = sorted((s.integer(-128, 127), s.integer(-128, 127)))
    zero = s.choice((low, high, s.integer(-128, 127)))
    q = Requantize(mults, shifts, zero, low, high, rounds_once=s.boolean())
    b = np.array([s.integer(-(2**9) << -n, 2**9 << -n) for n in shifts], np.int32)
    op = Conv2D(Window((1, 1)), s.integer(-128, 127), q, s.boolean())
    x, w = tensor(s, (1, 3, 4, ins)), tensor(s, (outs, 1, 1, ins))
    return Sample.of(op, x, w, (TensorType((outs,), "int32"), b))


def next_to_nothing(s: Source) -> Sample:
    """Channels whose outputs are what their biases say, or one more."""
    ins, outs = s.choice((1, 8)), 7
    shifts = tuple(-s.integer(12, 31) for _ in range(outs))
    zero, edges = s.integer(-128, 127), (-129, -128, -1, 0, 1, 127, 128)
    near = [s.choice((0, 1, -1, ins * 255 * 128, s.integer(-(2**18), 2**18))) for _ in range(outs)]
    most = 2**31 - 1 - ins * 255 * 128
    b = [
        max(min(((2 * s.choice(edges) + s.choice((-1, 0, 1))) << -n) // 2 + d, most), -most)
        for n, d in zip(shifts, near, strict=True)
    ]
    q = Requantize((2**31 - 1,) * outs, shifts, zero, rounds_once=s.boolean())
    op = Conv2D(Window((1, 1)), s.integer(-128, 127), q, s.boolean())
    x, w = tensor(s, (1, 4, 4, ins)), tensor(s, (outs, 1, 1, ins))
    return Sample.of(op, x, w, (TensorType((outs,), "int32"), np.array(b, np.int32)))


def halves(s: Source) -> Sample:
    """Operands that are rounded from the middle of two integers, of which every unit is seen."""
    left, mult = s.choice((15, 16, 18)), s.choice((2**30, -(2**30)))
    scaled = [Scaled(s.integer(-3, 3), mult, -left - s.integer(0, 2)) for _ in range(2)]
    op = Add(*scaled, Scaled(0, 2**30, -1), left, -128, 127, s.boolean())
    return Sample.of(op, *(tensor(s, (1, 3, 5, 7)) for _ in range(2)))


def usual_window(s: Source) -> Shape:
    """Depthwise windows as networks have them, over images of one row or column and more."""
    k, stride, channels = s.choice((3, 3, 3, 5, 7)), s.choice((1, 1, 2)), s.choice((1, 2))
    sides = (k // 2, s.choice((k // 2, k // 2 - 1, 0)))
    window = Window((k, k), (stride, stride), padding=(*sides, *s.choice((sides, (0, k // 2)))))
    tall, wide = k - window.padding[0] - window.padding[1], k - sum(window.padding[2:])
    size = (max(tall, s.integer(1, 14)), max(wide, s.integer(1, 14)))
    return Geometry(window, size), channels, channels


def extreme_depthwise(s: Source) -> Sample:
    """Taps of -128 and 127, neighbours of which are a pair or are not."""
    geometry, channels, _ = s.choice((odd_window, usual_window))(s)
    op = DepthwiseConv2D(
        geometry.window, s.choice((-128, 127, 0)), requantize(s, channels), s.boolean()
    )
    x = extreme(s, (1, *geometry.x, channels))
    return Sample.of(op, x, extreme(s, (1, *geometry.window.kernel, channels)), bias(s, channels))


def alone(s: Source) -> Sample:
    """One window, whose row of one or more taps fills its pairs or does not."""
    kernel = (s.choice((1, 2, 3, 8)), s.integer(1, 16))
    pads = (0, 0, s.integer(0, 2), 0)
    geometry = Geometry(Window(kernel, padding=pads), kernel)
    make = s.choice((depthwise, depthwise_grad_input))
    return make(s, (geometry, 1, 1))


DRAWN: tuple[Callable[[Source], Sample], ...] = (
    *WIDE,
    large_bias,
    odd_tiles,
    sums_beyond,
    extreme_conv_2d,
    usual_shifts,
    next_to_nothing,
    halves,
    lambda s: depthwise(s, odd_window(s)),
    lambda s: depthwise_grad_input(s, odd_window(s)),
    lambda s: depthwise(s, usual_window(s)),
    lambda s: depthwise_grad_input(s, usual_window(s)),
    extreme_depthwise,
    alone,
)


@cache
def samples() -> tuple[Sample, ...]:
    """Wide ones, and small ones of all operators, as far as one of these bodies computes them."""
    return samples_of(BODIES, (*DRAWN, *SMALL), SEEDS, SAMPLES)


@pytest.fixture(scope="module")
def plain(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Toolchain:
    return OF_SET.plain(c_compilers[0], tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module", params=drawn_by_commit(tuple(FLAGS), 1))
def armv6m(
    c_compilers: list[tuple[str, ...]],
    sanitizing: dict[str, tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Toolchain:
    """These bodies, with sanitizers and each buffer alone where a compiler has them."""
    folder = tmp_path_factory.mktemp(ISA)
    return OF_SET.sanitized(c_compilers, sanitizing, folder, FLAGS[request.param])


@pytest.fixture(scope="module", params=FLAGS)
def assembly(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Toolchain:
    """The bodies with the instructions themselves."""
    return OF_SET.in_qemu(
        (*IN_ASSEMBLY, *FLAGS[request.param]), tmp_path_factory.mktemp("assembly")
    )


# ------------------------------------------------------------------------------------------- tests


@pytest.mark.slow
def test_the_samples_reach_every_body() -> None:
    assert BODIES.keys() <= {kernel_call(sample).function for sample in samples()}


@pytest.mark.slow
def test_the_bodies_compute_the_bits_of_the_plain_ones(armv6m: Toolchain, plain: Toolchain) -> None:
    assert_same_bits(armv6m, plain, samples())


@pytest.mark.draws(1)
@pytest.mark.slow
def test_the_bodies_in_assembly_compute_the_bits_of_the_plain_ones(
    assembly: Toolchain, plain: Toolchain
) -> None:
    assert_same_bits(assembly, plain, samples())


@pytest.mark.slow
@settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_the_bodies_plain_ones_and_numpy_compute_the_same_bits_on_drawn_shapes(
    data: st.DataObject, armv6m: Toolchain, plain: Toolchain
) -> None:
    sample = data.draw(
        st.one_of([drawn(make) for make in DRAWN]).filter(partial(is_computed_by, BODIES))
    )
    assert_same_bits(armv6m, plain, [sample])
    assert_is_the_reference(armv6m, [sample])


@pytest.mark.slow
def test_the_bodies_compile_for_a_cortex_m0(
    c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    if ZIG not in c_compilers:
        pytest.skip("ziglang is not installed: no compiler for Arm")
    OF_SET.objects(ZIG, (*CORTEX_M0, f"-I{FIRMWARE}/chips/cortex_m/include"), tmp_path)


LIMITS = """
#include <stdio.h>
#include "mct_armv6m.h"

/* Every two of int8's limits by every two; both ways, if packing says that they are one. */
int main(void)
{
    static const int8_t ends[] = {-128, -127, -1, 0, 1, 127};
    int32_t wrong = 0, inexact = 0;
    for (int32_t n = 0; n < 6 * 6 * 6 * 6; n++) {
        const int8_t a = ends[n % 6], c = ends[n / 6 % 6];
        const int8_t wa = ends[n / 36 % 6], wc = ends[n / 216];
        for (int32_t odd = 0; odd < 2; odd++) {
            _Alignas(4) int8_t x[4] = {0}, w[4] = {0};
            uint32_t values[2], weights[6] = {5, 7};
            int32_t sums[2], exact[2];
            x[odd] = a, x[odd + 2] = c, w[odd] = wa, w[odd + 2] = wc;
            const int32_t sum = a * wa + c * wc;
            mct_armv6m_pack(x, 1, values);
            const mct_armv6m_packed first = mct_armv6m_pack_weights(w, 1, weights + 2);
            const mct_armv6m_packed second = mct_armv6m_pack_weights(w, 1, weights + 4);
            mct_armv6m_dots_exact(values, 1, weights, exact, weights + 6);
            mct_armv6m_dots(values, 1, weights, sums, weights + 6);
            wrong += first.sum != wa + wc || second.is_exact != first.is_exact;
            wrong += exact[0] != 5 + sum || exact[1] != 7 + sum;
            wrong += first.is_exact && (sums[0] != 5 + sum || sums[1] != 7 + sum);
            inexact += !first.is_exact;
        }
    }
    printf("%d %d", (int)wrong, (int)inexact);
    return 0;
}
"""
SCALES = """
#include <stdio.h>
#include "mct_armv6m_scale.h"

static uint32_t state = 7;

static int32_t drawn(int32_t low, int32_t high)
{
    state = mct_xorshift32(state);
    return low + (int32_t)(state % (uint32_t)(high - low + 1));
}

/* Sums around int8's limits and some beyond, of each multiplier. */
int main(void)
{
    int32_t wrong = 0, fast = 0;
    for (int32_t n = 0; n < 600; n++) {
        const int8_t shift = (int8_t)-drawn(1, 13);
        const int32_t mult = n % 3 == 0 ? (1 << 30) + drawn(0, 2) : n % 3 == 1
            ? INT32_MAX - drawn(0, 2) : drawn(1 << 30, INT32_MAX);
        const int32_t low = drawn(-128, 0), high = drawn(0, 127);
        const mct_requantize q = {&mult, &shift, 0, n & 1, drawn(low, high), low, high};
        const mct_armv6m_scale scale = mct_armv6m_scale_of(&q, 0, 0, 8);
        const int32_t around = 300 << -shift, stride = 1 + around / 20000;
        fast += scale.limit != 0;
        for (int32_t s = -around; s <= around; s += drawn(1, stride)) {
            int8_t y[2], alone;
            uint8_t mask[2] = {0, 0};
            const int32_t sum = (int32_t)mct_armv6m_begin(&scale, s);
            const mct_tiled_output out = mct_armv6m_output_of(&q, 1, y, mask);
            mct_armv6m_store_sums(&out, &sum, 1, &scale, 0, 1, 0, 1);
            const mct_tiled_output bare = mct_armv6m_output_of(&q, 1, &alone, NULL);
            mct_armv6m_store_sums(&bare, &sum, 1, &scale, 0, 0, 0, 5);
            mct_requantize_store(&q, s, 0, 0, y + 1, mask + 1);
            wrong += y[0] != y[1] || mask[0] != mask[1] || alone != y[0];
        }
    }
    printf("%d %d", (int)wrong, fast > 500);
    return 0;
}
"""


def printed(
    source: str, command: tuple[str, ...], tmp_path: Path, flags: Sequence[str] = ()
) -> str:
    main = tmp_path / "main.c"
    main.write_text(source)
    folders = (f"isa/{ISA}", "runtime")
    own = [str(path) for folder in folders for path in FIRMWARE.glob(f"{folder}/*.c")]
    made = [*command, "-std=c11", "-O1", *flags, *include_flags(), str(main), *own, "-o"]
    assert subprocess.run([*made, str(tmp_path / "main")], capture_output=True).returncode == 0
    return subprocess.run([tmp_path / "main"], capture_output=True, text=True).stdout


@pytest.mark.slow
def test_pairs_of_products_at_int8s_limits_are_right_or_known_not_to_be(
    c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """Not exact are only those by two weights of -128, of which there are 36 on each side."""
    assert printed(LIMITS, c_compilers[0], tmp_path) == "0 72"


@pytest.mark.slow
def test_a_sum_that_is_scaled_by_one_product_has_the_bits_of_the_long_way(
    c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    assert printed(SCALES, c_compilers[0], tmp_path) == "0 1"
