"""A ring of latents in flash: after a power cut anywhere, training ends with the bits of none."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.simulation.replay import with_replays
from tests.protocol.device import WITH_RING, Answer, FakeDevice, compile_c

LATENT_BYTES, STATE_BYTES, CLASSES = 300, 600, 10
SAMPLE, TRAIN, STATISTICS, SAVE, RESTORE, RESET, LATENT, REPLAY = 2, 4, 7, 10, 11, 12, 14, 15
OK, OFFSET, SAMPLE_INCOMPLETE, POSITION, FORGOTTEN = 0, 22, 23, 25, 33
RATE = (1 << 30).to_bytes(4, "little") + bytes(4)
REMEMBER = 4
GEOMETRIES = {"narrow": 16 * 256, "wider": 29 * 256}
"""Bytes of a slot: the ring takes 8 pages, a state 3."""
SAVE_EVERY = 7


@pytest.fixture(scope="session")
def libraries(c_compilers, tmp_path_factory):
    made = {}
    for name, slot_bytes in GEOMETRIES.items():
        path = tmp_path_factory.mktemp("ring") / "device.so"
        defines = (
            f"-DMCT_SLOT_BYTES={slot_bytes}",
            f"-DMCT_REMEMBER={REMEMBER}",
            "-DMCT_RING_ID=1",
        )
        compile_c(c_compilers[0], path, "-shared", "-fPIC", *defines, sources=WITH_RING)
        made[name] = ctypes.CDLL(str(path))
    return made


def latent(number: int) -> bytes:
    return np.random.default_rng(number).bytes(LATENT_BYTES)


class Host:
    """Trains as `mcutrain train --replay` does: what a step takes follows from its position."""

    def __init__(self, library: ctypes.CDLL, samples: int, replay: int) -> None:
        self.device = FakeDevice(library)
        self.replay, self.total = replay, samples * (1 + replay)
        self.order = with_replays(np.arange(samples), replay, REMEMBER)
        self.labels: list[int] = []
        self.begin()

    def begin(self) -> int:
        """A session; returns the board's position."""
        self.session = getattr(self, "session", 0) % 65535 + 1
        self.sequence = 0
        return int.from_bytes(self.device.identify(self.session).body[12:16], "little")

    def ask(self, command: int, body: bytes = b"") -> Answer | None:
        """The answer; None if the power failed before it came."""
        self.sequence += 1
        answers = self.device.send_bytes(_request(command, self.sequence, body, self.session))
        final = [a for a in answers if a.status != 1]
        return final[-1] if final else None

    def step(self, position: int) -> bool:
        """Whether it was done, as far as the host can tell."""
        at = position.to_bytes(4, "little")
        if position % (1 + self.replay) != 0:
            done = self.ask(REPLAY, at + RATE)
            if done is None:
                return False
            assert done.status == OK
            assert int.from_bytes(done.body[24:28], "little") == int(self.order[position]) % CLASSES
            return True
        number = position // (1 + self.replay)
        sent = self.ask(LATENT, bytes(4) + latent(number))
        if sent is None:
            return False
        done = self.ask(TRAIN, (number % CLASSES).to_bytes(4, "little") + at + RATE)
        assert done is None or done.status == OK
        return done is not None

    def train(self) -> None:
        """To the end, with saves between."""
        position = self.begin()
        while position < self.total:
            done = self.step(position)
            if done and (position + 1) % SAVE_EVERY == 0:
                done = self.ask(SAVE) is not None
            position = position + 1 if done else self.begin()


def _request(command: int, sequence: int, body: bytes, session: int) -> bytes:
    from tests.protocol.device import frame

    return frame(command, sequence, body, session)


def expected(samples: int, replay: int) -> bytes:
    """The state of the fake model, by numpy."""
    state = np.zeros(STATE_BYTES, np.uint8)
    order = with_replays(np.arange(samples), replay, REMEMBER)
    for number in order:
        x = np.frombuffer(latent(int(number)), np.uint8)
        with np.errstate(over="ignore"):
            new = state * np.uint8(31) + np.resize(x[np.arange(STATE_BYTES) % LATENT_BYTES], 600)
            state[8:] = (new + np.uint8(int(number) % CLASSES))[8:]
    state[:4] = (1, 0, 0, 0)
    state[4:8] = np.frombuffer(len(order).to_bytes(4, "little"), np.uint8)
    return state.tobytes()


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("replay", [0, 1, 3])
def test_a_board_replays_what_the_simulation_replays(libraries, geometry, replay):
    host = Host(libraries[geometry], 40, replay)
    host.train()
    assert host.device.state()[24:] == expected(40, replay)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_power_cut_in_any_operation_of_the_flash_changes_no_bit(libraries, geometry):
    """One cut in each run: whole pages that were being written or erased are left by half."""
    whole, cuts = expected(24, 1), 0
    while True:
        host = Host(libraries[geometry], 24, 1)
        host.device.c.fake_cut_after(cuts)
        host.train()
        assert host.device.state()[24:] == whole, cuts
        if host.device.c.fake_operations_left() >= 0:
            break  # there were fewer
        cuts += 1
    assert cuts > 40


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 60), max_size=12), replay=st.integers(0, 3))
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_many_power_cuts_change_no_bit(libraries, geometry, cuts, replay):
    host = Host(libraries[geometry], 30, replay)
    host.device.c.fake_cuts(len(cuts), (ctypes.c_int32 * len(cuts))(*cuts))
    host.train()
    assert host.device.state()[24:] == expected(30, replay)


def test_300_power_cuts_in_one_run_change_no_bit(libraries):
    rng = np.random.default_rng(0)
    cuts = rng.integers(0, 6, 300).tolist()
    host = Host(libraries["wider"], 600, 1)
    host.device.c.fake_cuts(len(cuts), (ctypes.c_int32 * len(cuts))(*cuts))
    host.train()
    assert host.device.c.fake_operations_left() == -1, "all cuts were made"
    assert host.device.state()[24:] == expected(600, 1)
