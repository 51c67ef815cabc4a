"""The audio front end of TensorFlow Lite Micro, in integers: sound becomes 40 features a frame.

What micro_speech and microWakeWord models were trained on. `pymicro-features` gives the same
numbers, as does firmware/frontends/mct_audio.c:

1. Frames of 30 ms every 10 or 20 ms, times a Hann window. A frame is scaled up by the power of two
   that its largest sample leaves room for.
2. A Fourier transform of 512 points in 16 bits: 256 complex ones in four stages of radix 4, each
   of which divides by 4, as kissfft computes it.
3. The squares of the bins, summed up in 40 triangular bands between 125 and 7,500 Hz; the roots of
   the sums, scaled down again.
4. Noise reduction: less a slow mean of each channel, but at least a twentieth of it.
5. Gain control by that mean, per-channel energy normalization (Wang and others, 2017).
6. 64 times the natural logarithm.

A feature is 10/256 of what models take as a real number (FEATURE_SCALE).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import DataError
from mcutrain.frontends import fourier, tables
from mcutrain.frontends.frontend import MOST_FRAMES, FeatureStream, FrontendC
from mcutrain.frontends.sound import Framing, SoundFrontend
from mcutrain.frontends.tables import CHANNELS, POINTS, WINDOW

Ints = npt.NDArray[np.int64]
STEPS = (160, 320)
"""Samples from one frame to the next: 10 or 20 ms."""
STEP_OF_FRAMES: Mapping[int, int] = {49: 20, 98: 10}
"""Usual windows of a second, and the ms of their steps."""
FEATURE_SCALE = 10 / 256
HALF = POINTS // 2
SMOOTHING_BITS, SHARE_BITS = 10, 14
EVEN_SHARE, ODD_SHARE = 409, 983
"""What the newest frame counts in the mean of a channel with an even or odd number, times 2^14."""
LEAST_SHARE = 819
"""What is left of a channel's signal at least, times 2^14."""
SNR_BITS, SHRUNK_BITS, SNR_SHIFT = 12, 6, 6
CORRECTION_BITS = 3
LOG_COEFFICIENT = 45426
"""The natural logarithm of 2, times 2^16."""
LOG_SCALE_BITS = 6
WORD = 0xFFFFFFFF


class AudioFeatures:
    """Features of a sound that comes in pieces.

    step: samples from one frame to the next, one of STEPS. Raises ValueError for another.
    """

    def __init__(self, step: int = 320) -> None:
        if step not in STEPS:
            raise ValueError(f"a frame every {step} samples: take {' or '.join(map(str, STEPS))}")
        self._framing = Framing(WINDOW, step)
        self.reset()

    def reset(self) -> None:
        """Forget the sound so far, and its noise."""
        self._framing.reset()
        self._noise = np.zeros(CHANNELS, np.uint64)

    def push(self, sound: npt.ArrayLike) -> npt.NDArray[np.uint16]:
        """The features (frames, 40) of all frames that end in this piece.

        sound: int16 (n,), at 16 kHz.
        """
        frames = self._framing.push(sound)
        if not len(frames):
            return np.zeros((0, CHANNELS), np.uint16)
        return self._normalized(_channels(frames))

    def _normalized(self, signals: Ints) -> npt.NDArray[np.uint16]:
        """Steps 4 to 6 of frames (n, 40). Products take up to 64 bits."""
        signal, noise = signals.astype(np.uint64), np.empty(signals.shape, np.uint64)
        scaled = (signal << SMOOTHING_BITS) & WORD
        rest = np.uint64(1 << SHARE_BITS) - _SHARES
        for i, new in enumerate(scaled * _SHARES):
            self._noise = noise[i] = (new + self._noise * rest) >> SHARE_BITS & WORD
        least = signal * np.uint64(LEAST_SHARE) >> SHARE_BITS
        signal = np.maximum((scaled - np.minimum(noise, scaled)) >> SMOOTHING_BITS, least)
        ratio = signal * _gain(noise.astype(np.int64)).astype(np.uint64) >> SNR_SHIFT & WORD
        level = _shrunk(ratio.astype(np.int64)) << CORRECTION_BITS & WORD
        return np.minimum(_logarithm(level), 0xFFFF).astype(np.uint16)


