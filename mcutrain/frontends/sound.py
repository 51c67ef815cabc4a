"""What front ends of sound have in common: 16 kHz, and frames that overlap."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.frontends.frontend import SOUND, Array, FeatureStream, Frontend, RawKind
from mcutrain.frontends.tables import RATE_HZ

Sound = npt.NDArray[np.int16]
AT_ONCE, WINDOWS = 4096, 32
"""Frames of a stream, and windows, that are computed at once."""


class Framing:
    """Frames of a sound that comes in pieces: so many samples each, one every `hop`."""

    def __init__(self, samples: int, hop: int) -> None:
        self.samples, self.hop = samples, hop
        self.reset()

    def reset(self) -> None:
        """Forget the sound so far."""
        self._sound = np.zeros(0, np.int16)

    def push(self, sound: npt.ArrayLike) -> Sound:
        """All frames (n, samples) that end in this piece, int16 (n,)."""
        piece = np.asarray(sound)
        if piece.dtype != np.int16 or piece.ndim != 1:
            raise ValueError(f"sound is int16 (n,), not {piece.dtype} {piece.shape}")
        kept = np.concatenate((self._sound, piece))
        count = max(0, (len(kept) - self.samples) // self.hop + 1)
        self._sound = kept[count * self.hop :]
        if not count:
            return np.zeros((0, self.samples), np.int16)
        return _frames_of(kept, self.samples, self.hop)[:count]


def _frames_of(sound: Sound, samples: int, hop: int) -> Sound:
    """Frames (..., frames, samples) of sounds (..., n)."""
    whole = np.lib.stride_tricks.sliding_window_view(sound, samples, axis=-1)
    frames: Sound = whole[..., ::hop, :]
    return frames


@dataclass(frozen=True)
class SoundFrontend(Frontend):
    """A front end of sound at 16 kHz."""

    RAW: ClassVar[RawKind] = SOUND

    @property
    @abstractmethod
    def frame_samples(self) -> int:
        """Samples of a frame."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the samples of a window."""
        return (self.frame_samples + (self.output_shape[0] - 1) * self.hop,)

    @property
    def rate_hz(self) -> int:
        """16 kHz."""
        return RATE_HZ


@dataclass(frozen=True)
class FramesFrontend(SoundFrontend):
    """A front end of sound whose frames know nothing of each other."""

    @abstractmethod
    def of_frames(self, frames: Sound) -> Array:
        """What a stream gives of frames (n, samples): (n, numbers)."""

    def stream(self) -> FeatureStream:
        """A new stream."""
        return FrameStream(self)

    def features(self, samples: Array) -> Array:
        """As every front end; many windows at once."""
        self.check(samples)
        (wanted,), size = self.input_shape, self.frame_samples
        found = np.zeros((len(samples), *self.output_shape), np.int32)
        for i in range(0, len(samples), WINDOWS):
            kept = samples[i : i + WINDOWS, :wanted]
            windows = np.zeros((len(kept), wanted), np.int16)
            windows[:, : kept.shape[1]] = kept
            frames = _frames_of(windows, size, self.hop).reshape(-1, size)
            made = self.of_frames(frames).reshape(len(kept), len(found[0]), -1)
            for row, window in zip(found[i:], made, strict=False):
                row[:] = self.of_window(window)
        return found


class FrameStream:
    """What a front end makes of the frames of a sound that comes in pieces."""

    def __init__(self, front: FramesFrontend) -> None:
        self._front, self._framing = front, Framing(front.frame_samples, front.hop)

    def push(self, piece: npt.ArrayLike) -> Array:
        """Of all frames that end in this piece."""
        frames = self._framing.push(piece)
        some = range(0, len(frames) or 1, AT_ONCE)
        return np.concatenate([self._front.of_frames(frames[i : i + AT_ONCE]) for i in some])
