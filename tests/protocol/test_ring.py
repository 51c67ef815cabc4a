"""A ring of latents in flash: after a power cut anywhere, training ends with the bits of none."""

from __future__ import annotations

import ctypes
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.simulation.replay import NOWHERE, slots_of_offers, slots_of_replays, with_replays
from tests.protocol.device import WITH_RING, Answer, FakeDevice, compile_c, frame

STATE_BYTES, CLASSES = 600, 10
SAMPLE, TRAIN, STATISTICS, WRITE_STATE, SAVE, RESTORE, RESET = 2, 4, 7, 9, 10, 11, 12
LATENT, REPLAY = 14, 15
OK, LENGTH, OFFSET, SAMPLE_INCOMPLETE, POSITION, RATE_MISSING, FORGOTTEN = 0, 19, 22, 23, 25, 26, 33
FLASH = 30
RATE = (1 << 30).to_bytes(4, "little") + bytes(4)
REMEMBER = 4
GEOMETRIES = {
    "narrow": (16 * 256, 300),
    "wider": (29 * 256, 300),
    "long": (38 * 256, 1300),
    "units": (40 * 256, 1300),
}
"""Bytes of a slot and of a latent: a state takes 3 pages, the ring four times 2, or 6."""
UNIT_BYTES = {"units": 1024}
"""Of what is erased at once, where it is not the slot."""
SAVE_EVERY = 7
STATE_ENTRY, LATENT_ENTRY, RING_ID = 1, 2, 1


@pytest.fixture(scope="session")
def libraries(c_compilers, tmp_path_factory):
    made = {}
    for name in GEOMETRIES:
        path = tmp_path_factory.mktemp("ring") / "device.so"
        made[name] = build(c_compilers[0], path, name, RING_ID)
    return made


def build(compiler, path, geometry: str, ring: int) -> ctypes.CDLL:
    slot_bytes, latent_bytes = GEOMETRIES[geometry]
    sizes = {"SLOT_BYTES": slot_bytes, "LATENT_BYTES": latent_bytes, "REMEMBER": REMEMBER}
    sizes |= {"SLOT_ERASE_BYTES": UNIT_BYTES.get(geometry, slot_bytes), "RING_ID": ring}
    defines = [f"-DMCT_{key}={value}" for key, value in sizes.items()]
    compile_c(compiler, path, "-shared", "-fPIC", *defines, sources=WITH_RING)
    return ctypes.CDLL(str(path))


@lru_cache(maxsize=2048)
def latent(number: int, size: int) -> bytes:
    return np.random.default_rng(number).bytes(size)


def saved(body: bytes) -> bytes:
    """What the fake model's state is saved as."""
    header = b"MCTS" + struct.pack("<IQI", 1, 0x0123456789ABCDEF, STATE_BYTES)
    return header + zlib.crc32(header + body).to_bytes(4, "little") + body


