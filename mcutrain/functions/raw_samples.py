"""Raw samples of a project's front end as files: one channel of sound, or rows of a sensor."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.manifest import BoardProject

from mcutrain.data import read_rows, read_samples
from mcutrain.errors import DataError
from mcutrain.frontends import Frontend, parse

MOST_SAMPLES = 60 * 16_000
"""Of a file: a minute of sound."""
AXES = "xyz"

Raw = npt.NDArray[np.int16]


def front_of(project: BoardProject) -> Frontend | None:
    """What makes samples of raw ones; None for a board that takes other samples."""
    order = project.manifest.sample_order
    return None if order is None else parse(order.frontend, project.manifest.input.shape[1:])


def read_raw(front: Frontend | None, path: Path) -> Raw:
    """The samples (n,) or rows (n, axes) of a WAV or CSV file. Raises DataError."""
    if front is None:
        raise DataError("a file that is played is of raw samples, but this model has no front end")
    what = "CSV" if front.takes_rows else "WAV"
    try:
        if front.takes_rows:
            return read_rows(path, front.kind, front.channels, MOST_SAMPLES)
        return read_samples(path, front.rate_hz, MOST_SAMPLES)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}; give a {what} file") from error
    except DataError as error:
        raise DataError(f"{path} {error}") from error


def raw_suffix(front: Frontend) -> str:
    """How a file's name ends."""
    return ".csv" if front.takes_rows else ".wav"


def raw_file(front: Frontend, samples: npt.NDArray[Any]) -> bytes:
    """A file of raw samples, which `read_raw` and data sets read."""
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
