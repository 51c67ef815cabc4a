"""Input-channel resampling by numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.autodiff.train_graph import ResampledWeight
from mcutrain.features.reference import WORD, Number, StepState
from mcutrain.ops.merge_columns import merged
from mcutrain.ops.updating import pack_residual, unpack_residual
from mcutrain.sparse.columns import drawn, scored

Array = npt.NDArray[Any]

RESAMPLED_POSITION = "swap_position"
"""The kind of its section of the state."""


class ResamplingState(StepState):
    """resampled: the position + 1 at which columns were resampled last, or 0."""

    resampled = Number(RESAMPLED_POSITION)

    def read_by_inference(self) -> tuple[str, ...]:
        """Weights in the backing store, and which of their columns are trained."""
        apart = (name for s in self.training.resampled for name in (s.backing, s.columns))
        return (*super().read_by_inference(), *apart)

    def kept(self) -> dict[str, Array]:
        """Return the tensors with the trained columns in their weights."""
        tensors = super().kept()
        for weight in self.training.resampled:
            tensors |= self.put_back(weight)
        return tensors

    def is_sound(self, state: Mapping[str, Array]) -> bool:
        """Columns rise, and are columns of their weight."""
        rising = (
            np.diff(state[w.columns], prepend=-1, append=state[w.backing].shape[-1]) > 0
            for w in self.training.resampled
        )
        return super().is_sound(state) and all(steps.all() for steps in rising)

    def resample(self) -> None:
        """Put the trained columns back into their weights, and draw others to train.

        Once at a position: another time it changes nothing.
        """
        now = (self.position + 1) & WORD
        if self.resampled == now or not self.training.resampled:
            return
        for weight in self.training.resampled:
            self._score(weight)
        self.resampled = now
        for number, weight in enumerate(self.training.resampled):
            self.state.update(self.put_back(weight))
            whole, count = self.state[weight.backing], len(self.state[weight.columns])
            scores = np.zeros(whole.shape[-1], np.uint8)
            if weight.scores:
                scores = self.state[weight.backing_scores]
            columns = drawn(self.key, number, count, scores)
            self.state[weight.columns] = columns
            if weight.scores:
                self.state[weight.scores] = scores[columns]
            self.state[weight.trained] = whole[..., columns]
            if weight.bits:
                bits = unpack_residual(self.state[weight.backing_residual], weight.bits, whole.size)
                taken = bits.reshape(whole.shape)[..., columns].ravel()
                self.state[weight.residual] = pack_residual(taken, weight.bits)

    def _score(self, weight: ResampledWeight) -> None:
        """Says of the trained columns what they are worth, after their first turn."""
        if not weight.scores:
            return
        columns, now = self.state[weight.columns], self.state[weight.trained].astype(np.int64)
        before = self.training.backing[weight.backing][..., columns].astype(np.int64) << weight.bits
        now = now << weight.bits
        if weight.bits:
            own = unpack_residual(self.state[weight.residual], weight.bits, now.size)
            now = now + own.reshape(now.shape) - (1 << weight.bits - 1)
        self.state[weight.scores] = scored(self.state[weight.scores], now - before)

    def put_back(self, weight: ResampledWeight) -> dict[str, Array]:
        """A weight and its residual bits in the backing store, with what is trained of it now."""
        state, columns = self.state, self.state[weight.columns]
        whole, part = state[weight.backing], state[weight.trained]
        found = {weight.backing: merged(whole, part, columns)}
        if weight.bits:
            bits = unpack_residual(state[weight.backing_residual], weight.bits, whole.size)
            own = unpack_residual(state[weight.residual], weight.bits, part.size)
            both = merged(bits.reshape(whole.shape), own.reshape(part.shape), columns)
            found[weight.backing_residual] = pack_residual(both.ravel(), weight.bits)
        if weight.scores:
            scores = (state[weight.backing_scores], state[weight.scores])
            found[weight.backing_scores] = merged(*scores, columns)
        return found
