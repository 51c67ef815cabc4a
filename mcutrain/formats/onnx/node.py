"""One ONNX node with its inputs looked up: what the rules for operators read.

Both readers, of int8 and of float models, read constants alike; what an activation is differs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.onnx.file import MAX_NUMBERS, Attributes
from mcutrain.formats.onnx.layout import CHANNELS_LAST, IMAGE_RANKS, Layout
from mcutrain.quant.float_graph import MAX_ELEMENTS
from mcutrain.quant.float_op import FloatOp, Shape
from mcutrain.quant.float_resize import repeated

Array = npt.NDArray[Any]

MAX_CONSTANT_BYTES = 2**32  # of all constants together, copies included


class Activation(Protocol):
    """What is computed; shape: as ONNX sees it."""

    @property
    def layout(self) -> Layout: ...

    @property
    def shape(self) -> Shape: ...


V = TypeVar("V", bound=Activation)
N = TypeVar("N", bound="OnnxNode[Any]")


@dataclass(frozen=True, eq=False)
class Constant:
    """Numbers known before any node runs; integers with scales if a DequantizeLinear read them.

    scales: one, or one per index of `axis`. The zero point is subtracted already.
    """

    name: str
    data: Array
    scales: Array | None = None
    axis: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the numbers."""
        return self.data.shape

    def real(self) -> Array:
        """The real numbers that are meant."""
        if self.scales is None:
            return self.data.astype(np.float64)
        shape = [1] * self.data.ndim
        if self.scales.size > 1:
            shape[self.axis] = -1
        return self.data * self.scales.reshape(shape)

    def spread(self, count: int) -> Array | None:
        """The scales, one per output channel; None if there are none."""
        return None if self.scales is None else np.broadcast_to(self.scales.ravel(), (count,))


class ConstantBudget:
    """How many bytes of constants a model has made so far."""

    def __init__(self) -> None:
        self._spent = 0

    def spend(self, constant_bytes: int) -> None:
        """Account for a copy of constants, so that no file can ask for endless memory."""
        self._spent += constant_bytes
        if self._spent > MAX_CONSTANT_BYTES:
            raise ModelError(f"the model's constants exceed {MAX_CONSTANT_BYTES >> 20} MiB")


def computed_input(where: str, index: int) -> UnsupportedError:
    """An error for an activation where a constant is read."""
    return UnsupportedError(
        f"{where}: an input {index} that is computed is not; a constant (weight, shape, limit) is "
        "supported"
    )


