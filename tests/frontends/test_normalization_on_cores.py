"""Normalization on emulated cores equals numpy's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.frontends.normalization import ChannelNormalization, InputQuantization
from tests.frontends.in_c import CORES, array_in_c, saved_by
from tests.frontends.test_normalization import SOURCES

HOW = ChannelNormalization.of([123.7, -32768, 5], [58.4, 9000, 1], InputQuantization(0.0187, -14))
MAIN = """
#include "mct_normalize.h"
static int8_t saved[2][300];

static int learn(void)
{
    static const mct_normalize_params params = {mults, biases, shifts, 3};
    mct_normalize_s16(&params, words, saved[0], 100);
    mct_normalize_u8(&params, bytes, saved[1], 100);
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_a_core_computes_the_same_numbers(core: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    words = random.normal([124, -9000, 5], [100, 9000, 2], (100, 3)).astype(np.int16)
    words[:2] = [[-32768] * 3, [32767] * 3]
    pixels = random.integers(0, 256, (100, 3)).astype(np.uint8)
    text = array_in_c("int16_t", "words", words) + array_in_c("uint8_t", "bytes", pixels)
    text += array_in_c("int16_t", "mults", np.array(HOW.mults))
    text += array_in_c("int32_t", "biases", np.array(HOW.biases))
    text += array_in_c("uint8_t", "shifts", np.array(HOW.shifts))
    found = saved_by(core, text + MAIN, SOURCES, tmp_path)
    expected = HOW.normalized(words), HOW.normalized(pixels)
    assert found == b"".join(x.tobytes() for x in expected)
    assert all(np.unique(x).size > 50 for x in expected)
