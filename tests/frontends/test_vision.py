"""Crop, resize, colours: near what they mean in real numbers, and the same in C from rows."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import astuple, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.frontends import vision
from mcutrain.frontends.vision import Crop, Format, Method, Vision
from tests.frontends.in_c import Guarded, libraries

SOURCES = ("mct_vision.c",)
Bytes = npt.NDArray[np.uint8]


class Params(ctypes.Structure):
    """mct_vision_params."""

    _fields_ = (
        *((name, ctypes.c_uint16) for name in ("width", "left", "top")),
        *((name, ctypes.c_uint16) for name in ("crop_width", "crop_height")),
        *((name, ctypes.c_uint16) for name in ("out_width", "out_height")),
        *((name, ctypes.c_uint8) for name in ("channels", "format", "is_bilinear")),
    )


class State(ctypes.Structure):
    """mct_vision."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("reciprocal", "row_at", "end")),
        *((name, ctypes.c_uint16) for name in ("rows", "taken", "out_row", "before", "share")),
    )


def numbers(how: Vision) -> tuple[int, ...]:
    """Those of mct_vision_params, in their order."""
    out = (how.out_width, how.out_height, how.channels, how.format, how.method)
    return (how.width, *astuple(how.crop), *map(int, out))


def by_c(library: ctypes.CDLL, how: Vision, image: Bytes) -> npt.NDArray[np.generic]:
    params, state = Params(*numbers(how)), State()
    size = library.mct_vision_memory_bytes(ctypes.byref(params))
    assert size == how.memory_bytes
    memory = Guarded(size)
    how_c = (ctypes.byref(state), ctypes.byref(params), memory.pointer)
    library.mct_vision_reset(*how_c)
    found = []
    for row in np.ascontiguousarray(image):
        library.mct_vision_push_row(*how_c, ctypes.c_void_p(row.ctypes.data))
        out = Guarded(how.out_width * how.channels)
        while library.mct_vision_take_row(*how_c, out.pointer):
            found.append(out.array(np.int8))
    memory.array(np.uint8)
    return np.array(found).reshape(-1, how.out_width, how.channels)


