"""Bytes of an .onnx file to protobuf messages, and their tensors and attributes to numpy.

Nothing here trusts the file: sizes are compared before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from mcutrain_host.dataclass import dataclass
from mcutrain_host.reading import read_file
from mcutrain_host.text import reason
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.onnx.external import load_data_beside
from mcutrain.formats.outputs import kept as outputs_kept
from mcutrain.formats.outputs import needed

Array = npt.NDArray[Any]

MAX_FILE_BYTES = 2**30
MAX_NODES = 100_000
MAX_RANK = 16
MAX_NAME = 1024  # characters
MAX_NUMBERS = 64  # of an attribute or shape; longer ones serve nothing
OLDEST_OPSET = 7  # the first whose Add, BatchNormalization, Dropout … are inference as it is now
NEWEST_OPSET = 28  # the newest that is known; an attribute that a rule does not ask for is refused

# TensorProto type → numpy type, the typed field that may hold the data, and its element type.
_TYPES: dict[int, tuple[type[np.generic], str]] = {
    TensorProto.FLOAT: (np.float32, "float_data"),
    TensorProto.DOUBLE: (np.float64, "double_data"),
    TensorProto.INT8: (np.int8, "int32_data"),
    TensorProto.INT16: (np.int16, "int32_data"),
    TensorProto.UINT8: (np.uint8, "int32_data"),
    TensorProto.INT32: (np.int32, "int32_data"),
    TensorProto.INT64: (np.int64, "int64_data"),
    TensorProto.BOOL: (np.bool_, "int32_data"),
    TensorProto.FLOAT16: (np.float16, "int32_data"),
    TensorProto.BFLOAT16: (np.uint16, "int32_data"),
}
HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Read as float32, which holds all their numbers."""


