"""Model files and graphs: .tflite and .onnx, int8 and float, read and written.

`load` reads an int8 model, `read_float` one to quantize. What a format knows about an operator lies
in its own folder; nothing else in mcutrain knows a format.
"""

from __future__ import annotations

from pathlib import Path

from mcutrain.errors import ModelError
from mcutrain.formats.float_model import FloatModel, read_float
from mcutrain.formats.foreign import is_saved_model, not_a_model
from mcutrain.formats.tflite.file import is_tflite
from mcutrain.formats.tflite.read import load_tflite
from mcutrain.ir.graph import Graph

__all__ = ["FloatModel", "load", "load_tflite", "read_float"]


def load(path: str | Path) -> Graph:
    """The int8 graph of a model file, in canonical form. Raises ModelError with a sentence."""
    path = Path(path)
    if is_saved_model(path):
        raise not_a_model(path)
    if is_tflite(path):
        return load_tflite(path)
    if path.suffix.lower() == ".tflite":
        raise ModelError(f"{path} is not a .tflite file: the identifier TFL3 is missing")
    if path.suffix.lower() == ".onnx":
        from mcutrain.formats.onnx.read import load_onnx  # onnx is slow to import

        return load_onnx(path)
    raise not_a_model(path)
