"""Data sets: loaded, split, ordered, made to fit a model's input, and quantized for it."""

from mcutrain.data._folders import Progress
from mcutrain.data.check import check
from mcutrain.data.dataset import Dataset, Split, as_names, drawn, order, stratified
from mcutrain.data.layout import arranged, is_same_shape
from mcutrain.data.load import load
from mcutrain.data.quantize import Normalization, quantize_input
from mcutrain.data.ranges import ModelInput, input_notes
from mcutrain.data.transform import Transform

__all__ = [
    "Dataset",
    "ModelInput",
    "Normalization",
    "Progress",
    "Split",
    "Transform",
    "arranged",
    "as_names",
    "check",
    "drawn",
    "input_notes",
    "is_same_shape",
    "load",
    "order",
    "quantize_input",
    "stratified",
]
