"""The bodies for Helium compute the plain bodies' bits.

Here Arm's intrinsics are plain C, under sanitizers; so are the loops that are assembly on a chip. A
whole network in QEMU (tests/boards) runs these.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcutrain_host.toolchain import ZIG

from mcutrain.ir.graph import TensorType
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.spatial import Window
from tests.kernels.compiled import BodiesOfSet
from tests.kernels.test_dsp_bodies import DRAWN as OF_DSP
from tests.kernels.test_dsp_bodies import SAMPLES, SEEDS
from tests.kernels.test_host_bodies import (
    Shape,
    assert_same_bits,
    depthwise,
    depthwise_grad_input,
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
from tests.ops.cases import Geometry, Sample, Typed
from tests.ops.drawing import Source, drawn

BODIES = {p.stem: p for p in faster_bodies("helium")}
OF_SET = BodiesOfSet("helium", BODIES)
CORTEX_M55 = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m55", "-ffreestanding")


def tall_image(s: Source) -> Shape:
    """More rows than a strip has at a time; the result may overwrite what it is made of."""
    k, c = s.choice((3, 5, 7)), s.choice((1, 3))
    pad, stride = k // 2, s.choice(((1, 1), (1, 1), (2, 2), (4, 1)))
    window = Window((k, k), stride, (1, 1), (pad, pad, pad, pad))
    return Geometry(window, (s.integer(9, 15), s.choice((5, 16, 40)))), c, c


def small(s: Source, *shape: int) -> Typed:
    return TensorType(shape, "int8"), s.array(shape, "int8", -3, 3)


def halves(s: Source) -> Sample:
    """Sums of which many are halves to the second rounding, and limits around the zero point."""
    outs, zero_point = s.choice((4, 8, 12)), s.integer(-4, 4)
    mults = tuple(s.choice((2**30, 2**31 - 1)) for _ in range(outs))
    shifts = tuple(s.choice((-1, -1, -2, -3)) for _ in range(outs))
    low = s.choice((-128, zero_point - 1, zero_point, zero_point + 1))
    q = Requantize(mults, shifts, zero_point, low, 127)
    b = TensorType((outs,), "int32"), s.array((outs,), "int32", -9, 9)
    if s.boolean():
        ins = s.integer(1, 3)
        op = Conv2D(Window((1, 1)), s.integer(-2, 2), q, s.boolean())
        return Sample.of(op, small(s, 1, 4, 5, ins), small(s, outs, 1, 1, ins), b)
    k = s.choice((3, 5))
    window = Window((k, k), (1, 1), (1, 1), (k // 2,) * 4)
    filtered = DepthwiseConv2D(window, s.integer(-2, 2), q, s.boolean())
    x = small(s, 1, 4, s.choice((8, 7)), outs)
    return Sample.of(filtered, x, small(s, 1, k, k, outs), b)


TALL = tuple(lambda s, m=make: m(s, tall_image(s)) for make in (depthwise, depthwise_grad_input))
DRAWN = (*OF_DSP, *TALL, *TALL, *(halves,) * 3)


@cache
def samples() -> tuple[Sample, ...]:
    """Wide ones, and small ones of all operators, as far as a Helium body computes them."""
    return samples_of(BODIES, (*DRAWN, *SMALL), SEEDS, SAMPLES)


@pytest.fixture(scope="module")
def plain(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Toolchain:
    return OF_SET.plain(c_compilers[0], tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def helium(
    c_compilers: list[tuple[str, ...]],
    sanitizing: dict[str, tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Toolchain:
    """The Helium bodies, with sanitizers and each buffer alone where a compiler has them."""
    return OF_SET.sanitized(c_compilers, sanitizing, tmp_path_factory.mktemp("helium"))


# ------------------------------------------------------------------------------------------- tests


def test_the_samples_reach_every_helium_body() -> None:
    reached = {kernel_call(sample).function for sample in samples()}
    assert BODIES.keys() <= reached


@pytest.mark.slow
def test_helium_bodies_compute_the_bits_of_the_plain_bodies(
    helium: Toolchain, plain: Toolchain
) -> None:
    assert_same_bits(helium, plain, samples())


@pytest.mark.slow
@settings(
    max_examples=4,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_helium_bodies_compute_the_bits_of_the_plain_bodies_on_drawn_shapes(
    data: st.DataObject, helium: Toolchain, plain: Toolchain
) -> None:
    sample = data.draw(
        st.one_of([drawn(make) for make in DRAWN]).filter(partial(is_computed_by, BODIES))
    )
    assert_same_bits(helium, plain, [sample])


@pytest.mark.slow
def test_helium_bodies_compile_for_a_cortex_m55(
    c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    if ZIG not in c_compilers:
        pytest.skip("ziglang is not installed: no compiler for Arm")
    include = f"-I{FIRMWARE}/chips/cortex_m/include"
    for optimize in ("-O0", "-O2"):
        OF_SET.objects(ZIG, (*CORTEX_M55, optimize, include), tmp_path / optimize)
