"""Streaming .tflite files as converters write them: variables with the last rows of layers' inputs.

Each layer reads a variable, joined with the new rows, and the last rows are assigned back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.formats.tflite_builder import TfliteBuilder

VALID = 1


@dataclass
class StreamingBuilder:
    """One step's subgraph and the one that sets its variables before the first call.

    is_real: variables are of float32, with operators of int8 around.
    """

    rng: np.random.Generator
    is_real: bool = False
    main: TfliteBuilder = field(default_factory=TfliteBuilder)

    def __post_init__(self) -> None:
        self.once = self.main.beside()
        self.main.operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1)
        self.count = 0
        self.assigned: list[tuple[int, int]] = []

    def name(self, what: str) -> str:
        """A name of its own."""
        self.count += 1
        return f"{what}_{self.count}"

    def like(self) -> dict[str, Any]:
        """A quantization."""
        return {
            "scale": float(self.rng.uniform(0.02, 0.1)),
            "zero_point": int(self.rng.integers(-128, 20)),
        }

    def numbers(self, *values: int) -> int:
        """A constant of integers."""
        return self.main.constant(self.name("numbers"), np.array(values, np.int32))

    def ring(
        self,
        x: int,
        shape: tuple[int, ...],
        rows: int,
        like: dict[str, Any],
        first: int | None = None,
    ) -> tuple[int, tuple[int, ...]]:
        """Join the rows before x with it, and keep the last ones; first: not zeros at first."""
        b, name = self.main, self.name("state")
        kept, memory = ((1, n, *shape[2:]) for n in (rows, rows + shape[1]))
        zero = like["zero_point"] if first is None else first
        zeros = np.zeros(kept, np.float32) if self.is_real else np.full(kept, zero, np.int8)
        kind: dict[str, Any] = {"dtype": "float32"} if self.is_real else like
        for one in (self.once, b):
            handle = one.tensor(name, (), "resource")
            one.operator("VAR_HANDLE", [], handle, "VarHandleOptions", SharedName=name)
            if one is self.once:
                value = one.constant(f"{name}/zeros", zeros, **({} if self.is_real else like))
                one.operator("ASSIGN_VARIABLE", [handle, value], [], "AssignVariableOptions")
        read = b.tensor(f"{name}/read", kept, **kind)
        b.operator("READ_VARIABLE", [handle], read, "ReadVariableOptions")
        y = b.tensor(f"{name}/memory", memory, **kind)
        x = self.real(x, shape)
        b.operator("CONCATENATION", [read, x], y, "ConcatenationOptions", Axis=1)
        if self.is_real:
            real, y = y, b.tensor(f"{name}/quantized", memory, **like)
            b.operator("QUANTIZE", [real], y, "QuantizeOptions")
        last = self.rows(y, memory, shape[1], rows + shape[1], like)
        last = self.real(last, kept)
        b.operator("ASSIGN_VARIABLE", [handle, last], [], "AssignVariableOptions")
        return y, memory

    def real(self, x: int, shape: tuple[int, ...]) -> int:
        """The real numbers of a tensor, where variables are real."""
        if not self.is_real:
            return x
        y = self.main.tensor(self.name("real"), shape, "float32")
        return int(self.main.operator("DEQUANTIZE", [x], y, "DequantizeOptions"))

    def rows(
        self, x: int, shape: tuple[int, ...], begin: int, end: int, like: dict[str, Any]
    ) -> int:
        """Rows of x by a STRIDED_SLICE."""
        ends = [self.numbers(0, begin, 0, 0), self.numbers(0, end, 0, 0), self.numbers(1, 1, 1, 1)]
        y = self.main.tensor(self.name("rows"), (1, end - begin, *shape[2:]), **like)
        mask = 0b1101
        made = self.main.operator(
            "STRIDED_SLICE", [x, *ends], y, "StridedSliceOptions", BeginMask=mask, EndMask=mask
        )
        return int(made)

    def conv(
        self,
        x: int,
        shape: tuple[int, ...],
        channels: int,
        kernel: int,
        stride: int = 1,
        like: dict[str, Any] | None = None,
        is_same: bool = False,
    ) -> tuple[int, tuple[int, ...], dict[str, Any]]:
        """A convolution over rows, of all columns; with padded rows, if it has one column."""
        like = like or self.like()
        w = self.rng.integers(-127, 128, (channels, kernel, shape[2], shape[3])).astype(np.int8)
        rows = shape[1] if is_same else (shape[1] - kernel) // stride + 1
        y_shape = (1, rows, 1, channels)
        weight = self.main.constant(self.name("w"), w, scale=0.01)
        bias = self.rng.integers(-500, 500, channels).astype(np.int32)
        b = self.main.constant(self.name("b"), bias, scale=0.01 * self.main_like(x)["scale"])
        y = self.main.tensor(self.name("conv"), y_shape, **like)
        self.main.operator(
            "CONV_2D", [x, weight, b], y, "Conv2DOptions",
            Padding=0 if is_same else VALID, StrideH=stride, StrideW=1, FusedActivationFunction=1,
            DilationHFactor=1, DilationWFactor=1,
        )  # fmt: skip
        return y, y_shape, like

    def pool(self, x: int, shape: tuple[int, ...]) -> int:
        """The mean of all rows, in steps of as many, as Keras has it by default."""
        y = self.main.tensor(self.name("mean"), (1, 1, *shape[2:]), **self.main_like(x))
        return int(
            self.main.operator(
                "AVERAGE_POOL_2D", [x], y, "Pool2DOptions",
                Padding=VALID, StrideH=shape[1], StrideW=1, FilterHeight=shape[1], FilterWidth=1,
            )
        )  # fmt: skip

    def dense(self, x: int, features: int, classes: int) -> int:
        """A classifier of all rows."""
        like = self.like()
        flat = self.main.tensor(self.name("flat"), (1, features), **self.main_like(x))
        shape = self.numbers(1, features)
        self.main.operator("RESHAPE", [x, shape], flat, "ReshapeOptions")
        w = self.rng.integers(-127, 128, (classes, features)).astype(np.int8)
        weight = self.main.constant(self.name("w"), w, scale=0.01)
        bias = self.rng.integers(-500, 500, classes).astype(np.int32)
        b = self.main.constant(self.name("b"), bias, scale=0.01 * self.main_like(x)["scale"])
        y = self.main.tensor(self.name("logits"), (1, classes), **like)
        self.main.operator("FULLY_CONNECTED", [flat, weight, b], y, "FullyConnectedOptions")
        return y

    def main_like(self, x: int) -> dict[str, Any]:
        """The quantization of a tensor."""
        fields = self.main.tensors[x].fields["Quantization"].fields
        return {"scale": float(fields["Scale"][0]), "zero_point": int(fields["ZeroPoint"][0])}

    def content(self, x: int, y: int) -> bytes:
        """The file."""
        return self.main.content([x], [y], more=[self.once.subgraph([], [])])


def streaming_model(
    seed: int,
    fresh: int = 1,
    kernels: tuple[int, ...] = (3, 5),
    stride: int = 1,
    with_shortcut: bool = False,
    seen: int = 4,
    classes: int = 3,
    is_real: bool = False,
    is_pooled: bool = False,
    is_binary: bool = False,
) -> bytes:
    """Convolutions over time, then a classifier of the last rows.

    fresh: rows of a step. stride: of the first convolution, which divides `fresh`. with_shortcut:
    a sum of rows in the middle of what the second convolution reads and its output. seen: rows that
    the classifier reads. is_real: variables are of float32. is_pooled: it reads their mean.
    is_binary: it is one sigmoid, as of a wake word.
    """
    b = StreamingBuilder(np.random.default_rng(seed), is_real)
    like = b.like()
    shape: tuple[int, ...] = (1, fresh, 4, 2)
    x = start = b.main.tensor("x", shape, **like)
    for place, kernel in enumerate(kernels):
        step = stride if place == 0 else 1
        source, old, old_like = x, shape, like
        if kernel > step:
            source, shape = b.ring(x, shape, kernel - step, like)
        has_shortcut, late = with_shortcut and place > 0, (kernel - 1) // 2
        ends = (late, late + old[1])
        if has_shortcut and seed % 2:  # whether rows are cut out before the layer or behind it
            middle = b.rows(source, old, *ends, old_like)
        x, shape, like = b.conv(source, shape, 4, kernel, step)
        if has_shortcut:
            if seed % 2 == 0:
                middle = b.rows(source, old, *ends, old_like)
            if old[1] == 1:  # as converters do: a sum of rows of one and of a vector
                flat = b.main.tensor(b.name("vector"), (4,), **old_like)
                b.main.operator("RESHAPE", [middle, b.numbers(4)], flat, "ReshapeOptions")
                middle = flat
            like, first = b.like(), x
            x = b.main.tensor(b.name("sum"), shape, **like)
            b.main.operator("ADD", [first, middle], x, "AddOptions")
    x, shape = b.ring(x, shape, seen - shape[1], like)
    if is_pooled:
        x, seen = b.pool(x, shape), 1
    if is_binary:
        y = b.main.tensor("y", (1, 1), scale=1 / 256, zero_point=-128)
        b.main.operator("LOGISTIC", [b.dense(x, seen * 4, 1)], y)
        return b.content(start, y)
    return b.content(start, b.dense(x, seen * 4, classes))
