"""Some channels of an activation, saved for the weight gradient of a partly trained layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import Emit, KernelCall, Op, Param, Rows, inputs, outputs, rows_apart, table_of

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SelectChannels(Op):
    """y[..., j] = x[..., channels[j]]. channels: ascending."""

    channels: tuple[int, ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The last axis shrinks."""
        x = inputs[0]
        if not self.channels or max(self.channels) >= x.shape[-1]:
            raise ValueError(f"channels {self.channels} of {x.shape[-1]}")
        return (TensorType((*x.shape[:-1], len(self.channels)), x.dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Gather along the last axis."""
        return (inputs[0][..., list(self.channels)],)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Each position by itself."""
        return rows_apart(types, results, "positions")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_select_channels_s8."""
        x = types[0]
        params = (
            Param("positions", x.elements // x.shape[-1]),
            Param("x_channels", x.shape[-1]),
            Param("y_channels", len(self.channels)),
            table_of("channels", self.channels),
        )
        operands = (*inputs(0), *outputs(0))
        return KernelCall("select_channels", "mct_select_channels_s8", params, operands)

    @property
    def is_digest(self) -> bool:
        """Never larger than the activation."""
        return True


def select_channels(emit: Emit, x: Tensor, channels: tuple[int, ...] | None) -> tuple[str, int]:
    """What to save of x for these trained channels (None: all), and how many there are."""
    if channels is None:
        return x.name, x.type.shape[-1]
    return emit.node(SelectChannels(channels), x.name), len(channels)
