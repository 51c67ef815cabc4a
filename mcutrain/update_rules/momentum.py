"""SGD with momentum: m <- 0.9 m + g, w <- w - lr m.

m takes a byte for each weight and one for each output channel, whose weights share an exponent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.update_rules.base import (
    APART,
    AdaptingRule,
    Array,
    ChannelGradients,
    Directions,
    Slot,
    bits,
    shifted,
)

DECAY_Q15 = 29491
"""0.9: what is left of the momentum after a step."""
DECAY_BITS = 15
SUM_BITS = 30
"""Bits of a direction, without its sign."""
STORED_BITS = 7
"""Bits of a stored momentum, without its sign."""


@dataclass(frozen=True)
class Momentum(AdaptingRule):
    """The direction is the new momentum before it is rounded to 8 bits.

    It has SUM_BITS for the largest of its channel, so that rounding costs no small gradient. What
    is stored is rounded stochastically, with an exponent that makes the largest fit.
    """

    name = "momentum"
    title = "SGD with momentum 0.9, a byte for each weight"

    def slots(self, channels: int, count: int) -> tuple[Slot, ...]:
        """A momentum for each weight, an exponent for each channel."""
        return (
            Slot(
                "momentum", "sums of late gradients, 8 bits each", np.zeros(channels * count, "i1")
            ),
            Slot("momentum_exponents", "powers of two of momentum", np.zeros(channels, np.int8)),
        )

    def direct(
        self, gradients: ChannelGradients, slots: Sequence[Array]
    ) -> tuple[Directions, tuple[Array, ...]]:
        """Add the decayed momentum in units of 2**(top - SUM_BITS), where nothing overflows."""
        momentum, exponent = slots[0].astype(np.int64), slots[1].astype(np.int64)
        old = momentum[gradients.index]
        old_bits, new_bits = bits(old), bits(gradients.sums)
        nothing = -(10**6)  # a channel of zeros does not decide the unit
        top = 1 + np.maximum(
            np.where(old_bits > 0, old_bits + exponent, nothing),
            np.where(new_bits > 0, new_bits + gradients.exponent, nothing),
        )
        is_still = (old_bits == 0) & (new_bits == 0)
        unit = np.where(is_still, exponent, top - SUM_BITS)
        total = shifted(gradients.sums, gradients.exponent - unit)
        total = total + shifted(old * DECAY_Q15, exponent - DECAY_BITS - unit)
        lost = np.maximum(np.maximum(bits(total) - STORED_BITS, 0), -128 - unit)
        fraction = shifted(total, fixedpoint.FRACTION_BITS - lost)
        rounded = fixedpoint.round_stochastic(fraction, gradients.key, gradients.index + APART)
        stored = np.empty(momentum.size, np.int8)
        stored[gradients.index] = fixedpoint.clip(rounded, -127, 127)
        kept = fixedpoint.clip(unit + lost, -128, 127).astype(np.int8)
        return Directions(total, unit), (stored, kept)
