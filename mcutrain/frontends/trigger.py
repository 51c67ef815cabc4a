"""What stands out in a stream of raw samples, in integers: firmware/frontends/mct_trigger.c.

A frame's activity is the sum of |x[i] - x[i - 1]| over its samples and their numbers, up to
MOST_ACTIVITY: so a microphone's offset and gravity do not count. The first frame has all its
samples, each later one those behind the frame before. The background follows the activity, with
FRACTION_BITS fraction bits: by 2^-FALL of the difference down, by 2^-RISE of it up. A frame is loud
if its activity is above a floor and above ratio / 16 of the background.

When `least` frames in a row are loud, something began with the first of them, and its window begins
`before` frames earlier. After it, nothing begins until a frame was not loud.

Of a camera, an image's activity is the sum of |changes| of its pixels; the first one has all. An
image stands out that is no more active than the floor, behind one that is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.frontends.frontend import Array, Frontend

MOST_ACTIVITY = (1 << 24) - 1
FRACTION_BITS, RISE, FALL = 6, 8, 3
RATIO, LEAST, FLOOR_OF_NUMBER = 64, 2, 8
"""By default: four times the background, two frames, a mean change of 8."""


def activities(front: Frontend, samples: Array) -> npt.NDArray[np.int64]:
    """Return how active each complete frame of a stream of raw samples is."""
    if front.takes_images:
        return changes(front.stream().push(samples))
    rows = samples.reshape(len(samples), -1).astype(np.int64)
    moved = np.abs(np.diff(rows, axis=0, prepend=rows[:1])).sum(axis=1)
    if len(samples) < front.least_samples:
        return np.zeros(0, np.int64)
    ends = np.arange(front.least_samples, len(samples) + 1, front.hop)
    sums = np.add.reduceat(moved[: ends[-1]], np.concatenate(([0], ends[:-1])))
    found: npt.NDArray[np.int64] = np.minimum(sums, MOST_ACTIVITY)
    return found


def changes(images: Array) -> npt.NDArray[np.int64]:
    """How active each image (n, numbers) of a camera is: the sum of |changes| of its pixels."""
    first = np.full(len(images[:1]), MOST_ACTIVITY)
    sums = np.abs(np.diff(images.astype(np.int64), axis=0)).sum(axis=1)
    found: npt.NDArray[np.int64] = np.minimum(np.concatenate((first, sums)), MOST_ACTIVITY)
    return found


@dataclass(frozen=True)
class TriggerParams:
    """window: frames of a window. before, least, floor, ratio: see above."""

    window: int
    before: int
    least: int
    floor: int
    ratio: int = RATIO

    @classmethod
    def of(cls, front: Frontend) -> TriggerParams:
        """What a program has by default: what began is a quarter of a window behind its begin."""
        window = front.output_shape[0]
        before = window // 4
        numbers = front.output_shape[1] if front.takes_images else front.hop * front.channels
        floor = FLOOR_OF_NUMBER * numbers
        return cls(window, before, min(LEAST, window - before), floor)


class Trigger:
    """Frames in, windows out."""

    def __init__(self, params: TriggerParams) -> None:
        self.params = params
        self.background = self._frames = self._waiting = self._loud = 0
        self._is_armed = False

    def frame(self, activity: int) -> bool:
        """Whether a window of what began ends with this frame."""
        p, scaled = self.params, activity << FRACTION_BITS
        if self._frames == 0:
            self.background = scaled
        self._frames = min(self._frames + 1, p.window)
        bound = (self.background >> FRACTION_BITS) * p.ratio >> 4
        is_loud = activity > max(p.floor, bound)
        change = scaled - self.background
        self.background += change >> (FALL if change < 0 else RISE)
        self._loud = min(self._loud + 1, p.least) if is_loud else 0
        if self._waiting:
            self._waiting -= 1
            return self._waiting == 0
        if not is_loud:
            self._is_armed = True
        if not is_loud or not self._is_armed or self._loud < p.least:
            return False
        self._is_armed = False
        self._waiting = max(p.window - p.before - p.least, p.window - self._frames)
        return self._waiting == 0


class StillTrigger:
    """Images of a camera in, those that are still behind one that was not, out."""

    def __init__(self, params: TriggerParams) -> None:
        self.params, self._has_changed = params, False

    def frame(self, activity: int) -> bool:
        """Whether this image stands out."""
        has_changed, self._has_changed = self._has_changed, activity > self.params.floor
        return has_changed and not self._has_changed


def trigger_of(front: Frontend) -> Trigger | StillTrigger:
    """What a program has by default."""
    params = TriggerParams.of(front)
    return StillTrigger(params) if front.takes_images else Trigger(params)


def windows_heard(front: Frontend, samples: Array) -> list[int]:
    """The last frame of each window in which something stands out, by its number in the stream."""
    trigger = trigger_of(front)
    return [i for i, a in enumerate(activities(front, samples).tolist()) if trigger.frame(a)]


def loudest(kept: Sequence[int], window: int) -> int:
    """How many frames ago the window of most activity ended, of the frames kept; the last of equal
    ones."""
    sums = [sum(kept[i : i + window]) for i in range(len(kept) - window + 1)]
    return len(sums) - 1 - max(range(len(sums)), key=lambda i: (sums[i], i))
