"""A board that lies: every message of the protocol, with whatever fields, sizes and statuses."""

import random
import struct
import zlib
from collections.abc import Callable

from cobs import cobs
from mcutrain_host import protocol
from mcutrain_host.protocol import Command, Identity, Status

from tests.host.fake_device import Chain, FakeDevice, FakeLink

LAYOUTS = {
    Command.IDENTIFY: Identity.layout,
    Command.INFER: protocol.Inference.layout,
    Command.TRAIN: protocol.Step.layout,
    Command.EVALUATE: protocol.Evaluation.layout,
    Command.SAVE: protocol.Saved.layout,
    Command.RESTORE: protocol.Saved.layout,
    Command.STATISTICS: protocol.Statistics.layout,
    Command.SAMPLE: struct.Struct("<I"),
    Command.WRITE_STATE: struct.Struct("<I"),
    Command.RESET: struct.Struct("<I"),
}
NAMES = (
    b"\x1b]8;;http://example.com\x1b\\click\x1b]8;;\x1b\\",
    b"\x1b[2J\x1b[H",
    b"[/red] [link=file:///]x[/link] [bold]",
    b"\xff\xfe\x9b31m",
    "\u202egnp.exe\u2066\x9b2J\x85".encode(),
    b"a\nmcutrain: error: all is lost\r",
    b"x" * 240,
    b"",
)
LONGEST_SECONDS = 20_000.0
"""Of the line's own time. What takes longer than this has no end."""


class EndlessError(AssertionError):
    """The host goes on and on."""


class Liar(FakeDevice):
    """Answers as a board does, but for a share of its answers to some commands."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.share = self.draw.choice((0.05, 0.3, 1.0))
        self.about = set(self.draw.sample(sorted(Command), self.draw.randint(1, 2)))
        self.kinds = (wrong_field,) if seed % 2 else self.draw.sample(KINDS, 2)
        super().__init__(Chain())
        self.flash.slots = self.draw.random() < 0.7

    def _identify(self, body: bytes) -> tuple[int, bytes]:
        status, honest = super()._identify(body)
        names = b"".join(self.draw.choice(NAMES) + b"\0" for _ in range(3))
        return status, (honest[: Identity.layout.size] + names)[:512]

    def _wire(self, command: int, session: int, sequence: int, status: int, body: bytes) -> bytes:
        honest = (command, session, sequence, status, body)
        if command not in self.about or self.draw.random() >= self.share:
            return wire(*honest)
        return self.draw.choice(self.kinds)(self.draw, *honest)


Answer = Callable[[random.Random, int, int, int, int, bytes], bytes]


def wire(command: int, session: int, sequence: int, status: int, body: bytes) -> bytes:
    head = struct.pack("<BBHHH", 1, command & 0x7F | 0x80, session, sequence, status)
    crc = zlib.crc32(head + body).to_bytes(4, "little")
    return b"\0" + bytes(cobs.encode(head + body + crc)) + b"\0"


def wrong_field(
    draw: random.Random, command: int, session: int, sequence: int, status: int, body: bytes
) -> bytes:
    layout = LAYOUTS.get(Command(command))
    if layout is None or status != Status.OK:
        return wrong_bytes(draw, command, session, sequence, status, body)
    values = list(layout.unpack_from(body))
    at = draw.randrange(len(values))
    changed = bytearray(body)
    near = (values[at] + 1, values[at] - 1)
    extremes = (0, 1, 4, *near, (1 << 32) - 1, 1 << 31, draw.getrandbits(64))
    formats = struct_codes(layout)
    offset = struct.calcsize("<" + formats[:at])
    size = struct.calcsize("<" + formats[at])
    value = draw.choice(extremes) & ((1 << 8 * size) - 1)
    changed[offset : offset + size] = value.to_bytes(size, "little")
    return wire(command, session, sequence, status, bytes(changed))


def struct_codes(layout: struct.Struct) -> str:
    """HHQ12I as a letter per field."""
    codes, count = "", ""
    for c in layout.format.removeprefix("<"):
        if c.isdigit():
            count += c
        else:
            codes, count = codes + c * int(count or 1), ""
    return codes


def wrong_bytes(
    draw: random.Random, command: int, session: int, sequence: int, status: int, body: bytes
) -> bytes:
    other = bytearray(body or b"\0")
    for _ in range(draw.randint(1, 8)):
        other[draw.randrange(len(other))] = draw.randrange(256)
    return wire(command, session, sequence, status, bytes(other))


def wrong_size(
    draw: random.Random, command: int, session: int, sequence: int, status: int, body: bytes
) -> bytes:
    size = draw.choice((0, 1, 3, 4, 511, 512, 600, 3000, max(len(body) - 1, 0), len(body) + 1))
    return wire(command, session, sequence, status, (body + draw.randbytes(size))[:size])


def wrong_status(
    draw: random.Random, command: int, session: int, sequence: int, status: int, body: bytes
) -> bytes:
    return wire(command, session, sequence, draw.choice((*Status, 2, 99, 65535)), body)


def wrong_head(
    draw: random.Random, command: int, session: int, sequence: int, status: int, body: bytes
) -> bytes:
    to_other = (draw.randrange(128), draw.randrange(65536), draw.randrange(65536))
    return wire(*to_other, status, body)


def works_for_ever(
    draw: random.Random, command: int, session: int, sequence: int, status: int, body: bytes
) -> bytes:
    return wire(command, session, sequence, Status.WORKING, b"") * draw.choice((1, 2, 5000))


def noise(
    draw: random.Random, command: int, session: int, sequence: int, status: int, body: bytes
) -> bytes:
    return draw.choice((b"", bytes(5000), draw.randbytes(5000), b"\x01\0" * 5000))


KINDS: tuple[Answer, ...] = (
    wrong_field,
    wrong_bytes,
    wrong_size,
    wrong_status,
    wrong_head,
    works_for_ever,
    noise,
)


class SlowLink(FakeLink):
    """Its time passes with every read, so that a host that never ends is noticed."""

    def read(self, seconds: float) -> bytes:
        data = bytes(self.waiting[:4096])
        del self.waiting[:4096]
        self.now += min(seconds, 0.01) if data else seconds
        if self.now > LONGEST_SECONDS:
            raise EndlessError(f"more than {LONGEST_SECONDS:,.0f} seconds")
        return data


class WorkingLink(SlowLink):
    """Whatever is asked, the board works on it; it says so as often as it is listened to."""

    def read(self, seconds: float) -> bytes:
        if not self.waiting and self.device.kept is not None:
            self.waiting += wire(
                self.device.kept[0], self.device.session, self.device.sequence, Status.WORKING, b""
            )
        return super().read(seconds)
