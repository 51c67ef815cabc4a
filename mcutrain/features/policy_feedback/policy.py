"""Policy feedback: what samples taught moves the choice to dearer or cheaper fronts.

PieBridge (SenSys 2024) corrects its policy, too, but only ever to cheaper fronts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.gate import followed, held

Array = npt.NDArray[Any]

LEVEL_DRIFT = "level_drift"
"""The kind of its section of the state."""
EVERY = 16
"""One of so many samples is a probe, which takes the whole front."""
STEPS = 4
"""Steps of the offset in one unit of a score."""
MOST = 255 * STEPS
"""What outweighs the scores of any two levels."""


@dataclass(frozen=True)
class Drift:
    """What the state keeps. mean_q19: of late losses with the whole front; 0: of none yet.

    offset: in steps; above 0 cheaper fronts are taken than the policy says, below 0 dearer ones.
    """

    mean_q19: int = 0
    offset: int = 0

    @staticmethod
    def of(words: Mapping[str, Array]) -> Drift:
        """From the words of a state, by kind; the first one where a step does not keep it."""
        return Drift(*map(int, words.get(LEVEL_DRIFT, ())))

    def level(self, scores: Sequence[int]) -> int:
        """The level i of the largest score + i * offset; of equal ones the lowest.

        It never falls as the offset rises.
        """
        offset = _bounded(self.offset)
        corrected = [score * STEPS + i * offset for i, score in enumerate(scores)]
        return corrected.index(max(corrected))

    def after(self, wanted: int, loss_q16: int, is_probe: bool) -> Drift:
        """After a step. wanted: the level of `level`, which the step took unless it was a probe.

        A front is judged by probes that wanted it or another proxy, samples of the same kind: those
        that want the whole front are harder by the policy's choice. Half of the losses of an
        exponential distribution are above 0.69 times their mean. With 3/4 a front is taken more
        often as long as its losses are no more than 8 % larger. Each probe takes the offset a step
        towards 0, so that a front that nobody takes any more is tried again.
        """
        mean, loss, offset = max(self.mean_q19, 0), held(loss_q16), _bounded(self.offset)
        if is_probe:
            step = (offset < 0) - (offset > 0)
            if wanted > 0:
                mean = loss if mean == 0 else followed(mean, loss_q16)
            return Drift(mean if wanted > 0 else self.mean_q19, offset + step)
        if wanted == 0 or mean == 0:
            return Drift(self.mean_q19, offset)
        return Drift(self.mean_q19, _bounded(offset + (-1 if 4 * loss > 3 * mean else 1)))


class DriftChoice:
    """Choose a front in the numpy reference, which has the words of a state."""

    def level(self, words: Mapping[str, Array], scores: Sequence[int]) -> int:
        """The level for a sample with these scores of the policy."""
        return Drift.of(words).level(scores)

    def probes(self, words: Mapping[str, Array], counts: Sequence[int]) -> bool:
        """Whether the next step takes the whole front. counts: samples of each front so far."""
        return is_probe(counts)

    def follow(
        self, words: Mapping[str, Array], wanted: int, loss_q16: int, is_probe: bool
    ) -> None:
        """Put what `Drift.after` says into the words."""
        now = Drift.of(words).after(wanted, loss_q16, is_probe)
        words[LEVEL_DRIFT][:] = now.mean_q19, now.offset


def is_probe(samples: Sequence[int]) -> bool:
    """Return whether the next sample is one. samples: of each front, so far, modulo 2^32."""
    return sum(samples) % EVERY == 0


def _bounded(offset: int) -> int:
    return max(-MOST, min(offset, MOST))
