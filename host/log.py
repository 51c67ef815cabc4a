"""What a training run on a board did, as lines of JSON and, on request, as TensorBoard events.

Each line is an object with `event`, `time` (seconds since 1970) and `position` (samples learnt).
The file is appended to. Where a board restarted, the positions between its last save and the
restart come again; the later lines hold.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import LogError
from mcutrain_host.files import is_file, unwritable
from mcutrain_host.packages import OPTIONAL

LONGEST_LINE_BYTES = 65_536
CHANGES = {"step", "saved", "swapped", "selected", "restarted"}
"""Events behind which a board may hold something else than was brought to the file before."""
LINE_BEGIN = b'{"event": '


class Log(Protocol):
    """Takes down what happens."""

    def write(self, event: str, position: int, facts: Mapping[str, Any]) -> None:
        """An event. Raises LogError."""

    def close(self) -> None:
        """No more events. Raises LogError."""


class JsonLines:
    """A file with a line per event; a line is there as a whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("ab", buffering=0)
            self._end = self._after_last_line()
        except OSError as error:
            raise LogError(path, unwritable(path, error)) from error

    def write(self, event: str, position: int, facts: Mapping[str, Any]) -> None:
        """Append a line. Raises LogError, and the file ends with the line before."""
        line = {"event": event, "time": round(time.time(), 3), "position": position, **facts}
        text = json.dumps(line, ensure_ascii=False) + "\n"
        left = memoryview(text.encode(errors="backslashreplace"))  # \udcff of a path, as in JSON
        size = len(left)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), self._end)
            raise LogError(self.path, error.strerror or str(error)) from error
        self._end += size

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _after_last_line(self) -> int:
        """Cut off what a power cut may have left of a line. Returns where the next one begins.

        Whatever else the file ends with stays, as a line.
        """
        end = self._file.seek(0, os.SEEK_END)
        if not self.path.is_file() or end == 0:
            return end
        with self.path.open("rb") as earlier:
            earlier.seek(max(end - LONGEST_LINE_BYTES, 0))
            rest = earlier.read().rpartition(b"\n")[2]
        if not rest:
            return end
        if rest.startswith(LINE_BEGIN[: len(rest)]):
            os.ftruncate(self._file.fileno(), end - len(rest))
            return end - len(rest)
        return end + self._file.write(b"\n")


@dataclass(frozen=True)
class Kept:
    """What a board holds in its slots: the number of the save, and the SHA-256 of the state."""

    save: int
    sha256: str


def last_kept(path: Path) -> Kept | None:
    """What was brought to the file just after it was saved, if the log ends with that; None: it
    does not, or nothing is known."""
    if not is_file(path):
        return None
    try:
        with path.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - LONGEST_LINE_BYTES, 0))
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            facts = json.loads(line)
            event = facts["event"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # no line of ours
        if event in CHANGES:
            return None
        if event == "pulled":
            try:
                return Kept(int(facts["save"]), str(facts["sha256"]))
            except (ValueError, KeyError, TypeError):
                return None  # of a board without slots, or one that refused to save
    return None


def check_tensorboard(folder: Path) -> None:
    """Raise LogError if TensorBoard's files cannot be written, before there is anything to log."""
    if not OPTIONAL["tensorboardX"].is_installed:
        raise LogError(folder, OPTIONAL["tensorboardX"].missing)


class TensorBoard:
    """Event files for TensorBoard: loss, accuracy and cycles over positions.

    The records are written by tensorboardX, at once and in this thread: its SummaryWriter has a
    thread that dies on a full disk, and then blocks its caller.
    """

    def __init__(self, folder: Path) -> None:
        check_tensorboard(folder)
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2
        from tensorboardX.summary import scalar

        self.folder = folder
        self._event, self._scalar = event_pb2.Event, scalar
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = EventsWriter(str(folder / "events"))
        except OSError as error:
            raise LogError(folder, unwritable(folder, error)) from error

    def write(self, event: str, position: int, facts: Mapping[str, Any]) -> None:
        """The numbers of an event that make a curve. Raises LogError."""
        tags = CURVES.get(event, {})
        try:
            for fact, tag in tags.items():
                if facts.get(fact) is None:
                    continue  # a network without classes has no accuracy, another no AUC
                summary = self._scalar(tag, float(facts[fact]))
                self._writer.write_event(
                    self._event(wall_time=time.time(), step=position, summary=summary)
                )
            if tags and event != "step":
                self._writer.flush()
        except OSError as error:
            raise LogError(self.folder, error.strerror or str(error)) from error

    def close(self) -> None:
        """Write what is waiting. Raises LogError."""
        try:
            self._writer.close()
        except OSError as error:
            raise LogError(self.folder, error.strerror or str(error)) from error


CURVES = {
    "step": {
        "loss": "training/loss",
        "is_right": "training/accuracy",
        "cycles": "training/cycles",
        "rate": "training/rate",
    },
    "evaluated": {
        name: f"test/{name}" for name in ("accuracy", "loss", "auc", "f1", "iou", "mae", "r2")
    },
}
"""Which facts of which events become which curve."""


class Logs:
    """Several logs as one."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self.logs = logs

    def write(self, event: str, position: int, facts: Mapping[str, Any]) -> None:
        """To all of them. Raises LogError."""
        for log in self.logs:
            log.write(event, position, facts)

    def close(self) -> None:
        """Close all of them."""
        for log in self.logs:
            log.close()
