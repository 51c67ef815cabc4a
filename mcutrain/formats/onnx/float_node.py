"""One ONNX node of a float model with its inputs looked up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.formats.onnx.float_layout import Nodes, Placed
from mcutrain.formats.onnx.node import OnnxNode
from mcutrain.formats.onnx.values import Constant
from mcutrain.ops.spatial import Window
from mcutrain.quant.float_op import FloatOp

Array = npt.NDArray[Any]

MAX_WINDOW = 2**12  # strides, dilations and padding beyond any image


@dataclass(frozen=True)
class FloatOnnx:
    """front: attributes and constant inputs; values: the inputs that are computed; both by place.

    nodes: what the rule for the operator adds to.
    """

    front: OnnxNode
    values: tuple[Placed | None, ...]
    nodes: Nodes

    @property
    def name(self) -> str:
        """The name of the output, which the tensor gets that the node computes last."""
        return self.front.outputs[0]

    def x(self, index: int = 0) -> Placed:
        """An input that is computed."""
        found = self.values[index] if index < len(self.values) else None
        if found is not None:
            return found
        if self.front.has(index):
            raise self.front.unsupported(f"a constant as input {index} is not; an activation is")
        raise self.front.wrong(f"input {index} is missing")

    def real(self, index: int) -> Array:
        """A constant input in real numbers, float64 and finite."""
        if index < len(self.values) and self.values[index] is not None:
            raise self.front.unsupported(f"an input {index} that is computed is not; a constant is")
        constant = self.front.constant(index)
        if constant.data.dtype.kind not in "fiu":
            raise self.front.wrong(f"input {index} holds no numbers")
        data = constant.real()
        if not (np.abs(data) < np.finfo(np.float32).max).all():
            raise self.front.wrong(f"the constant {constant.name!r} holds infinity or NaN")
        return data

    def constant_or_none(self, index: int) -> Array | None:
        """A constant input, None if it is computed or missing."""
        is_constant = index < len(self.front.inputs) and isinstance(
            self.front.inputs[index], Constant
        )
        return self.real(index) if is_constant else None

    def image(self, index: int = 0) -> str:
        """A stored tensor [1, h, w, c] of an input [1, c, h, w], [1, c, l] or [1, c]."""
        x = self.x(index)
        if not 2 <= len(x.shape) <= 4 or x.shape[0] != 1:
            raise self.front.unsupported(f"an input {x.shape} is not; [1, c, h, w], [1, c, l] are")
        channels, *spatial = x.shape[1:]
        height, width = (1, 1, *spatial)[-2:]
        return self.nodes.arrange(x, (1, channels, height, width), (0, 2, 3, 1), self.name)

    def of_image(self, tensor: str, rank: int) -> Placed:
        """A stored image as the value [1, c, h, w], or [1, c, l] if the rank is 3."""
        _, height, width, channels = self.nodes.shapes[tensor]
        shape = (1, channels, height, width)[: 2 if rank == 2 else 4]
        if rank == 3:
            shape = (1, channels, width)
        return self.nodes.placed(tensor, (0, 3, 1, 2), shape)

    def add(self, op: FloatOp, *inputs: str) -> str:
        """A node; the tensor it computes."""
        return self.nodes.add(op, inputs, self.name)

    def elementwise(self, op: FloatOp, x: Placed) -> Placed:
        """An operator that treats all elements alike."""
        tensor = self.add(op, x.tensor)
        return Placed(tensor, x.stored, x.perm, x.shape)


def window_of(node: FloatOnnx, kernel: tuple[int, ...], size: tuple[int, int]) -> Window:
    """The window of a Conv or pool over an image of `size`; in one dimension of height 1."""
    attributes, rank = node.front.attributes, len(kernel)
    ones = (1,) * rank
    strides = _numbers(node, "strides", attributes.integers("strides", ones), rank, 1)
    dilations = _numbers(node, "dilations", attributes.integers("dilations", ones), rank, 1)
    kernel = _numbers(node, "kernel_shape", kernel, rank, 1)
    zeros = (0,) * (2 * rank)
    pads = _numbers(node, "pads", attributes.integers("pads", zeros), 2 * rank, 0)
    auto = attributes.text("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", ""):
        raise node.front.wrong(f"auto_pad is {auto!r}")
    ceil_mode = attributes.integer("ceil_mode", 0) if "Pool" in node.front.op_type else 0
    sides = []
    for i, length in enumerate(size[2 - rank :]):
        span = (kernel[i] - 1) * dilations[i] + 1
        begin, end = (0, 0) if auto == "VALID" else (pads[i], pads[rank + i])
        if auto.startswith("SAME"):
            total = max((-(-length // strides[i]) - 1) * strides[i] + span - length, 0)
            begin, end = total // 2, total - total // 2
            begin, end = (end, begin) if auto == "SAME_LOWER" else (begin, end)
        sides += [begin, _end(length + begin, end, span, strides[i], ceil_mode)]
    if rank == 1:
        sides = [0, 0, *sides]
    (kh, kw), (sh, sw), (dh, dw) = ((1, *v)[-2:] for v in (kernel, strides, dilations))
    padding = (sides[0], sides[1], sides[2], sides[3])
    return Window((kh, kw), (sh, sw), (dh, dw), padding)


def _end(length: int, end: int, span: int, stride: int, ceil_mode: int) -> int:
    """Padding at the end that a window reaches. length: with the padding at the beginning."""
    steps = (length + end - span) // stride
    if ceil_mode and (steps + 1) * stride < length and steps * stride + span < length + end:
        steps += 1
    return max(steps * stride + span - length, 0) if steps >= 0 else end


def _numbers(
    node: FloatOnnx, name: str, values: tuple[int, ...] | None, count: int, least: int
) -> tuple[int, ...]:
    if values is None or len(values) != count or not all(least <= v <= MAX_WINDOW for v in values):
        raise node.front.wrong(
            f"{name} must be {count} numbers from {least} to {MAX_WINDOW}, got {values}"
        )
    return values
