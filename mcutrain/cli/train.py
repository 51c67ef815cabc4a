"""mcutrain train: a board learns, and this computer sends the samples."""

from __future__ import annotations

import json as json_text
import math
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import INTERRUPTED, boards, options
from mcutrain.cli import samples as inputs
from mcutrain.cli.output import err, percent, say, show, show_json, training_bar
from mcutrain.cli.training import (
    Lines,
    Smoothed,
    level_lines,
    rate_hint,
    rate_line,
    score_lines,
    searching,
    skipped_line,
)
from mcutrain.functions.files import check_writable
from mcutrain.functions.run_options import (
    Elastic,
    Every,
    Importance,
    Replay,
    ScheduledOptions,
    ShareOptions,
    TensorBoardFolder,
)

if TYPE_CHECKING:
    from types import FrameType

    from mcutrain_host.manifest import BoardProject
    from mcutrain_host.protocol import Identity, Selecting, Step
    from mcutrain_host.trainer import Begin, Lessons, Outcome, Settings

    from mcutrain.data import ModelInput, Outputs, Split
    from mcutrain.simulation import (
        Course,
        FoundRate,
        LatentSimulator,
        Reconstruction,
        RunSettings,
        Samples,
        Search,
    )

STATE, LOG = "trained.mcts", "train.jsonl"
LONGEST_LINE_BYTES = 1 << 20
"""The longest line of a log that is read; a longer one is not ours."""


@dataclass(frozen=True)
class ChoosingFlags:
    """Flags of what the board's firmware remembers, and of what it chooses while it trains."""

    replay: Replay = 0
    elastic: Elastic = None
    every: Every = 0
    importance: Importance = "moves"
    swap: inputs.IsSwapping = False

    def of(self, settings: RunSettings, project: BoardProject) -> RunSettings:
        """The settings with them. Raises ProjectError, DataError if the firmware does not do so."""
        settings = _replaying(project, settings, self.replay)
        recipe = project.manifest.recipe or {}
        rule: Any = recipe.get("swap") or "drawn" if self.swap else ""
        share = ShareOptions(
            elastic=self.elastic, every=self.every, importance=self.importance, swap=rule
        )
        settings = share.of(settings)
        _check_elastic(project, settings)
        _check_swap(project, settings)
        return settings


@dataclass(frozen=True, kw_only=True)
class TestedSourceFlags(inputs.SourceFlags):
    """Source flags for data that need not be tested."""

    test_samples: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Only N test samples, drawn by the seed, of every class alike; 0 does not test.",
            show_default=False,
        ),
    ] = None

    def of(self, path: Path, seed: int) -> inputs.DataSource:
        """A data set that is read so."""
        return self.source(path, self.samples, self.test_samples or None, seed)

    def tests(self, course: Course) -> int:
        """Return how many test samples there are to test."""
        return 0 if self.test_samples == 0 else len(course.samples.split.test)


@dataclass(frozen=True)
class StateFlags:
    """Flags of where the state comes from, and where it is saved."""

    save_every: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="STEPS",
            help="How often the board saves into its flash, which wears (`mcutrain plan --board` "
            "says how many saves it outlives), or without slots into --state; 0 saves only at the "
            "end.",
        ),
    ] = 500
    state: Annotated[
        Path | None,
        typer.Option(
            help=f"Where the trained state is brought to; DIR/{STATE} if not given.",
            show_default=False,
        ),
    ] = None
    begin_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Write this state to the board first, and go on from it.",
            show_default=False,
        ),
    ] = None
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Begin anew, whatever the board has learnt."),
    ] = False
    after: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="STEPS",
            help="Begin with other data where the board has done that many steps: it keeps what it "
            "has learnt, and replays what it remembers. The same command continues.",
        ),
    ] = 0

    def check(self) -> None:
        """Raise typer.BadParameter for flags that do not go together."""
        if self.fresh and self.begin_from is not None:
            raise typer.BadParameter("give --from or --fresh, not both", param_hint="--fresh")
        if self.fresh and self.after:
            raise typer.BadParameter(
                "goes on from what the board has learnt: leave out --fresh", param_hint="--after"
            )

    @property
    def begin(self) -> Begin:
        """What the board begins with."""
        from mcutrain_host.trainer import Begin

        if self.fresh:
            return Begin.FRESH
        return Begin.FILE if self.begin_from else Begin.BOARD


