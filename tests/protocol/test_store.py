"""A saved state survives: whatever flash operation the power fails in, one whole state is there."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.protocol.device import SLOT_BYTES, FakeDevice

OPERATIONS = 1 + 3 + 1
"""Of one save: an erase, the pages of the state, page 0."""
same_device = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, OPERATIONS)), max_size=12))
@same_device
def test_power_cuts_leave_the_last_saved_state_or_the_new_one(device_library, course):
    device = FakeDevice(device_library)
    kept = device.state()
    for steps, cut in course:
        for _ in range(steps):
            device.c.fake_train_once()
        now = device.state()
        device.c.fake_cut_after(cut)
        done = device.c.fake_save()
        device.c.fake_cut_after(-1)
        assert done == (1 if cut in (-1, OPERATIONS) else -1)
        device.c.fake_begin()
        found = device.state()
        assert found in ((now,) if done == 1 else (kept, now))
        kept = found


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
