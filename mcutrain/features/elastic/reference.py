"""Elastic steps by numpy."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain_host.state import SELECTED_TENSORS

from mcutrain.features.reference import StepState
from mcutrain.sparse.elastic import selection_of, words


class ElasticState(StepState):
    """Which tensors are trained."""

    @property
    def selected(self) -> tuple[int, ...]:
        """Indices of the elastic tensors that are trained."""
        return selection_of(self.words.get(SELECTED_TENSORS, ()))

    @selected.setter
    def selected(self, tensors: Sequence[int]) -> None:
        if SELECTED_TENSORS in self.words:
            self.words[SELECTED_TENSORS][:] = words(tensors, len(self.training.elastic))

    def begin(self, seed: int) -> None:
        """All are trained at first."""
        super().begin(seed)
        self.selected = tuple(range(len(self.training.elastic)))

    def select(self, tensors: Sequence[int]) -> None:
        """Train these of the elastic tensors, by index, and those that always are."""
        always = (i for i, t in enumerate(self.training.elastic) if t.is_always_trained)
        self.selected = tuple(sorted({*tensors, *always}))

    def left_out(self) -> frozenset[str]:
        """Nodes that are there for tensors alone that are not trained now."""
        if not self.training.elastic:
            return frozenset()
        selected = set(self.selected)
        return frozenset(n for n, served in self.training.served.items() if not served & selected)