@dataclass(frozen=True)
class WaitFlags:
    """Flags of how long the board is waited for."""

    reconnect: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="How long to wait for a board that was unplugged."
        ),
    ] = 0.0
    patience: Annotated[
        float,
        typer.Option(min=1, metavar="SECONDS", help="How long the board's first step may take."),
    ] = 120.0


@dataclass(frozen=True)
class LogFlags:
    """Flags of where a run is written down."""

    log: Annotated[
        Path | None,
        typer.Option(
            help=f"A JSON object per step and event is appended there; DIR/{LOG} if not given.",
            show_default=False,
        ),
    ] = None
    tensorboard: TensorBoardFolder = None

    def check(self) -> None:
        """Raise LogError if TensorBoard's files cannot be written."""
        from mcutrain_host.log import check_tensorboard

        if self.tensorboard is not None:
            check_tensorboard(Path(self.tensorboard))


def train(
    folder: boards.Project,
    data: inputs.Data,
    *,
    line: boards.LineFlags,
    learning: ScheduledOptions,
    choosing: ChoosingFlags,
    seed: options.Seed = 0,
    reading: TestedSourceFlags,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="For a project of --part tail: the model that it is the tail of. This computer "
            "computes its front, and the board gets latents. Without it the data are latents.",
            show_default=False,
        ),
    ] = None,
    saving: StateFlags,
    waiting: WaitFlags,
    record: LogFlags,
    json: options.Json = False,
) -> None:
    """Train on a board; this computer sends samples and learning rates.

    With the flags that `mcutrain simulate` had, the board ends with the simulation's bits; the
    learning rate that is found without --lr is the same, too. The run
    goes on where the board is: after Ctrl-C, a power cut or an unplugged cable, the same command
    continues.

    Example: `mcutrain train project --data images/ --port /dev/ttyACM0 --epochs 2`
    """
    from mcutrain_host.log import last_kept
    from mcutrain_host.manifest import BoardProject

    from mcutrain.runs.training import check_after

    saving.check()
    record.check()
    project = BoardProject.read(folder)
    settings = choosing.of(learning.settings(seed), project)
    if saving.after:
        check_after(settings)
    source = reading.of(data, seed)
    state, log = saving.state or folder / STATE, record.log or folder / LOG
    check_writable(state)
    port, baud = line.of(project)
    may_be_virtual = _may_be_virtual(project, port)
    board_log = None if record.tensorboard is None else Path(record.tensorboard)
    where = _Where(port, baud, waiting.patience, log, board_log, may_be_virtual)
    course, found = _course(project, source, settings, model)
    course, sends_latents = _of_latents(project, course)
    if found is not None and not json:
        say(rate_line(found.rate, found, course.samples.split))
    lessons = _lessons(project, course, reading.tests(course), sends_latents, saving.after)
    how = replace(
        _settings(project, course, state, saving, waiting.reconnect), earlier=last_kept(log)
    )
    outcome, loss = _run(where, lessons, how, json)
    warning = _warning(project, course, outcome, loss, state)
    if warning and not json:
        say(f"mcutrain: {warning}")
    _tell(outcome, how, where, json, warning)


@dataclass(frozen=True)
class _Where:
    """The board's line, and the logs of what happens there."""

    port: str
    baud: int
    patience_seconds: float
    log: Path
    tensorboard: Path | None
    may_be_virtual: bool


