"""mcutrain analyze: what training each bias and each layer's weights contributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from mcutrain.cli import INTERRUPTED, options
from mcutrain.cli import samples as inputs
from mcutrain.cli.models import load_model
from mcutrain.cli.output import (
    IN_PERCENT,
    check_writable,
    err,
    replace_file,
    say,
    show,
    show_json,
    show_table,
)
from mcutrain.cli.training import Lines, rate_line, searching
from mcutrain.functions.run_options import Rate

if TYPE_CHECKING:
    from mcutrain.analysis.problem import Problem
    from mcutrain.analysis.progress import TrialsDone
    from mcutrain.analysis.workers import Execution
    from mcutrain.ir.graph import Graph
    from mcutrain.sparse.contribution import Contributions

UNITS = {
    "accuracy": "points of accuracy",
    "probability": "points of the right class's mean probability",
    "loss": "nats of loss",
    "learnable": "effective dimensions that steps of one sample reach",
    "joint": "effective dimensions, each alone",
    "dimension": "effective dimensions of the gradients",
    "fisher": "mean squared gradient",
    "first_order": "nats of loss per step",
}


@dataclass(frozen=True, kw_only=True)
class HeldOutFlags(inputs.SourceFlags):
    """Flags of how a data set is read of whose training samples some are for the test."""

    samples: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Training samples to train on, of every class alike; half of them, 1000 at most, "
            "by default.",
        ),
    ] = None
    test_samples: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Other training samples to test on, of every class alike; what is left, 1000 at "
            "most, by default. The data's own test samples are not looked at.",
        ),
    ] = None


@dataclass(frozen=True)
class AnalysisFlags:
    """Flags of how contributions are measured."""

    by: Annotated[
        Literal["training", "gradient"],
        typer.Option(
            help="training: train every candidate, minutes to hours. gradient: estimate from "
            "gradients, seconds."
        ),
    ] = "training"
    epochs: Annotated[
        int, typer.Option(min=1, help="Passes over the training samples, of every candidate.")
    ] = 4
    head_epochs: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Passes before, in which the classifier is trained alone; by default 0 by "
            "training, as `simulate` starts, and 10 by gradient.",
            show_default=False,
        ),
    ] = None
    learning_rate: Rate = None
    seed: options.Seed = 0
    seeds: Annotated[
        int,
        typer.Option(
            min=1, max=100, help="Average so many runs with other orders, rounding and classifiers."
        ),
    ] = 1
    gradient_samples: Annotated[
        int, typer.Option(min=2, help="By gradient: samples whose gradients are taken.")
    ] = 256
    module_rate: Annotated[
        float | None,
        typer.Option(
            metavar="F",
            help="What the learning rate of modules is multiplied with; 1 for gains and 0.1 for "
            "all others by default. It goes to what is selected.",
            show_default=False,
        ),
    ] = None

    def check(self) -> None:
        """Raise ArgumentError for a rate that is none, before the data is read."""
        from mcutrain.simulation.rates import LearningRate

        if self.learning_rate is not None:
            LearningRate.of(self.learning_rate)

    @property
    def head_passes(self) -> int:
        """Passes in which the head is trained alone."""
        from mcutrain.analysis.problem import HEAD_EPOCHS

        return HEAD_EPOCHS[self.by] if self.head_epochs is None else self.head_epochs

    def rate(self, problem: Problem, quiet: bool) -> float:
        """The given one, or one that is found for all candidates."""
        from mcutrain.analysis.rate import found_rate

        if self.learning_rate is not None:
            return self.learning_rate
        with searching() as report:
            found = found_rate(problem, self.epochs, self.seed, report)
        if not quiet:
            say(rate_line(found.rate, found))
        return found.rate


@dataclass(frozen=True)
class ExecutionFlags:
    """Flags of where trials run."""

    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Candidates at once; one per core by default.", show_default=False
        ),
    ] = None
    backend: Annotated[
        Literal["loky", "dask", "ray"],
        typer.Option(
            help="loky: processes of this machine. dask, ray: a cluster, whose workers need the "
            "same version of mcutrain and a C compiler; samples are sent to them."
        ),
    ] = "loky"
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of the cluster; without it a local one.",
            show_default=False,
        ),
    ] = None

    def execution(self) -> Execution:
        """Return how candidates are run, checked. Raises AnalysisError."""
        from mcutrain.analysis.workers import Execution, check_backend

        found = Execution(self.jobs, self.backend, self.scheduler)
        check_backend(found)
        return found


def analyze(
    model: options.Model,
    data: inputs.Data,
    *,
    classes: options.AutoClasses = options.AUTO,
    method: AnalysisFlags,
    reading: HeldOutFlags,
    running: ExecutionFlags,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the analysis there, for `mcutrain select` and `mcutrain report`; --json "
            "prints it without the inner products that they read.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure what to train: the gain of every bias depth and of every layer's weights.

    In the device's integers, on samples as they are: no flips or shifts, so that activations of
    the frozen front are computed once. Results are kept in the cache folder: the same command
    continues an interrupted analysis, and adds what is new to an extended one. Modules that the
    model has, of `mcutrain augment`, are measured with the layers.

    Example: `mcutrain analyze model.tflite --data images/ -o analysis.json`
    """
    from mcutrain.simulation import check_can_build

    execution = running.execution()
    check_can_build()  # a sentence before the data is read
    method.check()
    if output is not None:
        check_writable(output)
    problem = _load(model, reading.of(data, method.seed), classes)
    problem.check_module_rate(method.module_rate)
    if not json:
        say(_headline(problem))
    rate = method.rate(problem, quiet=json)
    if method.by == "gradient":
        from mcutrain.analysis.gradient import rate_note

        found = _by_gradient(problem, method, rate)
        if note := rate_note(found, rate):
            say(f"mcutrain: {note}")
    else:
        found = _by_training(problem, method, rate, execution)
    if output is not None:
        replace_file(output, found.to_json().encode())
    if json:
        show_json(_printed(found, output))
    else:
        _print(found)


