"""A training run on this computer, in the very C that a chip would run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from mcutrain_host.dataclass import dataclass
from mcutrain_host.files import write_whole
from mcutrain_host.log import check_tensorboard
from mcutrain_host.saved import with_recipe

from mcutrain.arguments import PathLike, Seed, checked
from mcutrain.data import Data, Episodes, Split
from mcutrain.errors import DataError
from mcutrain.functions.alternatives import AutoScheme
from mcutrain.functions.automatic import AUTO, wanted_scheme
from mcutrain.functions.chosen import Choosing, fitted_to, planned_step, read_samples
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Done, Listener
from mcutrain.functions.loading import loaded
from mcutrain.functions.memory_limit import MemoryLimit
from mcutrain.functions.modules import wanted_modules, with_modules
from mcutrain.functions.options import Classes, HeadStart, MemoryOptions, SimulatedRequest
from mcutrain.functions.planning import elastic_times
from mcutrain.functions.preparing import Asked, Scheme, with_frontend
from mcutrain.functions.run_options import (
    BackendOptions,
    DataOptions,
    KeptOptions,
    ShareOptions,
    SimulationOptions,
)
from mcutrain.ir.graph import Graph
from mcutrain.memplan import find_latent
from mcutrain.pipeline import TrainingStep
from mcutrain.runs import doubts as doubtful
from mcutrain.runs import finishing
from mcutrain.runs import training as runs
from mcutrain.runs.head_alone import head_alone_warning
from mcutrain.runs.head_start import head_start_of
from mcutrain.runs.log import both, logged
from mcutrain.runs.result import SimulationResult
from mcutrain.runs.watch import Watch
from mcutrain.simulation import (
    Finished,
    FoundRate,
    LatentReference,
    Run,
    RunSettings,
    Simulator,
    check_can_build,
    check_checkpoint,
)
from mcutrain.sparse import find_head


@dataclass(frozen=True)
class Learnt:
    """A run that is over. doubts: what is to be said of it.

    asked: what it trained. choosing: among what its scheme was chosen, or could have been. choice:
    of the scheme, if it was chosen. was_interrupted: whether Ctrl-C came behind the run, while its
    rate was doubted.
    """

    step: TrainingStep
    run: Run
    result: SimulationResult
    doubts: tuple[str, ...]
    asked: Asked
    choosing: Choosing
    choice: AutoScheme | None = None
    was_interrupted: bool = False


@with_keywords
@checked
def simulate(
    model: Graph | PathLike,
    data: Data,
    scheme: Scheme | None = None,
    *,
    validation: Data | None = None,
    classes: Classes = "auto",
    request: SimulatedRequest = SimulatedRequest(),
    training: SimulationOptions = SimulationOptions(),
    share: ShareOptions = ShareOptions(),
    hardware: MemoryOptions = MemoryOptions(),
    reading: DataOptions = DataOptions(),
    kept: KeptOptions = KeptOptions(),
    backend: BackendOptions = BackendOptions(),
    head_start: HeadStart = "zeros",
    seed: Seed = 0,
    watch: Watch | None = None,
) -> SimulationResult:
    """Train in the generated C, compiled for this machine: the same bits as on the chip.

    Fields of request, training, share, hardware, reading, kept and backend are keywords, too;
    mcutrain.functions.options and mcutrain.functions.run_options explain each.

    model: an int8 file's path, or a graph of `load`.
    data: a path (.npz file, folder of images), a Split, or arrays (x, y). x is (n, height, width,
        channels), (n, time, channels) or (n, features): uint8 pixels, int8 as the model takes it,
        or real numbers. y is (n,), class numbers.
    scheme: what to train. "auto", the default, is what `auto_scheme` finds for board, slots and
        sram, or for 256 KB without these. With pet, proxies, added or 0 epochs the default is the
        head. A checkpoint that exists has its own.
    validation: (x, y) to test on; by default the data's own test part, or test_share of every
        class.
    classes: outputs of a new head. "keep" keeps the model's head; "auto" keeps it if the data has
        as many classes, or some of those that the model names.
    request: how the step learns.
    training: epochs, learning_rate and how samples are varied. The rate is per sample; without one,
        short trials find it, and the result names it.
    share: elastic trains only the tensors of the largest importance, so that the mean step takes
        this share of its time.
    reading: which samples are taken, and how.
    kept: files to go on from and to write.
    backend: what computes.
    latent: as `train` takes it.
    head_start: what a new head starts from. prototypes are the means of each class's samples; they
        tell classes apart before the first step. 0 epochs train nothing.
    watch: who is told how far the run is.

    Warns of values that the model's input clips, and of an order of classes that was guessed.
    Raises DataError if the data does not fit; ModelError, SchemeError, StateError, BuildError,
    ArgumentError.

    >>> simulate("model.int8.tflite", (x, y), "last:3", epochs=2, learning_rate=0.03).accuracy
    """
    simulation = Simulation(
        request, training, share, hardware, reading, kept, backend, head_start, seed
    )
    listener = SILENT if watch is None else _Watched(watch)
    runs_done = simulation.run(model, data, scheme, classes, None, listener, validation)
    say_doubts(runs_done, listener)
    return runs_done[0].result


def say_doubts(learnt: Sequence[Learnt], listener: Listener) -> None:
    """Tell what is doubtful about runs, each sentence once."""
    doubts = [text for one in learnt for text in (*one.doubts, one.result.order_doubt) if text]
    for text in dict.fromkeys(doubts):
        listener.doubt(text)


class _Watched(Listener):
    """Turns notes into Python warnings, and tells a watch how far a run is."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def searching(self, before: str = "") -> AbstractContextManager[Done]:
        """Tell how many trials are done."""
        return nullcontext(self.watch.searching)

    def running(
        self, run: Run, title: str, checkpoint: Path | None
    ) -> AbstractContextManager[Watch]:
        """Tell how many steps are done."""
        return nullcontext(self.watch)


