"""A board as Python sees it: requests that get their answer over a line that may lose bytes.

One request is under way at a time. It is sent again, byte for byte, when no answer comes in time,
or when the board says that it got no frame. The board carries it out once (docs/protocol.md).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

from mcutrain_host import frames, protocol
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import (
    DeviceRestartedError,
    HostError,
    NoAnswerError,
    NoResultError,
    RefusedError,
    StateFileError,
    WrongVersionError,
)
from mcutrain_host.link import Link
from mcutrain_host.protocol import (
    OFFSET_BYTES,
    Collected,
    Command,
    Evaluation,
    Frame,
    Heard,
    Identity,
    Inference,
    KeptSamples,
    LearntReport,
    LessonPlan,
    Rate,
    Replayed,
    Reset,
    RingStatistics,
    RowWritten,
    Saved,
    Selecting,
    Statistics,
    Status,
    Step,
    TaughtReport,
    Teaching,
    WindowTaken,
)

R = TypeVar("R")
GARBLED_ATTEMPTS = 50
"""How often a request is sent again because a frame arrived damaged, here or there."""
WORKING_ANSWERS = 50
"""So often may a board say that it works on a request. It says so once; a line may double it."""
SLOWER = 4.0
"""A board at work is asked again after its longest time for that command so far, times this."""
LATE_BYTES = 16384
"""What is read, when the time is over, of what a link has; one that never falls silent has more."""
RAW_BYTES = 2
"""Of a number of a raw sample."""
STREAM_ANEW = 0xFFFFFFFF
"""In the place of a raw sample's number: a new stream begins."""
Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""


@dataclass(frozen=True)
class Patience:
    """How long to wait. The longest answer takes 50 ms on the way at 115200 baud.

    answer: until a request is sent again. attempts: how often it is sent in all. work: until a
    command that computes or writes flash is given up.
    """

    answer_seconds: float = 1.0
    attempts: int = 5
    work_seconds: float = 120.0


