"""A partly trained weight put together from flash and RAM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import Emit, Gradient, KernelCall, Op, Param, inputs, outputs, table_of

Array = npt.NDArray[Any]


def merged(frozen: Array, trained: Array, channels: Sequence[int] | Array) -> Array:
    """frozen: [..., columns], with column channels[j] replaced by column j of trained."""
    whole = frozen.copy()
    whole[..., list(channels)] = trained
    return whole


def check_trained(whole: TensorType, trained: TensorType, channels: tuple[int, ...]) -> None:
    """Raise ValueError unless `trained` has these columns of a weight."""
    if trained.shape != (*whole.shape[:-1], len(channels)):
        raise ValueError(f"trained part {trained.shape} of {whole.shape} for {channels}")


def check_resampled(whole: TensorType, parts: Sequence[TensorType], count: int) -> None:
    """Raise ValueError unless these are `count` columns of a weight, and which they are."""
    trained, columns = parts
    if trained.shape != (*whole.shape[:-1], count) or columns != TensorType((count,), "int16"):
        raise ValueError(f"{count} columns of {whole.shape}: {trained.shape} and {columns}")


@dataclass(frozen=True)
class MergeColumns(Op):
    """w = frozen, with column channels[j] replaced by column j of trained.

    frozen, w: [..., columns] int8, constant. trained: [..., trained columns] int8, state. For
    readers that must find a weight in one piece; the result lives only while they read it.
    """

    channels: tuple[int, ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The frozen weight's shape."""
        frozen, trained = inputs
        check_trained(frozen, trained, self.channels)
        return (TensorType(frozen.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Copy, then overwrite columns."""
        frozen, trained = inputs
        return (merged(frozen, trained, self.channels),)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Parameters are trained by the operator that reads them."""
        return None, None

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_merge_columns_s8."""
        columns = types[0].shape[-1]
        params = (
            Param("rows", types[0].elements // columns),
            Param("columns", columns),
            Param("trained_columns", len(self.channels)),
            table_of("channels", self.channels),
        )
        operands = (*inputs(0, 1), *outputs(0))
        return KernelCall("merge_columns", "mct_merge_columns_s8", params, operands)
