"""Rows of a table, chosen by token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    ChannelTie,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Param,
    channel_axis,
    inputs,
    outputs,
)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Embedding(Op):
    """y[..., :] = table[min(max(ids, 0), rows - 1), :]: TFLite's GATHER in int8.

    ids: int16 [1, …]  table: int8 [rows, c]  y: int8 [1, …, c]

    The table is frozen. Files leave open what an id means that is no row; here it is the nearest
    one.
    """

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A row for each id."""
        ids, table = inputs
        if ids.dtype != "int16" or len(table.shape) != 2:
            raise ValueError(f"ids of {ids.dtype} choose rows of {table.shape}")
        return (TensorType((*ids.shape, table.shape[1]), table.dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Clamp and take."""
        ids, table = inputs
        return (table[np.clip(ids, 0, len(table) - 1)],)

    def rows_of_ids(self, inputs: Sequence[TensorType]) -> int:
        """The table's."""
        return inputs[1].shape[0]

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Ids have none, and the table is frozen."""
        return (None, None)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_embedding_s8."""
        ids, table = types
        rows, width = table.shape
        params = (Param("count", ids.elements), Param("rows", rows), Param("width", width))
        return KernelCall("embedding", "mct_embedding_s8", params, (*inputs(0, 1), *outputs(0)))

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """The columns of the table."""
        (table,), (y,) = inputs(1), outputs(0)
        return ((channel_axis(table, types[1]), channel_axis(y, results[0])),)
