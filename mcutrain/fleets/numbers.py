"""The trained numbers of a state as whole numbers that can be subtracted and added."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.saved import HEADER, HEADER_BYTES, SavedState, with_checksum
from mcutrain_host.state import COUNTERS

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import PlanError
from mcutrain.ops.updating import UpdateRule, pack_residual, unpack_residual, updated_state
from mcutrain.pipeline import TrainingStep
from mcutrain.trained.graph import check_state

Array = npt.NDArray[Any]
UPDATES = 1
SAMPLES = 2
"""Where the counters of a state have the updates done, and the samples of the current one."""


@dataclass(frozen=True)
class TrainedNumbers:
    """A trained tensor: an int8 with the bits below it, or a bias, as one whole number each.

    name: of its state. residual: the state with its residual bits, or "". bits: how many those
    are. low, high: the ends at which an update saturates.
    """

    name: str
    residual: str
    bits: int
    low: int
    high: int

    def read(self, tensors: Mapping[str, Array]) -> Array:
        """Flat int64. tensors: of a state, by name."""
        flat = tensors[self.name].ravel().astype(np.int64)
        if not self.residual:
            return flat
        return (flat << self.bits) + unpack_residual(tensors[self.residual], self.bits, flat.size)

    def write(self, tensors: dict[str, Array], numbers: Array) -> None:
        """Put numbers back, clipped to the ends that every update keeps. numbers: flat int64."""
        old, clipped = tensors[self.name], np.clip(numbers, self.low, self.high)
        tensors[self.name] = (clipped >> self.bits).astype(old.dtype).reshape(old.shape)
        if self.residual:
            left = clipped & ((1 << self.bits) - 1)
            tensors[self.residual] = pack_residual(left, self.bits)


@dataclass(frozen=True)
class FleetLayout:
    """Where a step's state has what boards share. The rest of a state stays each board's own."""

    step: TrainingStep

    def __post_init__(self) -> None:
        if self.step.plan.training.resampled:
            raise PlanError(
                "with --resample, boards train other input channels at a time, whose sums mean "
                "nothing: train a fleet without it"
            )

    @cached_property
    def numbers(self) -> tuple[TrainedNumbers, ...]:
        """All trained numbers, in the order of the state."""
        found = {one.name: one for one in _trained_numbers(self.step.plan.training)}
        return tuple(found[name] for name in self.step.plan.training.state if name in found)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """How many numbers each trained tensor has, by name."""
        return {one.name: self.step.plan.training.state[one.name].size for one in self.numbers}

    def saved(self, raw: bytes, where: str) -> SavedState:
        """Parse a state and check that it is of this step. Raises StateError."""
        check_state(self.step, raw, where)
        return SavedState.parse(raw, where)

    def read(self, saved: SavedState) -> dict[str, Array]:
        """The trained numbers of a state, flat int64, by name."""
        tensors = self.step.plan.state.unpack(saved.raw[HEADER_BYTES:])
        return {one.name: one.read(tensors) for one in self.numbers}

    def output_exponent(self, saved: SavedState) -> int:
        """By which power of two the outputs' scale has grown."""
        name = self.step.plan.training.output_exponent
        if name is None:
            return 0
        return int(self.step.plan.state.unpack(saved.raw[HEADER_BYTES:])[name][0])

    def with_numbers(
        self, base: SavedState, numbers: Mapping[str, Array], updates: int, output_exponent: int
    ) -> bytes:
        """A saved state: the base with other trained numbers, and so many updates more.

        It begins a new update: samples of an unfinished one do not count.
        """
        layout = self.step.plan.state
        state = base.raw[HEADER_BYTES:]
        words, tensors = layout.unpack_words(state), layout.unpack(state)
        for one in self.numbers:
            one.write(tensors, numbers[one.name])
        name = self.step.plan.training.output_exponent
        if name is not None:
            tensors[name] = np.full_like(tensors[name], output_exponent)
        counters = words[COUNTERS].astype(np.int64)
        counters[UPDATES] = (counters[UPDATES] + updates) % 2**32
        counters[SAMPLES] = 0
        words[COUNTERS] = counters.astype(np.uint32)
        return with_checksum(base.raw[: HEADER.size], bytes(layout.pack(words, tensors)))


def _trained_numbers(training: TrainGraph) -> list[TrainedNumbers]:
    """By the nodes that update: the last inputs of each are a tensor, its residual bits, slots."""
    found = []
    for node in (*training.graph.nodes, *training.apply):
        rule = getattr(node.op, "rule", None)
        if not isinstance(rule, UpdateRule):
            continue
        first = len(node.inputs) - len(updated_state(rule))
        name, bits = node.inputs[first], max(rule.residual_bits, 0)
        low, high = rule.ends(np.asarray(training.state[name]).dtype)
        residual = node.inputs[first + 1] if bits else ""
        found.append(TrainedNumbers(name, residual, bits, low, high))
    return found
