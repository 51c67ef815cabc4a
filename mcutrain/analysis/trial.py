"""One candidate, trained and tested: what runs in another process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import data
from mcutrain.analysis.candidates import HEAD
from mcutrain.analysis.cut_step import CutStep, cut_step
from mcutrain.analysis.front import Cut
from mcutrain.codegen import Project, generate
from mcutrain.ir.graph import Graph
from mcutrain.memplan import TrainingPlan
from mcutrain.quant import scale_outputs
from mcutrain.simulation import CompiledSimulator, rounding_seed
from mcutrain.simulation.build import build_library
from mcutrain.simulation.metrics.regression import Regression
from mcutrain.simulation.rates import LearningRate, Schedule
from mcutrain.sparse import find_head

Array = npt.NDArray[Any]

CHUNK = 32
"""Samples per call of the simulator: how long an interruption may take."""
LEAST_R2 = -1.0
"""R² has no lower bound; below this it says that a candidate diverged, not what it adds."""


@dataclass(frozen=True)
class TrialSettings:
    """How a candidate is trained: all that, beside model and data, its result depends on.

    learning_rate: per sample, with a cosine schedule. seed: of the order of samples and the
    rounding.
    """

    epochs: int
    learning_rate: float
    seed: int
    warmup: float = 0.1


def run_trial(
    step: CutStep,
    settings: TrialSettings,
    train_x: Array,
    train_y: Array,
    test_x: Array,
    test_y: Array,
) -> dict[str, float]:
    """Train and test; accuracy, probability, loss, and the seconds that it took.

    step: behind a cut; train_x, test_x: int8 activations there.
    """
    started = time.monotonic()
    simulator = compiled(step, settings.seed)
    built = time.monotonic()
    train(simulator, step, train_x, train_y, settings)
    trained = time.monotonic()
    measured = evaluate(simulator, step, test_x, test_y)
    return {
        **measured,
        "build_seconds": built - started,
        "train_seconds": trained - built,
        "test_seconds": time.monotonic() - trained,
    }


def compiled(step: CutStep, seed: int) -> CompiledSimulator:
    """The step as `mcutrain simulate --seed` compiles it; the library is not kept.

    Nobody trains this again, and the objects that others share stay in the cache.
    """
    plan = step.plan()
    project = generate(plan, "candidate")
    library = build_library(project)
    simulator = CompiledSimulator(plan, seed=rounding_seed(seed), project=project)
    library.unlink(missing_ok=True)
    return simulator


def train(
    simulator: CompiledSimulator, cut: CutStep, x: Array, y: Array, settings: TrialSettings
) -> None:
    """All epochs, in the order and at the rates of `mcutrain simulate`."""
    total = settings.epochs * len(y)
    base = LearningRate.of(settings.learning_rate)
    schedule = Schedule(base, "cosine", round(settings.warmup * total), total)
    step = 0
    for epoch in range(settings.epochs):
        order = data.order(len(y), epoch, settings.seed)
        for first in range(0, len(y), CHUNK):
            index = order[first : first + CHUNK]
            rates = [schedule.at(step + i) for i in range(len(index))]
            simulator.train(cut.ordered(x[index]), y[index], rates)
            step += len(index)


def evaluate(simulator: CompiledSimulator, step: CutStep, x: Array, y: Array) -> dict[str, float]:
    """accuracy; probability: mean softmax of the right class; loss: mean, in nats.

    The logits are the integers that the device computes, times the scale they have by now. Where y
    is of positions, all of this is of those that are not ignored. Of real targets: r2, the share of
    their variance that the outputs explain, LEAST_R2 at least, and loss, 1 less that.
    """
    forward = simulator.plan.training.forward
    scale = forward.tensors[forward.outputs[0]].type.scale
    chunks = [
        simulator.infer(step.ordered(x[first : first + 4 * CHUNK]))
        for first in range(0, len(x), 4 * CHUNK)
    ]
    outputs = np.concatenate(chunks)
    if step.targets is not None:
        known = Regression(step.targets)
        r2 = known.tested([known.errors(outputs, y)], y).r2
        assert r2 is not None, "Problem.of has looked"
        r2 = max(r2, LEAST_R2)
        return {"r2": r2, "loss": 1.0 - r2}
    if simulator.plan.training.threshold is not None:  # one logit, of the second class
        zeros = np.full((len(outputs), 1), simulator.plan.training.threshold, outputs.dtype)
        outputs = np.hstack((zeros, outputs.reshape(len(outputs), 1)))
    if y.ndim > 1:
        counted = y.ravel() != data.IGNORED
        outputs, y = outputs.reshape(y.size, -1)[counted], y.ravel()[counted]
    logits = outputs.astype(np.float64) * scale * 2.0 ** output_exponent(simulator)
    logits -= logits.max(axis=1, keepdims=True)
    log_probability = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    right = log_probability[np.arange(len(y)), y]
    return {
        "accuracy": float((outputs.argmax(axis=1) == y).mean()),
        "probability": float(np.exp(right).mean()),
        "loss": float(-right.mean()),
    }


@dataclass(frozen=True)
class HeadTrials:
    """Trains the head alone at several rates, by C that is compiled once.

    graph: whose head. step: behind a cut. project: of its plan.
    """

    graph: Graph
    step: CutStep
    plan: TrainingPlan
    project: Project

    @staticmethod
    @contextmanager
    def of(graph: Graph, cut: Cut, targets: data.Targets | None) -> Iterator[HeadTrials]:
        """Behind a cut. The library is not kept, as that of `compiled`."""
        step = cut_step(graph, HEAD.scheme(), cut, targets)
        plan = step.plan()
        project = generate(plan, "candidate")
        library = build_library(project)
        try:
            yield HeadTrials(graph, step, plan, project)
        finally:
            library.unlink(missing_ok=True)

    def trained(self, x: Array, y: Array, settings: TrialSettings) -> CompiledSimulator:
        """Return what has trained the head from its start. x: activations at the cut."""
        seed = rounding_seed(settings.seed)
        simulator = CompiledSimulator(self.plan, seed=seed, project=self.project)
        train(simulator, self.step, x, y, settings)
        return simulator

    def with_head(self, simulator: CompiledSimulator) -> Graph:
        """The graph with the head that a simulator has trained."""
        graph, state = self.graph, simulator.state
        head = find_head(graph)
        tensors = {
            name: replace(graph.tensors[name], data=state[name])
            for name in (head.weight, head.bias)
        }
        trained = replace(graph, tensors={**graph.tensors, **tensors})
        return scale_outputs(trained, find_head(trained).node, output_exponent(simulator))


def trained_head(
    graph: Graph,
    cut: Cut,
    x: Array,
    y: Array,
    settings: TrialSettings,
    targets: data.Targets | None = None,
) -> Graph:
    """The graph with its head trained alone. x: activations at the cut."""
    with HeadTrials.of(graph, cut, targets) as trials:
        return trials.with_head(trials.trained(x, y, settings))


def output_exponent(simulator: CompiledSimulator) -> int:
    """Return the power of two by which training made the outputs' scale larger."""
    name = simulator.plan.training.output_exponent
    return 0 if name is None else int(simulator.state[name][0])
