"""Weights of 8 bits with a zero point, as int8 weights without one.

Such a weight's integers minus the zero point are -255 to 255. Where they fit int8 they are the
weight. A channel in which one does not fit gets the smallest step with which it fits, and is
rounded to it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

Array = npt.NDArray[Any]

LARGEST_WEIGHT = 127


@dataclass(frozen=True)
class Fitting:
    """How the weights of a file of uint8 fit int8.

    channels: of all weights, of which `rounded` were rounded. least_db: signal to noise of the
    channel that suffers most.
    """

    channels: int = 0
    rounded: int = 0
    least_db: float = math.inf

    def __add__(self, other: Fitting) -> Fitting:
        return Fitting(
            self.channels + other.channels,
            self.rounded + other.rounded,
            min(self.least_db, other.least_db),
        )

    def __str__(self) -> str:
        if not self.rounded:
            return "all weights fit int8"
        return (
            f"{self.rounded:,} of {self.channels:,} channels of its weights do not fit int8 and "
            f"were rounded, at {self.least_db:.0f} dB signal to noise or more"
        )


def fitted(exact: Array, scales: Array, axis: int) -> tuple[Array, Array, Fitting]:
    """int8 weights, the scale of each channel, and how they fit.

    exact: the integers minus their zero point, int16 or wider. scales: one, or one per channel.
    axis: of the channels, from the front or the back.
    """
    channels = exact.shape[axis]
    by_channel = np.moveaxis(exact, axis, -1).reshape(-1, channels)
    over = (by_channel != by_channel.astype(np.int8)).any(axis=0)
    largest = np.abs(by_channel).max(axis=0)
    steps = np.broadcast_to(np.asarray(scales, np.float64).ravel(), (channels,)).copy()
    before = steps.copy()
    with np.errstate(over="ignore"):
        steps[over] = (steps * largest / LARGEST_WEIGHT)[over].astype(np.float32)
    coarser = steps / before
    place = axis % exact.ndim
    spread = coarser.reshape([-1 if i == place else 1 for i in range(exact.ndim)])
    data = np.rint(exact / spread).astype(np.int8)
    noise = by_channel - np.moveaxis(data * spread, axis, -1).reshape(by_channel.shape)
    fitting = Fitting(channels, int(over.sum()), _least_db(by_channel[:, over], noise[:, over]))
    return data, steps, fitting


def _least_db(signal: Array, noise: Array) -> float:
    """Return the least ratio of the channels (columns) in dB; infinite where there is no noise."""
    power = np.square(signal, dtype=np.float64).sum(axis=0)
    lost = np.square(noise).sum(axis=0)
    ratios = power[lost > 0] / lost[lost > 0]
    return float(10 * np.log10(ratios.min())) if ratios.size else math.inf