def _may_be_virtual(project: BoardProject, port: str) -> bool:
    """Return whether it may be a `mcutrain board`, whose firmware is the same: it has no cable."""
    emulate = project.board.emulate
    has_twin = bool(emulate.unicorn or emulate.qemu)
    return has_twin and ("://" in port or Path(port).resolve().is_relative_to("/dev/pts"))


# ---- what is learnt ----


def _course(
    project: BoardProject, source: inputs.DataSource, settings: RunSettings, model: Path | None
) -> tuple[Course, FoundRate | None]:
    """Samples and learning rates as `mcutrain simulate` takes them; the rate that was searched.

    model: whose front makes latents of samples, for a project that takes those.
    """
    from mcutrain.simulation import Course

    front = None if model is None else _front(project, model)
    samples = _samples(project, source, settings, front)
    if settings.learning_rate is not None:
        return Course(samples, settings), None
    with searching() as report:
        found = _search(project, samples, settings).found(report)
    return Course(samples, replace(settings, learning_rate=found.rate)), found


def _samples(
    project: BoardProject,
    source: inputs.DataSource,
    settings: RunSettings,
    front: LatentSimulator | None,
) -> Samples:
    """The data as the board takes it. front: what makes latents of it; None if nothing does."""
    from mcutrain.runs.training import check_latents, prepare_samples
    from mcutrain.simulation import LatentSamples

    manifest, recipe = project.manifest, project.manifest.recipe or {}
    knows_more = manifest.class_names or source.class_names or recipe.get("added")
    source = replace(source, is_partial=bool(knows_more))
    asked = input_of(project, front)
    if manifest.begins_with and front is None:
        split = _read_latents(project, source, asked)
        check_latents(split, settings, manifest.begins_with, asked.shape)
    else:
        split = source.read(asked)
    if manifest.has_labels:
        split = _labelled(project, source, split, settings.replay > 0)
    else:
        split = split.without_labels()
    samples = prepare_samples(
        split,
        settings,
        input_shape=asked.shape,
        scale=asked.scale,
        zero_point=asked.zero_point,
        classes=manifest.classes if manifest.has_labels else None,
        positions=manifest.positions,
        normalization=source.normalization,
    )
    return samples if front is None else LatentSamples.of(samples, front)


def input_of(project: BoardProject, front: LatentSimulator | None = None) -> ModelInput:
    """Return what data sets need to know of a board's input, or of that of the front before it."""
    from mcutrain.data import InputOrder, ModelInput

    manifest = project.manifest
    x = manifest.input if front is None else front.plan.training.input_type
    order = None if front is None else front.plan.training.forward.input_order
    if front is None and (said := manifest.sample_order) is not None:
        order = InputOrder(said.file, said.shape, said.axes)
    return ModelInput(x.shape[1:], x.scale, x.zero_point, order)


def _outputs(project: BoardProject, source: inputs.DataSource) -> Outputs:
    """What is known of the outputs of a project's classifier; a new one may have learnt already."""
    from mcutrain.data import Outputs

    manifest = project.manifest
    added = tuple((manifest.recipe or {}).get("added", ()))
    return Outputs.of(manifest.classes, manifest.class_names, source.class_names, added)


def _labelled(
    project: BoardProject, source: inputs.DataSource, split: Split, replays: bool
) -> Split:
    """The data with labels that are numbers of outputs; says what was guessed, or is forgotten.

    replays: whether what the board remembers keeps what it knows.
    """
    outputs = _outputs(project, source)
    found = outputs.labelled(split)
    forgets = "" if replays else outputs.forgets(found)
    for note in filter(None, (outputs.guess(split), forgets)):
        say(f"mcutrain: note: {note}")
    return found


def _read_latents(project: BoardProject, source: inputs.DataSource, x: ModelInput) -> Split:
    """Data that are latents. Raises DataError, with what else they may be."""
    from mcutrain.errors import DataError

    try:
        return source.read(x)
    except DataError as error:
        raise DataError(
            f"{error}; {project.folder} is a tail and takes latents of that shape: where the data "
            "are samples, train with --model, whose front makes latents of them"
        ) from error


