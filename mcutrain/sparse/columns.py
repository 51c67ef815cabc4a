"""Which columns of a weight are trained next: drawn anew, or those that moved most when they were.

`drawn`: as in TraDy (arXiv 2510.19675), which draws the channels that a layer trains at the begin
of each epoch. There a budget is drawn over all layers together; here each layer keeps its share, as
a device has planned its memory. `fisher`: as in TinyTrain (ICML 2024), which trains the channels of
the largest Fisher information on the first samples of a task. There one backward pass sees all of
them. Here they take turns, as the memory holds so few; how far they moved from the model's own
weights stands for their information. firmware/runtime/mct_columns.c is the same in C.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain import fixedpoint

Array = npt.NDArray[Any]

RULES = ("drawn", "fisher")
SALT = 1 << 31
"""Before the weight's number: nodes have smaller ones."""
UNKNOWN = 255
"""The score of a column that was never trained: larger than any."""
USUAL = 128
"""Score of a column that moved as far as those trained with it, in the mean."""


def drawn(key: int, number: int, count: int, scores: Array) -> Array:
    """`count` of a weight's channels, ascending, int16: those of the largest scores.

    Of equal scores each with the same probability: selection sampling (Knuth, TAOCP 3.4.2, S). key:
    the random state. number: of the weight, among those whose columns change. scores: of channels.
    """
    above = [int((scores > level).sum()) for level in range(256)]
    level = next(i for i, more in enumerate(above) if more <= count)
    equal, wanted = int((scores == level).sum()), count - above[level]
    mixed = np.arange(len(scores), dtype=np.uint32) * np.uint32(0x9E3779B9)
    with np.errstate(over="ignore"):
        random = fixedpoint.hash32(mixed + np.uint32(fixedpoint.node_key(key, SALT + number)))
    found: list[int] = []
    for channel, value in enumerate(random.tolist()):
        if scores[channel] == level:
            if value * equal >> 32 < wanted:
                found.append(channel)
                wanted -= 1
            equal -= 1
        elif scores[channel] > level:
            found.append(channel)
    return np.array(found, np.int16)


def scored(scores: Array, moves: Array) -> Array:
    """The scores of trained columns, with those that were unknown by how far they moved.

    A quarter of an octave of the squared length counts 1. moves: [..., columns], of stored numbers
    with their residual bits, from the model's own.
    """
    squares = (moves.astype(np.int64) ** 2).reshape(-1, moves.shape[-1]).sum(axis=0).tolist()
    unknown = [s for s, score in zip(squares, scores.tolist(), strict=True) if score == UNKNOWN]
    usual = level_of(sum(unknown) // len(unknown)) if unknown else 0
    found = [
        min(max(USUAL + level_of(s) - usual, 1), UNKNOWN - 1) if score == UNKNOWN else score
        for s, score in zip(squares, scores.tolist(), strict=True)
    ]
    return np.array(found, np.uint8)


def level_of(value: int) -> int:
    """Four for each doubling, from 4 on; below, the value itself."""
    shift = max(value.bit_length() - 3, 0)
    return 4 * shift + (value >> shift)
