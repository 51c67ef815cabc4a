"""A board that listens is told what it heard, and the desk replays its lessons."""

from __future__ import annotations

import io
import json
import operator
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.client import Device
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError, ProjectError, RefusedError
from mcutrain_host.files import unwritable, write_whole
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import LearntReport, LessonPlan, Rate, Status
from mcutrain_host.pull import check_firmware

from mcutrain.arguments import PathLike, checked
from mcutrain.data.array_file import array_file
from mcutrain.errors import DataError, McutrainError, OptionError
from mcutrain.functions.board_line import connected
from mcutrain.functions.board_options import ClassOptions, LessonOptions, LineOptions
from mcutrain.functions.board_samples import added_classes
from mcutrain.functions.button_lessons import by_button
from mcutrain.functions.files import check_writable_folder
from mcutrain.functions.heard import NO_RAW, HeardLesson
from mcutrain.functions.imprinting import numbers_of_class
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.raw_samples import Raw, played, raw_file, read_raw
from mcutrain.shown import Record, Shown
from mcutrain.simulation import simulator_of_folder
from mcutrain.simulation.field import SEED, Decisions, Field, FieldLesson, FieldRing, LearnParams
from mcutrain.simulation.rates import LearningRate

LESSONS, SAMPLES = "lessons.jsonl", "samples.npz"
STREAMS, RAW = "streams", "raw"
MOST_NUMBER = 1 << 30
"""No window, class or count of a lesson is larger."""
POLL_SECONDS = 0.05
MEANINGS = {
    Status.SAMPLE_INCOMPLETE: "it has not heard a whole window yet: let it hear one, then teach it",
    Status.NOT_KEPT: "there is no lesson to undo: the newest saved state is not that of a lesson, "
    "or the one before it is gone",
    Status.FLASH: "its flash failed, or a slot has no room for so many samples: give fewer "
    "(--samples), or generate it with a smaller --remember",
    Status.UNSUPPORTED: "it has no slots to keep states in, or its firmware imprints no classes: "
    "generate it with --imprint",
}


