"""Images on emulated cores become numpy's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.frontends import vision
from mcutrain.frontends.vision import Crop, Format, Method, Vision
from tests.frontends.in_c import CORES, array_in_c, saved_by
from tests.frontends.test_vision import SOURCES, image_for, numbers

CASES = (
    Vision(Format.RGB565_BIG, 40, 30, Crop(3, 2, 33, 27), 12, 10, 3),
    Vision(Format.RGB565_LITTLE, 40, 30, Crop(0, 0, 40, 30), 24, 24, 1, Method.BILINEAR),
    Vision(Format.YUYV, 40, 30, Crop(5, 0, 30, 30), 10, 10, 3, Method.BILINEAR),
    Vision(Format.BAYER_RGGB, 40, 30, Crop(1, 1, 18, 13), 9, 7, 3),
    Vision(Format.GREY, 40, 30, Crop(4, 4, 20, 20), 30, 30, 1),
    Vision(Format.GREY, 40, 30, Crop(4, 4, 36, 26), 45, 30, 1, Method.BILINEAR),
)
SIZES = [how.out_width * how.out_height * how.channels for how in CASES]
MAIN = f"""
#include "mct_vision.h"
static int8_t saved[{sum(SIZES)}];
static uint32_t memory[{max(how.memory_bytes for how in CASES) // 4 + 1}];

static int learn(void)
{{
    static const mct_vision_params params[] = {{{
    ", ".join("{" + ", ".join(map(str, numbers(how))) + "}" for how in CASES)
}}};
    static const uint32_t row_bytes[] = {{{", ".join(str(how.row_bytes) for how in CASES)}}};
    static mct_vision seen;
    const uint8_t *row = images;
    int8_t *x = saved;
    for (uint32_t i = 0; i < {len(CASES)}; i++) {{
        mct_vision_reset(&seen, &params[i], memory);
        for (uint32_t k = 0; k < 30; k++, row += row_bytes[i]) {{
            mct_vision_push_row(&seen, &params[i], memory, row);
            while (mct_vision_take_row(&seen, &params[i], memory, x)) {{
                x += params[i].out_width * params[i].channels;
            }}
        }}
    }}
    return x != saved + sizeof saved;
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_a_core_computes_the_same_images(core: str, tmp_path: Path) -> None:
    images = [image_for(how, 2 * i + 1) for i, how in enumerate(CASES)]
    flat = np.concatenate([image.reshape(-1) for image in images])
    found = saved_by(core, array_in_c("uint8_t", "images", flat) + MAIN, SOURCES, tmp_path)
    pairs = zip(CASES, images, strict=True)
    assert found == b"".join(vision.resized(how, image).tobytes() for how, image in pairs)
