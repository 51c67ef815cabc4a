"""mcutrain simulate: train on the host in the very C that a chip would run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import INTERRUPTED, logs, options
from mcutrain.cli import samples as inputs
from mcutrain.cli.automatic import Choosing, MemoryFlags
from mcutrain.cli.episodes import Learnt, check_flags, episodes_facts, learn_all, print_episodes
from mcutrain.cli.logs import both, logged
from mcutrain.cli.models import load_model
from mcutrain.cli.output import (
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
    from mcutrain.functions.automatic import MemoryLimit
    from mcutrain.ir.graph import Graph
    from mcutrain.modules import Pet
    from mcutrain.pipeline import TrainingStep
    from mcutrain.pipeline.recipe import PutModules
    from mcutrain.runs.training import SimulationResult, Watch
    from mcutrain.simulation import Finished, FoundRate, Run, RunSettings, Simulator
    from mcutrain.sparse.elastic import ElasticTimes


@dataclass(frozen=True)
class KeptFlags:
    """Flags of a run's files and folders."""

    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Written while training and at Ctrl-C; if it exists, the run continues from it, "
            "to the same bits as without the interruption.",
            show_default=False,
        ),
    ] = None
    after: Annotated[
        Path | None,
        typer.Option(
            metavar="CHECKPOINT",
            help="Go on, with other data, from what the run of this checkpoint has learnt and "
            "remembers; as `mcutrain train --after` on a board.",
            show_default=False,
        ),
    ] = None
    save_state: Annotated[
        Path | None,
        typer.Option(
            help="Write the trained state there, as mct_state_load reads it.", show_default=False
        ),
    ] = None
    save_model: SaveModel = None
    log: Annotated[
        Path | None,
        typer.Option(
            help="A JSON object per step and event is appended there, as `mcutrain train` does.",
            show_default=False,
        ),
    ] = None
    tensorboard: logs.TensorBoardFolder = None

    @property
    def of_one_run(self) -> dict[str, Path | None]:
        """What several runs cannot share, by flag."""
        names = (field.name for field in fields(self) if field.name != "save_model")
        return {f"--{name.replace('_', '-')}": getattr(self, name) for name in names}

    def check_writable(self) -> None:
        """Raise an error now for a file that cannot be written later."""
        for path in (self.save_state, self.checkpoint, self.log, self.save_model):
            if path is not None:
                check_writable(path)

    def finished(self, settings: RunSettings) -> Finished | None:
        """The run to go on from, if there is one."""
        from mcutrain.runs.training import check_after
        from mcutrain.simulation import Finished

        if self.after is None:
            return None
        check_after(settings)
        return Finished.read(self.after)


@dataclass(frozen=True)
class BackendFlags:
    """Flags of what computes."""

    reference: Annotated[
        bool,
        typer.Option("--reference", help="Compute with numpy instead of C: the same bits, slowly."),
    ] = False
    portable: Annotated[
        bool,
        typer.Option("--portable", help="Only the portable C, without this CPU's instructions."),
    ] = False
    latent: options.Latent = "auto"

    def simulator(self, step: TrainingStep, split: Split, settings: RunSettings) -> Simulator:
        """Make the simulator of a run."""
        from mcutrain.memplan import find_latent
        from mcutrain.runs.training import check_ladder, fastest_simulator
        from mcutrain.simulation import LatentReference

        if step.plan.ladder is not None:
            check_ladder(step.plan, settings, self.latent)
        if self.reference and self.latent in ("auto", "off"):
            return step.reference(settings.rounding_seed)
        if self.reference:
            begin = find_latent(step.plan, self.latent)
            return LatentReference(step.plan, begin, settings.rounding_seed)
        latent, portable = self.latent, self.portable
        return fastest_simulator(step, split, settings, latent=latent, portable=portable)


