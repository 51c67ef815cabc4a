"""Levels of mel bands in integers: 16 kHz sound becomes frames of decibels, one for each band.

What most networks of speech take, with the options of their makers. In real numbers a level is 10
log10 of a sum, plus `floor`; 0 where that is negative. The sum is of a band's weights times the
squared sizes of the bins, of samples between -1 and 1. firmware/frontends/mct_mel.c computes the
numbers of this file:

1. Frames of `window_ms` every `step_ms`, times a periodic Hann window; 7 fraction bits.
2. A Fourier transform of 512 points in 32 bits (fourier.py), and the squares of its bins.
3. Their sums in `bands` triangular bands between `low` and `high` Hz. The bands are evenly spaced
   on Slaney's mel scale, linear in Hz between their edges, and each has the area 1.
4. Binary logarithms with 8 fraction bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import DataError
from mcutrain.frontends import fourier, tables
from mcutrain.frontends.frontend import MOST_FRAMES, Array, FrontendC
from mcutrain.frontends.sound import FramesFrontend, Sound
from mcutrain.frontends.tables import POINTS, RATE_HZ, rows_of

Ints = npt.NDArray[np.int64]
WINDOW_BITS, HEADROOM, ENERGY_SHIFT, WEIGHT_BITS, BITS = 12, 5, 14, 15, 8
"""BITS: of a level's logarithm."""
FULL_SCALE_BITS = 2 * (15 + WINDOW_BITS - HEADROOM) - ENERGY_SHIFT + WEIGHT_BITS
"""Of a bin whose size is 1, for samples between -1 and 1."""
DECIBELS = 10 * math.log10(2)
"""Of a binary logarithm of 1."""
MOST_LEVEL = (1 << 15) - 1
MOST = {
    "bands": (1, 128),
    "low": (0, 7000),
    "high": (1, 8000),
    "window_ms": (1, 30),
    "step_ms": (1, 30),
    "floor": (0, 200),
}
DEFAULTS = {"low": 60, "high": 7600, "window_ms": 25, "step_ms": 10, "floor": 110}
C = """{window}
{ends}
{weights}
{offsets}
static const mct_mel_params mel_params = {{
    .window = mel_window,
    .ends = mel_ends,
    .weights = mel_weights,
    .offsets = mel_offsets,
    .samples = {samples},
    .step = {step},
    .first = {first},
    .bands = {bands},
}};

static uint32_t mel_push(mct_mel *mel, const int16_t *samples, uint32_t count, int32_t *work,
                         int16_t *features, int32_t *is_frame)
{{
    return mct_mel_push(mel, &mel_params, samples, count, work, features, is_frame);
}}
"""


class Bands(NamedTuple):
    """Triangles. first: the first bin. ends: the bin behind each edge but the first.

    weights: of each bin, in the band that falls there; it counts with the rest of 1 in the next.
    offsets: added to the logarithm of each band's sum, so that it is a level.
    """

    first: int
    ends: Ints
    weights: Ints
    offsets: Ints


