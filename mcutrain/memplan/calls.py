"""Kernel calls, remembered: schemes of one network share most of their nodes."""

from __future__ import annotations

from functools import lru_cache

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall, Op


@lru_cache(maxsize=2048)
def kernel_call(
    op: Op, types: tuple[TensorType, ...], results: tuple[TensorType, ...]
) -> KernelCall:
    """As Op.kernel."""
    return op.kernel(types, results)
