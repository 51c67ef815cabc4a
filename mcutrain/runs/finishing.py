"""A run to its end, with a checkpoint that it goes on from."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from mcutrain.pipeline import TrainingStep
from mcutrain.runs.result import SimulationResult, result_of
from mcutrain.runs.watch import Watch
from mcutrain.simulation import Progress, Run, RunSettings, rate_of_checkpoint

CHECKPOINT_SECONDS = 20.0
"""How often a running simulation writes its checkpoint."""


def continued(settings: RunSettings, checkpoint: Path | None) -> RunSettings:
    """Return settings with the learning rate of an existing checkpoint, if they have none."""
    if settings.learning_rate is not None or checkpoint is None or not checkpoint.exists():
        return settings
    return replace(settings, learning_rate=rate_of_checkpoint(checkpoint))


def finish(
    step: TrainingStep, run: Run, checkpoint: Path | None = None, watch: Watch | None = None
) -> SimulationResult:
    """Run to the end, from the checkpoint if it exists, and keep it up to date, also at Ctrl-C."""
    watch = watch or Watch()
    if checkpoint is None:
        run.train(watch.training, watch.evaluating, watch.noting)
        return result_of(step, run)
    if checkpoint.exists():
        run.resume(checkpoint)
        watch.resumed(run.state.trained, run.total)
    run.save(checkpoint)  # fails now rather than after an hour
    saved = time.monotonic()

    def saving(progress: Progress) -> None:
        nonlocal saved
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            run.save(checkpoint)
            saved = time.monotonic()
        watch.training(progress)

    try:
        run.train(saving, watch.evaluating, watch.noting)
    finally:
        run.save(checkpoint)
    return result_of(step, run)