@dataclass(frozen=True, repr=False)
class Taught(Shown):
    """What a board was told.

    kind: lesson, class, undo, forget or forget class. name, label: the class, if one was named.
    samples: windows that were learnt. position: steps that the state has learnt from. save_number:
    of the state in the flash. told: classes that were recognized since the start. agrees: whether
    the desk's replay of all lessons has the board's state; None if it was not asked for.
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
            "forget class": f"{self.name}, output {self.label}, is what it was when it was flashed",
        }[self.kind]
        return f"{what}; {self.position:,} steps, save {self.save_number}"

    def to_dict(self) -> Record:
        """Return it as `mcutrain teach --json` prints it."""
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

    `simulate` reads SAMPLES. Where raw samples are known, STREAMS has what was heard in a lesson,
    and RAW a file of each window in a folder of its class, which `simulate` reads, too.
    """

    folder: Path
    project: BoardProject
    lines: list[dict[str, Any]] = field(default_factory=list)
    x: list[bytes] = field(default_factory=list)
    y: list[int] = field(default_factory=list)

    @staticmethod
    def of(folder: Path, project: BoardProject) -> _Lessons:
        """Read what the folder has. Raises DataError for what is no such folder, or of others."""
        lessons = _Lessons(folder, project)
        if not (folder / LESSONS).exists():
            if (folder / SAMPLES).exists():
                raise DataError(f"{folder} has a {SAMPLES} of no lessons: give another folder")
            return lessons
        try:
            text = (folder / LESSONS).read_text(encoding="utf-8")
            lessons.lines = [json.loads(line) for line in text.splitlines()]
            most_bytes = (folder / SAMPLES).stat().st_size
            with array_file(folder / SAMPLES) as arrays:
                x, y = (arrays.array(key, most_bytes) for key in ("x", "y"))
            is_own = {line["model_hash"] for line in lessons.lines} <= {project.manifest.model_hash}
            if is_own:
                lessons.x, lessons.y = [row.tobytes() for row in x], y.tolist()
                lessons.check(x)
        except (OSError, ValueError, KeyError, TypeError, DataError) as error:
            raise DataError(
                f"{folder} holds no lessons that can be read: {error}; give another folder"
            ) from error
        if not is_own:
            raise DataError(
                f"{folder} holds lessons of another model or scheme: give another folder"
            )
        return lessons

    def check(self, x: npt.NDArray[Any]) -> None:
        """Raise ValueError, KeyError or TypeError for what is no lesson of this project."""
        shape = (len(self.y), *self.project.manifest.input.shape[1:])
        if x.dtype != np.int8 or x.shape != shape:
            raise ValueError(f"x is {x.dtype} of shape {x.shape}, not int8 of {shape}")
        for line in self.lines:
            if line["kind"] in ("undo", "forget"):
                continue
            if line["kind"] == "forget class":
                if not 0 <= operator.index(line["label"]) < self.project.manifest.classes:
                    raise ValueError(f"{json.dumps(line)[:60]} forgets no class")
                continue
            windows, how = line["windows"], _how(line)
            is_one = line["kind"] == "lesson" and len(windows) == 1 and how.steps > 0
            is_class = line["kind"] == "class" and len(windows) > 0
            numbers = (line["label"], line["known"], how.steps, how.replay, *windows)
            if "stream" in line:
                self._check_stream(line)
                numbers = (*numbers, *line["ends"])
            is_whole = all(isinstance(n, int) and 0 <= n <= MOST_NUMBER for n in numbers)
            if not ((is_one or is_class) and is_whole and max(windows) < len(x)):
                raise ValueError(f"{json.dumps(line)[:60]} is no lesson")

    def _check_stream(self, line: dict[str, Any]) -> None:
        """Raise ValueError or TypeError for what names no stream of this folder."""
        place = PurePosixPath(line["stream"])
        if place.parts != (STREAMS, place.name) or len(line["ends"]) != len(line["windows"]):
            raise ValueError(f"{json.dumps(line)[:60]} is no lesson")

    def add(self, kind: str, heard: HeardLesson, name: str, label: int, **facts: Any) -> None:
        """Add a lesson, and write the files. Raises McutrainError if they cannot be written."""
        first = len(self.x)
        self.x += heard.windows
        self.y += [label] * len(heard.windows)
        numbers = list(range(first, len(self.x)))
        line: dict[str, Any] = {"kind": kind, "label": label, "windows": numbers, **facts}
        files: dict[str, bytes] = {}
        if heard.front is not None and heard.raw is not None and heard.is_whole:
            suffix = heard.front.RAW.suffix
            line |= {"stream": f"{STREAMS}/{len(self.lines):04}{suffix}", "ends": heard.ends}
            files[line["stream"]] = raw_file(heard.front, heard.raw)
            for number, clip in zip(numbers, heard.clips, strict=True):
                place = f"{RAW}/{_folder_of(name)}/{number:04}{suffix}"
                files[place] = raw_file(heard.front, clip)
        self.lines.append({**line, "model_hash": self.project.manifest.model_hash})
        arrays = io.BytesIO()
        found: dict[str, Any] = {"x": self.windows, "y": np.array(self.y, np.int64)}
        if names := _names(self.project):
            found["names"] = np.array(names)
        np.savez(arrays, **found)
        text = "".join(json.dumps(line) + "\n" for line in self.lines)
        try:
            for path, content in files.items():
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                write_whole(self.folder / path, content)
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self.folder / SAMPLES, arrays.getvalue())
            write_whole(self.folder / LESSONS, text.encode())
        except OSError as error:
            raise McutrainError(
                f"cannot write {self.folder}: {unwritable(self.folder, error)}"
            ) from error

    def windows_of(self, line: dict[str, Any]) -> npt.NDArray[np.int8]:
        """The windows of a lesson, of its raw samples where they were recorded.

        Raises DataError where these give other windows than the board learnt.
        """
        found: npt.NDArray[np.int8] = self.windows[line["windows"]]
        heard = HeardLesson.of(self.project)
        if "stream" in line:
            path = self.folder / line["stream"]
            heard.raw = read_raw(heard.front, path, most=heard.samples_of(max(line["ends"])))
            if heard.windows_of(line["ends"]) != [window.tobytes() for window in found]:
                raise DataError(
                    f"the windows of {path} are not those that the board learnt: the file was "
                    "changed"
                )
        return found

    @property
    def windows(self) -> npt.NDArray[np.int8]:
        """All windows (n, …), as the network's input has them."""
        shape = self.project.manifest.input.shape[1:]
        return np.frombuffer(b"".join(self.x), np.int8).reshape(len(self.x), *shape)


