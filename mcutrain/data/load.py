"""A path becomes a Split: an .npz file, or a folder with a folder per class."""

from os import PathLike

from mcutrain.data._folders import Progress, read_folders
from mcutrain.data._npz import read_npz
from mcutrain.data._place import read_place
from mcutrain.data.dataset import Split


def load(
    path: str | PathLike[str],
    *,
    test_share: float = 0.2,
    seed: int = 0,
    image_shape: tuple[int, int, int] | None = None,
    progress: Progress | None = None,
    samples: int | None = None,
    test_samples: int | None = None,
) -> Split:
    """Read the data set at `path`.

    An .npz file holds `x`, `y` and optionally `split` (0 or "train", 1 or "test", per sample),
    or `x_train`, `y_train`, `x_test`, `y_test`; optionally `names`. Without labels it holds `x`
    (and `split`), or `x_train`, `x_test` and optionally `y_test` (0 = normal, 1 = anomaly). It is
    never unpickled.

    A folder holds a folder of images per class, or `train/` and `test/` (or `val/`) with a
    folder per class each. Labels follow the sorted folder names. Images are read by Pillow,
    turned as their EXIF data says, and made grey or RGB; with `image_shape` (height, width,
    channels), as the model's input has it, each is centre-cropped and resized at once. Without,
    they become RGB and must have one size. `progress(done, total)` is called per image.

    Where the data set does not say what is for the test, `test_share` of every class is,
    chosen by `seed` (see `stratified`). `samples` and `test_samples` take so many of each part,
    of every class alike, also chosen by `seed` (see `drawn`); of a folder only those are read.

    Raises DataError for everything that cannot be used; the message starts with the path.
    """
    return read_place(
        path,
        lambda place: read_folders(
            place, test_share, seed, image_shape, progress, (samples, test_samples)
        ),
        lambda place: read_npz(place, test_share, seed).drawn(samples, test_samples, seed),
        "a folder with class folders",
    )