def features(sound: npt.ArrayLike, step: int = 320) -> npt.NDArray[np.uint16]:
    """The features (frames, 40) of a whole sound, int16 (n,) at 16 kHz."""
    return AudioFeatures(step).push(sound)


_SHARES = np.where(np.arange(CHANNELS) % 2 == 0, EVEN_SHARE, ODD_SHARE).astype(np.uint64)
_WINDOW = tables.window()
_GAINS, _LOGARITHMS = tables.gains(), tables.logarithms()
_FIRST, _ENDS, _WEIGHTS = tables.bands()


_BANDS = tables.triangles(np.arange(_FIRST, _ENDS[-1]), _ENDS, _WEIGHTS, tables.BITS)


def _channels(frames: npt.NDArray[np.int16]) -> Ints:
    """Steps 1 to 3 of frames (n, 480): (n, 40)."""
    windowed = frames * _WINDOW >> tables.BITS
    sizes = np.abs(windowed)
    largest = np.where(sizes > 0x7FFF, 0, sizes).max(axis=1)  # -32768 has no positive in 16 bits
    shift = 15 - fourier.bit_length(largest)
    scaled = np.zeros((len(frames), POINTS), np.int64)
    scaled[:, :WINDOW] = _wrapped(windowed << shift[:, np.newaxis])
    real, imaginary = _transform(scaled)
    energy = (real * real + imaginary * imaginary)[:, _FIRST : _ENDS[-1]]
    roots: Ints = _root(energy @ _BANDS) >> shift[:, np.newaxis]
    return roots


