"""Some channels of an activation, saved for the weight gradient of a partly trained layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import Emit, KernelCall, Op, Param, Rows, inputs, outputs, rows_apart, table_of

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SelectChannels(Op):
    """y[..., j] = x[..., channels[j]]. channels: ascending.

    swapped: how many channels a second input says, int16, where they are resampled; `channels` is
        empty then. The hash of a saved state takes this field's name, so it stays.
    """

    channels: tuple[int, ...]
    swapped: int = 0

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The last axis shrinks."""
        x, *columns = inputs
        count = self.swapped or len(self.channels)
        if not 0 < count <= x.shape[-1] or max(self.channels, default=0) >= x.shape[-1]:
            raise ValueError(f"channels {self.channels or count} of {x.shape[-1]}")
        if columns != [TensorType((count,), "int16")] * bool(self.swapped):
            raise ValueError(f"{columns} are not {self.swapped} columns")
        return (TensorType((*x.shape[:-1], count), x.dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Gather along the last axis."""
        x, *columns = inputs
        return (x[..., list(columns[0] if columns else self.channels)],)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Each position by itself."""
        return rows_apart(types, results, "positions")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_select_channels_s8."""
        x = types[0]
        table = table_of("channels", self.channels)
        if self.swapped:
            table = replace(table, value=inputs(1)[0])
        params = (
            Param("positions", x.elements // x.shape[-1]),
            Param("x_channels", x.shape[-1]),
            Param("y_channels", results[0].shape[-1]),
            table,
        )
        operands = (*inputs(0), *outputs(0))
        return KernelCall("select_channels", "mct_select_channels_s8", params, operands)

    is_digest: ClassVar[bool] = True  # never larger than the activation


def select_channels(
    emit: Emit, x: Tensor, channels: tuple[int, ...] | None, columns: Tensor | None = None
) -> tuple[str, int]:
    """Return what to save of x for these trained channels (None: all), and how many there are.

    columns: what says at run time which of them these are.
    """
    if channels is None:
        return x.name, x.type.shape[-1]
    count = len(channels)
    if columns is not None:
        return emit.node(SelectChannels((), count), x.name, columns.name), count
    return emit.node(SelectChannels(channels), x.name), count
