"""QuantizeLinear and DequantizeLinear of activations: where integers begin and end."""

from __future__ import annotations

from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.scales import check_plain, quantization_of
from mcutrain.formats.onnx.values import Stored, Value


def int8_quantize(node: Int8Node) -> Value:
    """QuantizeLinear: the value's integers are computed now."""
    check_plain(node)
    value = node.real()
    quantization, integer_type = quantization_of(node, None)
    tensor = node.builder.emit(value, node.output, quantization)
    return Value(Stored(tensor, quantization), value.layout, integer_type=integer_type)


def int8_dequantize(node: Int8Node) -> Value:
    """DequantizeLinear of an activation: the same integers, now read as real numbers."""
    check_plain(node)
    value = node.x()
    if not value.integer_type:
        raise node.wrong("reads real numbers")
    quantization, _ = quantization_of(node, value.integer_type)
    if value.source.quantization not in (None, quantization):
        raise node.unsupported(
            "another scale or zero point than the QuantizeLinear's is not; the same is"
        )
    tensor = node.builder.emit(value, node.output, quantization)
    return Value(Stored(tensor, quantization), value.layout)
