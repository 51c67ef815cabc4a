"""A program with a camera: rows in pieces of any size, and rows that are lost, as numpy has it."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mcutrain
from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.data.layout import InputOrder
from mcutrain.data.transform import Transform
from mcutrain.data.unlabelled import load_samples
from mcutrain.errors import DataError
from mcutrain.features.listening import listening_bytes
from mcutrain.frontends import MOST_TEXT, parse
from mcutrain.frontends.camera import CameraFrontend
from mcutrain.frontends.trigger import activities, windows_heard
from mcutrain.frontends.vision import Crop, Format, Vision, packed, resized
from mcutrain.ir.graph import Graph
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.field import Ear
from tests.frontends.networks import float_images, sound_folder, viewer

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

    def __init__(
        self, network: str | Graph, stream: str, history: int, *, latents: bool = False
    ) -> None:
        graph = viewer(network) if isinstance(network, str) else network
        step = prepare(graph, "head", stream=stream)
        self.is_fed = bool(step.plan.segments and step.plan.segments[0].is_fed)
        order, self.type = step.graph.input_order, step.input_type
        assert order is not None
        assert isinstance(order.frontend, CameraFrontend)
        self.front, library = (
            order.frontend,
            step.library(Interface(history=history, latent="auto" if latents else None)),
        )
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
        assert ear.until_frame == front.height - (i + 1) % front.height
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


def test_rows_of_two_images_never_make_one(program: Program) -> None:
    front, c = program.front, program.c
    rows, size = rows_of(front, 8, 3), front.c.queue
    c.mct_window_reset()
    c.mct_frame_begin()
    program.push(rows[: front.height - size - 2])
    c.mct_window_ready()
    program.push(
        rows[front.height - size - 2 : front.height + 1]
    )  # 2 rows are lost, and a first one
    c.mct_window_ready()
    for row in rows[front.height + 1 : 2 * front.height]:
        program.push(row[np.newaxis])
        assert c.mct_window_ready() == 0
    for row in rows[2 * front.height :]:
        program.push(row[np.newaxis])
        ready = c.mct_window_ready()
    assert ready == 1
    assert c.mct_window_take() == 0
    assert program.infer() == program.expected(rows[2 * front.height :])


def test_an_image_whose_input_was_taken_from_it_is_left_out() -> None:
    text = "camera:width=16,height=14,left=0,top=0,crop_width=16,crop_height=6"
    program = Program(text, "max", 0)
    front, c = program.front, program.c
    assert program.is_fed
    rows, other = rows_of(front, 9, 2), np.zeros(120, np.int8)
    c.mct_reset(ctypes.c_uint32(1))
    for i, row in enumerate(rows):
        program.push(row[np.newaxis])
        assert c.mct_window_ready() == (i + 1 == len(rows))
        if i == 2:
            c.mct_feed(ctypes.c_uint32(0), ctypes.c_void_p(other.ctypes.data), ctypes.c_uint32(120))
    assert c.mct_window_take() == 0
    assert program.infer() == program.expected(rows[front.height :])


@pytest.mark.parametrize("stream", ["off", "max"])
@pytest.mark.parametrize("does", ["infer", "train", "infer_latent"])
def test_an_image_that_was_not_taken_is_left_out(stream: str, does: str) -> None:
    """Behind what uses the input's memory, also where that has whole images."""
    program = Program(TEXTS[0], stream, 0, latents=does == "infer_latent")
    front, c = program.front, program.c
    rows = rows_of(front, 10, 3)
    c.mct_reset(ctypes.c_uint32(1))
    for i, row in enumerate(rows[: front.height]):
        program.push(row[np.newaxis])
        ready = c.mct_window_ready()
        if i == 5:
            assert bool(c.mct_infer()) is not program.is_fed  # that waits for the other rows
    assert ready == program.is_fed
    c.mct_window_reset()
    for row in rows[front.height : 2 * front.height]:
        program.push(row[np.newaxis])
        ready = c.mct_window_ready()
    assert ready == 1
    if does == "train":
        c.mct_train(ctypes.c_int32(0), ctypes.c_uint64(0), ctypes.byref((ctypes.c_int64 * 4)()))
    elif does == "infer":
        c.mct_infer()
    else:
        c.mct_infer_latent(ctypes.byref((ctypes.c_int8 * 256)()))
    assert c.mct_window_ready() == 0
    assert c.mct_window_take() == NOT_READY
    for row in rows[2 * front.height :]:
        program.push(row[np.newaxis])
        ready = c.mct_window_ready()
    assert ready == 1
    assert c.mct_window_take() == 0
    assert program.infer() == program.expected(rows[2 * front.height :])


