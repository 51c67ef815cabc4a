"""SELECT takes a share of a step's time up to the whole, and refuses what is more."""

from __future__ import annotations

import ctypes
import struct

import pytest

from tests.protocol.device import FakeDevice, compile_c
from tests.protocol.test_protocol import OK, POSITION, Talk

SELECT, SHARE = 0x10, 34
WHOLE = 65_536
EVERY = 20


@pytest.fixture(scope="module")
def library(c_compilers, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """A device that chooses what it trains."""
    path = tmp_path_factory.mktemp("selecting") / "device.so"
    compile_c(c_compilers[0], path, "-shared", "-fPIC", "-DMCT_FORWARD_TIME=1u")
    return ctypes.CDLL(str(path))


@pytest.mark.parametrize("share", [WHOLE + 1, 2 * WHOLE, 2**31, 2**32 - 1])
def test_a_share_above_a_whole_step_is_refused_and_changes_nothing(library, share: int) -> None:
    talk = Talk(FakeDevice(library))
    before = talk.device.state()
    assert talk.ask(SELECT, struct.pack("<II", share, EVERY)).status == SHARE
    assert talk.device.state() == before
    assert talk.ask(SELECT, struct.pack("<II", WHOLE, EVERY)).status == OK
    assert talk.device.state() != before, "all are selected at a period's begin"
    talk.sample()
    talk.train(1, 0)
    assert talk.ask(SELECT, struct.pack("<II", share, 1000)).status == SHARE
    assert talk.ask(SELECT, struct.pack("<II", WHOLE, 1000)).status == POSITION
