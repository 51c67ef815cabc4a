"""The protocol's C with a board and a model in memory, as a shared library."""

from __future__ import annotations

import ctypes
import struct
import zlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from cobs import cobs

from tests.compiled import linked

REPOSITORY = Path(__file__).resolve().parents[2]
FIRMWARE = REPOSITORY / "firmware"
HERE = Path(__file__).resolve().parent
SOURCES = (
    HERE / "fake" / "fake.c",
    HERE / "fake" / "fake_model.c",
    FIRMWARE / "protocol" / "mct_frame.c",
    FIRMWARE / "protocol" / "mct_protocol.c",
    FIRMWARE / "store" / "mct_store.c",
    FIRMWARE / "runtime" / "mct_state.c",
)
WITH_RING = tuple(path.with_name(path.name.replace("mct_store.c", "mct_log.c")) for path in SOURCES)
"""The device that remembers latents."""
INCLUDES = (
    *(HERE, HERE / "fake"),
    *(FIRMWARE / name for name in ("app", "protocol", "store", "runtime")),
)
FLAGS = ("-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror")
INPUT_BYTES = 700
SLOT_BYTES = 1024
HEADER = struct.Struct("<BBHH2x")
"""Of a request."""
NUMBERS = struct.Struct("<3H")
"""Of a response: session, sequence, status."""


def compile_c(
    compiler: tuple[str, ...], output: Path, *more: str, sources: tuple[Path, ...] = SOURCES
) -> None:
    """Build the device and what `more` adds; what was built of the same C before is copied."""
    command = [*compiler, *FLAGS, *(f"-I{path}" for path in INCLUDES), *map(str, sources), *more]
    linked([*command, "-o", output], output.parent)


class Answer(NamedTuple):
    """A response without its framing."""

    command: int
    session: int
    sequence: int
    status: int
    body: bytes


class FakeDevice:
    """Talks to the C: what the host would send, in raw bytes or as requests."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.c = library
        self._sent = ctypes.create_string_buffer(1 << 16)
        self.c.fake_erase_flash()
        self.c.fake_begin()

    def send_bytes(self, data: bytes) -> list[Answer]:
        """Raw bytes to the device; what it answers."""
        self.c.fake_receive(data, len(data))
        count = self.c.fake_sent(self._sent, len(self._sent))
        frames = ctypes.string_at(self._sent, count).split(b"\0")
        return [_answer(cobs.decode(frame)) for frame in frames if frame]

    def ask(self, command: int, sequence: int, body: bytes = b"", session: int = 7) -> Answer:
        """The last answer to a request; WORKING comes before it for some."""
        return self.send_bytes(frame(command, sequence, body, session))[-1]

    def identify(self, session: int = 7) -> Answer:
        """Begins a session whose next sequence number is 1."""
        return self.ask(0x01, 0, session=session)

    def state(self) -> bytes:
        """What the board would save."""
        buffer = ctypes.create_string_buffer(self.c.fake_saved_bytes())
        self.c.fake_read_state(buffer)
        return buffer.raw


@lru_cache(maxsize=2048)
def frame(
    command: int, sequence: int, body: bytes = b"", session: int = 7, version: int = 1
) -> bytes:
    """A request as it is on the wire; runs that differ in a power cut send the same ones."""
    content = HEADER.pack(version, command, session, sequence % 65536) + body
    return b"\0" + cobs.encode(content + zlib.crc32(content).to_bytes(4, "little")) + b"\0"


def _answer(content: bytes) -> Answer:
    assert zlib.crc32(content[:-4]) == int.from_bytes(content[-4:], "little")
    assert content[0] == 1
    return Answer(content[1], *NUMBERS.unpack_from(content, 2), content[8:-4])
