"""What came of the runs of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mcutrain_host.dataclass import dataclass

from mcutrain.data import Dataset, Episodes, Split
from mcutrain.errors import ArgumentError, DataError
from mcutrain.experiments.parallel import Lesson, Trial
from mcutrain.experiments.rows import PlannedRow
from mcutrain.ir.graph import Graph
from mcutrain.pipeline.losses import (
    CROSS_ENTROPY,
    MEAN_SQUARED_ERROR,
    Fitted,
    fit_classes,
    fit_to_data,
)
from mcutrain.report.learning import ACCURACY, AUC, R2, Compared
from mcutrain.runs.doubts import saturation_warning
from mcutrain.runs.result import SimulationResult

SEEDS = 3
"""Runs of each row if nobody says how many."""
Results = Mapping[Trial, SimulationResult]


@dataclass(frozen=True)
class Runs:
    """How often each row is trained: from so many seeds, or in few-shot episodes."""

    count: int
    episodes: Episodes | None = None

    @staticmethod
    def of(seeds: int | None, episodes: Episodes | None) -> Runs:
        """Raises ArgumentError if both are given."""
        if episodes is None:
            return Runs(SEEDS if seeds is None else seeds)
        if seeds is not None:
            raise ArgumentError("episodes take the place of seeds: leave these out")
        return Runs(episodes.count, episodes)

    def fitted(
        self,
        graph: Graph,
        split: Split,
        wanted: int | str,
        class_names: Sequence[str] = (),
        loss: str = CROSS_ENTROPY,
    ) -> Fitted:
        """The outputs of a new head, the loss, and the data with labels that are output numbers.

        wanted, class_names, loss: as mcutrain.pipeline.losses.fit_to_data takes them, for runs that
        are no episodes. Raises DataError if the data has not what the runs take.
        """
        if self.episodes is None and loss == CROSS_ENTROPY:
            return fit_classes(graph, split, wanted, class_names)
        if self.episodes is None:
            return fit_to_data(graph, split, wanted, loss, (), class_names)
        if loss == MEAN_SQUARED_ERROR:
            raise DataError("an episode learns classes, which --loss mse does not: leave it out")
        self.episodes.check(split)
        return Fitted(self.episodes.ways, CROSS_ENTROPY, split)

    def samples(self, split: Split) -> int:
        """Samples of an epoch."""
        return len(split.train) if self.episodes is None else self.episodes.samples


def trials(schemes: int, seeds: int) -> list[Trial]:
    """Every scheme from every seed, seed by seed: an interrupted comparison has whole columns."""
    return [Trial(i, seed) for seed in range(seeds) for i in range(schemes)]


def with_results(
    candidates: Sequence[PlannedRow],
    rows: Sequence[Compared],
    results: Mapping[Trial, SimulationResult],
    episodes: Episodes | None = None,
    measure: str = ACCURACY,
) -> list[Compared]:
    """The rows with what their schemes learnt, seeds, or episodes, in order. measure: see AUC.

    Instructions are those of a step in the mean, where samples are skipped or take one front or
    another. Of an elastic row they stay its share of a step, as if none was skipped.
    """
    found = []
    for i, (candidate, planned) in enumerate(zip(candidates, rows, strict=True)):
        own = [
            results[trial] for trial in sorted(results, key=lambda t: t.seed) if trial.scheme == i
        ]
        row = _executed(planned, candidate, own)
        found.append(
            replace(
                row,
                accuracies=tuple(_value(r.accuracy, r.auc, r.r2, measure) for r in own),
                before=tuple(_value(r.before, r.auc_before, r.r2_before, measure) for r in own),
                measure=measure,
                learning_rate=next((r.learning_rate for r in own), None),
                ways=0 if episodes is None else episodes.ways,
                shots=0 if episodes is None else episodes.shots,
            )
        )
    return found


def score(result: SimulationResult) -> float:
    """Return what a scheme is chosen by after training: R² of real targets, else accuracy."""
    return _value(result.accuracy, None, result.r2, R2)


def check_targets(part: Dataset, name: str, samples: str) -> None:
    """Raise DataError where R² says nothing of a target. name: of the data. samples: the part's."""
    if (part.y.min(axis=0) == part.y.max(axis=0)).any():
        raise DataError(
            f"{name} has a target that is the same in all {samples}, of which R², by which schemes "
            "are compared, says nothing: add samples where it differs"
        )


def _value(accuracy: float, auc: float | None, r2: float | None, measure: str) -> float:
    found = {ACCURACY: None, AUC: auc, R2: r2}[measure]
    return accuracy if found is None else found


def _executed(
    row: Compared, candidate: PlannedRow, results: Sequence[SimulationResult]
) -> Compared:
    """Add the shares of samples that were learnt, and of each front, and what a step took."""
    steps = sum(result.steps for result in results)
    if not steps:
        return row
    learnt, levels = None, None
    if any(result.skipped is not None for result in results):
        learnt = 1 - sum(result.skipped or 0 for result in results) / steps
    counts = [result.levels for result in results if result.levels is not None]
    if counts:
        levels = tuple(sum(own) / steps for own in zip(*counts, strict=True))
    changed = replace(row, learnt=learnt, levels=levels or ())
    if candidate.parts is None or candidate.way.elastic is not None:
        return changed
    mean = candidate.parts.mean(1.0 if learnt is None else learnt, levels)
    return replace(changed, instructions=round(mean))


def doubts_of(lesson: Lesson, rows: Sequence[Compared], results: Results) -> list[str]:
    """Sentences about results that are not to be trusted without a look."""
    return [*_orders(results), *_saturations(rows, results), *_doubts(lesson, rows, results)]


def _orders(results: Results) -> list[str]:
    """Return what the test before training says against the order of the classes, once."""
    return [r.order_doubt for r in results.values() if r.order_doubt][:1]


def _saturations(rows: Sequence[Compared], results: Results) -> list[str]:
    """A sentence for each scheme some of whose biases would have moved further."""
    counts = dict.fromkeys(range(len(rows)), 0)
    for trial, result in results.items():
        counts[trial.scheme] = max(counts[trial.scheme], result.saturated_biases)
    return [f"{rows[i].name}: {saturation_warning(count)}" for i, count in counts.items() if count]


def _doubts(lesson: Lesson, rows: Sequence[Compared], results: Results) -> list[str]:
    """A sentence for each row whose choices of tensors were no more than chance."""
    found = []
    for number in lesson.ways:
        settings, group = lesson.settings_of(number), lesson.options.accumulate
        own = [d for trial, r in results.items() if trial.scheme == number for d in r.decisions]
        text = settings.doubt(own, settings.epoch_steps(lesson.samples), group)
        found.append((rows[number].name, text))
    return [f"{name}: {text}" for name, text in found if text]
