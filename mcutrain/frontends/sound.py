"""The audio front end of TensorFlow Lite Micro as a front end of programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcutrain.errors import DataError
from mcutrain.frontends import audio, tables
from mcutrain.frontends.frontend import MOST_FRAMES, FeatureStream, Frontend, FrontendC

STEPS_MS = {20: 320, 10: 160}
STEP_OF_FRAMES: Mapping[int, int] = {49: 20, 98: 10}
"""Usual windows of a second."""


@dataclass(frozen=True)
class AudioFrontend(Frontend):
    """Frames of 30 ms of sound at 16 kHz, 40 features each, see `mcutrain.frontends.audio`.

    step_ms: from one frame to the next, 10 or 20. frames: of a window. Raises DataError.
    """

    step_ms: int
    frames: int

    kind: ClassVar[str] = "audio"
    FEATURE_SCALE: ClassVar[float] = audio.FEATURE_SCALE
    RANGE: ClassVar[tuple[int, int]] = (0, math.ceil(64 * 32 * math.log(2)) + 1)

    def __post_init__(self) -> None:
        if self.step_ms not in STEPS_MS:
            raise DataError(f"audio: step_ms is {self.step_ms}: give 10 or 20")
        if not 1 <= self.frames <= MOST_FRAMES:
            raise DataError(f"audio: frames is {self.frames}: give 1 to {MOST_FRAMES}")

    @classmethod
    def of(cls, options: Mapping[str, int], input_shape: tuple[int, ...] | None) -> AudioFrontend:
        """With the model's number of frames, and the step that is usual for it."""
        frames = cls.frames_of(options, input_shape, tables.CHANNELS, "features")
        step = options["step_ms"] if "step_ms" in options else STEP_OF_FRAMES.get(frames)
        if step is None:
            raise DataError(
                f"audio: a window of {frames} frames may be of 10 or of 20 ms each: say which, as "
                "audio:step_ms=20"
            )
        return cls(step, frames)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the samples of a window."""
        return (tables.WINDOW + (self.frames - 1) * self.hop,)

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """int16."""
        return np.dtype(np.int16)

    @property
    def output_shape(self) -> tuple[int, int]:
        """Frames and features."""
        return self.frames, tables.CHANNELS

    @property
    def hop(self) -> int:
        """Samples from one frame to the next."""
        return STEPS_MS[self.step_ms]

    @property
    def rate_hz(self) -> int:
        """16 kHz."""
        return tables.RATE_HZ

    def stream(self) -> FeatureStream:
        """A new stream."""
        return audio.AudioFeatures(self.hop)

    @property
    def c(self) -> FrontendC:
        """firmware/frontends/mct_audio.c."""
        return FrontendC(
            sources=("mct_audio.c", "mct_audio.h", "mct_audio_tables.h", "mct_cosines.h"),
            header="mct_audio.h",
            state="mct_audio",
            state_bytes=1124,
            reset=f"mct_audio_reset(&{{}}, {self.hop})",
            push="mct_audio_push",
            work=tables.POINTS,
            sample="int16_t",
            feature="uint16_t",
            flash_bytes={"portable": 5354, "armv6m": 6142, "dsp": 5318},
            instructions={"portable": 114_366, "armv6m": 219_970, "dsp": 114_340},
        )
