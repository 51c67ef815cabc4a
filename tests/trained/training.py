"""A short training, and what the device then computes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mcutrain import prepare
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import parse_scheme
from mcutrain.trained import trained_graph

STEPS = 24
RATE = 1.0
"""So high that all that is trained moves by several steps of its scale."""


@dataclass(frozen=True)
class Trained:
    """A trained state, the graph with it, random inputs, and the device's outputs for them."""

    step: TrainingStep
    saved: bytes
    graph: Graph
    x: Any
    outputs: Any


def train(original: Graph, scheme: str, **how: Any) -> Trained:
    """Train in compiled C on random samples.

    how: of `prepare`; bias_bits and update_rule of the scheme.
    """
    chosen = replace(
        parse_scheme(scheme),
        bias_bits=how.pop("bias_bits", 32),
        update_rule=how.pop("update_rule", "sgd"),
    )
    step = prepare(original, chosen, **how)
    rng = np.random.default_rng(3)
    shape = original.tensors[original.inputs[0]].type.shape[1:]
    x = rng.integers(-128, 128, (STEPS, *shape)).astype(np.int8)
    labels = rng.integers(0, step.plan.training.classes, STEPS).astype(np.int32)
    simulator = step.simulator()
    simulator.train(x, labels, [LearningRate.of(RATE)] * STEPS)
    saved = simulator.save()
    return Trained(step, saved, trained_graph(step, saved, original), x, simulator.infer(x))
