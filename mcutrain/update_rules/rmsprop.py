"""RMSProp with one second moment for each output channel: w <- w - lr g / sqrt(v).

It is Adam without a first moment. v, the mean square of a channel's gradients, takes four bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.update_rules.base import (
    AdaptingRule,
    Array,
    ChannelGradients,
    Directions,
    Slot,
    bits,
    shifted,
)

WINDOW_BITS = 7
"""v moves by 2**-WINDOW_BITS of its distance to a new square: a mean over 128 updates or so."""
SQUARED_BITS = 15
"""Bits of a sum that is squared, without its sign."""
MANTISSA_BITS = 15
"""Bits of v: 2**14 <= mantissa < 2**15, or 0."""


@dataclass(frozen=True)
class RMSProp(AdaptingRule):
    """v is a sum over the channel, not a mean: the constant factor of the rate makes up for it."""

    name = "rmsprop"
    title = "Adam without a first moment, 4 bytes for each output channel"

    def slots(self, channels: int, count: int) -> tuple[Slot, ...]:
        """Mantissa and exponent of each channel's v."""
        return (
            Slot(
                "second_moments",
                "mean squares of each channel's gradients: mantissas",
                np.zeros(channels, np.int16),
            ),
            Slot(
                "second_moment_exponents",
                "powers of two of second moments",
                np.zeros(channels, np.int16),
            ),
        )

    def scaling(self, qas_rate: float) -> float:
        """A direction has no unit: the step counts in the scale itself, not in its square."""
        return math.sqrt(qas_rate)

    def constant(self, gradient_scale: float, count: int) -> float:
        """The root of how many squares were added up; v has the gradient's scale already."""
        return math.sqrt(count)

    def direct(
        self, gradients: ChannelGradients, slots: Sequence[Array]
    ) -> tuple[Directions, tuple[Array, ...]]:
        """The gradient over the root of v, which has this gradient's square in it."""
        old = slots[0].astype(np.int64), slots[1].astype(np.int64)
        mantissa, exponent = _averaged(old, _squared(gradients), gradients.update)
        is_odd = (exponent + MANTISSA_BITS) & 1
        half = (exponent + MANTISSA_BITS + is_odd) >> 1
        root = fixedpoint.reciprocal_root(np.maximum(mantissa, 1 << 14) << (16 - is_odd))
        root = np.where(mantissa > 0, root, 0)
        directions = Directions(gradients.sums, gradients.exponent + 2 - half, root)
        return directions, (mantissa.astype(np.int16), exponent.astype(np.int16))


def _squared(gradients: ChannelGradients) -> tuple[Array, Array]:
    """Mantissa and exponent of the sum of each channel's squares."""
    lost = np.maximum(bits(gradients.sums) - SQUARED_BITS, 0)
    total = np.square(gradients.sums >> lost[:, None]).sum(axis=-1)
    places = bits(total[:, None]) - MANTISSA_BITS
    mantissa = np.where(places > 0, total >> np.maximum(places, 0), total << np.maximum(-places, 0))
    return mantissa, np.where(total > 0, 2 * (lost + gradients.exponent) + places, 0)


def _averaged(
    old: tuple[Array, Array], new: tuple[Array, Array], update: int
) -> tuple[Array, Array]:
    """v and the new square, weighted: a plain mean at first, so that v does not begin at 0."""
    weight = min(max(((update + 1) & 0xFFFFFFFF).bit_length() - 1, 0), WINDOW_BITS)
    (m, e), (g, f) = old, new
    lowest = np.int64(-(2**15))
    common = np.maximum(np.where(m > 0, e, lowest), np.where(g > 0, f, lowest))
    a, b = shifted(m << 15, e - common), shifted(g << 15, f - common)
    mean = a - (a >> weight) + (b >> weight)
    places = bits(mean[:, None]) - MANTISSA_BITS
    rounded = (mean + (1 << np.maximum(places, 0) >> 1)) >> np.maximum(places, 0)
    rounded = rounded << np.maximum(-places, 0)
    carries = rounded >> MANTISSA_BITS
    mantissa = rounded >> carries
    return mantissa, np.where(mantissa > 0, common - 15 + places + carries, 0)
