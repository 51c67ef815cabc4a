"""A program with a camera: rows in pieces of any size, and rows that are lost, as numpy has it."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.frontends.camera import CameraFrontend
from mcutrain.frontends.trigger import activities, windows_heard
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.field import Ear
from tests.frontends.networks import viewer

TEXTS = (
    "camera:width=16,height=14,format=rgb565",
    "camera:width=20,height=26,format=bayer,method=bilinear,low=-1",
)
Rows = npt.NDArray[np.int16]
NOT_READY = 2  # MCT_ERROR_SIZE
HISTORY = 3


def rows_of(front: CameraFrontend, seed: int, images: int) -> Rows:
    """Noise; now and then an image is that of before, nearly."""
    random = np.random.default_rng(seed)
    found = random.integers(0, 256, (images, front.height, front.vision.row_bytes))
    for i in range(1, images):
        if random.integers(2):
            found[i] = np.clip(found[i - 1] + random.integers(0, 9, found[i].shape), 0, 255)
    return front.frames(found.astype(np.uint8)).reshape(-1, front.channels)


class Program:
    """What a program does with a library."""

    def __init__(self, text: str, stream: str, history: int) -> None:
        step = prepare(viewer(text), "head", stream=stream)
        self.is_fed = bool(step.plan.segments and step.plan.segments[0].is_fed)
        order, self.type = step.graph.input_order, step.input_type
        assert order is not None
        assert isinstance(order.frontend, CameraFrontend)
        self.front, library = order.frontend, step.library(Interface(history=history))
        self.history = history
        self.simulator = CompiledSimulator(step.plan, seed=1, project=library)
        self.c = self.simulator._library
        self.c.mct_infer.restype = ctypes.POINTER(ctypes.c_int8)
        self.c.mct_window_ready.restype = self.c.mct_push_lost.restype = ctypes.c_uint32

    def push(self, rows: Rows) -> None:
        piece = np.ascontiguousarray(rows)
        self.c.mct_push(ctypes.c_void_p(piece.ctypes.data), ctypes.c_uint32(len(piece)))

    def infer(self) -> list[int]:
        return list(self.c.mct_infer()[: self.simulator.output_bytes])

    def expected(self, rows: Rows) -> list[int]:
        x = rows.reshape(1, *self.front.input_shape)
        made = self.front.compute(x, self.type.scale, self.type.zero_point)
        return list(self.simulator.infer(made)[0])


PROGRAMS = [
    (text, stream, kept)
    for text in TEXTS
    for stream, kept in (("off", 0), ("max", 0), ("max", HISTORY))
]


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda p: f"{p[0][-8:]}-{p[1]}-{p[2]}")
def program(request: pytest.FixtureRequest) -> Program:
    """With its input in the arena as a whole, and row by row; with a history."""
    found = Program(*request.param)
    assert found.is_fed is (request.param[1] == "max")
    return found


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32), lengths=st.lists(st.integers(0, 4), min_size=12, max_size=24))
def test_rows_in_pieces_give_the_images_of_numpy(
    program: Program, seed: int, lengths: list[int]
) -> None:
    front, images = program.front, sum(lengths) // program.front.height
    rows = rows_of(front, seed, images + 1)
    program.c.mct_window_reset()
    program.c.mct_frame_begin()
    at = taken = 0
    for count in lengths:
        program.push(rows[at : at + count])
        at += count
        done = at // front.height
        assert program.c.mct_window_ready() == done - taken
        if done == taken:
            assert program.c.mct_window_take() == (
                NOT_READY if program.history == 0 or not done else 0
            )
            continue
        assert program.c.mct_window_take() == 0
        image = rows[(done - 1) * front.height : done * front.height]
        taken = done
        assert program.infer() == program.expected(image)


def test_an_image_with_a_lost_row_is_left_out(program: Program) -> None:
    front, c = program.front, program.c
    rows, size = rows_of(front, 3, 4), front.c.queue
    c.mct_window_reset()
    c.mct_frame_begin()
    before = c.mct_push_lost()
    program.push(rows[: size + 1])  # one finds no room
    assert c.mct_push_lost() - before == 1
    assert c.mct_window_ready() == 0
    at = size + 1
    for end in range(at, len(rows) + 1):
        program.push(rows[end - 1 : end] if end > at else rows[:0])
        ready = c.mct_window_ready()
        assert ready == (end >= 2 * front.height) + (program.history > 0) * max(
            0, end // front.height - 2
        )
        if ready and not program.history:
            break
    assert c.mct_window_take() == 0
    last = 4 if program.history else 2
    assert program.infer() == program.expected(
        rows[(last - 1) * front.height : last * front.height]
    )
    program.push(rows[:5])
    c.mct_window_ready()
    c.mct_frame_begin()  # a new frame, though the last one had no end
    for row in range(front.height):
        program.push(rows[row : row + 1])
        c.mct_window_ready()
    assert c.mct_window_take() == 0
    assert program.infer() == program.expected(rows[: front.height])


def test_an_image_waits_in_the_input_until_it_is_taken() -> None:
    program = Program(TEXTS[0], "off", 0)
    front, c = program.front, program.c
    rows = rows_of(front, 4, 3)
    c.mct_reset(ctypes.c_uint32(1))
    for row in rows[: 2 * front.height]:  # the second image finds no room
        program.push(row[np.newaxis])
        ready = c.mct_window_ready()
    assert ready == 1
    assert c.mct_window_take() == 0
    assert program.infer() == program.expected(rows[: front.height])
    assert c.mct_window_take() == NOT_READY
    for row in rows[2 * front.height :]:
        assert c.mct_window_ready() == 0
        program.push(row[np.newaxis])
    assert c.mct_window_ready() == 1
    assert c.mct_window_take() == 0
    assert program.infer() == program.expected(rows[2 * front.height :])


@cache
def still() -> Program:
    return Program(TEXTS[0], "max", HISTORY)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32), images=st.integers(1, 9))
def test_a_still_image_stands_out_behind_another_one(seed: int, images: int) -> None:
    program = still()
    front, c = program.front, program.c
    rows = rows_of(front, seed, images)
    c.mct_window_reset()
    c.mct_frame_begin()
    ear = Ear(front, program.type.scale, program.type.zero_point, HISTORY)
    found = []
    for i, row in enumerate(rows):
        program.push(row[np.newaxis])
        done, stands_out = ear.push(row[np.newaxis])
        c.mct_window_ready()
        assert done == ((i + 1) % front.height == 0)
        ago = c.mct_window_heard()
        assert ago == (0 if stands_out else -1)
        if stands_out:
            found.append(i // front.height)
            assert c.mct_window_take_at(ctypes.c_uint32(ago)) == 0
            window = ear.window()
            assert window is not None
            assert program.infer() == list(program.simulator.infer(window[np.newaxis])[0])
    assert windows_heard(front, rows) == found
    kept = activities(front, rows)[-HISTORY:].tolist()
    assert [c.mct_frame_activity(ctypes.c_uint32(i)) for i in range(len(kept))] == kept[::-1]
    assert c.mct_window_loudest() == 0 == ear.loudest
    for ago in range(HISTORY + 1):
        expected = ear.window(ago)
        assert (c.mct_window_take_at(ctypes.c_uint32(ago)) == 0) is (expected is not None)
        if expected is not None:
            assert program.infer() == list(program.simulator.infer(expected[np.newaxis])[0])