def _folder_of(name: str) -> str:
    """The folder of a class, whose name may have what a file's cannot."""
    return re.sub(r"[/\\]|^\.", "-", name)


def _how(line: dict[str, Any]) -> FieldLesson:
    """Return how a line's windows were learnt. Raises TypeError, ValueError, KeyError."""
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
    button: bool = False,
    which: ClassOptions = ClassOptions(),
    how: LessonOptions = LessonOptions(),
    line: LineOptions = LineOptions(),
    hear: PathLike | None = None,
    record: PathLike | None = None,
    check: bool = False,
    listener: Listener = SILENT,
) -> Taught:
    """Tell a board that listens what it has just heard, or take it back.

    The loudest window of the board's history (of a camera the last image) becomes a sample of the
    class `name`. With samples=N the next N windows that stand out become samples of a new class.

    undo: go back to before the last lesson.
    forget: go back to what was flashed; with a name, forget only that class.
    button: tell nothing; wait for what the board's button teaches or takes back, and record that.
    hear: a WAV file, rows in a CSV file, an image or a folder of images. It is played to the board
        over the line first, for a board without a sensor at hand.
    record: a folder for windows and lessons. `simulate` reads its samples.npz, and its folder raw
        of raw samples. Raw samples are known with `hear`, or from a board of `generate
        --keep-samples`.
    check: compare the board's state with the desk's replay of all lessons there, from raw samples
        where there are some.

    Fields of which, how and line are keywords, too. Raises BuildError with what the line, the
    project or the board say; DataError for a class, file or folder that does not fit;
    ArgumentError.

    >>> teach("project", "hello", samples=5, port="/dev/ttyACM0", record="lessons")
    """
    board_project = BoardProject.read(Path(project))
    kind = _kind(name, undo=undo, forget=forget, button=button, is_new=how.samples > 0)
    is_taught = kind in ("lesson", "class")
    if hear is not None and not is_taught:
        raise OptionError(
            "hear",
            "plays a sample of a class that is taught: name the class, and leave out --forget",
        )
    if button and record is None:
        raise OptionError("button", "needs a folder for what the button teaches: give record, too")
    if check and record is None:
        raise OptionError("check", "compares with recorded lessons: give record, too")
    label, known = numbers_of_class(board_project, name, which) if name else (0, 0)
    lessons = None if record is None else _Lessons.of(Path(record), board_project)
    if record is not None:
        check_writable_folder(Path(record))
    heard = HeardLesson.of(board_project)
    sound = None if hear is None else played(heard.front, Path(hear), listener.note)
    rate = LearningRate.of(how.learning_rate)
    plan = LessonPlan.of(how.steps, how.replay, Rate(rate.mult_q31, rate.shift))
    rates = {"mult_q31": rate.mult_q31, "shift": rate.shift}
    more = {"known": known, "steps": how.steps, "replay": how.replay, **rates} if is_taught else {}
    with connected(board_project, line, listener) as device:
        _check_learns(board_project, device)
        try:
            if button:
                kind, label, more = by_button(device, how.wait, heard)
                name = _name_of(board_project, label) if heard.windows else ""
            else:
                _tell(device, kind, label, known, how, plan, sound, heard)
        except RefusedError as error:
            meaning = MEANINGS.get(Status(error.status))
            raise (
                error if meaning is None else HostError(f"the board refused it: {meaning}")
            ) from error
        learnt, identity = device.learnt(), device.identify()
        state = device.read_state() if check else b""
    if lessons is not None:
        if heard.raw is not None and not heard.is_whole:
            listener.note(NO_RAW)
        lessons.add(kind, heard, name, label, **more, position=identity.position)
    agrees = None if not check or lessons is None else _replayed(lessons) == state
    own = label if name else None
    numbers = (identity.position, identity.save_number, learnt.detections)
    return Taught(kind, name, own, len(heard.windows), *numbers, agrees)


def _name_of(project: BoardProject, label: int) -> str:
    names = _names(project)
    return names[label] if label < len(names) else f"output-{label}"


