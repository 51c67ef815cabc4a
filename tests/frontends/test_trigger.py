"""What stands out in a stream: C finds the windows that numpy finds, and takes them to its bits."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.errors import McutrainError
from mcutrain.features.listening import listening_bytes
from mcutrain.frontends import Frontend, parse
from mcutrain.frontends.trigger import (
    MOST_ACTIVITY,
    Trigger,
    TriggerParams,
    activities,
    loudest,
    windows_heard,
)
from tests.frontends.networks import KINDS, listener
from tests.frontends.sounds import Sound
from tests.frontends.test_listening import FRAMES, NOT_READY, Device, front_of

HISTORY = 10
AUDIO = parse(f"audio:step_ms=20,frames={FRAMES}")
Noise = list[tuple[int, int]]
"""Hops, and how large their samples are."""


@pytest.fixture(scope="module", params=KINDS)
def device(request: pytest.FixtureRequest) -> Device:
    found = Device(prepare(KINDS[request.param](FRAMES), "head"), HISTORY)
    for name in ("mct_window_loudest", "mct_frame_activity"):
        getattr(found.c, name).restype = ctypes.c_uint32
    return found


def noise(front: Frontend, parts: Noise, seed: int) -> Sound:
    random = np.random.default_rng(seed)
    sizes = np.repeat([size for _, size in parts], [n * front.hop for n, _ in parts])
    sizes = np.concatenate((np.full(front.least_samples, parts[0][1]), sizes))
    x = random.uniform(-1, 1, (len(sizes), front.channels)) * sizes[:, np.newaxis]
    offset = random.integers(-100, 100)
    found: Sound = np.clip(np.round(x) + offset, -32768, 32767).astype(np.int16)
    return found[:, 0] if front.channels == 1 else found


PARTS = st.lists(
    st.tuples(st.integers(1, 9), st.sampled_from([0, 3, 40, 400, 4000, 32767])),
    min_size=1,
    max_size=7,
)


@pytest.mark.draws(2)
@settings(deadline=None, max_examples=30)
@given(parts=PARTS, seed=st.integers(0, 999), hops=st.integers(1, 7))
@example(parts=[(8, 3), (3, 4000), (8, 3), (4, 400), (9, 3)], seed=1, hops=1)
@example(parts=[(1, 4000), (9, 3), (1, 4000), (9, 3), (9, 4000)], seed=1, hops=3)
@example(parts=[(2, 3), (9, 32767)], seed=2, hops=2)
def test_c_finds_the_windows_of_numpy_and_takes_their_bits(
    device: Device, parts: Noise, seed: int, hops: int
) -> None:
    front, x = device.front, noise(device.front, parts, seed)
    expected, ends = activities(front, x).tolist(), windows_heard(front, x)
    rows = front.stream().push(x)
    assert len(rows) == len(expected)
    device.c.mct_window_reset()
    done = 0
    for begin in range(0, len(x), size := min(hops * front.hop, front.c.queue)):
        device.push(x[begin : begin + size])
        device.ready()
        frames = max(0, (min(begin + size, len(x)) - front.least_samples) // front.hop + 1)
        kept = expected[max(0, frames - HISTORY) : frames]
        found = [device.c.mct_frame_activity(ctypes.c_uint32(ago)) for ago in range(len(kept) + 1)]
        assert found == [*kept[::-1], 0]
        new = [end for end in ends if done <= end < frames]
        done, ago = frames, device.c.mct_window_heard()
        if not new or frames - 1 - new[-1] > HISTORY - FRAMES:
            assert ago == -1
        else:
            assert ago == frames - 1 - new[-1]
            assert taken(device, ago) == outcome(device, rows[: new[-1] + 1])
        assert device.c.mct_window_heard() == -1
        if len(kept) < FRAMES:
            assert taken(device, 0) is None
            continue
        assert device.c.mct_window_loudest() == loudest(kept, FRAMES)
        oldest = len(kept) - FRAMES
        assert taken(device, oldest) == outcome(device, rows[: frames - oldest])
        assert taken(device, oldest + 1) is None
        assert taken(device, 0xFFFF_FFFF) is None
        assert np.array_equal(device.window, device.codes(rows[frames - FRAMES : frames]))


def taken(device: Device, ago: int) -> list[int] | None:
    """What the network says of the window; None if there is none."""
    status = device.c.mct_window_take_at(ctypes.c_uint32(ago))
    assert status in (0, NOT_READY)
    return None if status else device.infer()


def outcome(device: Device, rows: npt.NDArray[Any]) -> list[int]:
    """Of the last window of these rows, as numpy has it."""
    return list(device.simulator.infer(device.codes(rows[-FRAMES:])[np.newaxis])[0])


@pytest.mark.parametrize("late", [0, 1])
def test_a_window_is_heard_as_long_as_its_first_frame_is_kept(device: Device, late: int) -> None:
    front = device.front
    x = noise(front, [(12, 3), (4, 9000), (40, 3)], 7)
    first = windows_heard(front, x)[0]
    frames = first + 1 + HISTORY - FRAMES + late
    device.c.mct_window_reset()
    for piece in np.array_split(x[: front.least_samples + (frames - 1) * front.hop], 9):
        device.push(piece)
        device.ready()
    assert device.c.mct_window_heard() == (-1 if late else HISTORY - FRAMES)


def test_a_reset_forgets_a_window_that_nobody_asked_for(device: Device) -> None:
    x = noise(device.front, [(12, 3), (4, 9000), (40, 3)], 7)
    end = windows_heard(device.front, x)[0]
    heard = []
    for forget in (lambda: None, device.c.mct_window_reset):
        device.c.mct_window_reset()
        for piece in np.array_split(x[: device.front.least_samples + end * device.front.hop], 9):
            device.push(piece)
            device.ready()
        forget()
        heard.append(device.c.mct_window_heard())
    assert heard == [0, -1]


def test_of_windows_that_are_equally_loud_the_last_counts(device: Device) -> None:
    device.c.mct_window_reset()
    for _ in range(4):
        device.push(0 * noise(device.front, [(3, 1)], 0))
        device.ready()
    assert device.c.mct_window_loudest() == 0
    assert loudest([0] * HISTORY, FRAMES) == 0


def test_frames_behind_a_window_are_new(device: Device) -> None:
    front = device.front
    x = noise(front, [(HISTORY + 2, 400)], 1)
    device.c.mct_window_reset()
    for piece in np.array_split(x, 8):
        device.push(piece)
        fresh = device.ready()
    assert fresh == HISTORY + 3
    for ago, left in ((3, 3), (4, 3), (1, 1), (0, 0)):
        assert taken(device, ago) is not None
        assert device.ready() == left


def test_a_sound_gives_one_window_that_begins_a_little_before_it() -> None:
    front = parse("audio:step_ms=20,frames=49")
    quiet, loud = (60, 20), (25, 3000)
    x = noise(front, [quiet, loud, quiet, quiet, loud, quiet], 3)
    (first, second) = windows_heard(front, x)
    for end, begin in ((first, 61), (second, 61 + 25 + 120)):
        assert abs(end - 48 + 12 - begin) <= 1


def test_a_new_background_is_heard_once_and_then_learnt() -> None:
    found = [Trigger(TriggerParams.of(AUDIO))]
    heard = [found[0].frame(a) for a in [3000] * 20 + [40_000] * 400 + [70_000] * 30]
    assert sum(heard) == 1
    assert heard.index(True) < 20 + FRAMES
    assert not any(heard[420:]), "it is less than four times what became usual"
    quiet = [found[0].frame(a) for a in [3000] * 40 + [40_000] * 8]
    assert sum(quiet) == 1, "it falls faster"


def test_a_click_and_what_is_below_the_floor_are_not_heard() -> None:
    floor = TriggerParams.of(AUDIO).floor
    for levels in ([0] * 9 + [floor] * 9, [0, 0, floor * 9, 0] * 5, [floor * 9] * 30):
        trigger = Trigger(TriggerParams.of(AUDIO))
        assert not any(trigger.frame(a) for a in levels)
    trigger = Trigger(TriggerParams.of(AUDIO))
    assert sum(trigger.frame(a) for a in [0] * 9 + [floor + 1] * 9) == 1


def test_activities_have_a_largest_value() -> None:
    x = np.tile(np.array([-32768, 32767], np.int16), 400)
    assert activities(AUDIO, x).tolist() == [MOST_ACTIVITY, MOST_ACTIVITY]
    assert activities(AUDIO, x[:479]).tolist() == []
    assert activities(AUDIO, np.full(481, -32768, np.int16)).tolist() == [0]


def test_a_history_has_its_bytes_and_its_limits() -> None:
    step = prepare(listener(FRAMES), "head")
    front = front_of(step.graph)
    assert listening_bytes(front, HISTORY) == listening_bytes(front) + 4 * 40 + 4 * HISTORY + 32
    header = step.library(Interface(history=HISTORY)).files["src/mct_model.h"]
    assert f"#define MCT_HISTORY {HISTORY}\n" in header
    plain = step.library(Interface()).files
    assert "src/mct_trigger.c" not in plain
    assert "mct_window_heard" not in plain["src/mct_model.h"]
    for history in (1, FRAMES - 1, 65_536):
        with pytest.raises(McutrainError, match=r"a window has 6: give 6 to 65,535"):
            step.library(Interface(history=history))
    with pytest.raises(McutrainError, match="give --frontend, too"):
        prepare(listener(FRAMES, frontend=""), "head").library(Interface(history=9))
