"""One ONNX node with its inputs looked up: what the rules for operators read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.onnx.file import MAX_NUMBERS, Attributes
from mcutrain.formats.onnx.values import (
    Builder,
    Constant,
    Image,
    Quantization,
    Value,
    as_image,
    same_order,
)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class OnnxNode:
    """An operator's name, inputs (None: left out), attributes, and names of its outputs."""

    name: str
    op_type: str
    opset: int
    inputs: tuple[Value | Constant | None, ...]
    outputs: tuple[str, ...]
    attributes: Attributes

    def unsupported(self, what: str) -> UnsupportedError:
        """An error of the form: `Conv` (node 'x'): what, what is supported instead."""
        return UnsupportedError(f"{self.op_type} (node {self.name!r}): {what} supported")

    def unknown(self, known: Iterable[str]) -> UnsupportedError:
        """An error for an operator without a rule."""
        return UnsupportedError(
            f"{self.op_type} (node {self.name!r}) is not supported; supported are "
            f"{', '.join(sorted(known))}"
        )

    def wrong(self, what: str) -> ModelError:
        """An error for something that no valid model has."""
        return ModelError(f"{self.op_type} (node {self.name!r}): {what}")

    def has(self, index: int) -> bool:
        """Whether the optional input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> Value:
        """An input that is an activation."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(found, Constant):
            raise self.unsupported(f"a constant as input {index} is not; an activation is")
        if found is None:
            raise self.wrong(f"input {index} is missing")
        return found

    def real(self, index: int) -> Value:
        """An activation in real numbers."""
        found = self.value(index)
        if found.integer_type:
            raise self.unsupported(
                f"integers as input {index} are not; the output of a DequantizeLinear is"
            )
        return found

    def constant(self, index: int) -> Constant:
        """An input that is known beforehand."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise self.wrong(f"input {index} is missing")
        if not isinstance(found, Constant):
            raise self.unsupported(
                f"an input {index} that is computed is not; a constant (weight, shape, limit) is"
            )
        return found

    def integers(self, index: int) -> tuple[int, ...]:
        """A short constant list of integers."""
        data = self.constant(index).data
        if data.dtype.kind not in "iu" or data.ndim > 1 or data.size > MAX_NUMBERS:
            raise self.wrong(f"input {index} must be a short list of integers")
        return tuple(int(v) for v in data.ravel())

    def number(self, index: int, default: float) -> float:
        """A constant scalar, or the default if it is left out."""
        if not self.has(index):
            return default
        found = self.constant(index)
        number = float(found.real().ravel()[0]) if found.data.size == 1 else math.nan
        if math.isnan(number):
            raise self.wrong(f"input {index} must be one number")
        return number

    def tensor(self, builder: Builder, index: int) -> tuple[str, Quantization]:
        """The int8 tensor of an activation, in the order in which it is stored."""
        value = self.real(index)
        quantization = value.source.quantization
        if quantization is None:
            raise self.unsupported(
                f"a float input {index} is not; a QuantizeLinear and DequantizeLinear before it is"
            )
        return builder.emit(value, f"{self.name}.input{index}", quantization), quantization

    def stored(self, builder: Builder, index: int) -> tuple[str, Quantization]:
        """The same as [1, h, w, c] of the image as it is stored."""
        image = self.real(index).image
        tensor, quantization = self.tensor(builder, index)
        return builder.reshape(tensor, (1, *image), f"{self.name}.stored{index}"), quantization

    def image(self, builder: Builder, index: int) -> tuple[str, Quantization]:
        """The same as [1, h, w, c] of the ONNX shape."""
        value = self.real(index)
        wanted = as_image(f"input {index} of node {self.name!r}", value.shape)
        tensor, quantization = self.tensor(builder, index)
        self.check_order(value, wanted)
        return builder.reshape(tensor, (1, *wanted), f"{self.name}.image{index}"), quantization

    def check_order(self, value: Value, wanted: Image) -> None:
        """Refuse what would need the data to be moved."""
        if not same_order(value.image, wanted):
            raise self.unsupported(
                f"the shape {value.shape} of flattened image channels is not; only Gemm and "
                "MatMul after such a Flatten or Reshape are"
            )


def normalized_axes(node: OnnxNode, axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front, checked, ascending."""
    if any(not -rank <= a < rank for a in axes):
        raise node.wrong(f"axes {tuple(axes)} do not fit {rank} dimensions")
    unique = sorted({a % rank for a in axes})
    if len(unique) != len(axes):
        raise node.wrong(f"axes {tuple(axes)} name one twice")
    return unique
