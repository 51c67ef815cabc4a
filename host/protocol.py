"""The words of docs/protocol.md: commands, statuses, and the fields of requests and responses."""

from __future__ import annotations

import math
import struct
from dataclasses import astuple, fields, replace
from enum import IntEnum, IntFlag
from typing import Any, ClassVar, TypeVar

from mcutrain_host.dataclass import dataclass
from mcutrain_host.saved import HEADER_BYTES
from mcutrain_host.text import printable

N = TypeVar("N", bound="Numbers")

VERSION = 1
RESPONSE = 0x80
"""This bit of the command tells a response; alone it is the answer to what was no frame."""
HEADER = struct.Struct("<BBHHH")
MAX_BODY_BYTES = 512
"""Most bytes of a body in version 1; IDENTIFY says the device's own."""
MOST_SAMPLE_NUMBERS, MOST_WINDOW_SAMPLES = 252, 1 << 20
"""Of raw samples; more than a front end has."""
OFFSET_BYTES = 4
"""Pieces of a sample or state follow their offset."""
MIN_BODY_BYTES = OFFSET_BYTES + HEADER_BYTES
"""The first piece of WRITE_STATE holds the header of a saved state."""


class Command(IntEnum):
    """What a host asks for."""

    IDENTIFY = 0x01
    SAMPLE = 0x02
    INFER = 0x03
    TRAIN = 0x04
    EVALUATE = 0x05
    SET_RATE = 0x06
    STATISTICS = 0x07
    READ_STATE = 0x08
    WRITE_STATE = 0x09
    SAVE = 0x0A
    RESTORE = 0x0B
    RESET = 0x0C
    READ_OUTPUT = 0x0D
    LATENT = 0x0E
    REPLAY = 0x0F
    SELECT = 0x10
    TIMES = 0x11
    RESAMPLE = 0x12
    LABELS = 0x13
    COLLECT = 0x14
    IMPRINT = 0x15
    HEAR = 0x16
    WINDOW = 0x17
    TEACH = 0x18
    LEARNT = 0x19
    READ_WINDOW = 0x1A
    READ_SAMPLES = 0x1B


LONG_COMMANDS = frozenset(
    {
        Command.INFER,
        Command.TRAIN,
        Command.REPLAY,
        Command.EVALUATE,
        Command.SAVE,
        Command.SELECT,
        Command.RESAMPLE,
        Command.COLLECT,
        Command.IMPRINT,
        Command.HEAR,
        Command.TEACH,
        Command.RESTORE,
        Command.WRITE_STATE,
    }
)
"""Those that a device may first answer with WORKING."""


class Status(IntEnum):
    """How a request ended."""

    OK = 0
    WORKING = 1
    FRAME = 16
    VERSION = 17
    COMMAND = 18
    LENGTH = 19
    SESSION = 20
    SEQUENCE = 21
    OFFSET = 22
    SAMPLE_INCOMPLETE = 23
    LABEL = 24
    POSITION = 25
    RATE = 26
    NO_SAVED = 27
    MODEL = 28
    CHECKSUM = 29
    FLASH = 30
    STATE_INCOMPLETE = 31
    UNSUPPORTED = 32
    FORGOTTEN = 33
    SHARE = 34
    NOT_KEPT = 35


MEANING = {
    Status.FRAME: "the bytes were no frame; the line is noisy or the baud rate wrong",
    Status.VERSION: "it speaks another version of the protocol",
    Status.COMMAND: "its firmware does not know that command",
    Status.LENGTH: "the request is too short or too long for its command",
    Status.SESSION: "the session is not the one begun last",
    Status.SEQUENCE: "the request is neither the next one nor the last one again",
    Status.OFFSET: "the bytes do not begin where the earlier ones ended, or go past the end",
    Status.SAMPLE_INCOMPLETE: "bytes of the sample are missing",
    Status.LABEL: "the label is no class of its model",
    Status.POSITION: "its training or evaluation is at another position",
    Status.RATE: "it has no valid learning rate",
    Status.NO_SAVED: "nothing valid is saved on it",
    Status.MODEL: "the state is of another model or scheme",
    Status.CHECKSUM: "the state that was written is damaged",
    Status.FLASH: "its flash could not be erased or written",
    Status.STATE_INCOMPLETE: "its state was written only in part; restore, reset or write it whole",
    Status.UNSUPPORTED: "this board cannot do that",
    Status.SHARE: "in that share of a step not even the last layer can be trained, or it cannot be "
    "chosen so often what is",
    Status.NOT_KEPT: "the states by which it chooses what to train are no longer in its flash; "
    "--fresh begins anew",
    Status.FORGOTTEN: "it remembers no sample to replay; --fresh begins anew",
}