def _lessons(
    project: BoardProject, course: Course, tests: int, sends_latents: bool, after: int
) -> Lessons:
    """Return what the board is sent. tests: so many test samples. after: steps of other data."""
    from mcutrain.runs.training import board_lessons

    selecting = _selecting(project, course)
    group = project.manifest.samples_per_update
    swap_every = course.settings.swap_every(len(course.samples.split.train), group)
    lessons = board_lessons(
        course, tests, _reconstruction(project), sends_latents, selecting, after
    )
    return replace(lessons, swap_every=swap_every)


def _settings(
    project: BoardProject, course: Course, state: Path, saving: StateFlags, reconnect: float
) -> Settings:
    """Return how the host trains the board. reconnect: seconds."""
    from mcutrain_host.trainer import Settings

    return Settings(
        firmware=project.firmware,
        seed=course.settings.rounding_seed,
        state=state,
        save_every=saving.save_every,
        begin=saving.begin,
        source=saving.begin_from,
        reconnect_seconds=reconnect,
        facts={"course": course.digest, "settings": asdict(course.settings)},
        table=project.manifest.table,
        elastic=project.manifest.elastic,
        doubt=_order_doubt(project, course),
        recipe=project.manifest.recipe_text(_learnt_names(project, course)),
    )


def _learnt_names(project: BoardProject, course: Course) -> tuple[str, ...]:
    """Names of the classes, if the data has all of them."""
    manifest, split = project.manifest, course.samples.split
    is_whole = len(split.names) == manifest.classes and not split.has_numbers_for_names
    return split.names if manifest.has_labels and is_whole else ()


def _order_doubt(project: BoardProject, course: Course) -> Callable[[Sequence[int]], str]:
    """What the board's first answers say of the order of the classes; of a new head nothing."""
    import numpy as np

    from mcutrain.data import better_order

    test = course.samples.split.test
    if (project.manifest.recipe or {}).get("classes") is not None or test.positions:
        return lambda answers: ""

    def doubt(answers: Sequence[int]) -> str:
        said = better_order(test.y[: len(answers)], np.array(answers), test.names)
        return f"mcutrain: {said}" if said else ""

    return doubt


def _front(project: BoardProject, model: Path) -> LatentSimulator:
    from mcutrain.runs.fronts import front_of_tail

    return front_of_tail(project.manifest, model, project.folder)


def _replaying(project: BoardProject, settings: RunSettings, replay: int) -> RunSettings:
    """Return settings with replays of what firmware remembers. Raises ProjectError, DataError."""
    from mcutrain_host.errors import ProjectError

    remember = project.board.memory.remember
    if replay and not remember:
        raise ProjectError(
            f"the firmware of {project.folder} remembers no samples to replay: generate it with "
            "--remember N"
        )
    found = replace(settings, replay=replay, remember=remember) if replay else settings
    found.check()
    return found


def _check_elastic(project: BoardProject, settings: RunSettings) -> None:
    """Raise ProjectError where firmware and run do not go together."""
    from mcutrain_host.errors import ProjectError

    found = project.manifest.elastic
    if settings.elastic is not None and (found is None or not found.backward_time):
        raise ProjectError(
            f"the firmware of {project.folder} trains all that its scheme names: generate it with "
            "--elastic, to choose while it runs"
        )
    if settings.elastic is not None and found is not None and found.saves_nothing:
        raise ProjectError(
            f"the firmware of {project.folder} trains the last layer alone, of which nothing can "
            "be left out: generate one that trains more, or train without --elastic"
        )
    why = project.board.memory.why_no_saves
    if settings.elastic is not None and why:
        raise ProjectError(
            f"the board chooses by states that it saves, and it saves nothing: {why}; train "
            "without --elastic"
        )


