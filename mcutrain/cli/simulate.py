"""mcutrain simulate: train on the host in the very C that a chip would run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mcutrain.cli import options
from mcutrain.cli.output import (
    check_writable,
    count_bar,
    err,
    percent,
    replace_file,
    say,
    show,
    show_json,
)
from mcutrain.cli.training import watching

if TYPE_CHECKING:
    from mcutrain.api import SimulationResult
    from mcutrain.data import Normalization, Split
    from mcutrain.pipeline import TrainingStep
    from mcutrain.simulate import Run, RunSettings, Simulator

AUTO = "auto"
INTERRUPTED = 130


def _classes(text: str) -> str:
    return text if text == AUTO else options.parse_classes(text)


def simulate(
    model: options.Model,
    data: Annotated[
        Path,
        typer.Option(
            help="An .npz file (x, y, optionally split; or x_train, y_train, x_test, y_test) or a "
            "folder with a folder of images per class.",
            show_default=False,
        ),
    ],
    scheme: options.Scheme = "head",
    classes: Annotated[
        str,
        typer.Option(
            parser=_classes,
            metavar="N|keep|auto",
            help="A new, untrained classifier with N outputs; `keep` keeps the model's own; `auto` "
            "keeps it if the data has as many classes.",
        ),
    ] = AUTO,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training samples.")] = 4,
    lr: Annotated[
        float,
        typer.Option(
            parser=options.parse_number,
            metavar="X",
            help="Learning rate per sample, or a fraction.",
        ),
    ] = "0.1/256",  # type: ignore[assignment]  # typer parses it
    schedule: Annotated[
        Literal["cosine", "constant"], typer.Option(help="Of the learning rate.")
    ] = "cosine",
    warmup: Annotated[
        float, typer.Option(min=0, max=1, help="Share of all steps in which a cosine's rate rises.")
    ] = 0.1,
    seed: options.Seed = 0,
    flip: Annotated[
        bool, typer.Option("--flip", help="Mirror half of the training images.")
    ] = False,
    crop: Annotated[
        int, typer.Option(min=0, metavar="N", help="Shift training images by up to N pixels.")
    ] = 0,
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="Only the first N training samples.", show_default=False),
    ] = None,
    test_samples: Annotated[
        int | None, typer.Option(min=1, help="Only the first N test samples.", show_default=False)
    ] = None,
    test_share: Annotated[
        float, typer.Option(help="Of data that does not say what is for the test.")
    ] = 0.2,
    mean: Annotated[
        str | None,
        typer.Option(
            parser=options.parse_numbers,
            metavar="M,…",
            help="What pixels / 255 were normalized with in training, if the model's input "
            "parameters do not tell; with --std.",
            show_default=False,
        ),
    ] = None,
    std: Annotated[
        str | None,
        typer.Option(
            parser=options.parse_numbers, metavar="S,…", help="See --mean.", show_default=False
        ),
    ] = None,
    accumulate: options.Accumulate = 1,
    gradient_bits: options.GradientBits = 8,
    no_qas: options.NoQas = False,
    residual_bits: options.ResidualBits = None,
    head_residual_bits: options.HeadResidualBits = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Written while training and at Ctrl-C; if it exists, the run continues from it, "
            "to the same bits as without the interruption.",
            show_default=False,
        ),
    ] = None,
    save_state: Annotated[
        Path | None,
        typer.Option(
            help="Write the trained state there, as mct_state_load reads it.", show_default=False
        ),
    ] = None,
    reference: Annotated[
        bool,
        typer.Option("--reference", help="Compute with numpy instead of C: the same bits, slowly."),
    ] = False,
    portable: Annotated[
        bool,
        typer.Option("--portable", help="Only the portable C, without this CPU's instructions."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Train in the generated C, compiled for this machine: the same bits as on the chip.

    Example: `mcutrain simulate model.tflite --data images/ --scheme last:6 --checkpoint run.npz`
    """
    from mcutrain.simulate import RunSettings

    settings = RunSettings(epochs, lr, schedule, warmup, seed, flip, crop)
    flags = options.StepOptions(
        scheme, accumulate, gradient_bits, no_qas, residual_bits, head_residual_bits
    )
    source = _Source(data, samples, test_samples, test_share, _normalization(mean, std))
    for path in (save_state, checkpoint):
        if path is not None:
            check_writable(path)
    step, split = _load(model, source, flags, classes, settings)
    if not json:
        say(_headline(step, split))
    backend = _Backend(reference, portable)
    run = _prepare(step, split, settings, source, backend)
    result = _train(step, run, checkpoint)
    if save_state is not None:
        replace_file(save_state, result.saved)
    if json:
        show_json(facts(step, run, result))
    else:
        _print(step, run, result)


