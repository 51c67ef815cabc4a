"""MFCCs of keyword models in integers: 16 kHz sound becomes frames of 10 coefficients.

The definition in real numbers is that of MLPerf Tiny's keyword spotting, mcutrain/data/mfcc.py.
firmware/frontends/mct_mfcc.c computes the numbers of this file:

1. Frames of 30 ms every 20 ms, times a Hann window; 7 fraction bits.
2. A Fourier transform of 512 points in 32 bits (fourier.py), and the magnitudes of its bins.
3. Their sums in 40 triangular bands between 20 and 4,000 Hz, plus a millionth of full scale.
4. Binary logarithms with 9 fraction bits, and the first 10 numbers of their cosine transform.

A coefficient has 8 fraction bits. The definition divides a second of sound by its largest sample,
which nobody knows while the sound is heard. Dividing by it subtracts the same from all logarithms,
so only the first coefficient of each frame changes, by `level` of that sample. `quantized` does it
when a window of frames is complete. (The millionth is then one of full scale, not of the largest
sample. It matters where a frame holds nothing but zeros: such a frame is not shifted.)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.frontends import fourier, mfcc_tables, tables
from mcutrain.frontends.frontend import MOST_FRAMES, Array, FrontendC, WindowC
from mcutrain.frontends.mfcc_tables import BANDS, COEFFICIENTS, WINDOW
from mcutrain.frontends.sound import FramesFrontend, Framing, Sound

Ints = npt.NDArray[np.int64]
STEP = 320
"""Samples from one frame to the next: 20 ms."""
BITS = 8
"""Fraction bits of a coefficient."""
HEADROOM = 5
"""Of the 12 fraction bits of a windowed sample, those that are dropped."""
FULL_SCALE_BITS = 15 + (mfcc_tables.WINDOW_BITS - HEADROOM) + mfcc_tables.WEIGHT_BITS
FLOOR = round(1e-6 * 2**FULL_SCALE_BITS)
LEVEL_BITS = 9
"""Fraction bits of a band's logarithm."""
MULT_BITS = 14
KEPT = COEFFICIENTS + 1
"""Numbers of a frame until its window is complete: its largest sample follows."""


@dataclass(frozen=True)
class MfccQuantization:
    """How a coefficient c becomes an int8: (c * mult + half) >> shift, plus the zero point."""

    mult: int
    shift: int
    zero_point: int

    @classmethod
    def of(cls, scale: float, zero_point: int) -> MfccQuantization:
        """Return those of a model's input. Raises ValueError for a scale outside 2^-20 to 2^9."""
        if not 2.0**-20 < scale < 2.0**9:
            raise ValueError(f"an input's scale is between 2^-20 and 2^9, not {scale}")
        factor = 1 / (scale * 2**BITS)
        shift = MULT_BITS - int(np.frexp(factor)[1])
        mult = round(factor * 2.0**shift)
        if mult == 1 << MULT_BITS:
            mult, shift = mult >> 1, shift - 1
        return cls(mult, shift, zero_point)


@dataclass(frozen=True)
class MfccFrontend(FramesFrontend):
    """Frames of 30 ms of sound at 16 kHz every 20 ms, 10 MFCCs each.

    frames: of a window, whose largest sample counts as 1. Raises DataError.
    """

    frames: int

    kind: ClassVar[str] = "mfcc"
    FEATURE_SCALE: ClassVar[float] = 2.0**-BITS
    RANGE: ClassVar[tuple[int, int]] = (-(1 << 15), (1 << 15) - 1)

    def __post_init__(self) -> None:
        self.check_options({"frames": (1, MOST_FRAMES)})

    @classmethod
    def of(cls, options: Mapping[str, int], input_shape: tuple[int, ...] | None) -> MfccFrontend:
        """With the model's number of frames."""
        return cls(cls.frames_of(options, input_shape, COEFFICIENTS, "coefficients"))

    @property
    def frame_samples(self) -> int:
        """30 ms."""
        return WINDOW

    @property
    def output_shape(self) -> tuple[int, int]:
        """Frames and coefficients."""
        return self.frames, COEFFICIENTS

    @property
    def hop(self) -> int:
        """Samples from one frame to the next."""
        return STEP

    def of_frames(self, frames: Sound) -> Array:
        """Coefficients, and the largest sample: (n, 11)."""
        return np.column_stack((_coefficients(frames), frames.max(axis=1)))

    def of_window(self, frames: Array) -> Array:
        """Coefficients (n, 10) as if the window's largest sample were 32,768."""
        return shifted(frames[:, :COEFFICIENTS], int(frames[:, COEFFICIENTS].max()))

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
            work=tables.POINTS,
            work_type="int32_t",
            flash_bytes={"portable": 4526, "armv6m": 5110, "dsp": 4518},
            window=WindowC(KEPT, "mct_mfcc_look", "mct_mfcc_finish"),
        )


