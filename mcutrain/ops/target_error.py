"""Errors of the last layer's sums to real targets: squared, Huber or absolute, in integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ops.mean_squared_error import MeanSquaredError

Kind = Literal["squared", "huber", "absolute"]

FINER = 64
"""Steps of a target in one of the output: int16 reaches twice as far as the output each way."""
UNIT_STEPS = 64
"""Steps of the output in the unit of the loss, a quarter of its range.

So a loss, and the rates at which a network learns, are the same whatever the target's own unit is.
"""
HUBER_STEPS = 32
"""Steps of the output up to which Huber's loss is a square: half a unit."""


@dataclass(frozen=True)
class RealTargetError(MeanSquaredError):
    """loss = mean(error**2), Huber's or mean(|error|), of error = y - target in units.

    y = sums * scale is a real number, neither rounded nor clamped to the output's int8; a unit is
    UNIT_STEPS steps of the output. Inputs: step, sums int32 [1, …, channels], the target int16 in
    1/FINER of a step of the output from its zero point, exponent. Outputs: as MeanSquaredError, the
    loss in steps of the output, squared but for absolute. Huber's loss is twice the usual one, so
    that it is the squared error up to HUBER_STEPS.
    """

    kind: Kind = "squared"

    @staticmethod
    def of(
        y: TensorType, kind: Kind = "squared"
    ) -> Callable[[tuple[float, ...], str, bool, int], RealTargetError]:
        """Return what makes the loss of a network with the output y, as autodiff asks for it."""
        return partial(_made, y, kind)

    @property
    def gradient_scale(self) -> float:
        """dloss/dsum in units; the relative scales are in the gradient."""
        unit = UNIT_STEPS * self.x_scale
        steepness = 1.0 if self.is_absolute else 2 / UNIT_STEPS
        return steepness / self.elements * max(self.scale) / unit

    @property
    def label_type(self) -> TensorType:
        """The target."""
        return TensorType(self.target, "int16")

    @property
    def x_step_q16(self) -> int:
        """1/FINER."""
        return 65536 // FINER

    @property
    def error_limit_q16(self) -> int:
        """None of squares; of absolute errors what the gradient is, one step."""
        steps = {"huber": HUBER_STEPS, "absolute": 1}
        return steps[self.kind] << 16 if self.kind in steps else super().error_limit_q16

    @property
    def is_absolute(self) -> bool:
        """Whether the loss is the error's size."""
        return self.kind == "absolute"

    @property
    def kernel_name(self) -> str:
        """With targets of int16."""
        return "target_error"


def _made(
    y: TensorType,
    kind: Kind,
    scale: tuple[float, ...],
    dtype: str,
    exact: bool,
    salt: int,
) -> RealTargetError:
    zero_point, shape = y.zero_point * FINER, (1, y.elements)
    found = (scale, y.scale, zero_point, dtype, exact, salt, y.elements, shape)
    return RealTargetError(*found, kind=kind)
