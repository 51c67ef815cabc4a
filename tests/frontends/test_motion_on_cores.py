"""Windows of motion on emulated cores have numpy's features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.frontends import motion
from mcutrain.frontends.motion import Motion, SensorAxis
from tests.frontends.in_c import CORES, array_in_c, saved_by
from tests.frontends.test_motion import SOURCES, moved

AXES = (SensorAxis(-3, 1), SensorAxis(16384, 15), SensorAxis(), SensorAxis(100, 7))
HOW = Motion(AXES, 100, 40, 6, 3, True, True, True, (4, 10, 64))
WINDOWS = 5
MAIN = f"""
#include "mct_motion.h"
static int16_t rows[{HOW.window * HOW.channels}], saved[{WINDOWS}][{HOW.features}];
static int32_t work[{HOW.points}];

static int learn(void)
{{
    static mct_motion moved;
    static const int16_t mults[] = {{{", ".join(str(axis.mult) for axis in AXES)}}};
    static const uint8_t shifts[] = {{{", ".join(str(axis.shift) for axis in AXES)}}};
    static const uint16_t band_ends[] = {{{", ".join(map(str, HOW.band_ends))}}};
    static const mct_motion_params params = {{
        .mults = mults, .shifts = shifts, .band_ends = band_ends, .window = {HOW.window},
        .step = {HOW.step}, .points = {HOW.points}, .axes = {len(AXES)},
        .magnitude_axes = {HOW.magnitude_axes}, .gravity_shift = {HOW.gravity_shift},
        .features = MCT_MOTION_MEAN | MCT_MOTION_RMS | MCT_MOTION_CROSSINGS,
        .bands = {len(HOW.band_ends)},
    }};
    uint32_t count = 0;
    mct_motion_reset(&moved, &params);
    for (uint32_t i = 0; i < sizeof x / sizeof *x; i += {len(AXES)}) {{
        if (mct_motion_push(&moved, &params, rows, x + i)) {{
            mct_motion_features(&moved, &params, rows, work, saved[count++]);
        }}
    }}
    return count != {WINDOWS};
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_a_core_computes_the_same_features(core: str, tmp_path: Path) -> None:
    x = moved(1, HOW.window + (WINDOWS - 1) * HOW.step, len(AXES))
    found = saved_by(core, array_in_c("int16_t", "x", x) + MAIN, SOURCES, tmp_path)
    expected = motion.features(HOW, motion.MotionWindows(HOW).push(x))
    assert np.array_equal(np.frombuffer(found, "<i2").reshape(expected.shape), expected)
    assert np.unique(expected).size > 20