def entry(kind: int, place: int, number: int, payload: bytes) -> bytes:
    """Of the log, as the firmware writes it: whole pages."""
    total = zlib.crc32(payload) if kind == LATENT_ENTRY else 0
    header = struct.pack("<IHHIIHHI", total, kind, place, number, 3, 0, RING_ID, 0)
    pages = -(-(32 + len(payload)) // 256) * 256
    pages_from_8 = (header + payload).ljust(pages - 8, b"\xff")
    return b"MCTL" + zlib.crc32(pages_from_8[:248]).to_bytes(4, "little") + pages_from_8


def looks_like_a_log(number: int, size: int) -> bytes:
    """Behind the first page lie a state that is newer than all, and a latent, both sound."""
    state = saved(bytes([1, 0, 0, 0, 77, 0, 0, 0]).ljust(STATE_BYTES, bytes([number % 256])))
    inside = entry(STATE_ENTRY, 0, 2**30 + number, state) + entry(LATENT_ENTRY, 0, 0, bytes(size))
    return (latent(number, 224) + inside[number % 2 * 768 :]).ljust(size, b"\xff")[:size]


def ends_erased(number: int, size: int) -> bytes:
    return latent(number, size // 4).ljust(size, b"\xff")


CONTENTS: dict[str, Callable[[int, int], bytes]] = {
    "drawn": latent,
    "all 0xFF": lambda number, size: b"\xff" * size,
    "all 0": lambda number, size: bytes(size),
    "ends erased": ends_erased,
    "looks like a log": looks_like_a_log,
}


class Host:
    """Trains as `mcutrain train --replay` does: what a step takes follows from its position."""

    def __init__(
        self,
        libraries: dict[str, ctypes.CDLL],
        geometry: str,
        samples: int,
        replay: int,
        content: str = "drawn",
    ) -> None:
        self.device = FakeDevice(libraries[geometry])
        self.latent = CONTENTS[content]
        self.latent_bytes = GEOMETRIES[geometry][1]
        self.replay, self.total = replay, samples * (1 + replay)
        self.order = with_replays(np.arange(samples), replay, REMEMBER)
        self.saves_at_once = False
        self.begin()

    def begin(self) -> int:
        """A session; returns the board's position."""
        self.session = getattr(self, "session", 0) % 65535 + 1
        self.sequence = 0
        return int.from_bytes(self.device.identify(self.session).body[12:16], "little")

    def ask(self, command: int, body: bytes = b"") -> Answer | None:
        """The answer; None if the power failed before it came."""
        self.sequence += 1
        answers = self.device.send_bytes(frame(command, self.sequence, body, self.session))
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
        content = self.latent(number, self.latent_bytes)
        for offset in range(0, len(content), 500):
            piece = content[offset : offset + 500]
            if self.ask(LATENT, offset.to_bytes(4, "little") + piece) is None:
                return False
        done = self.ask(TRAIN, (number % CLASSES).to_bytes(4, "little") + at + RATE)
        assert done is None or done.status in (OK, FLASH)
        return done is not None and done.status == OK

    def train(self) -> None:
        """To the end, with saves between."""
        position = self.begin()
        while position < self.total:
            done = self.step(position)
            if done and (position + 1) % SAVE_EVERY == 0:
                done = self.ask(SAVE) is not None
            position = position + 1 if done else self.again()

    def again(self) -> int:
        """After a power cut: what is saved now is there after the next one. Returns the position.

        It may stand behind what the cut has torn, in the same slot or the other one.
        """
        position = self.begin()
        saved = self.ask(SAVE) if self.saves_at_once else None
        if saved is not None:
            assert saved.status == OK
            self.device.c.fake_begin()
            assert self.begin() == position
            number = self.device.identify(self.session).body[56:60]
            assert number == saved.body[:4]
        return position


def expected(geometry: str, samples: int, replay: int, content: str = "drawn") -> bytes:
    """The state of the fake model, by numpy."""
    state = np.zeros(STATE_BYTES, np.uint8)
    order = with_replays(np.arange(samples), replay, REMEMBER)
    for number in order:
        x = np.frombuffer(CONTENTS[content](int(number), GEOMETRIES[geometry][1]), np.uint8)
        with np.errstate(over="ignore"):
            new = state * np.uint8(31) + x[np.arange(STATE_BYTES) % len(x)]
            state[8:] = (new + np.uint8(int(number) % CLASSES))[8:]
    state[:4] = (1, 0, 0, 0)
    state[4:8] = np.frombuffer(len(order).to_bytes(4, "little"), np.uint8)
    return state.tobytes()


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("replay", [0, 1, 3])
def test_a_board_replays_what_the_simulation_replays(libraries, geometry, replay):
    host = Host(libraries, geometry, 40, replay)
    host.train()
    assert host.device.state()[24:] == expected(geometry, 40, replay)


@pytest.mark.draws(8)
@pytest.mark.parametrize(
    ("geometry", "content"),
    [
        *((geometry, "drawn") for geometry in ("narrow", "wider", "units")),
        *(("long", content) for content in CONTENTS),
        ("units", "looks like a log"),
    ],
)
@pytest.mark.parametrize("saves_at_once", [False, True])
def test_a_power_cut_in_any_operation_of_the_flash_changes_no_bit(
    libraries, geometry, saves_at_once, content
):
    """One cut in each run: whole pages that were being written or erased are left by half."""
    whole, cuts = expected(geometry, 24, 1, content), 0
    while True:
        host = Host(libraries, geometry, 24, 1, content)
        host.saves_at_once = saves_at_once
        host.device.c.fake_cut_after(cuts)
        host.train()
        assert host.device.state()[24:] == whole, cuts
        if host.device.c.fake_operations_left() >= 0:
            break  # there were fewer
        cuts += 1
    assert cuts > 40


@pytest.mark.draws(4)
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("saves_at_once", [False, True])
def test_what_a_power_cut_left_weak_is_erased_before_it_is_written(
    libraries, geometry, saves_at_once
):
    """A page that was being written may read as erased now, and otherwise at the next start."""
    whole, cuts = expected(geometry, 24, 1), 0
    while True:
        host = Host(libraries, geometry, 24, 1)
        host.saves_at_once = saves_at_once
        host.device.c.fake_leave_no_trace()
        host.device.c.fake_cut_after(cuts)
        host.train()
        assert host.device.state()[24:] == whole, cuts
        assert host.device.c.fake_weak_writes() == 0, cuts
        if host.device.c.fake_operations_left() >= 0:
            break  # there were fewer
        cuts += 1
    assert cuts > 40


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_an_error_of_the_flash_in_any_operation_changes_no_bit(libraries, geometry):
    """What was to be written is left by half, and refused; the host asks again."""
    whole, good = expected(geometry, 24, 1), 0
    while True:
        host = Host(libraries, geometry, 24, 1)
        host.device.c.fake_refuse_after(good)
        host.train()
        assert host.device.state()[24:] == whole, good
        if host.device.c.fake_good_operations() >= 0:
            break  # there were fewer
        saved = host.ask(SAVE)
        assert saved is not None
        assert saved.status == OK
        host.device.c.fake_begin()
        assert host.begin() == host.total
        assert host.device.state()[24:] == whole, good
        good += 1
    assert good > 40


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 60), max_size=12), replay=st.integers(0, 3))
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_many_power_cuts_change_no_bit(libraries, geometry, cuts, replay):
    host = Host(libraries, geometry, 30, replay)
    host.device.c.fake_cuts(len(cuts), (ctypes.c_int32 * len(cuts))(*cuts))
    host.train()
    assert host.device.state()[24:] == expected(geometry, 30, replay)


