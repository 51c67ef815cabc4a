"""Float graphs become int8 graphs; and changes of an int8 graph that keep it one."""

from mcutrain.quant.float_op import Quantization
from mcutrain.quant.head import (
    add_classes,
    ends_in_sigmoids,
    gives_one_logit,
    head_scales,
    random_start,
    regression_head,
    replace_by_sigmoids,
    replace_head,
    scale_outputs,
    told_apart,
)
from mcutrain.quant.prototypes import HeadStart, head_of_means
from mcutrain.quant.quantizer import Quantized, QuantizeSettings, useful
from mcutrain.quant.report import (
    LayerError,
    compared_samples,
    layer_errors,
    named_as,
    target_errors,
)

__all__ = [
    "HeadStart",
    "LayerError",
    "Quantization",
    "QuantizeSettings",
    "Quantized",
    "add_classes",
    "compared_samples",
    "ends_in_sigmoids",
    "gives_one_logit",
    "head_of_means",
    "head_scales",
    "layer_errors",
    "named_as",
    "random_start",
    "regression_head",
    "replace_by_sigmoids",
    "replace_head",
    "scale_outputs",
    "target_errors",
    "told_apart",
    "useful",
]
