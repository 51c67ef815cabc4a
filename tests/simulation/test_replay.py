"""Replay trains on what a reservoir of samples remembers; the order follows from counts alone."""

import ctypes
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.codegen import Interface
from mcutrain.data import Dataset, Split
from mcutrain.errors import DataError
from mcutrain.memplan import find_latent
from mcutrain.pipeline import prepare
from mcutrain.simulation import CompiledSimulator, Course, RunSettings, Samples
from mcutrain.simulation.replay import (
    NOWHERE,
    OFFER_KEY,
    REPLAY_KEY,
    Earlier,
    remembered,
    slots_of_offers,
    slots_of_replays,
    with_replays,
)
from tests.simulation.networks import rates, residual_network, samples

MASK = 0xFFFFFFFF
LABEL, SIZE = 1, 2
"""Of mct_status."""


def drawn(number: int, key: int, bound: int) -> int:
    """In integers of Python, as C computes it."""
    x = (number * 0x9E3779B9 + key) & MASK
    x = (x ^ (x >> 16)) * 0x21F0AAAD & MASK
    x = (x ^ (x >> 15)) * 0x735A2D97 & MASK
    return (x ^ (x >> 15)) * bound >> 32


class Device:
    """Remembers values, as a device does: one call for each step, and no future is known."""

    def __init__(self, remember: int) -> None:
        self.ring: list[int] = []
        self.remember = remember
        self.seen = self.position = 0

    def train(self, value: int) -> int:
        self.position += 1
        self.offer(value)
        return value

    def offer(self, value: int) -> None:
        n, self.seen = self.seen, self.seen + 1
        if n < self.remember:
            self.ring.append(value)
            return
        slot = drawn(n, OFFER_KEY, n + 1)
        if slot < self.remember:
            self.ring[slot] = value

    def replay(self) -> int:
        slot = drawn(self.position, REPLAY_KEY, min(self.seen, self.remember))
        self.position += 1
        return self.ring[slot]


@given(
    new=st.lists(st.integers(0, 10**6), max_size=60),
    replay=st.integers(0, 4),
    remember=st.integers(1, 50),
)
def test_the_order_is_that_of_a_reservoir_of_values(
    new: list[int], replay: int, remember: int
) -> None:
    device = Device(remember)
    expected = [
        step
        for value in new
        for step in (device.train(value), *(device.replay() for _ in range(replay)))
    ]
    assert with_replays(np.array(new, int), replay, remember).tolist() == expected


@given(
    new=st.lists(st.integers(0, 10**6), max_size=60),
    first=st.integers(0, 60),
    replay=st.integers(0, 4),
    remember=st.integers(1, 50),
)
def test_a_run_after_another_replays_as_if_both_were_one(
    new: list[int], first: int, replay: int, remember: int
) -> None:
    whole = with_replays(np.array(new, int), replay, remember)
    one, two = np.array(new[:first], int), np.array(new[first:], int)
    steps = len(one) * (1 + replay)
    ring = remembered(one, remember)
    device = Device(remember)
    for value in one:
        device.offer(value)
    assert ring.tolist() == device.ring
    earlier = Earlier(steps, len(one), tuple(ring))
    assert with_replays(two, replay, remember, earlier).tolist() == whole[steps:].tolist()
    for value in two:
        device.offer(value)
    assert remembered(two, remember, earlier).tolist() == device.ring


