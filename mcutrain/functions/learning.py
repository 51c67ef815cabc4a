"""What training each part of a network gains."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from mcutrain.analysis.gradient import GradientSettings, by_gradient, rate_note
from mcutrain.analysis.problem import HEAD_EPOCHS, Problem, held_out
from mcutrain.analysis.progress import TrialsDone
from mcutrain.analysis.rate import found_rate
from mcutrain.analysis.training import TrainingSettings, by_training
from mcutrain.analysis.workers import Execution, check_backend
from mcutrain.arguments import PathLike, Seed, checked
from mcutrain.data import Data, is_path
from mcutrain.errors import DataError
from mcutrain.functions.chosen import read_samples
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.loading import loaded
from mcutrain.functions.options import Classes
from mcutrain.functions.preparing import Asked
from mcutrain.functions.run_options import AnalysisOptions, ExecutionOptions, HeldOutOptions
from mcutrain.ir.graph import Graph
from mcutrain.pipeline.losses import MEAN_SQUARED_ERROR, fit_classes, fit_to_data
from mcutrain.selection.contribution import Contributions
from mcutrain.simulation import check_can_build
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import find_head


@with_keywords
@checked
def analyze(
    model: Graph | PathLike,
    data: Data,
    by: Literal["training", "gradient"] = "training",
    *,
    classes: Classes = "auto",
    method: AnalysisOptions = AnalysisOptions(),
    reading: HeldOutOptions = HeldOutOptions(),
    running: ExecutionOptions = ExecutionOptions(),
    seed: Seed = 0,
    progress: Callable[[TrialsDone], None] | None = None,
    listener: Listener = SILENT,
) -> Contributions:
    """Measure what training each bias depth and each layer's weights gains.

    Fields of method, reading and running are keywords, too; mcutrain.functions.run_options explains
    each.

    model, data, classes: as `simulate` takes them; only training samples are looked at, of which
    samples are trained on and test_samples tested on. by: "training" trains every candidate,
    minutes to hours, results stay in the cache; "gradient" estimates in seconds. method:
    learning_rate is found by trials if it is not given; module_rate is of the modules that the
    model has, as UpdateScheme has it. running: jobs, candidates at once; backend, scheduler: a Dask
    or Ray cluster. progress: called with how far it is. listener: hears notes and progress; by
    default notes are Python warnings.

    The result goes to `select`; write(path) keeps it. Raises DataError, ModelError, AnalysisError,
    BuildError, ArgumentError.

    >>> analyze("model.int8.tflite", (x, y), by="gradient", learning_rate=0.03)
    """
    execution = Execution(running.jobs, running.backend, running.scheduler)
    check_backend(execution)
    check_can_build()
    if method.learning_rate is not None:
        LearningRate.of(method.learning_rate)  # or a sentence
    if progress is not None:
        listener = _ToldOfCandidates(progress)
    problem = _problem(model, data, classes, reading, seed, listener)
    problem.check_module_rate(method.module_rate)
    listener.analysing(problem)
    rate = method.learning_rate or _found_rate(problem, method.epochs, seed, listener)
    first = HEAD_EPOCHS[by] if method.head_epochs is None else method.head_epochs
    if by == "gradient":
        settings = GradientSettings(
            method.gradient_samples,
            rate,
            seed,
            first,
            method.epochs,
            is_found=method.learning_rate is None,
            module_rate=method.module_rate,
        )
        with listener.candidates(are_kept=False) as tell:
            found = by_gradient(
                problem, settings, lambda what, n, of: tell(TrialsDone(what, n, of))
            )
        if note := rate_note(found, rate):
            listener.doubt(note)
        return found
    trials = TrainingSettings(method.epochs, rate, seed, method.seeds, first, method.module_rate)
    with listener.candidates(are_kept=True) as tell:
        return by_training(problem, trials, execution, tell)


class _ToldOfCandidates(Listener):
    """Turns notes into Python warnings, and tells how far an analysis is."""

    def __init__(self, progress: Callable[[TrialsDone], None]) -> None:
        self.progress = progress

    def candidates(self, *, are_kept: bool) -> AbstractContextManager[Callable[[TrialsDone], None]]:
        """Tell it."""
        return nullcontext(self.progress)


def _problem(
    model: Graph | PathLike,
    data: Data,
    classes: int | str,
    reading: HeldOutOptions,
    seed: int,
    listener: Listener,
) -> Problem:
    """Read what is analysed. Raises DataError, ModelError."""
    graph = loaded(model, listener)
    find_head(graph)  # fail before the data is read
    whole = read_samples(graph, data, reading.drawn(), Asked(), seed, listener)
    if not whole.is_labelled:
        name = f"{data}" if is_path(data) else "the data"
        raise DataError(
            f"{name} has no labels, which are needed to compare what is learnt: give (x, y), or "
            "save y (or y_train and y_test) beside the samples"
        )
    if whole.has_targets:
        names = reading.class_names or ()
        fitted = fit_to_data(graph, whole, classes, MEAN_SQUARED_ERROR, (), names)
    else:
        fitted = fit_classes(graph, whole, classes, reading.class_names or ())
    for note in fitted.notes:
        listener.note(note)
    counts = reading.samples, reading.test_samples
    split = held_out(fitted.split.train, *counts, seed, fitted.split.validation)
    pixels, targets = reading.normalization, fitted.targets
    return Problem.of(graph, split, fitted.classes, pixels, targets=targets)


def _found_rate(problem: Problem, epochs: int, seed: int, listener: Listener) -> float:
    with listener.searching() as report:
        found = found_rate(problem, epochs, seed, report)
    listener.found_rate(found.rate, found)
    return found.rate
