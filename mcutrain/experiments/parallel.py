"""Training runs in parallel processes, each continued from its checkpoint in the cache.

Ctrl-C reaches only the parent: it asks the processes to stop, which they do after a few samples
with their checkpoints written. Processes whose parent was killed stop the same way.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from mcutrain_host.cache import cache_folder
from mcutrain_host.dataclass import dataclass

from mcutrain.blas import one_thread
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.cost.profile import times_of
from mcutrain.data import Dataset, Episodes, Normalization, Split
from mcutrain.errors import McutrainError, StateError
from mcutrain.formats import format_of_content, write
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import MakesLadder, StepOptions, TrainingStep, load, prepare
from mcutrain.runs import training
from mcutrain.runs.finishing import finish
from mcutrain.runs.result import SimulationResult
from mcutrain.runs.watch import Watch
from mcutrain.simulation import Progress, Run, RunSettings
from mcutrain.sparse import UpdateScheme

POLL_SECONDS = 0.1
TOLD_SECONDS = 0.3
STOP_SECONDS = 60.0
"""How long a process may take to write its checkpoint before it is ended."""
STOP = "stop"
PARTS = ("train", "test", "validation")
"""Parts of a split, in its order; there may be no validation part."""
KEPT_SECONDS = 30 * 24 * 3600
"""How long a checkpoint that nobody continues stays in the cache."""


@dataclass(frozen=True)
class Elastic:
    """Training what helps most. share, every: as elastic and every of RunSettings.

    profile: a file that says what tensors take, as mcutrain.cost.profile.times_of reads it.
    importance: as RunSettings has it.
    """

    share: float
    every: int = 0
    profile: Path | None = None
    importance: str = RunSettings.importance

    def of(self, settings: RunSettings) -> RunSettings:
        """The settings of such a run."""
        return replace(settings, elastic=self.share, every=self.every, importance=self.importance)


@dataclass(frozen=True)
class Resampling:
    """Training other columns from time to time. rule, every: as swap and every of RunSettings."""

    rule: str
    every: int = 0

    def of(self, settings: RunSettings) -> RunSettings:
        """The settings of such a run."""
        return replace(settings, swap=self.rule, every=self.every)


@dataclass(frozen=True)
class StepMaking:
    """How the step of a scheme is made. Both as mcutrain.pipeline.prepare takes them."""

    options: StepOptions = StepOptions()
    ladder: MakesLadder | None = None

    def run_with(self, settings: RunSettings) -> StepMaking:
        """Make the step for a run that chooses tensors or columns, as its settings say."""
        return replace(self, options=replace(self.options, **settings.step_options))


@dataclass(frozen=True)
class SchemeWay:
    """How a scheme is trained, where it is otherwise than all. graph: in the model's place."""

    elastic: Elastic | None = None
    resampling: Resampling | None = None
    graph: Graph | None = None
    making: StepMaking | None = None

    def settings_of(self, usual: RunSettings) -> RunSettings:
        """The settings of its runs. usual: of all."""
        own = self.elastic or self.resampling
        return usual if own is None else own.of(usual)

    def making_of(self, options: StepOptions, usual: RunSettings) -> StepMaking:
        """Return how its step is made. options, usual: of all."""
        return (self.making or StepMaking(options)).run_with(self.settings_of(usual))


@dataclass(frozen=True)
class Lesson:
    """What runs learn. options: of the steps of all schemes. settings: but the seed.

    Without a learning rate one is found for each scheme, with its first trial's seed. isa: of the
    chip whose time elastic ones share out. episodes: each trial learns that of its seed, drawn from
    the split, of whose ways the classes are. ways: how schemes are trained, by number, where it is
    otherwise than all.
    """

    model: Path
    schemes: tuple[UpdateScheme, ...]
    options: StepOptions
    split: Split
    settings: RunSettings
    normalization: Normalization | None = None
    isa: str = USUAL_ISA
    episodes: Episodes | None = None
    ways: Mapping[int, SchemeWay] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """Training samples of an epoch."""
        return len(self.split.train) if self.episodes is None else self.episodes.samples

    def way_of(self, scheme: int) -> SchemeWay:
        """Return how a scheme is trained."""
        return self.ways.get(scheme, SchemeWay())

    def settings_of(self, scheme: int) -> RunSettings:
        """Settings of the runs of a scheme."""
        return self.way_of(scheme).settings_of(self.settings)


@dataclass(frozen=True)
class Trial:
    """One of the lesson's schemes and a seed, which decides head, order and rounding."""

    scheme: int
    seed: int


@dataclass(frozen=True)
class Standing:
    """How far all runs are. finished: the trials that ended since the last status, and results."""

    steps: int
    total: int
    finished: tuple[tuple[Trial, SimulationResult], ...] = ()


