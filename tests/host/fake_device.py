"""A board in Python: the device's side of docs/protocol.md, on a line that can be noisy.

Written from the document, not from the firmware, so that two readings of it meet in the tests.
"""

from __future__ import annotations

import random
import struct
import zlib
from dataclasses import dataclass, field
from typing import Protocol

from cobs import cobs
from mcutrain_host.errors import PortError, UnpluggedError
from mcutrain_host.protocol import Command, Firmware, Identity, Reset, Status

MAX_BODY = 512
MODEL_HASH = 0x0123456789ABCDEF
LONG = {Command.INFER, Command.TRAIN, Command.EVALUATE, Command.SAVE, Command.RESTORE}
READING = {Command.IDENTIFY, Command.STATISTICS, Command.READ_STATE, Command.READ_OUTPUT}


class Network(Protocol):
    """What learns on the board. save, load: the saved form with header and checksum."""

    model_hash: int
    input_bytes: int
    output_bytes: int
    classes: int
    samples_per_update: int

    def reset(self, seed: int) -> None: ...
    def infer(self, sample: bytes) -> bytes: ...
    def train(self, sample: bytes, label: int, mult_q31: int, shift: int) -> tuple[int, int]: ...
    def save(self) -> bytes: ...
    def load(self, saved: bytes) -> None: ...


def saved_form(model_hash: int, state: bytes) -> bytes:
    head = struct.pack("<4sB3xQI", b"MCTS", 1, model_hash, len(state))
    return head + struct.pack("<I", zlib.crc32(state, zlib.crc32(head))) + state


class Chain:
    """A network whose state is a hash over all that it was trained with, in order."""

    model_hash = MODEL_HASH
    input_bytes = 1200
    output_bytes = 10
    classes = 10

    def __init__(self, samples_per_update: int = 1) -> None:
        self.samples_per_update = samples_per_update
        self.reset(1)

    def reset(self, seed: int) -> None:
        self.seed, self.count = seed, 0
        self.digest = random.Random(seed).randbytes(700)

    def infer(self, sample: bytes) -> bytes:
        return bytes((sample[i] + self.digest[i]) % 128 for i in range(10))

    def train(self, sample: bytes, label: int, mult_q31: int, shift: int) -> tuple[int, int]:
        told = sample + struct.pack("<iii", label, mult_q31, shift)
        crc = zlib.crc32(told, zlib.crc32(self.digest))
        self.digest = random.Random(crc).randbytes(700)
        self.count += 1
        return crc % 200_000, crc % self.classes

    def save(self) -> bytes:
        updates, samples = divmod(self.count, self.samples_per_update)
        counters = struct.pack("<III", self.seed, updates, samples)
        return saved_form(self.model_hash, counters + self.digest)

    def load(self, saved: bytes) -> None:
        self.seed, updates, samples = struct.unpack_from("<III", saved, 24)
        self.count = updates * self.samples_per_update + samples
        self.digest = saved[36:]


CHAIN = Firmware(
    model_hash=MODEL_HASH,
    input_bytes=Chain.input_bytes,
    output_bytes=Chain.output_bytes,
    classes=Chain.classes,
    samples_per_update=1,
    state_bytes=712,
)
"""What the project of a Chain says of it."""


@dataclass
class Flash:
    """What survives a restart."""

    slots: bool = True
    number: int = 0
    saved: bytes | None = None
    broken: bool = False


