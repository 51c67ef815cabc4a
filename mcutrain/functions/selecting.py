"""Schemes for a range of budgets, and the best of several schemes when all are trained."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import Count, PathLike, Within, checked
from mcutrain.data import Data, is_path
from mcutrain.errors import ArgumentError, DataError, OptionError, PlanError
from mcutrain.experiments import finalists
from mcutrain.experiments.finalists import Finalist
from mcutrain.experiments.parallel import Lesson, Trial, train_all
from mcutrain.experiments.results import check_targets, score
from mcutrain.functions.choosing import Choice, all_limits
from mcutrain.functions.chosen import samples_for
from mcutrain.functions.files import check_writable_folder, write_all
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.options import Classes
from mcutrain.functions.run_options import (
    DataOptions,
    LimitOptions,
    SchemeReading,
    SelectOptions,
    TrainingOptions,
)
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import StepOptions
from mcutrain.pipeline.losses import Fitted, fit_classes, fit_targets
from mcutrain.report.learning import ACCURACY, R2
from mcutrain.runs.sample_reading import model_input
from mcutrain.selection.contribution import Contributions
from mcutrain.selection.proposals import Proposal, propose
from mcutrain.selection.result import Selection
from mcutrain.selection.select import Selector
from mcutrain.shown import Record, Shown


@dataclass(frozen=True)
class SchemeTrials:
    """How schemes are trained, and on what. jobs: processes; None is one per core."""

    data: Data
    training: TrainingOptions = TrainingOptions()
    reading: SchemeReading = SchemeReading()
    seed: int = 0
    jobs: int | None = None

    @property
    def processes(self) -> int:
        """One per core unless told otherwise."""
        return self.jobs or os.cpu_count() or 1

    def some(self, choice: Choice, listener: Listener) -> Fitted:
        """Read as many training samples as asked for, and the test samples. Raises DataError."""
        return self._read(choice, self.reading.drawn(self.reading.samples), listener)

    def parted(self, choice: Choice, listener: Listener) -> Fitted:
        """Read training samples only: some to train on, others to choose by. Raises DataError."""
        fitted = self._read(choice, self.reading.drawn(), listener)
        whole = fitted.split
        parts = finalists.part(whole.train, self.reading.samples, self.seed, whole.validation)
        return fitted._replace(split=parts)

    def _read(self, choice: Choice, reading: DataOptions, listener: Listener) -> Fitted:
        """Read samples whose labels are numbers of the choice's classes, or its real targets."""
        model = model_input(choice.graph)
        split = samples_for(model, self.data, reading, self.seed, listener, is_partial=False)
        name = f"{self.data}" if is_path(self.data) else "the data"
        if not split.is_labelled:
            raise DataError(
                f"{name} has no labels, which are needed to compare what is learnt: give (x, y), "
                "or save y (or y_train and y_test) beside the samples"
            )
        if split.has_targets != (choice.options.targets is not None):
            kinds = ("real targets", "classes")
            own, others = kinds if split.has_targets else reversed(kinds)
            raise DataError(
                f"{name} has {own}, but the analysis is of {others}: give the data that was "
                "analysed, or analyze this"
            )
        names = tuple(self.reading.class_names or ())
        fit = fit_targets if split.has_targets else fit_classes
        fitted = fit(choice.graph, split, choice.classes or "keep", given=names)
        for note in filter(None, fitted.notes):
            listener.note(note)
        return fitted

    def lesson(self, choice: Choice, fitted: Fitted) -> Lesson:
        """Return what every scheme learns, without schemes yet. Raises ArgumentError, DataError."""
        if choice.file is None:
            raise ArgumentError("model is a graph, but every process reads a file: give its path")
        if fitted.targets is not None:
            name = f"{self.data}" if is_path(self.data) else "the data"
            check_targets(fitted.split.test, name, "samples that schemes are compared by")
        options = StepOptions(
            classes=choice.classes,
            accumulate=choice.request.accumulate,
            loss=fitted.loss,
            targets=fitted.targets,
        )
        settings, pixels = self.training.settings(self.seed), self.reading.normalization
        return Lesson(choice.file, (), options, fitted.split, settings, pixels)


def reached_by(choice: Choice) -> str:
    """Return what schemes are compared by once they are trained."""
    return ACCURACY if choice.options.targets is None else R2


