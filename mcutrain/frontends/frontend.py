"""What a front end is: raw samples of a sensor become what a model takes, in integers.

A front end is a frozen dataclass with its parameters as fields. Its numpy is the definition; its C
in firmware/frontends computes the same bits. It makes frames of features, integers that are
FEATURE_SCALE of a real number each. A model's int8 input has fewer steps, so `steps_of` says at
which feature each next code begins. The code is that of `mcutrain.data.quantize_input` for the real
number, without a division on the device.

To add one: a file with a class, its C, a test of both, a row of FRONTENDS in registry.py. A class
of sound begins with `sound.py`, which frames it; one of images with `images.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import DataError
from mcutrain.frontends import costs

Array = npt.NDArray[Any]
Int8 = npt.NDArray[np.int8]
MOST_FRAMES = 1024
MOST_TEXT = 220
"""Characters of a text that says which front end it is."""


class FeatureStream(Protocol):
    """A front end that hears samples in pieces, as the device does."""

    def push(self, piece: npt.ArrayLike) -> Array:
        """The features (frames, n) of all frames that end in this piece."""


@dataclass(frozen=True)
class WindowC:
    """The C of a front end whose frames are known only when a window of them is complete.

    kept: numbers of a frame until then, which `push` gives. look: a function

        int32_t look(const FEATURE *ring, uint32_t size, uint32_t begin, uint32_t count);

    of a window: `count` frames of a ring of `size`, from number `begin` on. finish: one that makes
    the features of each,

        void finish(const FEATURE *frame, int32_t looked, FEATURE *features);
    """

    kept: int
    look: str
    finish: str


@dataclass(frozen=True)
class RawKind:
    """What raw samples are: how they are called, and how they lie in files.

    words: what they are. unit: several of them. file, suffix: what a file of them is, and ends in.
    """

    words: str
    unit: str
    file: str
    suffix: str


SOUND = RawKind("sound", "samples", "WAV", ".wav")
ROWS = RawKind("rows of numbers, as in CSV files", "rows", "CSV", ".csv")
IMAGES = RawKind("images", "rows", "image", ".raw")
"""Raw samples are rows of a camera, and a window is an image."""


@dataclass(frozen=True)
class ImageC:
    """The C of a front end of images, whose samples are rows of a camera.

    Expressions of `heard`, which points at the state. follow: whether the row at `row`, of that
    `number`, is the next one; then it is taken. take: whether a row of the image is ready; then its
    numbers, less 128, are in the state's member `row`. made, due: members of the state: rows of the
    image that were made, and the row that is awaited, 0 where only a new image is.
    """

    follow: str
    take: str
    made: str
    due: str


@dataclass(frozen=True)
class FrontendC:
    """The C of a front end, in firmware/frontends.

    sources: its files. header: the one that a program includes. state: the C type of what it keeps,
    of so many bytes. reset: the statement that forgets all, {} is where its state lies. push: a
    function

        uint32_t push(STATE *state, const SAMPLE *samples, uint32_t count, WORK *work,
                      FEATURE *features, int32_t *is_frame);

    that takes samples until a frame is full, or all; returns how many; is_frame says whether
    `features` has a frame now. image: of a front end of images, which has no such function. work:
    of `work` numbers, free between calls. sample, feature, work_type: types. window: of a front end
    that needs whole windows. definitions: C that a program has before all of it. queue: samples
    that may wait by default, a power of two.
    flash_bytes: of code with constants, by instruction set, as benchmarks/listening.py counts them;
    empty where they depend on options.
    """

    sources: tuple[str, ...]
    header: str
    state: str
    state_bytes: int
    reset: str
    push: str
    flash_bytes: Mapping[str, int]
    work: int = 0
    work_type: str = "int16_t"
    sample: str = "int16_t"
    feature: str = "int16_t"
    window: WindowC | None = None
    image: ImageC | None = None
    definitions: str = ""
    queue: int = 2048


@dataclass(frozen=True)
class Frontend(ABC):
    """A front end. Its fields are its options in texts and files, all of them int.

    kind: its name there. RAW: what its samples are. WORDS: of an option's numbers that have names.
    FEATURE_SCALE: the real number that a feature of 1 is. RANGE: the smallest and the largest
    feature.
    """

    kind: ClassVar[str]
    RAW: ClassVar[RawKind]
    WORDS: ClassVar[Mapping[str, Mapping[str, int]]] = {}
    FEATURE_SCALE: ClassVar[float]
    RANGE: ClassVar[tuple[int, int]]

    @classmethod
    @abstractmethod
    def of(cls, options: Mapping[str, int], input_shape: tuple[int, ...] | None) -> Frontend:
        """With these options; those left out follow from the model's input (without the batch).

        Raises DataError for values of no meaning, and where the model takes something else.
        """

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the raw samples of a window."""

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """Type of the raw samples: int16; of a camera's row two bytes each, the first is the low
        one."""
        return np.dtype(np.int16)

    @property
    @abstractmethod
    def output_shape(self) -> tuple[int, int]:
        """Frames of a window, and features of a frame."""

    @property
    @abstractmethod
    def hop(self) -> int:
        """Samples from one frame to the next."""

    @property
    @abstractmethod
    def rate_hz(self) -> int:
        """Samples a second; 0 if it is not known."""

    @property
    def feature_scale(self) -> float:
        """The real number that a feature of 1 is."""
        return self.FEATURE_SCALE

    @property
    def takes_rows(self) -> bool:
        """Whether raw samples are rows of some numbers, as in CSV files."""
        return self.RAW is ROWS

    @property
    def takes_images(self) -> bool:
        """Whether raw samples are rows of a camera, and a window is an image."""
        return self.RAW is IMAGES

    @property
    def channels(self) -> int:
        """Numbers of a sample: the axes of a motion sensor."""
        return math.prod(self.input_shape[1:])

    @property
    @abstractmethod
    def c(self) -> FrontendC:
        """Its C."""

    @property
    def work(self) -> Mapping[str, int]:
        """What a frame takes, in the units that costs.toml counts instructions of."""
        return {"frames": 1}

    @property
    def instructions(self) -> Mapping[str, int]:
        """From one frame to the next, by set of costs; empty if that was not counted."""
        return costs.instructions(self.kind, self.work)

    @abstractmethod
    def stream(self) -> FeatureStream:
        """A new stream, which has heard nothing."""

    def of_window(self, frames: Array) -> Array:
        """The features of a window's frames, as a stream gives them."""
        return frames

    @property
    def text(self) -> str:
        """As `parse` reads it, with every option."""
        named = {name: {n: word for word, n in of.items()} for name, of in self.WORDS.items()}
        said = (f"{k}={named.get(k, {}).get(v, v)}" for k, v in self.options().items())
        return f"{self.kind}:{','.join(said)}"

    def options(self) -> dict[str, int]:
        """Its parameters by name, without newer ones that are as they were before."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return {f.name: own[f.name] for f in fields(self) if own[f.name] != f.default}

    def features(self, samples: Array) -> Array:
        """Features (n, frames, features) of windows (n, *input_shape), each of a new stream.

        Windows that end early are filled with zeros, and what is behind their end is left out.
        Raises DataError for other types and shapes, and for windows without a single frame.
        """
        self.check(samples)
        wanted = self.input_shape[0]
        frames, width = self.output_shape
        found = np.zeros((len(samples), frames, width), np.int32)
        for row, window in zip(found, samples, strict=True):
            whole = np.zeros(self.input_shape, self.input_dtype)
            kept = window[:wanted]
            whole[: len(kept)] = kept
            row[:] = self.of_window(self.stream().push(whole))
        return found

    def check_options(self, limits: Mapping[str, tuple[int, int]]) -> None:
        """Raise DataError for an option below the least or above the most that it may be."""
        for name, (least, most) in limits.items():
            if not least <= getattr(self, name) <= most:
                raise DataError(
                    f"{self.kind}: {name} is {getattr(self, name)}: give {least} to {most:,}"
                )

    def check(self, samples: Array) -> None:
        """Raise DataError for what are no windows of raw samples."""
        shape = self.input_shape
        is_like = samples.ndim == 1 + len(shape) and samples.shape[2:] == shape[1:]
        if samples.dtype != self.input_dtype or not is_like:
            raise DataError(
                f"the front end {self.kind} takes {self.input_dtype} samples "
                f"(n, {', '.join(map(str, shape))}), not {samples.dtype} {samples.shape}: save "
                f"{self.what}"
            )
        least = self.least_samples
        if samples.shape[1] < least:
            raise DataError(
                f"a sample has {samples.shape[1]:,} raw values, but the first frame of the front "
                f"end {self.kind} takes {least:,}: give longer ones"
            )

    @property
    def least_samples(self) -> int:
        """Samples that a window needs at least, to fill a part of its first frame."""
        return self.input_shape[0] - (self.output_shape[0] - 1) * self.hop

    @property
    def what(self) -> str:
        """Raw samples in words."""
        return f"{self.input_dtype} at {self.rate_hz:,} Hz, one channel"

    def real(self, samples: Array) -> npt.NDArray[np.float32]:
        """What models are trained on, before any quantization: float32 (n, frames, features)."""
        return self.as_real(self.features(samples))

    def as_real(self, features: Array) -> npt.NDArray[np.float32]:
        """Features as real numbers."""
        found: npt.NDArray[np.float32] = (features * self.feature_scale).astype(np.float32)
        return found

    def compute(self, samples: Array, scale: float, zero_point: int) -> Int8:
        """Windows as an int8 input takes them, as C computes it: (n, frames, features)."""
        return self.codes(self.features(samples), scale, zero_point)

    def codes(self, features: Array, scale: float, zero_point: int) -> Int8:
        """Features as an int8 input takes them."""
        first, steps = self.steps_of(scale, zero_point)
        found: Int8 = (first + np.searchsorted(steps, features, "right")).astype(np.int8)
        return found

    def pixel_codes(self, scale: float, zero_point: int) -> Int8:
        """Of images, the code of each pixel (1, 256), or of each channel's; none of others."""
        return np.zeros((0, 256), np.int8)

    @classmethod
    def frames_of(
        cls, options: Mapping[str, int], input_shape: tuple[int, ...] | None, width: int, what: str
    ) -> int:
        """Frames of a window: what options say, or what the model's input has, of `width` features.

        what: these, in words. Raises DataError where neither says it, or they do not agree.
        """
        said = options.get("frames")
        if input_shape is None:
            if said is None:
                raise DataError(
                    f"{cls.kind}: say how many frames a window has, as {cls.kind}:frames=49"
                )
            return said
        lengths = tuple(n for n in input_shape if n != 1)
        frames, rest = divmod(math.prod(lengths), width)
        is_fitting = lengths in (tuple(n for n in (frames, width) if n != 1), (frames * width,))
        if rest or not is_fitting or said not in (None, frames):
            made = "frames" if said is None else f"{said} frames"
            raise DataError(
                f"the front end {cls.kind} makes {made} of {width} {what}, but the model takes "
                f"{lengths}: give the model that takes these, or another front end"
            )
        return frames

    def steps_of(self, scale: float, zero_point: int) -> tuple[int, npt.NDArray[np.int64]]:
        """The code of the smallest feature, and the feature at which each next code begins."""
        low, high = self.RANGE
        real = self.as_real(np.arange(low, high + 1))
        code = codes_of(real, scale, zero_point).astype(np.int64)
        return int(code[0]), low + np.searchsorted(code, np.arange(code[0] + 1, code[-1] + 1))


def codes_of(real: npt.NDArray[Any], scale: float, zero_point: int) -> Int8:
    """What an int8 input has for real numbers, none of them NaN: a half goes away from 0."""
    quotient = (real / np.float32(scale)).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(quotient) + 0.5), quotient)
    codes: Int8 = np.clip(rounded + zero_point, -128, 127).astype(np.int8)
    return codes
