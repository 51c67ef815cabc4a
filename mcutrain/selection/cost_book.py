"""Costs of the schemes of one network, each asked for once, and what a choice adds to another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.selection.cost import UNNAMED, CostFunction, SchemeCost
from mcutrain.selection.timeline import Timeline
from mcutrain.selection.units import Shares, Structure
from mcutrain.sparse.scheme import UpdateScheme

Array = npt.NDArray[Any]
Progress = Callable[[int, int], None]
ALIGN_BYTES = 4


@dataclass(frozen=True)
class Added:
    """What weights add to the biases alone. memory: arena bytes at each step of the timeline."""

    memory: Array
    state_bytes: int
    instructions: int

    @staticmethod
    def total(parts: Iterable[Added]) -> Added:
        """The sum."""
        parts = list(parts)
        memory: Array = np.array(np.sum([part.memory for part in parts], axis=0, dtype=np.int64))
        return Added(
            memory,
            sum(part.state_bytes for part in parts),
            sum(part.instructions for part in parts),
        )

    @staticmethod
    def least(parts: Sequence[Added]) -> Added:
        """The smallest of each number."""
        return Added(
            np.min([part.memory for part in parts], axis=0),
            min(part.state_bytes for part in parts),
            min(part.instructions for part in parts),
        )

    def times(self, factor: int) -> Added:
        """Every number times the factor."""
        return Added(self.memory * factor, self.state_bytes * factor, self.instructions * factor)

    def equals(self, other: Added) -> bool:
        """Return whether every number is the same."""
        return (self.state_bytes, self.instructions) == (
            other.state_bytes,
            other.instructions,
        ) and bool(np.array_equal(self.memory, other.memory))


class CostBook:
    """structure: of what layers and modules choices are. bits: the residual bits at which memory is
    measured; the state's size tells of the others. bias_bits: of all biases.

    progress is told how many costs are known, and of how many in all (a guess until the end).
    """

    def __init__(
        self,
        structure: Structure,
        cost: CostFunction,
        bits: int,
        progress: Progress,
        bias_bits: int = UpdateScheme.bias_bits,
    ) -> None:
        self.structure, self.bits, self.bias_bits = structure, bits, bias_bits
        self.expected = 0
        self._cost, self._progress = cost, progress
        self._costs: dict[tuple[int, Shares, int], SchemeCost] = {}
        self._timeline: Timeline | None = None

    def __len__(self) -> int:
        return len(self._costs)

    @property
    def timeline(self) -> Timeline:
        """Timeline of all schemes that were costed; it may change when another one is."""
        if self._timeline is None:
            longest_first = sorted(self._costs.values(), key=lambda cost: -len(cost.steps))
            self._timeline = Timeline(cost.steps for cost in longest_first)
        return self._timeline

    def at(self, depth: int, shares: Shares = (), bits: int | None = None) -> SchemeCost:
        """The cost of a scheme."""
        key = (depth, shares, self.bits if bits is None else bits)
        if key not in self._costs:
            self._costs[key] = found = self._cost(self.structure.scheme(*key, self.bias_bits))
            if self._timeline is not None and not self._timeline.holds(found.steps):
                self._timeline = None
            self._progress(len(self._costs), max(self.expected, len(self._costs)))
        return self._costs[key]

    def memory(self, depth: int, shares: Shares = ()) -> Array:
        """Arena bytes at each step of the timeline."""
        cost = self.at(depth, shares)
        return self.timeline.memory(cost)

    def added(self, depth: int, shares: Shares) -> Added:
        """Return what the weights add."""
        base, cost = self.at(depth), self.at(depth, shares)
        return Added(
            self.memory(depth, shares) - self.memory(depth),
            sum(cost.state.values()) - sum(base.state.values()),
            cost.instructions - base.instructions,
        )

    def unnamed(self, depth: int, shares: Shares) -> Added:
        """State and work that they add at steps that do not mean the same in all schemes."""
        base, cost = self.at(depth), self.at(depth, shares)
        new = [
            {name: value for name, value in after.items() if name not in before}
            for before, after in ((base.state, cost.state), (base.work, cost.work))
        ]
        state, work = (
            sum(value for name, value in values.items() if name.startswith(UNNAMED))
            for values in new
        )
        return Added(np.zeros(len(self.timeline.steps), np.int64), state, work)

    def adds_up(self, depth: int, shares: Shares) -> bool:
        """Return whether all together add what each of them adds alone."""
        together = self.added(depth, shares)  # first: it may change the timeline
        return together.equals(Added.total(self.added(depth, (one,)) for one in shares))

    def same(self, depth: int, other: int, shares: Shares) -> bool:
        """Return whether the weights add the same at two depths."""
        there = self.added(other, shares)
        return self.added(depth, shares).equals(there)

    def state_names(self, depth: int, shares: Shares) -> frozenset[str]:
        """The state tensors that the weights bring."""
        return frozenset(self.at(depth, shares).state.keys() - self.at(depth).state.keys())

    def flash_added(self, depth: int, shares: Shares, shared: frozenset[Hashable]) -> int:
        """Return the least bytes of flash that the weights add.

        shared: parts that other choices bring, too; they are not counted.
        """
        base, cost = self.at(depth).flash, self.at(depth, shares).flash
        new = cost.keys() - base.keys() - shared
        gone = base.keys() - cost.keys()
        return sum(cost[key].size_bytes for key in new if cost[key].is_certain) - sum(
            base[key].size_bytes for key in gone
        )

    def flash_shared(
        self, depth: int, shares: Shares, shared: frozenset[Hashable]
    ) -> dict[Hashable, int]:
        """Bytes of those shared parts that the weights bring."""
        base, cost = self.at(depth).flash, self.at(depth, shares).flash
        new = (cost.keys() - base.keys()) & shared
        return {key: cost[key].size_bytes for key in new if cost[key].is_certain}

    def flash_keys(self, depth: int, shares: Shares = ()) -> frozenset[Hashable]:
        """All parts in flash."""
        return frozenset(self.at(depth, shares).flash)


def initial_bytes(sizes: Mapping[str, int]) -> int:
    """Return what the initial values of state tensors take in flash."""
    return sum(-(-size // ALIGN_BYTES) * ALIGN_BYTES for size in sizes.values())