@dataclass(frozen=True)
class _Source:
    """Where samples come from, and how many of them are used."""

    path: Path
    samples: int | None
    test_samples: int | None
    test_share: float
    normalization: Normalization | None

    def cut(self, split: Split) -> Split:
        """The first samples of both parts."""
        from mcutrain.data import Split

        train, test = split.train, split.test
        return Split(
            train if self.samples is None else train.subset(self.samples),
            test if self.test_samples is None else test.subset(self.test_samples),
        )


@dataclass(frozen=True)
class _Backend:
    """What computes."""

    reference: bool
    portable: bool


def _normalization(mean: str | None, std: str | None) -> Normalization | None:
    from mcutrain.data import Normalization

    if mean is None and std is None:
        return None
    if mean is None or std is None:
        raise typer.BadParameter("give both --mean and --std, or none", param_hint="--mean")
    numbers = [tuple(options.parse_number(p) for p in text.split(",")) for text in (mean, std)]
    return Normalization(*numbers)


def _load(
    model: Path, source: _Source, flags: options.StepOptions, classes: str, settings: RunSettings
) -> tuple[TrainingStep, Split]:
    """The step, with a head that suits the data."""
    from mcutrain.api import load_data
    from mcutrain.pipeline import load
    from mcutrain.sparse import find_head

    graph = load(model)
    find_head(graph)  # a sentence before the data is read
    with count_bar() as bar:
        task = bar.add_task("reading images")
        split = load_data(
            graph,
            source.path,
            source.test_share,
            settings.seed,
            lambda done, of: bar.update(task, completed=done, total=of),
        )
    split = source.cut(split)
    wanted = None
    if classes == AUTO:
        outputs = graph.tensors[graph.outputs[0]].type.shape[-1]
        wanted = len(split.names) if len(split.names) != outputs else None
    else:
        wanted = options.new_classes(classes)
    return flags.prepare(graph, wanted, settings.seed), split


def _headline(step: TrainingStep, split: Split) -> str:
    plan = step.plan
    return (
        f"{step.graph.name}, scheme {step.scheme.name}: {plan.training.classes} classes, "
        f"{len(split.train):,} training and {len(split.test):,} test samples; "
        f"{plan.arena_bytes:,} bytes of arena, {plan.state_bytes:,} of trainable state"
    )


def _prepare(
    step: TrainingStep, split: Split, settings: RunSettings, source: _Source, backend: _Backend
) -> Run:
    from mcutrain.api import prepare_run

    def simulator() -> Simulator:
        if backend.reference:
            return step.reference(settings.seed + 1)
        return step.simulator(settings.seed + 1, portable=backend.portable)

    with err.status("preparing samples, compiling the generated C"):
        run = prepare_run(
            step, split, settings, simulator=simulator, normalization=source.normalization
        )
    if backend.reference:
        run.chunk = 1
    return run


def _train(step: TrainingStep, run: Run, checkpoint: Path | None) -> SimulationResult:
    from mcutrain.api import finish

    try:
        with watching(run, step.scheme.name) as watch:
            return finish(step, run, checkpoint, watch)
    except KeyboardInterrupt:
        done = f"{run.state.trained:,} of {run.total:,} steps are done"
        if checkpoint is None:
            say(f"mcutrain: interrupted, {done} and lost; --checkpoint FILE would keep them")
        else:
            say(f"mcutrain: interrupted, {done}; the same command continues from {checkpoint}")
        raise typer.Exit(INTERRUPTED) from None


def facts(step: TrainingStep, run: Run, result: SimulationResult) -> dict[str, Any]:
    """What a run did, for --json."""
    import hashlib

    return {
        "model": step.graph.name,
        "scheme": step.scheme.name,
        "classes": step.plan.training.classes,
        "class_names": list(run.samples.split.names),
        "training_samples": len(run.samples.split.train),
        "test_samples": len(run.samples.split.test),
        "settings": asdict(run.settings),
        "accuracy_before": result.before,
        "accuracy": result.accuracy,
        "epochs": [asdict(epoch) for epoch in result.epochs],
        "steps": result.steps,
        "step_us": result.step_us,
        "arena_bytes": result.arena_bytes,
        "state_bytes": result.state_bytes,
        "sram_bytes": result.sram_bytes,
        "state_sha256": hashlib.sha256(result.saved).hexdigest(),
    }


def _print(step: TrainingStep, run: Run, result: SimulationResult) -> None:
    show(f"test accuracy   {percent(result.before)} before, {percent(result.accuracy)} after")
    show(
        f"SRAM            {result.sram_bytes:,} bytes: arena {result.arena_bytes:,}, "
        f"trainable state {result.state_bytes:,}"
    )
    show(f"time per step   {result.step_us:,.0f} µs on this machine, {result.steps:,} steps")
