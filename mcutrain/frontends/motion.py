"""Rows of a motion sensor become windows, or features of windows, in integers.

firmware/frontends/mct_motion.c computes the same. A row is int16, a number for each axis:

1. Each axis times its own factor, mult / 2^shift, within 16 bits: units, and directions.
2. Gravity is what a low-pass filter of one pole leaves, of 2^k rows; it is subtracted. The first
   row counts as gravity.
3. The size of the vector of the first two or three axes may follow the axes as one more channel.
4. Windows of rows, one every `step` rows. Features of each channel: the mean, the root of the
   mean square, and how often it crosses its mean. Then binary logarithms, with 8 fraction bits, of
   its power in bands of a Fourier transform (fourier.py; Hann window, less the mean, 32, 128 or
   512 points).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.frontends import fourier

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int16]
MOST_AXES, MOST_ROWS, MOST_GRAVITY_SHIFT, MOST_SHIFT = 9, 512, 15, 30
MOST_MULT = 1 << 14
MEAN_BITS, HEADROOM = 3, 9
"""Fraction bits of the mean that is subtracted, and of those of a windowed number (3 and 11) those
that are dropped."""
LOWEST, HIGHEST = -(1 << 15), (1 << 15) - 1


@dataclass(frozen=True)
class SensorAxis:
    """What an axis is multiplied by: mult / 2^shift. Raises ValueError for what C does not hold."""

    mult: int = 1
    shift: int = 0

    def __post_init__(self) -> None:
        if abs(self.mult) > MOST_MULT or not 0 <= self.shift <= MOST_SHIFT:
            raise ValueError(
                f"an axis times {self.mult} / 2^{self.shift}: take a factor of at most {MOST_MULT} "
                f"and a shift of 0 to {MOST_SHIFT}"
            )


@dataclass(frozen=True)
class Motion:
    """What becomes of the rows. Raises ValueError for what does not fit together.

    gravity_shift: k of step 2, 1 to 15; 0 leaves gravity in. magnitude_axes: 2 or 3, or 0 without.
    band_ends: the bin behind each band; the first band begins at bin 1.
    """

    axes: tuple[SensorAxis, ...]
    window: int
    step: int
    gravity_shift: int = 0
    magnitude_axes: int = 0
    has_mean: bool = False
    has_rms: bool = False
    has_crossings: bool = False
    band_ends: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        edges = (1, *self.band_ends)
        wrong = {
            f"{len(self.axes)} axes: take 1 to {MOST_AXES}": not 1 <= len(self.axes) <= MOST_AXES,
            f"{self.window} rows: take 1 to {MOST_ROWS}": not 1 <= self.window <= MOST_ROWS,
            f"a window every {self.step} rows: take 1 to 65535": not 1 <= self.step <= 0xFFFF,
            f"a filter of 2^{self.gravity_shift} rows: take a shift of 0 to {MOST_GRAVITY_SHIFT}": (
                not 0 <= self.gravity_shift <= MOST_GRAVITY_SHIFT
            ),
            f"a magnitude of {self.magnitude_axes} of {len(self.axes)} axes: take 0, 2 or 3": (
                self.magnitude_axes not in (0, 2, 3) or self.magnitude_axes > len(self.axes)
            ),
            f"bands that end at {self.band_ends}: take rising bins, 2 to {self.points // 2}": (
                any(a >= b for a, b in pairwise(edges)) or edges[-1] > self.points // 2
            ),
        }
        for reason, is_wrong in wrong.items():
            if is_wrong:
                raise ValueError(reason)

    @property
    def channels(self) -> int:
        """Axes, and the magnitude."""
        return len(self.axes) + (self.magnitude_axes > 0)

    @property
    def points(self) -> int:
        """Points of the Fourier transform; those behind the window are 0."""
        return next((n for n in fourier.LENGTHS if n >= self.window), fourier.LENGTHS[-1])

    @property
    def features(self) -> int:
        """Numbers that a window becomes."""
        of_a_channel = self.has_mean + self.has_rms + self.has_crossings + len(self.band_ends)
        return self.channels * of_a_channel


class MotionWindows:
    """Windows of rows that come in pieces."""

    def __init__(self, motion: Motion) -> None:
        self.motion = motion
        self.reset()

    def reset(self) -> None:
        """Forget all rows, and gravity."""
        self._gravity: Ints | None = None
        self._rows = np.zeros((0, self.motion.channels), np.int16)
        self._skipped = 0

    def push(self, rows: npt.ArrayLike) -> Rows:
        """The windows (windows, rows, channels) that end in this piece, int16 (n, axes)."""
        piece, motion = np.asarray(rows), self.motion
        if piece.dtype != np.int16 or piece.shape[1:] != (len(motion.axes),):
            raise ValueError(
                f"rows are int16 (n, {len(motion.axes)}), not {piece.dtype} {piece.shape}"
            )
        kept = np.concatenate((self._rows, self._channels(piece)))[self._skipped :]
        self._skipped = max(0, self._skipped - len(self._rows) - len(piece))
        count = max(0, (len(kept) - motion.window) // motion.step + 1)
        self._rows = kept[count * motion.step :]
        self._skipped += max(0, count * motion.step - len(kept))
        if not count:
            return np.zeros((0, motion.window, motion.channels), np.int16)
        windows = np.lib.stride_tricks.sliding_window_view(kept, motion.window, axis=0)
        return windows[:: motion.step][:count].transpose(0, 2, 1)

    def _channels(self, piece: Rows) -> Rows:
        """Steps 1 to 3."""
        motion = self.motion
        mult = np.array([axis.mult for axis in motion.axes])
        shift = np.array([axis.shift for axis in motion.axes])
        scaled = _saturated(piece * mult + (1 << shift >> 1) >> shift)
        if motion.gravity_shift:
            scaled = np.array([self._without_gravity(row) for row in scaled]).reshape(scaled.shape)
        if motion.magnitude_axes:
            vector = scaled[:, : motion.magnitude_axes]
            size = _saturated(fourier.root((vector * vector).sum(axis=1)))
            scaled = np.column_stack((scaled, size))
        return scaled.astype(np.int16)

    def _without_gravity(self, row: Ints) -> Ints:
        if self._gravity is None:
            self._gravity = row << self.motion.gravity_shift
        self._gravity = self._gravity + row - (self._gravity >> self.motion.gravity_shift)
        return _saturated(row - (self._gravity >> self.motion.gravity_shift))


def features(motion: Motion, windows: Rows) -> npt.NDArray[np.int16]:
    """Step 4 of windows (n, rows, channels): (n, features), those of a channel side by side."""
    if not motion.features:
        return np.zeros((len(windows), 0), np.int16)
    x = windows.astype(np.int64)
    total = x.sum(axis=1)
    size = np.abs(total) + motion.window // 2
    mean = np.where(total < 0, -1, 1) * (size // motion.window)
    squares = (x * x).sum(axis=1) + motion.window // 2
    is_above = x * motion.window >= total[:, np.newaxis]
    found = [mean] if motion.has_mean else []
    found += [_saturated(fourier.root(squares // motion.window))] if motion.has_rms else []
    found += [(is_above[:, 1:] != is_above[:, :-1]).sum(axis=1)] if motion.has_crossings else []
    found += _bands(motion, x) if motion.band_ends else []
    return np.stack(found, axis=-1).reshape(len(x), motion.features).astype(np.int16)


def hann(rows: int) -> Ints:
    """A periodic Hann window with 11 fraction bits, of the table's nearest cosines."""
    turn = (np.arange(rows) * fourier.TURN + rows // 2) // rows % fourier.TURN
    return 32767 - fourier.cosine(turn) >> 5


def _bands(motion: Motion, x: Ints) -> list[Ints]:
    """Logarithms of each band's power, of windows (n, rows, channels): a list of (n, channels).

    The mean has 3 fraction bits, a number less the mean is below 2^16, the window below 2^11 with
    11 fraction bits. So 512 points are below 2^30 together, and the power of all bins is below
    2^60.
    """
    points = np.zeros((len(x), motion.channels, motion.points), np.int64)
    mean = ((x.sum(axis=1) << MEAN_BITS) + motion.window // 2) // motion.window
    centred = (x << MEAN_BITS) - mean[:, np.newaxis]
    points[..., : motion.window] = centred.transpose(0, 2, 1) * hann(motion.window) >> HEADROOM
    power = fourier.magnitude(*fourier.transform(points)) ** 2
    edges = (1, *motion.band_ends)
    sums = (power[..., first - 1 : end - 1].sum(axis=-1) for first, end in pairwise(edges))
    return [fourier.log2(sum_ + 1) + (1 << 7) >> 8 for sum_ in sums]


def _saturated(x: Ints) -> Ints:
    return np.clip(x, LOWEST, HIGHEST)
