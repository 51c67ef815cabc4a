"""How far a network's outputs are from its inputs, and how well that tells anomalies apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.simulation.metrics.tested import Tested, area_under_roc

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Reconstruction:
    """How a network reproduces its input; both are int8."""

    x_scale: float
    x_zero_point: int
    y_scale: float
    y_zero_point: int

    @staticmethod
    def of(x: TensorType, y: TensorType) -> Reconstruction:
        """Make it of the types of input and output."""
        return Reconstruction(x.scale, x.zero_point, y.scale, y.zero_point)

    def losses(self, x: Array, y: Array) -> Array:
        """mean((y - x)**2) of each sample in squared steps of the input, float64 [n].

        x, y: int8 [n, …]. The loss of a training step has the same unit, but compares the sums
        before they are rounded to the output's int8.
        """
        wanted = x.reshape(len(x), -1).astype(np.float64) - self.x_zero_point
        found = y.reshape(len(y), -1).astype(np.float64) - self.y_zero_point
        losses: Array = ((found * (self.y_scale / self.x_scale) - wanted) ** 2).mean(axis=1)
        return losses

    def tested(self, losses: Array, is_anomaly: Array | None) -> Tested:
        """Return what the losses of all test samples say. is_anomaly: 0 and 1, if that is known."""
        auc = None if is_anomaly is None else area_under_roc(losses, is_anomaly[: len(losses)])
        return Tested(math.nan, float(losses.mean()), auc)
