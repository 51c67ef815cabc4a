"""What trains: one scheme, many schemes beside each other, every part of a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from mcutrain.analysis.gradient import GradientSettings, by_gradient, rate_note
from mcutrain.analysis.problem import HEAD_EPOCHS, Problem, held_out
from mcutrain.analysis.progress import TrialsDone
from mcutrain.analysis.rate import found_rate
from mcutrain.analysis.training import TrainingSettings, by_training
from mcutrain.analysis.workers import Execution, check_backend
from mcutrain.arguments import Count, PathLike, Positive, Seed, Within, checked, warn
from mcutrain.data import Data, Split
from mcutrain.errors import DataError
from mcutrain.functions.run_options import normalization_of
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import load
from mcutrain.pipeline.losses import fit_classes
from mcutrain.runs.training import (
    load_data,
    warn_of_rate,
)
from mcutrain.simulation import check_can_build
from mcutrain.sparse import UpdateScheme, find_head
from mcutrain.sparse.contribution import Contributions

Scheme = UpdateScheme | PathLike
Classes = Count | Literal["auto", "keep"]
TestShare = Annotated[float, Within(0, 1, is_above=True)]


@checked
def analyze(
    model: Graph | PathLike,
    data: Data,
    by: Literal["training", "gradient"] = "training",
    *,
    classes: Classes = "auto",
    samples: Count | None = None,
    test_samples: Count | None = None,
    test_share: TestShare = 0.2,
    stride: Count | None = None,
    epochs: Count = 4,
    head_epochs: Annotated[int, Within(0)] | None = None,
    learning_rate: Positive | None = None,
    seed: Seed = 0,
    seeds: Annotated[int, Within(1, 100)] = 1,
    gradient_samples: Annotated[int, Within(2)] = 256,
    module_rate: Positive | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    jobs: Count | None = None,
    backend: Literal["loky", "dask", "ray"] = "loky",
    scheduler: str | None = None,
    class_names: Sequence[str] = (),
    progress: Callable[[TrialsDone], None] | None = None,
) -> Contributions:
    """Measure what training each bias depth and each layer's weights gains.

    model, data, classes, class_names: as `simulate` takes them; only training samples are looked
    at, of which samples are trained on and test_samples tested on. by: "training" trains every
    candidate, minutes to hours, results stay in the cache; "gradient" estimates in seconds.
    module_rate: of the modules that the model has, as UpdateScheme has it. jobs: candidates at
    once; backend, scheduler: a Dask or Ray cluster. progress: called with how far it is.

    The result goes to `select`; write(path) keeps it. Raises DataError, ModelError, AnalysisError,
    BuildError, ArgumentError.

    >>> analyze("model.int8.tflite", (x, y), by="gradient", learning_rate=0.03)
    """
    tell = progress or (lambda done: None)
    execution = Execution(jobs, backend, scheduler)
    check_backend(execution)
    check_can_build()
    graph = _graph(model)
    whole = _labelled(load_data(graph, data, test_share, seed, stride=stride))
    fitted = fit_classes(graph, whole, classes, class_names)
    wanted, whole = fitted.classes, fitted.split
    for note in fitted.notes:
        warn(note)
    split = held_out(whole.train, samples, test_samples, seed, whole.validation)
    problem = Problem.of(graph, split, wanted, normalization_of(mean, std), warn)
    problem.check_module_rate(module_rate)
    first = HEAD_EPOCHS[by] if head_epochs is None else head_epochs
    rate = _found_rate(problem, epochs, seed) if learning_rate is None else learning_rate
    if by == "gradient":
        is_found = learning_rate is None
        settings = GradientSettings(
            gradient_samples, rate, seed, first, epochs, is_found, module_rate
        )
        found = by_gradient(problem, settings, lambda what, n, of: tell(TrialsDone(what, n, of)))
        if note := rate_note(found, rate):
            warn(note)
        return found
    trials = TrainingSettings(epochs, rate, seed, seeds, first, module_rate)
    return by_training(problem, trials, execution, tell)


def _graph(model: Graph | PathLike) -> Graph:
    """With a head, or a sentence before the data is read."""
    graph = model if isinstance(model, Graph) else load(model)
    find_head(graph)
    return graph


def _found_rate(problem: Problem, epochs: int, seed: int) -> float:
    found = found_rate(problem, epochs, seed)
    warn_of_rate(found)
    return found.rate


def _labelled(split: Split) -> Split:
    if not split.is_labelled:
        raise DataError(
            "the data has no labels, which are needed to compare what is learnt: give (x, y), or "
            "save y beside the samples"
        )
    return split
