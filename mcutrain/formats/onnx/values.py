"""What a tensor of an ONNX graph is while it is turned into nodes of ours.

ONNX computes in float between a DequantizeLinear and a QuantizeLinear; our operators need to know
the quantization of their result. So the result of an operator is a `Source` that waits for it.
Activations and reshapes in between are noted on the `Value` and cost nothing until then.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.onnx.node import Budget
from mcutrain.ir.graph import Node, Tensor, TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.reshape import Reshape
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import Quantization

Array = npt.NDArray[Any]
Image = tuple[int, int, int]  # height, width, channels

FULL = multipliers.INT8
MAX_ELEMENTS = 2**26  # of one activation; no microcontroller has a hundredth of it
MAX_FACTOR = 2.0**10  # a requantization by more saturates whatever is not zero


class Source(ABC):
    """How the integers of a value come to be. `quantization`: what it is if nothing is asked."""

    quantization: Quantization | None = None

    @abstractmethod
    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """Add the nodes that compute the tensor `name`, clamped to the limits. Its final name."""


@dataclass(frozen=True, eq=False)
class Value:
    """An activation. image: height, width, channels of the integers as they are stored.

    shape: as ONNX sees it; its row-major order is that of the image's [1, c, h, w]. low, high: the
    real limits of activations not applied yet. integer_type: int8 or uint8 between a
    QuantizeLinear and a DequantizeLinear, else "" for real numbers.
    """

    source: Source
    image: Image
    shape: tuple[int, ...]
    low: float = -math.inf
    high: float = math.inf
    integer_type: str = ""

    def clipped(self, low: float, high: float) -> Value:
        """This value after an activation: the limits themselves are clipped."""
        return replace(
            self,
            low=min(max(self.low, low), high),
            high=min(max(self.high, low), high),
        )

    def limits(self, quantization: Quantization) -> tuple[int, int]:
        """The limits as int8."""
        return quantization.stored(self.low), quantization.stored(self.high)


class Builder:
    """The tensors and nodes of the graph under construction."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self._node_names: set[str] = set()
        self._emitted: dict[tuple[Source, Quantization, tuple[int, int]], str] = {}
        self._reshaped: dict[tuple[str, tuple[int, ...]], str] = {}
        self._numbers: dict[str, int] = {}
        self.reserved: set[str] = set()  # names of graph inputs that are declared later

    def emit(self, value: Value, name: str, wanted: Quantization) -> str:
        """The tensor of the value under a quantization; made once for all who ask."""
        return self.emit_source(value.source, name, wanted, value.limits(wanted))

    def emit_source(
        self, source: Source, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """The same of a value's source, with the limits as int8."""
        key = (source, wanted, limits)
        if key not in self._emitted:
            self._emitted[key] = source.emit(self, name, wanted, limits)
        return self._emitted[key]

    def constant(
        self, name: str, data: Array, scales: tuple[float, ...], axis: int, zero_point: int = 0
    ) -> str:
        """Add a constant."""
        self.budget.spend(data.nbytes)
        final = self._unused(name, self.tensors)
        data = np.ascontiguousarray(data)
        data.flags.writeable = False
        axis = axis if len(scales) > 1 else -1
        kind = TensorType(data.shape, str(data.dtype), scales, zero_point, axis)
        self.tensors[final] = Tensor(final, kind, data)
        return final

    def input(self, name: str, shape: tuple[int, ...], quantization: Quantization) -> str:
        """Add a graph input."""
        self.tensors[name] = Tensor(name, _activation(shape, quantization))
        return name

    def node(
        self, name: str, op: Op, inputs: tuple[str, ...], output: str, quantization: Quantization
    ) -> str:
        """Add a node; its output's type is inferred, its name is `output` or like it."""
        try:
            (kind,) = op.infer(*(self.tensors[n].type for n in inputs))
        except ValueError as error:
            raise ModelError(f"node {name!r}: {error}") from error
        if math.prod(kind.shape) > MAX_ELEMENTS:
            raise ModelError(
                f"node {name!r} would compute {kind.shape}, more than {MAX_ELEMENTS} numbers"
            )
        final = self._unused(output, self.tensors)
        self.tensors[final] = Tensor(final, _activation(kind.shape, quantization))
        node_name = self._unused(name, self._node_names)
        self._node_names.add(node_name)
        self.nodes.append(Node(node_name, op, inputs, (final,)))
        return final

    def rescale(
        self, name: str, x: str, wanted: Quantization, limits: tuple[int, int], output: str
    ) -> str:
        """Add a Rescale from the tensor's own quantization."""
        kind = self.tensors[x].type
        given = Quantization(kind.scale, kind.zero_point)
        check_factor(name, given.scale / wanted.scale)
        op = multipliers.requantize(given, wanted).with_channel_limits(*limits)
        return self.node(name, op, (x,), output, wanted)

    def reshape(self, x: str, shape: tuple[int, ...], name: str) -> str:
        """The tensor under another shape; itself if it has that shape."""
        kind = self.tensors[x].type
        if kind.shape == shape:
            return x
        if (x, shape) not in self._reshaped:
            given = Quantization(kind.scale, kind.zero_point)
            self._reshaped[x, shape] = self.node(name, Reshape(shape), (x,), name, given)
        return self._reshaped[x, shape]

    def _unused(self, name: str, taken: Container[str]) -> str:
        """The name, or the name with a number behind it."""
        final = name
        while final in taken or final in self.reserved:
            self._numbers[name] = self._numbers.get(name, 1) + 1
            final = f"{name}.{self._numbers[name]}"
        return final


@dataclass(frozen=True, eq=False)
class Stored(Source):
    """A tensor that is there."""

    tensor: str
    quantization: Quantization

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """The tensor itself, or a Rescale of it."""
        if wanted == self.quantization and limits == FULL:
            return self.tensor
        return builder.rescale(name, self.tensor, wanted, limits, name)


@dataclass(frozen=True, eq=False)
class GraphInput(Source):
    """The model's input, whose quantization the first QuantizeLinear or DequantizeLinear tells."""

    name: str
    shape: tuple[int, ...]
    image: Image

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """Declare the input, as an image; clamp it if an activation says so."""
        if self.name not in builder.tensors:
            builder.input(self.name, self.shape, wanted)
        kind = builder.tensors[self.name].type
        if (kind.scale, kind.zero_point) != wanted:
            raise UnsupportedError(f"input {self.name!r} is quantized twice, differently")
        tensor = builder.reshape(self.name, (1, *self.image), f"{self.name}.image")
        if limits == FULL:
            return tensor
        return builder.rescale(name, tensor, wanted, limits, name)


@dataclass(frozen=True, eq=False)
class Fixed(Source):
    """An operator whose result has a quantization of its own (pools, Pad, Softmax).

    Another one, or an activation, is a Rescale after it.
    """

    name: str
    op: Op
    inputs: tuple[str, ...]
    quantization: Quantization

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """The operator, then a Rescale if one is needed."""
        if wanted == self.quantization and limits == FULL:
            return builder.node(self.name, self.op, self.inputs, name, wanted)
        own = f"{name}.unscaled"
        tensor = builder.node(self.name, self.op, self.inputs, own, self.quantization)
        return builder.rescale(f"{self.name}.rescale", tensor, wanted, limits, name)


@dataclass(frozen=True, eq=False)
class Scaling(Source):
    """An operator that requantizes to whatever is asked for (Add, Mean)."""

    name: str
    make: Callable[[Quantization], Op]
    inputs: tuple[str, ...]

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """The operator with the limits as its clamp."""
        op = self.make(wanted).with_channel_limits(*limits)
        return builder.node(self.name, op, self.inputs, name, wanted)


def check_factor(name: str, *factors: float) -> None:
    """Refuse requantization factors that no sound model has."""
    for factor in factors:
        if not 0 <= factor <= MAX_FACTOR:
            raise ModelError(f"node {name!r} multiplies by {factor:.3g}; its scales are wrong")


def as_image(name: str, shape: tuple[int, ...]) -> Image:
    """Height, width, channels of an ONNX shape [1, c, h, w], [1, c, l] or [1, c]."""
    if not 2 <= len(shape) <= 4 or shape[0] != 1:
        raise UnsupportedError(
            f"{name} has the shape {shape}; supported are [1, c], [1, c, l] and [1, c, h, w]"
        )
    channels, *spatial = shape[1:]
    height, width = (1, 1, *spatial)[-2:]
    return height, width, channels


def is_linear(image: Image) -> bool:
    """Whether channels-first and channels-last order are the same."""
    return image[2] == 1 or image[0] * image[1] == 1


def same_order(a: Image, b: Image) -> bool:
    """Whether a stored image a may be read as b: both channels-first orders are equal then."""
    return a == b or a[2] == b[2] or (is_linear(a) and is_linear(b))


def _activation(shape: tuple[int, ...], quantization: Quantization) -> TensorType:
    return TensorType(shape, "int8", (quantization.scale,), quantization.zero_point)
