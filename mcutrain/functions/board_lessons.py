"""What a project's board learns: the course of a simulation, as lessons."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import ProjectError
from mcutrain_host.manifest import BoardProject, Manifest
from mcutrain_host.protocol import Selecting
from mcutrain_host.saved import saturated_biases
from mcutrain_host.trainer import Lessons, Outcome, Settings

from mcutrain.data import Data, RawWindows, better_order
from mcutrain.features import FACTS
from mcutrain.functions.board_options import BoardChoices, BoardDataOptions, StateOptions
from mcutrain.functions.board_samples import (
    of_latents,
    own_labels,
    raw_windows_of,
    read_for_board,
    targets_of,
)
from mcutrain.functions.listener import Listener
from mcutrain.pipeline.emphasis import weights_of
from mcutrain.runs.doubts import saturation_warning
from mcutrain.runs.fronts import front_of_tail
from mcutrain.runs.lessons import board_lessons
from mcutrain.simulation import (
    FEWEST_STEPS,
    Course,
    Reconstruction,
    Regression,
    RunSettings,
    Samples,
    Search,
    bad_sign,
    judging,
    simulator_of_folder,
    step_macs,
    warning,
)
from mcutrain.simulation.samples import content_of


def settings_for(
    project: BoardProject, choices: BoardChoices, settings: RunSettings
) -> RunSettings:
    """The settings with what the firmware chooses. Raises ProjectError where it cannot do so."""
    settings = choices.of(_replaying(project, settings, choices.replay), project)
    _check_elastic(project, settings)
    _check_resampling(project, settings)
    return settings


def _replaying(project: BoardProject, settings: RunSettings, replay: int) -> RunSettings:
    """Return settings with replays of what firmware remembers. Raises ProjectError, DataError."""
    remember = project.board.memory.remember
    if replay and not remember:
        raise ProjectError(
            f"the firmware of {project.folder} has no remembered samples to replay: generate "
            "it with --remember N"
        )
    found = replace(settings, replay=replay, remember=remember) if replay else settings
    found.check()
    return found


def _check_elastic(project: BoardProject, settings: RunSettings) -> None:
    """Raise ProjectError where firmware and run do not go together."""
    elastic = project.manifest.elastic
    if settings.elastic is not None and (elastic is None or not elastic.backward_time):
        raise ProjectError(
            f"the firmware of {project.folder} always trains its whole scheme: generate it "
            "with --elastic, to choose while it runs"
        )
    if settings.elastic is not None and elastic is not None and elastic.saves_nothing:
        raise ProjectError(
            f"the firmware of {project.folder} trains the last layer alone, so nothing can be "
            "left out: generate one that trains more, or train without --elastic"
        )
    why = project.board.memory.why_no_saves
    if settings.elastic is not None and why:
        raise ProjectError(
            f"the board chooses by comparing saved states, but it saves nothing: {why}; train "
            "without --elastic"
        )


def _check_resampling(project: BoardProject, settings: RunSettings) -> None:
    """Raise ProjectError if the firmware cannot resample input channels."""
    if settings.swap and not project.manifest.shelf_bytes:
        raise ProjectError(
            f"the firmware of {project.folder} always trains the same channels: generate it with "
            "--resample, to train others while it runs"
        )
    why = project.board.memory.why_no_saves
    if settings.swap and why:
        raise ProjectError(
            f"the board resamples channels from saved states, but it saves nothing: {why}; "
            "train without --resample"
        )


@dataclass(frozen=True)
class BoardCourse:
    """What a board learns. tests: so many test samples. after: steps of other data before.

    sends_latents: whether its samples are latents, which the firmware takes besides samples. kept:
    raw windows of them, for firmware that listens.
    """

    project: BoardProject
    course: Course
    tests: int
    after: int
    sends_latents: bool
    listener: Listener
    kept: RawWindows | None = None

    @staticmethod
    def of(
        project: BoardProject,
        data: Data,
        reading: BoardDataOptions,
        settings: RunSettings,
        model: Path | None,
        after: int,
        listener: Listener,
    ) -> BoardCourse:
        """Read samples as `simulate` does, and find the learning rate if the settings have none.

        model: whose front makes latents of samples, for a project that takes those.
        """
        front = None if model is None else front_of_tail(project.manifest, model, project.folder)
        kept = raw_windows_of(project)
        samples = read_for_board(project, data, reading.read, settings, listener, front, kept)
        if settings.learning_rate is None:
            with listener.searching() as report:
                found = _search(project, samples, settings).found(report)
            settings = replace(settings, learning_rate=found.rate)
        else:
            found = None
        course, sends_latents = Course(samples, settings), False
        if not kept:
            course, sends_latents = of_latents(project, course)
        if found is not None:
            listener.found_rate(found.rate, found, course.samples.split)
        tests = 0 if reading.test_samples == 0 else len(course.samples.split.test)
        return BoardCourse(project, course, tests, after, sends_latents, listener, kept)

    @property
    def lessons(self) -> Lessons:
        """What the board is sent. Raises ArgumentError."""
        course, group = self.course, self.project.manifest.samples_per_update
        lessons = board_lessons(
            course,
            self.tests,
            _reconstruction(self.project),
            own_labels(self.project.manifest),
            self.sends_latents,
            self._selecting(),
            self.after,
            _regression(self.project),
        )
        every = course.settings.resample_every(course.epoch_steps, group)
        if self.kept:
            lessons = replace(lessons, raw_of=self.kept.find, hears=True)
        return replace(lessons, resample_every=every)

    def _selecting(self) -> Selecting | None:
        """When the board chooses what it trains; None if it does not. Raises ArgumentError."""
        manifest, settings = self.project.manifest, self.course.settings
        times = manifest.elastic
        if settings.elastic is None or times is None:
            return None
        periods = settings.periods(self.course.epoch_steps, manifest.samples_per_update)
        periods.check(times.forward_time, times.backward_time, times.least_time)
        squares = settings.importance == "squares"
        return Selecting(periods.share_q16, periods.every, periods.look, squares)

    def run_settings(
        self,
        state: Path,
        saving: StateOptions,
        reconnect_seconds: float,
        doubt: Callable[[str], str],
    ) -> Settings:
        """Return how the host trains the board. doubt: told what speaks against class order."""
        project, course = self.project, self.course
        order_doubt = self._order_doubt()
        return Settings(
            firmware=project.firmware,
            seed=course.settings.rounding_seed,
            state=state,
            save_every=saving.save_every,
            begin=saving.begin,
            source=None if saving.begin_from is None else Path(saving.begin_from),
            reconnect_seconds=reconnect_seconds,
            facts={
                "course": course.digest,
                "tests": hashlib.sha256(content_of(course.samples.split.test)).hexdigest(),
                "settings": asdict(course.settings),
                "class_names": self._learnt_names(),
            },
            counted=lambda raw: FACTS.read(raw, project.manifest.table),
            table=project.manifest.table,
            elastic=project.manifest.elastic,
            doubt=lambda answers: doubt(order_doubt(answers)),
            recipe=project.manifest.recipe_text(self._learnt_names()),
        )

    def _learnt_names(self) -> tuple[str, ...]:
        """Names of the classes, if the data has all of them."""
        manifest, split = self.project.manifest, self.course.samples.split
        is_whole = len(split.names) == manifest.classes and not split.has_numbers_for_names
        return split.names if manifest.has_labels and is_whole else ()

    def _order_doubt(self) -> Callable[[Sequence[int]], str]:
        """What the board's first answers say of the order of classes; of a new head nothing."""
        test = self.course.samples.split.test
        if (self.project.manifest.recipe or {}).get("classes") is not None or test.positions:
            return lambda answers: ""
        return lambda answers: better_order(test.y[: len(answers)], np.array(answers), test.names)

    def doubts(self, outcome: Outcome, loss: float, state: bytes) -> str:
        """Return what is doubtful about the run; empty if nothing is. loss: of the last steps."""
        table = self.project.manifest.table
        saturated = 0 if outcome.interrupted else saturated_biases(state, table)
        said = (self._rate_doubt(outcome, loss), saturation_warning(saturated))
        return "; ".join(filter(None, said))

    def _rate_doubt(self, outcome: Outcome, loss: float) -> str:
        """Return what `simulate` says of a rate that is too large; "" if Ctrl-C ends its trials.

        Ctrl-C must not take the result of the run with it, which is over.
        """
        manifest = self.project.manifest
        if outcome.interrupted or outcome.steps < FEWEST_STEPS or not manifest.has_labels:
            return ""
        before = outcome.before if outcome.resumed is None else outcome.resumed
        sign = bad_sign(loss, _guessing(manifest), before, outcome.accuracy)
        own = self.course.samples
        samples = own if manifest.latent is None else own.whole()
        search = _search(self.project, samples, self.course.settings)
        with self.listener.searching() as report, suppress(KeyboardInterrupt):
            return warning(search, sign, report)
        return ""


def _guessing(manifest: Manifest) -> float:
    """The loss of a network that knows nothing of its labels, in nats."""
    outputs = manifest.label_outputs
    weights = weights_of((manifest.recipe or {}).get("class_weights", ""))
    sums = 1 if outputs is None else outputs.channels
    return sums * math.log(manifest.classes) * max(weights, default=1.0)


def _search(project: BoardProject, samples: Samples, settings: RunSettings) -> Search:
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


def _regression(project: BoardProject) -> Regression | None:
    """Return how a board's outputs are judged by real targets; None if it learns something else."""
    targets = targets_of(project)
    return None if targets is None else judging(targets)


def _reconstruction(project: BoardProject) -> Reconstruction | None:
    """Return how to rebuild the input of a network that reproduces it; None for a classifier."""
    manifest = project.manifest
    if manifest.has_labels or targets_of(project) is not None:
        return None
    x, y = manifest.input, manifest.output
    return Reconstruction(x.scale, x.zero_point, y.scale, y.zero_point)