def selector_of(choice: Choice, listener: Listener) -> Selector:
    """Return what selects, once the listener has heard of all costs."""
    with listener.counting("costing schemes") as tell:
        return choice.selector(lambda done, of: tell("costing schemes", done, of))


# ------------------------------------------------------------------------------ a range of budgets


@dataclass(frozen=True)
class BudgetPoint:
    """The selection for one budget; None if nothing fits, and why. trained: accuracy reached, of
    real targets R².

    is_pareto: whether it gains more than every point with less SRAM.
    """

    budget: int
    found: Selection | None
    reason: str = ""
    is_pareto: bool = False
    trained: float | None = None

    def to_dict(self) -> Record:
        """Return values for JSON."""
        facts: Record = {"budget_bytes": self.budget, "is_pareto": self.is_pareto}
        if self.found is None:
            return {**facts, "reason": self.reason}
        return {**facts, "trained_accuracy": self.trained, **self.found.to_dict()}


@dataclass(frozen=True, repr=False)
class BudgetSweep(Shown):
    """The best scheme for each of several budgets. model: its name. reached: what trained is."""

    model: str
    points: tuple[BudgetPoint, ...]
    reached: str = ACCURACY

    @property
    def measure(self) -> str:
        """What is gained."""
        return next(point.found.measure for point in self.points if point.found)

    def summary(self) -> str:
        """Return a line that describes it."""
        least, most = self.points[0].budget, self.points[-1].budget
        worth = sum(point.is_pareto for point in self.points)
        return f"{self.model}, {worth} schemes that are worth {least:,} to {most:,} bytes of SRAM"

    def records(self) -> list[Record]:
        """A row for each budget."""
        rows = []
        for point in self.points:
            selection, facts = (
                point.found,
                {"budget_bytes": point.budget, "pareto": point.is_pareto},
            )
            known = {
                "sram_bytes": None if selection is None else selection.measured.sram_bytes,
                "gain": None if selection is None else selection.gain,
                "trained": point.trained,
                "biases": None if selection is None else selection.scheme.bias_depth,
                "weights": None if selection is None else len(selection.layers),
            }
            rows.append({**facts, **known})
        return rows

    def to_dict(self) -> Record:
        """Return it as `mcutrain select --sweep --json` prints it."""
        return {"model": self.model, **self._facts()}

    def _facts(self) -> Record:
        points = [point.to_dict() for point in self.points]
        return {"trained_measure": self.reached, "points": points}

    def write(self, folder: PathLike) -> None:
        """A scheme for each budget, and all in sweep.json. Raises McutrainError."""
        files = {
            f"scheme-{point.budget}.toml": point.found.scheme.to_toml()
            for point in self.points
            if point.found is not None
        }
        files["sweep.json"] = json.dumps(self._facts(), indent=2, ensure_ascii=False) + "\n"
        write_all(Path(folder), files)


@with_keywords
@checked
def select_for_budgets(
    model: Graph | PathLike,
    analysis: Contributions | PathLike,
    budgets: Sequence[Count],
    data: Data | None = None,
    *,
    classes: Classes = "auto",
    request: SelectOptions = SelectOptions(),
    limits: LimitOptions = LimitOptions(),
    training: TrainingOptions = TrainingOptions(),
    reading: SchemeReading = SchemeReading(),
    output: PathLike | None = None,
    seed: Annotated[int, Within(0, 2**31 - 2)] = 0,
    jobs: Count | None = None,
    listener: Listener = SILENT,
) -> BudgetSweep:
    """Select what to train for each of several budgets of SRAM, in bytes.

    Fields of request, limits, training and reading are keywords, too;
    mcutrain.functions.run_options explains each.

    model, analysis, classes, request, limits: as `select` takes them, without sram. data: with it,
    each scheme on the Pareto front is trained, as training and reading say; the result has the
    accuracies. output: a folder for each scheme and sweep.json. jobs: processes, one per core by
    default. listener: hears notes and progress; by default notes are Python warnings.

    Raises PlanError if nothing fits any budget; AnalysisError, DataError, ModelError, TargetError,
    BuildError, ArgumentError.

    >>> select_for_budgets("model.int8.tflite", found, [65536, 131072]).to_pandas()
    """
    choice = sweep_choice(model, analysis, request, limits, classes)
    trials = None if data is None else SchemeTrials(data, training, reading, seed, jobs)
    return swept(choice, budgets, trials, None if output is None else Path(output), listener)


