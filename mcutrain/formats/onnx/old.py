"""What operators were like in older opsets: attributes that are inputs now, and Softmax."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from mcutrain.errors import ModelError
from mcutrain.formats.onnx.file import Attributes
from mcutrain.formats.onnx.node import Constant, OnnxNode

Input = TypeVar("Input")

INPUT_SINCE: dict[str, tuple[int, tuple[str, ...]]] = {
    "Clip": (11, ("min", "max")),
    "Dropout": (12, ("ratio",)),
    "Pad": (11, ("pads", "value")),
    "Slice": (10, ("starts", "ends", "axes")),
    "Split": (13, ("split",)),
    "Squeeze": (13, ("axes",)),
    "Unsqueeze": (13, ("axes",)),
    "Upsample": (9, ("scales",)),
}
"""The opset from which on an operator reads these as its inputs 1, 2, …; ONNX's changelog."""
REAL = ("max", "min", "ratio", "value")
ONE_AXIS_SINCE = 13  # Softmax over one axis; before that over all axes from one on, 1 by default
UNLIMITED = float(np.finfo(np.float32).max)  # what an older Clip has where there is no limit


def with_attributes(
    op_type: str, opset: int, inputs: tuple[Input, ...], attributes: Attributes
) -> tuple[Input | Constant | None, ...]:
    """The inputs that the node has in opset 13."""
    since, names = INPUT_SINCE.get(op_type, (0, ()))
    if opset >= since:
        return inputs
    found = [_constant(name, attributes) for name in names]
    if not any(found):
        return inputs
    if len(inputs) != 1:
        raise ModelError(f"{attributes.where}: has {' and '.join(names)} twice, as inputs too")
    return (*inputs, *found)


def _constant(name: str, attributes: Attributes) -> Constant | None:
    """An attribute as a constant; None where it is not there or limits nothing."""
    if name not in attributes.protos:
        return None
    if name == "scales":
        return Constant(name, np.array(attributes.reals(name), np.float32))
    if name not in REAL:
        return Constant(name, np.array(attributes.integers(name), np.int64))
    number = attributes.real(name, 0.0)
    if name in ("min", "max") and abs(number) >= UNLIMITED:
        return None
    return Constant(name, np.array(number, np.float32))


def softmax_axis(node: OnnxNode[Any], shape: tuple[int, ...]) -> int:
    """The one axis along which a Softmax sums to 1."""
    is_old = node.opset < ONE_AXIS_SINCE
    axis = node.attributes.integer("axis", 1 if is_old else -1)
    (axis,) = node.axes([axis], len(shape))
    if not is_old:
        return axis
    longer = [i for i, length in enumerate(shape) if i >= axis and length > 1]
    if len(longer) > 1:
        raise node.unsupported(
            f"one over {math.prod(shape[axis:])} numbers, the axes from {axis} on of {shape} "
            f"together, as opsets before {ONE_AXIS_SINCE} have it, is not; one over one axis is"
        )
    return longer[0] if longer else axis