def _check_swap(project: BoardProject, settings: RunSettings) -> None:
    """Refuse --swap if the firmware cannot resample input channels."""
    from mcutrain_host.errors import ProjectError

    if settings.swap and not project.manifest.shelf_bytes:
        raise ProjectError(
            f"the firmware of {project.folder} always trains the same columns: generate it with "
            "--swap, to train others while it runs"
        )
    why = project.board.memory.why_no_saves
    if settings.swap and why:
        raise ProjectError(
            f"the board swaps columns with its flash, and it saves nothing there: {why}; train "
            "without --swap"
        )


def _selecting(project: BoardProject, course: Course) -> Selecting | None:
    """When the board chooses what it trains; None if it does not. Raises ArgumentError."""
    from mcutrain_host.protocol import Selecting

    from mcutrain.simulation.elastic import SQUARES

    times, settings = project.manifest.elastic, course.settings
    if settings.elastic is None or times is None:
        return None
    samples = len(course.samples.split.train)
    periods = settings.periods(samples, project.manifest.samples_per_update)
    periods.check(times.forward_time, times.backward_time, times.least_time)
    squares = settings.importance == SQUARES
    return Selecting(periods.share_q16, periods.every, periods.look, squares)


def _of_latents(project: BoardProject, course: Course) -> tuple[Course, bool]:
    """What the front makes of the samples, where the board takes that too: fewer bytes to send.

    Returns whether it does.
    """
    from mcutrain.errors import BuildError
    from mcutrain.simulation import latents_of_folder

    manifest = project.manifest
    if manifest.latent is None or manifest.levels is not None:  # the board counts what it chooses
        return course, False
    try:
        latents = latents_of_folder(course.samples, project.folder, manifest)
    except BuildError:  # the board computes fronts, too
        return course, False
    return replace(course, samples=latents), True


def _warning(
    project: BoardProject, course: Course, outcome: Outcome, loss: float, state: Path
) -> str:
    """Return what is doubtful about the run; empty if nothing is. loss: of the last steps."""
    from mcutrain.runs.training import saturation_warning

    saturated = 0 if outcome.interrupted else _saturated(project, state)
    said = (_rate_warning(project, course, outcome, loss), saturation_warning(saturated))
    return "; ".join(filter(None, said))


def _rate_warning(project: BoardProject, course: Course, outcome: Outcome, loss: float) -> str:
    """Return what `mcutrain simulate` says of a rate that is too large. loss: of the last steps."""
    from mcutrain.simulation import FEWEST_STEPS, bad_sign, warning

    manifest = project.manifest
    if outcome.interrupted or outcome.steps < FEWEST_STEPS or not manifest.has_labels:
        return ""
    sign = bad_sign(loss, manifest.classes, outcome.before, outcome.accuracy)
    samples = course.samples if manifest.latent is None else course.samples.whole()
    search = _search(project, samples, course.settings)
    return rate_hint(lambda report: warning(search, sign, report))


def _saturated(project: BoardProject, state: Path) -> int:
    """Biases that stand at an end of their 16 bits, in the state that the run has left."""
    from mcutrain_host.saved import saturated_biases

    return saturated_biases(_state_in(state), project.manifest.table)


def _search(project: BoardProject, samples: Samples, settings: RunSettings) -> Search:
    from mcutrain.simulation import Search, simulator_of_folder, step_macs

    manifest = project.manifest
    return Search(
        samples,
        settings,
        manifest.model_hash,
        manifest.start,
        manifest.samples_per_update,
        lambda: simulator_of_folder(project.folder, manifest, settings.rounding_seed),
        len((manifest.recipe or {}).get("added", ())),
        step_macs(manifest.macs, manifest.front_macs, settings),
    )


def _reconstruction(project: BoardProject) -> Reconstruction | None:
    """Return how to rebuild the input of a network that reproduces it; None for a classifier."""
    from mcutrain.simulation import Reconstruction

    manifest = project.manifest
    if manifest.has_labels:
        return None
    x, y = manifest.input, manifest.output
    return Reconstruction(x.scale, x.zero_point, y.scale, y.zero_point)


