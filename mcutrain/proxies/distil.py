"""A front trained, in integers, to give the latents of another one.

Distillation as PieBridge has it, of the features that a tail reads: mean squared error at the
latent, for weights and biases that the whole front does not have. The training step is that of any
other network, with targets for labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff import TrainOptions, differentiate
from mcutrain.ir.graph import Graph
from mcutrain.ir.verify import proven
from mcutrain.memplan import plan_training
from mcutrain.ops.mean_squared_error import MeanSquaredError
from mcutrain.pipeline import TrainingStep
from mcutrain.proxies.behind import Behind
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.rates import LearningRate, Schedule
from mcutrain.sparse import UpdateScheme, all_layers_of, arrange, find_head
from mcutrain.trained import trained_tensors

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]

RATES = tuple(0.1 / 4**n for n in range(8))
"""Rates of which one is taken. The best depends on the scale and the size of a latent."""
TRIED_SAMPLES = 256
"""Most samples with which each rate is tried."""
SCHEME = UpdateScheme("distillation", None, depth_weights=None, residual_bits=8)
HELD_SHARE = 5
"""One of so many samples tells how good a rate is, and whether anything was gained."""
WARMUP_SHARE = 10
CHUNK = 16
SEED = 1


@dataclass(frozen=True)
class Distilled:
    """A front, and by which share of what it was its squared error became less; 0: it is as it was.

    The error is of samples that were not trained on.
    """

    front: Graph
    gain: float


def distil(
    front: Graph,
    whole: Graph,
    x: Array,
    wanted: Array,
    passes: int,
    report: Report = lambda *_: None,
) -> Distilled:
    """The front with weights that give latents nearer to `wanted`; as it is if none are found.

    whole: the front whose weights stay where `front` has them, too. x: samples, int8 [n, …].
    wanted: their latents, int8 [n, …], of the type of the front's own. passes: over the samples,
    at the rate that is best for some of them. report: samples done, of how many.
    """
    step = training_step(front, whole)
    held = len(x) // HELD_SHARE
    if step is None or not held or not passes:
        return Distilled(front, 0.0)
    run = _Run(step, x, wanted, held, passes, report)
    before, errors = run.error(), []
    for rate in RATES:
        run.train(rate, run.tried)
        errors.append(run.error())
    run.train(RATES[int(np.argmin(errors))], run.steps)
    after = run.error()
    if not after < before:
        return Distilled(front, 0.0)
    values = trained_tensors(step, run.simulator.save())
    tensors = {n: replace(t, data=values.get(n, t.data)) for n, t in front.tensors.items()}
    return Distilled(proven(replace(front, tensors=tensors)), 1 - after / before)


class _Run:
    """Samples and latents to train on, and others to judge by."""

    def __init__(
        self,
        step: TrainingStep,
        x: Array,
        wanted: Array,
        held: int,
        passes: int,
        report: Report,
    ) -> None:
        self.simulator: CompiledSimulator = step.simulator()
        self.begin = self.simulator.save()
        self.x, self.wanted = x[:-held], wanted[:-held]
        self.held_x, self.held_wanted = x[-held:], wanted[-held:]
        random = np.random.default_rng(SEED)
        self.order = np.concatenate([random.permutation(len(self.x)) for _ in range(passes)])
        self.steps, self.tried = len(self.order), min(len(self.x), TRIED_SAMPLES)
        self.report, self.done = report, 0
        self.total = self.steps + len(RATES) * self.tried

    def train(self, rate: float, steps: int) -> None:
        """Train from the beginning."""
        self.simulator.load(self.begin)
        order = self.order[:steps]
        schedule = Schedule(LearningRate.of(rate), "cosine", steps // WARMUP_SHARE, steps)
        for first in range(0, steps, CHUNK):
            index = order[first : first + CHUNK]
            rates = [schedule.at(first + i) for i in range(len(index))]
            self.simulator.train(self.x[index], self.wanted[index], rates)
            self.done += len(index)
            self.report(self.done, self.total)

    def error(self) -> float:
        """Mean squared, in steps of the latent, of samples that are held out."""
        squares = 0.0
        for first in range(0, len(self.held_x), CHUNK):
            rows = slice(first, first + CHUNK)
            found = self.simulator.infer(self.held_x[rows]).astype(np.int64)
            wanted = self.held_wanted[rows].astype(np.int64)
            squares += float(((found.reshape(wanted.shape) - wanted) ** 2).sum())
        return squares / self.held_wanted.size


def training_step(front: Graph, whole: Graph) -> TrainingStep | None:
    """The step that trains what the whole front does not have; None if there is nothing."""
    graph = _with_sums(front)
    head = find_head(graph)
    order, updates = arrange(SCHEME, graph)
    known = {whole.tensors[name].content() for name in whole.constants()}
    own = [
        name
        for layer in all_layers_of(graph, head)
        if graph.tensors[layer.weight].content() not in known
        for name in (layer.weight, layer.bias)
    ]
    chosen = {name: updates[name] for name in own if name in updates}
    if not chosen:
        return None
    loss = MeanSquaredError.to(front.tensors[front.outputs[0]].type)
    training = differentiate(order.graph, head.name, chosen, loss, TrainOptions())
    plan = plan_training(training, search=False, stream="off")
    return TrainingStep(graph, SCHEME, plan, order)


def _with_sums(front: Graph) -> Graph:
    """The front with a layer behind it that changes nothing, whose sums are the latent.

    What a loss reads are the sums of a layer, and a latent may come from an addition.
    """
    made = Behind(front)
    kind = made.type
    channels = kind.shape[-1]
    w, bias = np.eye(channels, dtype=np.int8), np.zeros(channels, np.int32)
    made.dense("same", w, 1.0, bias, kind.scale, kind.zero_point)
    return made.result()