@dataclass(frozen=True)
class MelFrontend(FramesFrontend):
    """Frames of sound at 16 kHz, a level for each mel band.

    frames: of a window. bands: between low and high, in Hz. window_ms, step_ms: of a frame, and
    from one to the next. floor: decibels below full scale at which a level is 0. Raises DataError.
    """

    frames: int
    bands: int
    low: int
    high: int
    window_ms: int
    step_ms: int
    floor: int

    kind: ClassVar[str] = "mel"
    FEATURE_SCALE: ClassVar[float] = DECIBELS / (1 << BITS)
    RANGE: ClassVar[tuple[int, int]] = (0, MOST_LEVEL)

    def __post_init__(self) -> None:
        self.check_options({"frames": (1, MOST_FRAMES), **MOST})
        if self.step_ms > self.window_ms or self.low >= self.high:
            raise DataError("mel: step_ms is at most window_ms, and low is below high")
        if not all(np.diff(self.triangles.ends, prepend=self.triangles.first) > 0):
            raise DataError(
                f"mel: {self.bands} bands from {self.low} to {self.high} Hz are narrower than the "
                f"{RATE_HZ / POINTS} Hz of a bin: give fewer"
            )

    @classmethod
    def of(cls, options: Mapping[str, int], input_shape: tuple[int, ...] | None) -> MelFrontend:
        """With the model's number of bands and frames."""
        if "bands" not in options and input_shape is None:
            raise DataError("mel: say how many bands a frame has, as mel:bands=40,frames=98")
        lengths = tuple(n for n in input_shape or (1,) if n != 1)
        bands = options.get("bands", lengths[-1] if lengths else 1)
        frames = cls.frames_of(options, input_shape, max(bands, 1), "levels")
        rest = {f.name: options.get(f.name, DEFAULTS.get(f.name, 0)) for f in fields(cls)}
        return cls(**{**rest, "frames": frames, "bands": bands})

    @property
    def frame_samples(self) -> int:
        """Samples of a frame."""
        return self.window_ms * RATE_HZ // 1000

    @property
    def output_shape(self) -> tuple[int, int]:
        """Frames and bands."""
        return self.frames, self.bands

    @property
    def hop(self) -> int:
        """Samples from one frame to the next."""
        return self.step_ms * RATE_HZ // 1000

    @cached_property
    def window(self) -> Ints:
        """The first half of a Hann window, and its middle, with 12 fraction bits."""
        samples = self.frame_samples
        turn = 2 * np.pi * np.arange(samples // 2 + 1) / samples
        return _rounded(0.5 - 0.5 * np.cos(turn), WINDOW_BITS)

    @cached_property
    def triangles(self) -> Bands:
        """The bands."""
        hertz = np.arange(POINTS // 2) * RATE_HZ / POINTS
        low, high = _mel(np.array([self.low, self.high]))
        edges = _hertz(np.linspace(low, high, self.bands + 2))
        first = max(1, int(np.searchsorted(hertz, self.low, side="right")))
        ends = np.maximum(np.searchsorted(hertz, edges[1:]), first).astype(np.int64)
        bins = np.arange(first, ends[-1])
        band = np.searchsorted(ends, bins, side="right")
        share = (edges[band + 1] - hertz[bins]) / (edges[band + 1] - edges[band])
        area = np.log2((edges[2:] - edges[:-2]) / 2)
        offsets = self.floor / DECIBELS - FULL_SCALE_BITS - area
        return Bands(first, ends, _rounded(share, WEIGHT_BITS), _rounded(offsets, fourier.LOG_BITS))

    def of_frames(self, frames: Sound) -> Array:
        """The levels (n, bands) of frames (n, samples)."""
        half, bands = self.window, self.triangles
        points = np.zeros((len(frames), POINTS), np.int64)
        whole = np.concatenate((half, half[-2:0:-1]))
        points[:, : len(whole)] = frames * whole >> HEADROOM
        real, imaginary = fourier.transform(points)
        bins = np.arange(bands.first, bands.ends[-1])
        sizes = fourier.magnitude(real[:, bins - 1], imaginary[:, bins - 1])
        energy = sizes * sizes >> ENERGY_SHIFT
        sums = energy @ tables.triangles(bins, bands.ends, bands.weights, WEIGHT_BITS)
        levels = fourier.log2(sums + 1) + bands.offsets
        shift = fourier.LOG_BITS - BITS
        found: Array = np.clip(levels + (1 << shift - 1) >> shift, 0, MOST_LEVEL).astype(np.int16)
        return found

    @property
    def work(self) -> Mapping[str, int]:
        """Samples that come and those of a frame, bins whose size is taken, and bands."""
        return {
            "frames": 1,
            "step": self.hop,
            "samples": self.frame_samples,
            "bins": len(self.triangles.weights),
            "bands": self.bands,
        }

    @property
    def c(self) -> FrontendC:
        """firmware/frontends/mct_mel.c."""
        bands = self.triangles
        definitions = C.format(
            window="\n".join(rows_of("int16_t", "mel_window", self.window)[:-1]),
            ends="\n".join(rows_of("uint16_t", "mel_ends", bands.ends)[:-1]),
            weights="\n".join(rows_of("uint16_t", "mel_weights", bands.weights)[:-1]),
            offsets="\n".join(rows_of("int32_t", "mel_offsets", bands.offsets)[:-1]),
            samples=self.frame_samples,
            step=self.hop,
            first=bands.first,
            bands=self.bands,
        )
        return FrontendC(
            sources=("mct_mel.c", "mct_mel.h", *fourier.SOURCES),
            header="mct_mel.h",
            state="mct_mel",
            state_bytes=964,
            reset="mct_mel_reset(&{})",
            push="mel_push",
            work=tables.POINTS,
            work_type="int32_t",
            flash_bytes={},
            definitions=definitions,
        )


def _rounded(x: npt.NDArray[np.float64], bits: int) -> Ints:
    return np.rint(x * (1 << bits)).astype(np.int64)


LINEAR_HZ, PER_MEL = 1000.0, 200 / 3
LINEAR_MEL, OCTAVE = LINEAR_HZ / PER_MEL, math.log(6.4) / 27
"""Slaney's scale, of the Auditory Toolbox: 200/3 Hz up to 1 kHz, and logarithmic above it."""


def _mel(hertz: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    above = LINEAR_MEL + np.log(np.maximum(hertz, LINEAR_HZ) / LINEAR_HZ) / OCTAVE
    return np.where(hertz < LINEAR_HZ, hertz / PER_MEL, above)


def _hertz(mel: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    above = LINEAR_HZ * np.exp((mel - LINEAR_MEL) * OCTAVE)
    return np.where(mel < LINEAR_MEL, mel * PER_MEL, above)
