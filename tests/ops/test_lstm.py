"""Recurrent layers at the limits of what their sums and derivatives may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.ir.graph import TensorType
from mcutrain.ops.gradients import EXPONENT, STEP, OutputStage
from mcutrain.ops.gru import Gru
from mcutrain.ops.lstm import GATES, Lstm
from mcutrain.ops.recurrent import BACK_LIMIT, Recurrent
from mcutrain.simulation.build import SANITIZE
from tests.ops.c_harness import FIRMWARE, HARNESS, Toolchain
from tests.ops.cases import Sample
from tests.ops.test_contract import assert_equal, wanted_of

UNITS = 520
LIMIT = 2**24 // 255
"""Sum of a row's weights: 255 times that, 7 bits to the left, is just below 2**31."""


def at_the_limit(sign: int) -> Sample:
    """From the second step on h is 255 above its zero point, and its part near the end of int32."""
    u = np.zeros((GATES * UNITS, UNITS), np.int8)
    u[:, : LIMIT // 127] = 127
    u[:, LIMIT // 127] = LIMIT % 127
    u[: 2 * UNITS] *= sign
    largest = 2**31 - 2**11
    op = Lstm(
        0,
        ((2**30,) * GATES, (0,) * GATES),
        ((largest,) * GATES, (7,) * GATES),
        (2**30, -20),
        -128,
    )
    b = np.full(GATES * UNITS, 100_000, np.int32)
    b[: 2 * UNITS] *= 1 if sign > 0 else 0
    inputs = [np.zeros((1, 3, 1), np.int8), np.ones((GATES * UNITS, 1), np.int8), u]
    typed = [(TensorType(data.shape, "int8"), data) for data in inputs]
    return Sample.of(op, *typed, (TensorType(b.shape, "int32"), b))


def lowest_cell(limit: int) -> Sample:
    """A cell state that falls by one a step, to the lowest there is; all states are outputs."""
    stages = ((2**30,) * GATES, (0,) * GATES)
    op = Lstm(
        0,
        stages,
        stages,
        (2**30, -22),
        0,
        cell_integer_bits=0,
        cell_limit=limit,
        saves_history=True,
    )
    inputs = [np.zeros((1, 4, 1), np.int8), *[np.zeros((GATES, 1), np.int8)] * 2]
    b = np.array([1, 1, -1, 1], np.int32) * 100_000
    typed = [(TensorType(data.shape, "int8"), data) for data in inputs]
    return Sample.of(op, *typed, (TensorType(b.shape, "int32"), b))


def growing(kind: type[Recurrent], dtype: str, steps: int) -> Sample:
    """Derivatives of which each step makes many times more; all that is added has one sign."""
    units, gates = 3, kind.gates
    stages = ((2**31 - 1,) * gates, (0,) * gates)
    layer = kind(0, stages, stages, (2**30, 16 - kind.largest_state.bit_length()), 0)
    rows = [np.full((gates * units, 2), 127), np.full((gates * units, units), 127)]
    x = [np.full((1, steps, 2), 0), *rows]
    read = [(TensorType(v.shape, "int8"), v.astype(np.int8)) for v in x]
    for length in (gates * units, units)[: 1 + kind.has_h_bias]:
        read.append((TensorType((length,), "int32"), np.zeros(length, np.int32)))
    read.append((TensorType((steps, units), "int16"), np.zeros((steps, units), np.int16)))
    read.append((TensorType((steps, units), "int8"), np.zeros((steps, units), np.int8)))
    dy = np.full((1, steps, units), np.iinfo(dtype).max, dtype)
    op = kind.gates_gradient(OutputStage((1.0,), False, dtype, 1), (1, steps, gates * units), layer)
    at = (STEP, np.array([1, 0, 0, 0, 0])), (TensorType(dy.shape, dtype), dy)
    none = EXPONENT, np.zeros(3, np.int8)
    return Sample.of(op, *at, none, *read, none)


@pytest.mark.parametrize("kind", [Lstm, Gru])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_derivatives_that_grow_saturate(kind, dtype) -> None:
    sample = growing(kind, dtype, 128)
    sums = sample.op.sums(sample.inputs[1], *sample.inputs[3:-1])
    assert BACK_LIMIT / 8 < np.abs(sums).max() < 2**31


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_a_part_at_the_end_of_int32_saturates_without_overflow(
    name: str, sanitizing: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    if name not in sanitizing:
        pytest.skip(f"{name} is absent or cannot link with {' '.join(SANITIZE)}")
    samples = [at_the_limit(1), at_the_limit(-1)]
    samples += map(lowest_cell, (2**15, 2**15 - 1))
    samples += [growing(kind, dtype, 128) for kind in (Lstm, Gru) for dtype in ("int8", "int16")]
    made = Toolchain(sanitizing[name], ("-O0", "-DEXACT_BUFFERS", *SANITIZE), tmp_path)
    kernels = sorted({FIRMWARE / source for sample in samples for source in sample.call.sources})
    made.compile_objects([*kernels, *FIRMWARE.glob("runtime/*.c"), HARNESS])
    wanted = list(map(wanted_of, samples))
    assert (wanted[0]["output 0"] == 127).all()
    assert [w["output 1"].min() for w in wanted[2:4]] == [-(2**15), 1 - 2**15]
    assert_equal(made.run(samples), samples, wanted)
