"""A sample as a picture: images as they are, windows of a sensor with time to the right."""

import base64
import io

import numpy as np
import pytest

from mcutrain.report.pictures import extent, picture

PIL = pytest.importorskip("PIL.Image")


def drawn(samples: np.ndarray, number: int = 0) -> np.ndarray:
    address = picture(samples[number], *extent(samples))
    return np.asarray(PIL.open(io.BytesIO(base64.b64decode(address.split(",")[1]))))


@pytest.mark.parametrize("shape", [(40, 2), (1, 40, 2), (40, 2, 1)])
def test_a_window_has_a_row_for_each_column_between_its_own_limits(shape: tuple[int, ...]) -> None:
    x = np.zeros((3, 40, 2), np.float32)
    x[0, :, 0] = np.linspace(0, 1, 40)
    x[1, :, 1] = 1000
    found = drawn(x.reshape(3, *shape))
    assert found.shape == (48, 120)
    assert (found[0, :3].max(), found[0, -3:].min()) == (0, 255)
    assert found[24:].max() == 0
    assert drawn(x.reshape(3, *shape), 1)[24:].min() == 255


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32])
@pytest.mark.parametrize("shape", [(12, 12, 1), (12, 12, 3), (12, 4), (30,)])
def test_what_is_no_window_is_drawn_as_it_is(shape: tuple[int, ...], dtype: type) -> None:
    x = np.arange(2 * np.prod(shape), dtype=np.int64).reshape(2, *shape) % 128
    rows = x.astype(dtype) if len(shape) > 1 else x.astype(dtype)[:, np.newaxis]
    found = drawn(x.astype(dtype))
    times = found.shape[1] // rows.shape[2]
    assert found.shape[:2] == (times * rows.shape[1], times * rows.shape[2])
    first = found[::times, ::times].astype(np.int64)
    wanted = rows[0].astype(np.int64)
    if dtype != np.uint8:
        wanted = np.round(255 * (wanted - x.min()) / (x.max() - x.min())).astype(np.int64)
    assert np.array_equal(first, wanted.reshape(first.shape))


def test_equal_values_and_no_samples_are_black() -> None:
    assert drawn(np.full((2, 40, 2), 7.0)).max() == 0
    assert [float(value[0]) for value in extent(np.zeros((0, 4, 4)))] == [0, 0]
