"""What a run on this computer did."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.saved import saturated_biases

from mcutrain.features import Decision, FeatureFacts
from mcutrain.pipeline import TrainingStep
from mcutrain.shown import Record, Shown
from mcutrain.simulation import EpochResult, LatentReference, LatentSimulator, Run
from mcutrain.simulation.metrics.tested import OutputScore, Tested

Array = npt.NDArray[Any]

BEFORE = ("loss", "auc", "mae", "r2", "iou", "f1", "outputs")
"""Measures that a result also has of the test before the first step."""
TAKES_LATENTS = (LatentSimulator, LatentReference)


@dataclass(frozen=True, repr=False, kw_only=True)
class SimulationResult(Shown, FeatureFacts, Tested):
    """What a run did, and what features of its step counted in it: skipped, levels, drift.

    before, accuracy: shares of the test samples that are right, before and after.
    saved: the trained state, as mct_state_save writes it.
    learning_rate: the run's, given or found.
    seconds: of the steps. latent: what they began with, if not with the samples.
    saturated_biases: how many stand at an end of the 16 bits of their difference to the model's,
        where the scheme keeps that (bias_bits = 16).
    decisions: what an elastic run selected.
    output_exponent: by which power of two the outputs' scale is larger now.
    mixed_batches: updates from samples of several levels; None where none are put together by it.
    order_doubt: what accuracy before training says against the order of the classes, if anything.
    scheme: what was trained.
    recipe: how the step was made, as JSON, for `export`.

    A network that reproduces its input has NaN for before and accuracy; it has loss_before, loss,
    auc_before and auc as mcutrain.simulation.Tested has them. A network that gives a class for each
    position has iou_before, iou and class_iou, and its accuracy is of positions. A classifier has
    f1_before, f1, the mean over its classes, and class_f1; and auc_before and auc of two classes. A
    network with a label for each output has these and class_auc, and its accuracy is of labels. One
    of real targets has mae and r2, and loss is the mean squared error, in the targets' unit. One of
    several outputs has outputs_before and outputs, the measures of each, and loss as Tested has it.
    """

    before: float
    epochs: tuple[EpochResult, ...]
    steps: int
    seconds: float
    arena_bytes: int
    state_bytes: int
    saved: bytes
    loss_before: float | None = None
    auc_before: float | None = None
    mae_before: float | None = None
    r2_before: float | None = None
    iou_before: float | None = None
    f1_before: float | None = None
    outputs_before: tuple[OutputScore, ...] = ()
    learning_rate: float | None = None
    recipe: str = ""
    saturated_biases: int = 0
    latent: str = ""
    decisions: tuple[Decision, ...] = ()
    output_exponent: int = 0
    mixed_batches: int | None = None
    order_doubt: str = ""
    scheme: str = ""

    def summary(self) -> str:
        """Return a line that describes it."""
        if self.loss is None or self.loss_before is None:
            scores = f"accuracy {100 * self.before:.1f} → {100 * self.accuracy:.1f} %"
            if self.iou is not None and self.iou_before is not None:
                scores += f", mean IoU {100 * self.iou_before:.1f} → {100 * self.iou:.1f} %"
            if self.class_auc and self.f1 is not None and self.f1_before is not None:
                scores += f", F1 {100 * self.f1_before:.1f} → {100 * self.f1:.1f} %"
        else:
            scores = f"loss {self.loss_before:.3f} → {self.loss:.3f}"
        if self.mae is not None and self.mae_before is not None:
            scores = f"MAE {self.mae_before:.4g} → {self.mae:.4g}"
        return f"{scores} in {self.steps:,} steps, {self.sram_bytes:,} bytes of SRAM"

    def records(self) -> list[Record]:
        """A row for each epoch."""
        return [asdict(epoch) for epoch in self.epochs]

    def to_dict(self) -> Record:
        """All of it but the saved state, of which there is the SHA-256."""
        left_out = ("saved", "recipe", "epochs", "decisions", "answers")
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}
        return {
            **values,
            "epochs": self.records(),
            "decisions": [asdict(decision) for decision in self.decisions],
            "sram_bytes": self.sram_bytes,
            "step_us": self.step_us,
            "state_sha256": hashlib.sha256(self.saved).hexdigest(),
        }

    @property
    def step_us(self) -> float:
        """Microseconds per training step on this machine."""
        return 1e6 * self.seconds / max(self.steps, 1)

    @property
    def sram_bytes(self) -> int:
        """Arena and trainable state."""
        return self.arena_bytes + self.state_bytes


def result_of(step: TrainingStep, run: Run) -> SimulationResult:
    """Return what a run that is over did."""
    from mcutrain.trained import output_exponent

    state = run.state
    before, begin = state.before, run.simulator
    assert before is not None
    assert state.tested is not None
    return SimulationResult(
        **vars(state.tested),
        before=before.accuracy,
        **{f"{name}_before": getattr(before, name) for name in BEFORE},
        epochs=state.epochs,
        steps=state.trained,
        seconds=state.seconds,
        arena_bytes=step.plan.arena_bytes,
        state_bytes=step.plan.state_bytes,
        saved=state.saved,
        learning_rate=run.settings.learning_rate,
        recipe="" if step.recipe is None else step.recipe.to_json(),
        saturated_biases=saturated_biases(state.saved, run.table),
        latent=begin.latent.tensor if isinstance(begin, TAKES_LATENTS) else "",
        output_exponent=output_exponent(step, state.saved),
        decisions=state.decisions,
        mixed_batches=_mixed_batches(state.epochs),
        order_doubt=state.order_doubt,
        scheme=step.scheme.name,
        **run.counted(),
    )


def _mixed_batches(epochs: Sequence[EpochResult]) -> int | None:
    counts = [epoch.mixed_batches for epoch in epochs if epoch.mixed_batches is not None]
    return sum(counts) if counts else None