def _load(model: Path, source: inputs.DataSource, classes: str) -> Problem:
    from dataclasses import replace

    from mcutrain.analysis.problem import Problem, held_out
    from mcutrain.runs.training import model_input
    from mcutrain.sparse import find_head

    graph: Graph = load_model(model)
    find_head(graph)  # a sentence before the data is read
    everything = replace(source, samples=None, test_samples=None)
    whole = everything.read_labelled(model_input(graph))
    wanted, whole = options.fit_classes(graph, whole, classes, source.class_names)
    counts = source.samples, source.test_samples
    split = held_out(whole.train, *counts, source.seed, whole.validation)
    return Problem.of(graph, split, wanted, source.normalization)


def _headline(problem: Problem) -> str:
    head = "its own" if problem.classes is None else "a new"
    return (
        f"{problem.model.name}: {len(problem.layers)} layers and {head} head of {problem.outputs} "
        f"classes, {len(problem.train_y):,} training and {len(problem.test_y):,} test samples"
    )


def _by_training(
    problem: Problem, method: AnalysisFlags, rate: float, execution: Execution
) -> Contributions:
    from mcutrain.analysis.training import TrainingSettings, by_training

    settings = TrainingSettings(
        method.epochs,
        rate,
        method.seed,
        method.seeds,
        method.head_passes,
        method.module_rate,
    )
    try:
        with _watching() as watch:
            return by_training(problem, settings, execution, watch)
    except KeyboardInterrupt:
        say("mcutrain: interrupted; the results so far are kept, the same command continues")
        raise typer.Exit(INTERRUPTED) from None