def meaning(status: int) -> str:
    """A status as words."""
    known = MEANING.get(Status(status)) if status in set(Status) else None
    return known or f"status {status}, which this program does not know"


class Reset(IntEnum):
    """Kinds of RESET."""

    WEIGHTS = 0
    RESTART = 1
    BOOTLOADER = 2


class IdentityFlags(IntFlag):
    """Bits of IDENTIFY's flags."""

    RESTORED = 1
    COMPLETE = 2
    HAS_SLOTS = 4
    SAVED_REFUSED = 8
    TAKES_LATENTS = 16
    SELECTS = 32
    TIMES = 64
    RESAMPLES = 128
    HAS_POSITIONS = 256
    IMPRINTS = 512
    LISTENS = 1024
    LEARNS = 2048


@dataclass(frozen=True)
class Frame:
    """Header and body of a request or a response."""

    command: int
    session: int
    sequence: int
    status: int = 0
    body: bytes = b""
    version: int = VERSION

    def pack(self) -> bytes:
        """The payload of a frame."""
        head = (self.version, self.command, self.session, self.sequence, self.status)
        return HEADER.pack(*head) + self.body

    @staticmethod
    def parse(payload: bytes) -> Frame | None:
        """The parts of a payload; None if it is too short to have a header."""
        if len(payload) < HEADER.size:
            return None
        version, command, session, sequence, status = HEADER.unpack_from(payload)
        return Frame(command, session, sequence, status, payload[HEADER.size :], version)


@dataclass(frozen=True)
class Rate:
    """A learning rate, mult_q31 * 2**(shift - 31)."""

    mult_q31: int
    shift: int

    @property
    def value(self) -> float:
        """As a real number."""
        return math.ldexp(self.mult_q31, self.shift - 31)

    def pack(self) -> bytes:
        """As SET_RATE and TRAIN have it."""
        return struct.pack("<ii", self.mult_q31, self.shift)


WHOLE_Q16 = 65_536
"""A whole step, as a share of its time."""


@dataclass(frozen=True)
class Selecting:
    """When a board chooses which tensors it trains, and for which share of a step's time.

    share_q16: 65,536 is a whole step. every: steps of a period. look: of each of the two windows at
    its begin, in which all are trained (firmware/runtime/mct_selection.h). squares: those of moves
    in both decide, for which it keeps nothing at the second.
    """

    share_q16: int
    every: int
    look: int
    squares: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.share_q16 <= WHOLE_Q16:
            raise ValueError(f"a share of {self.share_q16} / {WHOLE_Q16}: give 0 to {WHOLE_Q16}")

    def is_due(self, position: int) -> bool:
        """Return whether there is something to do before the step of a position."""
        middle = () if self.squares else (self.look,)
        return position % self.every in (0, *middle, 2 * self.look)

    def chooses(self, position: int) -> bool:
        """Return whether that is the choice itself."""
        return position % self.every == 2 * self.look

    def is_looking(self, position: int) -> bool:
        """Return whether the board must keep the states that it saved for the next choice."""
        return position % self.every <= 2 * self.look

    def pack(self) -> bytes:
        """As SELECT has it."""
        kind = b"\1" if self.squares else b""
        return struct.pack("<II", self.share_q16, self.every) + kind


class MalformedResponseError(ValueError):
    """A response's body does not have the fields of its command."""


@dataclass(frozen=True)
class Numbers:
    """A response whose body is numbers; subclasses have a field for each."""

    layout: ClassVar[struct.Struct]

    @classmethod
    def parse(cls: type[N], body: bytes) -> N:
        """The fields of a body. Raises MalformedResponseError."""
        if len(body) != cls.layout.size:
            raise MalformedResponseError(f"{len(body)} bytes in the place of {cls.layout.size}")
        return cls(*cls.layout.unpack(body))

    def pack(self) -> bytes:
        """The body of these numbers."""
        return self.layout.pack(*astuple(self))


