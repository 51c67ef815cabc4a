"""Which samples a device remembers, and which of them it trains on again.

The device keeps latents in a ring of `remember` slots, filled by reservoir sampling (J. Vitter,
"Random Sampling with a Reservoir", ACM TOMS 1985, algorithm R): of all samples that were offered
each is in it with the same probability. The random numbers are a hash of counts, so what a step
replays follows from its number alone; firmware/runtime/mct_reservoir.h is the same in C.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.fixedpoint import hash32

Array = npt.NDArray[Any]

OFFER_KEY = 0xC2B2AE35
REPLAY_KEY = 0x27D4EB2F
_COUNTER = np.uint32(0x9E3779B9)
NOWHERE = -1
MOST_OFFERED = 2**32 - 1
"""Where the count of offers ends: what is offered after so many samples is not remembered."""


def slots_of_offers(first: int, count: int, remember: int) -> Array:
    """Where the offered samples from the `first`-th on go, counted from 0; NOWHERE: not kept."""
    number = np.arange(first, first + count, dtype=np.int64)
    drawn = _below(number, OFFER_KEY, number + 1)
    is_kept = (drawn < remember) & (number < MOST_OFFERED)
    slots = np.where(number < remember, number, np.where(is_kept, drawn, NOWHERE))
    return slots.astype(np.int64)


def slots_of_replays(steps: Array, seen: Array, remember: int) -> Array:
    """What the training steps of these numbers replay, after `seen` > 0 samples were offered."""
    return _below(np.asarray(steps, np.int64), REPLAY_KEY, np.minimum(seen, remember))


@dataclass(frozen=True)
class Earlier:
    """What was before a run: steps, samples offered, and those remembered, by slot."""

    steps: int = 0
    offered: int = 0
    ring: tuple[int, ...] = ()


NOTHING = Earlier()


def with_replays(new: Array, replay: int, remember: int, earlier: Earlier = NOTHING) -> Array:
    """Indices of samples in the order of training: each new one, then `replay` remembered ones.

    new: indices of the samples that a run has not replayed; each is offered after its own step.
    replay >= 0, remember >= 1. Step p of the result is that of number earlier.steps + p.
    """
    group = 1 + replay
    order = np.repeat(np.asarray(new), group)
    done = np.arange(len(order))
    seen = earlier.offered + done // group + 1
    chosen = slots_of_replays(earlier.steps + done, seen, remember)
    ring = _ring(len(new), remember, order.dtype, earlier)
    for number, slot in enumerate(slots_of_offers(earlier.offered, len(new), remember)):
        if slot != NOWHERE:
            ring[slot] = new[number]
        after = slice(number * group + 1, (number + 1) * group)
        order[after] = ring[chosen[after]]
    return order


def remembered(new: Array, remember: int, earlier: Earlier = NOTHING) -> Array:
    """Indices of the samples in the ring, by slot, when all the new ones were offered."""
    ring = _ring(len(new), remember, np.asarray(new).dtype, earlier)
    for number, slot in enumerate(slots_of_offers(earlier.offered, len(new), remember)):
        if slot != NOWHERE:
            ring[slot] = new[number]
    return ring


def _ring(new: int, remember: int, dtype: npt.DTypeLike, earlier: Earlier) -> Array:
    """Return a ring with room for what so many new samples may add."""
    ring = np.zeros(min(earlier.offered + new, remember), dtype)
    ring[: len(earlier.ring)] = earlier.ring
    return ring


def _below(number: Array, key: int, bound: Array) -> Array:
    """A random number in 0 … bound − 1 for each counter; uniform but for one part in 2^32."""
    with np.errstate(over="ignore"):
        counter = np.asarray(number).astype(np.uint32) * _COUNTER + np.uint32(key)
    drawn = hash32(counter).astype(np.uint64) * np.asarray(bound).astype(np.uint64)
    found: Array = (drawn >> np.uint64(32)).astype(np.int64)
    return found
