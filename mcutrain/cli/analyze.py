"""mcutrain analyze: what training each bias and each layer's weights contributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mcutrain.cli import INTERRUPTED, shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import IN_PERCENT, duration, err, say, show_json, show_prose, show_table
from mcutrain.cli.training import Lines
from mcutrain.functions.files import check_writable, replace_file
from mcutrain.functions.run_options import AnalysisOptions, ExecutionOptions, HeldOutOptions

if TYPE_CHECKING:
    from rich.progress import Progress

    from mcutrain.analysis.problem import Problem
    from mcutrain.analysis.progress import TrialsDone
    from mcutrain.selection.contribution import Contributions

UNITS = {
    "accuracy": "points of accuracy",
    "probability": "points of the right class's mean probability",
    "r2": "points of R²",
    "loss": "nats of loss",
    "learnable": "effective dimensions that steps of one sample reach",
    "joint": "effective dimensions, each alone",
    "dimension": "effective dimensions of the gradients",
    "fisher": "mean squared gradient",
    "first_order": "nats of loss per step",
}


def analyze(
    model: shared_flags.Model,
    data: shared_flags.Data,
    *,
    classes: shared_flags.AutoClasses = shared_flags.AUTO,
    by: Annotated[
        Literal["training", "gradient"],
        typer.Option(
            help="training: train every candidate, minutes to hours. gradient: estimate from "
            "gradients, seconds."
        ),
    ] = "training",
    method: AnalysisOptions,
    seed: shared_flags.Seed = 0,
    reading: HeldOutOptions,
    running: ExecutionOptions,
    output: Annotated[
        Path | None,
        shared_flags.written(
            "FILE",
            "Write the analysis there, for `mcutrain select` and `mcutrain report`; --json "
            "prints it without the inner products that they read.",
        ),
    ] = None,
    json: shared_flags.Json = False,
) -> None:
    """Measure what training biases and each layer's weights gains; `select` chooses by it.

    It trains in the device's integers, without flips or shifts, so that the frozen front is
    computed once. The cache folder keeps results: the same command continues an interrupted
    analysis, and an extended one computes only what is new. Modules of `mcutrain augment` are
    measured with the layers.

    Example: `mcutrain analyze model.tflite --data images/ -o analysis.json`
    """
    from mcutrain.functions.learning import analyze as analyzed

    if output is not None:
        check_writable(output)
    found = analyzed(
        model,
        data,
        by,
        classes=shared_flags.as_classes(classes),
        method=method,
        reading=reading,
        running=running,
        seed=seed,
        listener=_Analysing(json),
    )
    if output is not None:
        replace_file(output, found.to_json().encode())
    if json:
        show_json(_printed(found, output))
    else:
        _print(found)


class _Analysing(OnScreen):
    """Shows an analysis."""

    def analysing(self, problem: Problem) -> None:
        """Say what is analysed."""
        if not self.is_quiet:
            say(_headline(problem))

    @contextmanager
    def candidates(self, *, are_kept: bool) -> Iterator[Callable[[TrialsDone], None]]:
        """Show a bar; after Ctrl-C say what is kept."""
        try:
            with _watching() as watch:
                yield watch
        except KeyboardInterrupt:
            if not are_kept:
                raise
            say("mcutrain: interrupted; the results so far are kept, the same command continues")
            raise typer.Exit(INTERRUPTED) from None


def _headline(problem: Problem) -> str:
    head = "its own" if problem.classes is None else "a new"
    learns = "classes" if problem.targets is None else "targets"
    return (
        f"{problem.model.name}: {len(problem.layers)} layers and {head} head of {problem.outputs} "
        f"{learns}, {len(problem.train_y):,} training and {len(problem.test_y):,} test samples"
    )


class _Watch:
    """Shows progress as a bar, or as lines where there is no terminal."""

    def __init__(self, bar: Progress) -> None:
        self._bar, self._lines = bar, Lines("analyze")
        self._task = bar.add_task("", facts="")

    def tell(self, done: TrialsDone) -> None:
        """How far it is."""
        facts = f"{done.done:,} of {done.total:,}"
        if done.remaining_seconds is not None:
            facts += f", {duration(done.remaining_seconds)} left"
        self._bar.update(
            self._task, description=done.what, completed=done.done, total=done.total, facts=facts
        )
        self._lines.tell(f"{done.what}: {facts}")

    __call__ = tell


@contextmanager
def _watching() -> Iterator[_Watch]:
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[facts]}", markup=False),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as bar:
        yield _Watch(bar)


def _printed(found: Contributions, output: Path | None) -> dict[str, Any]:
    """Return what the file has; instead of the kernels, which are megabytes, where they are."""
    values = found.to_dict()
    if found.kernels is not None:
        file = None if output is None else str(output)
        values["kernels"] = {"samples": found.kernels.samples, "file": file}
    return values


def _ends(measure: str, by: Mapping[int, float]) -> tuple[str, str]:
    """The gains of the smallest and the largest module."""
    return _gain(measure, by[min(by)]), _gain(measure, by[max(by)])


def _print(analysis: Contributions) -> None:
    measure = next(iter(analysis.gains))
    gains, count = analysis.gains[measure], len(analysis.layers)
    shares = sorted({share for by_share in gains.weights.values() for share in by_share})
    rows = [
        [
            i,
            name,
            *(_gain(measure, gains.weights[i][share]) for share in shares),
            _gain(measure, gains.bias[count - i]),
        ]
        for i, name in enumerate(analysis.layers)
    ]
    show_prose(
        f"What training a part gains, in {UNITS[measure]}: columns are shares of the layer's "
        "weights, and all biases from it on"
    )
    show_table(("#", "layer", *(f"{share:g}" for share in shares), "biases"), rows, 2, names=(1,))
    if gains.modules:
        show_prose("and of modules, by how many of their hidden channels")
        own = [
            [name, " ".join(map(str, by)) if max(by) else None, *_ends(measure, by)]
            for name, by in gains.modules.items()
        ]
        show_table(("module", "channels", "gain of the fewest", "of all"), own, 1, names=(0,))
    head = ", ".join(f"{name} {_value(name, value)}" for name, value in analysis.head.items())
    show_prose(f"with the head alone   {head}")
    if len(analysis.residual_factor) > 1:
        factors = ", ".join(f"{bits} bits {f:.2f}" for bits, f in analysis.residual_factor.items())
        show_prose(f"residual bits         gains of weights relative to 4 bits: {factors}")
    show_prose(f"time                  {_time(analysis)}")


def _gain(measure: str, value: float) -> str:
    return f"{100 * value:+.1f}" if measure in IN_PERCENT else f"{value:+.3g}"


def _value(measure: str, value: float) -> str:
    return f"{100 * value:.1f} %" if measure in IN_PERCENT else f"{value:.3f}"


def _time(found: Contributions) -> str:
    seconds = found.settings["seconds"]
    if found.method == "gradient":
        return duration(seconds["wall"])
    parts = ", ".join(f"{name} {duration(seconds[name])}" for name in ("build", "train", "test"))
    return (
        f"{duration(seconds['wall'])}: frozen front {duration(seconds['front'])}; "
        f"{seconds['trials']:.0f} trials in all processes: {parts}; "
        f"{seconds['cached']:.0f} results from the cache"
    )