def _by_gradient(problem: Problem, method: AnalysisFlags, rate: float) -> Contributions:
    from mcutrain.analysis.gradient import GradientSettings, by_gradient
    from mcutrain.analysis.progress import TrialsDone

    settings = GradientSettings(
        method.gradient_samples,
        rate,
        method.seed,
        method.head_passes,
        method.epochs,
        is_found=method.learning_rate is None,
        module_rate=method.module_rate,
    )
    with _watching() as watch:
        return by_gradient(
            problem, settings, lambda what, n, of: watch.tell(TrialsDone(what, n, of))
        )


class _Watch:
    """Shows progress as a bar, or as lines where there is no terminal."""

    def __init__(self, bar: Bar) -> None:
        self._bar, self._lines = bar, Lines("analyze")
        self._task = bar.add_task("", facts="")

    def tell(self, done: TrialsDone) -> None:
        """How far it is."""
        facts = f"{done.done:,} of {done.total:,}"
        if done.remaining_seconds is not None:
            facts += f", {_duration(done.remaining_seconds)} left"
        self._bar.update(
            self._task, description=done.what, completed=done.done, total=done.total, facts=facts
        )
        self._lines.tell(f"{done.what}: {facts}")

    __call__ = tell


@contextmanager
def _watching() -> Iterator[_Watch]:
    with Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[facts]}", markup=False),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as bar:
        yield _Watch(bar)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _printed(found: Contributions, output: Path | None) -> dict[str, Any]:
    """Return what the file has, without the kernels, which are megabytes: where these are."""
    values = found.to_dict()
    if found.kernels is not None:
        file = None if output is None else str(output)
        values["kernels"] = {"samples": found.kernels.samples, "file": file}
    return values


def _ends(measure: str, by: Mapping[int, float]) -> tuple[str, str]:
    """The gains of the smallest and the largest module."""
    return _gain(measure, by[min(by)]), _gain(measure, by[max(by)])


def _print(found: Contributions) -> None:
    measure = next(iter(found.gains))
    gains, count = found.gains[measure], len(found.layers)
    shares = sorted({share for by_share in gains.weights.values() for share in by_share})
    rows = [
        [
            i,
            name,
            *(_gain(measure, gains.weights[i][share]) for share in shares),
            _gain(measure, gains.bias[count - i]),
        ]
        for i, name in enumerate(found.layers)
    ]
    show(f"Gains in {UNITS[measure]}: of shares of a layer's weights, and of all biases from it on")
    show_table(("#", "layer", *(f"{share:g}" for share in shares), "biases"), rows, 2)
    if gains.modules:
        show("and of modules, by how many of their hidden channels")
        own = [
            [name, " ".join(map(str, by)) if max(by) else None, *_ends(measure, by)]
            for name, by in gains.modules.items()
        ]
        show_table(("module", "channels", "gain of the fewest", "of all"), own, 1)
    head = ", ".join(f"{name} {_value(name, value)}" for name, value in found.head.items())
    show(f"with the head alone   {head}")
    if len(found.residual_factor) > 1:
        factors = ", ".join(f"{bits} bits {f:.2f}" for bits, f in found.residual_factor.items())
        show(f"residual bits         gains of weights relative to 4 bits: {factors}")
    show(f"time                  {_time(found)}")


def _gain(measure: str, value: float) -> str:
    return f"{100 * value:+.1f}" if measure in IN_PERCENT else f"{value:+.3g}"


def _value(measure: str, value: float) -> str:
    return f"{100 * value:.1f} %" if measure in IN_PERCENT else f"{value:.3f}"


def _time(found: Contributions) -> str:
    seconds = found.settings["seconds"]
    if found.method == "gradient":
        return _duration(seconds["wall"])
    parts = ", ".join(f"{name} {_duration(seconds[name])}" for name in ("build", "train", "test"))
    return (
        f"{_duration(seconds['wall'])}: frozen front {_duration(seconds['front'])}; "
        f"{seconds['trials']:.0f} trials in all processes: {parts}; "
        f"{seconds['cached']:.0f} results from the cache"
    )
