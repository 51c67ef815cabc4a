"""A new base from what boards learnt: the mean by weight, or the mean without the farthest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from mcutrain_host.saved import SavedState

from mcutrain import fixedpoint
from mcutrain.errors import ArgumentError, StateError
from mcutrain.fleets.contribution import Contribution
from mcutrain.fleets.numbers import FleetLayout

Array = npt.NDArray[Any]
Rounding = Literal["nearest", "stochastic"]
ROUNDINGS: tuple[Rounding, ...] = ("nearest", "stochastic")


def averaged(
    layout: FleetLayout,
    base: SavedState,
    total: Contribution,
    rounding: Rounding = "nearest",
    seed: int = 0,
) -> bytes:
    """The base plus the mean of what boards learnt, as a saved state.

    A trained number moves by floor(sum / weight + 1/2); the weight is that of the boards which
    train it. Or it moves by floor(sum / weight + r), so that small means are not lost over many
    rounds. r is drawn evenly from [0, 1) by seed and by the number's place. It saturates as an
    update does. The outputs' exponent is the largest of a board's. Counters go on by the most
    updates of a board; all else is the base's. Raises StateError if the sum is of another round.
    """
    check_round(layout, base, total)
    moves = {
        name: _mean(
            sums, total.weight_of(name), rounding, fixedpoint.node_key(seed & 0xFFFFFFFF, place)
        )
        for place, (name, sums) in enumerate(total.sums.items())
    }
    return _moved(layout, base, moves, (total.updates, total.output_exponent))


def trimmed(
    layout: FleetLayout,
    base: SavedState,
    boards: Sequence[Contribution],
    left_out: int,
    rounding: Rounding = "nearest",
    seed: int = 0,
) -> bytes:
    """The base plus the mean, by number, without the left_out smallest and largest differences.

    It bounds what boards that lie or diverge can do, as long as they are at most left_out (Yin et
    al., 2018, definition 2). Every board has the same weight. The outputs' exponent and the
    count of updates are the largest that are left. rounding, seed: as of `averaged`.
    boards: single ones. Raises ArgumentError where none would be left, StateError as `averaged`.
    """
    if not 0 <= 2 * left_out < len(boards):
        raise ArgumentError(
            f"of {len(boards)} boards, {left_out} cannot be left out at either end: "
            f"at most {(len(boards) - 1) // 2}"
        )
    if any(len(one.boards) > 1 for one in boards):
        raise ArgumentError("a trimmed mean needs each board's own contribution, not a sum of them")
    if any(one.without for one in boards):
        raise ArgumentError("a trimmed mean counts boards alike, so all of them have one scheme")
    names = [one.boards[0] for one in boards]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise StateError(f"the contribution of {twice[0]!r} is there twice: leave one out")
    for one in boards:
        check_round(layout, base, one)
    kept, moves = len(boards) - 2 * left_out, {}
    for place, name in enumerate(boards[0].sums):
        ordered = np.sort(np.stack([one.differences[name] for one in boards]), axis=0)
        sums = ordered[left_out : left_out + kept].sum(axis=0)
        key = fixedpoint.node_key(seed & 0xFFFFFFFF, place)
        moves[name] = _mean(sums, kept, rounding, key)
    last = len(boards) - 1 - left_out
    updates = sorted(one.updates for one in boards)[last]
    return _moved(layout, base, moves, (updates, sorted(o.output_exponent for o in boards)[last]))


def with_momentum(
    total: Contribution, velocity: Mapping[str, Array], momentum: float
) -> tuple[Contribution, dict[str, Array]]:
    """A round's mean with what is left of the rounds before, and the velocity for the next one.

    velocity: of the round before, in 2^-16 of a last bit; none at first. It becomes itself times
    momentum, in 256ths, plus the mean, each rounded down. Numbers move by it (FedAvgM of Hsu et
    al., 2019, with a server's rate of 1).
    """
    kept, whole = round(256 * momentum), {}
    for name, sums in total.sums.items():
        quotient, rest = np.divmod(sums, total.weight_of(name))
        whole[name] = (quotient << 16) + (rest << 16) // total.weight_of(name)
        if name in velocity:
            whole[name] += velocity[name] * kept >> 8
    return replace(total, weight=1 << 16, sums=whole, without={}), whole


def on_time(parts: Sequence[Contribution], bases: Sequence[str]) -> list[Contribution]:
    """Contributions of this round and of those before, as of this round.

    bases: SHA-256 of this round's base and of those before, newest first. What began with the
    k-th before counts 1 / 2^k as much: all others are multiplied, so sums stay whole. Its
    difference to its own base is added to the newest one. Raises StateError for other bases.
    """
    ages = []
    for one in parts:
        if one.base not in bases:
            raise StateError(
                f"{one.boards[0]!r} began with the base {one.base[:12]}…, which is none of the "
                f"{len(bases)} that this round takes: it is too late, or of another fleet"
            )
        ages.append(list(bases).index(one.base))
    factor = 1 << max(ages, default=0)
    return [one.late(age, bases[0], factor) for one, age in zip(parts, ages, strict=True)]


def check_round(layout: FleetLayout, base: SavedState, total: Contribution) -> None:
    """Raise StateError where a sum is of another round, model or scheme than the base."""
    if total.model_hash != base.model_hash:
        raise StateError(
            "the contributions are of another model, or of another scheme, than the base"
        )
    if total.base != sha256(base.raw).hexdigest():
        raise StateError(
            f"the contributions began with the base {total.base[:12]}…, and this one is "
            f"{sha256(base.raw).hexdigest()[:12]}…: give the base of their round"
        )
    if {name: value.size for name, value in total.sums.items()} != layout.sizes:
        raise StateError("the contributions have other tensors than the base")


def _moved(
    layout: FleetLayout, base: SavedState, moves: dict[str, Array], counts: tuple[int, int]
) -> bytes:
    """counts: updates since the base, and the outputs' exponent."""
    before = layout.read(base)
    numbers = {name: before[name] + move for name, move in moves.items()}
    return layout.with_numbers(base, numbers, *counts)


def _mean(sums: Array, weight: int, rounding: Rounding, key: int) -> Array:
    """The sums divided by a weight. key: of the random numbers of stochastic rounding."""
    if rounding == "stochastic":
        return (sums + _drawn(sums.size, weight, key)) // weight
    return (2 * sums + weight) // (2 * weight)


def _drawn(count: int, below: int, key: int) -> Array:
    """Whole numbers of 0 … below - 1, evenly drawn; below: at most 2**30."""
    index = np.arange(count)
    drawn = (fixedpoint.random16(key, 2 * index) << 16) + fixedpoint.random16(key, 2 * index + 1)
    return (drawn * below) >> 32
