"""A .tflite file under construction: tensors, buffers and operators by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import UnsupportedError
from mcutrain.formats.layers import Row, activation_of, following_reshape
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.operands import ACTIVATIONS
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.names import Names
from mcutrain.quant.multipliers import INT8

Array = npt.NDArray[Any]
Padding = tuple[int, int, int, int]  # top, bottom, left, right
Limits = tuple[int, int]

SCHEMA_VERSION = 3
NO_TENSOR = -1
SIGNATURE = "serving_default"  # as TensorFlow's converter calls the only one

TENSOR_TYPES = {
    "int8": tflite.TensorType.INT8,
    "int16": tflite.TensorType.INT32,  # token ids, as GATHER takes them
    "int32": tflite.TensorType.INT32,
}

SINCE = {
    "FULLY_CONNECTED": {"KeepNumDims": 5},
    "RESIZE_BILINEAR": {"HalfPixelCenters": 3},
    "RESIZE_NEAREST_NEIGHBOR": {"AlignCorners": 3, "HalfPixelCenters": 3},
}
"""The version from which on an operator has an option, as op_version.cc of TFLite has it."""

FUSED = {name: code for code, name in ACTIVATIONS.items()}


@dataclass(frozen=True)
class Description:
    """What a file says besides the network. metadata: content by name."""

    text: str = ""
    metadata: Mapping[str, bytes] | None = None


class TfliteWriter:
    """Collects what a graph needs. Operators of the file name tensors by their names.

    rows: by name of the node, the layers that become a FULLY_CONNECTED. left_out: the Reshapes'
    outputs that nothing reads, or that the operator before the Reshape writes. versions: the first
    one of each operator whose kernels take int8.
    """

    def __init__(self, graph: Graph, rows: Mapping[str, Row], versions: Mapping[str, int]) -> None:
        self.graph = graph
        self.rows = rows
        self.versions = versions
        self.left_out = {
            node.inputs[0]
            for node in graph.nodes
            if node.name in rows and rows[node.name].x != node.inputs[0]
        }
        self.tensors: list[Table] = []
        self.buffers: list[Table] = [Table("Buffer")]
        self.operators: list[Table] = []
        self.codes: dict[tuple[str, int], int] = {}
        self.names = Names()
        for name in graph.tensors:
            self.names.take(name)
        self._index: dict[str, int] = {}
        self._parameters: dict[tuple[str, TensorType], int] = {}

    # ------------------------------------------------------------------ the graph

    def type(self, name: str) -> TensorType:
        """The type of a tensor of the graph."""
        return self.graph.tensors[name].type

    def following_reshape(self, y: str) -> Node | None:
        """The Reshape that alone reads the tensor."""
        return following_reshape(self.graph, y)

    # ------------------------------------------------------------------ tensors

    def index(self, name: str) -> int:
        """The number of a tensor of the graph; it is added when it is first asked for."""
        if name not in self._index:
            self._index[name] = self._add(self.graph.tensors[name])
        return self._index[name]

    def intermediate(self, name: str, kind: TensorType) -> str:
        """A tensor that the graph does not have; its final name."""
        name = self.names.take(name)
        self._index[name] = self._add(Tensor(name, kind))
        return name

    def parameter(self, name: str, data: Array, kind: TensorType) -> int:
        """A constant of the graph under a type of the file's; its number."""
        key = (name, kind)
        if key not in self._parameters:
            self._parameters[key] = self._add(Tensor(name, kind, data))
        return self._parameters[key]

    def helper(self, name: str, data: Array, kind: TensorType | None = None) -> int:
        """A constant that the graph does not have; its number."""
        kind = kind or TensorType(data.shape, str(data.dtype))
        return self._add(Tensor(self.names.take(name), kind, data))

    def _add(self, tensor: Tensor) -> int:
        fields: dict[str, Any] = {
            "Name": tensor.name,
            "Shape": np.array(tensor.type.shape, np.int32),
            "Type": TENSOR_TYPES[tensor.type.dtype],
            "Buffer": 0,
        }
        if tensor.type.scales and tensor.type.dtype != "int16":
            fields["Quantization"] = quantization(tensor.type)
        if tensor.data is not None:
            fields["Buffer"] = len(self.buffers)
            self.buffers.append(Table("Buffer", {"Data": as_bytes(tensor.data)}))
        self.tensors.append(Table("Tensor", fields))
        return len(self.tensors) - 1

    # ------------------------------------------------------------------ operators

    def operator(
        self,
        code: str,
        inputs: Sequence[str | int],
        output: str,
        options: Table | None = None,
        version: int = 0,
    ) -> None:
        """Append an operator of one output. inputs: names, or numbers that were given out.

        version: if it must be a later one than the first that takes int8.
        """
        numbers = [n if isinstance(n, int) else self.index(n) for n in inputs]
        fields: dict[str, Any] = {
            "OpcodeIndex": self._code(code, options, version),
            "Inputs": np.array(numbers, np.int32),
            "Outputs": np.array([self.index(output)], np.int32),
        }
        if options is not None:
            fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, options.kind)
            fields["BuiltinOptions"] = options
        self.operators.append(Table("Operator", fields))

    def _code(self, name: str, options: Table | None, version: int) -> int:
        version = max(version, self.versions[name])
        for option, since in SINCE.get(name, {}).items():
            if options is not None and options.get(option):
                version = max(version, since)
        key = (name, version)
        self.codes.setdefault(key, len(self.codes))
        return self.codes[key]

    def limited(self, node: Node, low: int, high: int) -> tuple[str, int]:
        """Where an operator that can fuse an activation writes to, and the activation's number.

        Limits that no activation has become nodes after it (see `finish_limits`).
        """
        y = node.outputs[0]
        kind = activation_of(self.type(y), low, high)
        if kind is not None:
            return y, FUSED[kind]
        return self.intermediate(f"{y}/unclamped", self.type(y)), FUSED["none"]

    def finish_limits(self, written: str, node: Node, low: int, high: int) -> None:
        """Write y, if `written` is not y, by clamping what was written.

        No operator for arbitrary limits is in every runtime. But a QUANTIZE to another zero point
        saturates, exactly: up until the high limit is 127, down until the low one is -128, and
        back.
        """
        y = node.outputs[0]
        if written == y:
            return
        kind = self.type(y)
        name = activation_of(kind, low, high)
        if name is not None and name != "none":
            self.operator(name.upper(), [written], y)
            return
        shifts = [INT8[1] - high, INT8[0] - low]
        zero_points = [kind.zero_point + s for s in shifts if s]
        for zero_point in zero_points:
            if not INT8[0] <= zero_point <= INT8[1]:
                raise UnsupportedError(
                    f"node {node.name!r} holds its output between {low} and {high}, beyond its "
                    f"zero point {kind.zero_point}; .tflite has no operator for that"
                )
            shifted = TensorType(kind.shape, kind.dtype, kind.scales, zero_point)
            previous, written = written, self.intermediate(f"{y}/shifted", shifted)
            self.operator("QUANTIZE", [previous], written)
        self.operator("QUANTIZE", [written], y)

    def then_limits(
        self, node: Node, code: str, inputs: Sequence[str | int], options: Table, limits: Limits
    ) -> None:
        """An operator that cannot fuse an activation, and the limits behind it."""
        y = node.outputs[0]
        written = y if limits == INT8 else self.intermediate(f"{y}/unclamped", self.type(y))
        self.operator(code, inputs, written, options)
        self.finish_limits(written, node, *limits)

    def padded(self, node: Node, x: str, padding: Padding, value: int) -> str:
        """x with a border, for an operator that has no such padding itself; its name."""
        kind = self.type(x)
        _, height, width, channels = kind.shape
        top, bottom, left, right = padding
        shape = (1, height + top + bottom, width + left + right, channels)
        y = self.intermediate(f"{node.outputs[0]}/pad", replace(kind, shape=shape))
        self.pad(x, y, padding, value)
        return y

    def pad(
        self, x: str, y: str, padding: Padding, value: int, channels: tuple[int, int] = (0, 0)
    ) -> None:
        """PAD with the zero point, or PADV2 with another value."""
        kind = self.type(x)
        table = np.array([(0, 0), padding[:2], padding[2:], channels], np.int32)
        widths = self.helper(f"{y}/paddings", table)
        if value == kind.zero_point:
            self.operator("PAD", [x, widths], y, Table("PadOptions"))
            return
        number = self.helper(f"{y}/value", np.array([value], np.int8), replace(kind, shape=(1,)))
        self.operator("PADV2", [x, widths, number], y, Table("PadV2Options"))

    # ------------------------------------------------------------------ the file

    def file(self, description: Description) -> bytes:
        """All of it, with one signature that names the inputs and outputs."""
        inputs = [self.index(n) for n in self.graph.inputs]
        outputs = [self.index(n) for n in self.graph.outputs]
        graph = {
            "Name": self.graph.name,
            "Tensors": self.tensors,
            "Operators": self.operators,
            "Inputs": np.array(inputs, np.int32),
            "Outputs": np.array(outputs, np.int32),
        }
        signature = {
            "SignatureKey": SIGNATURE,
            "Inputs": [_map(n, self.index(n)) for n in self.graph.inputs],
            "Outputs": [_map(n, self.index(n)) for n in self.graph.outputs],
            "SubgraphIndex": 0,
        }
        model = Table(
            "Model",
            {
                "Version": SCHEMA_VERSION,
                "Description": description.text,
                "Subgraphs": [Table("SubGraph", graph)],
                "Buffers": self.buffers,
                "OperatorCodes": [_operator_code(*key) for key in self.codes],
                "SignatureDefs": [Table("SignatureDef", signature)],
            },
        )
        if description.metadata:
            model["Metadata"] = [
                self._metadata(name, content) for name, content in description.metadata.items()
            ]
        return model.file()

    def _metadata(self, name: str, content: bytes) -> Table:
        self.buffers.append(Table("Buffer", {"Data": np.frombuffer(content, np.uint8)}))
        return Table("Metadata", {"Name": name, "Buffer": len(self.buffers) - 1})


def quantization(kind: TensorType) -> Table:
    """Scales in single precision, and a zero point for each."""
    scales = np.array(kind.scales, np.float32)
    fields: dict[str, Any] = {
        "Scale": scales,
        "ZeroPoint": np.full(len(scales), kind.zero_point, np.int64),
    }
    if len(scales) > 1:
        fields["QuantizedDimension"] = kind.axis % len(kind.shape)
    return Table("QuantizationParameters", fields)


def as_bytes(data: Array) -> Array:
    """The content of a buffer: little-endian."""
    stored = np.ascontiguousarray(data).astype(data.dtype.newbyteorder("<"))
    return np.frombuffer(stored.tobytes(), np.uint8)


def _operator_code(name: str, version: int) -> Table:
    code = getattr(tflite.BuiltinOperator, name)
    return Table(
        "OperatorCode",
        {"BuiltinCode": code, "DeprecatedBuiltinCode": min(code, 127), "Version": version},
    )


def _map(name: str, index: int) -> Table:
    return Table("TensorMap", {"Name": name, "TensorIndex": index})
