"""A board that listens is told what it heard, and the desk replays its lessons."""

from __future__ import annotations

import io
import json
import operator
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.client import RAW_BYTES, Device
from mcutrain_host.errors import HostError, ProjectError, RefusedError
from mcutrain_host.files import unwritable, write_whole
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import LearntReport, LessonPlan, Rate, Status
from mcutrain_host.pull import check_firmware

from mcutrain.arguments import PathLike, checked
from mcutrain.data import read_samples
from mcutrain.data.array_file import array_file
from mcutrain.errors import DataError, McutrainError, OptionError
from mcutrain.frontends import parse
from mcutrain.functions.board_line import connected
from mcutrain.functions.board_options import ClassOptions, LessonOptions, LineOptions
from mcutrain.functions.board_samples import added_classes
from mcutrain.functions.files import check_writable_folder
from mcutrain.functions.imprinting import numbers_of_class
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.shown import Record, Shown
from mcutrain.simulation import simulator_of_folder
from mcutrain.simulation.field import SEED, Decisions, Field, FieldLesson, FieldRing, LearnParams
from mcutrain.simulation.rates import LearningRate

LESSONS, SAMPLES = "lessons.jsonl", "samples.npz"
MOST_NUMBER = 1 << 30
"""No window, class or count of a lesson is larger."""
POLL_SECONDS = 0.05
MOST_HEARD = 60 * 16_000
"""Samples of a file that are played to a board: a minute of sound."""
MEANINGS = {
    Status.SAMPLE_INCOMPLETE: "it has not heard a whole window yet: let it hear one, then teach it",
    Status.NOT_KEPT: "there is no lesson to undo: the newest saved state is not that behind a "
    "lesson, or the one before it is gone",
    Status.FLASH: "its flash failed, or a slot has no room for so many samples beside those it "
    "remembers: give fewer (--samples), or generate it with a smaller --remember",
    Status.UNSUPPORTED: "it has no slots to keep states in, or its firmware imprints no classes: "
    "generate it with --imprint",
}


@dataclass(frozen=True, repr=False)
class Taught(Shown):
    """What a board was told.

    kind: lesson, class, undo or forget. name, label: the class, of the first two. samples: windows
    that were learnt. position: steps that the state has learnt from. save_number: of the state in
    the flash. told: classes that were recognized since the start. agrees: whether the desk's replay
    of all lessons has the board's state; None if it was not asked for.
    """

    kind: str
    name: str
    label: int | None
    samples: int
    position: int
    save_number: int
    told: int
    agrees: bool | None = None

    def summary(self) -> str:
        """Return a line that describes it."""
        what = {
            "lesson": f"{self.name}, output {self.label}, was learnt from a window",
            "class": f"{self.name}, output {self.label}, was learnt from {self.samples} windows",
            "undo": "the board is what it was before its last lesson",
            "forget": "the board is what it was when it was flashed",
        }[self.kind]
        return f"{what}; {self.position:,} steps, save {self.save_number}"

    def to_dict(self) -> Record:
        """As `mcutrain teach --json` prints it."""
        return {
            "kind": self.kind,
            "class": self.name or None,
            "label": self.label,
            "samples": self.samples,
            "position": self.position,
            "save_number": self.save_number,
            "detections": self.told,
            "agrees": self.agrees,
        }


