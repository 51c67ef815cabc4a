"""The gate: samples from which a training step learns nothing new are skipped.

As in "PieBridge: Fast and Parameter-Efficient On-Device Training via Proxy Networks" (SenSys 2024)
backward and update run only if the loss exceeds a share of its own moving average.
"""

from __future__ import annotations

import math

from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ArgumentError

MU_Q31 = 390451572
"""2/11, the weight of the newest loss: that of an average of about ten."""
MOST_LOSS_Q16 = 2**28 - 1
"""A loss of 4,096 and more counts as this, so that the average fits int32 with 19 fraction bits."""
MEAN_BITS = 3
"""More fraction bits than a loss has, so that small differences move the average, too."""
MOST_ALPHA = 16


@dataclass(frozen=True)
class Gate:
    """A step learns from a sample if loss > alpha * mean of the losses before. alpha_q16: 2^16."""

    alpha_q16: int

    @staticmethod
    def of(alpha: float) -> Gate:
        """Raises ArgumentError for what is no share of an average."""
        if not (math.isfinite(alpha) and 0 <= alpha <= MOST_ALPHA):
            raise ArgumentError(
                f"the gate's alpha is {alpha:g}: give 0 to {MOST_ALPHA}, such as 0.8, or no gate"
            )
        return Gate(round(alpha * 65536))

    @property
    def alpha(self) -> float:
        """As a real number, to the four digits that 16 bits hold."""
        return round(self.alpha_q16 / 65536, 4)

    def learns(self, mean_q19: int, loss_q16: int) -> bool:
        """Return whether a sample of this loss passes, after samples with this mean loss."""
        return held(loss_q16) << 16 > self.alpha_q16 * max(mean_q19, 0)


def followed(mean_q19: int, loss_q16: int) -> int:
    """The mean after one more sample, which may have been skipped."""
    mean = max(mean_q19, 0)
    return mean + (((held(loss_q16) - mean) * MU_Q31 + (1 << 30)) >> 31)


def held(loss_q16: int) -> int:
    """A loss as it counts in a mean, Q19."""
    return min(loss_q16, MOST_LOSS_Q16) << MEAN_BITS