@dataclass(frozen=True)
class Inference(Numbers):
    """Answer to INFER."""

    layout: ClassVar[struct.Struct] = struct.Struct("<iQ")
    prediction: int
    cycles: int


@dataclass(frozen=True)
class Step(Numbers):
    """Answer to TRAIN: loss and prediction before the update, position after it."""

    layout: ClassVar[struct.Struct] = struct.Struct("<iiIQI")
    loss_q16: int
    prediction: int
    position: int
    cycles: int
    saturations: int

    @property
    def loss(self) -> float:
        """In nats."""
        return self.loss_q16 / 65536


@dataclass(frozen=True)
class Replayed(Step):
    """Answer to REPLAY: as to TRAIN, and what the remembered sample is."""

    layout: ClassVar[struct.Struct] = struct.Struct("<iiIQIi")
    label: int


@dataclass(frozen=True)
class Evaluation(Numbers):
    """Answer to EVALUATE: this sample's prediction, and the counts so far."""

    layout: ClassVar[struct.Struct] = struct.Struct("<iIIQ")
    prediction: int
    evaluated: int
    correct: int
    cycles: int


@dataclass(frozen=True)
class Collected(Numbers):
    """Answer to COLLECT: how many samples of a class there are so far, and what this one took."""

    layout: ClassVar[struct.Struct] = struct.Struct("<IQ")
    samples: int
    cycles: int


@dataclass(frozen=True)
class Heard(Numbers):
    """Answer to HEAR. received: bytes of the stream so far. frames: new since the last window; 0
    while there are too few for one. lost: samples that found no room, of drivers, too."""

    layout: ClassVar[struct.Struct] = struct.Struct("<IIIQ")
    received: int
    frames: int
    lost: int
    cycles: int


HEARD_WINDOW, LOUDEST_WINDOW = 0xFFFF_FFFF, 0xFFFF_FFFE
"""For WINDOW in the place of frames ago: the one that the trigger found, and the loudest one."""


@dataclass(frozen=True)
class WindowTaken(Numbers):
    """Answer to WINDOW. frames: new since the last window before it. ago: frames since its last."""

    layout: ClassVar[struct.Struct] = struct.Struct("<II")
    frames: int
    ago: int


class Teaching(IntEnum):
    """What TEACH asks for."""

    LESSON = 0
    CLASS = 1
    UNDO = 2
    FORGET = 3
    FORGET_CLASS = 4


@dataclass(frozen=True)
class LessonPlan(Numbers):
    """How a window is learnt. steps: on it; replay: of remembered samples behind each."""

    layout: ClassVar[struct.Struct] = struct.Struct("<HHii")
    steps: int
    replay: int
    mult_q31: int
    shift: int

    @staticmethod
    def of(steps: int, replay: int, rate: Rate) -> LessonPlan:
        """With a learning rate."""
        return LessonPlan(steps, replay, rate.mult_q31, rate.shift)


@dataclass(frozen=True)
class TaughtReport(Numbers):
    """Answer to TEACH. frame: so many there were at the window's end. save_number: of the state."""

    layout: ClassVar[struct.Struct] = struct.Struct("<III")
    position: int
    frame: int
    save_number: int


@dataclass(frozen=True)
class LearntReport(Numbers):
    """Answer to LEARNT: counts since the start.

    told: the last class that was recognized, at told_frame; -1: none. lessons, collected: windows
    that were learnt, and that were samples of new classes; label, frame: of the last of both. left:
    samples that are awaited. failed: windows that the flash did not take. lost: raw samples.
    position: of the state. known, steps, replay, mult_q31, shift: how the last lesson, or the one
    that awaits samples, is done.
    """

    layout: ClassVar[struct.Struct] = struct.Struct("<IIIiIIIiIIIIIIIIii")
    frames: int
    inferences: int
    detections: int
    told: int
    told_frame: int
    lessons: int
    collected: int
    label: int
    frame: int
    left: int
    failed: int
    lost: int
    position: int
    known: int
    steps: int
    replay: int
    mult_q31: int
    shift: int


