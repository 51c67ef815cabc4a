"""Elementwise activations as a table of 256 values; and their gradient, a table of slopes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    ChannelwiseOp,
    Emit,
    Gradient,
    KernelCall,
    Param,
    Rows,
    inputs,
    outputs,
    rows_apart,
)
from mcutrain.ops.activation_functions import (
    ACTIVATIONS,
    STORED,
    hard_swish_table,
    log_table,
    real_values,
    rsqrt_table,
    table_in_single_precision,
)
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage

Array = npt.NDArray[Any]

ENTRIES = 256
OWN_TABLES = {"hard_swish": hard_swish_table, "log": log_table, "rsqrt": rsqrt_table}
"""Tables that TFLite's kernels do not fill in single precision throughout."""
SLOPE_LIMIT = 2**15 - 1
"""Limit of a stored slope: its products with int8 gradients fit int32."""


@dataclass(frozen=True)
class Lookup(ChannelwiseOp):
    """y = table[x + 128]. x, y: the same shape, int8.

    function: what the table holds, a name of activation_functions.ACTIVATIONS, or another one if no
    single function of TFLite is meant; nothing is computed with it. slopes, slope_exp: dy/dx of the
    stored integers is slopes[x + 128] * 2**slope_exp, 0 where y is clamped.
    """

    function: str = field(compare=False)
    table: tuple[int, ...]
    slopes: tuple[int, ...]
    slope_exp: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's shape."""
        if not len(self.table) == len(self.slopes) == ENTRIES:
            raise ValueError(f"tables of {len(self.table)} and {len(self.slopes)} are not of 256")
        return (TensorType(inputs[0].shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Look up."""
        return (np.array(self.table, np.int8)[inputs[0].astype(np.int64) + 128],)

    @property
    def is_probability(self) -> bool:
        """True of a sigmoid: the loss of one output takes the logit."""
        return self.function == "logistic"

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """dy times the slope at x, which is saved for it."""
        x = inputs[0]
        if not emit.wants(x):
            return (None,)
        scale = dy.scale * 2.0**self.slope_exp
        stage = OutputStage((scale,), False, emit.gradient_dtype, emit.salt())
        return (emit.gradient(LookupGradInput(stage, x.type.shape, self.slopes), dy, x.name),)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Elementwise."""
        return rows_apart(types, results, "elements")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_lookup_s8."""
        params = (
            Param("elements", results[0].elements),
            Param("table", self.table, "const int8_t *"),
        )
        operands = (*inputs(0), *outputs(0))
        return KernelCall("lookup", "mct_lookup_s8", params, operands)

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Elementwise: y may lie where x was."""
        return {0: (0,)}


@dataclass(frozen=True)
class LookupGradInput(GradientOp):
    """dx = dy * slopes[x + 128]; the stage multiplies by 2**slope_exp.

    dy, x, dx: [..., c]
    """

    slopes: tuple[int, ...]

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Elementwise: dx may lie where dy was."""
        return {0: (1,)}

    def sums(self, dy: Array, *rest: Array) -> Array:
        """One product per element."""
        slopes = np.array(self.slopes, np.int64)[rest[0].astype(np.int64) + 128]
        products: Array = dy.astype(np.int64).reshape(self.shape) * slopes
        return products

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_lookup_grad_input_<dy>: scratch holds one position's products."""
        dy, channels = types[1], self.shape[-1]
        params = (
            Param("positions", dy.elements // channels),
            Param("channels", channels),
            Param("slopes", self.slopes, "const int16_t *"),
        )
        scratch = channels * ACC_BYTES[dy.dtype]
        name = f"mct_lookup_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("lookup", name, params, (), scratch)


def lookup(function: str, in_type: TensorType, out_type: TensorType) -> Lookup:
    """The activation between two quantizations, bit for bit as TFLite's reference kernel has it.

    function: a name of ACTIVATIONS. in_type, out_type: of one scale each; the shapes do not matter.
    """
    x, y = ((t.scale, t.zero_point) for t in (in_type, out_type))
    activation = ACTIVATIONS[function]
    if function in OWN_TABLES:
        table = OWN_TABLES[function](x, y)
    else:
        table = table_in_single_precision(activation, x, y)
    real = real_values(x)
    values = np.array([activation.value(v) for v in real.tolist()])
    derivatives = np.array([activation.derivative(v) for v in real.tolist()])
    return lookup_of(function, table, values / y[0] + y[1], derivatives * x[0] / y[0])


def lookup_of(function: str, table: Array, unrounded: Array, derivatives: Array) -> Lookup:
    """A Lookup from its values and its derivatives by the stored integers.

    table: int8 [256]. unrounded: the values before rounding and clamping. derivatives: real [256];
    the largest one gets all bits of an int16.
    """
    inside = (unrounded > STORED[0] - 0.5) & (unrounded < STORED[-1] + 0.5)
    kept = np.where(inside & np.isfinite(derivatives), derivatives, 0.0)
    largest = float(np.abs(kept).max())
    slope_exp = math.frexp(largest)[1] - 15 if largest else 0
    slopes = np.clip(np.rint(np.ldexp(kept, -slope_exp)), -SLOPE_LIMIT, SLOPE_LIMIT)
    return Lookup(
        function, tuple(table.tolist()), tuple(slopes.astype(np.int64).tolist()), slope_exp
    )


def negative() -> Lookup:
    """The negative of numbers, of `Quantization.negative`: exact."""
    table = -1 - STORED
    return lookup_of("negative", table.astype(np.int8), table.astype(float), np.full(ENTRIES, -1.0))
