"""What onnxruntime computes for a QDQ model, as the integers that our graph computes.

onnxruntime evaluates such a model in float, or in integers where its optimizer finds the pattern,
so its own two levels differ by single steps; ours may differ as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.packages import OPTIONAL

from mcutrain.errors import McutrainError
from mcutrain.formats.outputs import kept
from mcutrain.ir.graph import Graph, TensorType

Array = npt.NDArray[Any]


def onnxruntime_outputs(
    path: str | Path, inputs_int8: Array, graph: Graph, optimize: bool
) -> Array:
    """The first output for each input: int8 [n, …] in our layout.

    inputs_int8: [n, …], as `graph` (loaded from `path`, or written there) takes them.
    optimize: ORT_ENABLE_ALL, else ORT_DISABLE_ALL. Raises McutrainError without onnxruntime.
    """
    from mcutrain.formats.onnx.writer import axis_order, input_axes  # onnx is slow to import

    session = _session(path, optimize)
    x, y = graph.tensors[graph.inputs[0]].type, graph.tensors[graph.outputs[0]].type
    name, kind = session.get_inputs()[0].name, session.get_inputs()[0].type
    names = [output.name for output in session.get_outputs()]
    wanted = names[kept(names)[0]]
    there = graph.input_axes or input_axes(graph, graph.inputs[0])
    back = graph.output_axes[0] if graph.output_axes else axis_order(len(y.shape))
    results = []
    for one in inputs_int8:
        taken = one.reshape(x.shape)
        fed = _encode(taken.transpose(there), x, kind)
        found = session.run([wanted], {name: np.ascontiguousarray(fed)})[0]
        results.append(_decode(_stored(found, back, y), y))
    return np.concatenate(results)


def check_onnxruntime() -> None:
    """Raise McutrainError if it is not installed."""
    if not OPTIONAL["onnxruntime"].is_installed:
        raise McutrainError(OPTIONAL["onnxruntime"].missing)


def _session(path: str | Path, optimize: bool) -> Any:
    check_onnxruntime()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own errors share no other base
        raise McutrainError(f"onnxruntime cannot load {path}: {error}") from error


def _encode(integers: Array, kind: TensorType, element_type: str) -> Array:
    """Our int8 as the model's input type."""
    if element_type == "tensor(int8)":
        return integers
    if kind.dtype == "int16" and element_type != "tensor(float)":
        return integers.astype(element_type[len("tensor(") : -1])
    if element_type == "tensor(uint8)":
        return (integers.astype(np.int16) + 128).astype(np.uint8)
    real = (integers.astype(np.float32) - kind.zero_point) * np.float32(kind.scale)
    return real.astype(np.float32)


def _decode(found: Array, kind: TensorType) -> Array:
    """The model's output as our int8."""
    if found.dtype == np.int8:
        return np.asarray(found)
    if found.dtype == np.uint8:
        return (found.astype(np.int16) - 128).astype(np.int8)
    integers = np.rint(found / np.float32(kind.scale)) + kind.zero_point
    return np.asarray(np.clip(integers, -128, 127), np.int8)


def _stored(found: Array, axes: Sequence[int], kind: TensorType) -> Array:
    """Return what the model gives in our layout. axes: see `Graph.output_axes`."""
    there = [kind.shape[axis] for axis in axes]
    return found.reshape(there).transpose(np.argsort(axes)).reshape(kind.shape)
