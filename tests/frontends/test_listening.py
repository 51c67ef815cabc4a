"""A program with a front end: raw samples in pieces of any size give the bits of numpy."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.errors import McutrainError
from mcutrain.features.listening import listening_bytes
from mcutrain.frontends import Frontend
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.rates import LearningRate
from tests.compiled import shared
from tests.frontends.networks import KINDS, keyword_listener, listener
from tests.frontends.sounds import Sound, sound

FRAMES = 6
Rows = npt.NDArray[np.int8]
NOT_READY = 2  # MCT_ERROR_SIZE


class Device:
    """What a program does with the library of a step."""

    def __init__(self, step: TrainingStep, history: int = 0) -> None:
        library = step.library(Interface(history=history))
        self.simulator = CompiledSimulator(step.plan, seed=1, project=library)
        self.c = self.simulator._library
        self.kept = history or FRAMES
        self.front, self.type = front_of(step.graph), step.input_type
        kept, width = self.front.c.window, self.front.output_shape[1]
        self._row = (ctypes.c_int8, width) if kept is None else (ctypes.c_int16, kept.kept)
        self.c.mct_window_rows.restype = ctypes.POINTER(self._row[0])
        self.c.mct_infer.restype = ctypes.POINTER(ctypes.c_int8)
        for name in ("mct_window_ready", "mct_window_first", "mct_push_lost"):
            getattr(self.c, name).restype = ctypes.c_uint32

    @property
    def window_samples(self) -> int:
        return self.front.input_shape[0]

    def hear(self, seed: int, count: int) -> Sound:
        """So many samples: of sound, or rows as wild."""
        return heard_by(self.front, seed, count)

    def push_all(self, samples: Sound) -> None:
        """In halves that find room, and look for frames."""
        for piece in np.array_split(samples, 2):
            self.push(piece)
            self.ready()

    def push(self, samples: Sound) -> None:
        piece = np.ascontiguousarray(samples)
        self.c.mct_push(ctypes.c_void_p(piece.ctypes.data), ctypes.c_uint32(len(piece)))

    def ready(self) -> int:
        return int(self.c.mct_window_ready())

    @property
    def window(self) -> Rows:
        """What the network would take now."""
        ctype, width = self._row
        count = self.kept
        rows = np.array(self.c.mct_window_rows()[: count * width], ctype).reshape(count, width)
        rows = np.roll(rows, -int(self.c.mct_window_first()), axis=0)[-FRAMES:]
        return rows.astype(np.int8) if self.front.c.window is None else self.codes(rows)

    def codes(self, frames: npt.NDArray[np.generic]) -> Rows:
        """A window as the input has it, of what a stream gives."""
        of_window = self.front.of_window(frames)
        return self.front.codes(of_window, self.type.scale, self.type.zero_point)

    def last(self, x: Sound) -> Rows:
        """The last window of a stream."""
        return self.codes(self.front.stream().push(x)[-FRAMES:])

    def computed(self, x: Sound) -> Rows:
        """A window's samples as an own stream."""
        return self.front.compute(x[np.newaxis], self.type.scale, self.type.zero_point)[0]

    def infer(self) -> list[int]:
        return list(self.c.mct_infer()[: self.simulator.output_bytes])


def front_of(graph: Graph) -> Frontend:
    order = graph.input_order
    assert order is not None
    assert order.frontend is not None
    return order.frontend


def heard_by(front: Frontend, seed: int, count: int) -> Sound:
    values = sound(seed, count * front.channels)
    return values if front.channels == 1 else values.reshape(count, front.channels)


CASES = [(kind, rows) for kind in KINDS for rows in ("off", "max")]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def device(request: pytest.FixtureRequest) -> Device:
    """With its input in the arena as a whole, and row by row."""
    kind, rows = request.param
    step = prepare(KINDS[kind](FRAMES), "head", stream=rows)
    assert bool(step.plan.segments and step.plan.segments[0].is_fed) is (rows == "max")
    return Device(step)


def pieces(x: Sound, lengths: Sequence[int], most: int) -> Iterator[Sound]:
    for piece in np.split(x, np.minimum(np.cumsum(lengths), len(x))):
        yield from np.split(piece, range(most, len(piece), most))