def _kind(name: str, *, undo: bool, forget: bool, button: bool, is_new: bool) -> str:
    """Return what the board is told. Raises OptionError."""
    if undo + button + (forget or bool(name)) != 1:
        raise OptionError("name", "stands alone: give it or one of --undo, --forget and --button")
    if (forget or button) and is_new:
        what = "is chosen by the firmware" if button else "is forgotten"
        raise OptionError("samples", f"are for a class that is taught, but this one {what}")
    if button:
        return "button"
    if undo:
        return "undo"
    if forget:
        return "forget class" if name else "forget"
    return "class" if is_new else "lesson"


def _check_learns(project: BoardProject, device: Device) -> None:
    """Raise HostError for a board that learns no lessons, or other firmware."""
    check_firmware(device, project.firmware)
    if not device.identity.learns:
        raise ProjectError(
            f"the firmware of {project.folder} learns no lessons: generate it with --board B "
            "--listen --history N --app learn"
        )


def _tell(
    device: Device,
    kind: str,
    label: int,
    known: int,
    how: LessonOptions,
    plan: LessonPlan,
    sound: Raw | None,
    heard: HeardLesson,
) -> None:
    """Tell the board, and take what it has learnt. What it awaited is given up: nobody has it."""
    if device.learnt().left:
        device.restore()
    if kind == "undo":
        device.undo()
    elif kind == "forget":
        device.forget()
    elif kind == "forget class":
        device.forget_class(label)
    elif kind == "class":
        _gather(device, label, known, how, plan, sound, heard)
    else:
        for _ in heard.played(device, sound):
            pass
        heard.take(device, device.teach(label, plan).frame)
        if sound is None:
            heard.look_back(device)


def _gather(
    device: Device,
    label: int,
    known: int,
    how: LessonOptions,
    plan: LessonPlan,
    sound: Raw | None,
    heard: HeardLesson,
) -> None:
    """Have the board learn a class, and take its windows as they come."""
    source = heard.followed(device) if sound is None else heard.played(device, sound)
    if sound is None:
        next(source, None)
    before = device.learnt()
    device.teach_class(label, known, how.samples, plan)
    try:
        _await(device, how, before, source, sound is not None, heard)
    except (HostError, KeyboardInterrupt):
        with suppress(HostError):
            device.restore()  # or it would take what it hears next for the class
        raise


def _await(
    device: Device,
    how: LessonOptions,
    before: LearntReport,
    source: Iterator[None],
    is_played: bool,
    heard: HeardLesson,
) -> None:
    """Take the windows that a board awaits. Raises HostError if they do not come.

    source: of what it hears, a piece for each look; played to it, or brought from it.
    """
    end = time.monotonic() + how.wait
    seen = before.collected
    while True:
        is_over = next(source, source) is source
        learnt = device.learnt()
        if learnt.failed != before.failed:
            raise HostError(
                "the board could not write a window to its flash, and has stopped waiting for more"
            )
        if learnt.collected - seen > 1:
            way = "teach the class again" if learnt.left else "undo"
            raise HostError(
                f"two windows came at once, and one is lost: {way}, and say the samples more slowly"
            )
        if learnt.collected != seen:
            seen = learnt.collected
            heard.take(device, learnt.frame)
        if learnt.left == 0:
            if not is_played:
                next(source, None)
            return
        if (is_over and is_played) or (not is_played and time.monotonic() > end):
            count = how.samples - learnt.left
            raise HostError(
                f"the board heard {count} of {how.samples} samples and has stopped waiting: "
                "teach the class again, from the first sample"
            )
        if not is_played:
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
    desk = Field(simulator, decisions, ring, simulator.imprint)
    for line in lessons.lines:
        if line["kind"] == "undo":
            desk.undo()
            continue
        if line["kind"] == "forget":
            desk.forget()
            continue
        if line["kind"] == "forget class":
            desk.forget_class(line["label"])
            continue
        how, x = _how(line), lessons.windows_of(line)
        if line["kind"] == "lesson":
            desk.lesson(x[0], line["label"], how)
            continue
        desk.gather(line["label"], line["known"], len(line["windows"]), how)
        for window in x:
            desk.stands_out(window)
    return simulator.save()
