"""Data sets: loaded, split, ordered, made to fit a model's input, and quantized for it.

What reads them is imported when it is asked for: a plan reads none.
"""

from typing import TYPE_CHECKING

from mcutrain.data.check import check
from mcutrain.data.dataset import (
    NO_TABLE,
    AtMost,
    Data,
    Dataset,
    Split,
    as_names,
    drawn,
    has_real_targets,
    is_path,
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
from mcutrain.data.names import parse_names, read_names
from mcutrain.data.outputs import Outputs, better_order
from mcutrain.data.quantize import Normalization, pixel_codes, quantize_input, takes_pixels
from mcutrain.data.ranges import ModelInput, input_notes
from mcutrain.data.targets import IGNORED, TargetPart, Targets
from mcutrain.data.transform import Transform

if TYPE_CHECKING:
    from mcutrain.data._reading import (
        IMAGE_SUFFIXES,
        NEEDED_BY,
        Progress,
        frame_files,
        is_table,
        load,
        of_arrays,
        read_frames,
        read_image,
        read_noise,
        read_rows,
        read_samples,
        samples_of,
    )

__all__ = [
    "IGNORED",
    "IMAGE_SUFFIXES",
    "NEEDED_BY",
    "NO_TABLE",
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

if not TYPE_CHECKING:  # a type checker would take any name for one of these

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'mcutrain.data' has no attribute {name!r}")
        from mcutrain.data import _reading

        return getattr(_reading, name)
