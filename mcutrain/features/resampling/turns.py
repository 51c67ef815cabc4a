"""When a run resamples columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ArgumentError
from mcutrain.features.turns import (
    RunPart,
    S,
    TurnedPlan,
    TurnedSimulator,
    TurnSettings,
)
from mcutrain.sparse.elastic import ElasticTimes


@dataclass(frozen=True, kw_only=True)
class ResamplingSettings(TurnSettings):
    """A field of RunSettings.

    swap: which of the RULES of mcutrain.sparse.columns chooses other input channels of partly
    trained layers; empty: none does.
    """

    swap: str = ""

    def resample_every(self, epoch_steps: int, samples_per_update: int) -> int:
        """Steps from one draw to the next; 0 without draws. Raises ArgumentError."""
        if not self.swap:
            return 0
        every = self.every or -(-epoch_steps // samples_per_update) * samples_per_update
        if every < 1 or every % samples_per_update:
            raise ArgumentError(
                f"input channels cannot be resampled every {every:,} steps: give a multiple of the "
                f"{samples_per_update} samples of an update"
            )
        return every


@dataclass(frozen=True)
class ResamplingTurns:
    """Trains other columns every so many steps."""

    every: int
    identity: str = ""

    def steps_to_next(self, step: int) -> int:
        """Return the steps until other columns are trained."""
        return self.every - step % self.every

    def take(self, simulator: TurnedSimulator, state: S) -> S:
        """Train other columns, if it is time to."""
        if state.trained % self.every:
            return state
        simulator.resample()
        return replace(state, saved=simulator.save())


def _turn(
    plan: TurnedPlan,
    settings: ResamplingSettings,
    epoch_steps: int,
    times: Callable[[], ElasticTimes],
) -> ResamplingTurns:
    if not plan.training.resampled:
        raise ArgumentError(
            "this step trains the same input channels, always: prepare one with swap, or run "
            "without"
        )
    return ResamplingTurns(settings.resample_every(epoch_steps, plan.training.accumulate))


RUN = RunPart(
    setting="swap",
    options=lambda settings: {"swap": settings.swap},
    turn=_turn,
    anew="a run that resamples input channels begins anew: leave out --resample, or --after",
)
