"""Rows of a table, chosen by token ids, as an operator of float networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.embedding import Embedding
from mcutrain.quant.float_op import FloatOp, Quantization, Shape

if TYPE_CHECKING:
    from mcutrain.quant.emit import Emitter
    from mcutrain.quant.float_graph import FloatNode

Array = npt.NDArray[Any]

MOST_ROWS = 2**15
"""Ids are int16."""


@dataclass(frozen=True, eq=False)
class FloatEmbedding(FloatOp):
    """y[..., :] = table[ids, :]. table: float32 [rows, c]; an id beyond it means the nearest row.

    Raises ValueError for a table of more than MOST_ROWS rows.
    """

    table: Array

    def __post_init__(self) -> None:
        if self.table.ndim != 2 or not 0 < len(self.table) <= MOST_ROWS:
            raise ValueError(
                f"a table {self.table.shape} of embeddings is not supported; [rows, columns] is, "
                f"with {MOST_ROWS:,} rows at most: map rare tokens to one id"
            )

    @property
    def table_rows(self) -> int:
        """The rows."""
        return len(self.table)

    @property
    def output_quantization(self) -> Quantization:
        """The table's."""
        return self._quantization

    @cached_property
    def _quantization(self) -> Quantization:
        return Quantization.of_range(float(self.table.min()), float(self.table.max()))

    has_other_factors = True

    def shape(self, *x: Shape) -> Shape:
        """A row for each id."""
        return (*x[0], self.table.shape[1])

    def run(self, *x: Array) -> Array:
        """Clamp and take."""
        y: Array = self.table[np.clip(x[0], 0, len(self.table) - 1).astype(np.int64)]
        return y

    def quantized(self, x_scale: float) -> FloatOp:
        """Return the operator with the table as int8 has it."""
        return replace(self, table=self._quantization.fake(self.table))

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """TFLite's GATHER."""
        return Embedding()

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """The table is a constant of the graph."""
        y = emitter.quantization(node.output)
        table = emitter.constant(f"{node.name}/table", self.table, y)
        emitter.node(node, Embedding(), (emitter.tensor(node.inputs[0]), table))