def _transform(x: Ints) -> tuple[Ints, Ints]:
    """Bins 0 to 256, real and imaginary, of 512 real points, in 16 bits."""
    real, imaginary = _complex_transform(x[:, 0::2], x[:, 1::2])
    found = np.zeros((2, len(x), HALF + 1), np.int64)
    k = np.arange(1, HALF // 2 + 1)
    low = _divided(real[:, k], 2), _divided(imaginary[:, k], 2)
    high = _divided(real[:, HALF - k], 2), _divided(-imaginary[:, HALF - k], 2)
    even = low[0] + high[0], low[1] + high[1]
    odd = _product(low[0] - high[0], low[1] - high[1], k + HALF // 2)
    found[0][:, k], found[1][:, k] = even[0] + odd[0] >> 1, even[1] + odd[1] >> 1
    found[0][:, HALF - k], found[1][:, HALF - k] = even[0] - odd[0] >> 1, odd[1] - even[1] >> 1
    constant = _divided(real[:, 0], 2), _divided(imaginary[:, 0], 2)
    found[0][:, 0], found[0][:, HALF] = constant[0] + constant[1], constant[0] - constant[1]
    return found[0], found[1]


def _complex_transform(real: Ints, imaginary: Ints) -> tuple[Ints, Ints]:
    """Transform points (..., n), n a power of 4; each of its stages divides by 4."""
    if real.shape[-1] == 1:
        return real, imaginary
    a, b = _complex_transform(fourier.quarters(real), fourier.quarters(imaginary))
    return fourier.joined(_divided(a, 4), _divided(b, 4), _product)


def _product(real: Ints, imaginary: Ints, turn: Ints) -> tuple[Ints, Ints]:
    """Times exp(-2 pi i turn / 512), rounded to 15 fraction bits."""
    cosine, sine = fourier.cosine(turn), -fourier.cosine(turn - POINTS // 4)
    return (
        _halved(real * cosine - imaginary * sine),
        _halved(real * sine + imaginary * cosine),
    )


def _divided(x: Ints, by: int) -> Ints:
    return _halved(x * (0x7FFF // by))


def _halved(x: Ints) -> Ints:
    """x / 2^15, to the nearest, ties up."""
    return x + (1 << 14) >> 15


def _wrapped(x: Ints) -> Ints:
    """As 16 bits hold it."""
    return (x + 0x8000 & 0xFFFF) - 0x8000


def _root(x: Ints) -> Ints:
    """The square root of numbers below 2^53, to the nearest."""
    root = np.sqrt(x.astype(np.float64)).astype(np.int64)
    root -= root * root > x
    root += (root + 1) * (root + 1) <= x
    return root + (x - root * root > root)


def _gain(noise: Ints) -> Ints:
    """A parabola between powers of two."""
    bits = fourier.bit_length(noise)
    place = np.maximum(4 * bits - 6, 0)
    value, linear, square = _GAINS[place], _GAINS[place + 1], _GAINS[place + 2]
    share = _moved(noise, 11 - bits) & 0x3FF
    between: Ints = ((square * share >> 5) + (linear << 5)) * share + (1 << 14) >> 15
    return np.where(noise <= 2, _GAINS[np.minimum(noise, 2)], value + between)


def _shrunk(ratio: Ints) -> Ints:
    """A square at first, then a line, with 6 fraction bits."""
    low = np.minimum(ratio, 2 << SNR_BITS)
    square = low * low >> 2 + 2 * SNR_BITS - SHRUNK_BITS
    line = (ratio >> SNR_BITS - SHRUNK_BITS) - (1 << SHRUNK_BITS)
    return np.where(ratio < 2 << SNR_BITS, square, line)


def _logarithm(level: Ints) -> Ints:
    """64 times the natural logarithm; 0 of 0 and 1."""
    whole = np.maximum(fourier.bit_length(level) - 1, 0)
    share = _moved(level - (np.int64(1) << whole), 16 - whole)
    segment = np.maximum(share >> 9, 0)
    low, high = _LOGARITHMS[segment], _LOGARITHMS[segment + 1]
    binary = (whole << 16) + share + low + ((high - low) * (share - (segment << 9)) >> 16)
    natural = LOG_COEFFICIENT * binary + 0x8000 >> 16
    return np.where(level <= 1, 0, (natural << LOG_SCALE_BITS) + 0x8000 >> 16)


def _moved(x: Ints, left: Ints) -> Ints:
    """Bits to the left, or to the right where that is below 0."""
    return np.where(left > 0, x << np.maximum(left, 0), x >> np.maximum(-left, 0))


@dataclass(frozen=True)
class AudioFrontend(SoundFrontend):
    """Frames of 30 ms of sound at 16 kHz, 40 features each.

    step_ms: from one frame to the next, 10 or 20. frames: of a window. Raises DataError.
    """

    step_ms: int
    frames: int

    kind: ClassVar[str] = "audio"
    FEATURE_SCALE: ClassVar[float] = FEATURE_SCALE
    RANGE: ClassVar[tuple[int, int]] = (0, math.ceil(64 * 32 * math.log(2)) + 1)

    def __post_init__(self) -> None:
        if self.hop not in STEPS:
            raise DataError(f"audio: step_ms is {self.step_ms}: give 10 or 20")
        self.check_options({"frames": (1, MOST_FRAMES)})

    @classmethod
    def of(cls, options: Mapping[str, int], input_shape: tuple[int, ...] | None) -> AudioFrontend:
        """With the model's number of frames, and the step that is usual for it."""
        frames = cls.frames_of(options, input_shape, CHANNELS, "features")
        step = options["step_ms"] if "step_ms" in options else STEP_OF_FRAMES.get(frames)
        if step is None:
            raise DataError(
                f"audio: a window of {frames} frames may be of 10 or of 20 ms each: say which, as "
                "audio:step_ms=20"
            )
        return cls(step, frames)

    @property
    def frame_samples(self) -> int:
        """30 ms."""
        return WINDOW

    @property
    def output_shape(self) -> tuple[int, int]:
        """Frames and features."""
        return self.frames, CHANNELS

    @property
    def hop(self) -> int:
        """Samples from one frame to the next."""
        return self.step_ms * tables.RATE_HZ // 1000

    def stream(self) -> FeatureStream:
        """A new stream."""
        return AudioFeatures(self.hop)

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
            work=POINTS,
            feature="uint16_t",
            flash_bytes={"portable": 5354, "armv6m": 6142, "dsp": 5318},
        )
