"""Which tensors a step trains under a time budget: as important together as can be, in integers.

After "ElasticTrainer: Speeding Up On-Device Training with Runtime Elastic Tensor Selection"
(MobiSys 2023), but solved exactly. Given how far back the gradient is passed on, a plain knapsack
fills what is left of the budget. firmware/runtime/mct_elastic.c is the same in C, bit for bit;
docs/numerics-experiments.md says what is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ArgumentError

Array = npt.NDArray[Any]

UNITS = 256
"""Units of time that the knapsack knows at most."""
SPARE_UNITS = 4
"""Units beyond the budget: what they allow may fit in truth, since times are rounded up."""
EXCHANGES = 8
"""Most exchanges after the knapsack; there are seldom more than three that gain."""
MOST_REACHES = 1024
MOST_TABLE = 2**16 - 1
"""Entries that mct_elastic_reach can count."""
MOST_TIME = 2**31 - 1
"""Most time of one node or tensor; all together take less than 2^32."""
MOST_IMPORTANCE = 2**31 - 1
"""Most importance of all tensors together."""
ONE_Q16 = 1 << 16
WORD_BITS = 32


@dataclass(frozen=True)
class Reach:
    """How far back the gradient is passed on.

    time: of the backward nodes which that needs, without updates. tensors: indices of those whose
    updates can run then, sorted.
    """

    time: int
    tensors: tuple[int, ...]


@dataclass(frozen=True)
class ElasticProblem:
    """What there is to choose from, and what it takes.

    update_times: of each tensor, in order of the backward pass (0 is nearest to the loss). reaches:
    all unions of what tensors need of the backward pass, cheapest first, beginning with the one of
    the always trained tensors. always: those tensors, the head's.

    Raises ArgumentError for times that do not fit 32 bits, and for reaches that are none of these.
    """

    update_times: tuple[int, ...]
    reaches: tuple[Reach, ...]
    always: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_times("tensor", self.update_times)
        if not self.reaches or any(
            not _is_reach(reach, len(self.update_times), self.always) for reach in self.reaches
        ):
            raise ArgumentError(
                "each reach must have the tensors that are always trained, and indices of tensors, "
                "sorted; and there must be one"
            )
        times = [reach.time for reach in self.reaches]
        if times != sorted(times) or times[0] < 0:
            raise ArgumentError("the reaches must begin with the cheapest, and take no less than 0")
        if self.backward_time >= 2**32:
            raise ArgumentError(
                f"the backward pass takes {self.backward_time:,}, more than 32 bits hold; give "
                "all times in a larger unit"
            )
        if len(self.reach_tensors) > MOST_TABLE:
            raise ArgumentError(
                f"the tensors of all reaches are {len(self.reach_tensors):,}, above "
                f"{MOST_TABLE:,}; leave out some of the tensors in parallel branches"
            )

    @staticmethod
    def of(
        needs: Sequence[frozenset[int]],
        node_times: Sequence[int],
        update_times: Sequence[int],
        always: Sequence[int],
    ) -> ElasticProblem:
        """The problem of a backward pass.

        needs: for each tensor the indices of the backward nodes that its update depends on.
        node_times: of each such node. Along chains and identity shortcuts these sets extend each
        other; of parallel branches each combination of depths is a reach.

        Raises ArgumentError for more than MOST_REACHES of them.
        """
        _check_times("backward node", node_times)
        if len(needs) != len(update_times):
            raise ArgumentError(f"{len(needs)} needs for {len(update_times)} tensors")
        found = {frozenset[int]().union(*(needs[k] for k in always))}
        for need in sorted(set(needs), key=sorted):
            found |= {nodes | need for nodes in found}
            if len(found) > MOST_REACHES:
                raise ArgumentError(
                    f"parallel branches give more than {MOST_REACHES} ways to pass the gradient "
                    "back; train fewer tensors inside them"
                )
        reaches = [
            Reach(
                sum(node_times[node] for node in nodes),
                tuple(k for k, need in enumerate(needs) if need <= nodes),
            )
            for nodes in found
        ]
        reaches.sort(key=lambda reach: (reach.time, len(reach.tensors), reach.tensors))
        return ElasticProblem(tuple(update_times), tuple(reaches), tuple(sorted(always)))

    @property
    def least_time(self) -> int:
        """Time of the backward pass that trains only what is always trained."""
        return self.reaches[0].time + sum(self.update_times[k] for k in self.always)

    @property
    def backward_time(self) -> int:
        """Time of the backward pass that trains everything."""
        return self.reaches[-1].time + sum(self.update_times)

    @property
    def reach_rows(self) -> tuple[tuple[int, int, int], ...]:
        """mct_elastic_reach of each: time, and its part of `reach_tensors`, first and end.

        A reach that extends the one before begins where that begins.
        """
        return tuple(
            (reach.time, first, end)
            for reach, (first, end) in zip(self.reaches, self._table[1], strict=True)
        )

    @property
    def reach_tensors(self) -> tuple[int, ...]:
        """Tensors that are not always trained, in the order in which C and Python weigh them."""
        return self._table[0]

    @property
    def always_words(self) -> tuple[int, ...]:
        """A bit for each tensor, the lowest of each 32 first: 1 if it is always trained."""
        return words(self.always, len(self.update_times))

    @property
    def scratch_bytes(self) -> int:
        """MCT_ELASTIC_SCRATCH_BYTES: what the C needs to choose."""
        places = UNITS + 2
        return 6 * places + max(len(self.update_times) * UNITS // 8, 4 * places)

    @cached_property
    def _table(self) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        tensors: list[int] = []
        rows: list[tuple[int, int]] = []
        before: frozenset[int] | None = None
        for reach in self.reaches:
            own = frozenset(reach.tensors) - frozenset(self.always)
            extends = before is not None and before <= own
            first = rows[-1][0] if extends else len(tensors)
            tensors += sorted(own - before if extends and before is not None else own)
            rows.append((first, len(tensors)))
            before = own
        return tuple(tensors), tuple(rows)


@dataclass(frozen=True)
class ElasticTimes:
    """Times of an elastic step. forward: what always runs, up to the loss. unit: of all times."""

    forward: int
    problem: ElasticProblem
    unit: str = "instructions"


def words(selection: Iterable[int], count: int) -> tuple[int, ...]:
    """A selection of `count` tensors as the state keeps it: a bit each, 32 in a word."""
    chosen = set(selection)
    return tuple(
        sum(1 << i - first for i in range(first, min(first + WORD_BITS, count)) if i in chosen)
        for first in range(0, count, WORD_BITS)
    )


def selection_of(values: Iterable[int]) -> tuple[int, ...]:
    """Return what words say, sorted."""
    return tuple(
        WORD_BITS * place + bit
        for place, word in enumerate(values)
        for bit in range(WORD_BITS)
        if word >> bit & 1
    )


def choose(problem: ElasticProblem, importance: Sequence[int], budget: int) -> tuple[int, ...]:
    """The tensors to train, sorted: the most important together whose backward pass fits.

    importance: of each tensor, 0 or more; one of 0 is not trained. budget: of time, for updates and
    for passing the gradient on. The result takes no more than that. Nothing is more important where
    all times are multiples of the unit, which is the budget less `least_time`, divided by
    UNITS - SPARE_UNITS and rounded up. Of equals the cheaper reach, and in it what does without the
    tensors that come later in `reach_tensors`.

    Raises ArgumentError if not even the always trained tensors fit.
    """
    _check_importance(problem, importance)
    if not problem.least_time <= budget < 2**32:
        raise ArgumentError(
            f"what is always trained takes {problem.least_time:,} of the backward pass, and the "
            f"budget is {budget:,}; give more time (less than 2^32)"
        )
    search = _Search(problem, tuple(importance), budget - problem.least_time)
    return tuple(sorted({*problem.always, *search.result()}))


def budget(share_q16: int, forward_time: int, backward_time: int) -> int:
    """Time for the backward pass so that a whole step takes a share of what it could.

    share_q16: of 2^16, not above. forward_time: with the loss. backward_time: if everything is
    trained. ρ · (T_f + T_b) − T_f, rounded down; 0 if that is negative.
    """
    if not 0 <= share_q16 <= ONE_Q16:
        raise ArgumentError(f"the share of a step is {share_q16} / 65,536: give 0 to 1")
    if not (0 <= forward_time < 2**32 and 0 <= backward_time < 2**32):
        raise ArgumentError("the times of a step must be at least 0 and less than 2^32")
    return max((share_q16 * (forward_time + backward_time) >> 16) - forward_time, 0)


@dataclass(frozen=True)
class _Search:
    """The best selection in `left`, the time beyond the least one."""

    problem: ElasticProblem
    importance: tuple[int, ...]
    left: int

    def result(self) -> set[int]:
        """The answer of so many units that it takes no more than `left` in truth, improved."""
        reaches = self.reaches()
        for units in reversed(range(self.limit + 1)):
            reach = reaches[units]
            chosen = self.taken(reach, units - self.units(self.beyond(reach)))
            if self.time(reach, chosen) <= self.left:
                break
        else:
            chosen = set()  # very many tensors of less than half a unit
        return self.improved(reach, chosen)

    @property
    def unit(self) -> int:
        return max(-(-self.left // (UNITS - SPARE_UNITS)), 1)

    @property
    def limit(self) -> int:
        return self.left // self.unit + SPARE_UNITS

    def units(self, time: int) -> int:
        """The nearest number, halves up."""
        return (time + self.unit // 2) // self.unit

    def reaches(self) -> list[int]:
        """The reach of the best selection within each number of units, 0 first.

        Values alone: of a reach that extends the one before only new tensors are weighed.
        """
        g = np.zeros(self.limit + 1, np.int64)
        best, found = g - 1, g.copy()
        begun = done = 0
        for reach, (_, first, end) in enumerate(self.problem.reach_rows):
            if self.beyond(reach) > self.left:
                break
            if first != begun:
                g[:] = 0
                begun = done = first
            for k in self.problem.reach_tensors[done:end]:
                self.weigh(g, k)
            done = end
            units = min(self.units(self.beyond(reach)), len(g))
            ahead = g[: len(g) - units] > best[units:]
            best[units:][ahead] = g[: len(g) - units][ahead]
            found[units:][ahead] = reach
        return [int(reach) for reach in found]

    def weigh(self, g: Array, k: int) -> Array:
        """Allow tensor k. g: the most importance within each number of units. True: k is in it."""
        units = min(self.units(self.problem.update_times[k]), len(g))
        with_k = g[: len(g) - units] + self.importance[k]
        takes = np.zeros(len(g), bool)
        takes[units:] = with_k > g[units:]
        g[units:] = np.maximum(g[units:], with_k)
        return takes

    def taken(self, reach: int, units: int) -> set[int]:
        """The best selection of a reach within so many units."""
        g = np.zeros(self.limit + 1, np.int64)
        decisions = [(k, self.weigh(g, k)) for k in self.tensors(reach)]
        chosen = set()
        for k, takes in reversed(decisions):
            if takes[units]:
                chosen.add(k)
                units -= self.units(self.problem.update_times[k])
        return chosen

    def improved(self, reach: int, chosen: set[int]) -> set[int]:
        """Use the time that rounding left."""
        found = self.with_more(reach, chosen)
        for _ in range(EXCHANGES):
            found = self.exchanged(reach, found)
        return found

    def with_more(self, reach: int, chosen: set[int]) -> set[int]:
        """Add what there is still time for, the most important first, of equals the first."""
        times, importance = self.problem.update_times, self.importance
        spare = self.left - self.time(reach, chosen)
        rest = [k for k in self.tensors(reach) if k not in chosen and importance[k] > 0]
        found = set(chosen)
        for k in sorted(rest, key=lambda k: -importance[k]):
            if times[k] <= spare:
                found.add(k)
                spare -= times[k]
        return found

    def exchanged(self, reach: int, chosen: set[int]) -> set[int]:
        """One tensor in the place of another so that it gains most, as long as one gains.

        Of equals the first that comes, then the first that goes.
        """
        tensors = self.tensors(reach)
        times, importance = self.problem.update_times, self.importance
        spare = self.left - self.time(reach, chosen)
        inside = [k for k in tensors if k in chosen]
        gain, coming, going = 0, -1, -1
        for k in (k for k in tensors if k not in chosen):
            for out in inside if importance[k] > gain else ():
                if times[k] <= spare + times[out] and importance[k] - importance[out] > gain:
                    gain, coming, going = importance[k] - importance[out], k, out
        return (chosen | {coming}) - {going} if gain else chosen

    def tensors(self, reach: int) -> Sequence[int]:
        """Tensors of a reach, without those always trained, in the order of `reach_tensors`."""
        _, first, end = self.problem.reach_rows[reach]
        return self.problem.reach_tensors[first:end]

    def beyond(self, reach: int) -> int:
        """Time that a reach takes more than the first."""
        return self.problem.reaches[reach].time - self.problem.reaches[0].time

    def time(self, reach: int, chosen: Iterable[int]) -> int:
        """Return the true time beyond the least."""
        return self.beyond(reach) + sum(self.problem.update_times[k] for k in chosen)


def _check_times(of: str, times: Sequence[int]) -> None:
    wrong = next((i for i, time in enumerate(times) if not 0 <= time <= MOST_TIME), None)
    if wrong is not None:
        raise ArgumentError(
            f"{of} {wrong} takes {times[wrong]:,}: a time must be at least 0 and less than 2^31"
        )


def _is_reach(reach: Reach, count: int, always: Sequence[int]) -> bool:
    own = reach.tensors
    return set(always) <= set(own) <= set(range(count)) and sorted(set(own)) == list(own)


def _check_importance(problem: ElasticProblem, importance: Sequence[int]) -> None:
    if len(importance) != len(problem.update_times):
        raise ArgumentError(
            f"{len(importance)} importances for {len(problem.update_times)} tensors; give one each"
        )
    if min(importance, default=0) < 0 or sum(importance) > MOST_IMPORTANCE:
        raise ArgumentError(
            "importances must be at least 0, and less than 2^31 together; scale them before"
        )