def features(sound: npt.ArrayLike) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]:
    """The coefficients (frames, 10) of a whole sound, int16 (n,) at 16 kHz, and their peaks.

    A frame's peak is its largest sample, (frames,).
    """
    frames = Framing(WINDOW, STEP).push(sound)
    return _coefficients(frames), frames.max(axis=1)


def level(peak: int) -> int:
    """What the first coefficient of a sound grows by, if its largest sample is not 32,768 but this.

    0 where no sample is positive.
    """
    if peak <= 0:
        return 0
    short = int(_short(fourier.log2(np.array([peak])) - (15 << fourier.LOG_BITS))[0])
    return short * BANDS * int(_DCT[0, 0]) + (1 << 15) >> 16


def quantized(
    frames: npt.NDArray[np.int16], peak: int, quantization: MfccQuantization
) -> npt.NDArray[np.int8]:
    """Coefficients (..., 10) as a model takes them, of a window whose largest sample is `peak`."""
    found = _less_level(frames, peak)
    half = 1 << quantization.shift - 1
    found = (found * quantization.mult + half >> quantization.shift) + quantization.zero_point
    x: npt.NDArray[np.int8] = np.clip(found, -128, 127).astype(np.int8)
    return x


def shifted(frames: npt.NDArray[np.int16], peak: int) -> npt.NDArray[np.int16]:
    """Coefficients (..., 10) of a window whose largest sample is `peak`, within 16 bits."""
    return np.clip(_less_level(frames, peak), -(1 << 15), (1 << 15) - 1).astype(np.int16)


def _less_level(frames: npt.NDArray[np.int16], peak: int) -> Ints:
    found = frames.astype(np.int64)
    is_heard = found[..., 0] != silence()
    found[..., 0] -= np.where(is_heard, level(peak), 0)
    return found


_HALF_WINDOW = mfcc_tables.window()
_WINDOW = np.concatenate((_HALF_WINDOW, _HALF_WINDOW[-2:0:-1]))
_BINS = np.arange(1, mfcc_tables.LAST_BIN + 1)
_BANDS = tables.triangles(_BINS, *mfcc_tables.bands(), mfcc_tables.WEIGHT_BITS)
_DCT = mfcc_tables.dct()


def _coefficients(frames: Sound) -> npt.NDArray[np.int16]:
    """Of frames (n, 480): (n, 10)."""
    return _cosine_transform(_levels(frames))


def _levels(frames: Sound) -> Ints:
    """Steps 1 to 4 up to the logarithms, of frames (n, 480): (n, 40)."""
    points = np.zeros((len(frames), mfcc_tables.POINTS), np.int64)
    points[:, :WINDOW] = frames * _WINDOW >> HEADROOM
    real, imaginary = fourier.transform(points)
    sizes = fourier.magnitude(real[:, _BINS - 1], imaginary[:, _BINS - 1])
    binary = fourier.log2(sizes @ _BANDS + FLOOR) - (FULL_SCALE_BITS << fourier.LOG_BITS)
    return _short(binary)


def _short(binary: Ints) -> Ints:
    drop = fourier.LOG_BITS - LEVEL_BITS
    return binary + (1 << drop - 1) >> drop


def _cosine_transform(levels: Ints) -> npt.NDArray[np.int16]:
    """Coefficients of logarithms (n, 40): (n, 10)."""
    first, last = levels[:, : BANDS // 2], levels[:, : BANDS // 2 - 1 : -1]
    sign = np.where(np.arange(COEFFICIENTS) % 2 == 0, 1, -1)[:, np.newaxis]
    folded = first[:, np.newaxis] + sign * last[:, np.newaxis]
    sums: Ints = (folded * _DCT).sum(axis=-1)
    return (sums + (1 << 15) >> 16).astype(np.int16)


@cache
def silence() -> int:
    """The first coefficient of a frame of zeros; no other frame has less."""
    return int(features(np.zeros(WINDOW, np.int16))[0][0, 0])