def test_an_image_that_changes_by_the_floor_is_still() -> None:
    program = Program("camera:width=10,height=12", "max", HISTORY)
    front, c = program.front, program.c
    c.mct_window_reset()
    c.mct_frame_begin()
    found = []
    for i, level in enumerate((100, 100, 200, 208, 208, 217, 217)):
        program.push(front.frames(np.full((1, 12, 10), level, np.uint8))[0][:8])
        c.mct_window_ready()
        program.push(front.frames(np.full((1, 12, 10), level, np.uint8))[0][8:])
        c.mct_window_ready()
        found += [i] if c.mct_window_heard() == 0 else []
    assert found == [1, 3, 6]
    assert c.mct_frame_activity(ctypes.c_uint32(1)) == 9 * 120


def test_what_came_of_a_broken_image_does_not_count_twice() -> None:
    program = Program("camera:width=10,height=12", "max", HISTORY)
    front, c = program.front, program.c
    light, dark = (front.frames(np.full((1, 12, 10), n, np.uint8))[0] for n in (90, 40))
    c.mct_window_reset()
    c.mct_frame_begin()
    for piece in (light[:6], light[6:], dark[:5]):
        program.push(piece)
        c.mct_window_ready()
    c.mct_frame_begin()
    for piece in (light[:6], light[6:]):
        program.push(piece)
        c.mct_window_ready()
    assert c.mct_frame_activity(ctypes.c_uint32(0)) == 50 * 5 * 10


