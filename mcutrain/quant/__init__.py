"""Float graphs become int8 graphs; and changes of an int8 graph that keep it one.

What quantizes is imported when it is asked for: who reads an int8 file needs none of it.
"""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
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

if not TYPE_CHECKING:  # a type checker would take any name for one of these

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'mcutrain.quant' has no attribute {name!r}")
        from mcutrain.quant import quantizer, report

        is_report = name not in ("QuantizeSettings", "Quantized", "useful")
        return getattr(report if is_report else quantizer, name)
