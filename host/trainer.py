"""Training on a board: samples and learning rates go there, one step at a time.

What is learnt at a position (the number of samples learnt before) is a function of the position,
and the board refuses a step from another one. So a run goes on after a restart of the board, of
this program, or of both, and ends with the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from mcutrain_host.board_session import BoardSession
from mcutrain_host.client import Device
from mcutrain_host.errors import HostError, LinkError, LogError
from mcutrain_host.keeping import Keeping
from mcutrain_host.lessons import (
    ACCURACY,
    Begin,
    Lessons,
    Outcome,
    Scores,
    Settings,
    TrainingObserver,
    position_facts,
    ring_facts,
)
from mcutrain_host.log import Log
from mcutrain_host.protocol import Rate, RingStatistics, Statistics, Step
from mcutrain_host.pull import read_state
from mcutrain_host.restarts import Restarts, RunStart
from mcutrain_host.saved import selected_tensors

__all__ = [
    "Begin",
    "Lessons",
    "Outcome",
    "Scores",
    "Settings",
    "Training",
    "TrainingObserver",
    "position_facts",
    "ring_facts",
]


class Training:
    """One run. stop: asked between steps; True ends the run early, with all saved."""

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
        self.watch, self.stop = watch, stop
        self.board = BoardSession(device, lessons, settings, log, watch, stop)
        self.keeping = Keeping(self.board)
        self.restarts = Restarts(self.board)
        self.start = RunStart(self.board, self.keeping)
        self._steps = self._cycles = 0
        self._train_seconds = 0.0
        self._answers: list[int] = []

    @property
    def position(self) -> int:
        """Steps that the board has done."""
        return self.board.position

    @property
    def saved_position(self) -> int:
        """Steps of the state in the board's flash or in the file."""
        return self.keeping.saved_position

    def run(self) -> Outcome:
        """Train to the end, or until `stop`; save, and bring the state to the file.

        Raises HostError. After LogError everything is saved; after LinkError what was saved last
        is; the run can be continued in both cases.
        """
        self._connect()
        first = self.position
        try:
            tested = self._test()
            doubt = self._doubt() if first == self.lessons.first else ""
            self._train()
            after = tested if self._steps == 0 else self._test()
            statistics = self._statistics()
        except LogError:
            self.keeping.keep_without_log(self._steps)
            raise
        before, resumed = self._told_apart(first, tested)
        has_scores = self.lessons.scores is not None or self.lessons.of_classes is not None
        outcome = Outcome(
            identity=self.board.identity,
            first=first,
            position=self.position,
            total=self.lessons.total,
            steps=self._steps,
            before=(before or {}).get(ACCURACY),
            accuracy=(after or {}).get(ACCURACY),
            seconds=self._train_seconds,
            train_cycles=self._cycles / max(self._steps, 1),
            restarts=self.restarts.count,
            resent=self.device.resent,
            saved=self.keeping.saved,
            statistics=statistics,
            interrupted=self.position < self.lessons.total or (self.stop() and after is None),
            scores_before=before if has_scores else None,
            scores=after if has_scores else None,
            doubt=doubt,
            resumed=(resumed or {}).get(ACCURACY),
            scores_resumed=resumed if has_scores else None,
        )
        self._log_end(outcome)
        return outcome

    # ---- the begin, and after a restart ----

    def _connect(self) -> None:
        self.board.identified(self.device.identify())
        if self.board.identity.refused_saved:
            self.watch.say(
                "the board holds a saved state of another model or scheme; saving replaces it"
            )
        position = self.board.checked(self.restarts.bring(self.start.begin))
        self.board.position = self.keeping.saved_position = position
        if not self.board.identity.has_slots:
            self.watch.say(self._forgetful())
        self._check_lessons()
        self.board.write_log(
            "connected",
            {
                "port": self.board.name,
                "board": self.board.identity.board,
                "model": self.board.identity.model,
                "scheme": self.board.identity.scheme,
                "model_hash": f"{self.board.identity.model_hash:016x}",
                "sram_bytes": self.board.identity.sram_bytes,
                "clock_hz": self.board.identity.clock_hz,
                "total": self.lessons.total,
                **(self.settings.facts or {}),
            },
        )
        self.watch.connected(self.board.identity, self.position)
        if self.settings.is_other_course and self.position > self.lessons.first:
            self.watch.say(
                "they were done with other samples or settings; --fresh begins anew, --after "
                f"{self.position} begins with these where those end"
            )

    def _check_lessons(self) -> None:
        """Say where the board remembers something else than this run so far.

        Raises HostError for lessons that it cannot learn.
        """
        lessons, identity = self.lessons, self.board.identity
        if lessons.latents and not identity.latent_bytes:
            raise HostError(
                f"the board at {self.board.name} has firmware of this model that takes no "
                "latents; flash the project's firmware"
            )
        if lessons.hears and not identity.listens:
            raise HostError(
                f"the board at {self.board.name} has firmware of this model that takes no raw "
                "samples; flash the project's firmware"
            )
        if lessons.selecting is not None and not (identity.selects and identity.has_slots):
            raise HostError(
                f"the board at {self.board.name} cannot choose what it trains: that needs "
                "firmware of --elastic, and slots that keep its state"
            )
        if lessons.resample_every and not (identity.resamples and identity.has_slots):
            raise HostError(
                f"the board at {self.board.name} cannot train other columns: that needs "
                "firmware of --resample, and slots that keep the weights"
            )
        if not lessons.replay:
            return
        if identity.remember != lessons.remember:
            raise HostError(
                f"the board at {self.board.name} has firmware of this model that remembers "
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

    def _recover(self, error: LinkError) -> None:
        """Find the board again, and go on from where it is. Raises what cannot be helped."""
        was = self.position
        self.restarts.reconnect(error)
        self.board.position = self.board.checked(self.restarts.bring(self.start.after_restart))
        self.board.write_log("restarted", {"was": was, "reason": str(error)})
        self.watch.say(f"{error}; going on from position {self.position:,}, was at {was:,}")

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
        outputs: list[bytes] = []
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
                if self.lessons.reads_outputs:
                    outputs.append(self.device.read_output())
            else:
                self.device.infer()
                judged.append(self.lessons.scores.of(sample, self.device.read_output(), index))
            self.watch.tested(index + 1, self.lessons.tests)
        if self.lessons.scores is None:
            scores: Mapping[str, Any] = {ACCURACY: correct / self.lessons.tests}
            if self.lessons.of_classes is not None:
                scores = {**scores, **self.lessons.of_classes(self._answers, outputs)}
            facts = {**scores, "correct": correct, "evaluated": self.lessons.tests}
        else:
            scores = self.lessons.scores.of_all(judged)
            facts = {**scores, "evaluated": self.lessons.tests}
        self.board.write_log("evaluated", facts)
        return scores

    def _told_apart(
        self, first: int, tested: Mapping[str, Any] | None
    ) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
        """Return what the test said before the first step of all, and where this run went on.

        tested: at `first`.
        """
        if first == self.lessons.first or tested is None:
            return tested, None
        before = self.settings.before
        is_known = before is not None and before.keys() == tested.keys()
        return before if is_known else None, tested

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
                self.keeping.keep(self._steps)
                return
            except LinkError as error:
                self._recover(error)

    def _train_rest(self) -> None:
        while self.position < self.lessons.total and not self.stop():
            started = time.monotonic()
            self._resample()
            self._select()
            step, label, rate = self._step()
            self._train_seconds += time.monotonic() - started
            self._take(step, label, rate)
            every = self.settings.save_every
            is_time = every and self.position % every == 0 and self.position < self.lessons.total
            if is_time and not self.board.is_looking:
                self.keeping.save()

    def _resample(self) -> None:
        """Have the board train other columns, if it is time to."""
        every = self.lessons.resample_every
        if every and self.position % every == 0:
            self.keeping.saved = self.device.resample(every)
            self.keeping.saved_position = self.keeping.saved.position
            self.board.write_log("swapped", {})

    def _select(self) -> None:
        """Have the board do what is due for its choice of what to train."""
        selecting, elastic = self.lessons.selecting, self.settings.elastic
        if selecting is None or elastic is None or not selecting.is_due(self.position):
            return
        saved = self.device.select(selecting)
        if selecting.chooses(self.position):
            raw = read_state(self.device, self.settings.firmware, position=self.position).raw
            selected = selected_tensors(raw, self.settings.table, elastic.tensors)
            self.board.write_log("selected", {"tensors": selected})
        else:
            self.keeping.saved, self.keeping.saved_position = saved, saved.position

    def _step(self) -> tuple[Step, int | bytes, Rate]:
        rate = self.lessons.rate_at(self.position)
        if self.lessons.is_replay(self.position):
            replayed = self.device.replay(self.position, rate)
            return replayed, replayed.label, rate
        sample, label = self.lessons.sample_at(self.position)
        self._send(sample)
        return self.device.train(label, self.position, rate), label, rate

    def _send(self, sample: bytes) -> None:
        raw = self.lessons.raw_of(sample)
        if raw is not None:
            self.device.send_raw(raw)
        elif self.lessons.latents:
            self.device.send_latent(sample)
        else:
            self.device.send_sample(sample)

    def _take(self, step: Step, label: int | bytes, rate: Rate) -> None:
        replay = {"is_replay": True} if self.lessons.is_replay(self.position) else {}
        self.board.position = step.position
        self.restarts.gained(step.position)
        self._steps += 1
        self._cycles += step.cycles
        self.watch.trained(step, label)
        self.board.write_log(
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
        if isinstance(label, bytes) and not self.lessons.targets:
            return position_facts(step.prediction, label)
        if self.lessons.scores is not None:
            return {}
        right = step.prediction == label
        return {"label": label, "prediction": step.prediction, "is_right": right}

    def _log_end(self, outcome: Outcome) -> None:
        self.board.write_log(
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