def read_model(path: str | Path) -> ModelProto:
    """Parse the file. Raises ModelError for anything that is no sound .onnx of a known opset."""
    path = Path(path)
    try:
        if not path.is_file():
            raise ModelError(f"{path} is not a file; give the path of an .onnx model")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ModelError(f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB, the limit")
        data = read_file(path, MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {reason(error)}") from error
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise ModelError(f"{path} is not an ONNX model or is cut short") from error
    if not model.HasField("graph") or not model.graph.node:
        raise ModelError(f"{path} holds no graph; it is not an ONNX model or is cut short")
    if len(model.graph.node) > MAX_NODES:
        raise ModelError(f"{path} has {len(model.graph.node)} nodes; the limit is {MAX_NODES}")
    if model.graph.sparse_initializer:
        raise UnsupportedError(f"{path} holds sparse tensors; store them dense")
    _check_names(model.graph)
    _check_opset(model)
    load_data_beside(model, path)
    return model


def keep_output(graph: GraphProto) -> None:
    """Leave only the outputs that were chosen, if some were, and the nodes that they need."""
    outputs = list(graph.output)
    kept = outputs_kept([info.name for info in outputs])
    if kept == tuple(range(len(outputs))):
        return
    del graph.output[:]
    graph.output.extend(outputs[i] for i in kept)
    nodes = needed(list(graph.node), (info.name for info in graph.output), _edges)
    del graph.node[:]
    graph.node.extend(nodes)


def _edges(node: NodeProto) -> tuple[Iterable[str], Iterable[str]]:
    return node.input, [name for name in node.output if name]


def _check_names(graph: GraphProto) -> None:
    """Names go into messages and into generated text: they must be short and printable.

    What is no UTF-8 is not even a string here: protobuf hands it out as bytes.
    """
    names = [x.name for xs in (graph.initializer, graph.input, graph.output) for x in xs]
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
        names += [attribute.name for attribute in node.attribute]
    for name in names:
        if not isinstance(name, str) or len(name) > MAX_NAME or not name.isprintable():
            raise ModelError(f"the model holds the name {name[:80]!r}, which is no readable text")


def opsets(model: ModelProto) -> list[int]:
    """The imported versions of ONNX's own operators."""
    return [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]


def _check_opset(model: ModelProto) -> None:
    versions = opsets(model)
    if len(versions) != 1:
        raise ModelError(
            f"the model must import one version of ONNX's operators, not {versions[:4]}"
        )
    if not OLDEST_OPSET <= versions[0] <= NEWEST_OPSET:
        raise UnsupportedError(
            f"the model is of opset {versions[0]}; {OLDEST_OPSET} to {NEWEST_OPSET} are supported: "
            "export it anew for one of these"
        )


def tensor_to_array(tensor: TensorProto) -> Array:
    """The data of an initializer or constant, after its dimensions were found to fit them.

    Numbers of 16 bits become float32.
    """
    name = tensor.name
    if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
        raise UnsupportedError(
            f"tensor {name!r} lies in another file; save the model with its data inside"
        )
    if tensor.data_type not in _TYPES:
        known = sorted(type_name(t) for t in _TYPES)
        raise UnsupportedError(
            f"tensor {name!r} has the element type {type_name(tensor.data_type)}; "
            f"supported are {', '.join(known)}"
        )
    shape = tuple(tensor.dims)
    if len(shape) > MAX_RANK or any(d < 0 for d in shape):
        raise ModelError(f"tensor {name!r} has the impossible shape {shape[:MAX_RANK]}")
    dtype, field_name = _TYPES[tensor.data_type]
    elements = math.prod(shape)
    if tensor.HasField("raw_data"):
        needed, found = elements * np.dtype(dtype).itemsize, len(tensor.raw_data)
        unit = "bytes"
    else:
        needed, found, unit = elements, len(getattr(tensor, field_name)), "numbers"
    if needed != found:
        raise ModelError(f"tensor {name!r} of shape {shape} needs {needed} {unit}, has {found}")
    data = _convert(tensor, dtype, field_name).reshape(shape)
    if tensor.data_type == TensorProto.BFLOAT16:
        return (data.astype(np.uint32) << 16).view(np.float32)
    return data.astype(np.float32) if tensor.data_type == TensorProto.FLOAT16 else data


def _convert(tensor: TensorProto, dtype: type[np.generic], field_name: str) -> Array:
    if tensor.HasField("raw_data"):
        little_endian = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(tensor.raw_data, little_endian).astype(dtype)
    numbers = getattr(tensor, field_name)
    if field_name != "int32_data":
        return np.array(numbers, dtype)
    wide = np.array(numbers, np.int32)
    if tensor.data_type in HALVES:  # their bits
        return wide.astype(np.uint16).view(dtype)
    if (wide != wide.astype(dtype)).any():
        raise ModelError(f"tensor {tensor.name!r} holds numbers outside its element type")
    return wide.astype(dtype)


def type_name(data_type: int) -> str:
    """Name of an element type, in lower case; its number if it is unknown."""
    try:
        return str(TensorProto.DataType.Name(data_type)).lower()
    except ValueError:
        return str(data_type)


@dataclass
class Attributes:
    """A node's attributes, each read with the type it must have; remembers which were read."""

    where: str
    protos: dict[str, AttributeProto]
    read: set[str] = field(default_factory=set)

    def integer(self, name: str, default: int) -> int:
        """An integer."""
        found = self._get(name, AttributeProto.INT)
        return default if found is None else int(found.i)

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        """A list of integers."""
        found = self._get(name, AttributeProto.INTS)
        if found is not None and len(found.ints) > MAX_NUMBERS:
            raise ModelError(f"{self.where}: attribute {name!r} has {len(found.ints)} numbers")
        return default if found is None else tuple(found.ints)

    def real(self, name: str, default: float) -> float:
        """A finite real number."""
        found = self._get(name, AttributeProto.FLOAT)
        value = default if found is None else float(found.f)
        if not math.isfinite(value):
            raise ModelError(f"{self.where}: attribute {name!r} is {value}")
        return value

    def reals(self, name: str) -> tuple[float, ...]:
        """A list of real numbers; none if it is not there."""
        found = self._get(name, AttributeProto.FLOATS)
        if found is not None and len(found.floats) > MAX_NUMBERS:
            raise ModelError(f"{self.where}: attribute {name!r} has {len(found.floats)} numbers")
        return () if found is None else tuple(found.floats)

    def text(self, name: str, default: str) -> str:
        """A string."""
        found = self._get(name, AttributeProto.STRING)
        return default if found is None else found.s[:MAX_NUMBERS].decode("utf-8", "replace")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; none if it is not there."""
        found = self._get(name, AttributeProto.STRINGS)
        listed = () if found is None else tuple(found.strings[:MAX_NUMBERS])
        return tuple(one[:MAX_NUMBERS].decode("utf-8", "replace") for one in listed)

    def array(self, name: str) -> Array | None:
        """A tensor."""
        found = self._get(name, AttributeProto.TENSOR)
        return None if found is None else tensor_to_array(found.t)

    def all(self) -> list[AttributeProto]:
        """As they are: for the package onnx, which checks them itself."""
        self.read.update(self.protos)
        return list(self.protos.values())

    def _get(self, name: str, kind: int) -> AttributeProto | None:
        self.read.add(name)
        found = self.protos.get(name)
        if found is None:
            return None
        if found.type != kind or found.ref_attr_name:
            raise ModelError(f"{self.where}: attribute {name!r} has the wrong type")
        return found

    @property
    def unread(self) -> list[str]:
        """Attributes that the file has and nothing asked for."""
        return sorted(self.protos.keys() - self.read)
