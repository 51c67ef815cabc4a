"""Images are resized as Pillow does it, and varied by seed, epoch and index alone."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcutrain.data import Transform
from mcutrain.data.transform import centre_crop, resize_bilinear, resize_nearest, splitmix64_of
from mcutrain.errors import DataError

SIDES = st.integers(1, 40)


def pictures(n: int, h: int, w: int, c: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (n, h, w, c), dtype=np.uint8)


@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from([1, 3]), st.integers(0, 99))
@example(32, 32, 128, 128, 3, 0)
@example(200, 300, 7, 5, 3, 0)
def test_bilinear_gives_the_bytes_of_pillow_along_the_width_then_the_height(
    h: int, w: int, height: int, width: int, c: int, seed: int
) -> None:
    image = pytest.importorskip("PIL.Image", reason="the comparison is with Pillow")
    x = pictures(2, h, w, c, seed)
    y = resize_bilinear(x, height, width)
    for before, after in zip(x, y, strict=True):
        picture = image.fromarray(before[..., 0] if c == 1 else before)
        lines = picture.resize((width, h), image.Resampling.BILINEAR)
        expected = np.asarray(lines.resize((width, height), image.Resampling.BILINEAR))
        assert (after == expected.reshape(height, width, c)).all()


ROUNDINGS = 1.0
"""Two passes, each rounded to uint8 by at most a half."""


@pytest.mark.slow
@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 3), st.integers(1, 3))
def test_enlarging_interpolates_between_pixel_centres(h: int, w: int, by: int, bx: int) -> None:
    x = pictures(1, h, w, 1)
    y = resize_bilinear(x, h * by, w * bx)[0, :, :, 0]
    for (i, j), value in np.ndenumerate(y):
        row, column = (i + 0.5) / by - 0.5, (j + 0.5) / bx - 0.5
        assert abs(value - interpolated(x[0, :, :, 0], row, column)) <= ROUNDINGS


def interpolated(image: npt.NDArray[np.uint8], row: float, column: float) -> float:
    """The textbook formula, with repeated edges."""
    top, left = int(np.floor(row)), int(np.floor(column))
    total = 0.0
    for i, j in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        pixel = image[np.clip(i, 0, len(image) - 1), np.clip(j, 0, image.shape[1] - 1)]
        total += float(pixel) * (1 - abs(row - i)) * (1 - abs(column - j))
    return total


@given(st.integers(0, 255), SIDES, SIDES, SIDES, SIDES)
def test_a_plain_image_stays_plain(value: int, h: int, w: int, height: int, width: int) -> None:
    x = np.full((1, h, w, 3), value, dtype=np.uint8)
    assert (resize_bilinear(x, height, width) == value).all()
    assert (resize_nearest(x, height, width) == value).all()


def test_blocks_do_not_change_the_result() -> None:
    x = pictures(37, 5, 4, 3)
    alone = np.concatenate([resize_bilinear(x[i : i + 1], 9, 3) for i in range(len(x))])
    assert (resize_bilinear(x, 9, 3) == alone).all()


def test_nearest_takes_whole_pixels() -> None:
    x = np.array([[1, 2], [3, 4]], dtype=np.uint8).reshape(1, 2, 2, 1)
    expected = [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]
    assert resize_nearest(x, 4, 4)[0, :, :, 0].tolist() == expected
    assert (resize_nearest(resize_nearest(x, 4, 4), 2, 2) == x).all()


@given(SIDES, SIDES, SIDES, SIDES)
def test_the_centre_crop_touches_two_sides_and_keeps_the_aspect(
    h: int, w: int, height: int, width: int
) -> None:
    places = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij"), axis=-1)
    part = centre_crop(places[np.newaxis], height, width)[0]
    new_h, new_w = part.shape[:2]
    wide = new_h == h and (new_w == 1 or abs(new_w - h * width / height) <= 0.5)
    high = new_w == w and (new_h == 1 or abs(new_h - w * height / width) <= 0.5)
    assert wide or high
    top, left = part[0, 0]
    assert (top, left) == ((h - new_h) // 2, (w - new_w) // 2)


def test_grey_is_repeated_and_rgb_becomes_the_luma_of_pillow() -> None:
    image = pytest.importorskip("PIL.Image", reason="the comparison is with Pillow")
    grey, colour = pictures(2, 8, 8, 1), pictures(2, 8, 8, 3)
    repeated = Transform(8, 8, 3).fit(grey)
    assert (repeated == grey).all()
    luma = Transform(8, 8, 1).fit(colour)
    expected = np.stack([np.asarray(image.fromarray(x).convert("L")) for x in colour])
    assert (luma[..., 0] == expected).all()


def test_channels_that_cannot_be_turned_into_each_other_are_refused() -> None:
    with pytest.raises(DataError, match="4 channels cannot become 3"):
        Transform(8, 8, 3).fit(pictures(1, 8, 8, 4))


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_only_pixels_are_resized(dtype: type[np.generic]) -> None:
    x = pictures(1, 8, 8, 3).astype(dtype)
    assert Transform(8, 8, 3).fit(x) is x
    with pytest.raises(DataError, match="only uint8 images are resized"):
        Transform(9, 8, 3).fit(x)


VARIED = Transform(10, 12, 3, flip=True, crop_pixels=3)


@given(st.integers(0, 2**32), st.integers(0, 100), st.integers(1, 12))
def test_a_variation_does_not_depend_on_the_batch(seed: int, epoch: int, cut: int) -> None:
    x, index = pictures(12, 5, 6, 3), np.arange(100, 112)
    whole = VARIED.apply(x, index, seed=seed, epoch=epoch)
    parts = [
        VARIED.apply(part, places, seed=seed, epoch=epoch)
        for part, places in ((x[:cut], index[:cut]), (x[cut:], index[cut:]))
        if len(part)
    ]
    assert (whole == np.concatenate(parts)).all()
    backwards = VARIED.apply(x[::-1], index[::-1], seed=seed, epoch=epoch)
    assert (whole == backwards[::-1]).all()


def test_a_variation_changes_with_seed_and_epoch() -> None:
    x, index = pictures(40, 10, 12, 3), np.arange(40)
    first = VARIED.augment(x, index, seed=1, epoch=0)
    assert (first == VARIED.augment(x, index, seed=1, epoch=0)).all()
    assert (first != VARIED.augment(x, index, seed=2, epoch=0)).any()
    assert (first != VARIED.augment(x, index, seed=1, epoch=1)).any()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32])
def test_every_variation_is_a_flip_and_a_shift_with_edges_repeated(
    dtype: type[np.generic],
) -> None:
    x = pictures(60, 10, 12, 3).astype(dtype)
    y = VARIED.augment(x, np.arange(60), seed=5, epoch=6)
    assert y.dtype == dtype
    seen = {variation(before, after) for before, after in zip(x, y, strict=True)}
    assert {flip for flip, _, _ in seen} == {False, True}
    assert {dy for _, dy, _ in seen} == {dx for _, _, dx in seen} == set(range(-3, 4))


def variation(
    before: npt.NDArray[np.generic], after: npt.NDArray[np.generic]
) -> tuple[bool, int, int]:
    """(mirrored, shift down, shift right) that explains `after`."""
    padded = np.pad(before, ((3, 3), (3, 3), (0, 0)), mode="edge")
    for dy in range(-3, 4):
        for dx in range(-3, 4):
            part = padded[3 + dy : 13 + dy, 3 + dx : 15 + dx]
            for mirrored in (False, True):
                if (after == (part[:, ::-1] if mirrored else part)).all():
                    return mirrored, dy, dx
    raise AssertionError("neither a flip nor a shift")


def test_half_of_the_images_are_flipped_and_all_shifts_are_as_likely() -> None:
    flips = Transform(1, 2, 1, flip=True)
    x = np.tile(np.array([0, 1], np.uint8).reshape(1, 1, 2, 1), (10_000, 1, 1, 1))
    y = flips.augment(x, np.arange(10_000), seed=0, epoch=0)
    assert abs(int(y[:, 0, 0, 0].sum()) - 5_000) < 250  # five standard deviations


def test_without_flips_and_crops_nothing_varies() -> None:
    x = pictures(3, 8, 8, 3)
    assert Transform(8, 8, 3).augment(x, np.arange(3), seed=0, epoch=0) is x


def test_the_hash_is_splitmix64() -> None:
    def mix(value: int) -> int:
        value = (value + 0x9E3779B97F4A7C15) % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        return value ^ value >> 31

    assert mix(0) == 0xE220A8397B1DCDAF  # the generator's published first output for seed 0
    expected = [mix(mix(mix(7) ^ 3) ^ i) for i in range(5)]
    assert splitmix64_of(7, 3, np.arange(5)).tolist() == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"height": 0}, "sizes of at least 1"),
        ({"crop_pixels": 8}, "give 0 to 7"),
        ({"crop_pixels": -1}, "give 0 to 7"),
        ({"resize": "cubic"}, "'bilinear' or 'nearest'"),
    ],
)
def test_a_transform_that_cannot_be_is_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Transform(**{"height": 8, "width": 8, "channels": 3} | arguments)


def test_rows_and_columns_are_shifted_by_themselves():
    """All nine shifts by at most a pixel occur."""
    images = np.arange(25, dtype=np.uint8).reshape(1, 5, 5, 1).repeat(200, axis=0)
    shifted = Transform(5, 5, 1, crop_pixels=1).augment(images, np.arange(200), seed=1, epoch=0)
    middles = {divmod(int(pixel), 5) for pixel in shifted[:, 2, 2, 0]}
    assert middles == {(row, column) for row in (1, 2, 3) for column in (1, 2, 3)}
