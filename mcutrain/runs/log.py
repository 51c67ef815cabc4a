"""The log of a training run, on a board or simulated: lines of JSON, and TensorBoard's files.

mcutrain_host.log says what a line holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mcutrain_host.log import JsonLines, Log, Logs, TensorBoard
from mcutrain_host.trainer import position_facts

from mcutrain.autodiff.elastic import ElasticTensor
from mcutrain.features import FACTS, Decision
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.watch import Watch
from mcutrain.simulation import Progress, Run

HERE = "this computer"
"""What stands in the place of the board's name."""
LOGGED = ("loss", "auc", "f1", "iou", "mae", "r2")
"""Measures of a test that are logged besides the accuracy."""


@contextmanager
def opened(path: Path | None, tensorboard: Path | None) -> Iterator[Logs]:
    """The logs that were asked for. Raises LogError."""
    found: list[Log] = [] if path is None else [JsonLines(path)]
    if tensorboard is not None:
        found.append(TensorBoard(tensorboard))
    made = Logs(found)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def logged(
    step: TrainingStep, run: Run, path: Path | None, tensorboard: Path | None
) -> Iterator[Watch]:
    """Return what logs a simulation while it lasts. Raises LogError."""
    if path is None and tensorboard is None:
        yield Watch()
        return
    with opened(path, tensorboard) as logs:
        taking = _Taking(step, run, logs)
        try:
            yield Watch(taking.trained)
        except KeyboardInterrupt:
            taking.end("interrupted")
            raise
        taking.end("finished")


def both(first: Watch, second: Watch) -> Watch:
    """Tells both."""

    def training(progress: Progress) -> None:
        first.training(progress)
        second.training(progress)

    return replace(first, training=training)


def decision_facts(decision: Decision, tensors: Sequence[ElasticTensor]) -> dict[str, Any]:
    """A selection by the tensors' names. importance: of each, as a share of all."""
    total = max(sum(decision.importance), 1)
    named = zip(tensors, decision.importance, strict=True)
    return {
        "step": decision.step,
        "tensors": [tensors[i].name for i in decision.tensors],
        "importance": {tensor.name: value / total for tensor, value in named},
    }


class _Taking:
    """Takes a simulation down, with the events of a training run on a board."""

    def __init__(self, step: TrainingStep, run: Run, log: Log) -> None:
        self.step, self.run, self.log = step, run, log
        self.tested = self.begun = self.told = 0
        self.is_connected = False

    def trained(self, progress: Progress) -> None:
        """The steps since the last call, and the tests before them."""
        assert progress.steps is not None
        first = progress.trained - len(progress.steps.losses_q16)
        self._connect(first)
        self._tests()
        self._selections()
        losses, labels = progress.steps.losses_q16.tolist(), progress.steps.labels.tolist()
        predictions = progress.steps.predictions.tolist()
        for i, rate in enumerate(progress.steps.rates):
            facts: dict[str, Any] = {
                "loss": round(losses[i] / 65536, 6),
                "loss_q16": losses[i],
            }
            if self.run.samples.split.positions:
                facts |= position_facts(predictions[i], progress.steps.labels[i].tobytes())
            elif self.run.learns_classes:
                facts |= {
                    "label": labels[i],
                    "prediction": predictions[i],
                    "is_right": predictions[i] == labels[i],
                }
            facts |= {"rate": rate.value, "mult_q31": rate.mult_q31, "shift": rate.shift}
            if self.run.course.is_replay(first + i):
                facts["is_replay"] = True
            self.log.write("step", first + i + 1, facts)

    def end(self, event: str) -> None:
        """The last tests, and how the run ended."""
        state = self.run.state
        self._connect(state.trained)
        self._tests()
        facts: dict[str, Any] = {"steps": state.trained - self.begun}
        facts["seconds"] = round(state.seconds, 3)
        facts |= FACTS.read(state.saved, self.run.table)
        self.log.write(event, state.trained, facts)

    def _connect(self, position: int) -> None:
        if self.is_connected:
            return
        self.is_connected, self.begun = True, position
        decisions = self.run.state.decisions
        self.told = sum(decision.step < position for decision in decisions)
        count = self.run.course.epoch_steps
        self.tested = max(position - 1, 0) // count  # epochs whose tests an earlier run logged
        facts = {
            "board": HERE,
            "model": self.step.graph.name,
            "scheme": self.step.scheme.name,
            "sram_bytes": self.step.plan.sram_bytes,
            "total": self.run.total,
            "course": self.run.course.digest,
            "settings": asdict(self.run.settings),
            "class_names": self._names(),
        }
        self.log.write("connected", position, facts)
        state = self.run.state
        if position == 0 and state.before is not None:
            found = {name: getattr(state.before, name) for name in LOGGED}
            self._evaluated(0, state.before.accuracy, found)

    def _names(self) -> tuple[str, ...]:
        """Names of the classes, if the data has all of them."""
        training, split = self.step.plan.training, self.run.samples.split
        is_whole = len(split.names) == training.named and not split.has_numbers_for_names
        return split.names if training.has_labels and is_whole else ()

    def _selections(self) -> None:
        """What was selected since the last call."""
        for decision in self.run.state.decisions[self.told :]:
            facts = decision_facts(decision, self.step.plan.training.elastic)
            self.log.write("selected", decision.step, facts)
        self.told = len(self.run.state.decisions)

    def _tests(self) -> None:
        """Log the tests of the epochs that ended since the last call."""
        count = self.run.course.epoch_steps
        for epoch in self.run.state.epochs[self.tested :]:
            self.tested = epoch.epoch
            if epoch.test_accuracy is not None:
                found = {name: getattr(epoch, f"test_{name}") for name in LOGGED}
                self._evaluated(epoch.epoch * count, epoch.test_accuracy, found)

    def _evaluated(self, position: int, accuracy: float, found: Mapping[str, float | None]) -> None:
        facts: dict[str, Any] = {"samples": len(self.run.samples.split.test)}
        if self.run.learns_classes:
            facts["accuracy"] = accuracy
        facts |= {name: value for name, value in found.items() if value is not None}
        self.log.write("evaluated", position, facts)
