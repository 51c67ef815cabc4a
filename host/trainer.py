"""Training on a board: samples and learning rates go there, one step at a time.

What is learnt at a position (the number of samples learnt before) is a function of the position,
and the board refuses a step from another one. So a run goes on after a restart of the board, of
this program, or of both, and ends with the same bits.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from mcutrain_host import saved as saved_files
from mcutrain_host.client import Device
from mcutrain_host.errors import (
    DeviceRestartedError,
    HostError,
    LinkError,
    LogError,
    PortError,
    RefusedError,
    StateFileError,
)
from mcutrain_host.log import Kept, Log
from mcutrain_host.manifest import ElasticSelection
from mcutrain_host.protocol import (
    Firmware,
    Identity,
    Rate,
    RingStatistics,
    Saved,
    Selecting,
    Statistics,
    Step,
)
from mcutrain_host.pull import check_firmware, read_state
from mcutrain_host.saved import SavedState, feature_facts, selected_tensors
from mcutrain_host.state import StateTable

ACCURACY = "accuracy"
IGNORED = 255
"""The label of a position that nothing is learnt from."""
RETRY_SECONDS = 0.5
"""Between two attempts to find an unplugged board again."""
RESTARTS_IN_PLACE = 5
"""So many restarts of the board without a step between them end the run."""
RESTARTS_WITHOUT_GAIN = 100
"""So many without a step further than ever before: it loses all that it learns."""


@dataclass(frozen=True)
class Scores:
    """How a network is tested whose output is more than the scores of a sample's class.

    of: what there is to say of a test sample's input and output bytes, by its index: how far the
    output is from the input, or which positions are taken for what. of_all: what that is of all
    test samples, by name: loss, and auc if there are labels; or accuracy, iou and class_iou.
    """

    of: Callable[[bytes, bytes, int], Any]
    of_all: Callable[[Sequence[Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Lessons:
    """What a board is to learn, and what it is tested on, by position and by index.

    sample_at, test_at: the input's bytes and the label; or the labels of positions, as bytes.
    total: steps of the whole run. scores: of a network without classes, whose labels are all 0, or
    with a class for each position. replay: remembered samples that the board
    trains on after each new one, out of at most `remember`. latents: the bytes are of latents in
    the place of samples. selecting: when the board chooses which tensors it trains; None: it trains
    those that it did. first: the position that the run begins at, where the board has learnt
    something else before; `total` counts from 0 all the same. swap_every: steps from one swap of
    trained columns to the next; 0: none.
    """

    total: int
    sample_at: Callable[[int], tuple[bytes, int | bytes]]
    rate_at: Callable[[int], Rate]
    tests: int
    test_at: Callable[[int], tuple[bytes, int | bytes]]
    scores: Scores | None = None
    replay: int = 0
    remember: int = 0
    latents: bool = False
    selecting: Selecting | None = None
    first: int = 0
    swap_every: int = 0

    def is_replay(self, position: int) -> bool:
        """Return whether the step there takes a sample that the board remembers."""
        return (position - self.first) % (1 + self.replay) != 0

    def new_before(self, position: int) -> int:
        """Return how many of the run's steps before a position took a new sample."""
        return -(-(position - self.first) // (1 + self.replay))


class Begin(Enum):
    """From where a run starts."""

    BOARD = "from what the board has learnt"
    FILE = "from the state of a file"
    FRESH = "from the weights that the model came with"


@dataclass(frozen=True)
class Settings:
    """How a run is done.

    firmware: the project's. seed: of the rounding, for RESET. state: the file that the trained
    state is brought to. save_every: steps between saves; 0 saves only at the end. begin, source:
    from where; `source` is the file of Begin.FILE. reconnect_seconds: how long to wait for a board
    that is gone. facts: about the run, for the log. table: of the project's state. elastic: as the
    manifest has it. earlier: what the board saved in an earlier run, which is not saved once more.
    doubt: what is to be said of the classes that the test samples are taken for before the first
    step; empty if nothing is. recipe: of the project's step, as JSON, for the file of the state.
    """

    firmware: Firmware
    seed: int
    state: Path
    save_every: int = 500
    begin: Begin = Begin.BOARD
    source: Path | None = None
    reconnect_seconds: float = 0.0
    facts: Mapping[str, Any] | None = None
    table: StateTable = StateTable()
    elastic: ElasticSelection | None = None
    earlier: Kept | None = None
    doubt: Callable[[Sequence[int]], str] = lambda answers: ""
    recipe: str = ""


class TrainingObserver(Protocol):
    """Who wants to know how far a run is."""

    def connected(self, identity: Identity, first: int) -> None:
        """The board is found, and training goes on at position `first`."""

    def tested(self, done: int, of: int) -> None:
        """Test samples done."""

    def trained(self, step: Step, label: int | bytes) -> None:
        """A step is done."""

    def transferred(self, what: str, done: int, of: int) -> None:
        """Bytes of a state on their way."""

    def say(self, sentence: str) -> None:
        """Something that is not usual."""


@dataclass(frozen=True)
class Outcome:
    """What a run did. before, accuracy: shares of the test samples; None if not tested.

    scores_before, scores: what Scores.of_all said, if there are such. doubt: what Settings.doubt
    said.
    first: the position at the begin. steps: done in this run, those that were lost by a restart
    included. train_cycles: on average. saved: on the board, None if it cannot.
    """

    identity: Identity
    first: int
    position: int
    total: int
    steps: int
    before: float | None
    accuracy: float | None
    seconds: float
    train_cycles: float
    restarts: int
    resent: int
    saved: Saved | None
    statistics: Statistics
    interrupted: bool
    scores_before: Mapping[str, Any] | None = None
    scores: Mapping[str, Any] | None = None
    doubt: str = ""


class Training:
    """One run. stop: asked between steps; True ends the run early, with all saved.

    position: of the board. saved_position: of what is on the board's flash or in the file.
    """

    def __init__(
        self,
        device: Device,
        lessons: Lessons,
        settings: Settings,
        log: Log,
        watch: TrainingObserver,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.device, self.lessons, self.settings = device, lessons, settings
        self.log, self.watch, self.stop = log, watch, stop
        self.position = 0
        self.saved_position = 0
        self._identity: Identity | None = None
        self._kept: SavedState | None = None
        self._saved: Saved | None = None
        self._steps = self._cycles = self._restarts = self._restarts_here = 0
        self._furthest = self._restarts_since = 0
        self._train_seconds = 0.0
        self._answers: list[int] = []

    def run(self) -> Outcome:
        """Train to the end, or until `stop`; save, and bring the state to the file.

        Raises HostError. After LogError everything is saved; after LinkError what was saved last
        is; the run can be continued in both cases.
        """
        self._connect()
        first = self.position
        try:
            before = self._test()
            doubt = self._doubt() if first == self.lessons.first else ""
            self._train()
            after = before if self._steps == 0 else self._test()
            statistics = self._statistics()
        except LogError:
            self._keep_without_log()
            raise
        outcome = Outcome(
            identity=self.identity,
            first=first,
            position=self.position,
            total=self.lessons.total,
            steps=self._steps,
            before=(before or {}).get(ACCURACY),
            accuracy=(after or {}).get(ACCURACY),
            seconds=self._train_seconds,
            train_cycles=self._cycles / max(self._steps, 1),
            restarts=self._restarts,
            resent=self.device.resent,
            saved=self._saved,
            statistics=statistics,
            interrupted=self.position < self.lessons.total or (self.stop() and after is None),
            scores_before=before if self.lessons.scores else None,
            scores=after if self.lessons.scores else None,
            doubt=doubt,
        )
        self._log_end(outcome)
        return outcome

    @property
    def identity(self) -> Identity:
        """Identity of the board, as it was when a session began last."""
        assert self._identity is not None, "run() begins with it"
        return self._identity

    # ---- the begin, and after a restart ----

    def _connect(self) -> None:
        self._identity = self.device.identify()
        check_firmware(self.device, self.settings.firmware)
        if self.identity.refused_saved:
            self.watch.say(
                "the board holds a saved state of another model or scheme; saving replaces it"
            )
        self.position = self.saved_position = self._checked(self._bring(self._begin))
        if not self.identity.has_slots:
            self.watch.say(self._forgetful())
        self._check_lessons()
        self._write_log(
            "connected",
            {
                "port": self.device.link.name,
                "board": self.identity.board,
                "model": self.identity.model,
                "scheme": self.identity.scheme,
                "model_hash": f"{self.identity.model_hash:016x}",
                "sram_bytes": self.identity.sram_bytes,
                "clock_hz": self.identity.clock_hz,
                "total": self.lessons.total,
                **(self.settings.facts or {}),
            },
        )
        self.watch.connected(self.identity, self.position)

    def _check_lessons(self) -> None:
        """Say where the board remembers something else than this run so far.

        Raises HostError for lessons that it cannot learn.
        """
        lessons, identity = self.lessons, self.identity
        if lessons.latents and not identity.latent_bytes:
            raise HostError(
                f"the board at {self.device.link.name} has firmware of this model that takes no "
                "latents; flash the project's firmware"
            )
        if lessons.selecting is not None and not (identity.selects and identity.has_slots):
            raise HostError(
                f"the board at {self.device.link.name} cannot choose what it trains: that needs "
                "firmware of --elastic, and slots that keep its state"
            )
        if lessons.swap_every and not (identity.swaps and identity.has_slots):
            raise HostError(
                f"the board at {self.device.link.name} cannot train other columns: that needs "
                "firmware of --swap, and slots that keep the weights"
            )
        if not lessons.replay:
            return
        if identity.remember != lessons.remember:
            raise HostError(
                f"the board at {self.device.link.name} has firmware of this model that remembers "
                f"{identity.remember:,} samples, the project's {lessons.remember:,}; flash the "
                "project's firmware"
            )
        found, expected = self._statistics(), lessons.new_before(self.position)
        offered = found.offered if isinstance(found, RingStatistics) else 0
        if lessons.first > 0 and offered <= expected:
            self.watch.say(
                f"the board was offered {offered - expected:,} samples to remember before position "
                f"{lessons.first:,}: what it learnt then is not replayed"
            )
        elif lessons.first == 0 and offered != expected:
            self.watch.say(
                f"the board was offered {offered:,} samples to remember, and this run had "
                f"{expected:,} before position {self.position:,}: what it replays is not what a "
                "simulation of this run replays; --fresh begins anew"
            )

    def _forgetful(self) -> str:
        """Return what a power cut takes from a board that cannot save."""
        every = self.settings.save_every
        when = f"every {every:,} steps and at the end" if every else "at the end"
        return (
            "the board has no slots to save into and forgets without power; what it learns is "
            f"brought to {self.settings.state} {when}"
        )

    def _begin(self) -> int:
        """Bring the board to where the run starts. Returns the position."""
        settings, identity = self.settings, self.identity
        if settings.begin is Begin.FRESH:
            return self._replace_saved(self.device.reset(settings.seed))
        if settings.begin is Begin.FILE:
            assert settings.source is not None, "Begin.FILE has a file"
            state = self._read_file(settings.source)
            return self._replace_saved(self._write(state))
        in_file = self._state_in_file()
        learnt = in_file.position(identity.samples_per_update) if in_file else 0
        position = self._valid_position()
        if position == 0 and in_file is not None and learnt > 0:
            if identity.has_slots:
                raise StateFileError(
                    f"{settings.state} has learnt from {learnt:,} samples, the board from none; "
                    f"--from {settings.state} goes on there, --fresh begins anew"
                )
            self.watch.say(
                f"the board keeps no state, so {settings.state} is written to it: "
                f"{learnt:,} samples learnt"
            )
            return self._write(in_file)
        if position == 0 and self.lessons.first == 0:
            return self.device.reset(settings.seed)
        return position

    def _checked(self, position: int) -> int:
        """A position that the run has. Raises HostError."""
        first = self.lessons.first
        if position < first:
            raise HostError(
                f"the board at {self.device.link.name} has done {position:,} steps, and this run "
                f"begins after {first:,}: finish the one before, or say --after {position}"
            )
        return position

    def _replace_saved(self, position: int) -> int:
        """Save, so that a restart does not bring back what an earlier run saved."""
        if self.identity.has_slots:
            self._saved = self._save_on_board(position)
        return position

    def _save_on_board(self, position: int) -> Saved:
        saved = self.device.save()
        if saved.position != position:
            raise HostError(
                f"the board at {self.device.link.name} saved a state of position "
                f"{saved.position:,} in the place of {position:,}; is another program training it?"
            )
        return saved

    def _state_in_file(self) -> SavedState | None:
        """Return what an earlier run left. Raises StateFileError, ModelMismatchError."""
        state = self.settings.state
        return self._read_file(state) if state.exists() else None

    def _read_file(self, path: Path) -> SavedState:
        """As long as the board's. Raises StateFileError, ModelMismatchError."""
        return saved_files.read(path, self.settings.firmware.model_hash, self.identity.saved_bytes)

    def _valid_position(self) -> int:
        """The board's, after a state that was written in part has been replaced."""
        if self.identity.is_complete:
            return self.identity.position
        if self.identity.has_slots:
            try:
                return self.device.restore().position
            except RefusedError:
                pass  # nothing is saved
        return self.device.reset(self.settings.seed)

    def _write(self, state: SavedState) -> int:
        if self.identity.swaps:
            raise HostError(
                f"the board at {self.device.link.name} keeps weights of swapped columns in its "
                "flash, where no state is written over the line: leave out --from, or begin anew "
                "with --fresh"
            )
        self.device.write_state(
            state.raw, lambda done, of: self.watch.transferred("writing the state", done, of)
        )
        self._kept = state
        return state.position(self.identity.samples_per_update)

    def _recover(self, error: LinkError) -> None:
        """Find the board again, and go on from where it is. Raises what cannot be helped."""
        was = self.position
        self._reconnect(error)
        self.position = self._checked(self._bring(self._after_restart))
        self._write_log("restarted", {"was": was, "reason": str(error)})
        self.watch.say(f"{error}; going on from position {self.position:,}, was at {was:,}")

    def _bring(self, to_position: Callable[[], int]) -> int:
        """Do what brings the board to a position, again if it restarts meanwhile."""
        while True:
            try:
                return to_position()
            except LinkError as error:
                self._reconnect(error)

    def _reconnect(self, error: LinkError) -> None:
        self._restarts += 1
        self._restarts_here += 1
        self._restarts_since += 1
        if self._restarts_since > RESTARTS_WITHOUT_GAIN:
            raise HostError(
                f"the talk with the board broke off {RESTARTS_WITHOUT_GAIN} times, and it never "
                f"came past position {self._furthest:,}; the last time: {error}"
            ) from error
        if self._restarts_here > RESTARTS_IN_PLACE:
            raise HostError(
                f"the talk with the board broke off {RESTARTS_IN_PLACE} times at position "
                f"{self.position:,} without a step between; the last time: {error}"
            ) from error
        self._identity = self._find_again(error)
        check_firmware(self.device, self.settings.firmware)

    def _find_again(self, error: LinkError) -> Identity:
        until = time.monotonic() + self.settings.reconnect_seconds
        if isinstance(error, DeviceRestartedError):
            try:
                return self.device.identify()
            except LinkError as next_error:
                error = next_error
        while time.monotonic() < until:
            if self.stop():
                raise error
            try:
                return self.device.reopen()
            except (LinkError, PortError):
                time.sleep(RETRY_SECONDS)
        raise error

    def _after_restart(self) -> int:
        """Return where the board is after a restart, or what this run kept for it."""
        position = self._valid_position()
        if position > 0:
            return position
        if self._kept is not None:
            return self._write(self._kept)
        return self.device.reset(self.settings.seed)

    # ---- testing ----

    def _test(self) -> Mapping[str, Any] | None:
        """Return what the test samples say, by name; None if there are none, or at `stop`."""
        while self.lessons.tests > 0:
            try:
                return self._test_once()
            except LinkError as error:
                self._recover(error)
        return None

    def _test_once(self) -> Mapping[str, Any] | None:
        correct, judged = 0, []
        self._answers = []
        for index in range(self.lessons.tests):
            if self.stop():
                return None
            sample, label = self.lessons.test_at(index)
            self._send(sample)
            if self.lessons.scores is None:
                assert isinstance(label, int), "labels of positions have scores"
                found_class = self.device.evaluate(label, index)
                correct = found_class.correct
                self._answers.append(found_class.prediction)
            else:
                self.device.infer()
                judged.append(self.lessons.scores.of(sample, self.device.read_output(), index))
            self.watch.tested(index + 1, self.lessons.tests)
        if self.lessons.scores is None:
            found: Mapping[str, Any] = {ACCURACY: correct / self.lessons.tests}
            facts = {**found, "correct": correct, "evaluated": self.lessons.tests}
        else:
            found = self.lessons.scores.of_all(judged)
            facts = {**found, "evaluated": self.lessons.tests}
        self._write_log("evaluated", facts)
        return found

    def _doubt(self) -> str:
        """Return what is to be said of the first test."""
        is_whole = self._answers and len(self._answers) == self.lessons.tests
        doubt = self.settings.doubt(self._answers) if is_whole else ""
        if doubt:
            self.watch.say(doubt)
        return doubt

    def _statistics(self) -> Statistics:
        while True:
            try:
                return self.device.statistics()
            except LinkError as error:
                self._recover(error)

    # ---- training ----

    def _train(self) -> None:
        """From the board's position to the end or `stop`, and all kept."""
        while True:
            try:
                self._train_rest()
                self._keep()
                return
            except LinkError as error:
                self._recover(error)

    def _train_rest(self) -> None:
        while self.position < self.lessons.total and not self.stop():
            started = time.monotonic()
            self._swap()
            self._select()
            step, label, rate = self._step()
            self._train_seconds += time.monotonic() - started
            self._take(step, label, rate)
            every = self.settings.save_every
            is_time = every and self.position % every == 0 and self.position < self.lessons.total
            if is_time and not self._is_looking:
                self._save()

    def _swap(self) -> None:
        """Have the board train other columns, if it is time to."""
        every = self.lessons.swap_every
        if every and self.position % every == 0:
            self._saved = self.device.swap(every)
            self.saved_position = self._saved.position
            self._write_log("swapped", {})

    def _select(self) -> None:
        """Have the board do what is due for its choice of what to train."""
        selecting, elastic = self.lessons.selecting, self.settings.elastic
        if selecting is None or elastic is None or not selecting.is_due(self.position):
            return
        saved = self.device.select(selecting)
        if selecting.chooses(self.position):
            raw = read_state(self.device, self.settings.firmware, position=self.position).raw
            selected = selected_tensors(raw, self.settings.table, elastic.tensors)
            self._write_log("selected", {"tensors": selected})
        else:
            self._saved, self.saved_position = saved, saved.position

    @property
    def _is_looking(self) -> bool:
        """Whether one more save might overwrite a state that the board's choice needs."""
        selecting = self.lessons.selecting
        is_over = self.position >= self.lessons.total
        return selecting is not None and not is_over and selecting.is_looking(self.position)

    def _step(self) -> tuple[Step, int | bytes, Rate]:
        rate = self.lessons.rate_at(self.position)
        if self.lessons.is_replay(self.position):
            replayed = self.device.replay(self.position, rate)
            return replayed, replayed.label, rate
        sample, label = self.lessons.sample_at(self.position)
        self._send(sample)
        return self.device.train(label, self.position, rate), label, rate

    def _send(self, sample: bytes) -> None:
        if self.lessons.latents:
            self.device.send_latent(sample)
        else:
            self.device.send_sample(sample)

    def _take(self, step: Step, label: int | bytes, rate: Rate) -> None:
        replay = {"is_replay": True} if self.lessons.is_replay(self.position) else {}
        self.position = step.position
        self._restarts_here = 0
        if self.position > self._furthest:
            self._furthest, self._restarts_since = self.position, 0
        self._steps += 1
        self._cycles += step.cycles
        self.watch.trained(step, label)
        self._write_log(
            "step",
            {
                "loss": round(step.loss, 6),
                "loss_q16": step.loss_q16,
                **self._learnt(step, label),
                "rate": rate.value,
                "mult_q31": rate.mult_q31,
                "shift": rate.shift,
                "cycles": step.cycles,
                "saturations": step.saturations,
                **replay,
            },
        )

    def _learnt(self, step: Step, label: int | bytes) -> dict[str, Any]:
        """Return what the log says of a step's label."""
        if isinstance(label, bytes):
            return position_facts(step.prediction, label)
        if self.lessons.scores is not None:
            return {}
        right = step.prediction == label
        return {"label": label, "prediction": step.prediction, "is_right": right}

    # ---- keeping what was learnt ----

    def _save(self) -> None:
        """In the board's flash, or in the file where the board has no slots."""
        if not self.identity.has_slots:
            self._pull()
            return
        self._saved = self._save_on_board(self.position)
        self.saved_position = self._saved.position
        self._write_log("saved", {"number": self._saved.number})

    def _keep(self) -> None:
        """In the board's flash and in the file. A refusal comes after the file is written."""
        refusal = None
        state = self._saved_earlier()
        saves = self.identity.has_slots and not self._is_looking
        if saves and state is None:
            try:
                self._save()
            except RefusedError as error:
                refusal = error
        self._pull(state, is_saved=saves and refusal is None)
        if refusal:
            raise refusal

    def _saved_earlier(self) -> SavedState | None:
        """The board's state, if its newest save holds just this: one more would only wear flash."""
        earlier = self.settings.earlier
        if earlier is None or self._steps:
            return None
        kept = Saved(earlier.save, self.position)
        if self._saved not in {None, kept}:
            return None
        if not self.identity.has_slots or earlier.save != self.identity.save_number:
            return None
        state = self._read_state()
        if _sha256(state) != earlier.sha256:
            return None
        self._saved = kept
        return state

    def _keep_without_log(self) -> None:
        """Keep the state when the log cannot be written; the error that is told is the log's."""
        self.log = _NoLog()
        try:
            self._keep()
        except HostError as error:
            self.watch.say(str(error))

    def _read_state(self) -> SavedState:
        return read_state(
            self.device,
            self.settings.firmware,
            lambda done, of: self.watch.transferred("reading the state", done, of),
            self.position,
        )

    def _pull(self, known: SavedState | None = None, *, is_saved: bool = False) -> None:
        """To the file. known: the board's state. is_saved: it is also what was saved last."""
        state = self._read_state() if known is None else known
        saved_files.write(self.settings.state, state.raw, self.settings.recipe)
        self._kept = state
        self.saved_position = max(self.position, self.saved_position)
        facts: dict[str, Any] = {"file": str(self.settings.state)}
        if is_saved and self._saved is not None:
            facts |= {"save": self._saved.number, "sha256": _sha256(state)}
        facts |= feature_facts(state.raw, self.settings.table)
        self._write_log("pulled", facts)

    # ---- the log ----

    def _write_log(self, event: str, facts: Mapping[str, Any]) -> None:
        self.log.write(event, self.position, facts)

    def _log_end(self, outcome: Outcome) -> None:
        self._write_log(
            "interrupted" if outcome.interrupted else "finished",
            {
                **({"accuracy": outcome.accuracy} if outcome.scores is None else outcome.scores),
                "steps": outcome.steps,
                "seconds": round(outcome.seconds, 3),
                "restarts": outcome.restarts,
                "resent": outcome.resent,
                "stack_used_bytes": outcome.statistics.stack_used_bytes,
                **ring_facts(outcome.statistics),
            },
        )


def _sha256(state: SavedState) -> str:
    return hashlib.sha256(state.raw).hexdigest()


def position_facts(right: int, labels: bytes) -> dict[str, int]:
    """Count labels of positions in a step, and how many of them are right."""
    return {"right": right, "labelled": len(labels) - labels.count(IGNORED)}


def ring_facts(statistics: Statistics) -> dict[str, int]:
    """Facts about the ring of a board that remembers."""
    if not isinstance(statistics, RingStatistics):
        return {}
    return {"samples_offered": statistics.offered, "slots_erased": statistics.slots_erased}


class _NoLog:
    """In the place of a log that cannot be written."""

    def write(self, event: str, position: int, facts: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass
