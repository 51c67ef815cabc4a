"""A Fourier transform in 32-bit integers, and the roots and logarithms of what it gives.

firmware/frontends/mct_fourier.c computes the same. Nothing is divided on the way, so a quiet part
of the spectrum keeps its bits beside a loud one. The sum of the sizes of all points has to be below
2^30. Each product with a root of unity (15 fraction bits) is rounded to the nearest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mcutrain.frontends import tables

Ints = npt.NDArray[np.int64]
LENGTHS = (32, 128, 512)
"""Real points of a transform: half as many complex ones are a power of 4."""
TURN = tables.POINTS
"""Parts of a turn that the table of cosines knows."""
LOG_BITS = 16
SOURCES = ("mct_fourier.c", "mct_fourier.h", "mct_cosines.h", "mct_audio_tables.h")
"""Its C."""
_QUARTER, _LOGARITHMS = tables.cosines(), tables.logarithms()
_WAVE = np.concatenate((_QUARTER, -_QUARTER[-2::-1], -_QUARTER[1:], _QUARTER[-2:0:-1]))
"""Cosines of a whole turn."""


def transform(x: Ints) -> tuple[Ints, Ints]:
    """Bins 1 to n / 2 - 1, real and imaginary parts, of real points (..., n), n one of LENGTHS.

    The sum of the sizes of the points is below 2^30.
    """
    half = x.shape[-1] // 2
    real, imaginary = _complex_transform(x[..., 0::2], x[..., 1::2])
    k = np.arange(1, half)
    low, high = (real[..., k], imaginary[..., k]), (real[..., half - k], imaginary[..., half - k])
    even = low[0] + high[0], low[1] - high[1]
    apart = low[0] - high[0] >> 1, low[1] + high[1] >> 1
    turned = _product(*apart, (k + half // 2) * (TURN // (2 * half)))
    return (even[0] >> 1) + turned[0], (even[1] >> 1) + turned[1]


def magnitude(real: Ints, imaginary: Ints) -> Ints:
    """The root of real^2 + imaginary^2, of their first 15 bits; both below 2^31."""
    shift = np.maximum(bit_length(np.maximum(np.abs(real), np.abs(imaginary))) - 15, 0)
    real, imaginary = real >> shift, imaginary >> shift
    return root(real * real + imaginary * imaginary) << shift


def root(x: Ints) -> Ints:
    """The square root of numbers below 2^32, to the nearest."""
    found = np.sqrt(x.astype(np.float64)).astype(np.int64)
    return found + (x - found * found > found)


def log2(x: Ints) -> Ints:
    """The binary logarithm of positive numbers below 2^62, with 16 fraction bits."""
    whole = bit_length(x) - 1
    rest = x - (np.int64(1) << whole)
    share = np.where(
        whole < LOG_BITS,
        rest << np.maximum(LOG_BITS - whole, 0),
        rest >> np.maximum(whole - LOG_BITS, 0),
    )
    segment = share >> 9
    low, high = _LOGARITHMS[segment], _LOGARITHMS[segment + 1]
    between = (high - low) * (share & 511) + 256 >> 9
    found: Ints = (whole << LOG_BITS) + share + low + between
    return found


def bit_length(x: Ints) -> Ints:
    """Bits of numbers from 0 to 2^62."""
    return np.searchsorted(_POWERS, x, side="right").astype(np.int64)


_POWERS = np.int64(1) << np.arange(63, dtype=np.int64)


def _complex_transform(real: Ints, imaginary: Ints) -> tuple[Ints, Ints]:
    """Transform points (..., n), n a power of 4."""
    if real.shape[-1] == 1:
        return real, imaginary
    return joined(*_complex_transform(quarters(real), quarters(imaginary)), _product)


def quarters(points: Ints) -> Ints:
    """Points (..., 4, n / 4): each row is every fourth one of points (..., n)."""
    *others, count = points.shape  # may be of no transform at all, so the length is said
    return points.reshape(*others, count // 4, 4).swapaxes(-1, -2)


def joined(
    real: Ints, imaginary: Ints, product: Callable[[Ints, Ints, Ints], tuple[Ints, Ints]]
) -> tuple[Ints, Ints]:
    """Return a transform from those of its quarters (..., 4, n / 4): a stage of radix 4.

    product: of points and exp(-2 pi i turn / 512), by the turn; it rounds.
    """
    r0, i0 = real[..., 0, :], imaginary[..., 0, :]
    turn = np.arange(r0.shape[-1]) * (TURN // (4 * r0.shape[-1]))
    (r1, i1), (r2, i2), (r3, i3) = (
        product(real[..., n, :], imaginary[..., n, :], n * turn) for n in (1, 2, 3)
    )
    parts = (
        (r0 + r2 + (r1 + r3), i0 + i2 + (i1 + i3)),
        (r0 - r2 + (i1 - i3), i0 - i2 - (r1 - r3)),
        (r0 + r2 - (r1 + r3), i0 + i2 - (i1 + i3)),
        (r0 - r2 - (i1 - i3), i0 - i2 + (r1 - r3)),
    )
    whole = [np.concatenate(values, axis=-1) for values in zip(*parts, strict=True)]
    return whole[0], whole[1]


def _product(real: Ints, imaginary: Ints, turn: Ints) -> tuple[Ints, Ints]:
    """Times exp(-2 pi i turn / 512). Nothing changes by a turn of 0."""
    a, b, half = cosine(turn), -cosine(turn - TURN // 4), 1 << 14
    return (
        np.where(turn == 0, real, real * a - imaginary * b + half >> 15),
        np.where(turn == 0, imaginary, real * b + imaginary * a + half >> 15),
    )


def cosine(turn: Ints) -> Ints:
    """32767 cos(2 pi turn / 512)."""
    found: Ints = _WAVE[turn % TURN]
    return found
