"""A .tflite file as plain, checked values: every index, size and scale is sound after `read_file`.

The schema bindings do not verify a file, so every vector's length is held against the file's size
before it is walked, and every constant against its buffer.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from mcutrain_host.dataclass import dataclass
from mcutrain_host.reading import opened
from mcutrain_host.reading import read_file as read_regular

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.ir.names import unique_names

Array = npt.NDArray[Any]

LARGEST_FILE = 512 * 2**20
LARGEST_ELEMENTS = 2**31 - 1  # kernels count elements in int32
LARGEST_RANK = 8
LARGEST_OPERANDS = 64
SHARING = 16  # how often over a file's bytes may be named, before it is taken for a trap
MISSING = -1  # the index of an optional input that is not there
IDENTIFIER = b"TFL3"
UINT8_OFFSET = 128  # an uint8 tensor is kept as int8: the stored integers minus this

OPERATOR_NAMES = {
    code: name for name, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)
}
DTYPE_NAMES = {
    code: name.lower() for name, code in vars(tflite.TensorType).items() if isinstance(code, int)
}
BINDING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What the bindings and numpy raise when a damaged file leads them astray."""
CONSTANT_DTYPES = ("int8", "uint8", "int16", "int32", "int64", "float16", "float32")


@dataclass(frozen=True)
class FileTensor:
    """One tensor of the file. data: its constant value, if it has one."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int
    data: Array | None


@dataclass(frozen=True)
class FileOperator:
    """One operator of the file. options: its options table, of the type `options_type`.

    intermediates: tensors of which it has nothing but the scales.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options_type: int
    options: Any
    intermediates: tuple[int, ...] = ()

    def table(self, kind: type[Any], where: str) -> Any:
        """The options, whose type is told by the name of its table. Raises ModelError."""
        if self.options is None or self.options_type != getattr(
            tflite.BuiltinOptions, kind.__name__
        ):
            raise ModelError(f"{where} lacks its {kind.__name__}")
        table = kind()
        table.Init(self.options.Bytes, self.options.Pos)
        return table


