"""The definition of right: a training step by Op.reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain import fixedpoint
from mcutrain.autodiff import TrainGraph
from mcutrain.ir.interpret import interpret
from mcutrain.schedule import LearningRate

Array = npt.NDArray[Any]


class ReferenceSimulator:
    """Holds the state of one training run and steps it, slowly and exactly.

    state: every state tensor by name. key, update, sample: the header of the state.
    """

    def __init__(self, training: TrainGraph, seed: int = 1) -> None:
        self.training = training
        self.reset(seed)

    def reset(self, seed: int = 1) -> None:
        """The weights the model came with; seed starts the rounding's random numbers."""
        self.key = seed & 0xFFFFFFFF or 1
        self.update = 0
        self.sample = 0
        self.state: dict[str, Array] = {k: np.array(v) for k, v in self.training.state.items()}

    def train(
        self, x: Array, labels: Sequence[int] | Array, rates: Sequence[LearningRate]
    ) -> tuple[Array, Array]:
        """Train on samples in order. x: int8 [n, …]. Returns losses (Q16 nats), predictions."""
        results = [
            self._step(sample, int(label), rate)
            for sample, label, rate in zip(x, labels, rates, strict=True)
        ]
        losses, predictions = zip(*results, strict=True) if results else ((), ())
        return np.array(losses, np.int32), np.array(predictions, np.int32)

    def infer(self, x: Array) -> Array:
        """The outputs for int8 samples [n, …]."""
        forward = self.training.forward
        parameters = {name: self.state[name] for name in self.training.parameters}
        shape = forward.tensors[self.training.x].type.shape
        outputs = [
            interpret(forward, {self.training.x: sample.reshape(shape), **parameters})
            for sample in x
        ]
        return np.concatenate([o[forward.outputs[0]].reshape(1, -1) for o in outputs])

    def _step(self, x: Array, label: int, rate: LearningRate) -> tuple[int, int]:
        training = self.training
        self.key = fixedpoint.xorshift32(self.key)
        step = np.array(
            [self.key, self.update, self.sample, rate.mult_q31, rate.shift], np.int64
        )
        inputs: dict[str, Array] = {
            training.x: x.reshape(training.graph.tensors[training.x].type.shape),
            training.label: np.array([label], np.int32),
            training.step: step,
            **self.state,
        }
        results = interpret(training.graph, inputs, self._kept())
        self._take_over(results)
        self.sample += 1
        if self.sample == training.accumulate:
            self._apply(results, step)
            self.update, self.sample = self.update + 1, 0
        return int(results[training.loss][0]), int(results[training.prediction][0])

    def _kept(self) -> set[str]:
        """What must survive a step: results, updated state, what the apply nodes read."""
        computed = {name for node in self.training.graph.nodes for name in node.outputs}
        return computed.intersection(
            [self.training.loss, self.training.prediction, *self.training.updated.values()]
        )

    def _take_over(self, results: Mapping[str, Array]) -> None:
        for name, new in self.training.updated.items():
            if new in results:
                self.state[name] = results[new]

    def _apply(self, results: Mapping[str, Array], step: Array) -> None:
        values = {**self.state, **results, self.training.step: step}
        applied: dict[str, Array] = {}
        for node in self.training.apply:
            outputs = node.op.reference(*(values[name] for name in node.inputs))
            applied.update(zip(node.outputs, outputs, strict=True))
        self._take_over(applied)
