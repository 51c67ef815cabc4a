"""Differential privacy of a fleet: differences of a bounded norm, and exact noise on their sum.

Noise is a discrete Gaussian, drawn exactly, without a float (Canonne, Kamath and Steinke, 2020,
algorithms 1 to 3). Its privacy is that of the continuous one (theorem 4 there).
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.packages import OPTIONAL

from mcutrain.errors import ArgumentError, McutrainError
from mcutrain.fleets.contribution import Contribution

Array = npt.NDArray[Any]
MOST_NORM = 2**30
PRIVATE_UPDATES = 1024
"""By so much counts of updates go on, whatever boards did."""
BLOCK_BYTES = 256


def clipped(one: Contribution, most: int, output_exponent: int) -> Contribution:
    """A board's difference, made shorter where its norm is above `most`; its weight is 1.

    The norm is that of all trained numbers, in their last bits: each becomes |v| · most / norm,
    rounded toward 0. What else a board did is left out: its count of updates, its outputs' exponent
    and its samples. output_exponent: the base's.
    """
    if not 1 <= most <= MOST_NORM:
        raise ArgumentError(f"a norm of {most:,} is none of 1 … {MOST_NORM:,}")
    found = one.differences
    square = sum(int(v) ** 2 for value in found.values() for v in value)
    if square > most**2:
        found = {
            name: np.sign(value)
            * np.array([isqrt(int(v) ** 2 * most**2 // square) for v in value], np.int64)
            for name, value in found.items()
        }
    return replace(
        one, weight=1, updates=PRIVATE_UPDATES, output_exponent=output_exponent, sums=found
    )


def with_noise(total: Contribution, deviation: Fraction, seed: bytes) -> Contribution:
    """A sum with noise of a deviation on each number. seed: whoever has it can take it away."""
    draw = NoiseSource(seed)
    square = deviation**2
    noisy = {
        name: value + np.array([draw.gaussian(square) for _ in range(value.size)], np.int64)
        for name, value in total.sums.items()
    }
    return replace(total, sums=noisy)


def epsilon(noise: float, rounds: int, delta: float) -> float:
    """The ε of so many rounds, each with all boards, at a δ.

    noise: its deviation, in norms that differences are clipped to. Between a board that takes part
    and one that sends zeros. Raises McutrainError without the package of the accountant.
    """
    try:
        import dp_accounting
        from dp_accounting.rdp import RdpAccountant
    except ImportError as error:
        raise McutrainError(OPTIONAL["dp-accounting"].missing) from error
    accountant = RdpAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(noise), rounds)
    return float(accountant.get_epsilon(delta))


class NoiseSource:
    """Whole numbers that follow from a seed, exactly distributed, by SHAKE-256."""

    def __init__(self, seed: bytes) -> None:
        self._seed, self._blocks = hashlib.sha256(seed).digest(), 0
        self._bits = self._left = 0

    def below(self, end: int) -> int:
        """Evenly of 0 … end - 1."""
        size = (end - 1).bit_length()
        while True:
            while self._left < size:
                block = hashlib.shake_256(self._seed + self._blocks.to_bytes(8, "little"))
                self._bits |= int.from_bytes(block.digest(BLOCK_BYTES), "little") << self._left
                self._left, self._blocks = self._left + 8 * BLOCK_BYTES, self._blocks + 1
            found = self._bits & ((1 << size) - 1)
            self._bits, self._left = self._bits >> size, self._left - size
            if found < end:
                return found

    def is_below_exp(self, over: int, under: int) -> bool:
        """Return whether an event of probability exp(-over / under) happens; over: at least 0."""
        while over > under:
            if not self.is_below_exp(1, 1):
                return False
            over -= under
        count = 1
        while self.below(under * count) < over:
            count += 1
        return count % 2 == 1

    def laplace(self, scale: int) -> int:
        """A discrete Laplace number: probabilities fall by exp(-1 / scale)."""
        while True:
            low = self.below(scale)
            if not self.is_below_exp(low, scale):
                continue
            high = 0
            while self.is_below_exp(1, 1):
                high += 1
            size, is_negative = low + scale * high, self.below(2)
            if size or not is_negative:
                return -size if is_negative else size

    def gaussian(self, square: Fraction) -> int:
        """A discrete Gaussian number: probabilities fall as exp(-x² / (2 square)).

        square: above 0.
        """
        over, under = square.numerator, square.denominator
        scale = isqrt(over // under) + 1
        while True:
            found = self.laplace(scale)
            apart = abs(found) * scale * under - over
            # (|x| - square / scale)² / (2 square), as one fraction
            if self.is_below_exp(apart**2, 2 * over * under * scale**2):
                return found
