"""One operator of a float .tflite file with what it reads and writes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.convert import ACTIVATIONS
from mcutrain.formats.tflite.file import (
    MISSING,
    FileOperator,
    FileTensor,
)
from mcutrain.quant.float_elementwise import Clamp
from mcutrain.quant.float_op import FloatOp, Shape
from mcutrain.quant.multipliers import ACTIVATION_RANGE

if TYPE_CHECKING:
    from mcutrain.formats.tflite.read_float import Importer

Array = npt.NDArray[Any]
NO_LIMITS = (-math.inf, math.inf)


class Operator:
    """One operator of the file with what it reads and writes."""

    def __init__(self, importer: Importer, op: FileOperator, where: str) -> None:
        self.importer, self.op, self.where = importer, op, where

    def has(self, position: int) -> bool:
        """Whether an input is there."""
        return position < len(self.op.inputs) and self.op.inputs[position] != MISSING

    def tensor(self, position: int) -> FileTensor:
        """The file's tensor of a required input."""
        if not self.has(position):
            raise ModelError(f"{self.where} has no input {position}")
        return self.importer.model.tensors[self.index(position)]

    def index(self, position: int) -> int:
        """Of an input, seen through what does nothing."""
        found = self.op.inputs[position]
        return self.importer.alias.get(found, found)

    @property
    def y(self) -> FileTensor:
        """The one output."""
        if len(self.op.outputs) != 1 or self.op.outputs[0] == MISSING:
            raise ModelError(f"{self.where} has {len(self.op.outputs)} outputs instead of one")
        return self.importer.model.tensors[self.op.outputs[0]]

    def x(self, position: int = 0) -> str:
        """The name of an input that is computed."""
        t = self.tensor(position)
        if t.data is not None:
            raise UnsupportedError(f"{self.where}: input {t.name!r} must not be constant")
        return t.name

    def shape(self, position: int = 0) -> Shape:
        """Of an input that is computed."""
        name = self.x(position)
        if name not in self.importer.shapes:
            raise ModelError(f"{self.where} reads {name!r}, which nothing before it computes")
        return self.importer.shapes[name]

    def real(self, position: int) -> Array:
        """A constant input in real numbers, float32."""
        t = self.tensor(position)
        if t.data is None or t.dtype not in ("float32", "int8"):
            raise UnsupportedError(
                f"{self.where}: {t.name!r} ({t.dtype}) must be a constant of float32, or of int8 "
                "with scales"
            )
        data = t.data
        if t.dtype == "int8":
            if not t.scales or any(t.zero_points):
                raise UnsupportedError(f"{self.where}: {t.name!r} has no scales")
            shape = [1] * data.ndim
            if len(t.scales) > 1:
                shape[t.axis] = -1
            data = data * np.array(t.scales, np.float32).reshape(shape)
        if not np.isfinite(data).all():
            raise ModelError(f"{self.where}: {t.name!r} holds infinity or NaN")
        return np.asarray(data, np.float32)

    def integers(self, position: int) -> list[int]:
        """A constant input of integers."""
        t = self.tensor(position)
        if t.data is None or t.dtype not in ("int32", "int64") or t.data.size > 64:
            raise UnsupportedError(f"{self.where}: {t.name!r} must be a few constant integers")
        return [int(v) for v in t.data.ravel()]

    def options(self, table: type[Any]) -> Any:
        """The operator's options."""
        return self.op.table(table, self.where)

    def limits(self, options: Any) -> tuple[float, float]:
        """Of the fused activation."""
        code = options.FusedActivationFunction()
        if code not in ACTIVATIONS:
            raise UnsupportedError(f"{self.where} has the unsupported fused activation {code}")
        return ACTIVATION_RANGE[ACTIVATIONS[code]]

    def emit(self, op: FloatOp, *inputs: str, limits: tuple[float, float] = NO_LIMITS) -> None:
        """The node that computes the output, perhaps with an activation behind it."""
        output = self.y.name
        if limits == NO_LIMITS:
            self.importer.add(op, inputs, output, output)
            return
        inner = self.inner(op, "sum", *inputs)
        self.importer.add(Clamp(*limits), (inner,), output, f"{output}/activation")

    def inner(self, op: FloatOp, part: str, *inputs: str) -> str:
        """A node whose output the file does not name."""
        name = self.importer.names.take(f"{self.y.name}/{part}")
        return self.importer.add(op, inputs, name, self.y.name)
