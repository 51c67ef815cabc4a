"""Files of sums: read as they were written, and no other bytes are taken for one."""

from __future__ import annotations

import lzma
import struct
import zlib
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.errors import ArgumentError, StateError
from mcutrain.fleets import Contribution
from mcutrain.fleets.contribution import HEADER, MOST_WEIGHT
from tests.fleets.fleet import fleet

NUMBERS = st.one_of(
    st.integers(-128, 127), st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31)
)


@st.composite
def contributions(draw: st.DrawFn) -> Contribution:
    names = draw(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3, unique=True))
    boards = draw(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4, unique=True))
    weight = draw(st.integers(1, MOST_WEIGHT))
    sums = {
        name: np.array(draw(st.lists(NUMBERS, max_size=20)), np.int64) * weight for name in names
    }
    return Contribution(
        model_hash=draw(st.integers(0, 2**64 - 1)),
        base="ab" * 32,
        boards=tuple(sorted(boards)),
        weight=weight,
        updates=draw(st.integers(0, 2**32 - 1)),
        output_exponent=draw(st.integers(0, 31)),
        sums=sums,
    )


@given(contributions())
def test_a_file_is_read_as_it_was_written(one: Contribution) -> None:
    again = Contribution.parse(one.to_bytes(), "a file")
    assert replace(again, sums={}) == replace(one, sums={})
    assert list(again.sums) == list(one.sums)
    assert all(np.array_equal(again.sums[n], one.sums[n]) for n in one.sums)
    assert all(again.sums[n].dtype == np.int64 for n in one.sums)


@given(contributions(), st.data())
def test_other_bytes_get_a_sentence(one: Contribution, data: st.DataObject) -> None:
    raw = bytearray(one.to_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):  # as someone who forges one would
        raw[-4:] = zlib.crc32(raw[:-4]).to_bytes(4, "little")
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    with pytest.raises(StateError, match=r"forged\.mctd") if not reads(raw) else nullcontext():
        read = Contribution.parse(bytes(raw), "forged.mctd")
        assert all(np.all(np.abs(v) <= read.weight * 2**31) for v in read.sums.values())


def reads(raw: bytes) -> bool:
    """Whether bytes are a sum, which a forged one may be."""
    try:
        Contribution.parse(bytes(raw), "forged.mctd")
    except StateError:
        return False
    return True


@given(st.binary(max_size=200))
def test_drawn_bytes_get_a_sentence(raw: bytes) -> None:
    for given_ in (raw, b"MCTD\1" + raw):
        with pytest.raises(StateError, match="noise"):
            Contribution.parse(given_, "noise")


def forged(head: str, packed: bytes) -> bytes:
    text = head.encode()
    whole = HEADER.pack(b"MCTD", 1, 0, len(text), len(packed)) + text + packed
    return whole + zlib.crc32(whole).to_bytes(4, "little")


HEAD = (
    '{{"base": "x", "boards": ["a"], "factor": {weight}, "weight": {weight}, "updates": 1, '
    '"output_exponent": 0, "tensors": [{{"name": "w", "count": {count}, "width": {width}}}]}}'
)


def packed(raw: bytes) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 0, "pb": 0}]
    return lzma.compress(raw, lzma.FORMAT_RAW, filters=filters)


@pytest.mark.slow
def test_a_small_file_makes_no_gigabytes() -> None:
    bomb = packed(bytes(2**26))
    found = Contribution.parse(forged(HEAD.format(weight=1, count=4, width=1), bomb), "f")
    assert found.sums["w"].size == 4
    for count, width in ((2**26 + 1, 1), (2**62, 8), (-1, 1), (1, 3)):
        with pytest.raises(StateError):
            Contribution.parse(forged(HEAD.format(weight=1, count=count, width=width), bomb), "f")


@pytest.mark.slow
def test_a_file_has_no_more_numbers_than_a_board() -> None:
    half = 2**25 + 1
    head = HEAD.format(weight=1, count=half, width=1)
    two = head.replace("}]", f'}}, {{"name": "v", "count": {half}, "width": 1}}]')
    with pytest.raises(StateError):
        Contribution.parse(forged(two, packed(bytes(2 * half))), "f")
    assert Contribution.parse(forged(head, packed(bytes(half))), "f").sums["w"].size == half


def test_sums_that_no_boards_make_are_refused() -> None:
    number = packed(struct.pack("<q", 2**31 + 1))
    with pytest.raises(StateError):
        Contribution.parse(forged(HEAD.format(weight=3, count=1, width=8), number), "f")
    most = packed(struct.pack("<q", 2**31))
    found = Contribution.parse(forged(HEAD.format(weight=3, count=1, width=8), most), "f")
    assert found.sums["w"].tolist() == [3 * 2**31]


def test_weights_and_names_have_limits() -> None:
    ours = fleet()
    for weight in (0, -1, MOST_WEIGHT + 1):
        with pytest.raises(ArgumentError, match="weight"):
            Contribution.of(ours.layout, ours.base, ours.states[0], "a", weight)
    for name in ("", "a" * 201, "\udcff", 3):
        with pytest.raises(ArgumentError, match="name"):
            Contribution.of(ours.layout, ours.base, ours.states[0], name, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("exponent", [-1, 32])
def test_an_exponent_that_no_training_makes_is_refused(exponent: int) -> None:
    ours = fleet()
    numbers = ours.layout.read(ours.base)
    raw = ours.layout.with_numbers(ours.base, numbers, 1, exponent)
    with pytest.raises(StateError, match="damaged"):
        Contribution.of(ours.layout, ours.base, ours.layout.saved(raw, "a state"), "a", 1)


def test_a_board_sends_fewer_bytes_than_its_state() -> None:
    for one in fleet().contributions():
        count = sum(v.size for v in one.sums.values())
        assert len(one.to_bytes()) < len(fleet().base.raw) < 4 * count
