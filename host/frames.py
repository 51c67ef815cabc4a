"""Frames of docs/protocol.md: a zero, COBS of payload and CRC-32, a zero."""

from __future__ import annotations

import zlib

from cobs import cobs
from mcutrain_host.dataclass import dataclass

CRC_BYTES = 4
MAX_FRAME_BYTES = 1024
"""More than a frame can have; what is longer is noise and not kept."""


@dataclass(frozen=True)
class BadFrame:
    """Bytes between two zeros that are no frame."""

    raw: bytes


def encode(payload: bytes) -> bytes:
    """A payload (header and body) as it goes over the wire."""
    checked = payload + zlib.crc32(payload).to_bytes(CRC_BYTES, "little")
    return b"\0" + bytes(cobs.encode(checked)) + b"\0"


def decode(raw: bytes) -> bytes | BadFrame:
    """The payload of the bytes between two zeros."""
    try:
        checked = bytes(cobs.decode(raw))
    except cobs.DecodeError:
        return BadFrame(raw)
    payload, crc = checked[:-CRC_BYTES], checked[-CRC_BYTES:]
    if len(crc) < CRC_BYTES or zlib.crc32(payload) != int.from_bytes(crc, "little"):
        return BadFrame(raw)
    return payload


class FrameReader:
    """Bytes in, in pieces of any size; payloads and bad frames out, in order."""

    def __init__(self) -> None:
        self._raw = bytearray()

    def feed(self, data: bytes) -> list[bytes | BadFrame]:
        """The frames that end within `data`. Empty ones mean nothing and are left out."""
        *ended, rest = data.split(b"\0")
        frames = []
        for piece in ended:
            self._keep(piece)
            if self._raw:
                frames.append(decode(bytes(self._raw)))
            self._raw.clear()
        self._keep(rest)
        return frames

    def clear(self) -> None:
        """Forget the beginning of a frame."""
        self._raw.clear()

    def _keep(self, piece: bytes) -> None:
        room = MAX_FRAME_BYTES - len(self._raw)
        self._raw += piece[:room]