def sweep_choice(
    model: Graph | PathLike,
    analysis: Contributions | PathLike,
    request: SelectOptions,
    limits: LimitOptions,
    classes: int | str,
) -> Choice:
    """Return what schemes for several budgets are chosen from. Raises McutrainError."""
    if request.elastic:
        raise OptionError("elastic", "it does not go with --sweep")
    if limits.sram is not None:
        raise OptionError("sram", "a sweep has its own budgets")
    is_free = request.board is None and limits == LimitOptions()
    allowed = None if is_free else all_limits(request, limits)
    return Choice.of(model, analysis, request, allowed, classes, builds=False)


def swept(
    choice: Choice,
    budgets: Sequence[int],
    trials: SchemeTrials | None,
    folder: Path | None,
    listener: Listener,
) -> BudgetSweep:
    """A selection for each budget. trials: of those that are worth their bytes."""
    if folder is not None:
        check_writable_folder(folder)
    lesson = None if trials is None else trials.lesson(choice, trials.some(choice, listener))
    points = _select_each(choice, budgets, listener)
    sweep = BudgetSweep(choice.graph.name, points, reached_by(choice))
    if folder is not None:
        sweep.write(folder)
    if lesson is None or trials is None:
        return sweep
    sweep = replace(sweep, points=_trained(points, lesson, trials.processes, listener))
    if folder is not None:
        sweep.write(folder)
    return sweep


def _select_each(
    choice: Choice, budgets: Sequence[int], listener: Listener
) -> tuple[BudgetPoint, ...]:
    """A selection for each budget. Raises PlanError if nothing fits any."""
    selector, points = selector_of(choice, listener), list[BudgetPoint]()
    with listener.counting("selecting") as tell:
        for done, budget in enumerate(budgets, 1):
            try:
                limits = replace(choice.limits, sram_bytes=budget)
                points.append(BudgetPoint(budget, selector.select(limits, with_next=False)))
            except PlanError as error:
                points.append(BudgetPoint(budget, None, str(error)))
            tell("selecting", done, len(budgets))
    if not any(point.found for point in points):
        raise PlanError(points[-1].reason if points else "there is no budget: give one or more")
    return _marked(points)


def _marked(points: Sequence[BudgetPoint]) -> tuple[BudgetPoint, ...]:
    """The points, with those marked that gain more than every point with less SRAM."""
    marked, best = [], float("-inf")
    for point in points:
        is_pareto = point.found is not None and point.found.gain > best
        if point.found is not None:
            best = max(best, point.found.gain)
        marked.append(replace(point, is_pareto=is_pareto))
    return tuple(marked)


def _trained(
    points: Sequence[BudgetPoint], lesson: Lesson, processes: int, listener: Listener
) -> tuple[BudgetPoint, ...]:
    """Those on the Pareto front with the accuracy that training reaches."""
    worth = [point for point in points if point.is_pareto and point.found is not None]
    schemes = tuple(point.found.scheme for point in worth if point.found is not None)
    names = [f"{point.budget:,} bytes" for point in worth]
    trials = [Trial(i, lesson.settings.seed) for i in range(len(worth))]
    with listener.trials("sweep", names, len(worth), "seed") as report:
        results = train_all(replace(lesson, schemes=schemes), trials, processes, report)
    accuracies = {p.budget: score(r) for p, r in zip(worth, results, strict=True)}
    return tuple(replace(point, trained=accuracies.get(point.budget)) for point in points)


# ------------------------------------------------------------------------- the best when trained