def test_300_power_cuts_in_one_run_change_no_bit(libraries):
    rng = np.random.default_rng(0)
    cuts = rng.integers(0, 6, 300).tolist()
    host = Host(libraries, "wider", 600, 1)
    host.device.c.fake_cuts(len(cuts), (ctypes.c_int32 * len(cuts))(*cuts))
    host.train()
    assert host.device.c.fake_operations_left() == -1, "all cuts were made"
    assert host.device.state()[24:] == expected("wider", 600, 1)


@pytest.mark.parametrize("byte", [0, 5, 9, 12, 14, 21, 40, 255, 256, 300, 331])
def test_a_latent_that_is_damaged_is_never_trained_on(libraries, byte):
    """The ring holds one; what would replay it is refused."""
    host = Host(libraries, "narrow", 1, 0)
    host.train()
    assert host.ask(SAVE).status == OK
    replay = (1).to_bytes(4, "little") + RATE
    entry = _first_latent(host.device)
    for flipped, status in ((0, OK), (0x10, FORGOTTEN)):
        host.device.c.fake_flip_flash(entry + byte, flipped)
        host.device.c.fake_begin()
        assert host.begin() == 1
        assert host.ask(REPLAY, replay).status == status
        host.device.c.fake_begin()
        assert host.device.state()[24:] == expected("narrow", 1, 0)