@dataclass(frozen=True)
class KeptSamples:
    """Answer to READ_SAMPLES. total: since the stream began; begun: frames before that. raw: from
    the number that was asked for on."""

    total: int
    begun: int
    raw: bytes

    @staticmethod
    def parse(body: bytes) -> KeptSamples:
        """The fields of a body. Raises MalformedResponseError."""
        if len(body) < 8:
            raise MalformedResponseError(f"{len(body)} bytes in the place of 8 or more")
        total, begun = struct.unpack_from("<II", body)
        return KeptSamples(total, begun, body[8:])


@dataclass(frozen=True)
class RowWritten(Numbers):
    """Answer to IMPRINT: what the class's weights took."""

    layout: ClassVar[struct.Struct] = struct.Struct("<Q")
    cycles: int


@dataclass(frozen=True)
class Saved(Numbers):
    """Answer to SAVE and RESTORE: the number of the save, and the position of the state in it."""

    layout: ClassVar[struct.Struct] = struct.Struct("<II")
    number: int
    position: int


@dataclass(frozen=True)
class Statistics(Numbers):
    """Answer to STATISTICS."""

    layout: ClassVar[struct.Struct] = struct.Struct("<IiiIQQIIIII")
    position: int
    loss_q16: int
    prediction: int
    saturations: int
    train_cycles: int
    infer_cycles: int
    stack_used_bytes: int
    frames: int
    frames_refused: int
    repeated: int
    save_number: int


@dataclass(frozen=True)
class RingStatistics(Statistics):
    """Answer of firmware that remembers latents. slots_erased: how often one of the slots was."""

    layout: ClassVar[struct.Struct] = struct.Struct("<IiiIQQIIIIIII")
    offered: int
    slots_erased: int


@dataclass(frozen=True)
class Firmware:
    """What a board's program is; the manifest of its project says the same."""

    model_hash: int
    input_bytes: int
    output_bytes: int
    classes: int
    samples_per_update: int
    state_bytes: int


