"""What is known of a board at a step, from the records of its log: one source for every view."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from mcutrain_host.dataclass import dataclass
from mcutrain_host.protocol import Identity, Statistics
from mcutrain_host.text import printable

WINDOW = 200
"""Steps of which the shown means are."""
CURVE_POINTS = 120
"""Most points of a loss curve; each is the mean of equally many steps, but for the last."""
NO_CLASS = -1
"""The label of a step that has none, and the prediction before the first."""
ENDS = ("finished", "interrupted")
MEASURES = ("accuracy", "f1", "iou", "auc", "mae", "r2", "loss")
"""What a test says."""


@dataclass(frozen=True)
class Record:
    """A line of a log (mcutrain_host.log says which there are). time: seconds since 1970."""

    event: str
    time: float
    position: int
    facts: Mapping[str, Any]

    @staticmethod
    def parse(line: bytes) -> Record | None:
        """The record of a line; None if it is no line of ours."""
        try:
            facts = json.loads(line)
            found = Record(str(facts["event"]), float(facts["time"]), facts["position"], facts)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return found if type(found.position) is int and found.position >= 0 else None

    def int_of(self, name: str) -> int | None:
        """A fact that is an integer; None if there is none of that name."""
        value = self.facts.get(name)
        return value if type(value) is int else None

    def text_of(self, name: str) -> str:
        """A fact that is a text; empty if there is none of that name."""
        value = self.facts.get(name)
        return printable(value) if isinstance(value, str) else ""


@dataclass(frozen=True)
class ClassCount:
    """How many steps learnt a class, and in how many of these it had been predicted."""

    name: str
    steps: int
    right: int


@dataclass(frozen=True)
class CurvePoint:
    """The mean loss of some steps, in nats. position: after the last of them."""

    position: int
    loss: float


@dataclass(frozen=True)
class TestedAt:
    """What the test samples said. measures: by name, such as accuracy, a share."""

    position: int
    measures: Mapping[str, float]


@dataclass(frozen=True)
class BoardFacts:
    """What is on the board, and what it counted; None: it has not said so (yet)."""

    board: str = ""
    model: str = ""
    scheme: str = ""
    clock_hz: int | None = None
    sram_bytes: int | None = None
    stack_bytes: int | None = None
    stack_used_bytes: int | None = None
    step_cycles: int | None = None
    infer_cycles: int | None = None
    saturations: int | None = None
    has_slots: bool | None = None
    saves: int | None = None
    slots_erased: int | None = None
    offered: int | None = None
    remember: int | None = None
    frames: int | None = None
    frames_refused: int | None = None
    repeated: int | None = None


@dataclass(frozen=True)
class LiveFacts:
    """All that is known of a run at a step.

    source: where it comes from, a port or a file. total: steps of the whole run. window: steps of
    which the window's loss (the sum, Q16 nats) and counts are. predicted: samples or positions in
    it that had a label; right: of these, those that were predicted. per_second: steps.
    """

    source: str
    state: str = "waiting"
    doubt: str = ""
    position: int = 0
    total: int | None = None
    loss_q16: int | None = None
    prediction: int | None = None
    window: int = 0
    window_loss_q16: int = 0
    predicted: int = 0
    right: int = 0
    per_second: float | None = None
    restarts: int = 0
    board: BoardFacts = BoardFacts()
    tests: tuple[TestedAt, ...] = ()
    classes: tuple[ClassCount, ...] = ()
    curve: tuple[CurvePoint, ...] = ()

    @property
    def loss(self) -> float | None:
        """Loss of the last step, in nats."""
        return None if self.loss_q16 is None else self.loss_q16 / 65536

    @property
    def mean_loss(self) -> float | None:
        """Mean loss of the window, in nats."""
        return self.window_loss_q16 / self.window / 65536 if self.window else None

    @property
    def accuracy(self) -> float | None:
        """Share of the window that was predicted right, each before its step learnt."""
        return self.right / self.predicted if self.predicted else None

    @property
    def step_ms(self) -> float | None:
        """What the last step took by the board's clock."""
        cycles, clock_hz = self.board.step_cycles, self.board.clock_hz
        return 1e3 * cycles / clock_hz if cycles and clock_hz else None


def _measure(name: str) -> str:
    """Return what a fact of a test measures: of several outputs its name is before that."""
    return name.rpartition(" ")[2]


