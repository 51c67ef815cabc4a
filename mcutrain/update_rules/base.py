"""What a rule of updates is: a function from gradients to the direction in which weights move.

The step itself is always SGD's: w -= learning_rate * rate * direction, in integers, rounded
stochastically (mcutrain.ops.updating). A rule changes the gradient before that, as the gradient
transformations of optax do, and keeps numbers of its own, its slots, in the trained state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

Array = npt.NDArray[Any]

FOLDER = "kernels/update_rule"
"""Where the rules' C is, in the firmware folder."""
APART = 2**31
"""Added to a weight's index for a second random number of the same node."""


@dataclass(frozen=True)
class Slot:
    """Numbers that a rule keeps for a trained tensor: one section of the state.

    name: the kind of section, in tables and files. purpose: what it is for, in a line. value: what
    training starts from; its type is the section's.
    """

    name: str
    purpose: str
    value: Array


@dataclass(frozen=True)
class ChannelGradients:
    """The gradient of a tensor, a row for each output channel.

    sums: int64 [channels, count] within int32, in units of 2**exponent. index: of each weight in
    its tensor. key: of the node's random numbers. update: how many updates were done before.
    """

    sums: Array
    exponent: int
    index: Array
    key: int
    update: int


@dataclass(frozen=True)
class Directions:
    """What to subtract, before rates: sums * 2**exponent, times root * 2**-31 if there are roots.

    sums: as of ChannelGradients, within int32. exponent, root_q31: a number per channel.
    """

    sums: Array
    exponent: Array
    root_q31: Array | None = None


@dataclass(frozen=True)
class AdaptingRule(ABC):
    """A rule of updates besides SGD. It has no fields: constants are the same in numpy and in C.

    name: as schemes and --update-rule say it. title: what it is, for help and tables.
    """

    name: ClassVar[str]
    title: ClassVar[str]

    @property
    def source(self) -> str:
        """Its C file in the firmware folder, with a function mct_<name>."""
        return f"{FOLDER}/mct_{self.name}.c"

    @abstractmethod
    def slots(self, channels: int, count: int) -> tuple[Slot, ...]:
        """Return what it keeps of a tensor with so many output channels, of `count` weights each.

        One or two slots.
        """

    @abstractmethod
    def direct(
        self, gradients: ChannelGradients, slots: Sequence[Array]
    ) -> tuple[Directions, tuple[Array, ...]]:
        """The directions, and the slots after the update."""

    def scaling(self, qas_rate: float) -> float:
        """The factor of quantization-aware scaling. qas_rate: that of a gradient's step."""
        return qas_rate

    def constant(self, gradient_scale: float, count: int) -> float:
        """The constant factor of a direction of `count` weights a channel."""
        return gradient_scale


def bits(x: Array) -> Array:
    """Return how many bits the largest |x| of each row has: 0 if all are 0."""
    largest = np.abs(x).max(axis=-1, initial=0)
    return np.array([int(v).bit_length() for v in largest], np.int64)


def shifted(x: Array, left: Array) -> Array:
    """x * 2**left, rounded down. left: one for each row, held in -31 to 62."""
    places = left if x.ndim == 1 else left[:, None]
    moved: Array = np.where(places >= 0, x << np.clip(places, 0, 62), x >> np.clip(-places, 0, 31))
    return moved
