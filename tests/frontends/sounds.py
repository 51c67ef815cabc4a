"""Sounds that reach all parts of the audio front end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Sound = npt.NDArray[np.int16]


def sound(seed: int, samples: int) -> Sound:
    """Noise, sweeps, silence, clipped sounds and steps, one behind the other."""
    random = np.random.default_rng(seed)
    parts, left = [], samples
    while left > 0:
        count = min(left, int(random.integers(1, 6000)))
        parts.append(_part(random, count))
        left -= count
    return np.concatenate(parts)


def _part(random: np.random.Generator, count: int) -> Sound:
    loud = 2.0 ** random.uniform(0, 16)
    time = np.arange(count)
    kind = random.integers(0, 5)
    if kind == 0:
        values = random.normal(0, loud, count)
    elif kind == 1:
        values = loud * np.sin(random.uniform(0, 3) * time * (1 + time / 20_000))
    elif kind == 2:
        values = np.zeros(count)
    elif kind == 3:
        values = np.where(np.sin(random.uniform(0, 3) * time) > 0, 32767, -32768)
    else:
        values = np.full(count, random.choice([-32768, 32767, 1]))
    return np.clip(np.rint(values), -32768, 32767).astype(np.int16)