@dataclass(frozen=True)
class FileModel:
    """The first of so many subgraphs of the file; inputs and outputs are indices into tensors.

    once: the subgraph that a CALL_ONCE runs before the first call, if there is one. loops: those
    that WHILEs run, by number.
    """

    tensors: tuple[FileTensor, ...]
    operators: tuple[FileOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    subgraphs: int
    once: FileModel | None = None
    loops: Mapping[int, FileModel] = field(default_factory=dict)

    @property
    def reads(self) -> Counter[int]:
        """How often operators read each tensor."""
        return Counter(i for operator in self.operators for i in operator.inputs)


def is_float(dtypes: Iterable[str]) -> bool:
    """Return whether activations of these types are those of a float model, which may count."""
    found = set(dtypes)
    return bool({"float32", "float16"} & found) and not {"int8", "uint8", "int16"} & found


def constants_of(model: FileModel) -> dict[int, Array]:
    """The numbers of what is known; those of float16 are of what DEQUANTIZE writes, too."""
    found = {i: t.data for i, t in enumerate(model.tensors) if t.data is not None}
    for op in model.operators:
        if op.name == "DEQUANTIZE" and len(op.inputs) == len(op.outputs) == 1:
            data = found.get(op.inputs[0])
            if data is not None and data.dtype == np.float16 and op.outputs[0] != MISSING:
                found[op.outputs[0]] = data
    return found


def is_tflite(path: Path) -> bool:
    """Return whether a file begins as .tflite files do. Raises ModelError if it cannot be read."""
    try:
        with opened(path) as file:
            begin = file.read(8)
    except IsADirectoryError as error:
        raise ModelError(f"{path} is a folder: give a .tflite or .onnx file") from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    if not begin:
        raise ModelError(f"{path} is empty: copy or export it again")
    return begin[4:] == IDENTIFIER


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of reading a .tflite file as ModelError, in a sentence that begins with its path."""
    try:
        yield
    except ModelError as error:
        raise type(error)(f"{path}: {error}") from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    except BINDING_ERRORS as error:
        raise ModelError(f"{path} is corrupt or truncated: take a whole copy of it") from error


def read_file(path: Path) -> FileModel:
    """The checked contents. Raises ModelError; what the bindings raise is left to the caller."""
    return _read(_content(path))


def has_tensor_of(path: Path, dtype: str) -> bool:
    """Return whether the network has a tensor of a type: little of the file is read for that."""
    graph = tflite.Model.GetRootAs(_content(path), 0).Subgraphs(0)
    return any(
        DTYPE_NAMES.get(graph.Tensors(i).Type()) == dtype for i in range(graph.TensorsLength())
    )


def _content(path: Path) -> bytes:
    """The bytes of a file that may be one. Raises ModelError."""
    if path.stat().st_size > LARGEST_FILE:
        raise ModelError(f"the file is larger than {LARGEST_FILE // 2**20} MiB")
    content = read_regular(path, LARGEST_FILE)
    if content[4:8] != IDENTIFIER:
        raise ModelError("this is not a .tflite file: the identifier TFL3 is missing")
    return content


@lru_cache(maxsize=2)
def _read(content: bytes) -> FileModel:
    """Kept: a command asks for a file's network, and then how it was rounded."""
    return _FileReader(content).model()


class _FileReader:
    """Walks the tables of one file."""

    def __init__(self, content: bytes) -> None:
        self.size = len(content)
        self.named_bytes = 0
        self.root = tflite.Model.GetRootAs(content, 0)
        self.graphs = self._count(self.root.SubgraphsLength(), "subgraphs")
        if not self.graphs:
            raise ModelError("the file is corrupt: it has no subgraph")
        self.graph, self.graph_index = self.root.Subgraphs(0), 0
        self.buffers = self._count(self.root.BuffersLength(), "buffers")

    def model(self) -> FileModel:
        """Everything."""
        count = self._count(self.graph.TensorsLength(), "tensors")
        names = unique_names(self._name(i) for i in range(count))
        tensors = tuple(self._tensor(i, name) for i, name in enumerate(names))
        length = self._count(self.graph.OperatorsLength(), "operators")
        operators = tuple(self._operator(i, count) for i in range(length))
        found = FileModel(
            tensors,
            operators,
            self._indices(self.graph.InputsLength(), self.graph.Inputs, count, "model inputs"),
            self._indices(self.graph.OutputsLength(), self.graph.Outputs, count, "model outputs"),
            self.graphs,
        )
        return replace(found, once=self._once(operators), loops=self._loops(operators))

    def _once(self, operators: tuple[FileOperator, ...]) -> FileModel | None:
        """The subgraph of the one CALL_ONCE. Raises ModelError for a number that is none."""
        calls = [op for op in operators if op.name == "CALL_ONCE"]
        if len(calls) != 1 or self.graph_index != 0:
            return None
        options = calls[0].table(tflite.CallOnceOptions, "operator CALL_ONCE")
        index = options.InitSubgraphIndex()
        if not 0 < index < self.graphs:
            raise ModelError(f"operator CALL_ONCE names subgraph {index} of {self.graphs}")
        return self._other(index)

    def _loops(self, operators: tuple[FileOperator, ...]) -> dict[int, FileModel]:
        """What the WHILEs of the first subgraph run. Raises ModelError for a wrong number."""
        loops = [op for op in operators if op.name == "WHILE" and self.graph_index == 0]
        wanted = set[int]()
        for op in loops:
            options = op.table(tflite.WhileOptions, "operator WHILE")
            wanted |= {options.CondSubgraphIndex(), options.BodySubgraphIndex()}
        if wrong := [index for index in wanted if not 0 < index < self.graphs]:
            raise ModelError(f"operator WHILE names subgraph {wrong[0]} of {self.graphs}")
        return {index: self._other(index) for index in sorted(wanted)}

    def _other(self, index: int) -> FileModel:
        """Another subgraph than the first."""
        self.graph, self.graph_index = self.root.Subgraphs(index), index
        found = self.model()
        self.graph, self.graph_index = self.root.Subgraphs(0), 0
        return found

    def _count(self, length: int, what: str) -> int:
        """A vector's length, if its references fit into the file."""
        if length > self.size // 4:
            raise ModelError(f"the file is corrupt: it claims to hold {length} {what}")
        return int(length)

    def _use(self, size_bytes: int) -> None:
        """Count bytes that are copied, so that many tables naming one long vector are refused."""
        self.named_bytes += size_bytes
        if self.named_bytes > SHARING * self.size:
            raise ModelError("the file is corrupt: its tensors overlap each other")

    def _indices(self, length: int, get: Any, limit: int, what: str) -> tuple[int, ...]:
        """Tensor indices, all in range."""
        if length > LARGEST_OPERANDS:
            raise UnsupportedError(
                f"{length} {what} are not supported; the most is {LARGEST_OPERANDS}"
            )
        indices = tuple(int(get(i)) for i in range(length))
        wrong = [i for i in indices if not MISSING <= i < limit]
        if wrong:
            raise ModelError(f"the file is corrupt: {what} name tensor {wrong[0]} of {limit}")
        return indices

    def _name(self, index: int) -> str:
        """Printable, never empty."""
        raw = self.graph.Tensors(index).Name() or b""
        self._use(len(raw))
        text = "".join(c if c.isprintable() else "?" for c in raw.decode("utf-8", "replace"))
        return text or f"tensor_{index}"

    def _tensor(self, index: int, name: str) -> FileTensor:
        t = self.graph.Tensors(index)
        if t.Type() not in DTYPE_NAMES:
            raise ModelError(f"tensor {name!r} has the unknown element type {t.Type()}")
        dtype = DTYPE_NAMES[t.Type()]
        rank = t.ShapeLength()
        if rank > LARGEST_RANK:
            raise ModelError(f"tensor {name!r} has {rank} dimensions; the most is {LARGEST_RANK}")
        shape = tuple(int(t.Shape(i)) for i in range(rank))
        if min(shape, default=1) < 0 or math.prod(shape) > LARGEST_ELEMENTS:
            raise ModelError(f"tensor {name!r} has the impossible shape {shape}")
        if t.Sparsity() is not None:
            raise UnsupportedError(f"tensor {name!r} is stored sparsely; supported is dense")
        data = self._data(t.Buffer(), name, shape, dtype)
        scales, zero_points, axis = self._quantization(t.Quantization(), name, shape)
        return FileTensor(name, shape, dtype, scales, zero_points, axis, data)

    def _data(self, index: int, name: str, shape: tuple[int, ...], dtype: str) -> Array | None:
        """The constant, a view of the file; None where the buffer is empty."""
        if index >= self.buffers:
            raise ModelError(f"tensor {name!r} names buffer {index} of {self.buffers}")
        buffer = self.root.Buffers(index)
        if buffer is None:
            return None
        if buffer.Size() > 0:
            raise UnsupportedError(f"tensor {name!r} is stored outside the model's tables")
        if buffer.DataLength() == 0:
            return None
        if buffer.DataLength() > self.size:
            raise ModelError(f"tensor {name!r} is longer than the file")
        if dtype not in CONSTANT_DTYPES:
            return np.empty(0, np.int8)  # no operator that is supported takes it
        data = np.asarray(buffer.DataAsNumpy())
        expected = math.prod(shape) * np.dtype(dtype).itemsize
        if data.nbytes != expected:
            raise ModelError(
                f"tensor {name!r} of shape {shape} and type {dtype} needs {expected} bytes, "
                f"its buffer holds {data.nbytes}"
            )
        stored = np.dtype(dtype).newbyteorder("<")
        if stored.itemsize == 1:
            return data.view(stored).reshape(shape)
        self._use(data.nbytes)
        found = data.view(stored).astype(dtype).reshape(shape)
        found.flags.writeable = False
        return found

    def _quantization(
        self, q: Any, name: str, shape: tuple[int, ...]
    ) -> tuple[tuple[float, ...], tuple[int, ...], int]:
        """(scales, zero points, axis); all empty where the tensor is not quantized."""
        count = q.ScaleLength() if q is not None else 0
        if count == 0:
            return (), (), 0
        axis = q.QuantizedDimension()
        if count > 1 and not (0 <= axis < len(shape) and shape[axis] == count):
            raise ModelError(f"tensor {name!r} of shape {shape} has {count} scales on axis {axis}")
        self._use(4 * count)
        scales = tuple(q.ScaleAsNumpy().tolist())  # one by one takes most of the reader's time
        if not all(s > 0 and math.isfinite(s) for s in scales):
            raise ModelError(f"tensor {name!r} has a scale that is not positive and finite")
        given = q.ZeroPointLength()
        if given not in (0, 1, count):
            raise ModelError(f"tensor {name!r} has {count} scales, but {given} zero points")
        return scales, tuple(q.ZeroPointAsNumpy().tolist()) if given else (0,), axis

    def _operator(self, index: int, tensors: int) -> FileOperator:
        op = self.graph.Operators(index)
        codes = self.root.OperatorCodesLength()
        if op.OpcodeIndex() >= codes:
            raise ModelError(f"operator {index} names code {op.OpcodeIndex()} of {codes}")
        opcode = self.root.OperatorCodes(op.OpcodeIndex())
        code = max(opcode.BuiltinCode(), opcode.DeprecatedBuiltinCode())
        name = OPERATOR_NAMES.get(code, f"number {code}")
        if code == tflite.BuiltinOperator.CUSTOM:
            custom = (opcode.CustomCode() or b"")[:64].decode("utf-8", "replace")
            name = f"CUSTOM ({custom})"
        what = f"operands of operator {index} ({name})"
        return FileOperator(
            name,
            self._indices(op.InputsLength(), op.Inputs, tensors, what),
            self._indices(op.OutputsLength(), op.Outputs, tensors, what),
            op.BuiltinOptionsType(),
            op.BuiltinOptions(),
            self._indices(op.IntermediatesLength(), op.Intermediates, tensors, what),
        )
