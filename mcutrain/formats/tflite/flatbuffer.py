"""Tables of the TFLite schema as plain values: read from a file, changed, and written again.

The schema bindings have a reader and functions that write, but no values in between. The names of
the reader's methods tell what kind of value a field holds. `XLength` belongs to a vector,
`XAsNumpy` to a vector of numbers, `XType` to a union.
"""

from __future__ import annotations

import importlib
from dataclasses import field
from functools import cache
from types import ModuleType
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite
from mcutrain_host.dataclass import dataclass

Array = npt.NDArray[Any]

ALIGN_BYTES = 16  # of a Buffer's data, as the schema's force_align says
UNIONS = {
    "BuiltinOptions": tflite.BuiltinOptions,
    "BuiltinOptions2": tflite.BuiltinOptions2,
    "Details": tflite.QuantizationDetails,
}
"""Field of a table → the numbers of the tables that it may hold."""


@dataclass
class Table:
    """A table of the schema: its name and the values of its fields; what is not there is default.

    A value is a number, bytes or text (strings), a table, a list of tables, or an array of numbers.
    """

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.fields[name] = value

    def get(self, name: str, default: Any = None) -> Any:
        """The field's value, or `default` if it is not there."""
        return self.fields.get(name, default)

    def pack(self, builder: flatbuffers.Builder) -> int:
        """Write the table after all that it refers to; its offset."""
        module = _module(self.kind)
        align = ALIGN_BYTES if self.kind == "Buffer" else 0
        values = {name: _packed(value, builder, align) for name, value in self.fields.items()}
        module.Start(builder)
        for name, value in values.items():
            getattr(module, f"Add{name}")(builder, value)
        return int(module.End(builder))

    def file(self) -> bytes:
        """A .tflite file whose root this is."""
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(self.pack(builder), b"TFL3")
        return bytes(builder.Output())


def read_model(content: bytes) -> Table:
    """A whole file. The caller catches what the bindings raise for a damaged one.

    Raises ValueError if tables are named so often that they would not fit the file.
    """
    return _TableReader(len(content)).table("Model", tflite.Model.GetRootAs(content, 0))


class _TableReader:
    """Reads tables, and counts them: a damaged file can name one of them very often."""

    def __init__(self, size: int) -> None:
        self.size, self.count = size, 0

    def table(self, kind: str, found: Any) -> Table:
        self.count += 1
        if self.count > self.size:
            raise ValueError("its tables overlap each other")
        result = Table(kind)
        for name in field_names(kind):
            value = self._field(found, name)
            if value is not None:
                result.fields[name] = value
        return result

    def _field(self, stored: Any, name: str) -> Any:
        get = getattr(stored, name)
        if name in UNIONS:
            return self._union(get(), UNIONS[name], getattr(stored, f"{name}Type")())
        if not hasattr(stored, f"{name}Length"):
            value = get()
            return value if value is None or not hasattr(value, "_tab") else self._single(value)
        if getattr(stored, f"{name}IsNone")():
            return None
        length = getattr(stored, f"{name}Length")()
        if hasattr(stored, f"{name}AsNumpy"):
            values = getattr(stored, f"{name}AsNumpy")()
            return np.array(values) if length else np.zeros(0, np.uint8)
        if length > self.size // 4:
            raise ValueError(f"it claims to hold {length} {name}")
        return [self._single(get(i)) for i in range(length)]

    def _single(self, value: Any) -> Any:
        return self.table(type(value).__name__, value) if hasattr(value, "_tab") else value

    def _union(self, value: Any, numbers: type, number: int) -> Table | None:
        if value is None:
            return None
        kinds = {code: name for name, code in vars(numbers).items() if isinstance(code, int)}
        if number not in kinds:
            raise ValueError(f"it holds options of the unknown type {number}")
        typed = getattr(_module(kinds[number]), kinds[number])()
        typed.Init(value.Bytes, value.Pos)
        return self.table(kinds[number], typed)


@cache
def field_names(kind: str) -> tuple[str, ...]:
    """The fields of a table, those first that tell the type of a union."""
    module = _module(kind)
    names = [n.removeprefix("Add") for n in vars(module) if n.startswith("Add")]
    reader = getattr(module, kind)
    return tuple(name for name in names if hasattr(reader, name))


@cache
def _module(kind: str) -> ModuleType:
    return importlib.import_module(f"tflite.{kind}")


def _packed(value: Any, builder: flatbuffers.Builder, align: int) -> Any:
    """Return what a field holds for a value: an offset, or the number itself."""
    if isinstance(value, (str, bytes)):
        return builder.CreateString(value)
    if isinstance(value, Table):
        return value.pack(builder)
    if isinstance(value, np.ndarray):
        return _packed_numbers(value, builder, align)
    if isinstance(value, list):
        offsets = [item.pack(builder) for item in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()
    return value


def _packed_numbers(values: Array, builder: flatbuffers.Builder, align: int) -> int:
    """A vector of numbers whose first one is aligned to `align` bytes, if given."""
    if not align:
        return int(builder.CreateNumpyVector(values))
    content = values.tobytes()
    builder.StartVector(1, len(content), align)
    builder.head -= len(content)
    builder.Bytes[builder.Head() : builder.Head() + len(content)] = content
    return int(builder.EndVector())
