"""A saved state survives: whatever flash operation the power fails in, one whole state is there."""

from __future__ import annotations

import ctypes
import struct
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.protocol.device import SLOT_BYTES, FakeDevice, compile_c

OPERATIONS = 1 + 3 + 1
"""Of one save: an erase, where one is due, the pages of the state, page 0."""
same_device = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


RECORD_BYTES = 256 + 768
GEOMETRIES = {
    "one record": (SLOT_BYTES, SLOT_BYTES),
    "records in a unit": (8 * RECORD_BYTES, 8 * RECORD_BYTES),
    "units of four": (8 * RECORD_BYTES, 4 * RECORD_BYTES),
    "a unit each": (5 * RECORD_BYTES, RECORD_BYTES),
    "units in a record": (5 * RECORD_BYTES, RECORD_BYTES // 2),
    "across units": (6 * RECORD_BYTES, 6 * 256),
    "with a rest": (9 * RECORD_BYTES - 512, 512),
}
"""Bytes of a slot, and of what is erased at once."""


@pytest.fixture(scope="session")
def libraries(c_compilers, tmp_path_factory):
    """The device with slots of each kind."""
    made = {}
    for name, (slot_bytes, erase_bytes) in GEOMETRIES.items():
        path = tmp_path_factory.mktemp("store") / "device.so"
        sizes = (f"-DMCT_SLOT_BYTES={slot_bytes}", f"-DMCT_SLOT_ERASE_BYTES={erase_bytes}")
        compile_c(c_compilers[0], path, "-shared", "-fPIC", *sizes)
        made[name] = ctypes.CDLL(str(path))
    return made


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, OPERATIONS)), max_size=40))
@pytest.mark.parametrize("geometry", GEOMETRIES)
@same_device
def test_power_cuts_leave_the_last_saved_state_or_the_new_one(libraries, geometry, course):
    device = FakeDevice(libraries[geometry])
    kept = device.state()
    for steps, cut in course:
        for _ in range(steps):
            device.c.fake_train_once()
        now = device.state()
        device.c.fake_cut_after(cut)
        done = device.c.fake_save()
        device.c.fake_cut_after(-1)
        assert done == (1 if cut in (-1, OPERATIONS) else -1) or cut == OPERATIONS - 1
        if done == -1 or steps % 2:
            device.c.fake_begin()
        found = device.state()
        assert found in ((now,) if done == 1 else (kept, now))
        kept = found


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_saves_go_round_and_erase_everything_once_in_each_round(libraries, geometry):
    device = FakeDevice(libraries[geometry])
    slot_bytes, _ = GEOMETRIES[geometry]
    for rounds in (1, 2, 3):
        for _ in range(2 * (slot_bytes // RECORD_BYTES)):
            device.c.fake_train_once()
            assert device.c.fake_save() == 1
            assert device.c.fake_most_erased() == rounds
    now = device.state()
    device.c.fake_begin()
    assert device.state() == now


@pytest.mark.parametrize(
    ("geometry", "erasures"),
    [("one record", 8), ("records in a unit", 2), ("units of four", 2), ("a unit each", 2)],
)
def test_a_restart_before_each_save_costs_a_record_at_most(libraries, geometry, erasures):
    device = FakeDevice(libraries[geometry])
    for number in range(1, 17):
        device.c.fake_begin()
        device.c.fake_train_once()
        assert device.c.fake_save() == 1
        now = device.state()
        device.c.fake_begin()
        assert device.state() == now
        assert int.from_bytes(device.identify().body[56:60], "little") == number
    assert device.c.fake_most_erased() == erasures


def test_a_record_that_is_damaged_brings_back_the_one_before(libraries):
    device = FakeDevice(libraries["units of four"])
    states = []
    for _ in range(6):
        device.c.fake_train_once()
        device.c.fake_save()
        states.append(device.state())
    for left in (5, 4, 3):
        device.c.fake_flip_flash(left * RECORD_BYTES + 300, 0x10)
        device.c.fake_begin()
        assert device.state() == states[left - 1]


def test_a_cut_before_the_last_page_leaves_the_old_state(device):
    device.c.fake_train_once()
    assert device.c.fake_save() == 1
    old = device.state()
    for cut in range(OPERATIONS - 1):  # in the last one enough may be written already
        device.c.fake_begin()
        device.c.fake_train_once()
        device.c.fake_cut_after(cut)
        assert device.c.fake_save() == -1
        device.c.fake_begin()
        assert device.state() == old


@pytest.mark.parametrize("offset", [0, 5, 9, 256, 270, 500, 256 + 24 + 599])
def test_a_flipped_bit_in_the_newest_slot_brings_back_the_one_before(device, offset):
    device.c.fake_train_once()
    device.c.fake_save()  # slot 0
    old = device.state()
    device.c.fake_train_once()
    device.c.fake_save()  # slot 1
    device.c.fake_flip_flash(SLOT_BYTES + offset, 0x10)
    device.c.fake_begin()
    assert device.state() == old


def test_a_state_of_another_model_is_not_restored_and_is_reported(device):
    initial = device.state()
    device.c.fake_train_once()
    device.c.fake_save()
    device.c.fake_flip_flash(256 + 8, 1)  # the model's hash
    device.c.fake_begin()
    assert device.state() == initial
    flags = int.from_bytes(device.identify().body[2:4], "little")
    assert flags == 2 | 4 | 8


def test_saves_are_numbered_on(device):
    for _ in range(7):
        device.c.fake_train_once()
        device.c.fake_save()
        device.c.fake_begin()
    assert int.from_bytes(device.identify().body[56:60], "little") == 7


@pytest.mark.parametrize(("saves", "older"), [(2, 0), (3, SLOT_BYTES)])
def test_another_models_older_state_is_reported_beside_one_of_this_model(device, saves, older):
    for _ in range(saves):
        device.c.fake_train_once()
        device.c.fake_save()
    now = device.state()
    device.c.fake_flip_flash(older + 256 + 8, 1)  # its model
    device.c.fake_begin()
    assert device.state() == now
    assert int.from_bytes(device.identify().body[2:4], "little") == 1 | 2 | 4 | 8


def test_the_save_behind_the_last_number_is_newer_than_it(device):
    device.c.fake_train_once()
    device.c.fake_save()
    begin, last = (b"MCTF" + struct.pack("<I", number) for number in (1, 2**32 - 1))
    before, after = (page + struct.pack("<I", zlib.crc32(page)) for page in (begin, last))
    for offset, (old, new) in enumerate(zip(before, after, strict=True)):
        device.c.fake_flip_flash(offset, old ^ new)
    device.c.fake_begin()
    assert int.from_bytes(device.identify().body[56:60], "little") == 2**32 - 1
    device.c.fake_train_once()
    assert device.c.fake_save() == 1
    now = device.state()
    device.c.fake_begin()
    assert device.state() == now
    assert int.from_bytes(device.identify().body[56:60], "little") == 1, "0 is none"
