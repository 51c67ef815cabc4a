"""Images as a camera sends them: files of frames, and images that are brought into its format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data._folders import (
    IMAGES,
    Kind,
    Listing,
    Progress,
    is_of,
    place_of,
    read_image,
    require_pillow,
)
from mcutrain.data.dataset import Samples
from mcutrain.data.layout import InputOrder
from mcutrain.data.transform import Transform
from mcutrain.errors import DataError
from mcutrain.frontends.images import ImageFrontend

Raw = npt.NDArray[np.int16]
FRAMES = Kind("frame", "frames", frozenset({".raw"}))
"""Files of a camera's bytes, row after row, and nothing else."""


def camera_of(order: InputOrder | None) -> ImageFrontend | None:
    """The front end that takes images; None if there is none, or another."""
    front = None if order is None else order.frontend
    return front if isinstance(front, ImageFrontend) else None


def raw_arrays(x: npt.NDArray[Any], front: ImageFrontend) -> Raw | None:
    """Raw samples of uint8 frames (n, height, row_bytes), or of images; None of what is neither."""
    if x.dtype != np.uint8:
        return None
    if x.shape[1:] == (front.hop, front.row_bytes):
        return front.frames(x)
    images = x[..., np.newaxis] if x.ndim == 3 else x
    return front.packed(Transform(*front.picture, 3).fit(images))


def read_frames(path: Path, front: ImageFrontend) -> Raw:
    """The rows (n, numbers) of a file's frames, or of an image, as the camera sends them.

    Raises DataError, OSError.
    """
    if path.suffix.lower() not in FRAMES.suffixes:
        require_pillow()
        images = read_image(path, (*front.picture, 3))[np.newaxis]
        return front.packed(images).reshape(-1, front.channels)
    found = np.frombuffer(path.read_bytes(), np.uint8)
    shape = (front.hop, front.row_bytes)
    if not found.size or found.size % (shape[0] * shape[1]):
        raise DataError(
            f"has {found.size:,} bytes, but a frame of the camera has {shape[0]} rows of "
            f"{shape[1]}: give whole frames, or another --frontend"
        )
    return front.frames(found.reshape(-1, *shape)).reshape(-1, front.channels)


def frame_files(folder: Path) -> list[Path]:
    """The images and frames in a folder, sorted by name. Raises DataError if there are none."""
    found = [p for kind in (IMAGES, FRAMES) for p in folder.iterdir() if is_of(p, kind)]
    if not found:
        raise DataError(f"there is no image: files of these end in {IMAGES.endings}, .raw")
    return sorted(found)


def read_raw_images(listing: Listing, order: InputOrder, progress: Progress | None) -> Samples:
    """float32 (n, *model_shape): what the front end makes of the first frame of each file."""
    front = camera_of(order)
    if front is None:
        raise DataError(
            "frames are of a camera: say which one, as --frontend "
            "camera:width=160,height=120,format=rgb565"
        )
    x = np.empty((len(listing.paths), *order.model_shape), np.float32)
    for i, path in enumerate(listing.paths):
        try:
            rows = read_frames(path, front)[: front.hop]
        except (DataError, OSError) as error:
            raise DataError(f"{place_of(path)} {error}") from error
        x[i] = order.of_raw(rows[np.newaxis], "the image")[0]
        if progress is not None:
            progress(i + 1, len(listing.paths))
    return x
