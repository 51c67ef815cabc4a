"""Small .tflite models from a few words, through the functions of the schema bindings."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite

Array = npt.NDArray[Any]

TYPES = {
    "bool": tflite.TensorType.BOOL,
    "int8": tflite.TensorType.INT8,
    "uint8": tflite.TensorType.UINT8,
    "int16": tflite.TensorType.INT16,
    "int32": tflite.TensorType.INT32,
    "int64": tflite.TensorType.INT64,
    "float16": tflite.TensorType.FLOAT16,
    "float32": tflite.TensorType.FLOAT32,
    "resource": tflite.TensorType.RESOURCE,
}
NO_TENSOR = -1


@dataclass
class Table:
    """A table of the schema: its name and the values of its fields.

    A value is a number, a string, a table, a list of tables, or an array of numbers.
    """

    kind: str
    fields: dict[str, Any]

    def pack(self, packer: flatbuffers.Builder) -> int:
        """Write the table after what it refers to; its offset."""
        module = importlib.import_module(f"tflite.{self.kind}")
        values = {name: _offset(value, packer) for name, value in self.fields.items()}
        module.Start(packer)
        for name, value in values.items():
            getattr(module, f"Add{name}")(packer, value)
        return int(module.End(packer))


def _offset(value: Any, packer: flatbuffers.Builder) -> Any:
    """What a table's field holds for a value: an offset, or the number itself."""
    if isinstance(value, str):
        return packer.CreateString(value)
    if isinstance(value, Table):
        return value.pack(packer)
    if isinstance(value, np.ndarray):
        return packer.CreateNumpyVector(value)
    if isinstance(value, list):
        offsets = [table.pack(packer) for table in value]
        packer.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            packer.PrependUOffsetTRelative(offset)
        return packer.EndVector()
    return value


def _int32(values: Any) -> Array:
    return np.array(list(values), np.int32)


@dataclass
class TfliteBuilder:
    """Collects tensors and operators; `content` is the file.

    >>> b = TfliteBuilder()
    >>> x = b.tensor("x", (1, 4, 4, 2), scale=0.1, zero_point=3)
    >>> y = b.operator("RELU", [x], b.tensor("y", (1, 4, 4, 2), scale=0.1, zero_point=3))
    >>> content = b.content([x], [y])
    """

    tensors: list[Table] = field(default_factory=list)
    operators: list[Table] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    buffers: list[Table] = field(default_factory=lambda: [Table("Buffer", {})])

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str = "int8",
        scale: float | tuple[float, ...] = (),
        zero_point: int = 0,
        axis: int = 0,
        dynamic_batch: bool = False,
    ) -> int:
        """Add a tensor; its index."""
        fields = {"Name": name, "Shape": _int32(shape), "Type": TYPES[dtype], "Buffer": 0}
        if dynamic_batch:
            fields["ShapeSignature"] = _int32((-1, *shape[1:]))
        scales = scale if isinstance(scale, tuple) else (scale,)
        if scales:
            quantization = {
                "Scale": np.array(scales, np.float32),
                "ZeroPoint": np.full(len(scales), zero_point, np.int64),
                "QuantizedDimension": axis,
            }
            fields["Quantization"] = Table("QuantizationParameters", quantization)
        self.tensors.append(Table("Tensor", fields))
        return len(self.tensors) - 1

    def constant(self, name: str, data: Array, **quantization: Any) -> int:
        """Add a constant tensor; its index."""
        index = self.tensor(name, data.shape, str(data.dtype), **quantization)
        self.tensors[index].fields["Buffer"] = len(self.buffers)
        self.buffers.append(Table("Buffer", {"Data": np.frombuffer(data.tobytes(), np.uint8)}))
        return index

    def operator(
        self, name: str, inputs: list[int], output: Any, table: str = "", **options: Any
    ) -> Any:
        """Add an operator with one output, whose index is returned, or a list of them.

        table: the name of its options' table, whose fields are the options.
        """
        code = getattr(tflite.BuiltinOperator, name)
        if code not in self.codes:
            self.codes.append(code)
        fields: dict[str, Any] = {
            "OpcodeIndex": self.codes.index(code),
            "Inputs": _int32(inputs),
            "Outputs": _int32(output if isinstance(output, list) else [output]),
        }
        if table:
            fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, table)
            fields["BuiltinOptions"] = Table(table, options)
        self.operators.append(Table("Operator", fields))
        return output

    def beside(self) -> TfliteBuilder:
        """Another subgraph of the same file."""
        return TfliteBuilder(codes=self.codes, buffers=self.buffers)

    def subgraph(self, inputs: list[int], outputs: list[int]) -> Table:
        """What was collected, as a table."""
        graph = {
            "Tensors": self.tensors,
            "Operators": self.operators,
            "Inputs": _int32(inputs),
            "Outputs": _int32(outputs),
        }
        return Table("SubGraph", graph)

    def content(
        self, inputs: list[int], outputs: list[int], subgraphs: int = 1, more: Any = ()
    ) -> bytes:
        """The file. more: other subgraphs of it."""
        model = {
            "Version": 3,
            "Subgraphs": [self.subgraph(inputs, outputs)] * subgraphs + list(more),
            "Buffers": self.buffers,
            "OperatorCodes": [_code(code) for code in self.codes],
        }
        packer = flatbuffers.Builder(1024)
        packer.Finish(Table("Model", model).pack(packer), b"TFL3")
        return bytes(packer.Output())


def _code(code: int) -> Table:
    version = 5 if code == tflite.BuiltinOperator.CONV_2D else 1
    fields = {"BuiltinCode": code, "DeprecatedBuiltinCode": min(code, 127), "Version": version}
    return Table("OperatorCode", fields)