@dataclass
class _Lessons:
    """A folder of lessons: LESSONS has a line for each, SAMPLES the windows, as the input has them.

    `simulate` reads SAMPLES.
    """

    folder: Path
    project: BoardProject
    lines: list[dict[str, Any]] = field(default_factory=list)
    x: list[bytes] = field(default_factory=list)
    y: list[int] = field(default_factory=list)

    @staticmethod
    def of(folder: Path, project: BoardProject) -> _Lessons:
        """Read what the folder has. Raises DataError for what is no such folder, or of others."""
        found = _Lessons(folder, project)
        if not (folder / LESSONS).exists():
            if (folder / SAMPLES).exists():
                raise DataError(f"{folder} has a {SAMPLES} of no lessons: give another folder")
            return found
        try:
            text = (folder / LESSONS).read_text(encoding="utf-8")
            found.lines = [json.loads(line) for line in text.splitlines()]
            most_bytes = (folder / SAMPLES).stat().st_size
            with array_file(folder / SAMPLES) as arrays:
                x, y = (arrays.array(key, most_bytes) for key in ("x", "y"))
            is_own = {line["model_hash"] for line in found.lines} <= {project.manifest.model_hash}
            if is_own:
                found.x, found.y = [row.tobytes() for row in x], y.tolist()
                found.check(x)
        except (OSError, ValueError, KeyError, TypeError, DataError) as error:
            raise DataError(
                f"{folder} holds no lessons that can be read: {error}; give another folder"
            ) from error
        if not is_own:
            raise DataError(
                f"{folder} holds lessons of another model or scheme: give another folder"
            )
        return found

    def check(self, x: npt.NDArray[Any]) -> None:
        """Raise ValueError, KeyError or TypeError for what is no lesson of this project."""
        shape = (len(self.y), *self.project.manifest.input.shape[1:])
        if x.dtype != np.int8 or x.shape != shape:
            raise ValueError(f"x is {x.dtype} of shape {x.shape}, not int8 of {shape}")
        for line in self.lines:
            if line["kind"] in ("undo", "forget"):
                continue
            windows, how = line["windows"], _how(line)
            is_one = line["kind"] == "lesson" and len(windows) == 1 and how.steps > 0
            is_class = line["kind"] == "class" and len(windows) > 0
            numbers = (line["label"], line["known"], how.steps, how.replay, *windows)
            is_whole = all(isinstance(n, int) and 0 <= n <= MOST_NUMBER for n in numbers)
            if not ((is_one or is_class) and is_whole and max(windows) < len(x)):
                raise ValueError(f"{json.dumps(line)[:60]} is no lesson")

    def add(self, kind: str, windows: Sequence[bytes] = (), label: int = 0, **facts: Any) -> None:
        """Add a lesson, and write the files. Raises McutrainError if they cannot be written."""
        first = len(self.x)
        self.x += windows
        self.y += [label] * len(windows)
        numbers = list(range(first, len(self.x)))
        line = {"kind": kind, "label": label, "windows": numbers, **facts}
        self.lines.append({**line, "model_hash": self.project.manifest.model_hash})
        arrays = io.BytesIO()
        found: dict[str, Any] = {"x": self.windows, "y": np.array(self.y, np.int64)}
        if names := _names(self.project):
            found["names"] = np.array(names)
        np.savez(arrays, **found)
        text = "".join(json.dumps(line) + "\n" for line in self.lines)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self.folder / SAMPLES, arrays.getvalue())
            write_whole(self.folder / LESSONS, text.encode())
        except OSError as error:
            raise McutrainError(
                f"cannot write {self.folder}: {unwritable(self.folder, error)}"
            ) from error

    @property
    def windows(self) -> npt.NDArray[np.int8]:
        """All windows (n, …), as the network's input has them."""
        shape = self.project.manifest.input.shape[1:]
        return np.frombuffer(b"".join(self.x), np.int8).reshape(len(self.x), *shape)


def _how(line: dict[str, Any]) -> FieldLesson:
    """How a line's windows were learnt. Raises TypeError, ValueError, KeyError."""
    rate = LearningRate(operator.index(line["mult_q31"]), operator.index(line["shift"]))
    return FieldLesson(rate, line["steps"], line["replay"])


def _names(project: BoardProject) -> tuple[str, ...]:
    """Names of all outputs, or none."""
    manifest = project.manifest
    names = (*manifest.class_names, *added_classes(project))
    return names if len(names) == manifest.classes else manifest.class_names