class Device:
    """A board with mcutrain's firmware. `identify` begins a session; the first request does too.

    Every method raises LinkError (see errors.py) if the talk breaks off, RefusedError if the board
    says no, and WrongVersionError if it speaks another version.
    """

    def __init__(
        self,
        link: Link,
        patience: Patience | None = None,
        *,
        sessions: Iterator[int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.link = link
        self.patience = patience or Patience()
        self._sessions = sessions or _random_sessions()
        self._clock = clock
        self._reader = frames.FrameReader()
        self._arrived: list[bytes | frames.BadFrame] = []
        self._session = self._sequence = 0
        self._identity: Identity | None = None
        self._longest: dict[Command, float] = {}
        self.resent = 0

    @property
    def identity(self) -> Identity:
        """What the last `identify` said."""
        if self._identity is None:
            return self.identify()
        return self._identity

    def identify(self) -> Identity:
        """Begin a session, and ask what the board is and holds."""
        try:
            return self._begin()
        except DeviceRestartedError:  # the number is that of the session before
            return self._begin()

    def reopen(self) -> Identity:
        """Take the port again and begin a session, after the line broke off."""
        self.link.close()
        self.link.open()
        self._reader.clear()
        self._arrived.clear()
        return self.identify()

    def send_sample(self, sample: bytes) -> None:
        """Bring a sample to where the network reads it."""
        size = self.identity.input_bytes
        if len(sample) != size:
            raise ValueError(f"a sample has {size} bytes, not {len(sample)}")
        self._send(Command.SAMPLE, sample, None)

    def send_latent(self, latent: bytes) -> None:
        """Send what the frozen front makes of a sample."""
        size = self.identity.latent_bytes
        if len(latent) != size:
            raise ValueError(f"a latent has {size} bytes, not {len(latent)}")
        self._send(Command.LATENT, latent, None)

    def send_labels(self, labels: bytes) -> None:
        """Those of the sample's positions: after the sample, before `train` with the label 0."""
        size = self.identity.label_bytes
        if len(labels) != size:
            raise ValueError(f"a sample has {size} labels, not {len(labels)}")
        self._send(Command.LABELS, labels, None)

    def hear(self, raw: bytes, offset: int) -> Heard:
        """Send raw samples of a stream, int16, little-endian. offset: its bytes so far; 0 begins.

        raw: whole samples, any number of them. Returns what the board said of the last piece.
        Raises ValueError for parts of samples, and of firmware that takes none.
        """
        sample_bytes = RAW_BYTES * self.identity.sample_numbers
        if not sample_bytes:
            raise ValueError("the board's firmware takes no raw samples")
        if not raw or len(raw) % sample_bytes or offset % sample_bytes:
            raise ValueError(f"raw samples have {sample_bytes} bytes each, not {len(raw)} in all")
        room = self.identity.max_body - OFFSET_BYTES
        piece_bytes = room - room % sample_bytes
        for begin in range(0, len(raw), piece_bytes):
            piece, at = raw[begin : begin + piece_bytes], offset + begin
            body = at.to_bytes(4, "little") + piece
            heard = self._ask(Command.HEAR, body, Heard.parse)
            self._check(Command.HEAR, "received", heard.received, at + len(piece))
        return heard

    def take_window(self, ago: int | None = None) -> WindowTaken:
        """Make the last window that was heard the sample, as `send_sample` does.

        ago: of firmware with a history, the window that ended so many frames ago, or HEARD_WINDOW,
        or LOUDEST_WINDOW. Raises RefusedError while there is none.
        """
        body = b"" if ago is None else ago.to_bytes(4, "little")
        return self._ask(Command.WINDOW, body, WindowTaken.parse)

    def send_raw(self, window: bytes) -> None:
        """Bring a window of raw samples to the board as a new stream, and make it the sample."""
        size = RAW_BYTES * self.identity.sample_numbers * self.identity.window_samples
        if len(window) != size:
            raise ValueError(f"a window has {size} bytes of raw samples, not {len(window)}")
        self.hear(window, 0)
        self.take_window()

    def teach(
        self, label: int, how: LessonPlan, ago: int = protocol.LOUDEST_WINDOW
    ) -> TaughtReport:
        """Have a window learnt that was heard: by default the loudest one. ago: as `take_window`.

        Raises RefusedError while there is none.
        """
        return self._teach(Teaching.LESSON, label, ago, 0, how)

    def teach_class(self, label: int, known: int, samples: int, how: LessonPlan) -> TaughtReport:
        """Have the next windows that stand out be samples of a class beside 0 … known - 1.

        The last one gives it its weights, and is learnt. Raises RefusedError for no class.
        """
        return self._teach(Teaching.CLASS, label, known, samples, how)

    def undo(self) -> TaughtReport:
        """Go back to before the last lesson. Raises RefusedError if nothing is kept of that."""
        return self._teach(Teaching.UNDO)

    def forget(self) -> TaughtReport:
        """Go back to the weights that the model came with, also in the flash."""
        return self._teach(Teaching.FORGET)

    def forget_class(self, label: int) -> TaughtReport:
        """Give a class the row that it came with, and remember no samples of it."""
        return self._teach(Teaching.FORGET_CLASS, label)

    def learnt(self) -> LearntReport:
        """Return what was heard, told and learnt since the start."""
        return self._ask(Command.LEARNT, b"", LearntReport.parse)

    def read_window(self, frame: int) -> bytes:
        """Read the network's input of a window that ended with the frame of this count.

        Raises RefusedError if it is gone.
        """
        size, window = self.identity.input_bytes, b""
        while len(window) < size:
            count = min(size - len(window), self.identity.max_body)
            body = frame.to_bytes(4, "little") + len(window).to_bytes(4, "little")
            piece = self._ask(Command.READ_WINDOW, body + count.to_bytes(2, "little"), bytes)
            self._check(Command.READ_WINDOW, "bytes", len(piece), count)
            window += piece
        return window

    def begin_stream(self) -> KeptSamples:
        """Have the board forget what it heard. Raises RefusedError if it keeps no raw samples."""
        return self._samples(STREAM_ANEW, 0)

    def read_samples(self, first: int, most: int = 0xFFFF) -> KeptSamples:
        """Read raw samples of the stream from number `first` on: some, or none if none are new.

        Raises RefusedError if they are gone.
        """
        return self._samples(first, most)

    def _samples(self, first: int, count: int) -> KeptSamples:
        body = first.to_bytes(4, "little") + count.to_bytes(2, "little")
        found = self._ask(Command.READ_SAMPLES, body, KeptSamples.parse)
        size = RAW_BYTES * max(self.identity.sample_numbers, 1)
        self._check(Command.READ_SAMPLES, "bytes", len(found.raw) % size, 0)
        return found

    def infer(self) -> Inference:
        """Run the network on the sample."""
        return self._ask(Command.INFER, b"", Inference.parse)

    def train(self, label: int | bytes, position: int, rate: Rate | None = None) -> Step:
        """One step of training on the sample. rate: None uses that of `set_rate`.

        label: of the sample; bytes: of its positions, which are sent first.
        """
        if isinstance(label, bytes):
            self.send_labels(label)
            label = 0
        body = label.to_bytes(4, "little", signed=True) + position.to_bytes(4, "little")
        step = self._ask(Command.TRAIN, body + (rate.pack() if rate else b""), Step.parse)
        self._check(Command.TRAIN, "position", step.position, position + 1)
        return step

    def replay(self, position: int, rate: Rate | None = None) -> Replayed:
        """One step of training on a sample that the board remembers."""
        body = position.to_bytes(4, "little")
        step = self._ask(Command.REPLAY, body + (rate.pack() if rate else b""), Replayed.parse)
        self._check(Command.REPLAY, "position", step.position, position + 1)
        return step

    def select(self, selecting: Selecting) -> Saved:
        """Return what is due at the board's position, for its choice of what to train."""
        return self._ask(Command.SELECT, selecting.pack(), Saved.parse)

    def resample(self, every: int) -> Saved:
        """Train other columns from the board's position on, a multiple of so many steps."""
        return self._ask(Command.RESAMPLE, every.to_bytes(4, "little"), Saved.parse)

    def evaluate(self, label: int, index: int) -> Evaluation:
        """Run the network on the sample and count whether it is right. index: 0 begins anew."""
        body = label.to_bytes(4, "little", signed=True) + index.to_bytes(4, "little")
        found = self._ask(Command.EVALUATE, body, Evaluation.parse)
        self._check(Command.EVALUATE, "evaluated", found.evaluated, index + 1)
        self._check(Command.EVALUATE, "correct", found.correct, min(found.correct, index + 1))
        return found

    def collect(self, index: int) -> Collected:
        """Take the sample as one of a class's. index: of these, from 0, which begins anew."""
        found = self._ask(Command.COLLECT, index.to_bytes(4, "little"), Collected.parse)
        self._check(Command.COLLECT, "samples", found.samples, index + 1)
        return found

    def imprint(self, label: int, known: int) -> RowWritten:
        """Give a class its weights from what was collected. known: classes that have theirs."""
        body = label.to_bytes(4, "little") + known.to_bytes(4, "little")
        return self._ask(Command.IMPRINT, body, RowWritten.parse)

    def set_rate(self, rate: Rate) -> None:
        """The learning rate of steps that name none."""
        self._ask(Command.SET_RATE, rate.pack(), _nothing)

    def statistics(self) -> Statistics:
        """Return what the board counted."""
        kind = RingStatistics if self.identity.remember else Statistics
        return self._ask(Command.STATISTICS, b"", kind.parse)

    def read_output(self) -> bytes:
        """The scores of the last `infer` or `evaluate`."""
        return self._receive(Command.READ_OUTPUT, self.identity.output_bytes, None)

    def read_state(self, progress: Progress | None = None) -> bytes:
        """The trained state in its saved form."""
        return self._receive(Command.READ_STATE, self.identity.saved_bytes, progress)

    def read_times(self, nodes: int) -> tuple[int, ...]:
        """Read the fewest cycles that each node took in a step; 2^32 - 1 if it did not run."""
        raw = self._receive(Command.TIMES, 4 * nodes, None)
        return tuple(int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4))

    def forget_times(self) -> None:
        """Those so far."""
        self._ask(Command.TIMES, b"", _nothing)

    def write_state(self, saved: bytes, progress: Progress | None = None) -> None:
        """Replace the trained state. Raises StateFileError if it has another size."""
        size = self.identity.saved_bytes
        if len(saved) != size:
            raise StateFileError(
                f"the saved state has {len(saved):,} bytes, that of the board's firmware {size:,}"
            )
        self._send(Command.WRITE_STATE, saved, progress)

    def save(self) -> Saved:
        """Write the trained state into the board's flash."""
        return self._ask(Command.SAVE, b"", Saved.parse)

    def restore(self) -> Saved:
        """Take the trained state from the board's flash."""
        return self._ask(Command.RESTORE, b"", Saved.parse)

    def reset(self, seed: int) -> int:
        """The weights that the model came with. Returns the position, which is then 0."""
        position = self._reset(Reset.WEIGHTS, seed)
        self._check(Command.RESET, "position", position, 0)
        return position

    def restart(self) -> None:
        """Restart the board; it knows no session then."""
        with suppress(DeviceRestartedError):  # its answer got lost, and it was asked again
            self._reset(Reset.RESTART, 0)

    def bootloader(self) -> None:
        """Restart into the chip's own bootloader. Raises RefusedError if there is none."""
        with suppress(DeviceRestartedError, NoAnswerError):  # its answer got lost
            self._reset(Reset.BOOTLOADER, 0)

    def close(self) -> None:
        """Give the port free."""
        self.link.close()

    def _begin(self) -> Identity:
        self._session = next(self._sessions)
        self._sequence = 0
        self._identity = self._ask(Command.IDENTIFY, b"", Identity.parse)
        return self._identity

    def _reset(self, kind: Reset, seed: int) -> int:
        return self._ask(Command.RESET, bytes([kind]) + seed.to_bytes(4, "little"), _u32)

    def _teach(
        self,
        kind: Teaching,
        label: int = 0,
        second: int = 0,
        samples: int = 0,
        how: LessonPlan = LessonPlan(0, 0, 0, 0),
    ) -> TaughtReport:
        """second: frames ago, or classes that are known."""
        numbers = (part.to_bytes(4, "little") for part in (label, second, samples))
        return self._ask(
            Command.TEACH, bytes([kind, *b"".join(numbers)]) + how.pack(), TaughtReport.parse
        )

    def _check(self, command: Command, field: str, said: int, expected: int) -> None:
        """Raise HostError if a board says of its work what cannot be."""
        if said != expected:
            raise HostError(
                f"the board at {self.link.name} answered {command.name} with a wrong number: "
                f"{field} {said:,} in the place of {expected:,}"
            )

    def _send(self, command: Command, data: bytes, progress: Progress | None) -> None:
        """In pieces, in order; the board says each time how much it has."""
        piece_bytes = self.identity.max_body - OFFSET_BYTES
        for offset in range(0, len(data), piece_bytes):
            piece = data[offset : offset + piece_bytes]
            received = self._ask(command, offset.to_bytes(4, "little") + piece, _u32)
            if received != offset + len(piece):
                raise HostError(
                    f"the board at {self.link.name} has {received} bytes of "
                    f"{offset + len(piece)} sent with {command.name}"
                )
            if progress:
                progress(received, len(data))

    def _receive(self, command: Command, size: int, progress: Progress | None) -> bytes:
        data = bytearray()
        while len(data) < size:
            count = min(self.identity.max_body, size - len(data))
            body = len(data).to_bytes(4, "little") + count.to_bytes(2, "little")
            piece = self._ask(command, body, bytes)
            if not 0 < len(piece) <= count:
                raise HostError(
                    f"the board at {self.link.name} answered {command.name} with "
                    f"{len(piece)} bytes in the place of {count}"
                )
            data += piece
            if progress:
                progress(len(data), size)
        return bytes(data)

    def _ask(self, command: Command, body: bytes, parse: Callable[[bytes], R]) -> R:
        """Send a request until it is answered. Raises what the class says."""
        if self._session == 0:
            self.identify()
        request = Frame(command, self._session, self._sequence, body=body)
        response = self._exchange(request)
        self._sequence = (self._sequence + 1) % 65536
        if response.status != Status.OK:
            raise RefusedError(
                command.name, response.status, protocol.meaning(response.status), response.body
            )
        try:
            return parse(response.body)
        except protocol.MalformedResponseError as error:
            raise HostError(
                f"the board at {self.link.name} answered {command.name} with {error}"
            ) from error

    def _exchange(self, request: Frame) -> Frame:
        """The final response to a request."""
        wire = frames.encode(request.pack())
        wait = _Wait(Command(request.command), self.patience, self._longest, self._clock)
        self.link.write(wire)
        while True:
            response = self._next(request, wait.until_resent())
            if response is not None and response.status not in (Status.WORKING, Status.FRAME):
                wait.end()
                return response
            if response is not None and response.status == Status.WORKING:
                if not wait.note_working():
                    raise NoResultError(self.link.name, wait.command.name, wait.seconds)
            elif wait.is_over(is_garbled=response is not None):
                error = NoResultError if wait.is_late else NoAnswerError
                raise error(self.link.name, wait.command.name, wait.seconds)
            else:
                self.resent += 1
                self.link.write(wire)

    def _next(self, request: Frame, seconds: float) -> Frame | None:
        """The next response that concerns the request; None when the time is over.

        A frame that arrives damaged counts as FRAME: the answer may have been in it.
        """
        until = self._clock() + seconds
        late_bytes = 0
        while True:
            for frame in self._frames():
                if self._concerns(frame, request):
                    return frame
            left = until - self._clock()
            came = self.link.read(max(left, 0))
            self._arrived += self._reader.feed(came)
            if left <= 0:  # this program may have slept: what came meanwhile is read
                late_bytes += len(came)
                if not came or late_bytes > LATE_BYTES:
                    return None

    def _frames(self) -> Iterator[Frame]:
        while self._arrived:
            payload = self._arrived.pop(0)
            frame = None if isinstance(payload, frames.BadFrame) else Frame.parse(payload)
            yield frame or Frame(protocol.RESPONSE, 0, 0, Status.FRAME)

    def _concerns(self, frame: Frame, request: Frame) -> bool:
        """Return whether a frame answers the request, and not an earlier one."""
        if frame.version != protocol.VERSION:
            raise WrongVersionError(self.link.name, protocol.VERSION, frame.version)
        if frame.command == protocol.RESPONSE:
            return frame.status == Status.FRAME
        answers = (request.command | protocol.RESPONSE, request.session, request.sequence)
        if (frame.command, frame.session, frame.sequence) != answers:
            return False
        if frame.status == Status.VERSION:
            raise WrongVersionError(self.link.name, protocol.VERSION, None)
        if frame.status in (Status.SESSION, Status.SEQUENCE):
            raise DeviceRestartedError(self.link.name)
        return True


class _Wait:
    """How long a request may take, from what its command took before."""

    def __init__(
        self,
        command: Command,
        patience: Patience,
        longest: dict[Command, float],
        clock: Callable[[], float],
    ) -> None:
        self.command, self.patience = command, patience
        self._longest, self._clock = longest, clock
        self._began = clock()
        self._working = 0
        self._sent = 1
        self._garbled = 0
        self.is_late = False
        """Whether the board said that it works on it when the time was over."""

    @property
    def seconds(self) -> float:
        """Since the request was sent first."""
        return self._clock() - self._began

    def note_working(self) -> bool:
        """The board accepted the request and computes. Returns whether to go on reading.

        Also when the time is over: this program may have slept, and the result be there already.
        """
        self._working += 1
        self.is_late = self.seconds >= self._limit()
        return self._working <= WORKING_ANSWERS

    def until_resent(self) -> float:
        """Seconds to wait before the request is sent again."""
        if self.is_late:
            return 0.0
        usual = self._longest.get(self.command, 0.0) if self._working else 0.0
        return max(self.patience.answer_seconds, SLOWER * usual)

    def is_over(self, is_garbled: bool) -> bool:
        """Return whether to give up in the place of sending again."""
        if is_garbled:
            self._garbled += 1
            return self._garbled >= GARBLED_ATTEMPTS
        self._sent += 1
        if self.command not in protocol.LONG_COMMANDS:
            return self._sent > self.patience.attempts
        return self.seconds >= self._limit()

    def end(self) -> None:
        """The result came."""
        self._longest[self.command] = max(self._longest.get(self.command, 0.0), self.seconds)

    def _limit(self) -> float:
        if self.command not in self._longest:
            return self.patience.work_seconds
        usual = SLOWER * self._longest[self.command]
        return self.patience.attempts * max(self.patience.answer_seconds, usual)


def _random_sessions() -> Iterator[int]:
    """Session numbers that another program would hardly choose too."""
    while True:
        yield random.SystemRandom().randrange(1, 65536)


def _u32(body: bytes) -> int:
    if len(body) != 4:
        raise protocol.MalformedResponseError(f"{len(body)} bytes in the place of 4")
    return int.from_bytes(body, "little")


def _nothing(body: bytes) -> None:
    if body:
        raise protocol.MalformedResponseError(f"{len(body)} bytes in the place of none")
