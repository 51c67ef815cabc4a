"""The gate by numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy.typing as npt
from mcutrain_host.state import GATE_MEAN, GATE_SKIPPED

from mcutrain.autodiff.gate import followed
from mcutrain.features.reference import WORD, Number, StepRate, StepState
from mcutrain.ir.interpret import interpret

Array = npt.NDArray[Any]


class GateState(StepState):
    """mean_q19: of late losses. skipped: samples that were not learnt."""

    mean_q19 = Number(GATE_MEAN)
    skipped = Number(GATE_SKIPPED)

    def gated(self, inputs: Mapping[str, Array], rate: StepRate) -> dict[str, Array]:
        """The step up to its loss, and the rest if the gate lets it pass.

        Updates are numbered as if there had been no skipped samples, which are counted modulo 2^32.
        But the outputs' exponent, which only classifiers have, follows each sample, and by its
        number among all.
        """
        training, gate = self.training, self.training.gate
        assert gate is not None, "the step has no gate"
        learnt = (self.position - self.skipped) & WORD
        step = self.numbered(*divmod(learnt, training.accumulate), rate)
        first = self.numbered(self.update, self.sample, rate) if training.has_labels else step
        begin = replace(training.graph, nodes=training.graph.nodes[: training.loss_step + 1])
        made = begin.nodes[-1].outputs
        results = interpret(begin, {**inputs, training.step: first}, made)
        passes = gate.learns(self.mean_q19, int(results[training.loss][0]))
        self.mean_q19 = followed(self.mean_q19, int(results[training.loss][0]))
        if passes:
            self.learn(inputs, step)
        else:
            self.skipped = (self.skipped + 1) & WORD
        if training.output_exponent is not None:
            followed_by = training.updated[training.output_exponent]
            self.state[training.output_exponent] = results[followed_by]
        return results
