"""A board that chooses what it trains goes on after any power cut, and ends with the same bits."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.protocol.device import SOURCES, WITH_RING, FakeDevice, compile_c
from tests.protocol.test_ring import OK, SAMPLE, SAVE, TRAIN, Host
from tests.protocol.test_store import GEOMETRIES as STORES

SELECT, RESAMPLE, SHARE = 0x10, 0x12, 1 << 15
EVERY, LOOK, STEPS = 8, 2, 48
"""Steps of a period and of a window, of two samples in each update; of a run."""
RINGS = {"ring, least room": 22 * 256, "ring, more room": 31 * 256}
"""Bytes of a slot: four latents of 2 pages, four states of 3, and one latent more."""
RESAMPLING = "one record, resampling"
ALL = (*STORES, *RINGS, RESAMPLING)


@pytest.fixture(scope="session")
def libraries(c_compilers, tmp_path_factory):
    made = {}
    for name in ALL:
        path = tmp_path_factory.mktemp("choices") / "device.so"
        slot_bytes, unit_bytes = STORES.get(name, (RINGS.get(name, 1024), RINGS.get(name, 1024)))
        defines = {"FORWARD_TIME": 1, "SLOT_BYTES": slot_bytes, "SLOT_ERASE_BYTES": unit_bytes}
        if name in RINGS:
            defines |= {"LATENT_BYTES": 300, "REMEMBER": 4, "RING_ID": 1}
        if name == RESAMPLING:
            defines |= {"BACKING_BYTES": "0u"}
        flags = [f"-DMCT_{key}={value}" for key, value in defines.items()]
        sources = WITH_RING if name in RINGS else SOURCES
        compile_c(c_compilers[0], path, "-shared", "-fPIC", *flags, sources=sources)
        made[name] = ctypes.CDLL(str(path))
    return made


class Chooser(Host):
    """Trains as `mcutrain train` does: between windows and choice it saves nothing."""

    def __init__(
        self, library: ctypes.CDLL, squares: bool = False, resamples: bool = False
    ) -> None:
        self.device, self.squares, self.resamples = FakeDevice(library), squares, resamples
        self.refused: list[int] = []
        self.begin()

    def run(self) -> bytes:
        position = self.begin()
        while position < STEPS:
            done = self.select(position) and self.step(position)
            if done and position % EVERY == 5 and position // EVERY % 3 != 1:
                done = self.ask(SAVE) is not None
            position = position + 1 if done else self.begin()
        return self.device.state()

    def select(self, position: int) -> bool:
        place = position % EVERY
        if (
            self.resamples
            and place == 0
            and self.ask(RESAMPLE, EVERY.to_bytes(4, "little")) is None
        ):
            return False
        if place not in (0, 2 * LOOK) and (place != LOOK or self.squares):
            return True
        body = SHARE.to_bytes(4, "little") + EVERY.to_bytes(4, "little")
        answer = self.ask(SELECT, body + (b"\1" if self.squares else b""))
        assert answer is None or answer.status == OK, (position, answer)
        return answer is not None

    def step(self, position: int) -> bool:
        sample = bytes([position % 256]) * 700
        for offset in (0, 350):
            piece = offset.to_bytes(4, "little") + sample[offset : offset + 350]
            if self.ask(SAMPLE, piece) is None:
                return False
        label = (position % 10).to_bytes(4, "little")
        rate = (1 << 30).to_bytes(4, "little") + bytes(4)
        done = self.ask(TRAIN, label + position.to_bytes(4, "little") + rate)
        assert done is None or done.status == OK
        return done is not None


@pytest.mark.slow
@pytest.mark.draws(8)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("squares", [False, True])
def test_a_power_cut_in_any_operation_of_the_flash_changes_no_choice(libraries, name, squares):
    resamples, cuts = name == RESAMPLING, 0
    expected = Chooser(libraries[name], squares, resamples).run()
    while True:
        chooser = Chooser(libraries[name], squares, resamples)
        chooser.device.c.fake_cut_after(cuts)
        assert chooser.run() == expected, cuts
        if chooser.device.c.fake_operations_left() >= 0:
            break  # there were fewer
        cuts += 1
    assert cuts > 40


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 12), max_size=40))
@pytest.mark.parametrize("name", ALL)
def test_many_power_cuts_change_no_choice(libraries, name, cuts):
    expected = Chooser(libraries[name], resamples=name == RESAMPLING).run()
    chooser = Chooser(libraries[name], resamples=name == RESAMPLING)
    chooser.device.c.fake_cuts(len(cuts), (ctypes.c_int32 * len(cuts))(*cuts))
    assert chooser.run() == expected
