"""All that reads files and arrays, which `mcutrain.data` imports when it is asked for."""

from pathlib import Path

from mcutrain.data._compressed import SUFFIXES as COMPRESSED
from mcutrain.data._folders import SUFFIXES as IMAGE_SUFFIXES
from mcutrain.data._folders import Progress, read_image
from mcutrain.data._load import load
from mcutrain.data._parquet import SUFFIXES as _PARQUET
from mcutrain.data._raw_images import frame_files, read_frames
from mcutrain.data._raw_rows import read_rows
from mcutrain.data._sounds import read_noise, read_samples
from mcutrain.data._tables import TABLES as _TABLES
from mcutrain.data.arrays import of_arrays, samples_of
from mcutrain.data.dataset import Data, is_path

__all__ = [
    "IMAGE_SUFFIXES",
    "NEEDED_BY",
    "Progress",
    "frame_files",
    "is_table",
    "load",
    "of_arrays",
    "read_frames",
    "read_image",
    "read_noise",
    "read_rows",
    "read_samples",
    "samples_of",
]

NEEDED_BY = {"pillow": IMAGE_SUFFIXES, "soundfile": COMPRESSED, "pyarrow": _PARQUET}
"""Endings of the files that an optional package reads."""


def is_table(data: Data) -> bool:
    """Return whether it is the path of one table."""
    return is_path(data) and Path(data).suffix.lower() in _TABLES.suffixes
