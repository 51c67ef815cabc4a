"""ONNX' ConvTranspose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import UnsupportedError
from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.int8_sums import Int8Sums, bias_of, weight_of
from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import Constant, GraphNode, OnnxNode
from mcutrain.formats.onnx.sums import float_bias
from mcutrain.formats.onnx.values import Builder, Source, Value
from mcutrain.formats.onnx.window import MAX_WINDOW
from mcutrain.quant.float_op import Quantization
from mcutrain.quant.float_shapes import FloatMove
from mcutrain.quant.float_sums import Conv
from mcutrain.quant.transposed import Transposed

OUR_ORDER = (1, 2, 3, 0)
"""The axes of a weight [in, out, h, w] as a convolution has them."""


def int8_conv_transpose(node: Int8Node) -> Value:
    """The sums of a convolution, whose channels become pixels when their scale is known."""
    image, w = node.image(), node.constant(1)
    out, shape = _transposed(node, node.stored_shape(image))
    if len(node.real().shape) == 3:
        w = replace(w, data=w.data[:, :, None])
    weight = weight_of(node, w, OUR_ORDER, 1, 0)
    scales = weight.scales if len(weight.scales) == 1 else weight.scales * shape.copies
    node.budget.spend(shape.copies * weight.data.nbytes)
    weight = replace(weight, data=shape.weight(weight.data), scales=scales)
    sums = Int8Sums(node.name, shape.window, image, node.quantization(image), weight, False)
    if node.has(2):
        bias = _in_turns(bias_of(node, node.constant(2), out), out, shape.copies)
        sums = replace(sums, bias=bias)
    moves = shape.moves(out)
    stored = (1, shape.rows.size, shape.columns.size, out)
    return Value(Spread(sums, moves), Layout.of_image(stored, len(node.real().shape)))


def float_conv_transpose(node: FloatOnnx) -> FloatValue:
    """A convolution, whose channels become pixels."""
    image, w = node.image(), node.numbers(1)
    out, shape = _transposed(node, node.stored_shape(image))
    as_2d = w.reshape(w.shape[0], out, shape.rows.kernel, shape.columns.kernel)
    node.budget.spend(shape.copies * w.nbytes)
    weight = shape.weight(as_2d.transpose(OUR_ORDER).astype(np.float32))
    bias = np.tile(float_bias(node, 2, out), shape.copies)
    x = node.inner(Conv(shape.window, weight, bias), image, "sums")
    *moves, last = shape.moves(out)
    for move in moves:
        x = node.nodes.move(x, move, node.output)
    return node.of_image(last, x)


@dataclass(frozen=True, eq=False)
class Spread(Source):
    """Sums whose numbers are moved before anything reads them."""

    sums: Int8Sums
    moves: tuple[FloatMove, ...]

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """The layer, and what moves its output."""
        y = builder.emit_source(self.sums, f"{name}.sums", wanted, limits)
        for move in self.moves:
            y = builder.move(y, move, name)
        return y


def _in_turns(bias: Constant, channels: int, copies: int) -> Constant:
    """The bias of as many channels more."""
    data = np.tile(np.broadcast_to(bias.data.ravel(), channels), copies)
    scales = bias.scales
    if scales is not None and scales.size > 1:
        scales = np.tile(scales.ravel(), copies)
    return replace(bias, data=data, scales=scales, axis=0)


def _transposed(node: GraphNode[Any], image: tuple[int, ...]) -> tuple[int, Transposed]:
    """The output channels, and the operator on an image [1, h, w, c]."""
    shape, weight, attributes = node.real().shape, node.constant(1).shape, node.attributes
    rank = len(shape) - 2
    if len(shape) not in (3, 4) or len(weight) != len(shape) or 0 in weight:
        raise node.unsupported(f"a weight {weight} over {shape} is not; 1-D and 2-D are")
    if attributes.integer("group", 1) != 1:
        raise node.unsupported("groups are not; one group is")
    if weight[0] != shape[1]:
        raise node.wrong(f"weight {weight} does not fit input {shape}")
    kernel = tuple(int(k) for k in weight[2:])
    if attributes.integers("kernel_shape", kernel) != kernel:
        raise node.wrong(f"kernel_shape differs from the weight's {kernel}")
    if any(d != 1 for d in _numbers(node, "dilations", rank, 1)):
        raise node.unsupported("dilations are not; none are")
    axes = [(image[1], 1, 1, 0, 1)] if rank == 1 else []
    axes += _axes(node, tuple(shape[2:]), kernel)
    lengths, kernels, strides, before, sizes = zip(*axes, strict=True)
    try:
        return int(weight[1]), Transposed.of(lengths, kernels, strides, before, sizes)
    except ValueError as error:
        raise UnsupportedError(f"{attributes.where}: {error}") from error


def _axes(
    node: OnnxNode[Any], lengths: tuple[int, ...], kernel: tuple[int, ...]
) -> list[tuple[int, int, int, int, int]]:
    """Return of each axis: length, kernel, stride, what is left out before, the output's length."""
    rank = len(lengths)
    strides = _numbers(node, "strides", rank, 1)
    more, pads = _numbers(node, "output_padding", rank, 0), _numbers(node, "pads", 2 * rank, 0)
    auto = node.attributes.text("auto_pad", "NOTSET")
    wanted = node.attributes.integers("output_shape")
    if auto in ("SAME_UPPER", "SAME_LOWER") and wanted is None:
        wanted = tuple(n * s for n, s in zip(lengths, strides, strict=True))
    elif auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", ""):
        raise node.wrong(f"auto_pad is {auto!r}")
    found = []
    for i, (length, taps, stride) in enumerate(zip(lengths, kernel, strides, strict=True)):
        whole = stride * (length - 1) + more[i] + taps
        before, total = pads[i], pads[i] + pads[rank + i]
        if wanted is not None:
            total = max(whole - wanted[-rank:][i], 0)
            before = total // 2 if auto == "SAME_UPPER" else total - total // 2
        size = whole - total if wanted is None else wanted[-rank:][i]
        found.append((length, taps, stride, before, size))
    return found


def _numbers(node: OnnxNode[Any], name: str, count: int, least: int) -> tuple[int, ...]:
    """An attribute of so many numbers, each `least` if it is not there."""
    values = node.attributes.integers(name, (least,) * count) or ()
    if len(values) != count or not all(least <= v <= MAX_WINDOW for v in values):
        raise node.wrong(f"{name} must be {count} numbers from {least} on, got {values}")
    return values
