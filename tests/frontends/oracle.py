"""The TFLite interpreter, from whichever package is installed."""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mcutrain.frontends import multipliers
from mcutrain.ir.graph import Graph, Node
from mcutrain.ops.conv_2d import Conv2D

Array = npt.NDArray[Any]

PACKAGES = ("ai_edge_litert", "tflite_runtime")


def _find() -> tuple[str, Any]:
    for package in PACKAGES:
        try:
            return package, importlib.import_module(f"{package}.interpreter")
        except ImportError:
            continue
    return "", None


PACKAGE, MODULE = _find()

# LiteRT's reference FULLY_CONNECTED rounds once since 1.4; tflite-runtime's rounds twice, and
# takes the first channel's scale for all channels.
ROUNDS_ONCE = PACKAGE == "ai_edge_litert"

needs_interpreter = pytest.mark.skipif(
    MODULE is None, reason="neither ai-edge-litert nor tflite-runtime is installed"
)


def run_reference(
    model: bytes | str | Path, inputs: Sequence[Sequence[Array]]
) -> list[list[Array]]:
    """The outputs of the reference kernels for each tuple of inputs, in the model's order."""
    source: dict[str, Any] = (
        {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
    )
    interpreter = MODULE.Interpreter(
        experimental_op_resolver_type=MODULE.OpResolverType.BUILTIN_REF, **source
    )
    interpreter.allocate_tensors()
    return [_invoke(interpreter, values) for values in inputs]


def _invoke(interpreter: Any, values: Sequence[Array]) -> list[Array]:
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]


def as_installed(graph: Graph) -> Graph:
    """The graph with the rounding of FULLY_CONNECTED that the installed interpreter has."""
    return (
        graph if ROUNDS_ONCE else graph.with_nodes(_rounding_twice(graph, n) for n in graph.nodes)
    )


def _rounding_twice(graph: Graph, node: Node) -> Node:
    op = node.op
    if not (isinstance(op, Conv2D) and op.requantize and op.requantize.rounds_once):
        return node
    x, w, _ = graph.types(node.inputs)
    (y,) = graph.types(node.outputs)
    stage = multipliers.fully_connected_requantize_rounding_twice(
        x.scale, w.scales, y.scale, y.zero_point
    )
    stage = replace(stage, low=op.requantize.low, high=op.requantize.high)
    return replace(node, op=replace(op, requantize=stage))
