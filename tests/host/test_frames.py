"""Frames arrive whole, in whatever pieces their bytes come, and damaged ones are noticed."""

import itertools
import zlib

from cobs import cobs
from hypothesis import given
from hypothesis import strategies as st
from mcutrain_host.frames import MAX_FRAME_BYTES, BadFrame, FrameReader, decode, encode

payloads = st.binary(min_size=8, max_size=520)


@given(payloads)
def test_a_frame_is_decoded_to_what_was_encoded(payload: bytes) -> None:
    wire = encode(payload)
    assert wire[0] == wire[-1] == 0
    assert 0 not in wire[1:-1]
    assert decode(wire[1:-1]) == payload


@given(st.lists(payloads, max_size=4), st.lists(st.integers(0, 2500), max_size=6))
def test_frames_are_found_in_pieces_of_any_size(sent: list[bytes], cuts: list[int]) -> None:
    wire = b"".join(map(encode, sent))
    reader = FrameReader()
    found: list[bytes | BadFrame] = []
    edges = [0, *sorted(min(c, len(wire)) for c in cuts), len(wire)]
    for first, last in itertools.pairwise(edges):
        found += reader.feed(wire[first:last])
    assert found == sent


@given(payloads, st.data())
def test_a_changed_lost_or_doubled_byte_never_gives_another_payload(
    payload: bytes, data: st.DataObject
) -> None:
    wire = bytearray(encode(payload))
    at = data.draw(st.integers(0, len(wire) - 1))
    kind = data.draw(st.sampled_from(("change", "lose", "double")))
    if kind == "change":
        wire[at] ^= data.draw(st.integers(1, 255))
    elif kind == "lose":
        del wire[at]
    else:
        wire.insert(at, wire[at])
    found = FrameReader().feed(bytes(wire) + b"\0")
    assert all(isinstance(frame, BadFrame) or frame == payload for frame in found)


@given(st.binary(max_size=3000))
def test_noise_before_a_frame_costs_at_most_noise(noise: bytes) -> None:
    reader = FrameReader()
    found = reader.feed(noise) + reader.feed(encode(b"payload of a frame"))
    assert found[-1] == b"payload of a frame"


def test_noise_without_a_zero_is_not_kept() -> None:
    reader = FrameReader()
    for _ in range(100):
        assert reader.feed(b"\x01" * 1000) == []
    (frame,) = reader.feed(b"\0")
    assert isinstance(frame, BadFrame)
    assert len(frame.raw) == MAX_FRAME_BYTES


def test_the_checksum_is_that_of_zlib_over_the_payload() -> None:
    payload = bytes(range(16))
    checked = payload + zlib.crc32(payload).to_bytes(4, "little")
    assert encode(payload) == b"\0" + cobs.encode(checked) + b"\0"


def test_a_frame_without_room_for_a_checksum_is_bad() -> None:
    assert isinstance(decode(cobs.encode(b"ab")), BadFrame)
