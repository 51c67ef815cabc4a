"""Float graphs become int8 graphs; and changes of an int8 graph that keep it one."""

from mcutrain.quant.float_op import Quantization
from mcutrain.quant.head import add_classes, replace_head, scale_outputs
from mcutrain.quant.quantizer import Quantized, QuantizeSettings, useful
from mcutrain.quant.report import LayerError, compared_samples, layer_errors, named_as

__all__ = [
    "LayerError",
    "Quantization",
    "QuantizeSettings",
    "Quantized",
    "add_classes",
    "compared_samples",
    "layer_errors",
    "named_as",
    "replace_head",
    "scale_outputs",
    "useful",
]