@with_keywords
@checked
def teach(
    project: PathLike,
    name: str = "",
    *,
    undo: bool = False,
    forget: bool = False,
    which: ClassOptions = ClassOptions(),
    how: LessonOptions = LessonOptions(),
    line: LineOptions = LineOptions(),
    hear: PathLike | None = None,
    record: PathLike | None = None,
    check: bool = False,
    listener: Listener = SILENT,
) -> Taught:
    """Tell a board that listens what it has just heard, or take it back.

    The loudest window of its history is a sample of the class `name`; with samples=N the next N
    windows that stand out are those of a class that it does not know yet.

    undo: go back to before the last lesson. forget: go back to what was flashed. hear: a WAV file
    that is played to the board over the line first; it has no microphone, or not now. record: a
    folder that windows and lessons are brought to: `simulate` reads its samples.npz. check: compare
    the board's state with the desk's replay of all lessons there.

    Fields of which, how and line are keywords, too. Raises BuildError with what the line, the
    project or the board say; DataError for a class, file or folder that does not fit;
    ArgumentError.

    >>> teach("project", "hello", samples=5, port="/dev/ttyACM0", record="lessons")
    """
    found = BoardProject.read(Path(project))
    kind = "undo" if undo else "forget" if forget else "class" if how.samples else "lesson"
    if undo + forget + bool(name) != 1:
        raise OptionError("name", "say one thing: a class, undo, or forget")
    if check and record is None:
        raise OptionError("check", "compares with lessons that were recorded: give record, too")
    label, known = numbers_of_class(found, name, which) if name else (0, 0)
    lessons = None if record is None else _Lessons.of(Path(record), found)
    if record is not None:
        check_writable_folder(Path(record))
    sound = None if hear is None else _sound(found, Path(hear))
    rate = LearningRate.of(how.learning_rate)
    plan = LessonPlan.of(how.steps, how.replay, Rate(rate.mult_q31, rate.shift))
    rates = {"mult_q31": rate.mult_q31, "shift": rate.shift}
    more = {"known": known, "steps": how.steps, "replay": how.replay, **rates} if name else {}
    with connected(found, line, listener) as device:
        _check_learns(found, device)
        try:
            windows = list(_told(device, kind, label, known, how, plan, sound))
        except RefusedError as error:
            meaning = MEANINGS.get(Status(error.status))
            raise (
                error if meaning is None else HostError(f"the board refused it: {meaning}")
            ) from error
        learnt, identity = device.learnt(), device.identify()
        state = device.read_state() if check else b""
    if lessons is not None:
        lessons.add(kind, windows, label, **more, position=identity.position)
    agrees = None if not check or lessons is None else _replayed(lessons) == state
    own = label if name else None
    numbers = (identity.position, identity.save_number, learnt.detections)
    return Taught(kind, name, own, len(windows), *numbers, agrees)


def _check_learns(project: BoardProject, device: Device) -> None:
    """Raise HostError for a board that learns no lessons, or other firmware."""
    check_firmware(device, project.firmware)
    if not device.identity.learns:
        raise ProjectError(
            f"the firmware of {project.folder} learns no lessons: generate it with --board B "
            "--listen --history N --app learn"
        )


def _sound(project: BoardProject, path: Path) -> bytes:
    """What is played to a board. Raises DataError."""
    order = project.manifest.sample_order
    front = parse(order.frontend, project.manifest.input.shape[1:]) if order is not None else None
    if front is None or front.takes_rows:
        raise DataError("a file that is played is a WAV file, but this model takes no sound")
    try:
        return read_samples(path, front.rate_hz, MOST_HEARD).astype("<i2").tobytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}; give a WAV file") from error
    except DataError as error:
        raise DataError(f"{path} {error}") from error


def _told(
    device: Device,
    kind: str,
    label: int,
    known: int,
    how: LessonOptions,
    plan: LessonPlan,
    sound: bytes | None,
) -> Iterator[bytes]:
    """The windows that were learnt, as they come."""
    if kind == "undo":
        device.undo()
    elif kind == "forget":
        device.forget()
    elif kind == "class":
        yield from _gathered(device, label, known, how, plan, sound)
    else:
        for _ in _played(device, sound):
            pass
        taught = device.teach(label, plan)
        yield _window(device, taught.frame)