@dataclass(frozen=True)
class OnnxNode(Generic[V]):
    """An operator's name, inputs (None: left out), attributes, and names of its outputs."""

    name: str
    op_type: str
    opset: int
    inputs: tuple[V | Constant | None, ...]
    outputs: tuple[str, ...]
    attributes: Attributes
    budget: ConstantBudget

    @property
    def output(self) -> str:
        """The name of the first output."""
        return self.outputs[0]

    def reading(self: N, *inputs: Any) -> N:
        """Return the node with other inputs: values and constants."""
        return replace(self, inputs=inputs)

    def unsupported(self, what: str) -> UnsupportedError:
        """An error of the form: Conv (node 'x'): groups are not supported; one group is supported.

        what: the same as "groups are not; one group is".
        """
        said = what.replace(" not; ", " not supported; ", 1)
        return UnsupportedError(f"{self.op_type} (node {self.name!r}): {said} supported")

    def wrong(self, what: str) -> ModelError:
        """An error for something that no valid model has."""
        return ModelError(f"{self.op_type} (node {self.name!r}): {what}")

    def has(self, index: int) -> bool:
        """Return whether the optional input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> V | Constant:
        """An input, whatever it is."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise self.wrong(f"input {index} is missing")
        return found

    def x(self, index: int = 0) -> V:
        """An input that is an activation."""
        found = self.input(index)
        if isinstance(found, Constant):
            raise self.unsupported(f"a constant as input {index} is not; an activation is")
        return found

    def constant(self, index: int) -> Constant:
        """An input that is known beforehand."""
        found = self.input(index)
        if not isinstance(found, Constant):
            raise computed_input(self.attributes.where, index)
        return found

    def numbers(self, index: int, is_mask: bool = False) -> Array:
        """A constant input in real numbers, float64 and finite.

        is_mask: minus infinity is read as the least number of single precision.
        """
        constant = self.constant(index)
        if constant.data.dtype.kind not in "fiu":
            raise self.wrong(f"input {index} holds no numbers")
        data = constant.real()
        if is_mask:
            data = np.where(data == -np.inf, -float(np.finfo(np.float32).max), data)
        if not (np.abs(data) <= np.finfo(np.float32).max).all():
            mask = "; a mask of -10000 does what minus infinity does" * bool(
                (data == -np.inf).any()
            )
            raise self.wrong(f"the constant {constant.name!r} holds infinity or NaN{mask}")
        return data

    def is_constant(self, index: int) -> bool:
        """Return whether the input is there and known beforehand."""
        return self.has(index) and isinstance(self.inputs[index], Constant)

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

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Axes counted from the front, checked, ascending."""
        if any(not -rank <= a < rank for a in axes):
            raise self.wrong(f"axes {tuple(axes)} do not fit {rank} dimensions")
        unique = sorted({a % rank for a in axes})
        if len(unique) != len(axes):
            raise self.wrong(f"axes {tuple(axes)} name one twice")
        return unique


class GraphNode(OnnxNode[V], ABC):
    """A node with the graph in the making: what a rule needs that reads int8 and float models."""

    def real(self, index: int = 0) -> V:
        """An input that is an activation in real numbers."""
        return self.x(index)

    @abstractmethod
    def as_stored(self, index: int = 0) -> str:
        """The stored tensor of an input, in whatever order."""

    @abstractmethod
    def arranged(self, index: int, shape: Shape, order: Sequence[int], part: str) -> str:
        """A stored tensor that is the input, reshaped to `shape`, with its axes in `order`.

        part: what it is, for names.
        """

    @abstractmethod
    def stored_shape(self, tensor: str) -> Shape:
        """Return the shape of a stored tensor."""

    @abstractmethod
    def inner(self, op: FloatOp, x: str, part: str) -> str:
        """A stored tensor computed before the node's own operator, quantized as x."""

    @abstractmethod
    def computed(self, op: FloatOp, inputs: tuple[str, ...], layout: Layout) -> V:
        """The node's result. layout: of the operator's output."""

    @abstractmethod
    def embedded(self, table: Constant, ids: str, layout: Layout) -> V:
        """The node's result: rows of a table, chosen by the integers of a stored tensor."""

    @abstractmethod
    def view(self, x: str, shape: Shape, part: str) -> str:
        """A stored tensor under another shape; itself if it has that shape."""

    @abstractmethod
    def stored(self, tensor: str, like: V) -> V:
        """Return what lies in a stored tensor in ONNX' order. like: what it was."""

    @abstractmethod
    def seen(self, value: V, layout: Layout) -> V:
        """A value whose stored numbers mean something else."""

    def expanded(self, index: int, shape: Shape, order: Sequence[int]) -> str:
        """A stored tensor that is the input, repeated along axes of length 1 as `shape` has them.

        order: in which its axes are stored.
        """
        given = self.real(index).shape
        given = (*(1 for _ in shape[len(given) :]), *given)
        if np.broadcast_shapes(given, shape) != shape:
            raise self.wrong(f"{given} does not fit {shape}")
        if math.prod(shape) > MAX_ELEMENTS:
            raise self.wrong(f"{given} repeated to {shape} has more than {MAX_ELEMENTS:,} numbers")
        x = self.arranged(index, given, order, f"stored{index}")
        for place, axis in enumerate(order):
            if given[axis] < shape[axis]:
                outer = math.prod(shape[i] for i in order[:place])
                inner = math.prod(given[i] for i in order[place:])
                x = self.view(x, (1, outer, 1, inner), f"rows{index}")
                x = self.inner(repeated(outer, shape[axis]), x, f"repeated{index}")
        return self.view(x, Layout.of_order(shape, order).stored, f"expanded{index}")

    def image(self, index: int = 0) -> str:
        """A stored tensor [1, h, w, c] of an input [1, c, h, w], [1, c, l] or [1, c]."""
        height, width, channels = self.image_of(self.real(index).shape)
        shape = (1, channels, height, width)
        return self.arranged(index, shape, CHANNELS_LAST, f"image{index}")

    def image_of(self, shape: Shape) -> tuple[int, int, int]:
        """Height, width, channels of an ONNX shape."""
        if len(shape) not in IMAGE_RANKS or shape[0] != 1:
            raise self.unsupported(
                f"the shape {shape} is not; [1, c], [1, c, l] and [1, c, h, w] are"
            )
        channels, *spatial = shape[1:]
        height, width = (1, 1, *spatial)[-2:]
        return height, width, channels

    def of_image(self, op: FloatOp, x: str) -> V:
        """The node's result: an image, too, of an image x; of the rank of the node's input."""
        stored = op.shape(self.stored_shape(x))
        return self.computed(op, (x,), Layout.of_image(stored, len(self.x().shape)))
