"""Training with a proxy cascade by Op.reference: what the generated C does with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.features import WORD, features_of
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.memplan import TrainingPlan, find_latent, front, tail
from mcutrain.simulation.rates import LearningRate
from mcutrain.simulation.reference import PlannedReference

Array = npt.NDArray[Any]


class LadderReference(PlannedReference):
    """The policy chooses a front for each sample; the step begins with what that makes of it."""

    def __init__(self, plan: TrainingPlan, seed: int = 1) -> None:
        assert plan.ladder is not None, "the step has no cascade"
        super().__init__(plan, seed)
        latent = find_latent(plan, plan.ladder.latent)
        whole = front(self.training, latent)
        self.policy = plan.ladder.policy.graph
        self.fronts = (whole, *(proxy.graph for proxy in plan.ladder.proxies))
        self.training = tail(self.training, latent)
        choices = (feature.level_choice for feature in features_of(plan.training))
        self.choice = next(filter(None, choices), None)

    def level(self, sample: Array) -> int:
        """Return the level with the largest score, the lowest of equal ones."""
        scores = _only_output(self.policy, sample).ravel().tolist()
        if self.choice is not None:
            return self.choice.level(self.words, scores)
        return scores.index(max(scores))

    def front(self, x: Array) -> Array:
        """The latents of samples, int8 [n, …], each by the front that a step would take for it."""
        return self._latents(x, self.levels(x).tolist())

    def levels(self, x: Array) -> Array:
        """Return the level that a step would take now, for each sample of int8 [n, …]."""
        return np.array([0 if self.probes else self.level(sample) for sample in x], np.int64)

    @property
    def probes(self) -> bool:
        """Whether a step now takes the whole front, whatever the sample."""
        return self.choice is not None and self.choice.probes(self.words, self.level_samples)

    def replay(
        self, x: Array, labels: Sequence[int] | Array, rates: Sequence[LearningRate]
    ) -> tuple[Array, Array]:
        """As `train`, of samples whose latents were remembered, so that no front counts."""
        steps = zip(self.front(x), labels, rates, strict=True)
        results = [super(LadderReference, self)._step(*step) for step in steps]
        losses, predictions = zip(*results, strict=True)
        return np.array(losses, np.int32), np.array(predictions, np.int32)

    def _step(self, x: Array, label: int | Array, rate: LearningRate) -> tuple[int, int]:
        wanted, probes = self.level(x), self.probes
        level = 0 if probes else wanted
        counts = self.level_samples
        counts[level] = (counts[level] + 1) & WORD
        self.level_samples = counts
        loss_q16, prediction = super()._step(_only_output(self.fronts[level], x), label, rate)
        if self.choice is not None:
            self.choice.follow(self.words, wanted, loss_q16, probes)
        return loss_q16, prediction

    def infer(self, x: Array) -> Array:
        """The outputs for int8 samples [n, …]."""
        return super().infer(self._latents(x, [self.level(sample) for sample in x]))

    def _latents(self, x: Array, levels: Sequence[int]) -> Array:
        pairs = zip(levels, x, strict=True)
        return np.concatenate([_only_output(self.fronts[level], sample) for level, sample in pairs])


def reference_of(plan: TrainingPlan, seed: int = 1) -> PlannedReference:
    """Return what a plan's step means, with a proxy cascade or without."""
    return PlannedReference(plan, seed) if plan.ladder is None else LadderReference(plan, seed)


def _only_output(graph: Graph, sample: Array) -> Array:
    (x,), (y,) = graph.inputs, graph.outputs
    found: Array = interpret(graph, {x: sample.reshape(graph.tensors[x].type.shape)}, [y])[y]
    return found
