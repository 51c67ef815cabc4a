"""Model files become graphs: `load` reads .tflite and .onnx."""

from __future__ import annotations

from pathlib import Path

from mcutrain.errors import ModelError
from mcutrain.frontends._tflite_file import is_tflite
from mcutrain.frontends.foreign import is_saved_model, not_a_model
from mcutrain.frontends.tflite import load_tflite
from mcutrain.ir.graph import Graph

__all__ = ["load", "load_tflite"]


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
        from mcutrain.frontends.onnx import load_onnx  # onnx is slow to import

        return load_onnx(path)
    raise not_a_model(path)