@dataclass(frozen=True, repr=False)
class TrainedSelection(Shown):
    """The best of several schemes when all are trained, and all of them, the best first.

    trained_samples, held_out_samples: how many training samples they learnt from, and were compared
    on. measure: by what, accuracy or R².
    """

    selection: Selection
    finalists: tuple[Finalist, ...]
    trained_samples: int
    held_out_samples: int
    measure: str = ACCURACY

    def summary(self) -> str:
        """Return a line that describes it."""
        best = self.finalists[0]
        reached = f"{100 * best.accuracy:.1f} % of held-out samples"
        if self.measure != ACCURACY:
            reached = f"an {self.measure} of {best.accuracy:.3f} of held-out samples"
        return (
            f"best of {len(self.finalists)} by {best.proposal.reading}, {reached}: "
            f"{self.selection.summary()}"
        )

    def records(self) -> list[Record]:
        """A row for each scheme."""
        return [
            {
                "reading": finalist.proposal.reading,
                "held_out_accuracy": finalist.accuracy,
                "held_out_measure": self.measure,
                "learning_rate": finalist.learning_rate,
                "expected_gain": finalist.proposal.selection.gain,
                "sram_bytes": finalist.proposal.selection.measured.sram_bytes,
                "scheme": finalist.proposal.selection.scheme.to_toml(),
            }
            for finalist in self.finalists
        ]

    def to_dict(self) -> Record:
        """The selection, and all schemes."""
        return {"finalists": self.records(), **self.selection.to_dict()}


@with_keywords
@checked
def select_by_training(
    model: PathLike,
    analysis: Contributions | PathLike,
    data: Data,
    count: Annotated[int, Within(2, 20)] = 4,
    *,
    classes: Classes = "auto",
    request: SelectOptions = SelectOptions(),
    limits: LimitOptions = LimitOptions(),
    training: TrainingOptions = TrainingOptions(),
    reading: SchemeReading = SchemeReading(),
    seed: Annotated[int, Within(0, 2**31 - 2)] = 0,
    jobs: Count | None = None,
    build: bool = True,
    listener: Listener = SILENT,
) -> TrainedSelection:
    """Train several schemes that fit, each the best by another reading of the analysis.

    The best on training samples held out is selected; test samples are not looked at. Fields of
    request, limits, training and reading are keywords, too; mcutrain.functions.run_options explains
    each.

    model: a file, which every process reads. analysis, classes, request, limits, build: as `select`
    takes them. count: how many schemes. training, reading: how they are trained. jobs: processes,
    one per core by default. listener: hears notes and progress; by default notes are Python
    warnings.

    An interrupted call continues from the cache. Raises PlanError if nothing fits; DataError if
    there are too few samples; AnalysisError, ModelError, TargetError, BuildError, ArgumentError.

    >>> select_by_training("model.int8.tflite", found, (x, y), board="nucleo-f446re").selection
    """
    choice = finalists_choice(model, analysis, request, limits, classes, builds=build)
    return best_trained(choice, count, SchemeTrials(data, training, reading, seed, jobs), listener)


def finalists_choice(
    model: PathLike,
    analysis: Contributions | PathLike,
    request: SelectOptions,
    limits: LimitOptions,
    classes: int | str,
    *,
    builds: bool,
) -> Choice:
    """Return what schemes that are trained are chosen from. Raises McutrainError."""
    if request.elastic:
        raise OptionError("elastic", "it does not go with --finalists")
    return Choice.of(model, analysis, request, all_limits(request, limits), classes, builds=builds)


def best_trained(
    choice: Choice, count: int, trials: SchemeTrials, listener: Listener
) -> TrainedSelection:
    """The best of so many proposals, each trained."""
    lesson = trials.lesson(choice, trials.parted(choice, listener))
    found = _proposals(choice, count, listener)
    names = [proposal.reading for proposal in found]
    with listener.trials("finalists", names, len(found), "seed") as report:
        ranked = finalists.trained(found, lesson, trials.processes, report)
    best, split = ranked[0].proposal.selection, lesson.split
    samples = len(split.train), len(split.test)
    return TrainedSelection(best, tuple(ranked), *samples, reached_by(choice))


def _proposals(choice: Choice, count: int, listener: Listener) -> list[Proposal]:
    """Schemes by several readings. Costs are worked out for the first, the others follow soon."""
    read, measure = choice.contributions.smoothed(), choice.request.measure
    if measure is not None:
        read = replace(read, gains={measure: read.gain(measure)})
    with listener.counting("proposing schemes") as tell:
        return propose(
            choice.graph,
            read,
            choice.costs,
            choice.limits,
            count,
            by_gradient=choice.request.by_gradient,
            progress=lambda done, of: tell("proposing schemes: costs", done, of),
            report=lambda found: tell("proposing schemes", found, count),
        )
