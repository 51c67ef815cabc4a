"""A streaming network of one sigmoid that takes the frames of a front end, as docs say."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.formats import load
from mcutrain.frontends import parse
from mcutrain.functions.preparing import with_frontend
from mcutrain.ir.graph import Graph
from mcutrain.simulation.rates import LearningRate
from tests.compiled import shared
from tests.formats.streaming_models import StreamingBuilder
from tests.frontends.sounds import sound

DOCS = Path(__file__).parents[2] / "docs" / "frontends.md"
PROGRAM = """
#include "mct_model.h"
#include <string.h>
int32_t found[100];
uint32_t steps;
void hear(void);
static void decide(const int8_t *y)
{
    found[steps] = y[0];
    steps++;
}
void hear(void)
{
"""
STEP_ROWS = 2


def wake_word(folder: Path) -> Graph:
    """A step takes two frames and gives one sigmoid."""
    b = StreamingBuilder(np.random.default_rng(3))
    like: dict[str, Any] = {"scale": 7 / 64, "zero_point": -128}
    shape: tuple[int, ...] = (1, STEP_ROWS, 40, 1)
    x = b.main.tensor("x", shape, **like)
    memory, shape = b.ring(x, shape, 2, like)
    y, shape, like = b.conv(memory, shape, 4, 3)
    y, shape = b.ring(y, shape, 3, like)
    result = b.main.tensor("y", (1, 1), scale=1 / 256, zero_point=-128)
    b.main.operator("LOGISTIC", [b.dense(y, shape[1] * 4, 1)], result)
    path = folder / "wake.tflite"
    path.write_bytes(b.content(x, result))
    return with_frontend(load(path), "audio:step_ms=20")


@pytest.mark.slow
def test_steps_take_the_frames_of_a_front_end(
    c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """The lines of the docs, with training on a window in between."""
    step = prepare(wake_word(tmp_path), "full")
    assert step.plan.training.classes == 2
    frames = step.input_type.shape[1]
    assert frames % STEP_ROWS, "rows of a step also lie at both ends of the ring"
    text = DOCS.read_text(encoding="utf-8").split("## Frames for a network that streams")[1]
    lines = re.findall(r"```c\n(.*?)```", text, re.DOTALL)[0]
    folder = tmp_path / "library"
    step.library(Interface()).write(folder)
    (folder / "src" / "hear.c").write_text(f"{PROGRAM}{lines}}}\n")
    c = shared((*c_compilers[0], "-O1"), folder / "src")
    front = parse("audio:step_ms=20", step.input_type.shape[1:])
    x = sound(7, front.least_samples + 38 * front.hop)
    rate = LearningRate(1 << 30, -3)

    def hear(samples: np.ndarray) -> None:
        for piece in np.split(samples, range(500, len(samples), 500)):
            c.mct_push(ctypes.c_void_p(piece.ctypes.data), ctypes.c_uint32(len(piece)))
            c.hear()

    half = front.least_samples + 19 * front.hop
    c.mct_push(ctypes.c_void_p(x.ctypes.data), ctypes.c_uint32(1000))
    assert c.mct_window_ready() == c.mct_window_first() == 0, "it begins with mct_reset"
    c.mct_reset(ctypes.c_uint32(1))
    hear(x[:half])
    assert c.mct_window_take() == 0
    packed = (ctypes.c_int32 * 2)(rate.mult_q31, rate.shift)
    value = ctypes.c_int64.from_buffer(packed)  # a struct of two words, as arguments go
    assert c.mct_train(ctypes.c_int32(1), value, (ctypes.c_int32 * 2)()) == 0
    hear(x[half:])

    ours, kind = step.reference(), step.input_type
    codes = front.codes(front.stream().push(x), kind.scale, kind.zero_point)
    rows = codes[: len(codes) // STEP_ROWS * STEP_ROWS].reshape(-1, STEP_ROWS, 40, 1)
    before, last = ours.steps(rows[:10]), codes[20 - frames : 20]
    ours.train(last.reshape(1, *kind.shape[1:]), [1], [rate])
    expected = np.concatenate((before, ours.steps(rows[10:]))).ravel()
    count = ctypes.c_uint32.in_dll(c, "steps").value
    assert count == len(rows)
    found = (ctypes.c_int32 * 100).in_dll(c, "found")[:count]
    assert found == expected.tolist()
    assert len(set(found)) > 3