def test_an_erasure_is_counted_by_the_state_that_is_saved_with_it(libraries):
    host = Host(libraries, "narrow", 20, 0)
    erased = position = 0
    while erased == 0:
        assert host.step(position)
        position += 1
        erased = int.from_bytes(host.ask(STATISTICS).body[56:60], "little")
    host.device.c.fake_begin()
    host.begin()
    assert int.from_bytes(host.ask(STATISTICS).body[56:60], "little") == erased == 1


def test_the_ring_of_another_firmware_with_the_same_model_is_forgotten(
    libraries, c_compilers, tmp_path
):
    host = Host(libraries, "narrow", 1, 0)
    host.train()
    assert host.ask(SAVE).status == OK
    slot_bytes, _ = GEOMETRIES["narrow"]
    flash = [host.device.c.fake_flash(offset) for offset in range(2 * slot_bytes)]
    another = build(c_compilers[0], tmp_path / "device.so", "narrow", 2)
    for library, status in ((libraries["narrow"], OK), (another, FORGOTTEN)):
        other = Host({"narrow": library}, "narrow", 1, 0)
        for offset, byte in enumerate(flash):
            other.device.c.fake_flip_flash(offset, byte ^ 0xFF)
        other.device.c.fake_begin()
        assert other.begin() == 1
        assert other.ask(REPLAY, (1).to_bytes(4, "little") + RATE).status == status


def test_the_save_behind_the_last_number_is_newer_than_it(libraries):
    host = Host(libraries, "narrow", 1, 0)
    device = host.device
    assert host.ask(SAVE).status == OK
    entry = next(
        n for n in range(0, 2 * GEOMETRIES["narrow"][0], 256) if device.c.fake_flash(n) == ord("M")
    )
    page = bytes(device.c.fake_flash(entry + i) for i in range(256))
    content = page[8:16] + b"\xff" * 4 + page[20:]
    changed = page[:4] + zlib.crc32(content).to_bytes(4, "little") + content
    for offset, (old, new) in enumerate(zip(page, changed, strict=True)):
        device.c.fake_flip_flash(entry + offset, old ^ new)
    device.c.fake_begin()
    assert host.begin() == 0
    assert device.identify(9).body[56:60] == b"\xff" * 4
    host.train()
    assert host.ask(SAVE).status == OK
    now = device.state()
    device.c.fake_begin()
    assert device.state() == now
    assert device.identify(9).body[56:60] == bytes(4)


def _first_latent(device: FakeDevice) -> int:
    """Where its entry lies in slot 0."""
    for offset in range(0, GEOMETRIES["narrow"][0], 256):
        if device.c.fake_flash(offset + 12) == 2 and device.c.fake_flash(offset) == ord("M"):
            return offset
    raise AssertionError("none is there")


def test_requests_of_latents_and_replays_that_cannot_be_are_refused(libraries):
    host = Host(libraries, "narrow", 4, 0)
    at = (0).to_bytes(4, "little")
    assert host.ask(REPLAY, at + RATE).status == FORGOTTEN
    assert host.ask(REPLAY, at).status == RATE_MISSING
    assert host.ask(REPLAY, at + b"x").status == LENGTH
    piece = latent(0, 300)
    assert host.ask(LATENT, bytes(4)).status == LENGTH
    assert host.ask(LATENT, bytes(4) + piece + b"x").status == OFFSET
    assert host.ask(LATENT, bytes(4) + piece[:100]).status == OK
    assert host.ask(TRAIN, bytes(4) + at + RATE).status == SAMPLE_INCOMPLETE
    assert host.ask(SAMPLE, (100).to_bytes(4, "little") + piece).status == OFFSET, "a sample's"
    assert host.ask(LATENT, (100).to_bytes(4, "little") + piece[100:]).status == OFFSET
    assert host.ask(LATENT, bytes(4) + piece).status == OK
    assert host.ask(TRAIN, bytes(4) + at + RATE).status == OK
    assert host.ask(REPLAY, at + RATE).status == POSITION
    assert host.ask(REPLAY, (1).to_bytes(4, "little") + RATE).status == OK
    counted = host.ask(STATISTICS)
    assert int.from_bytes(counted.body[52:56], "little") == 1
    assert host.ask(RESET, b"\0" + at).status == OK
    assert host.ask(REPLAY, at + RATE).status == FORGOTTEN


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("cut", [None, *range(7)])
def test_a_save_that_was_answered_outlives_the_next_power_cut(libraries, content, cut):
    """Behind a latent that the power failed with, or behind one that is whole."""
    host = Host(libraries, "long", 40, 0, content)
    assert all(host.step(position) for position in range(5))
    assert host.ask(SAVE).status == OK
    host.device.c.fake_cut_after(-1 if cut is None else cut)
    for position in range(5, 8):
        if not host.step(position):
            break
    host.device.c.fake_cut_after(-1)
    host.device.c.fake_begin()
    assert host.begin() >= 5
    for _ in range(5):
        at = host.begin()
        assert host.ask(REPLAY, at.to_bytes(4, "little") + RATE).status == OK
        answer, state = host.ask(SAVE), host.device.state()
        host.device.c.fake_begin()
        assert host.begin() == at + 1
        assert host.ask(STATISTICS).body[48:52] == answer.body[:4]
        assert host.device.state() == state