@pytest.fixture(scope="module")
def in_c(
    sanitizing: Mapping[str, tuple[str, ...]],
    c_compilers: list[tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[ctypes.CDLL]:
    return libraries(SOURCES, c_compilers, sanitizing, tmp_path_factory.mktemp("vision"))


@st.composite
def visions(draw: st.DrawFn, form: Format) -> Vision:
    """All sizes and parts of small images."""
    length = st.integers(1, 24)
    halves = 2 if form == Format.BAYER_RGGB else 1
    columns = draw(length) * (2 if form == Format.YUYV else 1)
    rows = draw(length)
    left, top = draw(st.integers(0, columns - 1)), draw(st.integers(0, rows - 1))
    crop = Crop(left, top, draw(st.integers(1, columns - left)), draw(st.integers(1, rows - top)))
    out = draw(length), draw(length), draw(st.sampled_from([1, 3])), draw(st.sampled_from(Method))
    return Vision(form, columns * halves, rows * halves, crop, *out)


def image_for(how: Vision, seed: int) -> Bytes:
    """Noise, or the extremes."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 256, (how.height, how.row_bytes))
    return (values if seed % 2 else np.where(values < 128, 0, 255)).astype(np.uint8)


@pytest.mark.draws(3)
@pytest.mark.parametrize("form", Format)
@settings(deadline=None, max_examples=30)
@given(drawn=st.data(), seed=st.integers(0, 2**32))
def test_rows_in_c_give_what_the_whole_image_gives(
    in_c: list[ctypes.CDLL], form: Format, drawn: st.DataObject, seed: int
) -> None:
    how = drawn.draw(visions(form))
    image = image_for(how, seed)
    expected = vision.resized(how, image)
    for library in in_c:
        assert np.array_equal(by_c(library, how, image), expected)


@pytest.mark.draws(3)
@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize(
    ("width", "height", "out"), [(4096, 4, (2, 1)), (3, 4096, (1, 4096)), (2, 2, (4096, 3))]
)
@pytest.mark.slow
def test_the_largest_sums_fit(
    in_c: list[ctypes.CDLL], method: Method, width: int, height: int, out: tuple[int, int]
) -> None:
    how = Vision(Format.GREY, width, height, Crop(0, 0, width, height), *out, 1, method)
    image = np.full((height, width), 255, np.uint8)
    image[:, ::3] = 254
    for library in in_c:
        assert np.array_equal(by_c(library, how, image), vision.resized(how, image))


def test_a_mean_of_all_pixels_of_the_largest_image_fits(in_c: list[ctypes.CDLL]) -> None:
    how = Vision(Format.GREY, 4096, 4096, Crop(0, 0, 4096, 4096), 1, 1, 1)
    for library in in_c[-1:]:
        assert by_c(library, how, np.full((4096, 4096), 255, np.uint8)).tolist() == [[[127]]]


def of_grey(size: tuple[int, int], out: tuple[int, int], method: Method) -> Vision:
    whole = Crop(0, 0, size[1], size[0])
    return Vision(Format.GREY, size[1], size[0], whole, out[1], out[0], 1, method)


@given(
    size=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    out=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    seed=st.integers(0, 2**32),
)
def test_an_area_is_the_mean_of_what_it_covers(
    size: tuple[int, int], out: tuple[int, int], seed: int
) -> None:
    image = np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)
    found = vision.resized(of_grey(size, out, Method.AREA), image)[..., 0] + 128.0
    fine = image.repeat(out[0], axis=0).repeat(out[1], axis=1).astype(np.float64)
    exact = fine.reshape(out[0], size[0], out[1], size[1]).mean(axis=(1, 3))
    assert np.abs(found - exact).max() <= 0.5 + 1e-9


@given(
    size=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    out=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    seed=st.integers(0, 2**32),
)
def test_bilinear_is_between_the_centres(
    size: tuple[int, int], out: tuple[int, int], seed: int
) -> None:
    image = np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)
    found = vision.resized(of_grey(size, out, Method.BILINEAR), image)[..., 0] + 128.0
    rows, columns = (
        np.clip((np.arange(n) + 0.5) * m / n - 0.5, 0, m - 1)
        for n, m in zip(out, size, strict=True)
    )
    wide = np.stack([np.interp(columns, np.arange(size[1]), row) for row in image])
    exact = np.stack([np.interp(rows, np.arange(size[0]), column) for column in wide.T], axis=1)
    assert np.abs(found - exact).max() < 0.5 + 2 * 255 / 512  # two weights of 8 bits


def one_pixel(form: Format, channels: int, *values: int) -> list[int]:
    """The first pixel of an image of these bytes."""
    row_bytes = 1 if form == Format.GREY else 2
    columns = len(values) // row_bytes if form != Format.BAYER_RGGB else 2
    rows = 2 if form == Format.BAYER_RGGB else 1
    how = Vision(form, columns, rows, Crop(0, 0, 1, 1), 1, 1, channels)
    image = np.array(values, np.uint8).reshape(rows, -1)
    return [int(x) + 128 for x in vision.resized(how, image).reshape(-1)]


def test_colours_are_what_they_are_called() -> None:
    assert one_pixel(Format.GREY, 3, 77) == [77, 77, 77]
    red, green, blue = 0b11111 << 11, 0b111111 << 5, 0b11111
    for word, colour in ((red, 0), (green, 1), (blue, 2)):
        expected = [255 * (n == colour) for n in range(3)]
        assert one_pixel(Format.RGB565_LITTLE, 3, word & 255, word >> 8) == expected
        assert one_pixel(Format.RGB565_BIG, 3, word >> 8, word & 255) == expected
    assert one_pixel(Format.BAYER_RGGB, 3, 10, 20, 31, 40) == [10, 26, 40]
    assert one_pixel(Format.YUYV, 3, 90, 128, 200, 128) == [90, 90, 90]
    assert one_pixel(Format.YUYV, 1, 90, 3, 200, 250) == [90]
    assert one_pixel(Format.YUYV, 3, 76, 85, 0, 255) == [254, 0, 0]  # JPEG's red
    assert one_pixel(Format.BAYER_RGGB, 1, 255, 255, 255, 255) == [255]
    assert one_pixel(Format.RGB565_BIG, 1, 0xF8, 0) == [77]


@given(y=st.integers(0, 255), u=st.integers(0, 255), v=st.integers(0, 255))
def test_yuv_is_rounded_to_the_nearest(y: int, u: int, v: int) -> None:
    exact = np.array(
        [
            y + 1.402 * (v - 128),
            y - 0.344136 * (u - 128) - 0.714136 * (v - 128),
            y + 1.772 * (u - 128),
        ]
    )
    found = one_pixel(Format.YUYV, 3, y, u, y, v)
    assert np.abs(np.clip(exact, 0, 255) - found).max() < 0.502


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 4097}, "1 to 4096"),
        ({"out_height": 0}, "1 to 4096"),
        ({"format": Format.YUYV, "width": 11}, "in twos"),
        ({"format": Format.BAYER_RGGB, "height": 9}, "in twos"),
        ({"channels": 2}, "1 or 3"),
        ({"crop": Crop(0, 0, 0, 1)}, "no part"),
        ({"crop": Crop(-1, 0, 2, 1)}, "no part"),
        ({"crop": Crop(9, 0, 2, 1)}, "outside of 10 x 10"),
        ({"format": Format.BAYER_RGGB, "crop": Crop(0, 4, 2, 2)}, "outside of 5 x 5"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], message: str) -> None:
    how = Vision(Format.GREY, 10, 10, Crop(0, 0, 2, 2), 2, 2, 1)
    with pytest.raises(ValueError, match=message):
        replace(how, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [np.zeros((10, 10)), np.zeros((10, 9), np.uint8)])
def test_an_image_of_another_kind_is_named(wrong: npt.NDArray[np.generic]) -> None:
    how = Vision(Format.GREY, 10, 10, Crop(0, 0, 2, 2), 2, 2, 1)
    with pytest.raises(ValueError, match=str(wrong.dtype)):
        vision.resized(how, wrong)  # type: ignore[arg-type]
