"""What a QuantizeLinear or DequantizeLinear says: scales, zero points, element types."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.formats.onnx.node import OnnxNode
from mcutrain.quant.float_op import Quantization

Array = npt.NDArray[Any]

MAX_CHANNELS = 2**16
MIN_SCALE, MAX_SCALE = 2.0**-126, 2.0**64  # beyond lie denormal numbers and broken files
CHANNELS_SINCE = 13  # the opset that gave QuantizeLinear and DequantizeLinear an axis


def quantization_of(node: OnnxNode[Any], integer_type: str | None) -> tuple[Quantization, str]:
    """Scale and zero point of a QuantizeLinear or DequantizeLinear of an activation, as int8.

    integer_type: what is read, None for a QuantizeLinear, whose zero point tells. uint8 is the
    int8 that is smaller by 128, zero point too. Also returns the type.
    """
    scale = scales_of(node)
    if scale.size != 1:
        raise node.unsupported("an activation with several scales is not; one scale is")
    zero_point, dtype = 0, integer_type or "uint8"
    if node.has(2):
        constant = node.constant(2)
        if constant.data.size != 1:
            raise node.wrong(f"there are {constant.data.size} zero points for one scale")
        zero_point, dtype = int(constant.data.ravel()[0]), str(constant.data.dtype)
    if dtype not in ("int8", "uint8"):
        raise node.unsupported(
            f"{dtype} activations are not; int8 and uint8 are: quantize the float model with "
            "`mcutrain quantize`, or with activation_type QInt8 or QUInt8"
        )
    if integer_type and dtype != integer_type:
        raise node.wrong(f"reads {integer_type} with a zero point of {dtype}")
    shift = 128 if dtype == "uint8" else 0
    return Quantization(float(scale.ravel()[0]), zero_point - shift), dtype


def scales_of(node: OnnxNode[Any]) -> Array:
    """The scale input: positive, finite."""
    data = node.constant(1).data
    if data.dtype != np.float32 or not 0 < data.size <= MAX_CHANNELS or data.ndim > 1:
        raise node.unsupported(f"scales of {data.dtype}{list(data.shape)} are not; float32 is")
    if data.size > 1 and node.opset < CHANNELS_SINCE:
        raise node.unsupported(
            f"{data.size} scales in opset {node.opset} are not; one is, and one per channel from "
            f"opset {CHANNELS_SINCE} on"
        )
    if not ((data >= MIN_SCALE) & (data <= MAX_SCALE)).all():
        raise node.wrong(f"the scale {node.constant(1).name!r} must be positive and finite")
    return np.asarray(data, np.float64)


def check_plain(node: OnnxNode[Any]) -> None:
    """Refuse blocked and otherwise unusual quantization."""
    attributes = node.attributes
    attributes.integer("axis", 1)
    attributes.integer("saturate", 1)
    attributes.integer("precision", 0)
    if attributes.integer("block_size", 0):
        raise node.unsupported("block_size is not; one scale, or one per channel is")
    if attributes.integer("output_dtype", 0) and not node.has(2):
        raise node.unsupported("output_dtype without a zero point is not; a zero point input is")
