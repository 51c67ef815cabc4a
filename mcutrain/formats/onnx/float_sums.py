"""ONNX operators that sum products, and batch norm; with constant weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.formats.onnx.float_arithmetic import affine
from mcutrain.formats.onnx.float_layout import Placed
from mcutrain.formats.onnx.float_node import FloatOnnx, window_of
from mcutrain.ops.spatial import Window
from mcutrain.quant.float_affine import (
    Affine,
)
from mcutrain.quant.float_sums import Conv, DepthwiseConv, Sums

Array = npt.NDArray[Any]
Rule = Callable[[FloatOnnx], Placed]

TRAINING_MODE_SINCE = 14  # before that opset, BatchNormalization's further outputs say the same


def conv(node: FloatOnnx) -> Placed:
    """Conv in one or two dimensions; weight [out, in / group, (h,) w]."""
    x, w = node.x(), node.real(1)
    rank = len(x.shape)
    if rank not in (3, 4) or w.ndim != rank or w.size == 0:
        raise node.front.unsupported(f"a weight {w.shape} over {x.shape} is not; 1-D and 2-D are")
    channels, group = x.shape[1], node.front.attributes.integer("group", 1)
    out, per_group = w.shape[:2]
    depthwise = group == channels and per_group == 1 and group > 1
    if not depthwise and group != 1:
        raise node.front.unsupported(
            f"group {group} of {channels} channels is not; 1 and {channels} (depthwise) are"
        )
    if per_group * group != channels or out % group:
        raise node.front.wrong(f"weight {w.shape} does not fit input {x.shape}")
    kernel = tuple(int(k) for k in w.shape[2:])
    if node.front.attributes.integers("kernel_shape", kernel) != kernel:
        raise node.front.wrong(f"kernel_shape differs from the weight's {kernel}")
    image = node.image()
    _, height, width, _ = node.nodes.shapes[image]
    window = window_of(node, kernel, (height, width))
    b = _bias(node, 2, out)
    as_2d = w.reshape(out, per_group, *window.kernel).astype(np.float32)
    op: Sums = Conv(window, np.ascontiguousarray(as_2d.transpose(0, 2, 3, 1)), b)
    if depthwise:
        op = DepthwiseConv(window, np.ascontiguousarray(as_2d.transpose(1, 2, 3, 0)), b)
    return node.of_image(node.add(op, image), rank)


def _bias(node: FloatOnnx, index: int, count: int) -> Array:
    if not node.front.has(index):
        return np.zeros(count)
    b = node.real(index)
    if b.size not in (1, count) or (b.ndim and b.shape[-1] != b.size):
        raise node.front.wrong(f"its bias has the shape {b.shape} for {count} channels")
    return np.broadcast_to(b.ravel(), (count,)).astype(np.float64)


def gemm(node: FloatOnnx) -> Placed:
    """alpha * x * w + beta * c of one row."""
    attributes = node.front.attributes
    if attributes.integer("transA", 0):
        raise node.front.unsupported("transA is not; only the weight may be transposed")
    w = node.real(1)
    if w.ndim != 2 or len(node.x().shape) != 2:
        raise node.front.unsupported(f"a weight {w.shape} is not; 2 dimensions are")
    w = w if attributes.integer("transB", 0) else w.T
    alpha, beta = attributes.real("alpha", 1.0), attributes.real("beta", 1.0)
    return _dense(node, w * alpha, _bias(node, 2, len(w)) * beta)


def matmul(node: FloatOnnx) -> Placed:
    """Rows times a constant matrix [in, out]."""
    w = node.real(1)
    if w.ndim != 2:
        raise node.front.unsupported(f"a weight {w.shape} is not; 2 dimensions are")
    return _dense(node, w.T, np.zeros(w.shape[1]))


def _dense(node: FloatOnnx, w: Array, b: Array) -> Placed:
    """w: [out, in]. One row may be stored in any order: the columns are reordered instead."""
    x, (out, features) = node.x(), w.shape
    rows = math.prod(x.shape[:-1])
    if x.shape[-1] != features or w.size == 0:
        raise node.front.wrong(f"input {x.shape} does not fit {features} rows of weights")
    if rows == 1:
        ordered = np.empty_like(w)
        ordered[:, x.flat_places] = w
        image = node.nodes.reshape(x.tensor, (1, 1, 1, features), node.name)
    else:
        ordered = w
        image = node.nodes.arrange(x, (1, 1, rows, features), (0, 1, 2, 3), node.name)
    kernel = ordered.reshape(out, 1, 1, features).astype(np.float32)
    tensor = node.add(Conv(Window((1, 1)), kernel, b), image)
    return node.nodes.placed(tensor, (0, 1, 2, 3), (*x.shape[:-1], out))


def batch_norm(node: FloatOnnx) -> Placed:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, per channel."""
    attributes = node.front.attributes
    if attributes.integer("training_mode", 0):
        raise node.front.unsupported("training_mode is not; an exported inference model is")
    if node.front.opset < TRAINING_MODE_SINCE and any(node.front.outputs[1:]):
        raise node.front.unsupported(
            "one in training mode, with more than one output, is not; an exported inference model "
            "is"
        )
    if attributes.integer("spatial", 1) != 1:
        raise node.front.unsupported("spatial 0 is not; one mean and variance per channel are")
    attributes.real("momentum", 0.9)
    epsilon = attributes.real("epsilon", 1e-5)
    scale, bias, mean, variance = (node.real(i).ravel() for i in range(1, 5))
    if not len(scale) == len(bias) == len(mean) == len(variance):
        raise node.front.wrong("its parameters have different lengths")
    if (variance + epsilon <= 0).any():
        raise node.front.wrong("its variance is negative")
    factor = scale / np.sqrt(variance + epsilon)
    return affine(node, node.x(), Affine(factor, bias - mean * factor), 1)
