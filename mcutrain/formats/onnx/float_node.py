"""One ONNX node of a float model: its inputs as tensors of the float graph under construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.formats.onnx.float_layout import Nodes, Placed
from mcutrain.formats.onnx.node import OnnxNode
from mcutrain.quant.float_op import FloatOp

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class FloatOnnx(OnnxNode[Placed]):
    """nodes: what the rule for the operator adds to. The tensor that it computes last has the
    name of the output.
    """

    nodes: Nodes

    def numbers(self, index: int) -> Array:
        """A constant input in real numbers, float64 and finite."""
        constant = self.constant(index)
        if constant.data.dtype.kind not in "fiu":
            raise self.wrong(f"input {index} holds no numbers")
        data = constant.real()
        if not (np.abs(data) < np.finfo(np.float32).max).all():
            raise self.wrong(f"the constant {constant.name!r} holds infinity or NaN")
        return data

    def image(self, index: int = 0) -> str:
        """A stored tensor [1, h, w, c] of an input [1, c, h, w], [1, c, l] or [1, c]."""
        x = self.x(index)
        if not 2 <= len(x.shape) <= 4 or x.shape[0] != 1:
            raise self.unsupported(f"an input {x.shape} is not; [1, c, h, w], [1, c, l] are")
        channels, *spatial = x.shape[1:]
        height, width = (1, 1, *spatial)[-2:]
        return self.nodes.arrange(x, (1, channels, height, width), (0, 2, 3, 1), self.output)

    def of_image(self, tensor: str, rank: int) -> Placed:
        """A stored image as the value [1, c, h, w], or [1, c, l] if the rank is 3."""
        _, height, width, channels = self.nodes.shapes[tensor]
        shape = (1, channels, height, width)[: 2 if rank == 2 else 4]
        if rank == 3:
            shape = (1, channels, width)
        return self.nodes.placed(tensor, (0, 3, 1, 2), shape)

    def add(self, op: FloatOp, *inputs: str) -> str:
        """A node; the tensor it computes."""
        return self.nodes.add(op, inputs, self.output)

    def elementwise(self, op: FloatOp, x: Placed) -> Placed:
        """An operator that treats all elements alike."""
        tensor = self.add(op, x.tensor)
        return Placed(tensor, x.stored, x.perm, x.shape)