@pytest.mark.draws(3)
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), lengths=st.lists(st.integers(0, 50), max_size=12))
def test_pieces_of_any_size_give_the_windows_of_numpy(
    device: Device, seed: int, lengths: list[int]
) -> None:
    front = device.front
    first, hop = front.least_samples, front.hop
    x = device.hear(seed, first + 17 * hop + hop // 4)
    expected, heard, taken = device.front.stream().push(x), 0, 0
    device.c.mct_window_reset()
    for piece in pieces(x, [-(-n * hop // 10) for n in lengths], front.c.queue):
        device.push(piece)
        heard += len(piece)
        frames = max(0, (heard - first) // hop + 1)
        assert device.ready() == (frames - taken if frames >= FRAMES else 0)
        if frames < FRAMES:
            assert device.c.mct_window_take() == NOT_READY
            continue
        window = device.codes(expected[frames - FRAMES : frames])
        assert np.array_equal(device.window, window)
        assert device.c.mct_window_take() == 0
        taken = frames
        assert device.infer() == list(device.simulator.infer(window[np.newaxis])[0])
        assert device.ready() == 0


def test_after_a_reset_a_window_is_that_of_a_file(device: Device) -> None:
    x = device.hear(4, device.window_samples)
    for forget in (device.c.mct_window_reset, lambda: device.c.mct_reset(ctypes.c_uint32(1))):
        device.push(device.hear(9, 60))
        device.ready()
        device.push(device.hear(9, 40))
        forget()
        device.push_all(x)
        assert device.ready() == FRAMES
        assert np.array_equal(device.window, device.computed(x))


def test_what_finds_no_room_is_lost_and_counted(device: Device) -> None:
    device.c.mct_window_reset()
    size = device.front.c.queue
    before, x = int(device.c.mct_push_lost()), device.hear(8, 3 * size)
    device.push(x[: size - 5])
    device.push(x[size - 5 : 2 * size])
    assert int(device.c.mct_push_lost()) - before == size
    device.push(x[:7])
    assert int(device.c.mct_push_lost()) - before == size + 7
    device.ready()
    device.push(x[2 * size :])
    kept = np.concatenate((x[:size], x[2 * size :]))
    device.ready()
    assert np.array_equal(device.window, device.last(kept))


def test_a_step_on_a_window_is_that_of_the_simulation(device: Device) -> None:
    x, rate = device.hear(21, device.window_samples), LearningRate(1 << 30, -3)
    device.c.mct_reset(ctypes.c_uint32(1))
    device.push_all(x)
    assert device.ready() == FRAMES
    assert device.c.mct_window_take() == 0
    result = (ctypes.c_int32 * 2)()
    packed = (ctypes.c_int32 * 2)(rate.mult_q31, rate.shift)
    value = ctypes.c_int64.from_buffer(packed)  # a struct of two words, as arguments go
    assert device.c.mct_train(ctypes.c_int32(1), value, result) == 0
    learnt = device.simulator.save()
    device.simulator.reset(1)
    device.simulator.train(device.computed(x)[np.newaxis], [1], [rate])
    assert learnt == device.simulator.save()


def test_a_library_has_the_c_of_its_front_end_and_says_its_bytes() -> None:
    step = prepare(listener(FRAMES), "head")
    front = front_of(step.graph)
    assert step.recipe is not None
    assert step.recipe.frontend == "audio:step_ms=20,frames=6"
    files = step.library(Interface("wake")).files
    assert {"src/mct_audio.c", "src/mct_audio_tables.h", "src/mct_samples.c"} <= files.keys()
    header = files["src/wake_model.h"]
    assert "void wake_push(" in header
    fixed = listening_bytes(front) - 2 * front.c.queue
    assert f"WAKE_LISTENING_BYTES ({fixed} + 2 * WAKE_QUEUE)" in header


def test_a_library_by_mfccs_has_all_that_they_need() -> None:
    step = prepare(keyword_listener(FRAMES), "head")
    assert step.recipe is not None
    assert step.recipe.frontend == f"mfcc:frames={FRAMES}"
    files = step.library(Interface()).files
    assert {"src/mct_mfcc.c", "src/mct_fourier.c", "src/mct_audio_tables.h"} <= files.keys()
    assert "src/mct_audio.c" not in files


def test_without_a_front_end_a_library_stays_as_it_was() -> None:
    files = prepare(listener(FRAMES, frontend=""), "head").library(Interface()).files
    assert "src/mct_samples.c" not in files
    assert "mct_push" not in files["src/mct_model.h"]


HOOK = """
#define NUMBERS {numbers}
#include "mct_model.h"
int32_t calls;
const int16_t *sound;
void hook(void);
void hook(void)
{
    if (sound != NULL) {
        mct_push(sound + MCT_HOP * NUMBERS * calls, MCT_HOP);
        calls++;
        mct_window_ready();
    }
}
"""


@pytest.mark.parametrize("kind", KINDS)
def test_frames_that_come_while_a_window_is_taken_wait(
    kind: str, c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """The hook behind each strip of rows pushes more sound, and asks for its frames."""
    step = prepare(KINDS[kind](FRAMES), "head", stream="max")
    device = Device(step)
    config = "void hook(void);\n#define MCT_BETWEEN_NODES() hook()\n"
    source = HOOK.replace("{numbers}", str(device.front.channels))
    c = hooked(step, c_compilers[0], tmp_path, config, source)
    c.mct_infer.restype = ctypes.POINTER(ctypes.c_int8)
    hop, width = device.front.hop, device.front.channels
    samples = device.window_samples
    half, x = samples // 2, device.hear(31, samples + hop * 40)
    expected = device.last(x[:samples])
    place = x.ctypes.data
    c.mct_reset(ctypes.c_uint32(1))
    c.mct_push(ctypes.c_void_p(place), ctypes.c_uint32(half))
    c.mct_window_ready()
    c.mct_push(ctypes.c_void_p(place + 2 * width * half), ctypes.c_uint32(samples - half))
    assert c.mct_window_ready() == FRAMES
    more = ctypes.c_void_p.in_dll(c, "sound")
    more.value = place + 2 * width * samples
    assert c.mct_window_take() == 0
    more.value = None
    count = ctypes.c_int32.in_dll(c, "calls").value
    assert 0 < count <= device.front.c.queue // hop, "all that came found room"
    found = list(c.mct_infer()[: device.simulator.output_bytes])
    assert found == list(device.simulator.infer(expected[np.newaxis])[0])
    assert c.mct_window_ready() == count


RUBBISH = """
#include <string.h>
#include "mct_model.h"
extern uint8_t __start_uncleared[], __stop_uncleared[];
void spoil(void);
void spoil(void)
{
    memset(__start_uncleared, 0xA5, (size_t)(__stop_uncleared - __start_uncleared));
}
"""
UNCLEARED = '#define MCT_LISTENING_ATTRIBUTES __attribute__((section("uncleared")))\n'


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_heard_may_lie_in_memory_that_is_not_cleared(
    kind: str, c_compilers: list[tuple[str, ...]], tmp_path: Path
) -> None:
    step = prepare(KINDS[kind](FRAMES), "head")
    device = Device(step)
    device.c = hooked(step, c_compilers[0], tmp_path, UNCLEARED, RUBBISH)
    device.c.mct_window_rows.restype = ctypes.POINTER(device._row[0])
    device.c.spoil()
    device.push(device.hear(1, 50))
    assert device.ready() == 0
    assert device.c.mct_push_lost() == 0
    device.c.mct_reset(ctypes.c_uint32(1))
    x = device.hear(4, device.window_samples)
    device.push_all(x)
    assert device.ready() == FRAMES
    assert np.array_equal(device.window, device.computed(x))
    assert device.c.mct_push_lost() == 0


def hooked(
    step: TrainingStep, compiler: tuple[str, ...], folder: Path, config: str, source: str
) -> ctypes.CDLL:
    """A library with an mct_config.h, and more C, as a shared one."""
    step.library(Interface()).write(folder)
    (folder / "src" / "mct_config.h").write_text(config)
    (folder / "src" / "hook.c").write_text(source)
    return shared((*compiler, "-O0"), folder / "src")


def test_an_input_that_no_feature_moves_is_named() -> None:
    step = prepare(listener(scale=1e5), "head", stream="off")
    with pytest.raises(McutrainError, match=r"scale 100000, has one value .* audio"):
        step.simulator()
