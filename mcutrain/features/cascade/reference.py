"""A proxy cascade's counts by numpy; the step with fronts is mcutrain.simulation.ladder."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain_host.state import LEVEL_SAMPLES

from mcutrain.features.reference import StepState


class LadderState(StepState):
    """Which fronts samples took."""

    @property
    def level_samples(self) -> list[int]:
        """Samples that were trained through each front."""
        return [int(count) for count in self.words.get(LEVEL_SAMPLES, ())]

    @level_samples.setter
    def level_samples(self, counts: Sequence[int]) -> None:
        if LEVEL_SAMPLES in self.words:
            self.words[LEVEL_SAMPLES][:] = counts
