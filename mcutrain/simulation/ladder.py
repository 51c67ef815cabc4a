"""Training with a ladder of fronts by Op.reference: what the generated C does with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.memplan import TrainingPlan, find_latent, front, tail
from mcutrain.simulation.rates import LearningRate
from mcutrain.simulation.reference import PlannedReference

Array = npt.NDArray[Any]


class LadderReference(PlannedReference):
    """The policy chooses a front for each sample; the step begins with what that makes of it."""

    def __init__(self, plan: TrainingPlan, seed: int = 1) -> None:
        assert plan.ladder is not None, "the step has no ladder"
        super().__init__(plan, seed)
        latent = find_latent(plan, plan.ladder.latent)
        whole = front(self.training, latent)
        self.policy = plan.ladder.policy.graph
        self.fronts = (whole, *(proxy.graph for proxy in plan.ladder.proxies))
        self.training = tail(self.training, latent)

    def level(self, sample: Array) -> int:
        """Of the largest score, of equal ones the lowest."""
        return int(np.argmax(_only_output(self.policy, sample)))

    def front(self, x: Array) -> Array:
        """The latents of samples, int8 [n, …], each by the front that is chosen for it."""
        return np.concatenate([_only_output(self.fronts[self.level(s)], s) for s in x])

    def train(
        self, x: Array, labels: Sequence[int] | Array, rates: Sequence[LearningRate]
    ) -> tuple[Array, Array]:
        """As of any simulator, from samples."""
        for sample in x:
            self.level_samples[self.level(sample)] += 1
        return super().train(self.front(x) if len(x) else x, labels, rates)

    def infer(self, x: Array) -> Array:
        """The outputs for int8 samples [n, …]."""
        return super().infer(self.front(x))


def reference_of(plan: TrainingPlan, seed: int = 1) -> PlannedReference:
    """What a plan's step means, with a ladder or without."""
    return PlannedReference(plan, seed) if plan.ladder is None else LadderReference(plan, seed)


def _only_output(graph: Graph, sample: Array) -> Array:
    (x,), (y,) = graph.inputs, graph.outputs
    found: Array = interpret(graph, {x: sample.reshape(graph.tensors[x].type.shape)}, [y])[y]
    return found