def _window(device: Device, frame: int) -> bytes:
    """A window that was just learnt. Raises HostError if the board has it no more."""
    try:
        return device.read_window(frame)
    except RefusedError as error:
        raise HostError(
            "the board has learnt a window, but keeps its frames no more, so it was not brought "
            "here: generate with a longer --history, to record lessons"
        ) from error


def _played(device: Device, sound: bytes | None) -> Iterator[None]:
    """Play a sound in pieces, with a look behind each."""
    if sound is not None:
        sample_bytes = RAW_BYTES * device.identity.sample_numbers
        piece_bytes = (device.identity.max_body - 4) // sample_bytes * sample_bytes
        for begin in range(0, len(sound), piece_bytes):
            device.hear(sound[begin : begin + piece_bytes], begin)
            yield


def _gathered(
    device: Device,
    label: int,
    known: int,
    how: LessonOptions,
    plan: LessonPlan,
    sound: bytes | None,
) -> Iterator[bytes]:
    """The windows of a class, as they come."""
    before = device.learnt()
    device.teach_class(label, known, how.samples, plan)
    try:
        yield from _awaited(device, how, before, sound)
    except (HostError, KeyboardInterrupt):
        with suppress(HostError):
            device.restore()  # or it would take what it hears next for the class
        raise


def _awaited(
    device: Device, how: LessonOptions, before: LearntReport, sound: bytes | None
) -> Iterator[bytes]:
    """The windows that a board awaits. Raises HostError if they do not come."""
    played, end = _played(device, sound), time.monotonic() + how.wait
    seen = before.collected
    while True:
        is_over = next(played, played) is played
        learnt = device.learnt()
        if learnt.failed != before.failed:
            raise HostError("the board's flash did not take a window: nothing is awaited any more")
        if learnt.collected - seen > 1:
            way = "teach the class again" if learnt.left else "undo"
            raise HostError(
                f"two windows came at once, and one was not brought here: {way}, and say the "
                "samples more slowly"
            )
        if learnt.collected != seen:
            seen = learnt.collected
            yield _window(device, learnt.frame)
        if learnt.left == 0:
            return
        if is_over and (sound is not None or time.monotonic() > end):
            count = how.samples - learnt.left
            raise HostError(
                f"the board heard {count} of {how.samples} samples, and waits no longer: teach "
                "the class again, which begins anew"
            )
        if is_over:
            time.sleep(POLL_SECONDS)


@checked
def taught_state(project: PathLike, record: PathLike) -> bytes:
    """Return the state that a project's board has after the lessons of a folder, as on the desk.

    It begins with what was flashed. Raises DataError for what is no folder of lessons; BuildError.

    >>> taught_state("project", "lessons") == pull("project", port="/dev/ttyACM0").saved
    """
    found = BoardProject.read(Path(project))
    return _replayed(_Lessons.of(Path(record), found))


def _replayed(lessons: _Lessons) -> bytes:
    project = lessons.project
    simulator = simulator_of_folder(project.folder, project.manifest, SEED)
    decisions = Decisions(project.manifest.classes, LearnParams(1))
    ring = FieldRing(project.board.memory.remember)
    desk, x = Field(simulator, decisions, ring, simulator.imprint), lessons.windows
    for line in lessons.lines:
        if line["kind"] == "undo":
            desk.undo()
            continue
        if line["kind"] == "forget":
            desk.forget()
            continue
        how = _how(line)
        if line["kind"] == "lesson":
            desk.lesson(x[line["windows"][0]], line["label"], how)
            continue
        desk.gather(line["label"], line["known"], len(line["windows"]), how)
        for number in line["windows"]:
            desk.stands_out(x[number])
    return simulator.save()
