"""Trained models out: graphs as .tflite and .onnx files, and originals with trained parameters."""

from mcutrain.trained.compare import Changes, TensorChange, compare_models
from mcutrain.trained.graph import (
    model_of,
    output_exponent,
    step_of,
    trained_by,
    trained_graph,
    trained_in,
    trained_tensors,
)
from mcutrain.trained.models import Export, export

__all__ = [
    "Changes",
    "Export",
    "TensorChange",
    "compare_models",
    "export",
    "model_of",
    "output_exponent",
    "step_of",
    "trained_by",
    "trained_graph",
    "trained_in",
    "trained_tensors",
]