@dataclass(frozen=True)
class Identity:
    """Answer to IDENTIFY: what the board is and holds.

    latent_bytes: 0 where it takes samples only. remember: latents that its ring has room for.
    offered: samples that were offered to the ring. label_bytes: of a sample with a label for each
    position; 0 of others. sample_numbers, window_samples: numbers of a raw sample, and raw samples
    of a window, of firmware that takes them; else 0.
    """

    max_body: int
    flags: int
    model_hash: int
    position: int
    input_bytes: int
    output_bytes: int
    classes: int
    samples_per_update: int
    arena_bytes: int
    state_bytes: int
    saved_bytes: int
    stack_bytes: int
    sram_bytes: int
    clock_hz: int
    save_number: int
    board: str
    model: str
    scheme: str
    latent_bytes: int = 0
    remember: int = 0
    offered: int = 0
    label_bytes: int = 0
    sample_numbers: int = 0
    window_samples: int = 0

    layout: ClassVar[struct.Struct] = struct.Struct("<HHQ12I")
    latents: ClassVar[struct.Struct] = struct.Struct("<3I")
    """Behind it, if the flags say TAKES_LATENTS."""
    labels: ClassVar[struct.Struct] = struct.Struct("<I")
    """Behind these, if the flags say HAS_POSITIONS."""
    listening: ClassVar[struct.Struct] = struct.Struct("<2I")
    """Behind these, if the flags say LISTENS."""

    @property
    def firmware(self) -> Firmware:
        """What its program is."""
        return Firmware(**{field.name: getattr(self, field.name) for field in fields(Firmware)})

    @property
    def is_complete(self) -> bool:
        """Whether the board holds a valid state."""
        return bool(self.flags & IdentityFlags.COMPLETE)

    @property
    def was_restored(self) -> bool:
        """Whether the board found a saved state when it started."""
        return bool(self.flags & IdentityFlags.RESTORED)

    @property
    def has_slots(self) -> bool:
        """Whether the board can save."""
        return bool(self.flags & IdentityFlags.HAS_SLOTS)

    @property
    def resamples(self) -> bool:
        """Whether it can train other columns from time to time."""
        return bool(self.flags & IdentityFlags.RESAMPLES)

    @property
    def imprints(self) -> bool:
        """Whether it can give a class its weights from a few samples."""
        return bool(self.flags & IdentityFlags.IMPRINTS)

    @property
    def listens(self) -> bool:
        """Whether it takes raw samples."""
        return bool(self.flags & IdentityFlags.LISTENS)

    @property
    def learns(self) -> bool:
        """Whether it infers on what it hears, and learns when it is told."""
        return bool(self.flags & IdentityFlags.LEARNS)

    @property
    def selects(self) -> bool:
        """Whether it chooses by itself which tensors it trains."""
        return bool(self.flags & IdentityFlags.SELECTS)

    @property
    def times_nodes(self) -> bool:
        """Whether it keeps what each node takes."""
        return bool(self.flags & IdentityFlags.TIMES)

    @property
    def refused_saved(self) -> bool:
        """Whether a saved state of another model was found at start-up, and left alone."""
        return bool(self.flags & IdentityFlags.SAVED_REFUSED)

    def pack(self) -> bytes:
        """The body of IDENTIFY's response."""
        *numbers, board, model, scheme, _, _, _, _, _, _ = astuple(self)
        ring = (self.latent_bytes, self.remember, self.offered)
        more = self.latents.pack(*ring) if self.flags & IdentityFlags.TAKES_LATENTS else b""
        if self.flags & IdentityFlags.HAS_POSITIONS:
            more += self.labels.pack(self.label_bytes)
        if self.listens:
            more += self.listening.pack(self.sample_numbers, self.window_samples)
        return self.layout.pack(*numbers) + more + f"{board}\0{model}\0{scheme}\0".encode()

    @staticmethod
    def parse(body: bytes) -> Identity:
        """The fields of a body. Raises MalformedResponseError."""
        size = Identity.layout.size
        flags = int.from_bytes(body[2:4], "little") if len(body) >= size else 0
        takes_latents = bool(flags & IdentityFlags.TAKES_LATENTS)
        has_positions = bool(flags & IdentityFlags.HAS_POSITIONS)
        behind = size + (Identity.latents.size if takes_latents else 0)
        heard = behind + (Identity.labels.size if has_positions else 0)
        listens = bool(flags & IdentityFlags.LISTENS)
        end = heard + (Identity.listening.size if listens else 0)
        texts = body[end:].split(b"\0")
        if len(body) < end or len(texts) != 4 or texts[3]:
            raise MalformedResponseError(f"{len(body)} bytes that are no identity")
        names = (printable(text.decode("utf-8", "replace")) for text in texts[:3])
        ring = Identity.latents.unpack_from(body, size) if takes_latents else ()
        values: list[Any] = [*Identity.layout.unpack_from(body), *names, *ring]
        label_bytes = Identity.labels.unpack_from(body, behind)[0] if has_positions else 0
        raw = Identity.listening.unpack_from(body, heard) if listens else (0, 0)
        identity = replace(
            Identity(*values), label_bytes=label_bytes, sample_numbers=raw[0], window_samples=raw[1]
        )
        identity.check()
        return identity

    def check(self) -> None:
        """Raise MalformedResponseError if no board can be like that."""
        if not MIN_BODY_BYTES <= self.max_body <= MAX_BODY_BYTES:
            raise MalformedResponseError(
                f"a max_body of {self.max_body}; {MIN_BODY_BYTES} to {MAX_BODY_BYTES} are possible"
            )
        least = self.state_bytes + HEADER_BYTES
        if self.saved_bytes < least or (self.saved_bytes > least and not self.resamples):
            raise MalformedResponseError(
                f"{self.saved_bytes:,} bytes for the saved form of a state of {self.state_bytes:,}"
            )
        for name in ("input_bytes", "output_bytes", "classes", "samples_per_update"):
            if getattr(self, name) == 0:
                raise MalformedResponseError(f"{name} of 0")
        if self.listens and not (
            0 < self.sample_numbers <= MOST_SAMPLE_NUMBERS
            and 2 * self.sample_numbers <= self.max_body - 4  # a piece has a sample or more
            and 0 < self.window_samples <= MOST_WINDOW_SAMPLES
        ):
            raise MalformedResponseError(
                f"windows of {self.window_samples:,} raw samples of {self.sample_numbers:,} numbers"
            )
