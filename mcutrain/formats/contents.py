"""What a model file holds, told without reading its network: for files that cannot be read, too."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from mcutrain_host.dataclass import dataclass

from mcutrain.formats.tflite.file import MISSING, is_float, is_tflite, naming, read_file


@dataclass(frozen=True)
class FileEdge:
    """An input or output of the file. shape: None where a length is open."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str


@dataclass(frozen=True)
class Contents:
    """operators: how many nodes of each. parameters: constant real numbers in the file.

    is_float: whether activations are real numbers.
    """

    inputs: tuple[FileEdge, ...]
    outputs: tuple[FileEdge, ...]
    operators: Mapping[str, int]
    parameters: int
    is_float: bool


def contents_of(path: Path) -> Contents:
    """Read a .tflite or .onnx file. Raises ModelError for what is neither, or corrupt."""
    if is_tflite(path):
        with naming(path):
            return _of_tflite(path)
    return _of_onnx(path)


def _of_tflite(path: Path) -> Contents:
    model = read_file(path)
    computed = {i for op in model.operators for i in op.outputs if i != MISSING}

    def edges(indices: Iterable[int]) -> tuple[FileEdge, ...]:
        found = (model.tensors[i] for i in indices if i != MISSING)
        return tuple(FileEdge(t.name, t.shape, t.dtype) for t in found)

    real = ("float32", "float16")
    constants = [t for t in model.tensors if t.data is not None]
    return Contents(
        edges(model.inputs),
        edges(model.outputs),
        Counter(op.name for op in model.operators),
        sum(math.prod(t.shape) for t in constants if t.dtype in (*real, "int8")),
        is_float(model.tensors[i].dtype for i in computed),
    )


def _of_onnx(path: Path) -> Contents:
    from onnx import TensorProto, ValueInfoProto  # onnx is slow to import

    from mcutrain.formats.onnx.file import read_model, type_name

    graph = read_model(path).graph
    known = {tensor.name for tensor in graph.initializer}

    def edge(info: ValueInfoProto) -> FileEdge:
        kind = info.type.tensor_type
        shape = tuple(d.dim_value if d.dim_value > 0 else None for d in kind.shape.dim)
        name = type_name(kind.elem_type)
        return FileEdge(info.name, shape, {"float": "float32"}.get(name, name))

    real = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
    operators = Counter(str(node.op_type) for node in graph.node)
    return Contents(
        tuple(edge(info) for info in graph.input if info.name not in known),
        tuple(map(edge, graph.output)),
        operators,
        sum(math.prod(t.dims) for t in graph.initializer if t.data_type in real),
        not any("QuantizeLinear" in name or "QLinear" in name for name in operators),
    )