@dataclass(frozen=True)
class Simulation:
    """All that runs of a simulation have in common, one or one for each episode."""

    request: SimulatedRequest
    training: SimulationOptions
    share: ShareOptions
    hardware: MemoryOptions
    reading: DataOptions
    kept: KeptOptions
    backend: BackendOptions
    head_start: HeadStart
    seed: int

    def run(
        self,
        model: Graph | PathLike,
        data: Data,
        scheme: Scheme | None,
        classes: int | str,
        few_shot: Episodes | None,
        listener: Listener,
        validation: Data | None = None,
    ) -> tuple[Learnt, ...]:
        """Read model and data, and train. few_shot: instead of one run. Raises as `simulate`."""
        self._check()
        settings = self.share.of(self.training.settings(self.seed))
        asked = self._asked(scheme, settings, few_shot)
        pet = wanted_modules(model, self.request.pet, _path(self.kept.save_model))
        if few_shot is not None:
            _check_episodes(few_shot, asked, self.kept)
        before = self._finished(settings)
        graph = with_frontend(loaded(model, listener), self.reading.frontend)
        find_head(graph)  # fail before the data is read
        if pet is not None:
            pet.outline(graph)
        found = (graph, data, self.reading, asked, self.seed, listener, validation)
        split = read_samples(*found, keeps_raw=settings.varies_raw)
        if pet is not None:
            pixels, file = self.reading.normalization, _path(self.kept.save_model)
            graph, put = with_modules(graph, pet, split, pixels, self.seed, file, listener)
            asked = replace(asked, put=put)
        runs_of = _Runs(self, graph, asked, before, listener)
        if few_shot is None:
            return (runs_of.learn(split, settings, classes),)
        ways = few_shot.ways
        learnt = learn_all(few_shot, split, settings, lambda part, s: runs_of.learn(part, s, ways))
        return tuple(learnt)

    def _check(self) -> None:
        """Fail before the data is read."""
        _ = self.reading.normalization  # or a sentence
        if not self.backend.reference:
            check_can_build()
        if self.kept.tensorboard is not None:
            check_tensorboard(Path(self.kept.tensorboard))
        checkpoint = _path(self.kept.checkpoint)
        if checkpoint is not None and checkpoint.exists():
            check_checkpoint(checkpoint)

    def _asked(
        self, scheme: Scheme | None, settings: RunSettings, few_shot: Episodes | None
    ) -> Asked:
        fixed: dict[str, object] = {
            "--pet": self.request.pet,
            "--proxies": self.request.proxies,
            "--add-class": self.request.added,
            "--ways": few_shot,
            "--epochs 0": settings.epochs == 0,
        }
        earlier = (_path(self.kept.checkpoint), _path(self.kept.after))
        wanted = wanted_scheme(scheme, earlier, fixed)
        return Asked.of(self.request, wanted, **settings.step_options)

    def _finished(self, settings: RunSettings) -> Finished | None:
        """Return the run to go on from, if there is one."""
        after = _path(self.kept.after)
        if after is None:
            return None
        runs.check_after(settings)
        return Finished.read(after)

    @property
    def memory(self) -> MemoryLimit:
        """What a step may take."""
        return self.hardware.memory


def _path(given: PathLike | None) -> Path | None:
    return None if given is None else Path(given)


def _check_episodes(episodes: Episodes, asked: Asked, kept: KeptOptions) -> None:
    """Raise DataError for what does not go with episodes."""
    if asked.options.added:
        raise DataError("--add-class keeps the model's classifier, but an episode has a new one")
    if asked.options.loss == "mse":
        raise DataError("an episode learns classes, which --loss mse does not: leave it out")
    if kept.after is not None:
        raise DataError("--after goes on with a run's classifier, but an episode has a new one")
    for name in ("checkpoint", "save_state", "log", "tensorboard"):
        if getattr(kept, name) is not None and episodes.count > 1:
            raise DataError(
                f"--{name.replace('_', '-')} is for one run, but these are {episodes.count} "
                "episodes: leave it out, or give --episodes 1"
            )


def learn_all(
    episodes: Episodes,
    split: Split,
    settings: RunSettings,
    learn: Callable[[Split, RunSettings], Learnt],
) -> list[Learnt]:
    """Each of them from its seed, at the learning rate of the first."""
    episodes.check(split)
    learnt: list[Learnt] = []
    for seed in range(settings.seed, settings.seed + episodes.count):
        rate = learnt[0].run.settings.learning_rate if learnt else settings.learning_rate
        own = replace(settings, seed=seed, learning_rate=rate)
        learnt.append(learn(episodes.draw(split, seed), own))
    return learnt


