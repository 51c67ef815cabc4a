"""The end of an .onnx model for another number of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from mcutrain.formats.onnx.file import tensor_to_array
from mcutrain.ir.graph import TensorType

Array = npt.NDArray[Any]

UINT8_OFFSET = 128  # an uint8 activation is our int8 plus this
VIEWS = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")
MEANS = ("GlobalAveragePool", "ReduceMean")
LIMITS = ("Add", "Clip", "Relu")  # between a layer and its QuantizeLinear


def resize_outputs(
    model: ModelProto, head: NodeProto, classes: tuple[int, int], kinds: Sequence[TensorType]
) -> None:
    """Change what follows the head: the quantization of its output, shapes, the model's outputs.

    classes: before and now. kinds: of the head's new output, and of its mean over positions if that
    gives the logits.
    """
    graph = model.graph
    behind = {head.output[0]}  # all that is computed from the head
    kind_of = {head.output[0]: kinds[0]}  # of it, what holds the head's own numbers, or their mean
    for node in graph.node:
        if behind.intersection(node.input):
            behind.update(node.output)
        kind = next((kind_of[n] for n in node.input if n in kind_of), None)
        if kind is not None and node.op_type in (*QUANTIZERS, *VIEWS, *LIMITS, *MEANS):
            kind = kinds[-1] if node.op_type in MEANS else kind
            kind_of.update(dict.fromkeys(node.output, kind))
            _adapt(graph, node, classes, kind)
    for info in [i for i in graph.value_info if i.name in behind]:
        graph.value_info.remove(info)
    for info in graph.output:
        if info.name in behind:
            dims = [d for d in info.type.tensor_type.shape.dim if d.dim_value == classes[0]]
            for dim in dims[-1:]:
                dim.dim_value = classes[1]


def _adapt(graph: GraphProto, node: NodeProto, classes: tuple[int, int], kind: TensorType) -> None:
    if node.op_type in QUANTIZERS:
        _set_quantization(graph, node, kind)
    if node.op_type == "Reshape":
        _set_shape(graph, node, classes)


def _set_quantization(graph: GraphProto, node: NodeProto, kind: TensorType) -> None:
    """New constants: the old ones may serve other nodes, too."""
    is_uint8 = len(node.input) < 3 or not node.input[2]
    if not is_uint8:
        is_uint8 = _initializer(graph, node.input[2]).data_type == TensorProto.UINT8
    dtype, offset = (np.uint8, UINT8_OFFSET) if is_uint8 else (np.int8, 0)
    name = f"{node.output[0]}/new"
    values: list[Array] = [
        np.array(kind.scale, np.float32),
        np.array(kind.zero_point + offset, dtype),
    ]
    names = [f"{name}/scale", f"{name}/zero_point"]
    for one, value in zip(names, values, strict=True):
        graph.initializer.append(numpy_helper.from_array(value, one))
    del node.input[1:]
    node.input.extend(names)


def _set_shape(graph: GraphProto, node: NodeProto, classes: tuple[int, int]) -> None:
    shape = tensor_to_array(_initializer(graph, node.input[1])).copy()
    places = np.flatnonzero(shape == classes[0])
    if len(places):
        shape[places[-1]] = classes[1]
        name = f"{node.output[0]}/new/shape"
        graph.initializer.append(numpy_helper.from_array(shape, name))
        node.input[1] = name


def _initializer(graph: GraphProto, name: str) -> TensorProto:
    found: TensorProto | None = next((t for t in graph.initializer if t.name == name), None)
    if found is None:
        raise ValueError(f"{name!r} is computed, not a constant")
    return found