# ---- the run ----


def _run(where: _Where, lessons: Lessons, how: Settings, quiet: bool) -> tuple[Outcome, float]:
    """Return what the run did, and the mean loss of its last steps."""
    from mcutrain_host.client import Device, Patience
    from mcutrain_host.errors import HostError, LinkError, LogError
    from mcutrain_host.link import SerialLink
    from mcutrain_host.trainer import Training

    earlier = _last_course(where.log)
    from mcutrain.runs.log import opened

    with SerialLink(where.port, where.baud) as link, _stopping() as stop:
        device = Device(link, Patience(work_seconds=where.patience_seconds))
        with opened(where.log, where.tensorboard) as log, _screen(lessons, quiet) as screen:
            screen.is_other_course = earlier not in (None, (how.facts or {})["course"])
            training = Training(device, lessons, how, log, screen, stop)
            try:
                return training.run(), screen.loss
            except LogError as error:
                raise HostError(
                    f"{error}; {training.saved_position:,} steps are done and saved, and "
                    f"{_again(how, training.saved_position)} goes on when it can be written"
                ) from error
            except LinkError as error:
                raise HostError(
                    f"{error}; {training.position:,} of {lessons.total:,} steps were done, and "
                    f"{_again(how, training.position)} goes on from what the board kept"
                ) from error


def _last_course(log: Path) -> str | None:
    """Return what the last run that is in the log learnt from."""
    from mcutrain_host.reading import opened as opened_file

    last = None
    if not log.is_file():
        return None
    with suppress(OSError), opened_file(log) as lines:
        while line := lines.readline(LONGEST_LINE_BYTES):
            if line.startswith(b'{"event": "connected"'):
                with suppress(ValueError, RecursionError):
                    last = json_text.loads(line).get("course")
    return last