@dataclass(frozen=True)
class _Order:
    """One trial for a process. folder: the samples, progress and the stop sign lie there.

    scheme: its fields, because the scheme itself cannot be sent to a process.
    """

    scheme: dict[str, Any]
    seed: int
    number: int
    model: Path
    settings: RunSettings
    normalization: Normalization | None
    making: StepMaking
    folder: Path
    parent: int
    isa: str = USUAL_ISA
    episodes: Episodes | None = None
    profile: Path | None = None


def train_all(
    lesson: Lesson,
    trials: Sequence[Trial],
    processes: int,
    report: Callable[[Standing], None] = lambda _: None,
) -> list[SimulationResult]:
    """The result of each trial, in order. Raises McutrainError of the first that fails.

    At KeyboardInterrupt every run has been saved; the same call continues.
    """
    _forget_old()
    with TemporaryDirectory(prefix="mcutrain-runs-") as name:
        folder = Path(name)
        _save(lesson.split, folder)
        models = _written(lesson, folder)
        orders = [
            _order(lesson, trial, i, models.get(trial.scheme, lesson.model), folder)
            for i, trial in enumerate(trials)
        ]
        executor = _executor(max(min(processes, len(trials)), 1))
        running: list[Any] = []
        each = (1 + lesson.settings.replay) * lesson.samples
        total = len(trials) * lesson.settings.epochs * each

        def tell(ended: Mapping[int, Any]) -> None:
            finished = tuple((trials[i], result) for i, result in ended.items())
            report(Standing(_steps(folder, len(trials)), total, finished))

        try:
            if lesson.settings.learning_rate is None:
                first = {trial.scheme: i for i, trial in reversed(list(enumerate(trials)))}
                running = [executor.submit(_find_rate, orders[i]) for i in first.values()]
                _wait(running, lambda _: report(Standing(0, total)))
                rates = dict(zip(first, (future.result() for future in running), strict=True))
                orders = [
                    _at(order, rates[t.scheme]) for order, t in zip(orders, trials, strict=True)
                ]
            running = [executor.submit(_work, order) for order in orders]
            _wait(running, tell)
        except BaseException:
            _stop(running, folder)
            raise
        finally:
            executor.shutdown(wait=True, kill_workers=True)
        return [future.result() for future in running]


def _order(lesson: Lesson, trial: Trial, number: int, model: Path, folder: Path) -> _Order:
    way = lesson.way_of(trial.scheme)
    return _Order(
        _plain(lesson.schemes[trial.scheme]),
        trial.seed,
        number,
        model,
        way.settings_of(lesson.settings),
        lesson.normalization,
        way.making_of(lesson.options, lesson.settings),
        folder,
        os.getpid(),
        lesson.isa,
        lesson.episodes,
        None if way.elastic is None else way.elastic.profile,
    )


def _executor(processes: int) -> Any:
    """Processes that Ctrl-C leaves alone, each with one thread of BLAS."""
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(
        max_workers=processes, initializer=_ignore_interrupts, env=one_thread()
    )


def _at(order: _Order, rate: float) -> _Order:
    return replace(order, settings=replace(order.settings, learning_rate=rate))


def _checkpoints() -> Path:
    return cache_folder() / "runs"


def _forget_old() -> None:
    """Delete the checkpoints that nobody has continued for long."""
    for path in _checkpoints().glob("*.npz"):
        with contextlib.suppress(OSError):  # another process was faster
            if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                path.unlink()


def _plain(scheme: UpdateScheme) -> dict[str, Any]:
    values = {f.name: getattr(scheme, f.name) for f in fields(scheme)}
    return {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}


def _wait(futures: list[Any], report: Callable[[Mapping[int, Any]], None]) -> None:
    """Report what has ended since the last time, until all have; by number, what it returned.

    Raises what the first one that failed raised.
    """
    from joblib.externals.loky.process_executor import BrokenProcessPool

    told: set[int] = set()
    while len(told) < len(futures):
        new = [i for i, future in enumerate(futures) if future.done() and i not in told]
        try:
            ended = {i: futures[i].result() for i in new}
        except BrokenProcessPool as error:
            raise McutrainError(
                "a process that trained was ended from outside, perhaps for want of memory; the "
                "same command continues, --jobs 1 needs less"
            ) from error
        told.update(new)
        report(ended)
        if not new:
            time.sleep(POLL_SECONDS)


def _stop(futures: list[Any], folder: Path) -> None:
    """Ask the processes to save and stop, and wait until they have."""
    (folder / STOP).touch()
    for future in futures:
        future.cancel()
    until = time.monotonic() + STOP_SECONDS
    while any(not f.done() for f in futures) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


def _steps(folder: Path, count: int) -> int:
    """Training steps that all runs have done."""
    done = 0
    for i in range(count):
        try:
            done += int((folder / f"steps-{i}").read_text() or 0)
        except (OSError, ValueError):
            continue  # it has not begun, or writes right now
    return done


