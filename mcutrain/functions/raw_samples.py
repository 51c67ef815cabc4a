"""Raw samples of a project's front end as files: sound, rows of a sensor, or a camera's frames."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.manifest import BoardProject

from mcutrain.data import frame_files, read_frames, read_rows, read_samples
from mcutrain.errors import DataError
from mcutrain.frontends import Frontend, parse
from mcutrain.frontends.images import ImageFrontend

MOST_SAMPLES = 60 * 16_000
"""Of a file: a minute of sound."""
MOST_BYTES = 64 << 20
"""Of a camera's frames."""
AXES = "xyz"
HALF = 127.5

Raw = npt.NDArray[np.int16]


def front_of(project: BoardProject) -> Frontend | None:
    """Return what makes samples of raw ones; None for a board that takes other samples."""
    order = project.manifest.sample_order
    return None if order is None else parse(order.frontend, project.manifest.input.shape[1:])


def read_raw(
    front: Frontend | None,
    path: Path,
    note: Callable[[str], None] | None = None,
    most: int | None = None,
) -> Raw:
    """The first samples (n,) or rows (n, …) of a WAV or CSV file, or all of images.

    most: so many; None: MOST_SAMPLES. note: called with a sentence for a longer one. Raises
    DataError.
    """
    most = MOST_SAMPLES if most is None else most
    if front is None:
        raise DataError("a file that is played is of raw samples, but this model has no front end")
    if isinstance(front, ImageFrontend):
        return np.concatenate(list(_files(front, path)))
    try:
        if front.takes_rows:
            found = read_rows(path, front.kind, front.channels, most + 1)
        else:
            found = read_samples(path, front.rate_hz, most + 1)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}; give a {front.RAW.file} file") from error
    except DataError as error:
        raise DataError(f"{path} {error}") from error
    if len(found) > most and note is not None:
        note(f"{path} is longer than is played: only its first {most:,} {front.RAW.unit} are")
    return found[:most]


def played(front: Frontend | None, path: Path, note: Callable[[str], None] | None = None) -> Raw:
    """Return what a board is to hear or see of a file, or of a folder of images. Raises DataError.

    Each file of one image is shown as by hand: something else, then the image, held still.
    """
    if not isinstance(front, ImageFrontend):
        return read_raw(front, path, note)
    most = max(1, MOST_BYTES // (2 * front.channels * front.hop))
    found, count = [], 0
    for rows in _files(front, path):
        found.append(_shown(front, rows))
        count += len(found[-1])
        if count > most * front.hop:
            if note is not None:
                note(
                    f"{path} is longer than is played: only its first {most:,} frames are, of "
                    "which an image has three"
                )
            break
    return np.concatenate(found)[: most * front.hop]


def _shown(front: ImageFrontend, rows: Raw) -> Raw:
    if len(rows) != front.hop:
        return rows
    is_dark = front.features(rows[np.newaxis]).mean() < HALF
    plain = np.full((1, *front.picture, 3), 255 if is_dark else 0, np.uint8)
    return np.concatenate((front.packed(plain)[0], rows, rows))


def _files(front: ImageFrontend, path: Path) -> Iterator[Raw]:
    """The frames of each file. Raises DataError."""
    try:
        for file in frame_files(path) if path.is_dir() else [path]:
            yield read_frames(file, front)
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error}; give an image, or a folder of them"
        ) from error
    except DataError as error:
        raise DataError(f"{path} {error}") from error


def raw_file(front: Frontend, samples: npt.NDArray[Any]) -> bytes:
    """A file of raw samples, which `read_raw` and data sets read."""
    if front.takes_images:
        return samples.astype("<i2").tobytes()
    if front.takes_rows:
        names = AXES if front.channels == len(AXES) else range(front.channels)
        rows = samples.reshape(-1, front.channels).tolist()
        lines = [",".join(f"a{name}" for name in names), *(",".join(map(str, r)) for r in rows)]
        return "".join(f"{line}\n" for line in lines).encode()
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(front.rate_hz)
        file.writeframes(samples.astype("<i2").tobytes())
    return content.getvalue()