class _Stop:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.is_asked = False

    def __call__(self) -> bool:
        return self.is_asked

    def note(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True
        say("mcutrain: finishing this step and saving; Ctrl-C again leaves at once")


@contextmanager
def _stopping() -> Iterator[_Stop]:
    """The first Ctrl-C asks for an end, the second is one."""
    stop = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, stop.note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


# ---- the screen ----


@contextmanager
def _screen(lessons: Lessons, quiet: bool) -> Iterator[_Screen]:
    with training_bar() as bar:
        yield _Screen(lessons, quiet, bar)


class _Screen:
    """A bar on stderr; where none can be drawn, a line now and then."""

    def __init__(self, lessons: Lessons, quiet: bool, bar: Any) -> None:
        self.lessons, self.quiet, self.bar = lessons, quiet, bar
        self.task = bar.add_task("", total=lessons.total, facts="connecting")
        self.is_other_course = False
        self._smoothed, self._lines = Smoothed(), Lines("")
        self._first, self._since = 0, 0.0
        self._sram = ""

    @property
    def loss(self) -> float:
        """Smoothed loss of the last steps."""
        return self._smoothed.loss

    def connected(self, identity: Identity, first: int) -> None:
        """Say what the board is, and from where training goes on."""
        self._lines = Lines(identity.board)
        self._first, self._sram = first, f"{identity.sram_bytes:,} B SRAM"
        self.bar.update(self.task, description=identity.board, completed=first)
        self.say(
            f"{identity.board}: {identity.model}, scheme {identity.scheme}, "
            f"{identity.sram_bytes:,} bytes of SRAM; {first:,} of {self.lessons.total:,} steps done"
        )
        if first > self.lessons.first and self.is_other_course:
            self.say(
                "they were done with other samples or settings; --fresh begins anew, --after "
                f"{first} begins with these where those end"
            )

    def tested(self, done: int, of: int) -> None:
        """Show how far the test is."""
        self._show(f"testing {done:,} of {of:,}")

    def trained(self, step: Step, label: int | bytes) -> None:
        """Show running means of loss and accuracy, and the speed."""
        from mcutrain.simulation import Progress

        now = time.monotonic()
        if not self._since:
            self._since, self._first = now, step.position - 1
        speed = (step.position - self._first) / max(now - self._since, 1e-9)
        right = _right(step, label, has_classes=self.lessons.scores is None)
        progress = Progress(step.position, self.lessons.total, step.loss, right, speed)
        self._smoothed.add(progress)
        self.bar.update(self.task, completed=step.position)
        self._show(
            f"{self._smoothed.text}  {speed:,.1f} samples/s  {step.cycles:,} cycles  {self._sram}"
        )

    def transferred(self, what: str, done: int, of: int) -> None:
        """Show how far a state is."""
        self._show(f"{what}: {done:,} of {of:,} bytes")

    def say(self, sentence: str) -> None:
        """A line on stderr, above the bar."""
        if not self.quiet:
            err.print(sentence, markup=False, soft_wrap=True)

    def _show(self, facts: str) -> None:
        self.bar.update(self.task, facts=facts)
        if not self.quiet:
            self._lines.tell(facts)


def _right(step: Step, label: int | bytes, *, has_classes: bool) -> float:
    """The share of a step's predictions that are right; NaN where nothing is predicted."""
    from mcutrain_host.trainer import position_facts

    if isinstance(label, bytes):
        facts = position_facts(step.prediction, label)
        return facts["right"] / max(facts["labelled"], 1)
    return float(step.prediction == label) if has_classes else math.nan


# ---- the end ----


def _tell(outcome: Outcome, how: Settings, where: _Where, json: bool, warning: str) -> None:
    if json:
        warning = "; ".join(filter(None, (outcome.doubt.removeprefix("mcutrain: "), warning)))
        show_json({**_facts(outcome, how, where.log), "warning": warning or None})
    elif not outcome.interrupted:
        _show_outcome(outcome, how, where)
    if outcome.interrupted:
        say(
            f"mcutrain: interrupted, {outcome.position:,} of {outcome.total:,} steps are done and "
            f"saved, {_kept(outcome, how)}; {_again(how, outcome.position)} continues"
        )
        raise typer.Exit(INTERRUPTED)


def _again(how: Settings, position: int) -> str:
    """The command that goes on from a position; one that says what to begin with begins anew."""
    from mcutrain_host.trainer import Begin

    without = {Begin.BOARD: "", Begin.FRESH: " without --fresh", Begin.FILE: " without --from"}
    return f"the same command{without[how.begin] if position else ''}"


def _kept(outcome: Outcome, how: Settings) -> str:
    if not outcome.identity.has_slots:
        return f"in {how.state} alone: the board forgets without power"
    saved = outcome.saved
    if saved is None:
        return f"in {how.state}"
    # between the states that a board compares to choose what it trains, it keeps no other
    behind = f", of step {saved.position:,}" if saved.position < outcome.position else ""
    return f"on the board (save {saved.number}{behind}) and in {how.state}"


def _facts(outcome: Outcome, how: Settings, log: Path) -> dict[str, Any]:
    import hashlib

    from mcutrain_host.trainer import ring_facts

    return {
        "board": outcome.identity.board,
        "model": outcome.identity.model,
        "scheme": outcome.identity.scheme,
        "model_hash": f"{outcome.identity.model_hash:016x}",
        "steps": outcome.position,
        "steps_in_all": outcome.total,
        "steps_of_this_run": outcome.steps,
        **_scores(outcome),
        "seconds": outcome.seconds,
        "step_cycles": outcome.train_cycles,
        "clock_hz": outcome.identity.clock_hz,
        "sram_bytes": outcome.identity.sram_bytes,
        "stack_bytes": outcome.identity.stack_bytes,
        "stack_used_bytes": outcome.statistics.stack_used_bytes,
        "restarts": outcome.restarts,
        "requests_resent": outcome.resent,
        "has_slots": outcome.identity.has_slots,
        "skipped": None,
        "levels": None,
        "drift": None,
        **_feature_facts(how),
        "save_number": outcome.saved.number if outcome.saved else None,
        **ring_facts(outcome.statistics),
        "state": str(how.state),
        "state_sha256": hashlib.sha256(_state_in(how.state)).hexdigest(),
        "log": str(log),
        "interrupted": outcome.interrupted,
    }


def _scores(outcome: Outcome) -> dict[str, Any]:
    """Return what the test said before and after, by name."""
    if outcome.scores_before is None and outcome.scores is None:
        return {"accuracy_before": outcome.before, "accuracy": outcome.accuracy}
    before, after = outcome.scores_before or {}, outcome.scores or {}
    names = dict.fromkeys((*before, *after))
    values = {f"{name}_before": before.get(name) for name in names}
    return values | {name: after.get(name) for name in names}


def _show_outcome(outcome: Outcome, how: Settings, where: _Where) -> None:
    from mcutrain_host.trainer import ring_facts

    identity = outcome.identity
    has_one = outcome.scores is None and outcome.scores_before is None
    if has_one and outcome.accuracy is not None and outcome.before is not None:
        show(f"test accuracy   {percent(outcome.before)} before, {percent(outcome.accuracy)} after")
    if outcome.scores_before is not None and outcome.scores is not None:
        for line in score_lines(outcome.scores_before, outcome.scores):
            show(line)
    if outcome.steps:
        speed = outcome.steps / max(outcome.seconds, 1e-9)
        cycles = _cycles(outcome, where.may_be_virtual)
        show(f"trained         {outcome.steps:,} steps, {speed:,.1f} a second{cycles}")
    else:
        show(
            f"trained         nothing: the board had done all {outcome.total:,} steps; --epochs "
            "with more, or --fresh, trains it"
        )
    counted = _feature_facts(how)
    if "skipped" in counted:
        show(skipped_line(counted["skipped"], outcome.position))
    if "levels" in counted:
        for line in level_lines(counted["levels"], counted.get("drift")):
            show(line)
    ring = ring_facts(outcome.statistics)
    if ring:
        offered, erased = ring["samples_offered"], ring["slots_erased"]
        show(
            f"remembered      {min(offered, identity.remember):,} of {offered:,} samples; a slot "
            f"was erased {'once' if erased == 1 else f'{erased:,} times'}"
        )
    stack = outcome.statistics.stack_used_bytes
    used = f", {stack:,} of the stack's {identity.stack_bytes:,} used" if stack else ""
    show(f"SRAM            {identity.sram_bytes:,} bytes with the stack{used}")
    show(f"state           {_kept(outcome, how)}; log in {shlex.quote(str(where.log))}")


def _feature_facts(how: Settings) -> dict[str, Any]:
    """What gate and ladder have counted, by the state in its file."""
    from mcutrain_host.saved import feature_facts

    return feature_facts(_state_in(how.state), how.table)


def _state_in(path: Path) -> bytes:
    """Return what the run has left in its file."""
    from mcutrain_host.saved import StateFile

    file = StateFile.of(path)
    return file.read(file.saved_bytes).raw


def _cycles(outcome: Outcome, may_be_virtual: bool) -> str:
    """Cycles of a step, as text. may_be_virtual: a virtual board counts instructions instead."""
    if not outcome.train_cycles:
        return ""
    hz = outcome.identity.clock_hz
    ms = f"{1e3 * outcome.train_cycles / hz:,.2f} ms" if hz else ""
    which = ", or more where the board is virtual: it counts instructions"
    time_of = f" ({ms}{which if may_be_virtual else ' on the board'})" if ms else ""
    return f", {outcome.train_cycles:,.0f} cycles each{time_of}"
