"""Data sets: loaded, split, ordered, made to fit a model's input, and quantized for it."""

from pathlib import Path

from mcutrain.data._compressed import SUFFIXES as COMPRESSED
from mcutrain.data._folders import SUFFIXES as IMAGE_SUFFIXES
from mcutrain.data._folders import Progress, read_image
from mcutrain.data._parquet import SUFFIXES as _PARQUET
from mcutrain.data._raw_images import frame_files, read_frames
from mcutrain.data._raw_rows import read_rows
from mcutrain.data._sounds import read_noise, read_samples
from mcutrain.data._tables import TABLES as _TABLES
from mcutrain.data.arrays import Data, is_path, of_arrays, samples_of
from mcutrain.data.check import check
from mcutrain.data.dataset import (
    AtMost,
    Dataset,
    Split,
    as_names,
    drawn,
    has_real_targets,
    order,
    stratified,
)
from mcutrain.data.episodes import Episodes, episode
from mcutrain.data.groups import Drawing
from mcutrain.data.ids import as_ids
from mcutrain.data.layout import (
    InputOrder,
    RawWindows,
    arranged,
    in_order,
    is_same_shape,
    split_in_order,
)
from mcutrain.data.load import load
from mcutrain.data.names import parse_names, read_names
from mcutrain.data.outputs import Outputs, better_order
from mcutrain.data.quantize import Normalization, pixel_codes, quantize_input, takes_pixels
from mcutrain.data.ranges import ModelInput, input_notes
from mcutrain.data.targets import IGNORED, TargetPart, Targets
from mcutrain.data.transform import Transform

NEEDED_BY = {"pillow": IMAGE_SUFFIXES, "soundfile": COMPRESSED, "pyarrow": _PARQUET}
"""Endings of the files that an optional package reads."""


def is_table(data: Data) -> bool:
    """Return whether it is the path of one table."""
    return is_path(data) and Path(data).suffix.lower() in _TABLES.suffixes


__all__ = [
    "IGNORED",
    "IMAGE_SUFFIXES",
    "NEEDED_BY",
    "AtMost",
    "Data",
    "Dataset",
    "Drawing",
    "Episodes",
    "InputOrder",
    "ModelInput",
    "Normalization",
    "Outputs",
    "Progress",
    "RawWindows",
    "Split",
    "TargetPart",
    "Targets",
    "Transform",
    "arranged",
    "as_ids",
    "as_names",
    "better_order",
    "check",
    "drawn",
    "episode",
    "frame_files",
    "has_real_targets",
    "in_order",
    "input_notes",
    "is_path",
    "is_same_shape",
    "is_table",
    "load",
    "of_arrays",
    "order",
    "parse_names",
    "pixel_codes",
    "quantize_input",
    "read_frames",
    "read_image",
    "read_names",
    "read_noise",
    "read_rows",
    "read_samples",
    "samples_of",
    "split_in_order",
    "stratified",
    "takes_pixels",
]