@dataclass
class FakeDevice:
    """Bytes in, bytes out. restart_after: requests carried out before the power is cut."""

    network: Network = field(default_factory=Chain)
    flash: Flash = field(default_factory=Flash)
    max_body: int = MAX_BODY
    restart_after: int | None = None
    has_bootloader: bool = False
    in_bootloader: bool = False

    def __post_init__(self) -> None:
        self.carried_out: list[tuple[Command, bytes]] = []
        self.power_on()

    def power_on(self) -> None:
        self.raw = bytearray()
        self.session = self.sequence = 0
        self.kept: tuple[int, int, bytes] | None = None
        self.sample = bytearray()
        self.output: bytes | None = None
        self.rate: tuple[int, int] | None = None
        self.written: bytearray | None = None
        self.complete = True
        self.evaluated = self.correct = 0
        self.last = (0, -1)
        self.frames = self.damaged = self.repeated = 0
        self.network.reset(1)
        self.restored = self.flash.saved is not None
        if self.flash.saved is not None:
            self.network.load(self.flash.saved)

    @property
    def position(self) -> int:
        updates, samples = struct.unpack_from("<II", self.network.save(), 28)
        return int(updates * self.network.samples_per_update + samples)

    def receive(self, data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            if byte:
                self.raw.append(byte)
            elif self.raw:
                raw = bytes(self.raw)
                self.raw.clear()
                out += self._frame(raw)
        return bytes(out)

    def _frame(self, raw: bytes) -> bytes:
        try:
            checked = cobs.decode(raw)
        except cobs.DecodeError:
            checked = b""
        payload = checked[:-4]
        fits = 8 <= len(payload) <= 8 + self.max_body
        if not fits or zlib.crc32(payload) != int.from_bytes(checked[-4:], "little"):
            self.damaged += 1
            return self._wire(0, 0, 0, Status.FRAME, b"")
        self.frames += 1
        version, command, session, sequence, _ = struct.unpack_from("<BBHHH", payload)
        return self._request(version, command, session, sequence, payload[8:])

    def _request(
        self, version: int, command: int, session: int, sequence: int, body: bytes
    ) -> bytes:
        def answer(status: int, body: bytes = b"") -> bytes:
            return self._wire(command, session, sequence, status, body)

        if version != 1:
            return answer(Status.VERSION)
        if command == Command.IDENTIFY and session not in (0, self.session):
            self.session, self.sequence, self.kept = session, sequence, None
            self.sample.clear()
        elif session == 0 or session != self.session:
            return answer(Status.SESSION)
        elif sequence == self.sequence and self.kept is not None:
            self.repeated += 1
            if self.kept[0] != command:
                return answer(Status.SEQUENCE)
            if command not in READING:
                return answer(self.kept[1], self.kept[2])
        elif sequence != (self.sequence + 1) % 65536:
            return answer(Status.SEQUENCE)
        self.sequence = sequence
        return self._carried_out(command, body, answer(Status.WORKING), answer)

    def _carried_out(self, command: int, body: bytes, working: bytes, answer: object) -> bytes:
        assert callable(answer)
        if self.restart_after is not None:
            self.restart_after -= 1
            if self.restart_after < 0:
                self.restart_after = None
                self.power_on()
                return b""
        known = command in set(Command)
        status, result = self._do(Command(command), body) if known else (Status.COMMAND, b"")
        self.kept = (command, status, result)
        is_last_piece = command == Command.WRITE_STATE and self.written is None
        is_long = (command in LONG or is_last_piece) and status == Status.OK
        out: bytes = (working if is_long else b"") + answer(status, result)
        if command == Command.RESET and status == Status.OK and body[0] != Reset.WEIGHTS:
            self.in_bootloader = body[0] == Reset.BOOTLOADER
            self.power_on()
        return out

    def _wire(self, command: int, session: int, sequence: int, status: int, body: bytes) -> bytes:
        payload = struct.pack("<BBHHH", 1, command | 0x80, session, sequence, status) + body
        crc = zlib.crc32(payload).to_bytes(4, "little")
        return b"\0" + cobs.encode(payload + crc) + b"\0"

    # ---- commands ----

    def _do(self, command: Command, body: bytes) -> tuple[int, bytes]:
        self.carried_out.append((command, body))
        outcome: tuple[int, bytes] = getattr(self, f"_{command.name.lower()}")(body)
        return outcome

    def _identify(self, body: bytes) -> tuple[int, bytes]:
        net = self.network
        flags = self.restored | self.complete << 1 | self.flash.slots << 2
        saved = len(net.save())
        identity = Identity(
            max_body=self.max_body,
            flags=flags,
            model_hash=net.model_hash,
            position=self.position,
            input_bytes=net.input_bytes,
            output_bytes=net.output_bytes,
            classes=net.classes,
            samples_per_update=net.samples_per_update,
            arena_bytes=1000,
            state_bytes=saved - 24,
            saved_bytes=saved,
            stack_bytes=2048,
            sram_bytes=4096,
            clock_hz=1_000_000,
            save_number=self.flash.number,
            board="fake",
            model="chain",
            scheme="full",
        )
        return Status.OK, identity.pack()

    def _sample(self, body: bytes) -> tuple[int, bytes]:
        offset = int.from_bytes(body[:4], "little")
        if offset == 0:
            self.sample.clear()
        if offset != len(self.sample) or offset + len(body) - 4 > self.network.input_bytes:
            return Status.OFFSET, len(self.sample).to_bytes(4, "little")
        self.sample += body[4:]
        return Status.OK, len(self.sample).to_bytes(4, "little")

    def _used(self) -> bytes:
        sample = bytes(self.sample)
        self.sample.clear()
        return sample

    def _ready(self) -> int:
        if not self.complete:
            return Status.STATE_INCOMPLETE
        full = len(self.sample) == self.network.input_bytes
        return Status.OK if full else Status.SAMPLE_INCOMPLETE

    def _predict(self) -> int:
        self.output = self.network.infer(self._used())
        scores = struct.unpack(f"{len(self.output)}b", self.output)
        return scores.index(max(scores))

    def _infer(self, body: bytes) -> tuple[int, bytes]:
        if self._ready() != Status.OK:
            return self._ready(), b""
        return Status.OK, struct.pack("<iQ", self._predict(), 77)

    def _train(self, body: bytes) -> tuple[int, bytes]:
        label, position = struct.unpack_from("<iI", body)
        rate = struct.unpack_from("<ii", body, 8) if len(body) == 16 else self.rate
        if rate is None:
            return Status.RATE, b""
        if self._ready() != Status.OK:
            return self._ready(), b""
        if not 0 <= label < self.network.classes:
            return Status.LABEL, b""
        if position != self.position:
            return Status.POSITION, self.position.to_bytes(4, "little")
        self.last = self.network.train(self._used(), label, *rate)
        return Status.OK, struct.pack("<iiIQI", *self.last, self.position, 1234, 0)

    def _evaluate(self, body: bytes) -> tuple[int, bytes]:
        label, index = struct.unpack("<iI", body)
        if self._ready() != Status.OK:
            return self._ready(), b""
        if index not in (0, self.evaluated):
            return Status.POSITION, self.evaluated.to_bytes(4, "little")
        if index == 0:
            self.evaluated = self.correct = 0
        prediction = self._predict()
        self.evaluated += 1
        self.correct += prediction == label
        return Status.OK, struct.pack("<iIIQ", prediction, self.evaluated, self.correct, 77)

    def _set_rate(self, body: bytes) -> tuple[int, bytes]:
        self.rate = struct.unpack("<ii", body)
        return Status.OK, b""

    def _statistics(self, body: bytes) -> tuple[int, bytes]:
        counts = (self.frames, self.damaged, self.repeated, self.flash.number)
        numbers = (self.position, *self.last, 0, 1234, 77, 512, *counts)
        return Status.OK, struct.pack("<IiiIQQIIIII", *numbers)

    def _read_state(self, body: bytes) -> tuple[int, bytes]:
        offset, count = struct.unpack("<IH", body)
        return Status.OK, self.network.save()[offset : offset + min(count, self.max_body)]

    def _read_output(self, body: bytes) -> tuple[int, bytes]:
        offset, count = struct.unpack("<IH", body)
        if self.output is None:
            return Status.SAMPLE_INCOMPLETE, b""
        return Status.OK, self.output[offset : offset + count]

    def _write_state(self, body: bytes) -> tuple[int, bytes]:
        offset, size = int.from_bytes(body[:4], "little"), len(self.network.save())
        if offset == 0:
            if body[12:20] != self.network.model_hash.to_bytes(8, "little"):
                return Status.MODEL, b""
            self.written, self.complete = bytearray(), False
        if self.written is None or offset != len(self.written):
            return Status.OFFSET, len(self.written or b"").to_bytes(4, "little")
        self.written += body[4:]
        received = len(self.written)
        if received == size:
            written, self.written = bytes(self.written), None
            if saved_form(self.network.model_hash, written[24:]) != written:
                return Status.CHECKSUM, b""
            self.network.load(written)
            self.complete = True
        return Status.OK, received.to_bytes(4, "little")

    def _save(self, body: bytes) -> tuple[int, bytes]:
        if not self.flash.slots:
            return Status.UNSUPPORTED, b""
        if self.flash.broken:
            return Status.FLASH, b""
        self.flash.number += 1
        self.flash.saved = self.network.save()
        return Status.OK, struct.pack("<II", self.flash.number, self.position)

    def _restore(self, body: bytes) -> tuple[int, bytes]:
        if self.flash.saved is None:
            return Status.NO_SAVED, b""
        self.network.load(self.flash.saved)
        self.complete = True
        return Status.OK, struct.pack("<II", self.flash.number, self.position)

    def _reset(self, body: bytes) -> tuple[int, bytes]:
        kind, seed = struct.unpack("<BI", body)
        if kind == Reset.WEIGHTS:
            self.network.reset(seed)
            self.complete, self.written = True, None
        elif kind == Reset.BOOTLOADER and not self.has_bootloader:
            return Status.UNSUPPORTED, b""
        return Status.OK, self.position.to_bytes(4, "little")


class Noise:
    """Loses, changes and doubles bytes. rate: of each of the three, per byte."""

    def __init__(self, rate: float, seed: int) -> None:
        self.rate, self.random = rate, random.Random(seed)

    def __call__(self, data: bytes) -> bytes:
        if not self.rate:
            return data
        out = bytearray()
        for byte in data:
            kind = self.random.random() / self.rate
            if kind < 1:
                continue
            out.append(self.random.randrange(256) if kind < 2 else byte)
            if 2 <= kind < 3:
                out.append(byte)
        return bytes(out)


class FakeLink:
    """A line to a FakeDevice. Its time passes only while nothing comes."""

    def __init__(self, device: FakeDevice, noise: Noise | None = None) -> None:
        self.device, self.noise = device, noise or Noise(0, 0)
        self.name = "fake"
        self.waiting = bytearray()
        self.now = 0.0
        self.is_gone = False
        self.gone_after: int | None = None
        self.comes_back = False

    def clock(self) -> float:
        return self.now

    def write(self, data: bytes) -> None:
        self._check()
        self.now += len(data) / 11_520
        self.waiting += self.noise(self.device.receive(self.noise(data)))

    def read(self, seconds: float) -> bytes:
        self._check()
        data = bytes(self.waiting)
        self.waiting.clear()
        self.now += len(data) / 11_520 if data else seconds
        return data

    def open(self) -> None:
        if self.is_gone and not self.comes_back:
            raise PortError(self.name, "No such file or directory")
        self.is_gone = False

    def close(self) -> None:
        self.waiting.clear()

    def _check(self) -> None:
        if self.gone_after is not None:
            self.gone_after -= 1
            if self.gone_after < 0:
                self.is_gone, self.gone_after = True, None
        if self.is_gone:
            raise UnpluggedError(self.name)