# ---- data ----


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of images."""
    pillow, random = pytest.importorskip("PIL.Image"), np.random.default_rng(5)
    root = tmp_path_factory.mktemp("images") / "data"
    for label, name in enumerate(("dark", "light")):
        (root / name).mkdir(parents=True)
        for i in range(3):
            x = random.integers(100 * label, 100 * label + 90, (28, 32, 3))
            pillow.fromarray(x.astype(np.uint8)).save(root / name / f"{i}.png")
    return root


def front_of(text: str) -> CameraFrontend:
    front = parse(text, (12, 10, 1))
    assert isinstance(front, CameraFrontend)
    return front


def trained(data: Any, text: str = TEXTS[0]) -> bytes:
    how: dict[str, Any] = {"epochs": 1, "learning_rate": 0.05, "classes": 2, "test_share": 0.4}
    return bytes(mcutrain.simulate(viewer(text), data, "head", **how).saved)


def test_images_frames_and_arrays_train_alike(folder: Path, tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    front, expected = front_of(TEXTS[0]), trained(folder)
    files = sorted(folder.rglob("*.png"))
    images = np.stack([np.asarray(pillow.open(path)) for path in files])
    y = np.array([0, 0, 0, 1, 1, 1])
    raw = front.packed(images[:, ::2, ::2][:, :14, :16])
    assert raw.shape == (6, 14, 16)
    fitted = Transform(14, 16, 3).fit(images)
    raw = front.packed(fitted)
    for path, frame in zip(files, raw, strict=True):
        place = tmp_path / "raw" / path.parent.name / f"{path.stem}.raw"
        place.parent.mkdir(parents=True, exist_ok=True)
        content = frame.astype("<i2").tobytes()
        place.write_bytes(content + content[::-1])  # only the first frame counts
    for data in (tmp_path / "raw", (images, y), (raw, y), (raw.astype("<i2").view(np.uint8), y)):
        assert trained(data) == expected
    order = InputOrder.own((12, 10, 1)).with_frontend(TEXTS[0])
    drawn = load_samples(folder, 4, order=order)
    real = {x.tobytes() for x in front.real(raw)}
    assert {x.tobytes() for x in drawn} <= real
    assert drawn.dtype == np.float32


@pytest.mark.parametrize("name", ["m.int8.onnx", "m.tflite"])
def test_a_quantized_file_keeps_its_camera(name: str, folder: Path, tmp_path: Path) -> None:
    float_images(tmp_path / "m.onnx")
    text = "camera:width=16,height=14,format=yuyv,rate=5,norm=imagenet"
    mcutrain.quantize(tmp_path / "m.onnx", folder, tmp_path / name, frontend=text)
    order = mcutrain.load(tmp_path / name).input_order
    assert order is not None
    assert order.frontend == parse(text, (12, 10, 3))
    found = mcutrain.plan(tmp_path / name, "head")
    assert found.listening is not None
    assert found.listening.sram_bytes == listening_bytes(order.frontend)
    assert "format=yuyv" in found.listening.summary()


@pytest.mark.parametrize(
    ("text", "shape", "part"),
    [
        ("camera", (12, 10, 1), "say width, as camera:width=160"),
        ("camera:width=15,height=14", (12, 10, 1), "rows have 15 .*give an even width"),
        ("camera:width=16,height=14,format=jpeg", (12, 10, 1), "give grey, rgb565, rgb565be, yuyv"),
        ("camera:width=16,height=14,left=9,crop_width=8", (12, 10, 1), "outside of 16 x 14 pixels"),
        ("camera:width=16,height=14,low=1", (12, 10, 1), "low is 1: give -32768 to 0"),
        ("camera:width=16,height=14,out_width=9", (12, 10, 1), "but the model takes"),
        ("camera:width=16,height=14", (12, 10, 2), "of 1 or 3 channels"),
        ("camera:width=16,height=14", (49, 10, 3, 3), "of 1 or 3 channels"),
        ("camera:width=16,height=14,format=9", (12, 10, 1), "format is 9: give 0 to 4"),
        ("camera:width=5000,height=14", (12, 10, 1), "rows and columns are 1 to 4096"),
        ("camera:width=16,height=15,format=bayer", (12, 10, 1), "comes in twos"),
    ],
)
def test_what_is_no_camera_gets_a_sentence(text: str, shape: tuple[int, ...], part: str) -> None:
    with pytest.raises(DataError, match=part):
        parse(text, shape)


def test_other_data_get_a_sentence(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "data/a").mkdir(parents=True)
    (tmp_path / "data/b").mkdir()
    for name in "ab":
        for i in range(2):
            (tmp_path / f"data/{name}/{i}.raw").write_bytes(bytes(10))
    with pytest.raises(
        DataError, match=r"[ab]/[01]\.raw has 10 bytes, but a frame .* 14 rows of 32"
    ):
        trained(tmp_path / "data")
    with pytest.raises(DataError, match="frames are of a camera: say which one"):
        mcutrain.data.load(tmp_path / "data", input_shape=(12, 10, 1))
    with pytest.raises(DataError, match=r"takes images, but there are sounds"):
        trained(sound_folder(tmp_path / "sounds", 2))
    y = [0, 1, 0, 1]
    with pytest.raises(DataError, match=r"takes int16 samples \(n, 14, 16\)"):
        trained((np.zeros((4, 14, 15), np.int16), y))
    with pytest.raises(DataError, match="takes images: give --augment crop"):
        mcutrain.simulate(viewer(TEXTS[0]), folder, "head", classes=2, augment=["time-shift"])


def test_every_camera_is_said_in_a_text() -> None:
    text = (
        "camera:width=4096,height=4096,format=rgb565be,left=1000,top=1000,crop_width=3000,"
        "crop_height=3000,out_width=1000,out_height=1000,out_channels=3,method=bilinear,"
        "low=-32768,high=32768,rate=1000"
    )
    assert parse(text).text == text
    assert len(text) <= MOST_TEXT
    normalized = text.replace("low=-32768,high=32768", "low=0,high=1") + ",norm=imagenet"
    assert parse(normalized).text == normalized
    assert len(normalized) <= MOST_TEXT
    found = parse("camera:width=16,height=14,format=3,method=1", (12, 10, 3))
    assert found == parse(found.text)
    assert "format=yuyv" in found.text
    assert "norm" not in found.text
    assert found == parse("camera:width=16,height=14,format=yuyv,method=bilinear", (12, 10, 3))


NORMALIZED = "camera:width=16,height=14,format=rgb565,norm=imagenet"


def test_channels_are_normalized_as_imagenet_has_them() -> None:
    front = parse(NORMALIZED, (12, 10, 3))
    pixels = np.random.default_rng(1).integers(0, 256, (2, 1, 360))
    images = pixels.reshape(2, 12, 10, 3) / 255
    real = (images - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    found = front.as_real(pixels)
    assert np.array_equal(found, real.astype(np.float32).reshape(pixels.shape))
    codes = mcutrain.data.quantize_input(found, scale=0.02, zero_point=3)
    assert np.array_equal(front.codes(pixels, 0.02, 3), codes)
    assert len({tuple(row) for row in front.pixel_codes(0.02, 3).tolist()}) == 3
    with pytest.raises(DataError, match="3 channels"):
        parse(NORMALIZED, (12, 10, 1))
    for other in ("low=-1", "high=255"):
        with pytest.raises(DataError, match="of pixels 0 to 1: leave out low and high"):
            parse(f"{NORMALIZED},{other}", (12, 10, 3))


@pytest.mark.parametrize(("stream", "history"), [("off", 0), ("max", 0), ("off", HISTORY)])
def test_c_normalizes_each_channel_as_numpy_does(stream: str, history: int) -> None:
    graph = viewer(NORMALIZED, (12, 10, 3), scale=0.02, zero_point=3)
    program = Program(graph, stream, history)
    rows = rows_of(program.front, 5, 3)
    program.c.mct_window_reset()
    for image in np.split(rows, 3):
        for row in image:
            program.push(row[np.newaxis])
            program.c.mct_window_ready()
        assert program.c.mct_window_take() == 0
        assert program.infer() == program.expected(image)


@pytest.mark.parametrize("low", [-1, 0])
def test_codes_are_those_of_the_real_numbers(low: int) -> None:
    front = front_of(f"camera:width=16,height=14,low={low}")
    pixels = np.arange(256)
    real = (low + pixels * (1 - low) / 255).astype(np.float32)
    assert np.array_equal(front.as_real(pixels), real)
    for scale, zero_point in ((1 / 255, -128), (1 / 127.5, -1), (0.03, 5)):
        codes = mcutrain.data.quantize_input(real, scale=scale, zero_point=zero_point)
        assert np.array_equal(front.codes(pixels, scale, zero_point), codes)


@pytest.mark.parametrize(
    ("form", "most"),
    [(Format.RGB565_LITTLE, 7), (Format.RGB565_BIG, 7), (Format.YUYV, 1), (Format.BAYER_RGGB, 0)],
)
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_a_picture_comes_back_from_what_the_camera_sends(
    form: Format, most: int, seed: int
) -> None:
    x = np.random.default_rng(seed).integers(0, 256, (2, 5, 6, 3)).astype(np.uint8)
    x = np.repeat(x, 2, axis=2)  # neighbours share their colour
    rows, columns = (10, 24) if form == Format.BAYER_RGGB else (5, 12)
    how = Vision(form, columns, rows, Crop(0, 0, 12, 5), 12, 5, 3)
    for image, frame in zip(x, packed(form, x), strict=True):
        assert np.abs(resized(how, frame).astype(int) + 128 - image.astype(int)).max() <= most
    grey = packed(Format.GREY, x)
    assert np.array_equal(
        grey,
        (
            77 * x[..., 0].astype(int)
            + 150 * x[..., 1].astype(int)
            + 29 * x[..., 2].astype(int)
            + 128
        )
        // 256,
    )
