"""Rules of updates compute numpy's bits in C, under sanitizers, up to the ends of every format."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mcutrain.ir.graph import TensorType
from mcutrain.ops.gradients import EXPONENT, STEP
from mcutrain.ops.training import ApplyUpdate
from mcutrain.ops.updating import AdaptedUpdate
from mcutrain.simulation.build import SANITIZE
from mcutrain.update_rules import RULES, AdaptingRule, ChannelGradients
from tests.kernels.test_updates import assert_is_the_reference
from tests.ops.c_harness import FIRMWARE, HARNESS, Toolchain
from tests.ops.cases import Sample, Typed, apply_update
from tests.ops.drawing import SeededSource

OTHERS = [rule for rule in RULES.values() if rule is not None]
SHAPES = {"int8": (2, 1, 1, 5), "int32": (4,), "int16": (4,)}
BITS = {"int8": 8, "int32": 0, "int16": -2}
ENDS = (-(2**31), 2**31 - 1)
EXPONENTS = (-128, 0, 127)


@pytest.fixture(scope="module")
def made(
    c_compilers: list[tuple[str, ...]],
    sanitizing: dict[str, tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Toolchain:
    checks = ("-DEXACT_BUFFERS", *SANITIZE) if sanitizing else ()
    command = next(iter(sanitizing.values())) if sanitizing else c_compilers[0]
    found = Toolchain(command, ("-O0", *checks), tmp_path_factory.mktemp("rules"))
    kernels = [
        p for o in ("apply_update", "update_rule") for p in FIRMWARE.glob(f"kernels/{o}/*.c")
    ]
    found.compile_objects([*kernels, *FIRMWARE.glob("runtime/*.c"), HARNESS])
    return found


def step(mult_q31: int, shift: int, update: int) -> Typed:
    return STEP, np.array([12345, update, 0, mult_q31, shift], np.int64)


def slots_at_the_ends(rule: AdaptingRule, rows: int, count: int, exponent: int) -> list[Typed]:
    """What the rule keeps after two gradients as large as they can be."""
    values = tuple(slot.value for slot in rule.slots(rows, count))
    index = np.arange(rows * count).reshape(rows, count)
    for update in range(2):
        sums = np.full((rows, count), ENDS[update])
        gradients = ChannelGradients(sums, exponent, index, 99, update)
        values = rule.direct(gradients, values)[1]
    return [(TensorType(v.shape, str(v.dtype)), v) for v in values]


def sample(
    rule: AdaptingRule, dtype: str, sums: Sequence[int], exponents: tuple[int, int], at: Typed
) -> Sample:
    """exponents: of this gradient, and of the ones before."""
    shape, bits = SHAPES[dtype], BITS[dtype]
    size = int(np.prod(shape))
    parameter = (TensorType(shape, dtype), np.full(shape, np.iinfo(dtype).max // 2, dtype))
    residual = [(TensorType((size,), "uint8"), np.full(size, 200, np.uint8))] if bits > 0 else []
    return Sample.of(
        ApplyUpdate(AdaptedUpdate((2.0**-20,), bits, 7, rule), "int8"),
        at,
        (TensorType(shape, "int32"), np.resize(np.array(sums, np.int32), shape)),
        (EXPONENT, np.array([exponents[0], -128, -128], np.int8)),
        parameter,
        *residual,
        *slots_at_the_ends(rule, shape[0], size // shape[0], exponents[1]),
    )


@pytest.mark.slow
@pytest.mark.draws(3)
@pytest.mark.parametrize("rule", OTHERS, ids=lambda rule: rule.name)
@pytest.mark.parametrize("dtype", SHAPES)
def test_a_rule_has_the_bits_of_numpy_at_the_ends_of_sums_and_exponents(
    rule: AdaptingRule, dtype: str, made: Toolchain
) -> None:
    sums = ((ENDS[0],), (ENDS[1],), ENDS, (0,), (1,), (0, ENDS[0]), (-1, 1))
    steps = (step(2**30, -6, 3), step(2**31 - 1, 0, 2**32 - 1), step(0, 0, 0))
    samples = [
        sample(rule, dtype, values, (now, before), at)
        for values in sums
        for now in EXPONENTS
        for before in EXPONENTS
        for at in steps
    ]
    assert_is_the_reference(made, samples)


def test_rules_have_the_bits_of_numpy_on_seeded_gradients(made: Toolchain) -> None:
    kinds = ("conv", "depthwise", "bias", "difference")
    drawn = [apply_update(SeededSource(seed), kind) for kind in kinds for seed in range(120)]
    samples = [s for s in drawn if isinstance(s.op.rule, AdaptedUpdate)]  # type: ignore[attr-defined]
    assert len(samples) > 50
    assert_is_the_reference(made, samples)