@dataclass
class _Steps:
    """Steps in order of position. Sums are of all steps up to one, and begin with 0."""

    positions: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    losses_q16: list[int] = field(default_factory=lambda: [0])
    predicted: list[int] = field(default_factory=lambda: [0])
    right: list[int] = field(default_factory=lambda: [0])
    counts: dict[int, list[int]] = field(default_factory=dict)

    def add(self, record: Record, loss_q16: int, label: int, predicted: int, right: int) -> None:
        """Take down a step. Steps from its position on are forgotten: they were lost."""
        self.forget(record.position - 1)
        self.positions.append(record.position)
        self.times.append(record.time)
        self.labels.append(label)
        for sums, more in (
            (self.losses_q16, loss_q16),
            (self.predicted, predicted),
            (self.right, right),
        ):
            sums.append(sums[-1] + more)
        if label != NO_CLASS:
            counted = self.counts.setdefault(label, [0, 0])
            counted[0] += 1
            counted[1] += right

    def forget(self, after: int) -> None:
        """Forget the steps after a position."""
        while self.positions and self.positions[-1] > after:
            self.positions.pop()
            self.times.pop()
            self.losses_q16.pop()
            self.predicted.pop()
            right = self.right.pop() - self.right[-1]
            if (label := self.labels.pop()) != NO_CLASS:
                self.counts[label][0] -= 1
                self.counts[label][1] -= right

    def curve(self) -> tuple[CurvePoint, ...]:
        """Mean losses, each of as many steps."""
        count = len(self.positions)
        size = max(-(-count // CURVE_POINTS), 1)
        found = []
        for first in range(0, count, size):
            end = min(first + size, count)
            loss_q16 = self.losses_q16[end] - self.losses_q16[first]
            found.append(CurvePoint(self.positions[end - 1], loss_q16 / (end - first) / 65536))
        return tuple(found)

    def per_second(self) -> float | None:
        """The speed of the window, by the records' times."""
        first = max(len(self.times) - WINDOW, 0)
        if len(self.times) - first < 2:
            return None
        seconds = self.times[-1] - self.times[first]
        return (self.positions[-1] - self.positions[first]) / seconds if seconds > 0 else None


class LiveRun:
    """Takes records, in order, and says what is known after them. source: a port or a file."""

    def __init__(self, source: str) -> None:
        self.source = printable(source)
        self._clear()

    def take(self, records: Iterable[Record]) -> None:
        """Take down what happened."""
        for record in records:
            if record.event == "step":
                self._step(record)
            elif record.event == "connected":
                self._connected(record)
            elif record.event == "restarted":
                self._restarts += 1
                self._forget(record.position)
            elif record.event == "evaluated":
                self._tested(record)
            elif record.event == "saved":
                self._keep(has_slots=True, saves=record.int_of("number"))
            elif record.event == "statistics":
                self._statistics(record)
            elif record.event in ENDS:
                self._ended(record)

    def fail(self, sentence: str) -> None:
        """Note that the board cannot be asked now; the next record ends that."""
        self._doubt = sentence

    @property
    def facts(self) -> LiveFacts:
        """What is known now."""
        steps = self._steps
        first = max(len(steps.positions) - WINDOW, 0)
        return LiveFacts(
            source=self.source,
            state=self._state,
            doubt=self._doubt,
            position=self._position,
            total=self._total,
            loss_q16=self._loss_q16,
            prediction=self._prediction,
            window=len(steps.positions) - first,
            window_loss_q16=steps.losses_q16[-1] - steps.losses_q16[first],
            predicted=steps.predicted[-1] - steps.predicted[first],
            right=steps.right[-1] - steps.right[first],
            per_second=steps.per_second(),
            restarts=self._restarts,
            board=BoardFacts(**self._board),
            tests=tuple(TestedAt(*pair) for pair in sorted(self._tests.items())),
            classes=self._classes(),
            curve=steps.curve(),
        )

    def _clear(self) -> None:
        self._steps = _Steps()
        self._tests: dict[int, dict[str, float]] = {}
        self._board: dict[str, Any] = {}
        self._names: tuple[str, ...] = ()
        self._course: Any = None
        self._state, self._doubt = "waiting", ""
        self._position = self._restarts = 0
        self._total: int | None = None
        self._loss_q16: int | None = None
        self._prediction: int | None = None

    def _connected(self, record: Record) -> None:
        """A run goes on from a position, or another one begins."""
        course = record.facts.get("course")
        if course != self._course:
            self._clear()
        self._course = course
        self._forget(record.position)
        self._state, self._position = "training", record.position
        self._total = record.int_of("total")
        for name in ("board", "model", "scheme"):
            self._board[name] = record.text_of(name)
        self._keep(
            **{
                name: record.int_of(name)
                for name in ("clock_hz", "sram_bytes", "stack_bytes", "remember")
            }
        )
        names = record.facts.get("class_names")
        if isinstance(names, (list, tuple)):
            self._names = tuple(printable(str(name)) for name in names)

    def _step(self, record: Record) -> None:
        loss_q16 = record.int_of("loss_q16")
        if loss_q16 is None or record.position == 0:
            return
        label, right = NO_CLASS, 0
        predicted = record.int_of("labelled")
        if predicted is not None:
            right = record.int_of("right") or 0
        elif (named := record.int_of("label")) is not None:
            label, predicted = named, 1
            right = int(record.facts.get("is_right") is True)
        self._steps.add(record, loss_q16, label, predicted or 0, right)
        self._doubt, self._position = "", record.position
        self._loss_q16, self._prediction = loss_q16, record.int_of("prediction")
        self._keep(step_cycles=record.int_of("cycles"), saturations=record.int_of("saturations"))

    def _statistics(self, record: Record) -> None:
        """What a board counted. Its last step is taken down if no record of its own told it."""
        position, loss_q16 = record.position, record.int_of("loss_q16")
        if position < self._position:
            self._forget(position)
        is_new = position > (self._steps.positions[-1] if self._steps.positions else 0)
        if is_new and loss_q16 is not None:
            self._steps.add(record, loss_q16, NO_CLASS, 0, 0)
        self._doubt, self._position = "", position
        if loss_q16 is not None:
            self._loss_q16, self._prediction = loss_q16, record.int_of("prediction")
        slots = record.facts.get("has_slots")
        self._keep(
            has_slots=slots if isinstance(slots, bool) else None,
            step_cycles=record.int_of("train_cycles"),
            saves=record.int_of("save_number"),
            **{name: record.int_of(name) for name in COUNTED},
        )

    def _tested(self, record: Record) -> None:
        known = {name: value for name, value in record.facts.items() if _measure(name) in MEASURES}
        self._tests[record.position] = {
            name: float(value) for name, value in known.items() if type(value) in (int, float)
        }

    def _ended(self, record: Record) -> None:
        self._state, self._position = record.event, record.position
        self._keep(
            stack_used_bytes=record.int_of("stack_used_bytes"),
            offered=record.int_of("samples_offered"),
            slots_erased=record.int_of("slots_erased"),
        )

    def _forget(self, after: int) -> None:
        """Forget what was learnt after a position: it is lost."""
        self._steps.forget(after)
        self._tests = {at: value for at, value in self._tests.items() if at <= after}
        self._position = after

    def _keep(self, **facts: bool | int | None) -> None:
        """Facts about the board that are known."""
        self._board |= {name: value for name, value in facts.items() if value is not None}

    def _classes(self) -> tuple[ClassCount, ...]:
        """Classes that were learnt, and those that have a name, in order."""
        labels = sorted({*self._steps.counts, *range(len(self._names))})
        return tuple(
            ClassCount(self._name(label), *self._steps.counts.get(label, (0, 0)))
            for label in labels
        )

    def _name(self, label: int) -> str:
        return self._names[label] if 0 <= label < len(self._names) else str(label)


COUNTED = (
    *("infer_cycles", "saturations", "stack_bytes", "stack_used_bytes", "remember", "offered"),
    *("slots_erased", "frames", "frames_refused", "repeated"),
)
"""Facts of a record `statistics` that are kept under their names."""


def statistics_facts(identity: Identity, counted: Statistics) -> dict[str, Any]:
    """Facts of a record `statistics`: what a board counted."""
    found = {name: value for name, value in vars(counted).items() if name != "position"}
    return {
        **found,
        "has_slots": identity.has_slots,
        "stack_bytes": identity.stack_bytes,
        "remember": identity.remember,
    }


def identity_facts(identity: Identity) -> dict[str, Any]:
    """Facts of a record `connected`, of a board that is only asked."""
    return {
        "board": identity.board,
        "model": identity.model,
        "scheme": identity.scheme,
        "model_hash": f"{identity.model_hash:016x}",
        "sram_bytes": identity.sram_bytes,
        "stack_bytes": identity.stack_bytes,
        "clock_hz": identity.clock_hz,
        "remember": identity.remember,
        "course": f"{identity.model_hash:016x}",
    }
