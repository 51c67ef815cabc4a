"""Quantization-aware scaling: how fast each integer parameter must move.

Lin et al., "On-Device Training Under 256KB Memory", NeurIPS 2022, section 2.2, equation 4. With w =
s·q, a step on q of -lr · dL/dq · s⁻² is the step on w that float training would take. For a weight
s is s_w, for a bias s_w·s_x; both are the scale that the tensor itself carries.
"""

from __future__ import annotations

from functools import lru_cache

from mcutrain.ir.graph import TensorType


@lru_cache(maxsize=1024)
def update_rate(parameter: TensorType, enabled: bool = True) -> tuple[float, ...]:
    """The factor on learning rate times derivative, per output channel or one for all.

    parameter: an int8 weight or int32 bias with its scales. Without QAS the factor is 1.
    """
    if not enabled:
        return (1.0,)
    rates = tuple([scale**-2 for scale in parameter.scales])
    return rates[:1] if len(set(rates)) == 1 else rates