@pytest.mark.parametrize("operation", [0, 1])
@pytest.mark.parametrize("geometry", ["narrow", "long", "units"])
def test_a_page_that_reads_as_an_entry_later_hides_no_save(libraries, geometry, operation):
    """The power failed in its first page, which then read as erased: weak bits."""
    pages: list[bytes] = []
    for is_cut in (False, True):
        host = Host(libraries, geometry, 40, 0)
        assert all(host.step(position) for position in range(1))
        assert host.ask(SAVE).status == OK
        before = flash(host.device, geometry)
        if is_cut:
            host.device.c.fake_leave_no_trace()
            host.device.c.fake_cut_after(0)
        host.ask(SAVE) if operation else host.step(1)
        host.device.c.fake_cut_after(-1)
        if not is_cut:
            pages = flash(host.device, geometry)
            first = next(n for n, page in enumerate(pages) if page != before[n])
    host.device.c.fake_begin()
    assert host.begin() == 1
    assert host.ask(REPLAY, (1).to_bytes(4, "little") + RATE).status == OK
    assert host.ask(SAVE).status == OK
    for offset, byte in enumerate(pages[first]):
        host.device.c.fake_flip_flash(256 * first + offset, byte ^ 0xFF)
    assert flash(host.device, geometry)[first] == pages[first], "it was not written since"
    host.device.c.fake_begin()
    assert host.begin() == 2


@pytest.mark.parametrize("geometry", ["narrow", "units"])
def test_what_earlier_firmware_has_torn_is_passed_over(libraries, geometry):
    """It wrote the first page of an entry last: others lie behind pages that are erased."""
    host = Host(libraries, geometry, 40, 0)
    assert host.step(0)
    assert host.ask(SAVE).status == OK
    pages = flash(host.device, geometry)
    begin = next(n for n, page in enumerate(pages) if page != b"\xff" * 256)
    end = next(n for n in range(begin, len(pages)) if set(pages[n : n + 2]) == {b"\xff" * 256})
    for offset, byte in enumerate(latent(1, 256)):
        host.device.c.fake_flip_flash(256 * (end + 1) + offset, byte ^ 0xFF)
    for number in range(1, 4):
        host.device.c.fake_begin()
        assert host.begin() == number
        assert host.ask(REPLAY, number.to_bytes(4, "little") + RATE).status == OK
        assert host.ask(SAVE).status == OK


def flash(device: FakeDevice, geometry: str) -> list[bytes]:
    """The pages of both slots."""
    count = 2 * GEOMETRIES[geometry][0]
    content = bytes(device.c.fake_flash(offset) for offset in range(count))
    return [content[n : n + 256] for n in range(0, count, 256)]


