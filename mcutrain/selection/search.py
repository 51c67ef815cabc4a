"""Candidates in falling order of expected gain: best first over bias depths, bits of biases and
residual bits."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from mcutrain_host.dataclass import dataclass

from mcutrain.selection.choices import Choices
from mcutrain.selection.cost import Limits
from mcutrain.selection.milp import TOLERANCE, Chosen, IntegerProgram
from mcutrain.selection.units import Shares

ROUGH, RELAXED, SOLVED = range(3)
"""What is known of a problem: a rough bound, a nearer one, its best choice."""


@dataclass(frozen=True)
class Contender:
    """A choice that fits as far as sums can say. gain: expected; no other choice has more.

    bits: the residual bits of each layer of `shares`.
    """

    depth: int
    bias_bits: int
    bits: tuple[int, ...]
    shares: Shares
    gain: float
    peak_bytes: int
    chosen: Chosen
    place: int


class BestFirst:
    """All problems of one set of limits, in a heap by what they can still give.

    choices: by bits of biases. fixed: SRAM and flash that firmware takes anyway. solves: how often
    the solver ran. bound: if the solver gave up a proof, what no choice that it left out can gain
    more than.
    """

    def __init__(
        self,
        choices: Mapping[int, Choices],
        limits: Limits,
        fixed: tuple[int, int] = (0, 0),
    ) -> None:
        self.solves = 0
        self.bound = float("-inf")
        each = programs(choices, limits, fixed)
        self._bias_bits = [bias_bits for bias_bits, _ in each]
        self._problems = [problem for _, problem in each]
        self._choices: list[Chosen] = [()] * len(self._problems)
        largest = max((p.value(()) + float(sum(p.gains)) for p in self._problems), default=0.0)
        self._tolerance = TOLERANCE * (abs(largest) or 1.0)
        self._heap: list[tuple[int, int, int, int]] = []
        for place, problem in enumerate(self._problems):
            self._push(problem.rough_bound(), ROUGH, 0, place)

    def best(self) -> Contender | None:
        """The choice with the largest expected gain, and of equal ones the smallest; None: none."""
        while self._heap:
            _, state, _, place = self._heap[0]
            if state == SOLVED:
                return self._candidate(place)
            heapq.heappop(self._heap)
            self._refine(place, state)
        return None

    def cut(self, candidate: Contender) -> None:
        """Forbid the choice that `best` returned."""
        heapq.heappop(self._heap)
        place = candidate.place
        self._problems[place] = self._problems[place].without(candidate.chosen)
        self._refine(place, RELAXED)

    def _refine(self, place: int, state: int) -> None:
        """Find out more about a problem."""
        problem = self._problems[place]
        self.solves += 1
        if state == ROUGH:
            self._push(problem.bound(), RELAXED, 0, place)
            return
        answer = problem.best()
        if answer is not None:
            found, bound = answer
            self.bound = max(self.bound, bound)
            self._choices[place] = found
            self._push(problem.value(found), SOLVED, problem.peak_bytes(found), place)

    def _push(self, gain: float | None, state: int, peak_bytes: int, place: int) -> None:
        """Equal gains: what is less known first, then the smaller, then the lower depth."""
        if gain is not None:
            heapq.heappush(self._heap, (-round(gain / self._tolerance), state, peak_bytes, place))

    def _candidate(self, place: int) -> Contender:
        problem, chosen = self._problems[place], self._choices[place]
        return contender(problem, self._bias_bits[place], chosen, problem.value(chosen), place)


def programs(
    choices: Mapping[int, Choices], limits: Limits, fixed: tuple[int, int]
) -> list[tuple[int, IntegerProgram]]:
    """Return a program for every bias depth and residual bits, with the bits of biases."""
    return [
        (bias_bits, IntegerProgram.of(depth, bits, limits, fixed))
        for place, (bias_bits, found) in enumerate(choices.items())
        for depth in found.depths
        for bits in (found.column_bits if depth.depth else found.column_bits[:1])
        if depth.depth or place == 0
    ]


def contender(
    problem: IntegerProgram, bias_bits: int, chosen: Chosen, gain: float, place: int
) -> Contender:
    """A choice in terms of what it trains."""
    taken = problem.options(chosen)
    shares = tuple(sorted(pair for o in taken for pair in o.shares))
    own = {i: b for o in taken for (i, _), b in zip(o.shares, o.bits, strict=False)}
    return Contender(
        problem.depth.depth,
        bias_bits,
        tuple(own.get(i, problem.bits) for i, _ in shares),
        shares,
        gain,
        problem.peak_bytes(chosen),
        chosen,
        place,
    )
