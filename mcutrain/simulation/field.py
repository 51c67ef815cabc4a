"""A board that listens, infers and learns when it is told: the same on the desk, to the bit.

`Decisions` is firmware/runtime/mct_learn.c; `Field` is firmware/protocol/mct_learn_commands.h with
the front end, the trigger and the store beside it. A lesson lies between two saved states, so that
`undo` goes back to the one before it. A window is heard once. What a lesson does with it follows
from the window, the position and the remembered samples. So `Field` replays what a board has learnt
from the windows that `mcutrain record` brought.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import DataError
from mcutrain.frontends import Frontend
from mcutrain.frontends.trigger import MOST_ACTIVITY, changes, loudest, trigger_of
from mcutrain.simulation.rates import LearningRate
from mcutrain.simulation.replay import NOWHERE, slots_of_offers, slots_of_replays

Array = npt.NDArray[Any]
Imprint = Callable[[Array, int, int], None]
"""Gives a class its weights from samples of it, beside so many classes."""
SEED = 1
"""Of the rounding, as the firmware begins."""


class FieldSimulator(Protocol):
    """What holds a state and steps it."""

    def reset(self, seed: int = 1) -> None:
        """The weights the model came with."""

    def train(
        self, x: Array, labels: Sequence[int] | Array, rates: Sequence[LearningRate]
    ) -> tuple[Array, Array]:
        """Train on samples in order."""

    def infer(self, x: Array) -> Array:
        """Return the outputs for samples."""

    def forget_class(self, label: int) -> None:
        """Give a class the row the model came with."""

    def save(self) -> bytes:
        """Return the trained state."""

    def load(self, saved: bytes) -> None:
        """Take over a saved state."""


@dataclass(frozen=True)
class LearnParams:
    """When an answer is told. hop: frames from one inference to the next. See mct_learn.h."""

    hop: int
    margin: int = 16
    least: int = -128
    agree: int = 2
    pause: int = 4
    quiet: int = -1

    @staticmethod
    def of(front: Frontend) -> LearnParams:
        """Return what a program has by default."""
        return LearnParams((front.output_shape[0] + 3) // 4)


@dataclass
class Decisions:
    """What an answer, and a window that stands out, are for."""

    classes: int
    params: LearnParams
    last: int = -1
    run: int = 0
    wait: int = 0
    label: int = -1
    known: int = 0
    left: int = 0

    def hear(self, scores: Sequence[int]) -> int:
        """The class that is told, or -1."""
        order = sorted(range(self.classes), key=lambda i: (-scores[i], i))
        label = order[0]
        is_close = len(order) > 1 and scores[label] - scores[order[1]] < self.params.margin
        if is_close or scores[label] < self.params.least or label == self.params.quiet:
            label = -1
        if self.wait:
            self.wait -= 1
            return -1
        self.run = 0 if label < 0 else self.run + 1 if label == self.last else 1
        self.last = label
        if label < 0 or self.run < self.params.agree:
            return -1
        self.run, self.last, self.wait = 0, -1, self.params.pause
        return label

    def gather(self, label: int, known: int, samples: int) -> bool:
        """Await samples of a class. False, and nothing changes, if it is none."""
        others = known - (label < known)
        if samples < 1 or not 0 <= label < self.classes or known > self.classes or others < 1:
            return False
        self.label, self.known, self.left = label, known, samples
        return True

    def sample(self) -> str:
        """Return what a window that stands out is for: "", "collect", or "imprint"."""
        if not self.left:
            return ""
        self.left -= 1
        return "collect" if self.left else "imprint"


@dataclass
class FieldButton:
    """A button, by a clock of 32 bits: `mct_button_look` in mct_learn.c."""

    settle: int
    hold: int
    changed: int = 0
    down: int = 0
    level: bool = False
    is_down: bool = False
    is_held: bool = False

    def look(self, is_down: bool, now: int) -> str:
        """Return what came of a look: "", "clicked" or "held"."""
        if is_down != self.level:
            self.level, self.changed = is_down, now
        if is_down != self.is_down and (now - self.changed) % 2**32 >= self.settle:
            self.is_down = is_down
            if not is_down:
                return "" if self.is_held else "clicked"
            self.down, self.is_held = now, False
        has_lasted = (now - self.down) % 2**32 >= self.hold
        if is_down and self.is_down and not self.is_held and has_lasted:
            self.is_held = True
            return "held"
        return ""


@dataclass(frozen=True)
class FieldLesson:
    """How a window is learnt. steps: on it; replay: of what is remembered behind each."""

    rate: LearningRate
    steps: int = 4
    replay: int = 0


@dataclass(frozen=True)
class FieldRing:
    """Samples that are remembered, by their place, of `seen` that were offered."""

    slots: int = 0
    seen: int = 0
    samples: tuple[tuple[Array, int] | None, ...] = ()

    def offered(self, x: Array, label: int) -> FieldRing:
        """Return the ring with one more sample, if it is remembered."""
        if not self.slots:
            return self
        kept = list(self.samples or (None,) * self.slots)
        place = int(slots_of_offers(self.seen, 1, self.slots)[0])
        if place != NOWHERE:
            kept[place] = (x, label)
        return FieldRing(self.slots, self.seen + 1, tuple(kept))

    def without(self, label: int) -> FieldRing:
        """Return the ring with empty places for the samples of a class."""
        kept = (None if one is not None and one[1] == label else one for one in self.samples)
        return replace(self, samples=tuple(kept))

    def at(self, position: int) -> tuple[Array, int] | None:
        """Return what the step at a position replays."""
        if not self.seen:
            return None
        place = slots_of_replays(np.array([position]), np.array([self.seen]), self.slots)
        return self.samples[int(place[0])]


@dataclass(frozen=True)
class FieldKept:
    """A saved state. is_taught: whether a lesson ended with it."""

    state: bytes
    position: int
    ring: FieldRing
    is_taught: bool = False


@dataclass
class Field:
    """What a board of `generate --app learn` is at a moment.

    imprint: None for firmware without. told: classes that were told, each with the frame count.
    """

    simulator: FieldSimulator
    decisions: Decisions
    ring: FieldRing = FieldRing()
    imprint: Imprint | None = None
    position: int = 0
    newest: FieldKept | None = None
    before: FieldKept | None = None
    told: list[tuple[int, int]] = field(default_factory=list)
    _lesson: FieldLesson | None = None
    _collected: list[Array] = field(default_factory=list)

    # ---- what is told to it ----

    def lesson(self, x: Array, label: int, how: FieldLesson) -> None:
        """Learn a window, int8 as the input has it. Raises DataError for no class, or no step."""
        if not 0 <= label < self.decisions.classes or how.steps < 1:
            raise DataError(f"a lesson is steps on one of {self.decisions.classes} classes")
        self._lesson, self.decisions.left = how, 0
        self._open()
        self.ring = self.ring.offered(x, label)
        self._steps(x, label)

    def gather(self, label: int, known: int, samples: int, how: FieldLesson) -> None:
        """Await samples of a class, which then gets its weights. Raises DataError for no class."""
        if self.imprint is None or not self.decisions.gather(label, known, samples):
            raise DataError(f"{samples} samples cannot give class {label} its weights here")
        self._lesson, self._collected = how, []
        self._open()

    def undo(self) -> bool:
        """Go back to before the last lesson; False, and nothing changes, if none was kept."""
        newest, before = self.newest, self.before
        if newest is None or before is None or not newest.is_taught:
            return False
        if newest.state != self.simulator.save():
            return False
        self.decisions.left = 0
        self._take(before)
        self._keep()
        return True

    def forget(self) -> None:
        """Go back to the weights that the model came with, and remember nothing."""
        self.decisions.left = 0
        self.simulator.reset(SEED)
        self.position, self.ring = 0, FieldRing(self.ring.slots)
        self._keep()

    def forget_class(self, label: int) -> None:
        """Give a class the row it came with, and remember no samples of it. What other classes have
        learnt stays. Raises DataError for no class."""
        self.simulator.forget_class(label)
        self.decisions.left = 0
        self.ring = self.ring.without(label)
        self._keep()

    def restart(self) -> None:
        """Lose the power: what was saved is there again."""
        self.decisions = Decisions(self.decisions.classes, self.decisions.params)
        self.told, self._lesson = [], None
        if self.newest is None:
            self.simulator.reset(SEED)
            self.position, self.ring = 0, FieldRing(self.ring.slots)
        else:
            self._take(self.newest)

    # ---- what it hears ----

    def stands_out(self, x: Array) -> str:
        """Take a window that the trigger found. Returns what it was for."""
        action = self.decisions.sample()
        if not action:
            return action
        label, known = self.decisions.label, self.decisions.known
        self.ring = self.ring.offered(x, label)
        self._collected.append(x)
        if action == "imprint":
            assert self.imprint is not None, "it gathers"
            self.imprint(np.stack(self._collected), label, known)
            self._steps(x, label)
        return action

    def hears(self, x: Array, frame: int) -> int:
        """Infer on a window that ended with this frame. Returns the class that is told, or -1."""
        found = self.decisions.hear(self.simulator.infer(x[np.newaxis])[0].tolist())
        if found >= 0:
            self.told.append((found, frame))
        return found

    # ---- a lesson ----

    def _open(self) -> None:
        if self.newest is None or self.newest.state != self.simulator.save():
            self._keep()

    def _steps(self, x: Array, label: int) -> None:
        assert self._lesson is not None, "a lesson was begun"
        for _ in range(self._lesson.steps):
            self._step(x, label)
            for _ in range(self._lesson.replay):
                earlier = self.ring.at(self.position)
                if earlier is not None:
                    self._step(*earlier)
        self._keep(is_taught=True)

    def _step(self, x: Array, label: int) -> None:
        assert self._lesson is not None, "a lesson was begun"
        self.simulator.train(x[np.newaxis], [label], [self._lesson.rate])
        self.position += 1

    # ---- saved states ----

    def _keep(self, *, is_taught: bool = False) -> None:
        self.before = self.newest
        self.newest = FieldKept(self.simulator.save(), self.position, self.ring, is_taught)

    def _take(self, kept: FieldKept) -> None:
        self.simulator.load(kept.state)
        self.position, self.ring = kept.position, kept.ring


class Ear:
    """Raw samples in, windows out, as a program of `generate --history` keeps them.

    Give it no more than a frame at once, and look behind each.
    """

    def __init__(self, front: Frontend, scale: float, zero_point: int, history: int) -> None:
        self.front, self.scale, self.zero_point = front, scale, zero_point
        self.history, self.frames = history, front.output_shape[0]
        self.total = 0
        self.begin()

    def begin(self) -> None:
        """Begin a new stream. Frames are counted on."""
        self._stream = self.front.stream()
        self._trigger = trigger_of(self.front)
        self._rows: list[Array] = []
        self._activities: list[int] = []
        self._last: Array | None = None
        self._activity = self._samples = 0

    @property
    def until_frame(self) -> int:
        """How many samples end the next frame."""
        missing = self.front.least_samples - self._samples
        return missing if missing > 0 else missing % self.front.hop or self.front.hop

    def push(self, samples: Array) -> tuple[int, bool]:
        """Return how many frames ended, and whether a window that stands out did."""
        if self.front.takes_images:
            return self._push_rows(samples)
        done, found, begin = 0, False, 0
        changes = self._changes(samples.reshape(-1, self.front.channels).astype(np.int64))
        ends = range(self.until_frame, len(changes) + 1, self.front.hop)
        self._samples += len(changes)
        for end in ends:
            self._count(changes[begin:end])
            found |= self._trigger.frame(self._activity)
            self._activities = [*self._activities, self._activity][-self.history :]
            self._activity, done, begin = 0, done + 1, end
        self._count(changes[begin:])
        rows = self._stream.push(samples)
        assert len(rows) == done, "a frame has a row"
        self._rows = [*self._rows, *rows][-self.history :]
        self.total += done
        return done, found

    def _push_rows(self, samples: Array) -> tuple[int, bool]:
        images, found = self._stream.push(samples), False
        self._samples += len(samples)
        for row in images:
            before = () if self._last is None else (self._last,)
            activity, self._last = int(changes(np.stack((*before, row)))[-1]), row
            found |= self._trigger.frame(activity)
            self._rows = [*self._rows, row][-self.history :]
        self.total += len(images)
        return len(images), found

    def _changes(self, samples: Array) -> Array:
        """How far the values of each sample (n, values) are from those of the one before it."""
        before = samples[:1] if self._last is None else self._last
        rows = np.concatenate((before, samples))
        self._last = rows[-1:] if len(rows) else None
        found: Array = np.abs(rows[1:] - rows[:-1])
        return found

    def _count(self, changes: Array) -> None:
        self._activity = min(self._activity + int(changes.sum()), MOST_ACTIVITY)

    def window(self, ago: int = 0) -> Array | None:
        """The window that ended so many frames ago as the input has it; None if it is gone."""
        end = len(self._rows) - ago
        if ago < 0 or end < self.frames:
            return None
        features = self.front.of_window(np.stack(self._rows[end - self.frames : end]))
        return self.front.codes(features, self.scale, self.zero_point)

    @property
    def loudest(self) -> int:
        """How many frames ago the window with the most activity ended; of a camera the last one."""
        if self.front.takes_images:
            return 0
        return loudest(self._activities, self.frames) if self.window() is not None else 0


class FieldBoard:
    """A `Field` with an `Ear`: what firmware does with each piece that it hears."""

    def __init__(self, field: Field, ear: Ear) -> None:
        self.field, self.ear, self._since = field, ear, 0

    def hear(self, samples: Array, most: int) -> None:
        """Take samples, in pieces of at most so many, with a look behind each."""
        begin = 0
        while begin < len(samples):
            pieces = -(-self.ear.until_frame // most)  # in those before it there is nothing to see
            done, found = self.ear.push(samples[begin : begin + pieces * most])
            begin += pieces * most
            if not done:
                continue
            self._since += done
            window = self.ear.window()
            if found and window is not None:
                self.field.stands_out(window)
            if window is not None and self._since >= self.field.decisions.params.hop:
                self._since = 0
                self.field.hears(window, self.ear.total)