@dataclass(frozen=True)
class _Runs:
    """What trains a model that is read. before: a run to go on from."""

    simulation: Simulation
    graph: Graph
    asked: Asked
    before: Finished | None
    listener: Listener

    def learn(self, split: Split, settings: RunSettings, classes: int | str) -> Learnt:
        """A run from begin to end."""
        simulation, listener = self.simulation, self.listener
        pixels, seed = simulation.reading.normalization, settings.seed
        replays = self.before is not None and settings.replay > 0
        names = simulation.reading.class_names or ()
        fitted = fitted_to(self.graph, split, classes, self.asked, listener, names, replays=replays)
        asked = self.asked.fitted(self.graph, fitted, listener.note)
        start = head_start_of(  # first: it fails where there is no new classifier
            simulation.head_start, self.graph, fitted.split, fitted.classes, pixels, seed
        )
        choosing = Choosing(
            self.graph, fitted.classes, simulation.memory, seed, listener, settings.epochs
        )
        choice = None
        if asked.scheme == AUTO:
            asked, choice = choosing.compared(asked, fitted.split, pixels)
        step = planned_step(asked, self.graph, fitted.classes, listener, seed, start)
        listener.planned(step, fitted.split)
        run, found = self._prepared(step, fitted.split, settings)
        doubts = [] if found is None else [self._doubt(step, fitted.split, run, found)]
        result = self._train(step, run, AUTO if choice is not None else step.scheme.name)
        rate_doubt = self._rate_doubt(step, run)
        doubts += [*_doubts(step, run, result), rate_doubt or ""]
        said, stopped = tuple(filter(None, doubts)), rate_doubt is None
        return Learnt(step, run, result, said, asked, choosing, choice, stopped)

    def _prepared(
        self, step: TrainingStep, split: Split, settings: RunSettings
    ) -> tuple[Run, FoundRate | None]:
        """Return the run, and its rate if it was searched."""
        simulation = self.simulation
        found: list[FoundRate] = []
        checkpoint = _path(simulation.kept.checkpoint)
        wanted = finishing.continued(settings, checkpoint)
        profile = simulation.share.profile_file
        with self.listener.searching("preparing samples, compiling the generated C") as report:
            run = runs.prepare_run(
                step,
                split,
                wanted,
                simulator=lambda: _simulator(simulation.backend, step, split, wanted),
                normalization=simulation.reading.normalization,
                times=elastic_times(step, simulation.memory.target, profile),
                after=self.before,
                report=report,
                found=found.append,
            )
        if simulation.backend.reference:
            run.chunk = 1
        rate = next(iter(found), None)
        if settings.learning_rate is None and run.total and run.settings.learning_rate is not None:
            self.listener.found_rate(run.settings.learning_rate, rate, run.samples.split)
        return run, rate

    def _doubt(self, step: TrainingStep, split: Split, run: Run, found: FoundRate) -> str:
        """Return whether to train the head alone instead."""
        with self.listener.searching("comparing with the head alone") as report:
            return head_alone_warning(step, split, run, found, report)

    def _rate_doubt(self, step: TrainingStep, run: Run) -> str | None:
        """Return what trials say of a rate that may be too large; None if Ctrl-C ends them.

        Ctrl-C must not take the result of the run with it, which is over.
        """
        with self.listener.searching() as report, suppress(KeyboardInterrupt):
            return doubtful.rate_warning(step, run, report)
        return None

    def _train(self, step: TrainingStep, run: Run, title: str) -> SimulationResult:
        kept = self.simulation.kept
        checkpoint = _path(kept.checkpoint)
        with (
            self.listener.running(run, title, checkpoint) as shown,
            logged(step, run, _path(kept.log), _path(kept.tensorboard)) as logging,
        ):
            result = finishing.finish(step, run, checkpoint, both(shown, logging))
        if kept.save_state is not None:
            write_whole(Path(kept.save_state), with_recipe(result.saved, result.recipe))
        return result


def _simulator(
    backend: BackendOptions, step: TrainingStep, split: Split, settings: RunSettings
) -> Simulator:
    """Make what computes a run."""
    if step.plan.ladder is not None:
        runs.check_ladder(step.plan, settings, backend.latent)
    if backend.reference and backend.latent in (AUTO, "off"):
        return step.reference(settings.rounding_seed)
    if backend.reference:
        begin = find_latent(step.plan, backend.latent)
        return LatentReference(step.plan, begin, settings.rounding_seed)
    return runs.fastest_simulator(
        step, split, settings, latent=backend.latent, portable=backend.portable
    )


def _doubts(step: TrainingStep, run: Run, result: SimulationResult) -> list[str]:
    """Return what is doubtful about a run that is over."""
    return [
        doubtful.saturation_warning(result.saturated_biases),
        doubtful.selection_warning(step, run),
        doubtful.coarseness_warning(result),
    ]