def test_all_samples_so_far_are_remembered_alike() -> None:
    """Of 20,000 offered samples 1,000 stay: as many of the first tenth as of the last."""
    count, remember = 20_000, 1_000
    slots = slots_of_offers(0, count, remember)
    ring = dict(zip(slots.tolist(), range(count), strict=True))
    ring.pop(NOWHERE)
    assert len(ring) == remember
    tenths = Counter(number * 10 // count for number in ring.values())
    assert all(abs(tenths[i] - 100) < 40 for i in range(10)), tenths  # four standard deviations
    accepted = int((slots != NOWHERE).sum())
    assert abs(accepted - remember * (1 + math.log(count / remember))) < 220


def test_all_remembered_samples_are_replayed_alike() -> None:
    steps = np.arange(50_000)
    slots = slots_of_replays(steps, np.full(50_000, 10**6), 50)
    counts = np.bincount(slots, minlength=50)
    assert len(counts) == 50
    assert abs(counts - 1_000).max() < 130
    pairs = np.bincount(slots[:-1] * 50 + slots[1:], minlength=2500)
    assert pairs.max() < 45  # no slot follows another one often: 20 in the mean


def test_slots_of_a_stretch_are_those_of_the_whole() -> None:
    whole = slots_of_offers(0, 100, 10)
    assert slots_of_offers(40, 60, 10).tolist() == whole[40:].tolist()


def course(count: int = 7, **settings: Any) -> Course:
    """Of samples whose first pixel is their number."""
    x = np.arange(count, dtype=np.int8)[:, np.newaxis, np.newaxis, np.newaxis]
    split = Split(
        Dataset(x, np.arange(count) % 2, ("a", "b")), Dataset(x[:2], np.arange(2), ("a", "b"))
    )
    found = RunSettings(learning_rate=0.1, **settings)
    return Course(Samples.prepare(split, (1, 1, 1), 1.0, 0, found), found)


def test_a_course_takes_the_new_samples_in_their_order_and_replays_between() -> None:
    plain, replayed = course(epochs=3), course(epochs=3, replay=2, remember=4)
    assert (plain.total, replayed.total, replayed.epoch_steps) == (21, 63, 21)
    new = [int(plain.at(step)[0].item()) for step in range(plain.total)]
    found = [int(replayed.at(step)[0].item()) for step in range(replayed.total)]
    assert found[::3] == new
    assert [replayed.is_replay(step) for step in range(6)] == [False, True, True] * 2
    assert found[1:3] == [new[0]] * 2, "the first sample is remembered when its step is done"
    assert found == with_replays(np.array(new), 2, 4).tolist()
    index, epoch = replayed.indices(20, 9)
    assert (index.tolist(), epoch) == (found[20:21], 0), "a piece ends with the epoch"
    assert replayed.rates.at(62).value > 0


def test_replay_is_a_part_of_what_determines_a_run() -> None:
    plain = course().digest
    assert course(remember=3).digest == plain, "without replay nothing is remembered"
    others = {course(replay=r, remember=m).digest for r, m in ((1, 3), (2, 3), (1, 4))}
    assert len({plain, *others}) == 4


@pytest.mark.parametrize("settings", [{"replay": -1}, {"remember": 0}])
def test_numbers_that_are_none_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(DataError, match="give 0 or more samples"):
        course(**settings)


def test_samples_that_vary_are_not_replayed() -> None:
    with pytest.raises(DataError, match=r"replayed as it was, .* leave out the aug"):
        course(replay=1, flip=True)


def test_a_library_with_a_ring_in_memory_ends_with_the_bits_of_the_simulation() -> None:
    """And goes on from a ring and a state that were kept; mct_reset empties the ring."""
    step = prepare(residual_network(), "head")
    project = step.library(Interface(remember=5))
    x, y = samples(step.graph, 20, 4)
    rate = rates(1)[0]
    expected = step.simulator(7)
    order = with_replays(np.arange(20), 2, 5)
    expected.train(x[order], y[order], [rate] * len(order))
    made = CompiledSimulator(step.plan, seed=7, project=project)
    library, packed = made._library, ctypes.c_int64(rate.mult_q31 | rate.shift << 32)
    library.mct_front.restype = library.mct_ring_bytes.restype = ctypes.c_void_p
    result = (ctypes.c_int32 * 2)()
    assert library.mct_replay(packed, result) == SIZE, "nothing is remembered yet"
    for i in range(20):
        if i == 11:
            ring_bytes = 4 + 5 * 4 + 5 * find_latent(step.plan).size_bytes
            ring = ctypes.string_at(library.mct_ring_bytes(), -(-ring_bytes // 4) * 4)
            saved = made.save()
            made.reset(3)
            assert library.mct_replay(packed, result) == SIZE
            made.load(saved)
            ctypes.memmove(library.mct_ring_bytes(), ring, len(ring))
        assert library.mct_feed(0, x[i].tobytes(), x[i].size) == 0
        latent = ctypes.c_void_p(library.mct_front())
        assert library.mct_remember(latent, 4) == LABEL
        assert library.mct_remember(latent, int(y[i])) == 0
        assert library.mct_train_latent(latent, int(y[i]), packed, result) == 0
        for _ in range(2):
            assert library.mct_replay(packed, result) == 0
    assert made.save() == expected.save()
