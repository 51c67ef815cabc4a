"""Constants of the audio front end, as numbers and as the C header that firmware includes.

Formulas and parameters are those of TensorFlow Lite Micro's audio front end, which works them out
in float32 when it starts. Here they are worked out once, in the same float32.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
RATE_HZ = 16_000
WINDOW = 480
"""Samples of a frame: 30 ms."""
POINTS = 512
"""Points of the Fourier transform; those behind the window are 0."""
CHANNELS = 40
LOWEST_HZ, HIGHEST_HZ = 125.0, 7500.0
BITS = 12
"""Fraction bits of the window and of the channels' weights."""
LATE_BINS = {149: 1, 221: 1}
"""By bin, how much its weight is above the nearest number. The front end's own weights came of
glibc's log1pf, which is not rounded correctly there."""
GAIN_STRENGTH, GAIN_OFFSET, GAIN_BITS = 0.95, 80.0, 21
NOISE_FRACTION_BITS = 7
"""Fraction bits of a noise estimate as the gain's table takes it."""
LOG_SEGMENTS = 128


def window() -> Ints:
    """Hann window (480,), with 12 fraction bits."""
    f32 = np.float32
    angle = f32(np.pi) * f32(2) / f32(WINDOW)
    cosine = np.cos((angle * (np.arange(WINDOW, dtype=f32) + f32(0.5))).astype(np.float64))
    return _rounded(f32(0.5) - f32(0.5) * cosine.astype(f32), BITS)


def triangles(bins: Ints, ends: Ints, weights: Ints, bits: int) -> Ints:
    """What each bin counts in each band (bins, bands): falling in one, rising in the next.

    ends: the bin behind each band's falling side; that of band 0, which is left out, is the first.
    weights: of each bin where it falls, with so many fraction bits; it rises with the rest of 1.
    """
    band, place = np.searchsorted(ends, bins, side="right"), np.arange(len(bins))
    shares = np.zeros((len(bins), len(ends) + 1), np.int64)
    shares[place, band], shares[place, band + 1] = weights, (1 << bits) - weights
    return shares[:, 1:-1]


def cosines() -> Ints:
    """32767 cos(2 pi n / 512) for the first quarter of a turn, n = 0 to 128."""
    turns = np.arange(POINTS // 4 + 1) / POINTS
    return np.floor(0.5 + 32767 * np.cos(2 * np.pi * turns)).astype(np.int64)


def bands() -> tuple[int, Ints, Ints]:
    """Triangular bands, evenly spaced on the mel scale.

    Returns the first bin, the end of each band's falling side (41,), and each bin's weight there,
    with 12 fraction bits. A bin counts with the rest of 1 in the next band. Band 0 is none of the
    40 channels.
    """
    f32 = np.float32
    hz = f32(0.5) * f32(RATE_HZ) / f32(POINTS // 2)
    low, high = _mel(f32(LOWEST_HZ)), _mel(f32(HIGHEST_HZ))
    spacing = (high - low) / f32(CHANNELS + 1)
    centers = low + spacing * np.arange(1, CHANNELS + 2, dtype=f32)
    first = int(1.5 + LOWEST_HZ / float(hz))
    mels = _mel(hz * np.arange(POINTS // 2 + 1, dtype=f32))
    ends = np.searchsorted(mels, centers, side="right")
    bins = np.arange(first, ends[-1])
    band = np.searchsorted(ends, bins, side="right")
    before = np.concatenate(([low], centers[:-1]))
    share = (centers[band] - mels[bins]) / (centers[band] - before[band])
    weights = _rounded(share.astype(f32), BITS)
    for number, late in LATE_BINS.items():
        weights[number - first] += late
    return first, ends.astype(np.int64), weights


def gains() -> Ints:
    """Gain by noise: values at 0 and 1, then (value, linear, quadratic, 0) for each power of two.

    Per-channel energy normalization as an automatic gain control: 2^21 (noise + 80)^-0.95, of Wang
    and others, "Trainable Frontend for Robust and Far-Field Keyword Spotting", 2017, equation 1
    without its delay.
    """
    found = [_gain(0), _gain(1)]
    for bits in range(2, 33):
        low = 1 << bits - 1
        high = 2 * low - (bits == 32)
        at_low, middle, at_high = (_gain(n) for n in (low, low + low // 2, high))
        linear = 4 * (middle - at_low) - (at_high - at_low)
        found += [at_low, linear, at_high - at_low - linear, 0]
    return np.array(found[:-1], np.int64)


def logarithms() -> Ints:
    """2^16 (log2(1 + n / 128) - n / 128), n = 0 to 128, and a 0 behind them."""
    share = np.arange(LOG_SEGMENTS + 1) / LOG_SEGMENTS
    found = np.rint(65536 * (np.log2(1 + share) - share)).astype(np.int64)
    return np.concatenate((found, [0]))


def header() -> str:
    """The constants as C: firmware/frontends/mct_audio_tables.h."""
    first, ends, weights = bands()
    rows = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "/* Constants of the audio front end, written by mcutrain/frontends/tables.py, which says",
        " * what they are. */",
        "#ifndef MCT_AUDIO_TABLES_H",
        "#define MCT_AUDIO_TABLES_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define MCT_AUDIO_FIRST_BIN {first}",
        "",
    ]
    for name, ctype, values in (
        ("window", "int16_t", window()),
        ("cosines", "int16_t", cosines()),
        ("band_ends", "uint8_t", ends),
        ("weights", "uint16_t", weights),
        ("gains", "int16_t", gains()),
        ("logarithms", "uint16_t", logarithms()),
    ):
        rows += ["/* clang-format off */"] if name == "window" else []
        rows += rows_of(ctype, f"mct_audio_{name}", values)
    return "\n".join([*rows[:-1], "/* clang-format on */", "", "#endif", ""])


def rows_of(ctype: str, name: str, values: Ints) -> list[str]:
    """Lines of an array in C, and an empty one."""
    twelves = (values[i : i + 12] for i in range(0, len(values), 12))
    rows = ["    " + " ".join(f"{n}," for n in twelve) for twelve in twelves]
    return [f"static const {ctype} {name}[{len(values)}] = {{", *rows, "};", ""]


def _gain(noise: int) -> int:
    f32 = np.float32
    base = f32(noise) / f32(1 << NOISE_FRACTION_BITS) + f32(GAIN_OFFSET)
    power = f32(float(base) ** -float(f32(GAIN_STRENGTH)))
    return min(int(f32(1 << GAIN_BITS) * power + f32(0.5)), 0x7FFF)


def _mel(hertz: npt.NDArray[np.float32] | np.float32) -> npt.NDArray[np.float32]:
    f32 = np.float32
    return f32(1127) * np.log1p((hertz / f32(700)).astype(np.float64)).astype(f32)


def _rounded(values: npt.NDArray[np.float32], bits: int) -> Ints:
    found: Ints = np.floor(values * np.float32(1 << bits) + np.float32(0.5)).astype(np.int64)
    return found
