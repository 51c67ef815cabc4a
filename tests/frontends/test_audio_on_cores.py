"""The audio front end on cores in QEMU: features equal numpy's."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcutrain.frontends import audio
from tests.frontends.in_c import CORES, array_in_c, saved_by
from tests.frontends.sounds import sound

FRAMES, STEP = 30, 320
MAIN = f"""
#include "mct_audio.h"
static mct_audio heard;
static int16_t work[MCT_AUDIO_WORK];
static uint16_t saved[{FRAMES}][MCT_AUDIO_CHANNELS];

static int learn(void)
{{
    const uint32_t samples = sizeof sound / sizeof *sound;
    int32_t is_frame, frame = 0;
    mct_audio_reset(&heard, {STEP});
    for (uint32_t i = 0; i < samples && frame < {FRAMES}; frame += is_frame) {{
        i += mct_audio_push(&heard, sound + i, samples - i, work, saved[frame], &is_frame);
    }}
    return frame != {FRAMES};
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_a_core_computes_the_same_features(core: str, tmp_path: Path) -> None:
    x = sound(11, 480 + STEP * (FRAMES - 1))
    text = array_in_c("int16_t", "sound", x) + MAIN
    found = saved_by(core, text, ["mct_audio.c"], tmp_path)
    assert found == audio.features(x, STEP).astype("<u2").tobytes()
