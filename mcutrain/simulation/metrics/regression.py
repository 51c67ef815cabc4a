"""How far a network's outputs are from real targets, in the targets' own unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data import Targets
from mcutrain.simulation.metrics.tested import Tested

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Regression:
    """How targets and outputs become real numbers. targets: the step's."""

    targets: Targets

    def errors(self, y: Array, codes: Array) -> Array:
        """Output less target, float64 [n, k]. y: int8 [n, …]; codes: int16 [n, k]."""
        found: Array = self.targets.outputs(y.reshape(codes.shape)) - self.targets.reals(codes)
        return found

    def tested(self, errors: Sequence[Array], codes: Array) -> Tested:
        """Return what the errors of all test samples say: mean squares, MAE and R squared.

        R squared of a target is 1 less the squares of the errors over those of the distances from
        the target's mean. The result is the mean over the targets; None where a target is the same
        in all samples.
        """
        error = np.concatenate(errors)
        squares = (error**2).sum(axis=0)
        wanted = self.targets.reals(codes[: len(error)])
        around = ((wanted - wanted.mean(axis=0)) ** 2).sum(axis=0)
        r2 = None if (around == 0).any() else float((1 - squares / around).mean())
        loss, mae = float((error**2).mean()), float(np.abs(error).mean())
        return Tested(math.nan, loss, mae=mae, r2=r2)
