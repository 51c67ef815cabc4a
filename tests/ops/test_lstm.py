"""The LSTM at the limit of what its sums may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.ir.graph import TensorType
from mcutrain.ops.lstm import GATES, Lstm
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


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_a_part_at_the_end_of_int32_saturates_without_overflow(
    name: str, sanitizing: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    if name not in sanitizing:
        pytest.skip(f"{name} is absent or cannot link with {' '.join(SANITIZE)}")
    samples = [at_the_limit(1), at_the_limit(-1)]
    made = Toolchain(sanitizing[name], ("-O0", "-DEXACT_BUFFERS", *SANITIZE), tmp_path)
    kernel = FIRMWARE / "kernels" / "lstm" / "mct_lstm_s8.c"
    made.compile_objects([kernel, *FIRMWARE.glob("runtime/*.c"), HARNESS])
    wanted = list(map(wanted_of, samples))
    assert (wanted[0]["output 0"] == 127).all()
    assert_equal(made.run(samples), samples, wanted)
