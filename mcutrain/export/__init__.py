"""Trained models out: graphs as .tflite and .onnx files, and originals with trained parameters."""

from mcutrain.export.compare import Changes, TensorChange, compare_models
from mcutrain.export.models import Export, export, format_of
from mcutrain.export.onnx import write_onnx
from mcutrain.export.tflite import write_tflite
from mcutrain.export.trained import step_of, trained_graph

__all__ = [
    "Changes",
    "Export",
    "TensorChange",
    "compare_models",
    "export",
    "format_of",
    "step_of",
    "trained_graph",
    "write_onnx",
    "write_tflite",
]
