"""Constants of the integer MFCCs, as numbers and as the C header that firmware includes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcutrain.frontends.tables import rows_of

Ints = npt.NDArray[np.int64]
RATE_HZ = 16_000
WINDOW, POINTS = 480, 512
BANDS, LOW_HZ, HIGH_HZ = 40, 20.0, 4000.0
COEFFICIENTS = 10
WINDOW_BITS, WEIGHT_BITS, DCT_BITS = 12, 15, 15
LAST_BIN = 127
"""The last bin below HIGH_HZ, where no band has a weight any more."""


def window() -> Ints:
    """Periodic Hann window, its first half (241,), with 12 fraction bits; the rest mirrors it."""
    return _rounded((0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW // 2 + 1) / WINDOW)), 12)


def bands() -> tuple[Ints, Ints]:
    """Triangular bands, evenly spaced and linear on the mel scale.

    Returns the end of each band's falling side (41,), and the weight there of bins 1 to 127, with
    15 fraction bits. A bin counts with the rest of 1 in the next band. Band 0 is none of the 40.
    """
    mels = _mel(np.arange(LAST_BIN + 1) * RATE_HZ / POINTS)
    edges = np.linspace(_mel(LOW_HZ), _mel(HIGH_HZ), BANDS + 2)
    ends = np.searchsorted(mels, edges[1:])
    bins = np.arange(1, LAST_BIN + 1)
    band = np.searchsorted(ends, bins, side="right")
    share = (edges[band + 1] - mels[bins]) / (edges[band + 1] - edges[band])
    return ends.astype(np.int64), _rounded(share, WEIGHT_BITS)


def dct() -> Ints:
    """sqrt(2 / 40) ln(2) cos(pi k (m + 1/2) / 40), (10, 20), with 15 fraction bits.

    The other 20 of a row mirror these, with the sign (-1)^k.
    """
    k, m = np.arange(COEFFICIENTS)[:, np.newaxis], np.arange(BANDS // 2)
    scale = np.sqrt(2 / BANDS) * np.log(2)
    return _rounded(scale * np.cos(np.pi * k * (m + 0.5) / BANDS), DCT_BITS)


def header() -> str:
    """The constants as C: firmware/frontends/mct_mfcc_tables.h."""
    ends, weights = bands()
    rows = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "/* Constants of the MFCCs, written by mcutrain/frontends/mfcc_tables.py, which says what",
        " * they are. */",
        "#ifndef MCT_MFCC_TABLES_H",
        "#define MCT_MFCC_TABLES_H",
        "",
        "#include <stdint.h>",
        "",
        "/* clang-format off */",
        *rows_of("int16_t", "mct_mfcc_window", window()),
        *rows_of("uint8_t", "mct_mfcc_band_ends", ends),
        *rows_of("uint16_t", "mct_mfcc_weights", weights),
        *rows_of("int16_t", "mct_mfcc_dct", dct().reshape(-1)),
    ]
    return "\n".join([*rows[:-1], "/* clang-format on */", "", "#endif", ""])


def _rounded(x: npt.NDArray[np.float64], bits: int) -> Ints:
    return np.rint(x * (1 << bits)).astype(np.int64)


def _mel(hertz: npt.ArrayLike) -> npt.NDArray[np.float64]:
    mel: npt.NDArray[np.float64] = 1127.0 * np.log1p(np.asarray(hertz) / 700.0)
    return mel