def simulate(
    model: options.Model,
    data: inputs.Data,
    scheme: options.AutoScheme = None,
    classes: options.AutoClasses = options.AUTO,
    *,
    hardware: MemoryFlags,
    pet: options.Pet = None,
    step_flags: options.StepFlags,
    learning: inputs.SimulatedLearningFlags,
    replaying: inputs.ReplayFlags,
    selecting: inputs.ElasticFlags,
    few_shot: inputs.EpisodeFlags,
    seed: options.Seed = 0,
    reading: inputs.SourceFlags,
    test_every: inputs.TestEvery = 1,
    no_qas: options.NoQas = False,
    head_start: options.HeadStart = "zeros",
    kept: KeptFlags,
    backend: BackendFlags,
    ladder: options.LadderFlags,
    batches: inputs.Batches = "mixed",
    json: options.Json = False,
) -> None:
    """Train in the generated C, compiled for this machine: the same bits as on the chip.

    Example: `mcutrain simulate model.tflite --data images/ --scheme last:6 --checkpoint run.npz`

    Example: `mcutrain simulate model.tflite --data images/ --epochs 50 --test-every 5 --tensorboard
    runs/a`
    """
    from mcutrain_host.log import check_tensorboard

    from mcutrain.functions.automatic import wanted_scheme
    from mcutrain.simulation import check_can_build

    if not backend.reference:
        check_can_build()  # a sentence before the data is read
    if kept.tensorboard is not None:
        check_tensorboard(kept.tensorboard)
    settings = replaying.of(replace(learning.settings(seed), test_every=test_every))
    settings = replace(selecting.of(settings), batches=batches)
    memory, episodes = hardware.memory, few_shot.of(classes)
    fixed: dict[str, object] = {
        "--pet": pet,
        "--proxies": ladder.proxies,
        "--add-class": step_flags.add_class,
        "--ways": episodes,
        "--epochs 0": settings.epochs == 0,
    }
    wanted = wanted_scheme(scheme, (kept.checkpoint, kept.after), fixed)
    flags = Choosing.asked(replace(ladder.of(step_flags.asked("", no_qas)), pet=pet), wanted)
    flags = flags.having(elastic=settings.elastic is not None, swap=settings.swap)
    modules = wanted_modules(model, pet, kept.save_model)
    source = reading.of(data, seed)
    kept.check_writable()
    few_shot.check_names(source, episodes)
    if episodes is not None:
        check_flags(episodes, flags, kept.of_one_run)
    before = kept.finished(settings)
    graph, split, put = _read(model, source, modules, kept.save_model, flags.options.added)
    flags = replace(flags, put=put)
    simulation = _Simulation(
        graph, source, flags, backend, selecting, memory, kept, before, head_start, is_quiet=json
    )
    if episodes is None:
        _tell(simulation.learn(split, settings, classes), as_json=json)
        return
    ways = str(episodes.ways)
    learnt = learn_all(
        episodes, split, settings, lambda part, own: simulation.learn(part, own, ways)
    )
    _tell_all(episodes, learnt, as_json=json)


def _read(
    model: Path,
    source: inputs.DataSource,
    modules: Pet | None,
    save_model: Path | None,
    added: tuple[str, ...],
) -> tuple[Graph, Split, PutModules | None]:
    """The model, with modules if they are wanted, its data, and what the modules are made of."""
    from mcutrain.runs.training import model_input
    from mcutrain.sparse import find_head

    graph = load_model(model)
    find_head(graph)  # a sentence before the data is read
    if modules is not None:
        modules.outline(graph)  # the same
    split = source.for_model(graph, added).read(model_input(graph))
    if modules is None:
        return graph, split, None
    graph, put = with_modules(graph, modules, split, source, save_model)
    return graph, split, put


@dataclass(frozen=True)
class _Simulation:
    """What the runs of a simulation have in common: one, or one for each episode."""

    graph: Graph
    source: inputs.DataSource
    flags: options.StepRequest
    backend: BackendFlags
    selecting: inputs.ElasticFlags
    memory: MemoryLimit
    kept: KeptFlags
    before: Finished | None
    head_start: options.HeadStart
    is_quiet: bool

    def learn(self, split: Split, settings: RunSettings, classes: str) -> Learnt:
        """A run from begin to end. classes: as --classes takes them."""
        from mcutrain_host.saved import with_recipe

        from mcutrain.runs.head_start import head_start_of
        from mcutrain.runs.training import continued

        names = self.source.class_names
        replays = self.before is not None and settings.replay > 0
        wanted, fitting, split = options.fit_to_data(
            self.graph, split, classes, self.flags, names, replays=replays
        )
        normalization = self.source.normalization
        choosing = Choosing(self.graph, wanted, self.memory, settings.seed, self.is_quiet)
        choice = None
        if fitting.scheme == options.AUTO:
            fitting, choice = choosing.compared(fitting, split, normalization)
        start = head_start_of(
            self.head_start, self.graph, split, wanted, normalization, settings.seed
        )
        step = fitting.prepare(self.graph, wanted, settings.seed, start)
        times = self.selecting.times(step, self.memory.target)
        if not self.is_quiet:
            say(_headline(step, split))
        run, found = self._prepare(step, split, continued(settings, self.kept.checkpoint), times)
        if not self.is_quiet and settings.learning_rate is None and run.total:
            say(rate_line(run.settings.learning_rate, found, run.samples.split))
        doubt = "" if found is None else _doubt(step, split, run, found)
        with logged(step, run, self.kept.log, self.kept.tensorboard) as watch:
            title = step.scheme.name if choice is None else options.AUTO
            result = _train(step, run, self.kept.checkpoint, watch, title)
        if self.kept.save_state is not None:
            replace_file(self.kept.save_state, with_recipe(result.saved, result.recipe))
        used = choosing.used(fitting, step, choice)
        return Learnt(step, run, result, _warnings(step, run, result, doubt), used, choice)

    def _prepare(
        self, step: TrainingStep, split: Split, settings: RunSettings, times: ElasticTimes | None
    ) -> tuple[Run, FoundRate | None]:
        """The run, and its rate if it was searched."""
        from mcutrain.runs.training import prepare_run

        found: list[FoundRate] = []
        with searching("preparing samples, compiling the generated C") as report:
            run = prepare_run(
                step,
                split,
                settings,
                simulator=lambda: self.backend.simulator(step, split, settings),
                normalization=self.source.normalization,
                times=times,
                after=self.before,
                report=report,
                found=found.append,
            )
        if self.backend.reference:
            run.chunk = 1
        return run, found[0] if found else None


