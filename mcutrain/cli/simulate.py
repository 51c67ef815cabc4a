"""mcutrain simulate: train on the host in the very C that a chip would run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import logs, options
from mcutrain.cli import samples as inputs
from mcutrain.cli.episodes import Learnt, check_flags, episodes_facts, learn_all, print_episodes
from mcutrain.cli.logs import both, logged
from mcutrain.cli.models import load_model
from mcutrain.cli.output import (
    INTERRUPTED,
    check_writable,
    percent,
    replace_file,
    say,
    show,
    show_json,
)
from mcutrain.cli.pet import SaveModel, wanted_modules, with_modules
from mcutrain.cli.training import (
    batch_line,
    decision_facts,
    level_lines,
    rate_hint,
    rate_line,
    score_lines,
    searching,
    selection_lines,
    skipped_line,
    watching,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcutrain.data import Episodes, Split
    from mcutrain.ir.graph import Graph
    from mcutrain.modules import Pet
    from mcutrain.pipeline import TrainingStep
    from mcutrain.runs.training import SimulationResult, Watch
    from mcutrain.simulation import Finished, FoundRate, Run, RunSettings, Simulator
    from mcutrain.sparse.elastic import ElasticTimes

NO_MODEL = (
    "the checkpoint is of a model with modules, which `mcutrain export` needs to be told: give "
    "--save-model FILE, and export that file"
)


def simulate(
    model: options.Model,
    data: inputs.Data,
    scheme: options.Scheme = "head",
    classes: options.AutoClasses = options.AUTO,
    *,
    pet: options.Pet = None,
    step_flags: options.StepFlags,
    learning: inputs.ScheduledLearningFlags,
    replaying: inputs.ReplayFlags,
    selecting: inputs.ElasticFlags,
    few_shot: inputs.EpisodeFlags,
    seed: options.Seed = 0,
    samples: inputs.TrainingSamples = None,
    test_samples: inputs.TestSamples = None,
    test_every: inputs.TestEvery = 1,
    reading: inputs.ReadingFlags,
    no_qas: options.NoQas = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Written while training and at Ctrl-C; if it exists, the run continues from it, "
            "to the same bits as without the interruption.",
            show_default=False,
        ),
    ] = None,
    after: Annotated[
        Path | None,
        typer.Option(
            metavar="CHECKPOINT",
            help="Go on, with other data, from what the run of this checkpoint has learnt and "
            "remembers; as `mcutrain train --after` on a board.",
            show_default=False,
        ),
    ] = None,
    save_state: Annotated[
        Path | None,
        typer.Option(
            help="Write the trained state there, as mct_state_load reads it.", show_default=False
        ),
    ] = None,
    save_model: SaveModel = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="A JSON object per step and event is appended there, as `mcutrain train` does.",
            show_default=False,
        ),
    ] = None,
    tensorboard: logs.TensorBoardFolder = None,
    reference: Annotated[
        bool,
        typer.Option("--reference", help="Compute with numpy instead of C: the same bits, slowly."),
    ] = False,
    portable: Annotated[
        bool,
        typer.Option("--portable", help="Only the portable C, without this CPU's instructions."),
    ] = False,
    latent: options.Latent = "auto",
    proxies: options.Proxies = None,
    drift: options.Drift = False,
    batches: inputs.Batches = "mixed",
    json: options.Json = False,
) -> None:
    """Train in the generated C, compiled for this machine: the same bits as on the chip.

    Example: `mcutrain simulate model.tflite --data images/ --scheme last:6 --checkpoint run.npz`

    Example: `mcutrain simulate model.tflite --data images/ --epochs 50 --test-every 5 --tensorboard
    runs/a`
    """
    from mcutrain_host.log import check_tensorboard

    from mcutrain.simulation import check_can_build

    if not reference:
        check_can_build()  # a sentence before the data is read
    if tensorboard is not None:
        check_tensorboard(tensorboard)
    settings = replaying.of(replace(learning.settings(seed), test_every=test_every))
    settings = replace(selecting.of(settings), batches=batches)
    flags = step_flags.options(scheme, no_qas)
    flags = replace(flags, elastic=settings.elastic is not None, swap=settings.swap)
    flags = replace(flags, pet=pet, proxies=proxies, drift=drift)
    modules = wanted_modules(model, pet, save_model)
    source = reading.source(data, samples, test_samples, seed)
    for path in (save_state, checkpoint, log, save_model):
        if path is not None:
            check_writable(path)
    kept = _Kept(checkpoint, after, save_state, log, tensorboard)
    episodes = few_shot.of(classes)
    if episodes is not None:
        check_flags(episodes, flags, kept.flags)
    before = None if after is None else _finished(after, settings)
    graph, split = _read(model, source, modules, save_model)
    if modules is not None and modules.specs and checkpoint is not None and save_model is None:
        say(f"mcutrain: note: {NO_MODEL}")

    def learn(split: Split, settings: RunSettings, classes: str) -> Learnt:
        wanted, fitting, split = options.fit_to_data(graph, split, classes, flags)
        step = fitting.prepare(graph, wanted, settings.seed)
        backend = _Backend(reference, portable, latent, selecting.times(step))
        return _learn(step, split, settings, source, backend, kept, before, is_quiet=json)

    if episodes is None:
        _tell(learn(split, settings, classes), as_json=json)
        return
    ways = str(episodes.ways)
    learnt = learn_all(episodes, split, settings, lambda part, own: learn(part, own, ways))
    _tell_all(episodes, learnt, as_json=json)


@dataclass(frozen=True)
class _Kept:
    """Files and folders of a run."""

    checkpoint: Path | None
    after: Path | None
    save_state: Path | None
    log: Path | None
    tensorboard: Path | None

    @property
    def flags(self) -> dict[str, Path | None]:
        """By the flag that names them."""
        return {f"--{f.name.replace('_', '-')}": getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class _Backend:
    """What computes."""

    reference: bool
    portable: bool
    latent: str
    times: ElasticTimes | None


def _finished(checkpoint: Path, settings: RunSettings) -> Finished:
    """The run to go on from."""
    from mcutrain.runs.training import check_after
    from mcutrain.simulation import Finished

    check_after(settings)
    return Finished.read(checkpoint)


def _read(
    model: Path, source: inputs.DataSource, modules: Pet | None, save_model: Path | None
) -> tuple[Graph, Split]:
    """The model, with modules if they are wanted, and its data."""
    from mcutrain.runs.training import model_input
    from mcutrain.sparse import find_head

    graph = load_model(model)
    find_head(graph)  # a sentence before the data is read
    if modules is not None:
        modules.outline(graph)  # the same
    split = source.read(model_input(graph))
    if modules is not None:
        graph = with_modules(graph, modules, split, source, save_model)
    return graph, split


def _learn(
    step: TrainingStep,
    split: Split,
    settings: RunSettings,
    source: inputs.DataSource,
    backend: _Backend,
    kept: _Kept,
    before: Finished | None,
    *,
    is_quiet: bool,
) -> Learnt:
    """A run from begin to end."""
    from mcutrain.runs.training import (
        coarseness_warning,
        continued,
        rate_warning,
        saturation_warning,
        selection_warning,
    )

    if not is_quiet:
        say(_headline(step, split))
    wanted = continued(settings, kept.checkpoint)
    run, found = _prepare(step, split, wanted, source, backend, before)
    if not is_quiet and settings.learning_rate is None:
        say(rate_line(run.settings.learning_rate, found, run.samples.split))
    with logged(step, run, kept.log, kept.tensorboard) as watch:
        result = _train(step, run, kept.checkpoint, watch)
    if kept.save_state is not None:
        replace_file(kept.save_state, result.saved)
    said = (
        rate_hint(lambda report: rate_warning(step, run, report)),
        saturation_warning(result.saturated_biases),
        selection_warning(run),
        coarseness_warning(result),
    )
    return Learnt(step, run, result, "; ".join(filter(None, said)))


def _tell(learnt: Learnt, *, as_json: bool) -> None:
    """What a run did."""
    if as_json:
        show_json(_facts(learnt))
        return
    if learnt.warning:
        say(f"mcutrain: {learnt.warning}")
    _print(learnt.step, learnt.run, learnt.result)


def _tell_all(episodes: Episodes, learnt: list[Learnt], *, as_json: bool) -> None:
    """What episodes did."""
    if as_json:
        show_json(episodes_facts(episodes, learnt, _facts))
        return
    for warning in dict.fromkeys(one.warning for one in learnt if one.warning):
        say(f"mcutrain: {warning}")
    print_episodes(learnt)
    show(_memory_line(learnt[0].result))


def _facts(learnt: Learnt) -> dict[str, Any]:
    return {**facts(learnt.step, learnt.run, learnt.result), "warning": learnt.warning or None}


def _headline(step: TrainingStep, split: Split) -> str:
    plan = step.plan
    learns = f"{plan.training.classes} classes" if plan.training.has_labels else "its own input"
    return (
        f"{step.graph.name}, scheme {step.scheme.name}: {learns}, "
        f"{len(split.train):,} training and {len(split.test):,} test samples; "
        f"{plan.arena_bytes:,} bytes of arena, {plan.state_bytes:,} of trainable state"
    )


def _prepare(
    step: TrainingStep,
    split: Split,
    settings: RunSettings,
    source: inputs.DataSource,
    backend: _Backend,
    after: Finished | None,
) -> tuple[Run, FoundRate | None]:
    """The run, and its rate if it was searched."""
    from mcutrain.memplan import find_latent
    from mcutrain.runs.training import check_ladder, fastest_simulator, prepare_run
    from mcutrain.simulation import LatentReference

    def simulator() -> Simulator:
        if step.plan.ladder is not None:
            check_ladder(step.plan, settings, backend.latent)
        if backend.reference and backend.latent in ("auto", "off"):
            return step.reference(settings.seed + 1)
        if backend.reference:
            begin = find_latent(step.plan, backend.latent)
            return LatentReference(step.plan, begin, settings.seed + 1)
        latent, portable = backend.latent, backend.portable
        return fastest_simulator(step, split, settings, latent=latent, portable=portable)

    found: list[FoundRate] = []
    with searching("preparing samples, compiling the generated C") as report:
        run = prepare_run(
            step,
            split,
            settings,
            simulator=simulator,
            normalization=source.normalization,
            times=backend.times,
            after=after,
            report=report,
            found=found.append,
        )
    if backend.reference:
        run.chunk = 1
    return run, found[0] if found else None


def _train(
    step: TrainingStep, run: Run, checkpoint: Path | None, logging: Watch
) -> SimulationResult:
    from mcutrain.runs.training import finish

    try:
        with watching(run, step.scheme.name) as shown:
            return finish(step, run, checkpoint, both(shown, logging))
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
        "training_samples": run.course.new_samples,
        "test_samples": len(run.samples.split.test),
        "settings": asdict(run.settings),
        **_scores(step, result),
        "steps": result.steps,
        "step_us": result.step_us,
        "latent": result.latent or None,
        "skipped": result.skipped,
        "levels": result.levels,
        "drift": result.drift,
        "mixed_batches": result.mixed_batches,
        "selections": _selections(step, result),
        "arena_bytes": result.arena_bytes,
        "state_bytes": result.state_bytes,
        "sram_bytes": result.sram_bytes,
        "saturated_biases": result.saturated_biases,
        "output_exponent": result.output_exponent,
        "state_sha256": hashlib.sha256(result.saved).hexdigest(),
    }


def _selections(step: TrainingStep, result: SimulationResult) -> list[dict[str, Any]] | None:
    """What was trained from which step on, by name; None if everything was, always."""
    tensors = step.plan.training.elastic
    if not tensors:
        return None
    return [decision_facts(decision, tensors) for decision in result.decisions]


def _scores(step: TrainingStep, result: SimulationResult) -> dict[str, Any]:
    """Before, after, and of every epoch: what there is of accuracy, loss and AUC."""
    epochs = [_known(asdict(epoch)) for epoch in result.epochs]
    if step.plan.training.has_labels:
        scores: dict[str, Any] = {"accuracy_before": result.before, "accuracy": result.accuracy}
        if step.plan.training.positions:
            scores |= {"iou_before": result.iou_before, "iou": result.iou}
            scores["class_iou"] = list(result.class_iou)
        return {**scores, "epochs": epochs}
    for epoch in epochs:
        del epoch["train_accuracy"]
        epoch.pop("test_accuracy", None)  # NaN, or not there where there was no test
    return {
        "loss_before": result.loss_before,
        "loss": result.loss,
        "auc_before": result.auc_before,
        "auc": result.auc,
        "epochs": epochs,
    }


def _known(values: dict[str, Any]) -> dict[str, Any]:
    """Those that there are."""
    return {name: value for name, value in values.items() if value is not None}


def _memory_line(result: SimulationResult) -> str:
    return (
        f"SRAM            {result.sram_bytes:,} bytes: arena {result.arena_bytes:,}, "
        f"trainable state {result.state_bytes:,}"
    )


def _ladder_lines(step: TrainingStep, result: SimulationResult) -> Iterator[str]:
    """What the fronts of a ladder did; none without one."""
    if result.levels is not None:
        yield from level_lines(result.levels, result.drift)
    if result.mixed_batches is not None:
        yield batch_line(result.mixed_batches, result.steps // step.plan.training.accumulate)


def _print(step: TrainingStep, run: Run, result: SimulationResult) -> None:
    if run.samples.split.positions:
        before = {"accuracy": result.before, "iou": result.iou_before}
        after = {"accuracy": result.accuracy, "iou": result.iou, "class_iou": result.class_iou}
        for line in score_lines(before, after):
            show(line)
    elif run.reconstruction is None:
        show(f"test accuracy   {percent(result.before)} before, {percent(result.accuracy)} after")
    else:
        losses = {"loss": result.loss_before, "auc": result.auc_before}
        learnt = {"loss": result.loss, "auc": result.auc}
        for line in score_lines(_known(losses), _known(learnt)):
            show(line)
    show(_memory_line(result))
    show(f"time per step   {result.step_us:,.0f} µs on this machine, {result.steps:,} steps")
    if result.latent:
        show(f"                from {result.latent} on, which was computed once for each sample")
    if result.skipped is not None:
        show(skipped_line(result.skipped, result.steps))
    for line in _ladder_lines(step, result):
        show(line)
    for line in selection_lines(result.decisions, step.plan.training.elastic):
        show(line)