def _save(split: Split, folder: Path) -> None:
    """Where every process maps the samples from, so that they are in memory once.

    Raises McutrainError where they do not fit.
    """
    parts = (split.train, split.test, split.validation)
    try:
        for name, part in zip(PARTS, parts, strict=True):
            if part is not None:
                np.save(folder / f"{name}-x.npy", part.x)
                np.save(folder / f"{name}-y.npy", part.y)
        (folder / "names").write_text("\0".join(split.train.names), encoding="utf-8")
        labelled = (part is not None and part.is_labelled for part in parts)
        (folder / "labelled").write_text("".join("01"[is_one] for is_one in labelled))
    except OSError as error:  # of numpy's some have a text alone
        raise McutrainError(
            f"the samples do not fit into {folder.parent}: set TMPDIR to a folder with more room, "
            f"or give fewer ({error.strerror or error})"
        ) from error


def _written(lesson: Lesson, folder: Path) -> dict[int, Path]:
    """Where every process reads the graphs that are not the model's, by number of the scheme."""
    suffix = format_of_content(lesson.model)
    found = {}
    for i, way in lesson.ways.items():
        if way.graph is not None:
            found[i] = folder / f"model-{i}{suffix}"
            write(way.graph, found[i])
    return found


# ------------------------------------------------------------------------------ in the processes


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@lru_cache(maxsize=1)
def _split(folder: Path) -> Split:
    names = tuple((folder / "names").read_text(encoding="utf-8").split("\0"))
    parts = [
        Dataset(
            np.load(folder / f"{name}-x.npy", mmap_mode="r"),
            np.load(folder / f"{name}-y.npy"),
            names,
            is_labelled=is_labelled == "1",
        )
        for name, is_labelled in zip(PARTS, (folder / "labelled").read_text(), strict=True)
        if (folder / f"{name}-x.npy").exists()
    ]
    return Split(*parts)


@lru_cache(maxsize=4)
def _graph(model: Path) -> Graph:
    return load(model)


def _work(order: _Order) -> SimulationResult | None:
    """Train one trial to its end; None if it was stopped."""
    telling = _Telling(order)
    try:
        telling.check()
        return _train(order, telling)
    except KeyboardInterrupt:
        return None


def _find_rate(order: _Order) -> float | None:
    """The learning rate of a trial; None if it was stopped."""
    telling = _Telling(order)
    try:
        telling.check()
        _, run = _prepared(order, telling)
    except KeyboardInterrupt:
        return None
    return run.settings.learning_rate


def _prepared(order: _Order, telling: _Telling) -> tuple[TrainingStep, Run]:
    step = prepare(
        _graph(order.model),
        UpdateScheme(**order.scheme),
        order.making.options,
        ladder=order.making.ladder,
        head_seed=order.seed,
    )
    split, settings = _split(order.folder), replace(order.settings, seed=order.seed)
    if order.episodes is not None:
        split = order.episodes.draw(split, order.seed)
    run = training.prepare_run(
        step,
        split,
        settings,
        simulator=lambda: training.fastest_simulator(step, split, settings),
        normalization=order.normalization,
        times=None if settings.elastic is None else times_of(step.plan, order.isa, order.profile),
        report=lambda done, of: telling.check(),
    )
    return step, run


def _train(order: _Order, telling: _Telling) -> SimulationResult:
    step, run = _prepared(order, telling)
    checkpoint = _checkpoints() / f"{_identity(step, run)[:32]}.npz"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    if checkpoint.exists():
        checkpoint.touch()  # it is in use
        _forget_damaged(run, checkpoint)
    watch = Watch(telling.training, telling.evaluating)
    result = finish(step, run, checkpoint, watch)
    telling.write(run.total)
    return result


def _identity(step: TrainingStep, run: Run) -> str:
    """Digest of what is learnt, without the test samples, which the checkpoint itself knows."""
    turns = (turn.identity for turn in run.turns)
    facts = [step.project.digest, run.course.digest, *filter(None, turns)]
    return hashlib.sha256(" ".join(facts).encode()).hexdigest()


def _forget_damaged(run: Run, checkpoint: Path) -> None:
    """Delete a checkpoint that cannot be continued; nobody but this cache made it."""
    try:
        run.resume(checkpoint)
    except StateError:
        checkpoint.unlink(missing_ok=True)


class _Telling:
    """Writes how far a run is, and stops it when it should."""

    def __init__(self, order: _Order) -> None:
        self.path = order.folder / f"steps-{order.number}"
        self.stop = order.folder / STOP
        self.parent = order.parent
        self.told = 0.0

    def training(self, progress: Progress) -> None:
        self.check()
        if time.monotonic() - self.told > TOLD_SECONDS:
            self.write(progress.trained)

    def evaluating(self, _: int) -> None:
        self.check()

    def write(self, steps: int) -> None:
        self.path.write_text(str(steps))
        self.told = time.monotonic()

    def check(self) -> None:
        """Raise KeyboardInterrupt if the parent wants it, or is gone."""
        if self.stop.exists() or not self.path.parent.exists() or os.getppid() != self.parent:
            raise KeyboardInterrupt
