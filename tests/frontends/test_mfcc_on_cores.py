"""Integer MFCCs on emulated cores equal numpy's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.frontends import mfcc
from tests.frontends.in_c import CORES, array_in_c, saved_by
from tests.frontends.sounds import sound
from tests.frontends.test_mfcc import KEYWORDS, SOURCES

FRAMES = 30
MAIN = f"""
#include "mct_mfcc.h"
static mct_mfcc heard;
static int32_t work[MCT_MFCC_WORK];
static struct {{
    int16_t frames[{FRAMES}][MCT_MFCC_COEFFICIENTS], peaks[{FRAMES}];
    int8_t x[{FRAMES}][MCT_MFCC_COEFFICIENTS];
}} saved[1];

static int learn(void)
{{
    const mct_mfcc_quantization how = {{{KEYWORDS.mult}, {KEYWORDS.shift}, {KEYWORDS.zero_point}}};
    const uint32_t samples = sizeof sound / sizeof *sound;
    int32_t is_frame, frame = 0;
    mct_mfcc_reset(&heard);
    for (uint32_t i = 0; i < samples; frame += is_frame) {{
        i += mct_mfcc_push(&heard, sound + i, samples - i < 100 ? samples - i : 100, work,
                           saved->frames[frame], &saved->peaks[frame], &is_frame);
    }}
    for (int32_t i = 0; i < {FRAMES}; i++) {{
        mct_mfcc_quantize(&how, saved->frames[i], mct_mfcc_level(12345), saved->x[i]);
    }}
    return frame != {FRAMES};
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_a_core_computes_the_same_frames(core: str, tmp_path: Path) -> None:
    x = sound(11, 480 + mfcc.STEP * (FRAMES - 1))
    found = saved_by(core, array_in_c("int16_t", "sound", x) + MAIN, SOURCES, tmp_path)
    frames, peaks = mfcc.features(x)
    inputs = mfcc.quantized(frames, 12345, KEYWORDS)
    assert found == frames.tobytes() + peaks.tobytes() + inputs.tobytes()
    assert np.unique(peaks).size > 1