def test_what_an_emptied_ring_held_does_not_move_to_the_other_slot(libraries):
    """It takes room and erasures there, and nothing replays it."""
    host = Host(libraries, "wider", 40, 0)
    assert all(host.step(position) for position in range(6))
    assert host.ask(SAVE).status == OK
    assert host.ask(RESET, b"\0" + (1).to_bytes(4, "little")).status == OK
    assert host.step(0)
    assert host.ask(SAVE).status == OK
    host.device.c.fake_begin()
    assert host.begin() == 1
    before = host.ask(STATISTICS).body[56:60]
    while host.ask(STATISTICS).body[56:60] == before:
        assert host.ask(SAVE).status == OK
    pages = flash(host.device, "wider")
    slots = [pages[: len(pages) // 2], pages[len(pages) // 2 :]]
    kinds = [[page[12] for page in slot if page[:4] == b"MCTL"] for slot in slots]
    assert [LATENT_ENTRY, STATE_ENTRY] in kinds


class Model:
    """What a device is to be: weights, and a ring of values; both as they were at the last save."""

    def __init__(self, content: Callable[[int, int], bytes], latent_bytes: int) -> None:
        self.latent, self.latent_bytes = content, latent_bytes
        self.reset()
        self.kept = self.now()

    def reset(self) -> None:
        self.state = np.zeros(STATE_BYTES, np.uint8)
        self.position = self.seen = 0
        self.ring: list[int] = []

    def now(self) -> tuple[np.ndarray, int, int, list[int]]:
        return self.state, self.position, self.seen, [*self.ring]

    def restore(self) -> None:
        self.state, self.position, self.seen, ring = self.kept
        self.ring = [*ring]

    def learn(self, number: int) -> None:
        x = np.frombuffer(self.latent(number, self.latent_bytes), np.uint8)
        new = self.state * np.uint8(31) + x[np.arange(STATE_BYTES) % len(x)]
        self.state = new + np.uint8(number % CLASSES)
        self.position += 1

    def train(self, number: int) -> None:
        slot = int(slots_of_offers(self.seen, 1, REMEMBER)[0])
        self.seen += 1
        if slot == len(self.ring):
            self.ring.append(number)
        elif slot != NOWHERE:
            self.ring[slot] = number
        self.learn(number)

    def replay(self) -> bool:
        if not self.ring:
            return False
        slot = slots_of_replays(np.array([self.position]), np.array([self.seen]), REMEMBER)
        self.learn(self.ring[int(slot[0])])
        return True

    def is_in(self, device: FakeDevice) -> bool:
        saved = device.state()[24:]
        position = int.from_bytes(saved[4:8], "little")
        return (saved[8:], position) == (self.state[8:].tobytes(), self.position)


class Both:
    """The device, and what it is to be: each action is done by both."""

    def __init__(self, host: Host, filled: int = 0) -> None:
        self.host, self.has_saved = host, False
        self.model = Model(host.latent, host.latent_bytes)
        self.first = bytes(8).ljust(STATE_BYTES, bytes([filled]))

    def at(self) -> bytes:
        return self.model.position.to_bytes(4, "little")

    def train(self, number: int) -> None:
        before, save = self.model.now(), self._save_number()
        content = self.host.latent(number, self.host.latent_bytes)
        for offset in range(0, len(content), 500):
            piece = offset.to_bytes(4, "little") + content[offset : offset + 500]
            assert self.host.ask(LATENT, piece).status == OK
        label = (number % CLASSES).to_bytes(4, "little")
        assert self.host.ask(TRAIN, label + self.at() + RATE).status == OK
        self.model.train(number)
        if self._save_number() != save:  # a slot was full
            self.model.kept, self.has_saved = before, True

    def refuse(self, number: int) -> None:
        """The flash reports an error while a sample is to be remembered; it is not asked again.

        Not with states of 0xFF: what half of a page lacks of one is nothing, so it may be there.
        """
        if self.first[-1] == 0xFF:
            return
        before, save = self.model.now(), self._save_number()
        content = self.host.latent(number, self.host.latent_bytes)
        for offset in range(0, len(content), 500):
            self.host.ask(LATENT, offset.to_bytes(4, "little") + content[offset : offset + 500])
        self.host.device.c.fake_refuse_after(number % 8)
        label = (number % CLASSES).to_bytes(4, "little")
        done = self.host.ask(TRAIN, label + self.at() + RATE)
        self.host.device.c.fake_refuse_after(-1)
        assert done.status in (OK, FLASH)
        if done.status == OK:
            self.model.train(number)
        if self._save_number() != save:
            self.model.kept, self.has_saved = before, True

    def replay(self, number: int) -> None:
        at = self.at()
        done = self.model.replay()
        assert self.host.ask(REPLAY, at + RATE).status == (OK if done else FORGOTTEN)

    def save(self, number: int) -> None:
        assert self.host.ask(SAVE).status == OK
        self.model.kept, self.has_saved = self.model.now(), True

    def power(self, number: int) -> None:
        self.host.device.c.fake_begin()
        self.host.begin()
        self.model.restore()

    def cut(self, number: int) -> None:
        """The power fails while the device saves; what was learnt since is of a torn state, unless
        all that the half of the last page lacks is 0xFF."""
        before = self._save_number()
        self.host.device.c.fake_cut_after(number % 8)
        self.host.ask(SAVE)
        self.host.device.c.fake_cut_after(-1)
        self.host.begin()
        if self._save_number() != before:
            self.model.kept, self.has_saved = self.model.now(), True
        else:
            self.model.restore()

    def restore(self, number: int) -> None:
        if self.has_saved:
            assert self.host.ask(RESTORE).status == OK
            self.model.restore()

    def reset(self, number: int) -> None:
        assert self.host.ask(RESET, b"\0" + (1).to_bytes(4, "little")).status == OK
        self.model.reset()

    def write(self, number: int) -> None:
        """A state of one byte again and again."""
        whole = saved(self.first)
        for offset in range(0, len(whole), 500):
            piece = whole[offset : offset + 500]
            assert self.host.ask(WRITE_STATE, offset.to_bytes(4, "little") + piece).status == OK
        self.model.reset()
        self.model.state = np.frombuffer(self.first, np.uint8).copy()

    def _save_number(self) -> bytes:
        return self.host.ask(STATISTICS).body[48:52]


ACTIONS = ("train", "train", "train", "replay", "save", "power", "cut", "refuse", "restore")
ACTIONS += ("reset", "write")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    actions=st.lists(st.sampled_from(ACTIONS), min_size=10, max_size=120),
    content=st.sampled_from(sorted(CONTENTS)),
    filled=st.sampled_from([0, 0xFF]),
)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_future_that_did_not_happen_is_forgotten(libraries, geometry, actions, content, filled):
    """Every sample is new, so what was remembered after the last save never comes again."""
    both = Both(Host(libraries, geometry, 1, 0, content), filled)
    for number, action in enumerate(actions):
        getattr(both, action)(number)
        assert both.model.is_in(both.host.device), (number, action)


@pytest.mark.parametrize("later", range(1, 9))
@pytest.mark.parametrize("operation", range(3))
def test_what_was_remembered_before_a_torn_state_is_forgotten(libraries, later, operation):
    """The state after it is of another future, in which fewer samples were offered."""
    both = Both(Host(libraries, "wider", 1, 0))
    for number in range(5):
        both.train(number)
    both.save(0)
    for number in range(5, 5 + later):
        both.train(number)
    both.cut(operation)
    both.save(0)
    both.power(0)
    for _ in range(8):
        both.replay(0)
        assert both.model.is_in(both.host.device)


@pytest.mark.parametrize("page", range(2))
def test_a_latent_that_could_not_be_written_takes_no_place(libraries, page):
    """Its first page may be there, and say which place it was for."""
    both = Both(Host(libraries, "wider", 1, 0))
    offered = slots_of_offers(0, 100, REMEMBER)
    taken = next(n for n in range(REMEMBER, 100) if offered[n] != NOWHERE)
    for number in range(taken):
        both.train(number)
    both.save(0)  # with room behind it
    both.refuse(800 + page)
    assert both.model.seen == taken, "the flash reported an error"
    both.save(0)
    both.power(0)
    for _ in range(12):
        both.replay(0)
        assert both.model.is_in(both.host.device)
