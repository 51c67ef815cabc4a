"""MFCCs of keyword models as a front end of programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mcutrain.errors import DataError
from mcutrain.frontends import fourier, mfcc, tables
from mcutrain.frontends.frontend import (
    MOST_FRAMES,
    Array,
    FeatureStream,
    Frontend,
    FrontendC,
    WindowC,
)
from mcutrain.frontends.mfcc_tables import COEFFICIENTS, POINTS, WINDOW

KEPT = COEFFICIENTS + 1
"""Numbers of a frame until its window is complete: its largest sample follows."""

WINDOWS = 64
"""Windows that are computed at once."""


class MfccStream:
    """Frames (n, 11) of a sound that comes in pieces: coefficients, and the largest sample."""

    def __init__(self) -> None:
        self._made = mfcc.MfccFeatures()

    def push(self, piece: npt.ArrayLike) -> Array:
        """All frames that end in this piece."""
        frames, peaks = self._made.push(piece)
        return np.column_stack((frames, peaks))


@dataclass(frozen=True)
class MfccFrontend(Frontend):
    """Frames of 30 ms of sound at 16 kHz every 20 ms, 10 MFCCs each, see `mcutrain.frontends.mfcc`.

    frames: of a window, whose largest sample counts as 1. Raises DataError.
    """

    frames: int

    kind: ClassVar[str] = "mfcc"
    FEATURE_SCALE: ClassVar[float] = 2.0**-mfcc.BITS
    RANGE: ClassVar[tuple[int, int]] = (-(1 << 15), (1 << 15) - 1)

    def __post_init__(self) -> None:
        if not 1 <= self.frames <= MOST_FRAMES:
            raise DataError(f"mfcc: frames is {self.frames}: give 1 to {MOST_FRAMES}")

    @classmethod
    def of(cls, options: Mapping[str, int], input_shape: tuple[int, ...] | None) -> MfccFrontend:
        """With the model's number of frames."""
        return cls(cls.frames_of(options, input_shape, COEFFICIENTS, "coefficients"))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the samples of a window."""
        return (WINDOW + (self.frames - 1) * self.hop,)

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """int16."""
        return np.dtype(np.int16)

    @property
    def output_shape(self) -> tuple[int, int]:
        """Frames and coefficients."""
        return self.frames, COEFFICIENTS

    @property
    def hop(self) -> int:
        """Samples from one frame to the next."""
        return mfcc.STEP

    @property
    def rate_hz(self) -> int:
        """16 kHz."""
        return tables.RATE_HZ

    def features(self, samples: Array) -> Array:
        """As every front end; many windows at once, since a frame knows nothing of the one before.

        Between two windows lies a frame that is of neither.
        """
        self.check(samples)
        (wanted,), hops = self.input_shape, self.frames + 1
        found = np.zeros((len(samples), *self.output_shape), np.int32)
        for first in range(0, len(samples), WINDOWS):
            windows = samples[first : first + WINDOWS, :wanted]
            sound = np.zeros((len(windows), hops * self.hop), np.int16)
            sound[:, : windows.shape[1]] = windows
            rows = self.stream().push(sound.reshape(-1))
            for i in range(len(windows)):
                found[first + i] = self.of_window(rows[i * hops :][: self.frames])
        return found

    def stream(self) -> FeatureStream:
        """A new stream."""
        return MfccStream()

    def of_window(self, frames: Array) -> Array:
        """Coefficients (n, 10) as if the window's largest sample were 32,768."""
        return mfcc.shifted(frames[:, :COEFFICIENTS], int(frames[:, COEFFICIENTS].max()))

    @property
    def c(self) -> FrontendC:
        """firmware/frontends/mct_mfcc.c."""
        own = ("mct_mfcc.c", "mct_mfcc.h", "mct_mfcc_tables.h")
        return FrontendC(
            sources=(*own, *fourier.SOURCES),
            header="mct_mfcc.h",
            state="mct_mfcc",
            state_bytes=964,
            reset="mct_mfcc_reset(&{})",
            push="mct_mfcc_push_kept",
            work=POINTS,
            work_type="int32_t",
            sample="int16_t",
            feature="int16_t",
            flash_bytes={"portable": 4526, "armv6m": 5110, "dsp": 4518},
            instructions={"portable": 111_806, "armv6m": 185_674, "dsp": 114_627},
            window=WindowC(KEPT, "mct_mfcc_look", "mct_mfcc_finish"),
        )