def _doubt(step: TrainingStep, split: Split, run: Run, found: FoundRate) -> str:
    """Return whether to train the head alone instead."""
    from mcutrain.runs.head_alone import head_alone_warning

    with searching("comparing with the head alone") as report:
        return head_alone_warning(step, split, run, found, report)


def _warnings(step: TrainingStep, run: Run, result: SimulationResult, doubt: str) -> str:
    """Return what is doubtful about a run; empty if nothing is. doubt: of its scheme."""
    from mcutrain.runs.training import (
        coarseness_warning,
        rate_warning,
        saturation_warning,
        selection_warning,
    )

    said = (
        doubt,
        rate_hint(lambda report: rate_warning(step, run, report)),
        saturation_warning(result.saturated_biases),
        selection_warning(run),
        coarseness_warning(result),
    )
    return "; ".join(filter(None, said))


def _tell(learnt: Learnt, *, as_json: bool) -> None:
    """What a run did."""
    if as_json:
        show_json(_facts(learnt))
        return
    if learnt.warning:
        say(f"mcutrain: {learnt.warning}")
    _print(learnt.step, learnt.run, learnt.result)
    for line in learnt.used.lines():
        show(line)


def _tell_all(episodes: Episodes, learnt: list[Learnt], *, as_json: bool) -> None:
    """What episodes did."""
    if as_json:
        show_json(episodes_facts(episodes, learnt, _facts))
        return
    for warning in dict.fromkeys(one.warning for one in learnt if one.warning):
        say(f"mcutrain: {warning}")
    print_episodes(learnt)
    show(_memory_line(learnt[0].result))
    for line in learnt[0].used.lines():
        show(line)


def _facts(learnt: Learnt) -> dict[str, Any]:
    warning = "; ".join(filter(None, (learnt.result.order_doubt, learnt.warning)))
    return {
        **facts(learnt.step, learnt.run, learnt.result),
        "memory": learnt.used.to_dict(),
        "reason": None if learnt.choice is None else learnt.choice.reason,
        "warning": warning or None,
    }


def _headline(step: TrainingStep, split: Split) -> str:
    plan = step.plan
    learns = f"{plan.training.classes} classes" if plan.training.has_labels else "its own input"
    return (
        f"{step.graph.name}, scheme {step.scheme.name}: {learns}, "
        f"{len(split.train):,} training and {len(split.test):,} test samples; "
        f"{plan.arena_bytes:,} bytes of arena, {plan.state_bytes:,} of trainable state"
    )


def _train(
    step: TrainingStep, run: Run, checkpoint: Path | None, logging: Watch, title: str
) -> SimulationResult:
    from mcutrain.runs.training import finish

    try:
        with watching(run, title) as shown:
            watch = replace(both(shown, logging), noting=lambda text: say(f"mcutrain: {text}"))
            return finish(step, run, checkpoint, watch)
    except KeyboardInterrupt:
        done = f"{run.state.trained:,} of {run.total:,} steps are done"
        if checkpoint is None:
            say(f"mcutrain: interrupted, {done} and lost; --checkpoint FILE would keep them")
        else:
            say(f"mcutrain: interrupted, {done}; the same command continues from {checkpoint}")
        raise typer.Exit(INTERRUPTED) from None


def facts(step: TrainingStep, run: Run, result: SimulationResult) -> dict[str, Any]:
    """Return what a run did, for --json."""
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
    """Return what was trained from which step on, by name; None if everything was, always."""
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
    """Return the values that are known."""
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


def _print_time(result: SimulationResult) -> None:
    show(f"time per step   {result.step_us:,.0f} µs on this machine, {result.steps:,} steps")
    if result.latent:
        show(
            f"{'':16}without the frozen layers up to {result.latent}, which ran beforehand, once "
            "for each sample"
        )


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
    if result.steps:
        _print_time(result)
    if result.skipped is not None:
        show(skipped_line(result.skipped, result.steps))
    for line in _ladder_lines(step, result):
        show(line)
    for line in selection_lines(result.decisions, step.plan.training.elastic):
        show(line)
